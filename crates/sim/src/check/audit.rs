//! Every change is on the audit with its requester: each change that a client was told of once, and every chain
//! verifies.

use super::Evidence;
use crate::clients::{Request, Told, Wish};
use perdura_engine::{ExecutionId, Input};
use perdura_runtime::{Started, Taken};
use perdura_store::audit::{AuditPage, AuditRow, Entry, Verb};
use std::collections::BTreeMap;

/// Compares the replies to clients with the audit.
pub fn told_on_the_audit(evidence: &Evidence<'_>) -> Vec<String> {
    let mut reader = evidence.sim.home.reader();
    let verified = reader.verify_audit(&[], &mut |_| {}).expect("what was written can be read");
    let mut complaints: Vec<String> = verified.err().map(|broken| broken.to_string()).into_iter().collect();
    let page = AuditPage { bytes_max: usize::MAX, ..AuditPage::default() };
    let rows = reader.audit(&page).expect("what was written can be read");
    let mut starts: BTreeMap<ExecutionId, u32> = BTreeMap::new();
    let mut turns: BTreeMap<(ExecutionId, u64), u32> = BTreeMap::new();
    for (number, line) in rows.iter().flat_map(AuditRow::lines) {
        let entry: Entry = serde_json::from_str(line).expect("an entry is JSON");
        let (Some(execution), Some(turn)) = (entry.subject.of_shard(), entry.turn) else {
            complaints.push(format!("entry {number} is about no Turn: {line}"));
            continue;
        };
        *turns.entry((execution, turn)).or_default() += 1;
        *starts.entry(execution).or_default() += u32::from(entry.verb == Verb::Start);
    }
    for ((execution, turn), times) in &turns {
        if *times > 1 {
            complaints.push(format!("Turn {turn} of {execution} is on the audit {times} times"));
        }
    }
    for Request { wish, told, .. } in &evidence.sim.requests {
        match (wish, told) {
            (Wish::Start(_), Some(Told::Started(Ok(Started { execution, fresh: true, .. })))) => {
                let times = starts.get(execution).copied().unwrap_or(0);
                if times != 1 {
                    complaints.push(format!(
                        "the start of {execution} was told, and is on the audit {times} times"
                    ));
                }
            }
            (Wish::Input(execution, input), Some(Told::Taken(Ok(Taken { turn: Some(turn), .. })))) => {
                let is_change = !matches!(input, Input::Heartbeat { .. });
                if is_change && !turns.contains_key(&(*execution, *turn)) {
                    complaints.push(format!("Turn {turn} of {execution} was told, and is not on the audit"));
                }
            }
            (Wish::Start(_) | Wish::Input(..) | Wish::Watch(_), _) => {}
        }
    }
    complaints
}
