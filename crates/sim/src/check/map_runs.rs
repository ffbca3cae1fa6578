//! Map Runs end with their executions, and their counts are right.

use super::Evidence;
use crate::history::History;
use perdura_engine::asl::json::Value;
use perdura_engine::{EventKind, Execution, MapRunCounts, Status, Tally, Turn};
use perdura_store::MapRunRow;

/// How long after its parent, or after the last trouble, a child may still run.
const ENDS_WITHIN_MS: i64 = 180_000;

/// A Map Run whose execution has ended has ended as its history says; its counts are the sum of its children's rows;
/// and no child outlives its parent.
pub fn map_runs_end(evidence: &Evidence<'_>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut reader = evidence.sim.home.reader();
    let has_ended = |history: &&History| history.execution.as_ref().is_some_and(Execution::is_ended);
    for parent in evidence.histories.iter().filter(has_ended).filter(|history| !history.is_swept) {
        let runs = reader.map_runs(parent.id).expect("what was written can be read");
        for run in runs {
            let children: Vec<&History> = evidence
                .histories
                .iter()
                .filter(|history| child_of(history) == Some(run.id) && !history.is_swept)
                .collect();
            let mut complain = |what: String| complaints.push(format!("Map Run {}: {what}", run.arn));
            if run.status == Status::Running || run.ended_at.is_none() {
                complain("its execution has ended, and it says that it runs".to_owned());
            }
            let told = told(parent, &run);
            let agrees = match told.ended_as {
                Some(status) => (run.redrives, run.status) == (told.redrives, status),
                // A run that was taken up and stopped at once may not have written that.
                None => run.redrives <= told.redrives,
            };
            if !agrees {
                complain(format!(
                    "it says {} redrives, {:?}; its history {told:?}",
                    run.redrives, run.status
                ));
            }
            let counted = counted(&children, &run);
            if run.counts != counted {
                complain(format!("it says {:?}, and its children {counted:?}", run.counts));
            }
            for child in children {
                if let Some(late) = outlived(evidence, parent, child) {
                    complain(format!("{} ran for {late} ms after whoever waited for it", child.id));
                }
            }
        }
    }
    complaints
}

fn child_of(history: &History) -> Option<uuid::Uuid> {
    Some(history.row.as_ref()?.child?.run)
}

/// The end of a run according to the history.
#[derive(Debug, Default)]
struct ToldOf {
    redrives: u32,
    /// How it ended by itself, if that was the last event of it.
    ended_as: Option<Status>,
}

/// The machines of the simulation have one Distributed Map each.
fn told(parent: &History, run: &MapRunRow) -> ToldOf {
    let mut told = ToldOf::default();
    for event in parent.turns.iter().flat_map(Turn::events) {
        match &event.kind {
            EventKind::MapRunRedriven { arn, redrive_count } if *arn == run.arn => {
                told = ToldOf { redrives: *redrive_count, ended_as: None };
            }
            EventKind::MapRunSucceeded => told.ended_as = Some(Status::Succeeded),
            EventKind::MapRunFailed(_) => told.ended_as = Some(Status::Failed),
            _ => {}
        }
    }
    told
}

/// The sum of its children. Only the run knows the number of items.
fn counted(children: &[&History], run: &MapRunRow) -> MapRunCounts {
    let mut counts = MapRunCounts::default();
    counts.items.total = run.counts.items.total;
    counts.children.total = children.len() as u64;
    for child in children {
        let status = child.row.as_ref().map_or(Status::Running, |row| row.status);
        let input = child.execution.as_ref().map(|execution| execution.identity().input.value());
        let batch = input.and_then(|input| input.get("Items"));
        let items = match batch {
            Some(Value::Array(items)) => items.len() as u64,
            _ => 1,
        };
        *of(&mut counts.items, status) += items;
        *of(&mut counts.children, status) += 1;
    }
    counts
}

fn of(tally: &mut Tally, status: Status) -> &mut u64 {
    match status {
        Status::Created | Status::Running => &mut tally.running,
        Status::Succeeded => &mut tally.succeeded,
        Status::Failed => &mut tally.failed,
        Status::Aborted => &mut tally.aborted,
        Status::TimedOut => &mut tally.timed_out,
    }
}

/// How much too long a child ran on after its parent had ended for good, in true time.
fn outlived(evidence: &Evidence<'_>, parent: &History, child: &History) -> Option<i64> {
    let disk = evidence.sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let ended_at = |history: &History| {
        let ends = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::ExecutionSucceeded { .. }
                    | EventKind::ExecutionFailed(_)
                    | EventKind::ExecutionAborted(_)
                    | EventKind::ExecutionTimedOut(_)
            )
        };
        let last = history.turns.iter().rposition(|turn| turn.events().any(|event| ends(&event.kind)))?;
        disk.observed.turns.get(&(history.id, last as u64 + 1)).map(|seen| seen.at)
    };
    let until = ended_at(parent)?.max(evidence.sim.plan.calm_from);
    let late = ended_at(child).unwrap_or(evidence.sim.clock.now()) - until;
    (late > ENDS_WITHIN_MS).then_some(late)
}
