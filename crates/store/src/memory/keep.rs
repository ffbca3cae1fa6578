//! Writing: each change is checked as a whole before its first part is made.

use super::{Kept, Memory, refuse};
use crate::group::{Group, LedgerChange, Part, Row};
use crate::lease::{Position, Shard};
use crate::store::{CommitError, Retention, Swept};
use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
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
        if let Some(child) = row.child {
            self.children.insert(child, row.execution);
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
        !kept.row.awake
            && kept.row.content.is_some()
            && kept.row.ended_at.is_some()
            && kept.covered_at < oldest
    }

    /// Those that may go by their age, those that ended first before the others. Children go with their parent.
    fn sweepable(&self) -> Vec<(Timestamp, ExecutionId)> {
        let old = self.rows.values().filter(|kept| kept.row.child.is_none() && self.may_go(kept));
        let mut old: Vec<_> = old.filter_map(|kept| Some((kept.row.ended_at?, kept.row.execution))).collect();
        old.sort_unstable();
        old
    }

    /// Children whose parent has gone.
    fn orphans(&self) -> Vec<ExecutionId> {
        let runs = self.orphaned.iter();
        let children = runs.flat_map(|run| self.children_of(*run, 0)).map(|(_, execution)| execution);
        children.filter(|execution| self.may_go(&self.rows[execution])).collect()
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

    pub(super) fn sweep(&mut self, retention: &Retention, most: u32, dry_run: bool) -> Swept {
        let most = if dry_run { usize::MAX } else { most as usize };
        let mut bytes = self.bytes();
        let mut swept = Swept::default();
        let mut orphans = if dry_run { Vec::new() } else { self.orphans() };
        swept.more = orphans.len() > most;
        orphans.truncate(most);
        // While children go, nobody knows yet how much room there will be.
        let bytes_max = retention.bytes_max.filter(|_| orphans.is_empty());
        let mut children = 0;
        let mut going: BTreeSet<_> = orphans.into_iter().collect();
        for (ended_at, execution) in self.sweepable() {
            let too_large = bytes_max.is_some_and(|max| bytes > max);
            if ended_at >= retention.ended_before && !too_large {
                break;
            }
            if going.len() == most {
                swept.more = true;
                break;
            }
            let below = self.descendants(execution);
            let below_bytes: u64 = below.iter().map(|child| self.bytes_of(*child)).sum();
            bytes = bytes.saturating_sub(self.bytes_of(execution) + below_bytes);
            children += below.len() as u64;
            going.insert(execution);
        }
        let mut ledger: Vec<_> = self.ledger.iter().map(|(key, entry)| (key.clone(), entry)).collect();
        let old = |ended_at: &Option<Timestamp>| ended_at.is_some_and(|at| at < retention.ledger_before);
        ledger.retain(|(_, (row, ended_at))| going.contains(&row.execution) || old(ended_at));
        let own = ledger.iter().filter(|(_, (row, _))| going.contains(&row.execution)).count();
        // Rows of those that go are taken with them, whatever their number.
        if ledger.len() - own > most {
            ledger.retain(|(_, (row, _))| going.contains(&row.execution));
            swept.more = true;
        }
        swept.executions = going.len() as u64 + if dry_run { children } else { 0 };
        swept.ledger = ledger.len() as u64;
        let keys: Vec<_> = ledger.into_iter().map(|(key, _)| key).collect();
        if !dry_run {
            for key in keys {
                self.ledger.remove(&key);
            }
            for execution in going {
                swept.more |= self.forget(execution);
            }
            let is_empty = |run: &Uuid| self.children_of(*run, 0).next().is_none();
            let empty: Vec<_> = self.orphaned.iter().copied().filter(is_empty).collect();
            for run in empty {
                self.orphaned.remove(&run);
                self.map_runs.remove(&run);
            }
        }
        swept
    }

    /// Takes one; whether it has Map Runs, whose children go next.
    fn forget(&mut self, execution: ExecutionId) -> bool {
        let Some(kept) = self.rows.remove(&execution) else { return false };
        if let Some(name) = kept.row.name {
            self.names.remove(&(kept.row.machine, name));
        }
        self.segments.retain(|(whose, _), _| *whose != execution);
        if let Some(child) = kept.row.child {
            self.children.remove(&child);
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
