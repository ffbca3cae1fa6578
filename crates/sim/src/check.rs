//! The checkers. Each promise is a function from the evidence of a run to complaints. So a test can give it a run with
//! a safeguard missing and see it object.

mod audit;
mod doubt;
mod durable;
mod held;
mod legal;
mod map_runs;
mod same;
mod timers;
mod true_time;

use crate::clients::{Told, Wish};
use crate::history::{History, read_all};
use crate::receiver::step_place;
use crate::sim::Sim;
use perdura_engine::{EffectKey, EventKind, ExecutionId, Note, TaskToken};
use perdura_runtime::StartError;
use perdura_store::{LedgerFilter, LedgerRow, Stats};
use std::collections::{BTreeMap, BTreeSet};

pub use audit::told_on_the_audit;
pub use doubt::doubt_is_sticky;
pub use durable::acknowledged_is_durable;
pub use held::held_is_not_repeated;
pub use legal::histories_legal;
pub use map_runs::map_runs_end;
pub use same::same_as_without_faults;
pub use timers::timers;

/// A promise that a run can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Every acknowledged execution exists and has come to its end.
    NothingLost,
    /// The content of every reply still holds.
    AcknowledgedIsDurable,
    /// A receiver that honours keys has applied each step once, and every time with the same bytes.
    AppliedOncePerKey,
    /// A completed step is not called again, and every call is on record.
    CompletedNeverRunsAgain,
    /// A step in doubt is not performed under another key, and not called failed.
    DoubtIsSticky,
    /// A call that may not be repeated is not, unless a person says so.
    HeldIsNotRepeated,
    /// Nothing of a paused machine begins, or where all of it is to stop moves.
    PausedStands,
    /// Histories, rows, ledger and totals agree with each other.
    HistoriesLegal,
    /// A Map Run ends with its execution, its counts are those of its children, and none of them runs on.
    MapRunsEnd,
    /// No wait ends early, and none is lost.
    Timers,
    /// After the faults end, every node answers.
    AnsweredAnywhere,
    /// Each change that a client was told of is on the audit once, and the chains verify.
    ToldOnTheAudit,
    /// Deterministic executions end as without faults.
    SameAsWithoutFaults,
}

/// The data for a checker.
pub struct Evidence<'a> {
    /// The run.
    pub(crate) sim: &'a Sim,
    pub(crate) histories: Vec<History>,
    pub(crate) ledger: Vec<LedgerRow>,
    /// The store's own counts.
    pub(crate) stats: Stats,
    /// For children of a Map Run: their parent, and their item.
    pub(crate) places: BTreeMap<ExecutionId, String>,
}

impl<'a> Evidence<'a> {
    /// Collects the evidence of a finished run.
    pub fn of(sim: &'a Sim) -> Self {
        let mut reader = sim.home.reader();
        let ledger = reader.ledger(&LedgerFilter::default(), u32::MAX).expect("what was written can be read");
        let stats = reader.stats().expect("what was written can be read");
        let histories = read_all(sim);
        let child = |history: &History| {
            let child = history.row.as_ref()?.child?;
            let run = reader.map_run(child.run).expect("what was written can be read")?;
            Some((history.id, format!("{}/{}", run.execution, child.index)))
        };
        let places = histories.iter().filter_map(child).collect();
        Self { sim, histories, ledger, stats, places }
    }
}

/// Every execution that began has ended and was not swept before, every request was answered, and a new process finds
/// nothing to do.
pub fn nothing_lost(evidence: &Evidence<'_>) -> Vec<String> {
    let facts = &evidence.sim.facts;
    let mut complaints = facts.swept_running.clone();
    if !facts.is_quiet {
        complaints.push("the run never came to rest".to_owned());
        complaints.extend(facts.restless.iter().cloned());
    }
    let there: BTreeSet<_> = evidence.histories.iter().map(|history| history.id).collect();
    for request in &evidence.sim.requests {
        match (&request.wish, &request.told) {
            (Wish::Start(_), Some(Told::Started(Ok(started)))) if !there.contains(&started.execution) => {
                complaints.push(format!("{} was acknowledged and is not there", started.execution));
            }
            (
                _,
                Some(
                    told @ (Told::Taken(Err(_))
                    | Told::Ended(Err(_))
                    | Told::Started(Err(StartError::NoMachine))),
                ),
            ) => {
                complaints.push(format!("{:?} was answered with {told:?}", request.wish));
            }
            _ => {}
        }
    }
    if facts.parked_at_last > 0 {
        complaints.push(format!("{} executions cannot be read by a new process", facts.parked_at_last));
    }
    if facts.is_quiet && facts.in_memory_at_last > 0 {
        complaints
            .push(format!("all have ended, and a new process takes {} into memory", facts.in_memory_at_last));
    }
    complaints
}

/// Nothing of a paused machine begins, or where all of it is to stop carries out a state, once the process that has it was told; that all of it goes on afterwards is
/// for [`nothing_lost`] to see.
pub fn paused_stands(evidence: &Evidence<'_>) -> Vec<String> {
    evidence.sim.disk().observed.moved.clone()
}

/// After the faults end, the node that a request reaches answers it, whichever node holds the Shard.
pub fn answered_anywhere(evidence: &Evidence<'_>) -> Vec<String> {
    let calm_from = evidence.sim.plan.calm_from + timers::UP_AGAIN_MS;
    let mut complaints = Vec::new();
    for (number, request) in evidence.sim.requests.iter().enumerate() {
        let is_late = request.sent_at.is_some_and(|at| at >= calm_from);
        // A watch may wait long for the end of its execution.
        let is_answered_at_once = !matches!(request.wish, Wish::Watch(_));
        if is_late && is_answered_at_once && request.sent > 1 {
            let (wish, sent) = (&request.wish, request.sent);
            complaints.push(format!("request {number} was made {sent} times while all was calm: {wish:?}"));
        }
    }
    complaints
}

/// Each key was applied once with the same bytes, each step under one of its keys only, and every key is on record.
pub fn applied_once_per_key(evidence: &Evidence<'_>) -> Vec<String> {
    let receiver = &evidence.sim.receiver;
    let mut complaints = receiver.complaints.clone();
    let on_record: BTreeSet<&EffectKey> = evidence.histories.iter().flat_map(keys_of).collect();
    let mut steps: BTreeMap<&str, u32> = BTreeMap::new();
    for (key, kept) in &receiver.kept {
        if kept.applied > 1 {
            complaints.push(format!("{key} was applied {} times", kept.applied));
        }
        if !on_record.contains(key) {
            complaints.push(format!("{key} was called and is on no record"));
        }
        // A process that was told that nothing was done may use another key.
        if !receiver.belied.contains(key) {
            *steps.entry(step_place(key)).or_default() += kept.applied;
        }
    }
    for (step, applied) in steps {
        if applied > 1 {
            complaints.push(format!("{step} was applied under {applied} keys"));
        }
    }
    complaints.extend(each_name_once(evidence));
    complaints.extend(each_task_to_one_worker(evidence));
    complaints
}

/// A task goes to one worker, and once more for each retry, which may keep its token.
fn each_task_to_one_worker(evidence: &Evidence<'_>) -> Vec<String> {
    let mut handed: BTreeMap<String, (TaskToken, usize)> = BTreeMap::new();
    for token in &evidence.sim.facts.handed {
        handed.entry(token.to_string()).or_insert((*token, 0)).1 += 1;
    }
    let mut complaints = Vec::new();
    for (token, times) in handed.into_values() {
        let history = evidence.histories.iter().find(|history| history.id == token.execution);
        let events =
            history.into_iter().flat_map(|history| &history.turns).flat_map(perdura_engine::Turn::events);
        let mut is_meant = false;
        let mut started = 0;
        for event in events.filter(|event| event.strand == token.strand) {
            match &event.kind {
                EventKind::TaskScheduled(scheduled) => is_meant = scheduled.secret == Some(token.secret),
                EventKind::TaskStarted { .. } => started += usize::from(is_meant),
                _ => {}
            }
        }
        if times > started {
            complaints.push(format!("{token:?} went to {times} workers, and {started} are on record"));
        }
    }
    complaints
}

/// No two executions have one name until it is swept. The names of children follow from their parents', so a second
/// child would be noticed.
fn each_name_once(evidence: &Evidence<'_>) -> Vec<String> {
    let disk = evidence.sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut names: BTreeMap<(&str, &str), Vec<(i64, i64)>> = BTreeMap::new();
    for history in &evidence.histories {
        let Some(identity) = history.execution.as_ref().map(perdura_engine::Execution::identity) else {
            continue;
        };
        let Some(first) = disk.observed.turns.get(&(history.id, 1)) else { continue };
        let until = evidence.sim.facts.swept_at.get(&history.id).copied().unwrap_or(i64::MAX);
        names.entry((&*identity.machine_name, &*identity.name)).or_default().push((first.at, until));
    }
    let mut complaints = Vec::new();
    for ((machine, name), mut spans) in names {
        spans.sort_unstable();
        let together = spans.windows(2).filter(|pair| pair[1].0 < pair[0].1).count();
        if together > 0 {
            complaints.push(format!("{machine} began {} times as {name}", together + 1));
        }
    }
    complaints
}

fn keys_of(history: &History) -> impl Iterator<Item = &EffectKey> {
    history.turns.iter().flat_map(perdura_engine::Turn::notes).filter_map(|note| match note {
        Note::Ledger { key, .. } => Some(key),
        _ => None,
    })
}

/// No call is recorded again after it was completed, and every call that left was recorded before by the process that
/// made it.
pub fn completed_never_runs_again(evidence: &Evidence<'_>) -> Vec<String> {
    let mut complaints = Vec::new();
    let disk = evidence.sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (key, seen) in &disk.observed.keys {
        if seen.ordered_after_completion {
            complaints.push(format!("{key} was ordered again after it was completed"));
        }
    }
    let mut left: BTreeMap<_, u32> = BTreeMap::new();
    for call in &evidence.sim.facts.left {
        let times = left.entry((call.by, &call.key)).or_default();
        *times += 1;
        if *times > call.ordered {
            complaints.push(format!(
                "{:?} made {} for time {times} at {} and had put it on record {} times",
                call.by, call.key, call.at, call.ordered
            ));
        }
    }
    complaints
}
