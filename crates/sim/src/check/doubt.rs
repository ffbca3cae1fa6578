//! What is in doubt is not done under another key, and nobody says that it was not done.

use super::Evidence;
use crate::history::History;
use crate::receiver::visit_of;
use perdura_engine::{EffectKey, EventKind, StrandId, Turn};
use std::collections::BTreeMap;

/// No step is performed under a key while something may have been done under an earlier one of it; the Ledger calls
/// nothing failed that was performed; and an attempt fails by its own failure only.
pub fn doubt_is_sticky(evidence: &Evidence<'_>) -> Vec<String> {
    let mut complaints = one_key_while_in_doubt(evidence);
    complaints.extend(failed_was_not_performed(evidence));
    complaints.extend(evidence.histories.iter().flat_map(failures_are_of_their_attempt));
    complaints
}

fn one_key_while_in_doubt(evidence: &Evidence<'_>) -> Vec<String> {
    let receiver = &evidence.sim.receiver;
    let mut visits: BTreeMap<String, Vec<(u64, &EffectKey)>> = BTreeMap::new();
    for (key, number) in &receiver.met {
        visits.entry(visit(evidence, key)).or_default().push((*number, key));
    }
    let is_performed = |key: &EffectKey| receiver.kept.get(key).is_some_and(|kept| kept.applied > 0);
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

/// A child of a Map Run stands for its item, whichever run of the Map it is in.
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
    for (key, seen) in &disk.observed.keys {
        let Some(kept) = evidence.sim.receiver.kept.get(key).filter(|kept| kept.applied > 0) else {
            continue;
        };
        if seen.is_failed || seen.failed.iter().any(|at| *at >= kept.at) {
            complaints.push(format!("the Ledger said that {key} failed, and it was performed"));
        }
    }
    complaints
}

/// A worker says of which attempt its failure is.
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
