//! Time has passed: who wanted to be woken?

use super::Turning;
use crate::effect::Effect;
use crate::event::{EventKind, Fault};
use crate::execution::{Standing, Status};
use crate::id::StrandId;
use crate::turn::{LedgerStatus, Note};
use perdura_asl::error::{HEARTBEAT_TIMEOUT, TIMEOUT};

impl Turning<'_> {
    pub(super) fn wake(&mut self) {
        // Whatever comes of it, this timer is spent.
        self.draft.core().timer = None;
        if self.draft.base.core.timeout_at.is_some_and(|at| at <= self.now) {
            return self.stop(EventKind::ExecutionTimedOut(Fault::default()));
        }
        let due: Vec<StrandId> = self
            .draft
            .base
            .deadlines
            .iter()
            .take_while(|(at, _)| *at <= self.now)
            .map(|(_, id)| *id)
            .collect();
        for strand in due {
            if self.draft.changes.core.status != Status::Running {
                return;
            }
            // An earlier one may have brought this one down.
            if self
                .draft
                .peek(strand)
                .and_then(crate::execution::Strand::wakes_at)
                .is_some_and(|at| at <= self.now)
            {
                self.wake_strand(strand);
            }
        }
    }

    fn wake_strand(&mut self, strand: StrandId) {
        match self.step(strand).standing {
            Standing::Resting { retry: true, .. } => self.note(Note::Woken { strand }),
            Standing::Resting { retry: false, .. } => {
                if let Err(failure) = self.waited(strand) {
                    self.evaluation_failed(strand, failure, false);
                }
            }
            Standing::Calling { timeout_at, .. } => {
                let late = timeout_at.is_some_and(|at| at <= self.now);
                self.timed_out(strand, if late { TIMEOUT } else { HEARTBEAT_TIMEOUT });
            }
            Standing::Ready | Standing::Fanning(_) | Standing::MapRunning { .. } => {}
        }
    }

    fn timed_out(&mut self, strand: StrandId, error: &'static str) {
        let machine = self.machine();
        let family = self.family(&machine, strand);
        let key = self.key(strand);
        self.effects.push(Effect::CancelTask { strand, key: key.clone() });
        let fault = Fault::named(error);
        self.emit(strand, EventKind::TaskTimedOut { family, fault: fault.clone() });
        self.note(Note::Ledger { key, status: LedgerStatus::Uncertain });
        self.step_failed(strand, fault);
    }
}
