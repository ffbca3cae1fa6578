//! The audit.

use crate::audit::{
    AuditPage, AuditRow, Broken, Chain, ChainState, Entries, Entry, Hash, Origin, Verified, Verifier,
};
use perdura_engine::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All chains.
#[derive(Debug, Default)]
pub(super) struct Audit {
    rows: BTreeMap<i64, AuditRow>,
    /// The newest row id ever.
    newest: i64,
    chains: BTreeMap<Chain, ChainState>,
}

impl Audit {
    pub(super) fn append(&mut self, chain: Chain, entries: &Entries) {
        let state = self.chains.entry(chain).or_insert_with(|| ChainState::empty(chain));
        let Some(row) = AuditRow::after(state, self.newest + 1, entries) else { return };
        *state = state.with(&row);
        self.newest = row.id;
        self.rows.insert(row.id, row);
    }

    /// Adds the entry of a change, if there is a requester.
    pub(super) fn note(&mut self, by: Option<&Arc<Origin>>, entry: impl FnOnce(&Arc<Origin>) -> Entry) {
        if let Some(by) = by {
            self.append(Chain::Catalog, &Entries::from(&entry(by)));
        }
    }

    pub(super) fn page(&self, page: &AuditPage) -> Vec<AuditRow> {
        let is_meant = |row: &&AuditRow| {
            page.since.is_none_or(|since| row.to_at >= since)
                && page.until.is_none_or(|until| row.from_at <= until)
        };
        let mut bytes = 0;
        let has_room = |row: &&AuditRow| {
            let had_room = bytes < page.bytes_max.max(1);
            bytes += row.entries.len();
            had_room
        };
        let after = page.after;
        if page.newest_first {
            let rows = self.rows.range(..after.unwrap_or(i64::MAX)).rev().map(|(_, row)| row);
            rows.filter(is_meant).take_while(has_room).cloned().collect()
        } else {
            let rows = self.rows.range(after.map_or(i64::MIN, |after| after + 1)..).map(|(_, row)| row);
            rows.filter(is_meant).take_while(has_room).cloned().collect()
        }
    }

    pub(super) fn verify(&self, noted: &[(Chain, Hash)]) -> Result<Vec<Verified>, Broken> {
        let mut verifier = Verifier::new(self.chains.values().cloned().collect(), noted);
        for row in self.rows.values() {
            verifier.take(row)?;
        }
        verifier.finish()
    }

    pub(super) fn cut(&mut self, before: Timestamp, most: usize, by: &Arc<Origin>) -> u64 {
        let old = self.rows.values().take(most).take_while(|row| row.to_at < before);
        let gone: Vec<AuditRow> = old.cloned().collect();
        let stood = self.chains.clone();
        for row in &gone {
            self.rows.remove(&row.id);
            if let Some(state) = self.chains.get_mut(&row.chain) {
                *state = state.without(row);
            }
        }
        for state in stood.values() {
            let stands = self.chains[&state.chain].clone();
            if stands.first != state.first {
                self.append(Chain::Catalog, &Entries::from(&Entry::cut(by, state, &stands)));
            }
        }
        gone.len() as u64
    }
}
