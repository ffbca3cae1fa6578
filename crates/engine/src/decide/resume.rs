//! Resumes an execution after its process is gone: repeats the effects that were under way.
//!
//! Nobody knows how far a call got, so it is repeated under its key, with the recorded bytes. A task in the hands of a
//! worker, or a call that was handed over with a token, is answered by token and not repeated; for a job that was
//! handed over, and a task that no worker has taken, perdura only waits again. None of this is history: only the
//! repeated calls are noted.

use super::{LiveCall, Turning};
use crate::effect::{Call, Effect};
use crate::execution::{Execution, Status};
use crate::id::StrandId;
use crate::strand::{MapRunId, Standing};
use crate::turn::Note;
use perdura_asl::machine::{Kind, Machine};
use perdura_asl::resource::Pattern;
use std::collections::BTreeSet;

impl Turning<'_> {
    pub(super) fn resume(&mut self) {
        // A call whose time is up is about to be given up; it is not repeated before.
        if self.begins_calls && self.draft.base.core.timeout_at.is_none_or(|at| at > self.moment.steady) {
            // A Map Run that cannot be ordered again fails, and may end others: so these come first.
            self.each_running(Self::resume_map_run);
            self.each_running(Self::resume_call);
        }
        self.restart_heartbeats();
        let wake =
            if self.draft.changes.core.status == Status::Running { self.draft.next_wake() } else { return };
        self.draft.core().timer = wake;
        self.effects.push(Effect::SetTimer { wake });
    }

    fn each_running(&mut self, resume: impl Fn(&mut Self, StrandId)) {
        for strand in self.draft.strand_ids() {
            if self.draft.changes.core.status != Status::Running {
                return;
            }
            if self.draft.peek(strand).is_some_and(|strand| strand.step.is_some()) {
                resume(self, strand);
            }
        }
    }

    fn resume_map_run(&mut self, strand: StrandId) {
        let Standing::MapRunning { arn, began_at, over: false, redriven_at } = &self.step(strand).standing
        else {
            return;
        };
        let (run, redriven_at) = (MapRunId { arn: arn.clone(), began_at: *began_at }, *redriven_at);
        match self.map_run_order(strand, run) {
            Ok(mut order) => {
                self.taken_up_at(strand, &mut order, redriven_at);
                self.effects.push(Effect::StartMapRun(Box::new(order)));
            }
            Err(failure) => self.evaluation_failed(strand, failure),
        }
    }

    fn resume_call(&mut self, strand: StrandId) {
        let machine = self.machine();
        let Some((call, handed_over)) = self.call_again(&machine, strand) else { return };
        let is_live = |live: &BTreeSet<LiveCall>| live.contains(&(strand, call.key.clone(), call.attempt));
        if !handed_over && self.live.is_some_and(is_live) {
            return;
        }
        let holds = self.holds_again(strand);
        // A task that no worker has taken was certainly not performed, unless a worker took it after this backup was
        // made.
        let is_queued = call.resource.pattern == Pattern::Worker;
        if handed_over || is_queued && !(holds && self.is_restored(strand)) {
            return self.effects.push(Effect::AwaitTask(call));
        }
        if holds {
            return self.hold_interrupted(strand);
        }
        self.note(Note::Repeated { strand, key: call.key.clone() });
        self.effects.push(Effect::CallTask(call));
    }

    /// The strand's recorded call, if it is to be repeated, or is a job that was handed over.
    fn call_again(&self, machine: &Machine, strand: StrandId) -> Option<(Call, bool)> {
        let step = self.step(strand);
        let Standing::Calling { started, submitted, timeout, heartbeat } = &step.standing else {
            return None;
        };
        let Kind::Task(task) = &self.state(machine, strand).kind else { return None };
        let taken = *started && task.resource.pattern == Pattern::Worker;
        let late = timeout.and_then(|clock| clock.until).is_some_and(|until| until <= self.moment.steady);
        let by_token = *submitted && task.resource.pattern != Pattern::Sync;
        if taken || by_token || late {
            return None;
        }
        let sent = step.sent.as_ref()?;
        let call = Call {
            strand,
            key: self.key(strand),
            attempt: sent.attempt,
            resource: task.resource.clone(),
            input: sent.input.clone(),
            token: self.strand(strand).token(self.draft.base.identity.id, strand),
            credentials: sent.credentials.clone(),
            timeout_seconds: timeout.map(|clock| clock.seconds),
            heartbeat_seconds: heartbeat.map(|clock| clock.seconds),
            submitted: sent.submitted,
        };
        Some((call, *submitted))
    }

    /// Whether the strand waits for the end of a job.
    pub(super) fn is_job(&self, strand: StrandId) -> bool {
        matches!(&self.state(&self.machine(), strand).kind, Kind::Task(task) if task.resource.pattern == Pattern::Sync)
    }

    /// Heartbeat clocks are not durable: they begin anew.
    fn restart_heartbeats(&mut self) {
        let now = self.moment.steady;
        for id in self.draft.strand_ids() {
            let beats = |standing: &Standing| matches!(standing, Standing::Calling { heartbeat: Some(clock), .. } if clock.until.is_some());
            let step = self.draft.peek(id).and_then(|strand| strand.step.as_ref());
            if !step.is_some_and(|step| beats(&step.standing)) {
                continue;
            }
            let step = self.draft.strand(id).and_then(|strand| strand.step.as_mut());
            if let Some(Standing::Calling { heartbeat: Some(clock), .. }) =
                step.map(|step| &mut step.standing)
            {
                clock.start(now);
            }
        }
    }
}

impl Execution {
    /// Whether it waits for the end of this Map Run.
    pub fn waits_for_map_run(&self, arn: &str) -> bool {
        let waits = |standing: &Standing| match standing {
            Standing::MapRunning { arn: waited_for, over, .. } => !over && **waited_for == *arn,
            _ => false,
        };
        let mut steps = self.strands().filter_map(|(_, strand)| strand.step.as_ref());
        !self.is_ended() && steps.any(|step| waits(&step.standing))
    }

    /// Whether this process must attend to something of it besides calls: it waits for a worker, or for the end of a
    /// job or of a Map Run. Then a new process must resume it, even if it sleeps.
    pub fn is_attended(&self) -> bool {
        let is_attended = |standing: &Standing, pattern: Option<Pattern>| match (standing, pattern) {
            (Standing::MapRunning { over, .. }, _) => !over,
            (Standing::Calling { started, .. }, Some(Pattern::Worker)) => !started,
            (Standing::Calling { submitted, .. }, Some(Pattern::Sync)) => *submitted,
            _ => false,
        };
        self.strands().filter_map(|(_, strand)| strand.step.as_ref()).any(|step| {
            let pattern = match &self.machine().state(step.state).kind {
                Kind::Task(task) => Some(task.resource.pattern),
                _ => None,
            };
            is_attended(&step.standing, pattern)
        })
    }
}
