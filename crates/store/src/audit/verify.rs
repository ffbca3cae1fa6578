//! Follows chains from their oldest row to the newest, to find inconsistencies.

use super::{AuditRow, Chain, ChainState, Hash, hex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// An inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The row; `None`: it is about a chain as a whole.
    pub row: Option<i64>,
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(formatter, "audit row {row}: {}", self.what),
            None => formatter.write_str(&self.what),
        }
    }
}

/// A chain that was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    pub chain: Chain,
    pub rows: u64,
    pub entries: u64,
    /// The number of the first entry that is kept.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// The hash of the newest row, in hexadecimal.
    pub head: String,
}

/// Follows all chains from their oldest row to the newest.
#[derive(Debug)]
pub struct Verifier {
    chains: BTreeMap<Chain, (ChainState, Followed)>,
    /// Recorded heads that were not found yet.
    noted: Vec<(Chain, Hash)>,
    last: Option<i64>,
}

/// How far a chain was followed.
#[derive(Debug)]
struct Followed {
    next: u64,
    head: Hash,
    rows: u64,
}

impl Verifier {
    /// For chains in this state, which must contain these hashes.
    pub fn new(chains: Vec<ChainState>, noted: &[(Chain, Hash)]) -> Self {
        let follow = |state: ChainState| {
            let followed = Followed { next: state.first, head: state.before, rows: 0 };
            (state.chain, (state, followed))
        };
        let noted = noted.to_vec();
        let chains: BTreeMap<_, _> = chains.into_iter().map(follow).collect();
        let mut verifier = Self { chains, noted, last: None };
        let ends: Vec<(Chain, Hash)> =
            verifier.chains.values().map(|(state, _)| (state.chain, state.before)).collect();
        verifier.noted.retain(|noted| !ends.contains(noted));
        verifier
    }

    /// Takes the next row, in the order of their ids.
    pub fn take(&mut self, row: &AuditRow) -> Result<(), Broken> {
        let broken = |what: String| Err(Broken { row: Some(row.id), what });
        if self.last.is_some_and(|last| last >= row.id) {
            return broken("it is out of order".into());
        }
        self.last = Some(row.id);
        let Some((_, followed)) = self.chains.get_mut(&row.chain) else {
            return broken(format!("there is no chain {}", row.chain));
        };
        if row.previous != followed.head || row.first != followed.next {
            let Followed { next, .. } = *followed;
            return broken(format!(
                "it does not follow the row before it in {}, after entry {}",
                row.chain,
                next - 1
            ));
        }
        if row.digest() != row.hash {
            return broken("its hash is not that of what stands in it".into());
        }
        if row.entries.split('\n').count() as u64 != row.count {
            return broken(format!("it says that it has {} entries", row.count));
        }
        *followed = Followed { next: row.first + row.count, head: row.hash, rows: followed.rows + 1 };
        self.noted.retain(|noted| *noted != (row.chain, row.hash));
        Ok(())
    }

    /// All rows were taken: checks the ends.
    pub fn finish(self) -> Result<Vec<Verified>, Broken> {
        let broken = |what: String| Err(Broken { row: None, what });
        let mut verified = Vec::new();
        for (chain, (state, followed)) in self.chains {
            if state.next != followed.next || state.head != followed.head {
                let (has, says) = (followed.next - 1, state.next.saturating_sub(1));
                return broken(format!("{chain} ends with entry {has}, and is to end with entry {says}"));
            }
            verified.push(Verified {
                chain,
                rows: followed.rows,
                entries: followed.next - state.first,
                first: state.first,
                last: followed.next - 1,
                head: hex(&followed.head),
            });
        }
        match self.noted.first() {
            Some((chain, hash)) => broken(format!("{chain} has no row with the hash {}", hex(hash))),
            None => Ok(verified),
        }
    }
}
