//! For clocks that are wrong only for a while after a process began: no timer is early or late by true time. A timer
//! that was set while the wall clock was ahead may be late by as much. A timer that was set while it was behind, by a
//! process that could not know how long no process ran, may be early by that time.

use super::Evidence;
use super::timers::{LATE_MS, UP_AGAIN_MS};
use crate::history::History;
use crate::observed::ends_wait;
use perdura_engine::{Event, EventKind, Execution, Note, Record, StrandId, Turn};
use std::collections::BTreeMap;

/// A Turn is on disk within this time after it was decided, unless its process was paused in between.
const COMMITTED_WITHIN_MS: i64 = 8_000;
/// No process runs for so long between two, and nothing was recorded before.
const NOBODY_FOR_MS: i64 = 40_000;

/// A period that began with a Turn.
#[derive(Clone, Copy)]
struct Span {
    since: On,
    ms: i64,
}

/// A Turn: the earliest time of its decision, and the time of its commit.
#[derive(Clone, Copy)]
struct On {
    decided_from: i64,
    disk_at: i64,
    wall: Wall,
}

/// The error of the wall clock while a timer was set.
#[derive(Clone, Copy, Default)]
struct Wall {
    ahead_ms: i64,
    is_behind: bool,
}

/// The timers of one execution.
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
    // An execution keeps the time base that it began to set deadlines by.
    let mut wall = Wall::default();
    for (turn, number) in history.turns.iter().zip(1..) {
        let Some(seen) = disk.observed.turns.get(&(history.id, number)) else { continue };
        let decided_from = decided_from(evidence, seen.at);
        wall = wall.or_worse(wall_between(evidence, decided_from, seen.at));
        let on = On { decided_from, disk_at: seen.at, wall };
        for what in waiting.take(history, turn, on, latest(evidence)) {
            complaints.push(format!("{} ({}): {what}", history.id, history.name()));
        }
    }
    complaints
}

/// The earliest time at which a Turn with this commit may have been decided.
fn decided_from(evidence: &Evidence<'_>, disk_at: i64) -> i64 {
    let from = disk_at - COMMITTED_WITHIN_MS;
    let pauses = evidence.sim.facts.pauses.iter();
    let across = pauses.filter(|(paused, until)| *paused <= disk_at && *until >= from);
    across.map(|(paused, _)| paused - COMMITTED_WITHIN_MS).fold(from, i64::min)
}

/// The error of the wall clock in a period.
fn wall_between(evidence: &Evidence<'_>, begin: i64, end: i64) -> Wall {
    let walls = &evidence.sim.facts.walls;
    let held = walls.iter().enumerate().filter(|(index, (from, _))| {
        let to = walls.get(index + 1).map_or(i64::MAX, |(next, _)| *next);
        *from <= end && to >= begin
    });
    held.map(|(_, (_, ahead))| Wall { ahead_ms: (*ahead).max(0), is_behind: *ahead < 0 })
        .fold(Wall::default(), Wall::or_worse)
}

/// By then all processes work again.
fn latest(evidence: &Evidence<'_>) -> i64 {
    evidence.sim.plan.calm_from + UP_AGAIN_MS
}

impl Wall {
    fn or_worse(self, other: Self) -> Self {
        Self { ahead_ms: self.ahead_ms.max(other.ahead_ms), is_behind: self.is_behind || other.is_behind }
    }
}

impl Waiting {
    fn take(&mut self, history: &History, turn: &Turn, on: On, latest: i64) -> Vec<String> {
        let mut complaints = Vec::new();
        let at = on.disk_at;
        for record in &turn.records {
            let ended = match record {
                Record::Note(Note::Resting { strand, until, wall: false, .. }) => {
                    if let Some(event) = turn.events().last() {
                        let ms = until.0 - event.steady().0;
                        self.rests.insert(*strand, Span { since: on, ms });
                    }
                    continue;
                }
                Record::Note(Note::Woken { strand }) => *strand,
                Record::Event(event) => {
                    complaints.extend(self.event(history, event, on));
                    if !ends_wait(&event.kind) {
                        continue;
                    }
                    event.strand
                }
                Record::Note(_) => continue,
            };
            if let Some(rest) = self.rests.remove(&ended) {
                complaints.extend(rest.early(at, "a wait"));
                let due = rest.due();
                if at > (due + rest.since.wall.ahead_ms).max(latest) + LATE_MS {
                    complaints.push(format!("a wait until {due} by true time ended late, at {at}"));
                }
            }
        }
        complaints
    }

    fn event(&mut self, history: &History, event: &Event, on: On) -> Option<String> {
        let span = |seconds: u64| Span { since: on, ms: seconds as i64 * 1_000 };
        let at = on.disk_at;
        match &event.kind {
            EventKind::ExecutionStarted { .. } | EventKind::ExecutionRedriven { .. } => {
                let machine = history.execution.as_ref().map(Execution::machine);
                // A redrive continues interrupted rests, at any time.
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
                    call.since = on;
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
    /// The end, if the Turn was decided at its commit.
    fn due(self) -> i64 {
        self.since.disk_at + self.ms
    }

    /// The start may have been decided a while before its commit.
    fn early(self, at: i64, what: &str) -> Option<String> {
        let due = self.due();
        let unknown_ms = if self.since.wall.is_behind { NOBODY_FOR_MS } else { 0 };
        (at < self.since.decided_from + self.ms - unknown_ms)
            .then(|| format!("{what} until {due} by true time ended early, at {at}"))
    }
}
