//! The Turns in the journal that rows do not cover.
//!
//! The journal is written for recovery, not for lookups: to find one execution's Turns, all of it must be opened. So a
//! reader remembers which executions each journal row has, and opens each row once; rows never change.

use crate::gather::dense;
use crate::lease::Position;
use crate::record;
use crate::sqlite::aside;
use crate::sqlite::fault::Trouble;
use crate::sqlite::rows::{id_of, position_of};
use crate::store::{StoredTurn, Unlisted};
use perdura_engine::ExecutionId;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The executions in each journal row.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Beyond {
    /// By the row's id; each list is sorted.
    rows: BTreeMap<i64, Vec<ExecutionId>>,
    /// The executions that begin in a journal row, for rows that were asked for it.
    begun: BTreeMap<i64, Vec<Unlisted>>,
    /// The number of journal rows that each execution is in.
    standing: BTreeMap<ExecutionId, u32>,
}

impl Beyond {
    /// The Turns of an execution in the journals that are not covered by its row.
    pub(super) fn turns(
        &mut self,
        connection: &Connection,
        execution: ExecutionId,
        covered: u64,
    ) -> Result<Vec<(Position, StoredTurn)>, Trouble> {
        let mut turns = Vec::new();
        for (position, sealed) in aside::of(connection, execution)? {
            let (_, found) = record::read_journal(&sealed)?;
            turns.extend(found.into_iter().map(|(_, turn)| (position, turn)));
        }
        turns.retain(|(_, turn): &(Position, StoredTurn)| turn.number > covered);
        for id in self.learn(connection)? {
            if self.rows.get(&id).is_none_or(|ids| ids.binary_search(&execution).is_err()) {
                continue;
            }
            let Some(found) = open(connection, id)? else { continue };
            let last = turns.last().map_or(covered, |(_, turn)| turn.number);
            let wanted =
                |(whose, turn): &(ExecutionId, StoredTurn)| *whose == execution && turn.number > last;
            turns.extend(found.into_iter().filter(wanted).map(|(_, turn)| (position_of(id), turn)));
        }
        dense(covered, &turns)?;
        Ok(turns)
    }

    /// The first Turns of executions without a row.
    pub(in crate::sqlite) fn unlisted(&mut self, connection: &Connection) -> Result<Vec<Unlisted>, Trouble> {
        let ids = self.learn(connection)?;
        self.begun.retain(|id, _| self.rows.contains_key(id));
        let mut has_row = connection.prepare_cached("SELECT 1 FROM execution WHERE id = ?1")?;
        let mut unlisted = Vec::new();
        for id in ids {
            let begun = match self.begun.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let turns = open(connection, id)?.unwrap_or_default();
                    let first = turns.iter().filter(|(_, turn)| turn.number == 1);
                    unknown.insert(
                        first.filter_map(|(execution, turn)| Unlisted::of(*execution, turn)).collect(),
                    )
                }
            };
            for begun in begun.iter() {
                if !has_row.exists([id_of(begun.summary.execution)])? {
                    unlisted.push(begun.clone());
                }
            }
        }
        Ok(unlisted)
    }

    /// Whether the journal has a Turn of this execution, covered or not, as of the last `learn`.
    pub(in crate::sqlite) fn stands(&self, execution: ExecutionId) -> bool {
        self.standing.contains_key(&execution)
    }

    /// Opens new rows, forgets deleted ones, and returns the ids of all.
    pub(in crate::sqlite) fn learn(&mut self, connection: &Connection) -> Result<Vec<i64>, Trouble> {
        let ids = connection
            .prepare_cached("SELECT id FROM journal ORDER BY id")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<Vec<i64>, _>>()?;
        let is_gone = |id: &&i64| ids.binary_search(id).is_err();
        let gone: Vec<i64> = self.rows.keys().filter(is_gone).copied().collect();
        for execution in gone.iter().filter_map(|id| self.rows.remove(id)).flatten() {
            if let Entry::Occupied(mut rows) = self.standing.entry(execution) {
                *rows.get_mut() -= 1;
                if *rows.get() == 0 {
                    rows.remove();
                }
            }
        }
        for id in &ids {
            if !self.rows.contains_key(id) {
                let mut who: Vec<_> =
                    open(connection, *id)?.unwrap_or_default().into_iter().map(|(who, _)| who).collect();
                who.sort_unstable();
                who.dedup();
                for execution in &who {
                    *self.standing.entry(*execution).or_default() += 1;
                }
                self.rows.insert(*id, who);
            }
        }
        Ok(ids)
    }
}

/// The Turns of a row. Recovery reports a damaged row; here it must not hide the executions beside it.
fn open(connection: &Connection, id: i64) -> Result<Option<Vec<(ExecutionId, StoredTurn)>>, Trouble> {
    let sealed = connection
        .prepare_cached("SELECT turns FROM journal WHERE id = ?1")?
        .query_row([id], |row| row.get::<_, Vec<u8>>(0))
        .optional()
        .map_err(Trouble::from);
    match sealed {
        Ok(sealed) => {
            Ok(sealed.and_then(|sealed| record::read_journal(&sealed).ok()).map(|(_, turns)| turns))
        }
        Err(trouble) if trouble.is_damage() => Ok(None),
        Err(trouble) => Err(trouble),
    }
}
