//! Replies remain true.

use super::Evidence;
use crate::clients::{Request, Told, Wish};
use crate::history::History;
use perdura_engine::{By, EventKind, Execution, ExecutionId, Input, Note, StrandId};
use perdura_runtime::{Ending, StartError};
use std::collections::{BTreeMap, BTreeSet};

/// Nothing was acknowledged before it was on disk, every Turn that the store acknowledged is there byte for byte, and
/// every reply agrees with the stored data.
pub fn acknowledged_is_durable(evidence: &Evidence<'_>) -> Vec<String> {
    let mut complaints = evidence.sim.facts.complaints.clone();
    complaints.extend(turns_are_there(evidence));
    let histories: BTreeMap<ExecutionId, &History> =
        evidence.histories.iter().map(|history| (history.id, history)).collect();
    for request in &evidence.sim.requests {
        let complaint = match (&request.wish, &request.told) {
            (Wish::Input(execution, input), Some(Told::Taken(Ok(taken)))) if taken.ignored.is_none() => {
                histories.get(execution).and_then(|history| input_is_there(history, input, request))
            }
            (Wish::Watch(execution), Some(Told::Ended(Ok(ending)))) => {
                histories.get(execution).and_then(|history| ending_is_there(history, ending))
            }
            _ => None,
        };
        complaints.extend(complaint);
    }
    complaints.extend(redrives_are_there(evidence, &histories));
    complaints.extend(names_are_taken_once(evidence));
    complaints
}

fn turns_are_there(evidence: &Evidence<'_>) -> Vec<String> {
    let disk = evidence.sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let histories: BTreeMap<ExecutionId, &History> =
        evidence.histories.iter().map(|history| (history.id, history)).collect();
    let mut complaints = Vec::new();
    for ((id, number), seen) in &disk.observed.turns {
        let there = histories.get(id).and_then(|history| history.hashes.get(*number as usize - 1));
        match there {
            Some(hash) if *hash == seen.hash => {}
            Some(_) => complaints.push(format!("Turn {number} of {id} is not what was committed")),
            None => complaints.push(format!("Turn {number} of {id} was committed and is gone")),
        }
    }
    complaints
}

fn input_is_there(history: &History, input: &Input, request: &Request) -> Option<String> {
    let mark = request.mark.as_deref()?;
    let found = match input {
        Input::Stop { .. } => events(history).any(
            |kind| matches!(kind, EventKind::ExecutionAborted(fault) if fault.cause.as_deref() == Some(mark)),
        ),
        Input::TaskOutcome { by, .. } => {
            let strands = strands_of(history, by);
            let answered = history.turns.iter().flat_map(perdura_engine::Turn::events).any(|event| {
                strands.contains(&event.strand) && matches!(event.kind, EventKind::TaskSucceeded { .. })
            });
            let late = history
                .turns
                .iter()
                .flat_map(perdura_engine::Turn::notes)
                .any(|note| matches!(note, Note::LateOutcome { strand, .. } if strands.contains(strand)));
            answered || late
        }
        _ => true,
    };
    (!found).then(|| format!("{} does not know of {input:?}, which was taken", history.id))
}

/// The lines of control that took the step of a token: each run of the Parallel or Map around it has one of its own.
fn strands_of(history: &History, by: &By) -> BTreeSet<StrandId> {
    let is_its = |kind: &EventKind| match (kind, by) {
        (EventKind::TaskScheduled(scheduled), By::Token(token)) => {
            scheduled.secret.is_some_and(|secret| secret.is_of_the_round_of(token.secret))
        }
        _ => false,
    };
    let scheduled = history.turns.iter().flat_map(perdura_engine::Turn::events);
    let theirs = scheduled.filter(|event| is_its(&event.kind)).map(|event| event.strand);
    theirs.chain([by.strand()]).collect()
}

fn events(history: &History) -> impl Iterator<Item = &EventKind> {
    history.turns.iter().flat_map(perdura_engine::Turn::events).map(|event| &event.kind)
}

fn ending_is_there(history: &History, ending: &Ending) -> Option<String> {
    let execution = history.execution.as_ref()?;
    if execution.redrives() > 0 {
        return None;
    }
    let now = Ending::of(execution);
    (now.as_ref() != Some(ending))
        .then(|| format!("{} was told to have ended as {ending:?}, and has as {now:?}", history.id))
}

fn redrives_are_there(evidence: &Evidence<'_>, histories: &BTreeMap<ExecutionId, &History>) -> Vec<String> {
    let mut taken: BTreeMap<ExecutionId, u32> = BTreeMap::new();
    for request in &evidence.sim.requests {
        let Wish::Input(execution, _) = &request.wish else { continue };
        if let (true, Some(Told::Taken(Ok(said)))) = (request.wish.is_redrive(), &request.told)
            && said.ignored.is_none()
        {
            *taken.entry(*execution).or_default() += 1;
        }
    }
    let mut complaints = redrives_count_once(evidence, histories);
    for (id, times) in taken {
        let redrives =
            histories.get(&id).and_then(|history| history.execution.as_ref()).map_or(0, Execution::redrives);
        if redrives < times {
            complaints.push(format!("{id} was redriven {times} times and knows of {redrives}"));
        }
    }
    complaints
}

/// If all redrives of an execution have tokens, each token counts once.
fn redrives_count_once(evidence: &Evidence<'_>, histories: &BTreeMap<ExecutionId, &History>) -> Vec<String> {
    let mut asked: BTreeMap<ExecutionId, (u32, bool)> = BTreeMap::new();
    for request in evidence.sim.requests.iter().filter(|request| request.wish.is_redrive()) {
        let Wish::Input(execution, input) = &request.wish else { continue };
        let (times, has_tokens) = asked.entry(*execution).or_insert((0, true));
        *times += 1;
        *has_tokens &= matches!(input, Input::RedriveOnce { .. });
    }
    let mut complaints = Vec::new();
    for (id, (times, _)) in asked.into_iter().filter(|(_, (_, has_tokens))| *has_tokens) {
        let execution = histories.get(&id).and_then(|history| history.execution.as_ref());
        let redrives = execution.map_or(0, Execution::redrives);
        if redrives > times {
            complaints.push(format!("{id} was redriven {redrives} times, and {times} were asked for"));
        }
    }
    complaints
}

fn names_are_taken_once(evidence: &Evidence<'_>) -> Vec<String> {
    let mut names: BTreeMap<(usize, &str), ExecutionId> = BTreeMap::new();
    let mut complaints = Vec::new();
    for request in &evidence.sim.requests {
        let (Wish::Start(planned), Some(Told::Started(told))) = (&request.wish, &request.told) else {
            continue;
        };
        let planned = &evidence.sim.plan.starts[*planned];
        let id = match told {
            Ok(started) => started.execution,
            Err(StartError::Exists(id)) => *id,
            Err(
                StartError::NoMachine
                | StartError::TooMany(_)
                | StartError::Paused
                | StartError::Unavailable(_),
            ) => continue,
        };
        let Some(name) = &planned.name else { continue };
        if evidence.sim.swept.contains_key(&id) {
            continue;
        }
        let first = *names.entry((planned.script, name)).or_insert(id);
        if first != id {
            complaints.push(format!("the name {name} was given to {first} and to {id}"));
        }
    }
    complaints
}
