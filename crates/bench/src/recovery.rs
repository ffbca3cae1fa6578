//! A process killed in the middle of its work, and the next one, which continues it.
//!
//! The steps call a [`Receiver`] in this process, which outlives them and counts by key. Every acknowledged execution
//! must succeed, and no step may be performed under two keys.

use super::arguments::{ChildArguments, RecoveryArguments};
use super::load::{STEP, Stage, steps_in_a_row};
use super::receiver::Receiver;
use super::{Report, say};
use anyhow::{Context, Result, anyhow, bail};
use perdura_engine::asl::json::Payload;
use perdura_engine::{ExecutionId, Policy, Status};
use perdura_runtime::{Door, Start, StepError, Steps};
use perdura_store::{Reader, RevisionId, SqliteReader};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore};

const STEPS: usize = 10;
const POLL: Duration = Duration::from_millis(1);

#[derive(Debug, Serialize)]
pub(crate) struct RecoveryReport {
    workload: &'static str,
    concurrency: usize,
    rounds: u32,
    in_flight: u64,
    done_after_ms: f64,
    bodies_run_twice: u64,
    lost: u64,
    applied_twice: u64,
}

impl Report for RecoveryReport {
    fn is_good(&self) -> bool {
        self.lost + self.applied_twice == 0
    }
}

pub(crate) fn bench(arguments: &RecoveryArguments) -> Result<RecoveryReport> {
    let receiver = Receiver::listen()?;
    for round in 0..arguments.rounds {
        let mut child = start(arguments, &receiver, &[])?;
        let before = receiver.seen(|seen| seen.keys.len());
        // The time before each kill varies; by then the receiver has seen the first steps of the round.
        let work = before + arguments.concurrency + 37 * (round as usize % 23);
        wait_until(&mut child, || receiver.seen(|seen| seen.keys.len() >= work))?;
        std::thread::sleep(Duration::from_millis(u64::from(round) * 131 % 400));
        if arguments.pause_ms > 0 {
            pause(&child, Duration::from_millis(arguments.pause_ms))?;
            let work = receiver.seen(|seen| seen.keys.len()) + arguments.concurrency;
            wait_until(&mut child, || receiver.seen(|seen| seen.keys.len() >= work))?;
        }
        child.kill().context("cannot kill the process")?;
        child.wait()?;
    }
    let repeats = receiver.seen(super::receiver::Seen::repeats);
    let began = Instant::now();
    let mut child = start(arguments, &receiver, &["--drain"])?;
    let output = child.stdout.take().context("its output is piped")?;
    let mut lines = BufReader::new(output).lines();
    let mut line =
        || lines.next().ok_or_else(|| anyhow!("the process ended without a word"))?.context("its words end");
    let in_flight = line()?.parse().context("it says how many it took up")?;
    line()?;
    let done_after_ms = began.elapsed().as_secs_f64() * 1000.0;
    child.wait()?;
    let repeated_after_last_kill = receiver.seen(super::receiver::Seen::repeats) - repeats;
    Ok(RecoveryReport {
        workload: "recovery",
        concurrency: arguments.concurrency,
        rounds: arguments.rounds,
        in_flight,
        done_after_ms,
        bodies_run_twice: repeated_after_last_kill,
        lost: lost(&arguments.site.data, &receiver)?,
        applied_twice: applied_twice(&receiver),
    })
}

fn start(arguments: &RecoveryArguments, receiver: &Receiver, how: &[&str]) -> Result<Child> {
    Command::new(std::env::current_exe().context("cannot find this program")?)
        .args(["bench", "child", "--data"])
        .arg(&arguments.site.data)
        .args(["--receiver", &receiver.address.to_string()])
        .args(["--concurrency", &arguments.concurrency.to_string()])
        .args(how)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start this program again")
}

/// Stops a process (SIGSTOP), and lets it go on later.
fn pause(child: &Child, lasts: Duration) -> Result<()> {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).context("cannot stop the process")?;
    std::thread::sleep(lasts);
    kill_process(pid, Signal::CONT).context("cannot let the process go on")
}

fn wait_until(child: &mut Child, is_so: impl Fn() -> bool) -> Result<()> {
    while !is_so() {
        if let Some(status) = child.try_wait()? {
            bail!("the process under load ended by itself: {status}");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Acknowledged executions that did not succeed.
fn lost(data: &Path, receiver: &Receiver) -> Result<u64> {
    let mut reader = SqliteReader::open(data)?;
    let started: Vec<String> = receiver.seen(|seen| seen.started.iter().cloned().collect());
    let mut lost = 0;
    for id in started {
        let id = ExecutionId::from_uuid(id.parse().context("an id is a UUID")?);
        let row = reader.row(id)?;
        if row.is_none_or(|(row, _)| row.status != Status::Succeeded) {
            lost += 1;
        }
    }
    Ok(lost)
}

/// Steps that were performed under more than one key.
fn applied_twice(receiver: &Receiver) -> u64 {
    receiver.seen(|seen| {
        let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for key in seen.keys.keys() {
            let step = key.rsplit_once(':').map_or(key.as_str(), |(step, _)| step);
            keys.entry(step).or_default().insert(key);
        }
        keys.values().filter(|keys| keys.len() > 1).count() as u64
    })
}

/// The process to kill, or the one that finishes.
pub(crate) fn child(arguments: &ChildArguments) -> Result<ExitCode> {
    let address = arguments.receiver;
    let calls = Arc::new(Calls { address, places: Semaphore::new(64), idle: Mutex::default() });
    let stage = Stage::open(&arguments.site.data, steps(calls.clone()))?;
    if arguments.drain {
        say(&stage.runtime.taken_up().to_string())?;
        while stage.runtime.door().gauges().in_memory > 0 {
            std::thread::sleep(POLL);
        }
        say("done")?;
        stage.runtime.close(Duration::from_secs(10));
        return Ok(ExitCode::SUCCESS);
    }
    let machine = stage.deploy("bench-recovery", &steps_in_a_row(STEPS, STEP))?;
    let callers: Vec<_> = (0..arguments.concurrency)
        .map(|_| stage.tokio.spawn(caller(stage.runtime.door().clone(), machine.revision, calls.clone())))
        .collect();
    for caller in callers {
        stage.tokio.block_on(caller).context("a caller panicked")??;
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts one execution after the other, without end.
async fn caller(door: Door, revision: RevisionId, calls: Arc<Calls>) -> Result<()> {
    loop {
        let input = Payload::from_text("{\"amount\": 1}").context("the bench's own input is wrong")?;
        let start = Start::new(revision, input);
        let started = door.start(start).await?;
        calls.say(&format!("started {}", started.execution)).await?;
        let ending = door.ending(started.execution).await?;
        if ending.status != Status::Succeeded {
            bail!("an execution ended as {}: {:?}", ending.status.name(), ending.fault);
        }
    }
}

fn steps(calls: Arc<Calls>) -> Steps {
    Steps::default().with("noop", Policy::default(), move |call| {
        let calls = calls.clone();
        async move {
            calls
                .say(&format!("step {}", call.key))
                .await
                .map_err(|error| StepError::uncertain("Unreachable", &format!("{error:#}")))?;
            Ok(call.input)
        }
    })
}

/// Connections to the receiver.
struct Calls {
    address: SocketAddr,
    /// With more connections at once than the listener's backlog, some would wait for a second try.
    places: Semaphore,
    idle: Mutex<Vec<tokio::io::BufStream<TcpStream>>>,
}

impl Calls {
    async fn connect(&self) -> Result<tokio::io::BufStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await.context("cannot reach the receiver")?;
        stream.set_nodelay(true)?;
        Ok(tokio::io::BufStream::new(stream))
    }

    async fn say(&self, line: &str) -> Result<()> {
        let _place = self.places.acquire().await?;
        let idle = self.idle.lock().await.pop();
        let mut stream = if let Some(stream) = idle { stream } else { self.connect().await? };
        stream.write_all(format!("{line}\n").as_bytes()).await?;
        stream.flush().await?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await?;
        if answer != "ok\n" {
            bail!("the receiver answered {answer:?}");
        }
        self.idle.lock().await.push(stream);
        Ok(())
    }
}
