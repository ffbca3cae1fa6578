//! Stops, time limits, history limits, and redrives.

use super::Turning;
use crate::event::{EventKind, Fault};
use crate::execution::Status;
use crate::id::{Seq, StrandId};
use crate::strand::Standing;
use perdura_asl::error::RUNTIME;
use std::sync::Arc;

impl Turning<'_> {
    /// Ends the execution from outside. As in Step Functions, states get no events, and this event follows from none.
    pub(super) fn stop(&mut self, kind: EventKind) {
        self.cancel_all();
        self.emit_after(Seq(0), StrandId::TOP, kind);
    }

    /// Whether there is room for one event more, which has to be the last.
    pub(super) fn is_history_full(&self) -> bool {
        let most = self.draft.base.identity.limits.events_max;
        most.is_some_and(|most| self.draft.changes.core.last.0 + 1 >= most)
    }

    /// The last event says that it is, and follows on whatever came before it.
    pub(super) fn history_is_full(&mut self) {
        let most = self.draft.base.identity.limits.events_max.unwrap_or(u64::MAX);
        let cause = format!("The execution reached the maximum number of history events ({most}).");
        self.cancel_all();
        let before = self.draft.changes.core.last;
        self.emit_after(before, StrandId::TOP, EventKind::ExecutionFailed(Fault::new(RUNTIME, cause)));
    }

    /// Redrives, unless that is not allowed, or was done under this token already.
    pub(super) fn redrive(&mut self, token: Option<&Arc<str>>) {
        let base = self.draft.base;
        if token.is_some_and(|token| base.redriven_under(token).is_some()) {
            return;
        }
        if let Err(reason) = base.redrivable() {
            return self.ignore(reason.reason());
        }
        let redriven =
            EventKind::ExecutionRedriven { redrive_count: base.core.redrives + 1, token: token.cloned() };
        self.emit_after(Seq(0), StrandId::TOP, redriven);
        for strand in self.draft.strand_ids() {
            // The continued strands may fail at once, and end others or the whole.
            if self.draft.changes.core.status != Status::Running {
                return;
            }
            let step = self.draft.peek(strand).and_then(|strand| strand.step.as_ref());
            match step.map(|step| &step.standing) {
                Some(Standing::MapRunning { .. }) => self.redrive_map_run(strand),
                Some(Standing::Fanning(run)) if run.live.is_empty() => {
                    let after = self.strand(strand).last;
                    if let Err(failure) = self.start_more(strand, after) {
                        self.evaluation_failed(strand, failure);
                    }
                }
                _ => {}
            }
        }
    }
}
