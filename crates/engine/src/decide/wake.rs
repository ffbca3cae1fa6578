//! Time has passed: wakes strands whose time has come.

use super::Turning;
use crate::effect::Effect;
use crate::event::{EventKind, Fault};
use crate::execution::Status;
use crate::id::{StrandId, Wake};
use crate::strand::{Standing, Step, Strand};
use crate::turn::Note;
use perdura_asl::error::{HEARTBEAT_TIMEOUT, TIMEOUT};

impl Turning<'_> {
    pub(super) fn wake(&mut self) {
        // In any case this timer is used up.
        self.draft.core().timer = Wake::default();
        if self.draft.base.core.timeout_at.is_some_and(|at| at <= self.moment.steady) {
            return self.stop(EventKind::ExecutionTimedOut(Fault::default()));
        }
        let due = self.draft.base.deadlines.due(&self.moment);
        // All timeouts of this moment are recorded before anything follows from them, as in Step Functions.
        let late: Vec<(StrandId, Fault)> =
            due.iter().filter_map(|strand| Some((*strand, self.timed_out(*strand)?))).collect();
        // Their catchers share the work limit of one state: none of them can wait for the next Turn.
        let whole = self.allowance;
        let share = whole / late.len().max(1) as u64;
        for strand in due {
            let fault = late.iter().find(|(late, _)| *late == strand).map(|(_, fault)| fault.clone());
            // An earlier one may have ended this one, or what failed around it has to wait for what a person says of it.
            let is_held =
                |strand: &Strand| matches!(strand.step, Some(Step { standing: Standing::Held { .. }, .. }));
            if self.draft.changes.core.status != Status::Running
                || self.draft.peek(strand).is_none_or(is_held)
            {
                continue;
            }
            match fault {
                Some(fault) => {
                    self.allowance = share;
                    self.step_failed(strand, fault);
                    self.allowance = whole;
                }
                // The timer is set again for those that the next Turn wakes.
                None if self.is_worked_out() => {}
                None => self.wake_strand(strand),
            }
        }
    }

    fn wake_strand(&mut self, strand: StrandId) {
        match self.strand(strand).step.as_ref().map(|step| &step.standing) {
            Some(Standing::Resting { retry: true, .. }) => self.note(Note::Woken { strand }),
            Some(Standing::Resting { retry: false, .. }) => {
                self.allow();
                if let Err(failure) = self.waited(strand) {
                    self.evaluation_failed(strand, failure);
                }
            }
            _ => {}
        }
    }

    /// A call that took too long or missed its heartbeat.
    fn timed_out(&mut self, strand: StrandId) -> Option<Fault> {
        let Standing::Calling { timeout, .. } = &self.draft.peek(strand)?.step.as_ref()?.standing else {
            return None;
        };
        let late = timeout.and_then(|clock| clock.until).is_some_and(|until| until <= self.moment.steady);
        let fault = Fault::named(if late { TIMEOUT } else { HEARTBEAT_TIMEOUT });
        // A task that no worker has taken was not performed; an earlier attempt of it may have been.
        let doubt = !self.is_unstarted(strand) || self.is_doubted(strand);
        if doubt && self.holds_after(strand, &fault) {
            self.hold(strand, fault);
            return None;
        }
        let machine = self.machine();
        let family = self.family(&machine, strand);
        let key = self.key(strand);
        let stops_job = self.is_job(strand);
        self.effects.push(Effect::CancelTask { strand, key: key.clone(), stops_job });
        self.emit(strand, EventKind::TaskTimedOut { family, fault: fault.told() });
        self.note(Note::Ledger { strand, key, status: self.failed_status(strand) });
        Some(fault)
    }
}
