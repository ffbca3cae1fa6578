//! Where clocks are wrong only for a while after a process began: nothing is early and nothing is late by true time.

use super::Evidence;
use super::timers::{LATE_MS, UP_AGAIN_MS};
use crate::history::History;
use crate::observed::ends_wait;
use perdura_engine::{Event, EventKind, Execution, Note, Record, StrandId, Turn};
use std::collections::BTreeMap;

/// A Turn is on disk within this time after it was decided.
const COMMITTED_WITHIN_MS: i64 = 8_000;

/// Something that may take so long, since then.
#[derive(Clone, Copy)]
struct Span {
    since: i64,
    ms: i64,
}

/// What one execution waits for.
#[derive(Default)]
struct Waiting {
    rests: BTreeMap<StrandId, Span>,
    calls: BTreeMap<StrandId, Span>,
    whole: Option<Span>,
}

/// No wait and no timeout ends early, and no wait ends late.
pub(super) fn by_true_time(evidence: &Evidence<'_>, history: &History) -> Vec<String> {
    let disk = evidence.sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut waiting = Waiting::default();
    let mut complaints = Vec::new();
    for (turn, number) in history.turns.iter().zip(1..) {
        let Some(seen) = disk.observed.turns.get(&(history.id, number)) else { continue };
        for what in waiting.take(history, turn, seen.at, latest(evidence)) {
            complaints.push(format!("{} ({}): {what}", history.id, history.name()));
        }
    }
    complaints
}

/// By then everybody is at work again.
fn latest(evidence: &Evidence<'_>) -> i64 {
    evidence.sim.plan.calm_from + UP_AGAIN_MS
}

impl Waiting {
    fn take(&mut self, history: &History, turn: &Turn, at: i64, latest: i64) -> Vec<String> {
        let mut complaints = Vec::new();
        for record in &turn.records {
            let ended = match record {
                Record::Note(Note::Resting { strand, until, wall: false, .. }) => {
                    if let Some(event) = turn.events().last() {
                        let ms = until.0 - event.steady().0;
                        self.rests.insert(*strand, Span { since: at, ms });
                    }
                    continue;
                }
                Record::Note(Note::Woken { strand }) => *strand,
                Record::Event(event) => {
                    complaints.extend(self.event(history, event, at));
                    if !ends_wait(&event.kind) {
                        continue;
                    }
                    event.strand
                }
                Record::Note(_) => continue,
            };
            if let Some(rest) = self.rests.remove(&ended) {
                complaints.extend(rest.early(at, "a wait"));
                let due = rest.since + rest.ms;
                if at > due.max(latest) + LATE_MS {
                    complaints.push(format!("a wait until {due} by true time ended late, at {at}"));
                }
            }
        }
        complaints
    }

    fn event(&mut self, history: &History, event: &Event, at: i64) -> Option<String> {
        let span = |seconds: u64| Span { since: at, ms: seconds as i64 * 1_000 };
        match &event.kind {
            EventKind::ExecutionStarted { .. } | EventKind::ExecutionRedriven { .. } => {
                let machine = history.execution.as_ref().map(Execution::machine);
                // A redrive goes on with what was interrupted, whenever somebody asks for it.
                self.rests.clear();
                self.calls.clear();
                self.whole = machine.and_then(|machine| machine.timeout_seconds).map(span);
                None
            }
            EventKind::TaskScheduled(scheduled) => {
                let seconds = [scheduled.timeout_seconds, scheduled.heartbeat_seconds].into_iter().flatten();
                let shortest = seconds.min().map(span);
                self.calls.remove(&event.strand);
                self.calls.extend(shortest.map(|span| (event.strand, span)));
                None
            }
            EventKind::TaskStarted { .. } => {
                if let Some(call) = self.calls.get_mut(&event.strand) {
                    call.since = at;
                }
                None
            }
            EventKind::TaskTimedOut { .. } => self.calls.remove(&event.strand)?.early(at, "a timeout"),
            EventKind::ExecutionTimedOut(_) => self.whole?.early(at, "the whole execution's timeout"),
            _ => None,
        }
    }
}

impl Span {
    /// The start may have been decided a while before it was on disk.
    fn early(self, at: i64, what: &str) -> Option<String> {
        let due = self.since + self.ms;
        (at < due - COMMITTED_WITHIN_MS)
            .then(|| format!("{what} until {due} by true time ended early, at {at}"))
    }
}
