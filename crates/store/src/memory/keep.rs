//! Writing: each change is checked as a whole before its first part is made.

use super::{Kept, Memory, refuse};
use crate::group::{Group, LedgerChange, Part, Row};
use crate::lease::{Position, Shard};
use crate::record;
use crate::store::{CommitError, Retention, SweepPlace, Sweepable, Swept};
use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

impl Memory {
    pub(super) fn check(&self, group: &Group) -> Result<(), CommitError> {
        let mut shards = BTreeSet::new();
        let mut names = BTreeMap::new();
        for part in &group.parts {
            let shard = part.lease.shard;
            self.fence(&part.lease)?;
            if !shards.insert(shard) {
                return Err(refuse("writing", format!("{shard} comes twice in one commit")));
            }
            let next = self.newest(shard).next();
            if let Some(position) = part.position.filter(|position| *position != next) {
                return Err(refuse(
                    "writing",
                    format!("journal row {} of {shard}, where row {} belongs", position.0, next.0),
                ));
            }
            for row in &part.rows {
                let Some(name) = &row.name else { continue };
                let key = (row.machine, name.clone());
                let owner = *names.entry(key.clone()).or_insert(row.execution);
                let kept = self.names.get(&key).copied().unwrap_or(owner);
                if owner != row.execution || kept != row.execution {
                    return Err(refuse("writing", format!("the name {name} is taken")));
                }
            }
        }
        Ok(())
    }

    pub(super) fn keep(&mut self, group: &Group) {
        for part in &group.parts {
            self.keep_part(part);
        }
    }

    fn keep_part(&mut self, part: &Part) {
        let shard = part.lease.shard;
        if let Some(position) = part.position {
            self.journal.insert((shard, position), part.journal.clone());
        }
        let newest = self.newest(shard);
        let keep_from = part.keep_from.min(newest);
        let old: Vec<_> =
            self.journal.range((shard, Position(0))..(shard, keep_from)).map(|(key, _)| *key).collect();
        for key in old {
            self.journal.remove(&key);
        }
        for segment in &part.segments {
            self.segments.insert((segment.execution, segment.first), segment.clone());
        }
        for row in &part.rows {
            self.keep_row(shard, newest, row);
        }
        for change in &part.ledger {
            self.keep_ledger(change);
        }
        for map_run in &part.map_runs {
            self.map_runs.insert(map_run.id, map_run.clone());
        }
        if let Some(totals) = part.totals {
            self.counters.insert(shard, totals);
        }
    }

    fn keep_row(&mut self, shard: Shard, newest: Position, row: &Row) {
        let before = self.rows.remove(&row.execution);
        let mut row = row.clone();
        if row.status == Status::Created {
            row.status = Status::Running;
        }
        let mut covered_at = newest;
        if let Some(before) = before {
            if let Some(name) = before.row.name {
                self.names.remove(&(before.row.machine, name));
            }
            if row.content.is_none() {
                row.content = before.row.content;
                covered_at = before.covered_at;
            }
        }
        if let Some(name) = &row.name {
            self.names.insert((row.machine, name.clone()), row.execution);
        }
        if row.content.is_some() && !self.aside.is_empty() {
            self.aside.retain(|(_, _, whose), _| *whose != Some(row.execution));
        }
        if let Some(child) = row.child {
            self.children.insert((child.run, child.index), row.execution);
        }
        self.rows.insert(row.execution, Kept { shard, row, covered_at });
    }

    fn keep_ledger(&mut self, change: &LedgerChange) {
        match change {
            LedgerChange::Put(row) => {
                let before = self.ledger.get(&row.key).and_then(|(_, ended_at)| *ended_at);
                let ended_at = before.filter(|_| row.status != LedgerStatus::Pending);
                self.ledger.insert(row.key.clone(), ((**row).clone(), ended_at));
            }
            LedgerChange::Drop { key } => {
                self.ledger.remove(key);
            }
            LedgerChange::Ended { execution, at } => {
                for (row, ended_at) in self.ledger.values_mut() {
                    if row.execution == *execution {
                        *ended_at = Some(*at);
                    }
                }
            }
        }
    }

    /// It has ended, and no Turn in the journal would bring it back.
    fn may_go(&self, kept: &Kept) -> bool {
        let oldest = self.journal_of(kept.shard).next().map_or(Position(0), |(position, _)| position);
        let parent_is_gone = kept.row.child.is_none_or(|child| self.orphaned.contains(&child.run));
        !kept.row.awake
            && kept.row.content.is_some()
            && kept.row.ended_at.is_some()
            && kept.covered_at < oldest
            && parent_is_gone
    }

    /// Everybody who stands in the journal.
    fn standing(&self) -> BTreeSet<ExecutionId> {
        let rows = self.journal.values().filter_map(|sealed| record::read_journal(sealed).ok());
        rows.flat_map(|(_, turns)| turns).map(|(execution, _)| execution).collect()
    }

    /// Children whose parent has gone.
    fn orphans(&self) -> impl Iterator<Item = ExecutionId> {
        let runs = self.orphaned.iter();
        runs.flat_map(|run| self.children_of(*run, 0)).map(|(_, execution)| execution)
    }

    /// Executions below this one: the children of its runs, and theirs.
    fn descendants(&self, execution: ExecutionId) -> Vec<ExecutionId> {
        let mut found = Vec::new();
        let mut open = vec![execution];
        while let Some(execution) = open.pop() {
            let runs = self.runs_of(execution).into_iter();
            let children: Vec<_> =
                runs.flat_map(|run| self.children_of(run.id, 0)).map(|(_, child)| child).collect();
            open.extend(&children);
            found.extend(children);
        }
        found
    }

    pub(super) fn sweepable(
        &self,
        retention: &Retention,
        after: Option<SweepPlace>,
        most: usize,
    ) -> Sweepable {
        let standing = self.standing();
        let may_go = |kept: &&Kept| self.may_go(kept) && !standing.contains(&kept.row.execution);
        let seen = |kept: &Kept| Some((kept.row.execution, kept.row.ended_at?));
        let mut found = Sweepable::default();
        if after.is_none() {
            let orphans = self.orphans().filter_map(|execution| self.rows.get(&execution));
            found.going = orphans.filter(may_go).filter_map(seen).take(most).collect();
        }
        if found.going.is_empty() {
            let mut place = after.unwrap_or_default();
            let mut bytes = place.bytes.unwrap_or_else(|| self.bytes());
            let old = self.rows.values().filter(|kept| kept.row.child.is_none());
            let mut old: Vec<_> = old.filter(may_go).filter_map(seen).collect();
            old.sort_unstable_by_key(|(execution, ended_at)| (*ended_at, *execution));
            for (execution, ended_at) in old.into_iter().skip(place.row as usize) {
                let too_large = retention.bytes_max.is_some_and(|max| bytes > max);
                if ended_at >= retention.ended_before && !too_large {
                    break;
                }
                if found.going.len() == most {
                    place.bytes = Some(bytes);
                    found.next = Some(place);
                    break;
                }
                let below = self.descendants(execution);
                let below_bytes: u64 = below.iter().map(|child| self.bytes_of(*child)).sum();
                bytes = bytes.saturating_sub(self.bytes_of(execution) + below_bytes);
                found.children += below.len() as u64;
                found.going.push((execution, ended_at));
                place.row += 1;
            }
        }
        let going: BTreeSet<_> = found.going.iter().map(|(execution, _)| *execution).collect();
        let is_old = |at: &Option<Timestamp>| at.is_some_and(|at| at < retention.ledger_before);
        let with_them = |(row, ended_at): &&(_, _)| -> bool {
            let row: &crate::group::LedgerRow = row;
            going.contains(&row.execution) && !is_old(ended_at)
        };
        found.ledger = self.ledger.values().filter(with_them).count() as u64;
        found
    }

    pub(super) fn old_ledger(&self, before: Timestamp) -> Vec<Arc<str>> {
        let is_old = |at: &Option<Timestamp>| at.is_some_and(|at| at < before);
        self.ledger.iter().filter(|(_, (_, at))| is_old(at)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn sweep(
        &mut self,
        going: &[(ExecutionId, Timestamp)],
        ledger_before: Timestamp,
        ledger_most: usize,
    ) -> Swept {
        let mut swept = Swept::default();
        let before = self.ledger.len();
        for (execution, ended_at) in going {
            let kept = self.rows.get(execution).filter(|kept| kept.row.ended_at == Some(*ended_at));
            if kept.is_some_and(|kept| self.may_go(kept)) {
                swept.executions += 1;
                self.ledger.retain(|_, (row, _)| row.execution != *execution);
                swept.more |= self.forget(*execution);
            }
        }
        let is_empty = |run: &Uuid| self.children_of(*run, 0).next().is_none();
        let empty: Vec<_> = self.orphaned.iter().copied().filter(is_empty).collect();
        for run in empty {
            self.orphaned.remove(&run);
            self.map_runs.remove(&run);
        }
        swept.more |= !self.orphaned.is_empty() && swept.executions > 0;
        let old = self.old_ledger(ledger_before);
        swept.more |= old.len() >= ledger_most;
        for key in old.into_iter().take(ledger_most) {
            self.ledger.remove(&key);
        }
        swept.ledger = (before - self.ledger.len()) as u64;
        swept
    }

    pub(super) fn give_up(&mut self, shard: Shard, execution: ExecutionId) -> bool {
        let before = self.aside.len() + self.rows.len();
        self.ledger.retain(|_, (row, _)| row.execution != execution);
        self.aside.retain(|(_, _, whose), _| *whose != Some(execution));
        self.forget(execution);
        let is_gone = self.aside.len() + self.rows.len() < before;
        self.aside.insert((shard, self.newest(shard), Some(execution)), None);
        is_gone
    }

    /// Takes one; whether it has Map Runs, whose children go next.
    fn forget(&mut self, execution: ExecutionId) -> bool {
        let Some(kept) = self.rows.remove(&execution) else { return false };
        if let Some(name) = kept.row.name {
            self.names.remove(&(kept.row.machine, name));
        }
        self.segments.retain(|(whose, _), _| *whose != execution);
        if let Some(child) = kept.row.child {
            self.children.remove(&(child.run, child.index));
        }
        let runs: Vec<Uuid> = self.runs_of(execution).into_iter().map(|run| run.id).collect();
        self.orphaned.extend(&runs);
        !runs.is_empty()
    }

    fn bytes_of(&self, execution: ExecutionId) -> u64 {
        let content = self.rows.get(&execution).and_then(|kept| kept.row.content.as_ref());
        let state = content.and_then(|content| content.state.as_ref()).map_or(0, |state| state.bytes.len());
        let segments = self.segments.range((execution, 0)..=(execution, u64::MAX));
        (content.map_or(0, |content| content.tail.len())
            + state
            + segments.map(|(_, segment)| segment.bytes.len()).sum::<usize>()) as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        let journal: usize = self.journal.values().map(Vec::len).sum();
        journal as u64 + self.rows.keys().map(|execution| self.bytes_of(*execution)).sum::<u64>()
    }
}
