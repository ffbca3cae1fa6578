//! The process that performed this execution's effects is gone: what is under way is told again.
//!
//! Nobody knows how far a call got, so it is made again under its key, with the recorded bytes. What was handed
//! over already, or is in the hands of a worker, is answered by token and not made again. Nothing of this is
//! history: only which calls were repeated is noted.

use super::Turning;
use crate::effect::{Call, Effect};
use crate::execution::{MapRunId, Standing, Status};
use crate::id::StrandId;
use crate::turn::Note;
use perdura_asl::machine::{Kind, Machine};
use perdura_asl::resource::Target;

impl Turning<'_> {
    pub(super) fn resume(&mut self) {
        // What has no time left is about to be given up; it is not begun again for that.
        if self.draft.base.core.timeout_at.is_none_or(|at| at > self.moment.steady) {
            // A Map Run that cannot be ordered again fails, and may bring down others: so these come first.
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
        let Standing::MapRunning { arn, began_at, over: false, redriven } = &self.step(strand).standing
        else {
            return;
        };
        let (run, redriven) = (MapRunId { arn: arn.clone(), began_at: *began_at }, *redriven);
        match self.map_run_order(strand, run) {
            Ok(mut order) => {
                order.redriven = redriven;
                self.effects.push(Effect::StartMapRun(Box::new(order)));
            }
            Err(failure) => self.evaluation_failed(strand, failure),
        }
    }

    fn resume_call(&mut self, strand: StrandId) {
        let machine = self.machine();
        let Some(call) = self.call_again(&machine, strand) else { return };
        // What no worker has taken was certainly not performed.
        let waits = matches!(call.resource.target, Target::Activity { .. });
        if !waits && self.holds_again(strand) {
            return self.hold_interrupted(strand);
        }
        self.note(Note::Repeated { strand, key: call.key.clone() });
        self.effects.push(Effect::CallTask(call));
    }

    /// The strand's call as it was made, if it is to be made again.
    fn call_again(&self, machine: &Machine, strand: StrandId) -> Option<Call> {
        let step = self.step(strand);
        let Standing::Calling { started, submitted, timeout, heartbeat } = &step.standing else {
            return None;
        };
        let Kind::Task(task) = &self.state(machine, strand).kind else { return None };
        let taken = *started && matches!(task.resource.target, Target::Activity { .. });
        let late = timeout.and_then(|clock| clock.until).is_some_and(|until| until <= self.moment.steady);
        if taken || *submitted || late {
            return None;
        }
        let sent = step.sent.as_ref()?;
        Some(Call {
            strand,
            key: self.key(strand),
            resource: task.resource.clone(),
            input: sent.input.clone(),
            token: self.strand(strand).token(self.draft.base.identity.id, strand),
            credentials: sent.credentials.clone(),
            timeout_seconds: timeout.map(|clock| clock.seconds),
            heartbeat_seconds: heartbeat.map(|clock| clock.seconds),
        })
    }

    /// Clocks of silence are not durable: they begin anew.
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
