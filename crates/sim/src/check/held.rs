//! A call that may not be repeated is not, unless a person says so.

use super::Evidence;
use perdura_engine::{EffectKey, Note, Resolved, Turn};
use std::collections::BTreeMap;

/// A call with the policy `hold` reaches its receiver once under its key, and once more for each verdict "again".
pub fn held_is_not_repeated(evidence: &Evidence<'_>) -> Vec<String> {
    let mut again: BTreeMap<&EffectKey, u32> = BTreeMap::new();
    for note in evidence.histories.iter().flat_map(|history| &history.turns).flat_map(Turn::notes) {
        if let Note::Resolved { key, resolution: Resolved::Again, .. } = note {
            *again.entry(key).or_default() += 1;
        }
    }
    let reached = evidence.sim.facts.held_reached.iter();
    let said = |key: &EffectKey| again.get(key).copied().unwrap_or(0);
    reached
        .filter(|(key, times)| **times > 1 + said(key))
        .map(|(key, times)| {
            let said = said(key);
            format!("{key} may not be repeated, and went out {times} times; {said} times a person said so")
        })
        .collect()
}
