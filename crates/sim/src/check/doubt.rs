//! A step in doubt is not performed under another key, and no record says that it was not done.

use super::Evidence;
use crate::clients::Wish;
use crate::history::History;
use crate::receiver::visit_of;
use perdura_engine::{
    Attempt, By, EffectKey, EventKind, Input, LedgerStatus, Note, Record, Resolution, Resolved, StrandId,
    Turn,
};
use std::collections::{BTreeMap, BTreeSet};

/// No step is performed under a key while an earlier key of it may have been used; the Ledger never says failed of a
/// performed call; an attempt fails by its own failure only; a late success counts as long as no worker has taken the
/// next key; and a verdict "again" on a held call applies to one attempt.
pub fn doubt_is_sticky(evidence: &Evidence<'_>) -> Vec<String> {
    let mut complaints = one_key_while_in_doubt(evidence);
    complaints.extend(failed_was_not_performed(evidence));
    complaints.extend(evidence.histories.iter().flat_map(failures_are_of_their_attempt));
    complaints.extend(evidence.histories.iter().flat_map(late_successes_count));
    complaints.extend(called_again_as_often_as_said(evidence));
    complaints
}

fn one_key_while_in_doubt(evidence: &Evidence<'_>) -> Vec<String> {
    let receiver = &evidence.sim.receiver;
    let mut visits: BTreeMap<String, Vec<(u64, &EffectKey)>> = BTreeMap::new();
    for (key, number) in &receiver.met {
        visits.entry(visit(evidence, key)).or_default().push((*number, key));
    }
    let is_performed = |key: &EffectKey| receiver.is_done(key);
    let mut complaints = Vec::new();
    for keys in visits.values_mut() {
        keys.sort_unstable();
        for (at, (_, key)) in keys.iter().enumerate().filter(|(_, (_, key))| is_performed(key)) {
            let earlier = keys[..at].iter().find(|(_, earlier)| receiver.is_in_doubt(earlier));
            if let Some((_, earlier)) = earlier {
                let doubt = if is_performed(earlier) { "had been performed" } else { "was in doubt" };
                complaints.push(format!("{key} was performed while {earlier} {doubt}"));
            }
        }
    }
    complaints
}

/// A child of a Map Run represents its item, in every run of the Map.
fn visit(evidence: &Evidence<'_>, key: &EffectKey) -> String {
    let visit = visit_of(key);
    let place = key.execution().and_then(|execution| evidence.places.get(&execution));
    match (place, visit.split_once(':')) {
        (Some(place), Some((_, step))) => format!("{place}:{step}"),
        (None, _) | (_, None) => visit,
    }
}

fn failed_was_not_performed(evidence: &Evidence<'_>) -> Vec<String> {
    let disk = evidence.sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut complaints = Vec::new();
    let belied = &evidence.sim.receiver.belied;
    for (key, seen) in disk.observed.keys.iter().filter(|(key, _)| !belied.contains(key)) {
        let Some(kept) = evidence.sim.receiver.kept.get(key).filter(|kept| kept.applied > 0) else {
            continue;
        };
        if seen.is_failed || seen.failed.iter().any(|at| *at >= kept.at) {
            complaints.push(format!("the Ledger said that {key} failed, and it was performed"));
        }
    }
    complaints
}

/// A worker's failure counts for its own attempt only.
fn failures_are_of_their_attempt(history: &History) -> Vec<String> {
    let mut attempts: BTreeMap<StrandId, u32> = BTreeMap::new();
    let mut complaints = Vec::new();
    for event in history.turns.iter().flat_map(Turn::events) {
        match &event.kind {
            EventKind::TaskScheduled(_) => *attempts.entry(event.strand).or_default() += 1,
            EventKind::TaskFailed { fault, .. } => {
                let own = fault.cause.as_deref().and_then(|cause| cause.strip_prefix("attempt "));
                let now = attempts.get(&event.strand).copied().unwrap_or(0);
                if let Some(own) = own.filter(|own| *own != now.to_string()) {
                    complaints.push(format!(
                        "event {} of {} ends attempt {now} by the failure of attempt {own}",
                        event.id, history.id
                    ));
                }
            }
            _ => {}
        }
    }
    complaints
}

/// Once it is on record that a key was used after all, no worker is the first to get a later key of its step.
fn late_successes_count(history: &History) -> Vec<String> {
    let mut calling: BTreeMap<StrandId, &EffectKey> = BTreeMap::new();
    let mut begun: BTreeSet<&EffectKey> = BTreeSet::new();
    let mut used: Vec<&EffectKey> = Vec::new();
    let mut is_late = false;
    let mut complaints = Vec::new();
    for record in history.turns.iter().flat_map(|turn| &turn.records) {
        match record {
            Record::Note(Note::Ledger { strand, key, status: LedgerStatus::Pending }) => {
                calling.insert(*strand, key);
            }
            Record::Note(Note::Ledger { key, status: LedgerStatus::Uncertain, .. }) if is_late => {
                used.push(key);
            }
            Record::Event(event) if matches!(event.kind, EventKind::TaskStarted { worker: Some(_), .. }) => {
                let Some(key) = calling.get(&event.strand).filter(|key| begun.insert(key)) else { continue };
                let is_earlier = |used: &&&EffectKey| used.step() == key.step() && used.round() < key.round();
                if let Some(earlier) = used.iter().find(is_earlier) {
                    complaints.push(format!("a worker got {key} though {earlier} was known to be used"));
                }
            }
            Record::Note(_) | Record::Event(_) => {}
        }
        is_late = matches!(record, Record::Note(Note::LateOutcome { succeeded: true, .. }));
    }
    complaints
}

/// A verdict "again" for an attempt counts once, however often it arrives.
fn called_again_as_often_as_said(evidence: &Evidence<'_>) -> Vec<String> {
    let mut said: BTreeMap<&EffectKey, BTreeSet<Option<Attempt>>> = BTreeMap::new();
    for request in &evidence.sim.requests {
        if let Wish::Input(_, Input::Resolve { by, resolution: Resolution::Again, .. }) = &request.wish
            && let By::Key { key, attempt, .. } = by
        {
            said.entry(key).or_default().insert(*attempt);
        }
    }
    let mut done: BTreeMap<&EffectKey, usize> = BTreeMap::new();
    for note in evidence.histories.iter().flat_map(|history| &history.turns).flat_map(Turn::notes) {
        if let Note::Resolved { key, resolution: Resolved::Again, .. } = note {
            *done.entry(key).or_default() += 1;
        }
    }
    let times = |key: &EffectKey| said.get(key).map_or(0, BTreeSet::len);
    let too_often = done.into_iter().filter(|(key, done)| *done > times(key));
    too_often
        .map(|(key, done)| format!("{key} was called again {done} times, and {} were said", times(key)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::{Event, ExecutionId, Lateness, Seq, TaskFamily, Timestamp};

    fn key(round: u32) -> EffectKey {
        serde_json::from_str(&format!("\"x:Work#1:{round}\"")).expect("a key is a text")
    }

    fn says(round: u32, status: LedgerStatus) -> Record {
        Record::Note(Note::Ledger { strand: StrandId::TOP, key: key(round), status })
    }

    fn taken() -> Record {
        let family = TaskFamily::Activity { resource: "work".into() };
        Record::Event(Event {
            id: Seq(1),
            previous: Seq(0),
            at: Timestamp(0),
            steady: None,
            strand: StrandId::TOP,
            kind: EventKind::TaskStarted { family, worker: Some("somebody".into()) },
        })
    }

    fn late(key: EffectKey) -> Record {
        let (strand, lateness) = (StrandId::TOP, Lateness::GivenUp);
        Record::Note(Note::LateOutcome { strand, key: Some(key), succeeded: true, lateness })
    }

    fn complaints(records: Vec<Record>) -> Vec<String> {
        late_successes_count(&History {
            id: ExecutionId::from_random(1),
            row: None,
            turns: vec![Turn { records }],
            hashes: Vec::new(),
            execution: None,
            problems: Vec::new(),
            is_swept: false,
        })
    }

    /// No input makes the engine forget a late success, so this is a made-up record: A is refused, and its success
    /// comes late, while the next key waits for a worker.
    #[test]
    fn a_late_success_that_is_only_noted_is_noticed_once_a_worker_takes_the_next_key() {
        use LedgerStatus::{Failed, Pending, Uncertain};
        let before = || vec![says(1, Pending), taken(), says(1, Failed), says(2, Pending)];
        let forgotten = [before(), vec![late(key(1)), says(1, Uncertain), taken()]].concat();
        assert_eq!(complaints(forgotten), ["a worker got x:Work#1:2 though x:Work#1:1 was known to be used"]);
        let too_late = [before(), vec![taken(), late(key(1)), says(1, Uncertain)]].concat();
        assert_eq!(complaints(too_late), Vec::<String>::new(), "the next key was taken before");
    }
}
