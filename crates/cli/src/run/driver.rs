//! The loop: one input after the other is decided, committed to memory, and its effects are performed.
//!
//! Everything that happens comes in by one queue: what is ready, timers that are due, and messages from the
//! runtime on which calls are made. Nothing else touches an execution. When there is nothing to decide, the loop
//! waits for the next of them, or moves its clock on where time is to be skipped.

mod calls;
mod spread;

use super::clock::Clock;
use super::mock::Mocks;
use super::outside::Outside;
use super::progress::Progress;
use anyhow::{Context, Result, bail};
use perdura_engine::asl::json::Payload;
use perdura_engine::{
    By, Effect, Execution, Fault, Input, Moment, Outcome, Status, StrandId, Timestamp, decide,
};
use spread::{ChildOf, Spread};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

/// Which execution of this process: the one that was asked for, or a child in a Distributed Map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExecutionNo(pub(crate) u32);

impl ExecutionNo {
    /// The one that was asked for.
    pub(crate) const TOP: Self = Self(0);
}

/// What other threads tell the loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// A call ended.
    Ended { number: u64, outcome: Outcome },
    /// Somebody wants it all to stop.
    Interrupted,
}

/// How an execution ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) status: Status,
    pub(crate) output: Option<Payload>,
    pub(crate) fault: Fault,
    /// From its start to its end, by its own clock.
    pub(crate) took_ms: i64,
    /// How much of that was skipped.
    pub(crate) skipped_ms: i64,
}

/// An execution and all that it has under way.
pub(crate) struct Driver {
    pub(crate) clock: Clock,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) outside: Outside,
    pub(crate) mocks: Mocks,
    pub(crate) progress: Progress,
    /// Where functions are configured, for a sentence.
    config_file: String,
    executions: BTreeMap<ExecutionNo, Running>,
    map_runs: BTreeMap<(ExecutionNo, StrandId), Spread>,
    next: ExecutionNo,
    ready: VecDeque<(ExecutionNo, Input)>,
    timers: BTreeSet<(Timestamp, ExecutionNo)>,
}

struct Running {
    execution: Execution,
    timer: Option<Timestamp>,
    child_of: Option<ChildOf>,
}

impl Driver {
    pub(crate) fn new(
        clock: Clock,
        inbox: Receiver<Message>,
        outside: Outside,
        mocks: Mocks,
        progress: Progress,
        config_file: String,
    ) -> Self {
        Self {
            clock,
            inbox,
            outside,
            mocks,
            progress,
            config_file,
            executions: BTreeMap::new(),
            map_runs: BTreeMap::new(),
            next: ExecutionNo::TOP,
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
        }
    }

    /// Runs an execution to its end.
    pub(crate) fn run(mut self, execution: Execution) -> Result<Ending> {
        let top = self.begin(execution, None);
        loop {
            while let Ok(message) = self.inbox.try_recv() {
                self.take(message);
            }
            self.ring();
            self.progress.draw_if_due(self.clock.now());
            match self.ready.pop_front() {
                Some((number, input)) => self.turn(number, &input)?,
                None => self.wait()?,
            }
            let execution = &self.executions[&top].execution;
            if execution.is_ended() {
                self.outside.end_all();
                self.progress.finish(self.clock.now());
                let ended_at = execution.ended_at().unwrap_or(execution.started_at());
                return Ok(Ending {
                    status: execution.status(),
                    output: execution.output().cloned(),
                    fault: execution.fault().clone(),
                    took_ms: ended_at.0.saturating_sub(execution.started_at().0),
                    skipped_ms: self.clock.skipped_ms(),
                });
            }
        }
    }

    fn begin(&mut self, execution: Execution, child_of: Option<ChildOf>) -> ExecutionNo {
        let number = self.next;
        self.next = ExecutionNo(number.0 + 1);
        let execution = execution.with_destinations(self.outside.destinations());
        self.executions.insert(number, Running { execution, timer: None, child_of });
        self.ready.push_back((number, Input::Start));
        number
    }

    /// One Turn. There is nothing to commit to but memory.
    fn turn(&mut self, number: ExecutionNo, input: &Input) -> Result<()> {
        // What a stopped child had still under way reaches nobody.
        let Some(running) = self.executions.get_mut(&number) else { return Ok(()) };
        let moment = Moment::at(self.clock.now(), entropy()?);
        let decision = decide(&running.execution, input, &moment);
        self.progress.tell(number, &decision.turn, moment.now);
        for effect in running.execution.commit(decision) {
            self.perform(number, effect);
        }
        Ok(())
    }

    fn perform(&mut self, number: ExecutionNo, effect: Effect) {
        match effect {
            Effect::CallTask(call) | Effect::AwaitTask(call) => self.call(number, call),
            Effect::CancelTask { strand, key, .. } => self.outside.cancel(number, strand, &key),
            Effect::SetTimer { wake } => self.set_timer(number, wake.earliest()),
            Effect::StartMapRun(order) => self.start_map_run(number, *order),
            Effect::StopMapRun { strand, .. } => self.drop_map_run(number, strand),
            Effect::Continue => self.ready.push_back((number, Input::Continue)),
            Effect::Publish { status } => match status {
                Status::Created | Status::Running => {}
                Status::Succeeded | Status::Failed | Status::Aborted | Status::TimedOut => {
                    self.child_ended(number);
                }
            },
        }
    }

    fn set_timer(&mut self, number: ExecutionNo, at: Option<Timestamp>) {
        let Some(running) = self.executions.get_mut(&number) else { return };
        if let Some(before) = std::mem::replace(&mut running.timer, at) {
            self.timers.remove(&(before, number));
        }
        self.timers.extend(at.map(|at| (at, number)));
    }

    /// Whatever has waited long enough.
    fn ring(&mut self) {
        let now = self.clock.now();
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, number));
            if let Some(running) = self.executions.get_mut(&number) {
                running.timer = None;
                self.ready.push_back((number, Input::Timer));
            }
        }
    }

    fn settle(&mut self, (number, by, outcome): (ExecutionNo, By, Outcome)) {
        self.ready.push_back((number, Input::TaskOutcome { by, outcome }));
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Ended { number, outcome } => {
                if let Some(settled) = self.outside.ended(number, outcome) {
                    self.settle(settled);
                }
            }
            Message::Interrupted => {
                let fault = Fault { error: None, cause: Some("stopped by an interrupt".into()) };
                let stop = (ExecutionNo::TOP, Input::Stop { fault });
                // What has not begun cannot be stopped: its start goes first.
                match self.executions[&ExecutionNo::TOP].execution.status() {
                    Status::Created => self.ready.push_back(stop),
                    _ => self.ready.push_front(stop),
                }
            }
        }
    }

    /// Until something happens.
    fn wait(&mut self) -> Result<()> {
        let timer = self.timers.first().map(|(at, _)| *at);
        if self.outside.are_idle() {
            match timer {
                Some(at) if self.clock.skips() => {
                    self.clock.skip_to(at);
                    return Ok(());
                }
                Some(_) => {}
                None => bail!("the execution waits for what can never come; this is a mistake in perdura"),
            }
        }
        let now = Instant::now();
        let until = [
            timer.map(|at| self.clock.until(at)),
            self.progress.next_draw().map(|at| at.saturating_duration_since(now)),
        ];
        self.progress.draw(self.clock.now());
        let message = match until.into_iter().flatten().min() {
            Some(most) => self.inbox.recv_timeout(most),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match message {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("nobody is left to report how a call ended"),
        }
        Ok(())
    }
}

/// 128 unguessable bits.
pub(crate) fn entropy() -> Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("this system gives no random numbers")?;
    Ok(u128::from_ne_bytes(bytes))
}
