//! Writing: each change is checked as a whole before its first part is made.

use super::{Kept, Memory, refuse};
use crate::audit::Chain;
use crate::group::{Group, LedgerChange, Row};
use crate::lease::{Incarnation, Position};
use crate::record;
use crate::store::{CommitError, Retention, SweepPlace, Sweepable, Swept};
use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

impl Memory {
    pub(super) fn check(&self, group: &Group) -> Result<(), CommitError> {
        self.fence(&group.lease)?;
        let next = self.newest(group.lease.incarnation).next();
        if let Some(position) = group.position.filter(|position| *position != next) {
            return Err(refuse("writing", format!("journal row {position}, where row {next} belongs")));
        }
        let mut names = BTreeMap::new();
        for row in &group.rows {
            let Some(name) = &row.name else { continue };
            let key = (row.machine, name.clone());
            let owner = *names.entry(key.clone()).or_insert(row.execution);
            let kept = self.names.get(&key).copied().unwrap_or(owner);
            if owner != row.execution || kept != row.execution {
                return Err(refuse("writing", format!("the name {name} is taken")));
            }
        }
        Ok(())
    }

    pub(super) fn keep(&mut self, group: &Group) {
        if let Some(position) = group.position {
            self.journal.insert(position, group.journal.clone());
        }
        let newest = self.newest(group.lease.incarnation);
        self.forget_journal(group, newest);
        for segment in &group.segments {
            self.segments.insert((segment.execution, segment.first), segment.clone());
        }
        for row in &group.rows {
            self.keep_row(newest, row);
        }
        for change in &group.ledger {
            self.keep_ledger(change);
        }
        for map_run in &group.map_runs {
            self.map_runs.insert(map_run.id, map_run.clone());
        }
        if let (Some(totals), Some(life)) = (group.totals, self.lives.get_mut(&group.lease.incarnation)) {
            life.totals = totals;
        }
        for (shard, entries) in &group.audit {
            self.audit.append(Chain::Shard(*shard), entries);
        }
    }

    /// Deletes rows that are no longer needed: of this incarnation, and of earlier ones once all their Shards have
    /// moved on.
    fn forget_journal(&mut self, group: &Group, newest: Position) {
        let by = group.lease.incarnation;
        for owned in self.shards.iter_mut().filter(|owned| owned.by == Some(by)) {
            owned.keep_from = owned.keep_from.max(group.keep_from);
        }
        let all_from = self.shards.iter().map(|owned| owned.keep_from).min().unwrap_or_default();
        let own =
            self.journal.range(Position::before(by)..group.keep_from.min(newest).max(Position::before(by)));
        let old = self.journal.range(..all_from).filter(|(at, _)| !self.lives.contains_key(&at.incarnation));
        let gone: Vec<Position> = own.chain(old).map(|(position, _)| *position).collect();
        for position in gone {
            self.journal.remove(&position);
        }
    }

    fn keep_row(&mut self, newest: Position, row: &Row) {
        let before = self.rows.remove(&row.execution);
        let mut row = row.clone();
        if row.status == Status::Created {
            row.status = Status::Running;
        }
        let (mut covered_at, mut erased_at) = (newest, None);
        if let Some(before) = before {
            erased_at = before.erased_at;
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
            self.aside.retain(|(_, whose), _| *whose != Some(row.execution));
        }
        if let Some(child) = row.child {
            self.children.insert((child.run, child.index), row.execution);
        }
        self.rows.insert(row.execution, Kept { row, covered_at, erased_at });
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

    /// Whether it has ended, and no Turn in the journal would bring it back.
    fn may_go(&self, kept: &Kept) -> bool {
        // The Turns that it covers are in the journal of the incarnation that wrote it, or of one that has ended.
        let by = kept.covered_at.incarnation;
        let may_have = |at: &Position| at.incarnation == by || !self.lives.contains_key(&at.incarnation);
        let stands = self.journal.range(..=kept.covered_at).any(|(position, _)| may_have(position));
        let parent_is_gone = kept.row.child.is_none_or(|child| self.orphaned.contains(&child.run));
        !kept.row.awake
            && kept.row.content.is_some()
            && kept.row.ended_at.is_some()
            && !stands
            && parent_is_gone
    }

    /// All executions with Turns in the journal.
    fn standing(&self) -> BTreeSet<ExecutionId> {
        let rows = self.journal.values().filter_map(|sealed| record::read_journal(sealed).ok());
        rows.flat_map(|(_, turns)| turns).map(|(execution, _)| execution).collect()
    }

    /// Children whose parents are gone.
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
            for (execution, ended_at) in old {
                if (ended_at, execution) <= (place.ended_at, place.execution) {
                    continue;
                }
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
                (place.ended_at, place.execution) = (ended_at, execution);
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
    ) -> (Swept, Vec<ExecutionId>) {
        let (mut swept, mut gone) = (Swept::default(), Vec::new());
        let before = self.ledger.len();
        for (execution, ended_at) in going {
            let kept = self.rows.get(execution).filter(|kept| kept.row.ended_at == Some(*ended_at));
            if kept.is_some_and(|kept| self.may_go(kept)) {
                swept.executions += 1;
                gone.push(*execution);
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
        (swept, gone)
    }

    pub(super) fn give_up(&mut self, by: Incarnation, execution: ExecutionId) -> bool {
        let before = self.aside.len() + self.rows.len();
        self.ledger.retain(|_, (row, _)| row.execution != execution);
        self.aside.retain(|(_, whose), _| *whose != Some(execution));
        self.forget(execution);
        self.names.retain(|_, whose| *whose != execution);
        let is_gone = self.aside.len() + self.rows.len() < before;
        self.aside.insert((self.newest(by), Some(execution)), None);
        is_gone
    }

    /// Deletes one; returns whether it has Map Runs, whose children go next.
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
