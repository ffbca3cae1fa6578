//! The audit: entries of who did what, and the hash chains that contain them.
//!
//! An [`Entry`] is made where a request arrives, and is written in the transaction of its change: a change without its
//! entry does not happen, and an entry of a rolled-back change does not stay. There is a [`Chain`] for each Shard,
//! written by the Shard's holder, and one for the Catalog. A commit adds one [`AuditRow`] to a chain, with all entries
//! that the commit has for it as lines of JSON, and with the SHA-256 of the row before. So to change, drop or insert a
//! row, all later rows must be rebuilt. Only a hash that was recorded elsewhere shows that the newest end was not cut
//! off.

mod chain;
mod entry;
mod verify;

use crate::lease::Shard;
use crate::store::Erased;
pub use chain::{AuditPage, AuditRow, Chain, ChainState, Entries, Hash, hex, read_hex};
pub use entry::{AuditResult, DoorKind, Entry, Origin, Subject, Verb};
use perdura_engine::{ExecutionId, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
pub use verify::{Broken, Verified, Verifier};

/// The entries for erased executions, each in the chain of its Shard.
pub(crate) fn erasing(
    erased: &Erased,
    ended: &[(ExecutionId, Timestamp)],
    shards: u16,
    by: Option<&Arc<Origin>>,
) -> Vec<(Chain, Entries)> {
    let Some(by) = by.filter(|_| matches!(erased, Erased::Done { executions: 1.., .. })) else {
        return Vec::new();
    };
    let mut chains: BTreeMap<Shard, Vec<ExecutionId>> = BTreeMap::new();
    for (execution, _) in ended {
        chains.entry(Shard::of(*execution, shards)).or_default().push(*execution);
    }
    let entries = |executions| Entries::from(&Entry::erased(by, executions));
    chains.into_iter().map(|(shard, executions)| (Chain::Shard(shard), entries(executions))).collect()
}
