//! No wait ends early by its own clock, and none is lost.

use super::Evidence;
use super::true_time::by_true_time;
use crate::clock::Clock;
use crate::history::History;
use crate::observed::{Observed, SeenTurn, ends_wait};
use perdura_engine::{EventKind, Note, Record, StrandId, Timestamp};
use std::collections::BTreeMap;

/// After the faults end, all processes work again within this time.
pub(super) const UP_AGAIN_MS: i64 = 70_000;
/// A timer fires within this time after that.
pub(super) const LATE_MS: i64 = 5_000;
/// A decision is committed within this time.
const DECIDED_WITHIN_MS: i64 = 120_000;

/// A Wait or pause that is under way.
#[derive(Clone, Copy)]
struct Rest {
    until: Timestamp,
    wall: bool,
    is_retry: bool,
}

/// Compares the end of each rest with the commit of the Turn that ended it, by true time.
pub fn timers(evidence: &Evidence<'_>) -> Vec<String> {
    let of_one = if evidence.sim.plan.begins_wrong() { by_true_time } else { of_one };
    evidence.histories.iter().flat_map(|history| of_one(evidence, history)).collect()
}

fn of_one(evidence: &Evidence<'_>, history: &History) -> Vec<String> {
    let disk = evidence.sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut resting: BTreeMap<StrandId, Rest> = BTreeMap::new();
    let mut complaints = Vec::new();
    for (turn, number) in history.turns.iter().zip(1..) {
        let Some(seen) = disk.observed.turns.get(&(history.id, number)) else { continue };
        for record in &turn.records {
            let ended = match record {
                Record::Note(Note::Resting { strand, until, retry, wall }) => {
                    let rest = Rest { until: *until, wall: *wall, is_retry: retry.is_some() };
                    resting.insert(*strand, rest);
                    continue;
                }
                Record::Note(Note::Woken { strand }) => *strand,
                Record::Event(event) if ends_wait(&event.kind) => event.strand,
                // A redrive continues interrupted rests, at any time.
                Record::Event(event) if matches!(event.kind, EventKind::ExecutionRedriven { .. }) => {
                    resting.clear();
                    continue;
                }
                Record::Note(_) | Record::Event(_) => continue,
            };
            if let Some(rest) = resting.remove(&ended) {
                let complaint = judge(evidence, rest, seen);
                complaints
                    .extend(complaint.map(|what| format!("{} ({}): {what}", history.id, history.name())));
            }
        }
    }
    if history.execution.as_ref().is_none_or(perdura_engine::Execution::is_ended) {
        return complaints;
    }
    for rest in resting.values() {
        let now = SeenTurn { at: evidence.sim.clock.now(), ..last_of(&disk.observed, history) };
        complaints.extend(judge(evidence, *rest, &now).map(|what| format!("{}: still, {what}", history.id)));
    }
    complaints
}

fn last_of(observed: &Observed, history: &History) -> SeenTurn {
    observed.turns[&(history.id, history.turns.len() as u64)]
}

fn judge(evidence: &Evidence<'_>, rest: Rest, seen: &SeenTurn) -> Option<String> {
    let facts = &evidence.sim.facts;
    let ended_at = Timestamp(seen.at);
    let (earliest, due) = if rest.wall {
        let ahead = facts.walls.last().map_or(0, |(_, ahead)| *ahead);
        let due = rest.until.0 - Clock::unstepped(0).0 - ahead;
        (due, due)
    } else {
        let steady = facts.lives.get(&seen.by)?;
        let due = |ahead: i64| rest.until.0 - steady.at_zero().0 - ahead;
        (facts.ahead(seen.by).map(due).min()?, facts.ahead(seen.by).map(due).max()?)
    };
    let reached = if rest.wall { wall_reached(evidence, rest.until, seen.at) } else { seen.at >= earliest };
    if !reached && !rest.is_retry {
        return Some(format!("a wait until {due} ended early, at {}", ended_at.0));
    }
    let latest = due.max(evidence.sim.plan.calm_from + UP_AGAIN_MS) + LATE_MS;
    (seen.at > latest).then(|| format!("a wait until {due} ended late, at {}", ended_at.0))
}

/// Whether the wall clock showed this time shortly before the commit.
fn wall_reached(evidence: &Evidence<'_>, until: Timestamp, at: i64) -> bool {
    let walls = &evidence.sim.facts.walls;
    walls.iter().enumerate().any(|(index, (from, ahead))| {
        let to = walls.get(index + 1).map_or(i64::MAX, |(next, _)| *next).min(at);
        to >= at - DECIDED_WITHIN_MS && *from <= at && Clock::unstepped(to + ahead) >= until
    })
}
