//! The Ledger's rows and the totals, as the Turns of a group change them.
//!
//! What went wrong is written at once. What is under way gets a row only if it takes long, and what went well needs none: the
//! history has it.

use crate::running::Running;
use perdura_engine::{
    Effect, EventKind, Lateness, LedgerStatus, Mark, Note, Record, Status, Timestamp, Turn,
};
use perdura_store::{LedgerChange, LedgerRow, Totals};
use std::sync::Arc;

/// Changes of the Ledger in the making.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) changes: Vec<LedgerChange>,
}

impl Ledger {
    /// Follows the marks of a Turn.
    pub(super) fn follow(&mut self, turn: &Turn, running: &mut Running, totals: &mut Totals) {
        for mark in turn.marks() {
            self.mark(running, &mark, turn, totals);
        }
    }

    fn mark(
        &mut self,
        running: &mut Running,
        Mark { key, status, said }: &Mark<'_>,
        turn: &Turn,
        totals: &mut Totals,
    ) {
        let at = turn.events().next().map_or(running.execution.last_at(), |event| event.at);
        match status {
            LedgerStatus::Pending => {
                totals.steps_sent += 1;
                running.marks.begin((*key).clone(), at);
            }
            LedgerStatus::Completed => {
                totals.steps_completed += 1;
                running.marks.end(key);
                // An earlier attempt under this key, or another process, may have left a row.
                if running.has_ledger_rows {
                    self.changes.push(LedgerChange::Drop { key: key.readable().into() });
                }
            }
            LedgerStatus::Failed | LedgerStatus::Uncertain => {
                match status {
                    LedgerStatus::Failed => totals.steps_failed += 1,
                    _ => totals.steps_uncertain += 1,
                }
                let started_at = running.marks.end(key).unwrap_or(at);
                let row = LedgerRow::of(key, running.id(), *status, started_at);
                let row = LedgerRow { completed_at: Some(at), error: said.error(), ..row };
                self.changes.push(LedgerChange::Put(Box::new(row)));
                running.has_ledger_rows = true;
            }
        }
    }

    /// Attempts under way that readers should see: all, or those sent before.
    pub(super) fn show_pending(&mut self, running: &mut Running, before: Option<Timestamp>) {
        let id = running.id();
        for (at, key) in running.marks.take_unwritten(before) {
            running.has_ledger_rows = true;
            let row = LedgerRow::of(&key, id, LedgerStatus::Pending, at);
            self.changes.push(LedgerChange::Put(Box::new(row)));
        }
    }

    /// An execution ended: from then on the age of its rows counts.
    pub(super) fn end(&mut self, running: &Running, now: Timestamp) {
        if running.execution.is_ended() && running.has_ledger_rows {
            let at = running.execution.ended_at().unwrap_or(now);
            self.changes.push(LedgerChange::Ended { execution: running.id(), at });
        }
    }
}

/// What a Turn says beside its history.
#[derive(Default)]
pub(super) struct Heard {
    /// What a person may want to hear of.
    pub(super) remarks: Vec<Note>,
    /// Why its input changed nothing.
    pub(super) ignored: Option<Arc<str>>,
    /// It was an outcome that nobody waited for.
    pub(super) late: Option<Lateness>,
}

impl Heard {
    pub(super) fn of(turn: &Turn, totals: &mut Totals) -> Self {
        let mut heard = Self::default();
        for record in &turn.records {
            let note = match record {
                Record::Event(event) => {
                    totals.redriven += u64::from(matches!(event.kind, EventKind::ExecutionRedriven { .. }));
                    continue;
                }
                Record::Note(note) => note,
            };
            match note {
                Note::Repeated { .. } => {
                    totals.steps_repeated += 1;
                    heard.remarks.push(note.clone());
                }
                Note::LateOutcome { lateness, .. } => {
                    totals.outcomes_late += 1;
                    heard.late = heard.late.or(Some(*lateness));
                    heard.remarks.push(note.clone());
                }
                Note::Held { .. } | Note::Resolved { .. } => heard.remarks.push(note.clone()),
                Note::Ignored { reason } => heard.ignored = Some(reason.clone()),
                Note::Ledger { .. }
                | Note::Resting { .. }
                | Note::Woken { .. }
                | Note::FanStarted { .. }
                | Note::StrandStarted { .. }
                | Note::StrandEnded { .. }
                | Note::StrandFailed { .. }
                | Note::StrandsDropped { .. }
                | Note::FanWaits { .. }
                | Note::Settled { .. }
                | Note::Erased { .. } => {}
            }
        }
        heard
    }
}

/// Counts ends.
pub(super) fn count_ends(effects: &[Effect], totals: &mut Totals) {
    for effect in effects {
        if let Effect::Publish { status } = effect {
            match status {
                Status::Created | Status::Running => {}
                Status::Succeeded => totals.succeeded += 1,
                Status::Failed | Status::Aborted | Status::TimedOut => totals.failed += 1,
            }
        }
    }
}
