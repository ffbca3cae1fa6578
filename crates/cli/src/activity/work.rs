//! A worker: it takes tasks, runs a command for each, and answers.
//!
//! A taken task is always answered, whatever happens to the server meanwhile: the answer is repeated until it is
//! accepted or refused, and the same answer twice counts once.

use crate::arguments::WorkArguments;
use crate::data::{Data, Whom};
use crate::duration;
use crate::{table, terminal};
use anyhow::{Context, Result, bail};
use perdura_asl::json::Payload;
use perdura_engine::{Certainty, Fault, Limits, Outcome};
use perdura_server::control::{Answer, Request, Task};
use perdura_server::retention::ms;
use perdura_server::{Refusal, RefusalKind};
use perdura_tasks::functions::{self, Environment, Group, Program, Work};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The exit code of a program that was interrupted twice.
const INTERRUPTED: i32 = 130;
/// The pause before a lost server is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often an answer is sent to a lost server.
const OFFERS_MAX: u32 = 600;

/// The result of a task.
enum Verdict {
    Done(Payload),
    Failed {
        fault: Fault,
        /// Whether the effect was performed.
        certainty: Certainty,
    },
}

impl Verdict {
    fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded { output } | Outcome::Submitted { output } => Self::Done(output),
            Outcome::Failed { fault, certainty } | Outcome::SubmitFailed { fault, certainty } => {
                Self::Failed { fault, certainty }
            }
            Outcome::NotStarted { fault, .. } => Self::Failed { fault, certainty: Certainty::NotSent },
        }
    }
}

/// The state that all threads share.
struct Worker {
    whom: Whom,
    arguments: Arguments,
    /// Take no more tasks.
    stops: AtomicBool,
    /// How many more tasks may be taken.
    left: AtomicU64,
    /// Read-locked by a thread with a task; ending the process takes the write lock, and so waits for all.
    busy: std::sync::RwLock<()>,
    printing: Mutex<()>,
}

struct Arguments {
    activity: String,
    worker: Option<String>,
    program: Program,
    heartbeat: Duration,
    json: bool,
}

/// Works until a signal comes, or until the limit of tasks is reached.
pub(super) fn work(arguments: &WorkArguments) -> Result<ExitCode> {
    let whom = arguments.data.whom()?;
    if !Data::of(&whom)?.is_served() {
        let why = "no server holds this data, and only a server hands out tasks";
        let refusal = Refusal::new(RefusalKind::Unavailable, why);
        return Err(refusal.but("start one with `perdura serve`").into());
    }
    let Some((path, rest)) = arguments.command.split_first() else { bail!("there is no command") };
    let program = Program {
        path: path.into(),
        arguments: rest.to_vec(),
        folder: ".".into(),
        environment: Environment::of_shell(),
    };
    let worker = Arc::new(Worker {
        whom,
        arguments: Arguments {
            activity: arguments.activity.clone(),
            worker: arguments.worker.clone(),
            program,
            heartbeat: arguments.heartbeat.max(Duration::from_millis(100)),
            json: arguments.data.json,
        },
        stops: AtomicBool::new(false),
        left: AtomicU64::new(arguments.most.unwrap_or(u64::MAX)),
        busy: std::sync::RwLock::default(),
        printing: Mutex::default(),
    });
    let (over, ended) = mpsc::channel();
    listen(worker.clone(), over.clone())?;
    let mut working = arguments.at_once;
    for number in 0..arguments.at_once {
        let (worker, over) = (worker.clone(), over.clone());
        thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                worker.take_tasks();
                // The receiver is gone only with the process.
                let _ = over.send(Over::Enough);
            })
            .context("cannot start a thread")?;
    }
    while working > 0 {
        match ended.recv().context("nobody works")? {
            Over::Enough => working -= 1,
            Over::Signal => break,
        }
    }
    // Threads that only wait for a task are left; threads that have one are waited for.
    drop(worker.busy.write().unwrap_or_else(PoisonError::into_inner));
    Ok(ExitCode::SUCCESS)
}

/// Why a worker ends.
enum Over {
    /// A thread has reached its limit.
    Enough,
    Signal,
}

/// The first signal lets tasks under way finish, the second does not.
fn listen(worker: Arc<Worker>, over: Sender<Over>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for (count, _) in signals.forever().enumerate() {
                worker.stops.store(true, Ordering::SeqCst);
                if count > 0 || over.send(Over::Signal).is_err() {
                    std::process::exit(INTERRUPTED);
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

impl Worker {
    fn take_tasks(&self) {
        let mut has_complained = false;
        while self.reserve() {
            match self.take_some() {
                Ok(()) => return,
                Err(error) => {
                    self.left.fetch_add(1, Ordering::SeqCst);
                    if !std::mem::replace(&mut has_complained, true) {
                        terminal::tell(&format!("{error:#}; asked again every second"));
                    }
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Takes tasks over one connection to the server, while it lasts. One task is reserved already.
    fn take_some(&self) -> Result<()> {
        let mut data = self.reach()?;
        loop {
            let Arguments { activity, worker, .. } = &self.arguments;
            let request = Request::Poll { activity: activity.clone(), worker: worker.clone() };
            let answer = data.ask(request)?;
            let busy = self.busy.read().unwrap_or_else(PoisonError::into_inner);
            match answer {
                Answer::Task(Some(task)) => {
                    self.perform(&mut data, &task)?;
                    drop(busy);
                    if !self.reserve() {
                        return Ok(());
                    }
                }
                Answer::Task(None) if self.stops.load(Ordering::SeqCst) => return Ok(()),
                Answer::Task(None) => {}
                _ => bail!("the answer is none to this question"),
            }
        }
    }

    /// Whether one more task may be taken; it is counted before the request, so that never too many are taken.
    fn reserve(&self) -> bool {
        let counted = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        !self.stops.load(Ordering::SeqCst) && counted.is_ok()
    }

    fn reach(&self) -> Result<Data> {
        let data = Data::of(&self.whom)?;
        if data.is_served() { Ok(data) } else { bail!("the server is away") }
    }

    fn perform(&self, data: &mut Data, task: &Task) -> Result<()> {
        let began = Instant::now();
        let group = Group::default();
        let Arguments { activity, program, heartbeat, .. } = &self.arguments;
        let work = Work { activity, key: &task.wire_key, token: &task.token, input: task.input.text() };
        let outcome = {
            let _pulse = Pulse::start(&self.whom, task, *heartbeat, group.clone())?;
            functions::work(program, work, Limits::GENEROUS.payload_bytes_max, &group)
        };
        let verdict = Verdict::of(outcome);
        let taken = self.answer(data, task, &verdict)?;
        self.tell(task, &verdict, taken, began.elapsed())
    }

    /// Repeats the answer until it is accepted or refused; `false`: the task was no longer wanted.
    fn answer(&self, data: &mut Data, task: &Task, verdict: &Verdict) -> Result<bool> {
        let token = task.token.clone();
        let request = match verdict {
            Verdict::Done(output) => Request::Succeed { token, output: output.clone() },
            Verdict::Failed { fault, certainty } => Request::Fail {
                token,
                error: fault.error.as_deref().map(Into::into),
                cause: fault.cause.as_deref().map(Into::into),
                certainty: *certainty,
            },
        };
        for _ in 0..OFFERS_MAX {
            match data.ask(request.clone()) {
                Ok(_) => return Ok(true),
                Err(error) if is_final(&error) => return Ok(false),
                Err(_) => thread::sleep(PAUSE),
            }
            // Only through a server: without one, a new server may be about to start.
            match self.reach() {
                Ok(line) => *data = line,
                Err(_) => thread::sleep(PAUSE),
            }
        }
        bail!("the answer for {} was not taken: the server is away", task.key)
    }

    fn tell(&self, task: &Task, verdict: &Verdict, taken: bool, took: Duration) -> Result<()> {
        let _printing: MutexGuard<'_, ()> = self.printing.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, error) = match verdict {
            Verdict::Done(_) => ("succeeded", None),
            Verdict::Failed { fault, .. } => ("failed", fault.error.as_deref()),
        };
        if self.arguments.json {
            return table::print_json(&serde_json::json!({
                "key": task.key, "status": status, "error": error, "taken": taken, "tookMs": ms(took),
            }));
        }
        let why = error.map(|error| format!(": {error}")).unwrap_or_default();
        let late = if taken { "" } else { ", too late" };
        let took = duration::say(ms(took));
        terminal::print(format!("{}  {status} after {took}{late}{why}\n", task.key).as_bytes())
    }
}

/// Whether a repeat would give the same answer.
fn is_final(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| match refusal.kind {
        RefusalKind::NotFound | RefusalKind::Conflict | RefusalKind::Invalid | RefusalKind::Broken => true,
        RefusalKind::Unavailable => false,
    })
}

/// Heartbeats for one task, until this is dropped. If the task is no longer wanted, its command is ended.
struct Pulse {
    /// Dropping it ends the thread.
    _ends: Sender<()>,
}

impl Pulse {
    fn start(whom: &Whom, task: &Task, every: Duration, group: Group) -> Result<Self> {
        let (ends, ended) = mpsc::channel::<()>();
        let (whom, token) = (whom.clone(), task.token.clone());
        thread::Builder::new()
            .name("heartbeat".into())
            .spawn(move || {
                while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                    let beat = Data::of(&whom)
                        .and_then(|mut data| data.ask(Request::Heartbeat { token: token.clone() }));
                    // A lost server may come back; a lost task does not.
                    if beat.is_err_and(|error| is_lost(&error)) && ended.try_recv().is_err() {
                        group.kill();
                        return;
                    }
                }
            })
            .context("cannot start a thread")?;
        Ok(Self { _ends: ends })
    }
}

/// Whether the task is no longer wanted. A missing server is something else.
fn is_lost(error: &anyhow::Error) -> bool {
    let gone = |refusal: &Refusal| match refusal.kind {
        RefusalKind::NotFound | RefusalKind::Conflict => true,
        RefusalKind::Invalid | RefusalKind::Unavailable | RefusalKind::Broken => false,
    };
    error.downcast_ref::<Refusal>().is_some_and(gone)
}
