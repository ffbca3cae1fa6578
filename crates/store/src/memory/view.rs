//! The reader of the memory store.

use super::{Kept, Memory, Owned, lock};
use crate::audit::{AuditPage, AuditRow, Broken, Chain, Hash, Verified};
use crate::gather::{self, Retreat, Stretch};
use crate::group::{LedgerRow, MachineId, MapRunRow, RevisionId, Row};
use crate::lease::{Position, Shard};
use crate::machine::{Head, MachineRecord, Registered, Registry};
use crate::record::{self, Damage};
use crate::store::{
    After, ChildStatus, Clock, Due, Failure, FailureKind, Filter, LedgerFilter, Left, Listing, Reader,
    Recovered, Retention, Stats, StoredTurn, Summary, SweepPlace, Sweepable, Unlisted,
};
use crate::words;
use perdura_engine::{ExecutionId, LedgerStatus, Timestamp};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use uuid::Uuid;

/// Sees the commits of all clones of the store.
pub(super) struct MemoryReader {
    memory: Arc<Mutex<Memory>>,
}

impl MemoryReader {
    pub(super) fn new(memory: Arc<Mutex<Memory>>) -> Self {
        Self { memory }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }
}

fn corrupt(execution: ExecutionId, damage: Damage) -> Failure {
    let what = format!("reading execution {execution} from the store in memory");
    Failure { what, why: damage.0, kind: FailureKind::Corrupt }
}

impl Memory {
    /// The Turns of an execution that its row does not cover.
    fn beyond(&self, execution: ExecutionId) -> Result<Vec<(Position, StoredTurn)>, Damage> {
        let covered = self.covered(execution);
        let mut turns = Vec::new();
        for ((position, whose), sealed) in &self.aside {
            if let (true, Some(sealed)) = (*whose == Some(execution), sealed) {
                let (_, found) = record::read_journal(sealed)?;
                turns.extend(found.into_iter().map(|(_, turn)| (*position, turn)));
            }
        }
        turns.retain(|(_, turn): &(Position, StoredTurn)| turn.number > covered);
        for (position, sealed) in &self.journal {
            // Recovery reports a damaged row; here it must not hide the executions beside it.
            let Ok((_, found)) = record::read_journal(sealed) else { continue };
            let last = turns.last().map_or(covered, |(_, turn)| turn.number);
            let wanted =
                |(whose, turn): &(ExecutionId, StoredTurn)| *whose == execution && turn.number > last;
            turns.extend(found.into_iter().filter(wanted).map(|(_, turn)| (*position, turn)));
        }
        gather::dense(covered, &turns)?;
        Ok(turns)
    }

    fn stretch(&self, execution: ExecutionId, stretch: &mut Stretch) -> Result<(), Damage> {
        for (_, segment) in self.segments.range((execution, 0)..=(execution, u64::MAX)) {
            if segment.first + segment.turns > stretch.next() && stretch.wants_more() {
                stretch.take(record::read_history(&segment.bytes, segment.first)?)?;
            }
        }
        if let Some(content) = self.rows.get(&execution).and_then(|kept| kept.row.content.as_ref())
            && content.turns >= stretch.next()
        {
            stretch.take(record::read_history(&content.tail, content.tail_from)?)?;
        }
        stretch.take(self.beyond(execution)?.into_iter().map(|(_, turn)| turn))
    }

    fn retreat(
        &self,
        execution: ExecutionId,
        before: Option<u64>,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Damage> {
        let newest: Vec<_> = self.beyond(execution)?.into_iter().map(|(_, turn)| turn).collect();
        let end = newest.last().map_or(self.covered(execution), |turn| turn.number);
        let mut retreat = Retreat::new(before, end, bytes_max);
        retreat.take(newest)?;
        if let Some(content) = self.rows.get(&execution).and_then(|kept| kept.row.content.as_ref()) {
            retreat.take(record::read_history(&content.tail, content.tail_from)?)?;
        }
        for (_, segment) in self.segments.range((execution, 0)..=(execution, u64::MAX)).rev() {
            if retreat.wants(segment.first) {
                retreat.take(record::read_history(&segment.bytes, segment.first)?)?;
            }
        }
        retreat.turns()
    }

    /// The children of a Map Run as a list shows them, the last one first.
    fn list_children(&self, run: Uuid, filter: &Filter, most: u32) -> Vec<Summary> {
        let rows = self.children_of(run, 0).rev().map(|(_, child)| summary(&self.rows[&child]));
        rows.filter(|summary| filter.shows(summary)).take(most as usize).collect()
    }
}

impl Reader for MemoryReader {
    fn revision(&mut self, revision: RevisionId) -> Result<Option<MachineRecord>, Failure> {
        Ok(self.lock().revisions.get(&revision).cloned())
    }

    fn machine(&mut self, name: &str) -> Result<Option<MachineRecord>, Failure> {
        let memory = self.lock();
        Ok(memory.machines.get(name).and_then(|known| memory.counting(known)).cloned())
    }

    fn machines(&mut self) -> Result<Vec<MachineRecord>, Failure> {
        let memory = self.lock();
        Ok(memory.machines.values().filter_map(|known| memory.counting(known)).cloned().collect())
    }

    fn machine_id(&mut self, name: &str) -> Result<Option<MachineId>, Failure> {
        Ok(self.lock().machines.get(name).map(|known| known.machine))
    }

    fn machine_name(&mut self, machine: MachineId) -> Result<Option<Arc<str>>, Failure> {
        let memory = self.lock();
        let mut names = memory.machines.iter();
        Ok(names.find(|(_, known)| known.machine == machine).map(|(name, _)| name.clone()))
    }

    fn head(&mut self, name: &str) -> Result<Option<Head>, Failure> {
        let memory = self.lock();
        let known = memory.machines.get_key_value(name);
        Ok(known.and_then(|(name, known)| memory.head(name, known)))
    }

    fn machine_count(&mut self) -> Result<usize, Failure> {
        let memory = self.lock();
        Ok(memory.machines.iter().filter(|(name, known)| memory.head(name, known).is_some()).count())
    }

    fn heads(&mut self, after: Option<&str>, most: u32) -> Result<Vec<Head>, Failure> {
        let memory = self.lock();
        let range = (Bound::Excluded(after.unwrap_or("")), Bound::Unbounded);
        let known = memory.machines.range::<str, _>(range);
        Ok(known.filter_map(|(name, known)| memory.head(name, known)).take(most as usize).collect())
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Failure> {
        let memory = self.lock();
        let whose = memory.names.get(&(machine, Arc::from(name)));
        Ok(whose.filter(|execution| memory.rows.contains_key(execution)).copied())
    }

    fn reserve(
        &mut self,
        machine: MachineId,
        name: &Arc<str>,
        execution: ExecutionId,
    ) -> Result<ExecutionId, Failure> {
        Ok(*self.lock().names.entry((machine, name.clone())).or_insert(execution))
    }

    fn reserved(&mut self, machine: MachineId, name: &Arc<str>) -> Result<Option<ExecutionId>, Failure> {
        Ok(self.lock().names.get(&(machine, name.clone())).copied())
    }

    fn holders(&mut self) -> Result<BTreeMap<Shard, Arc<str>>, Failure> {
        let memory = self.lock();
        let holder = |owned: &Owned| memory.lives.get(&owned.by?)?.holder.clone();
        let shards = memory.shards.iter().zip(0..);
        Ok(shards.filter_map(|(owned, number)| Some((Shard(number), holder(owned)?))).collect())
    }

    fn execution(&mut self, execution: ExecutionId) -> Result<Option<Recovered>, Failure> {
        let memory = self.lock();
        let row = memory.rows.get(&execution).map(|kept| kept.row.clone());
        let turns = memory.beyond(execution).map_err(|damage| corrupt(execution, damage))?;
        if row.is_none() && turns.is_empty() {
            return Ok(None);
        }
        let unsegmented_from = memory.unsegmented_from(execution);
        Ok(Some(Recovered { execution, row, unsegmented_from, turns }))
    }

    fn row(&mut self, execution: ExecutionId) -> Result<Option<(Row, u64)>, Failure> {
        let memory = self.lock();
        let row = memory.rows.get(&execution).map(|kept| kept.row.clone());
        Ok(row.map(|row| (row, memory.unsegmented_from(execution))))
    }

    fn due(
        &mut self,
        shard: Shard,
        clock: Clock,
        after: Option<Due>,
        until: Timestamp,
        most: u32,
    ) -> Result<Vec<Due>, Failure> {
        let memory = self.lock();
        let is_here = |kept: &&Kept| Shard::of(kept.row.execution, memory.shard_count()) == shard;
        let sleepers = memory.rows.values().filter(is_here).filter(|kept| !kept.row.awake);
        let due = sleepers.filter_map(|kept| {
            let at = match clock {
                Clock::Steady => kept.row.wake.steady,
                Clock::Wall => kept.row.wake.wall,
            };
            Some(Due { at: at?, execution: kept.row.execution })
        });
        let mut due: Vec<Due> =
            due.filter(|due| due.at <= until && after.is_none_or(|after| *due > after)).collect();
        due.sort_unstable();
        due.truncate(most as usize);
        Ok(due)
    }

    fn waiting(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<ExecutionId>, Failure> {
        let memory = self.lock();
        let is_here = |kept: &Kept| Shard::of(kept.row.execution, memory.shard_count()) == shard;
        let waits = |kept: &&Kept| (kept.row.waits || kept.row.held) && !kept.row.awake && is_here(kept);
        let mut ids: Vec<ExecutionId> =
            memory.rows.values().filter(waits).map(|kept| kept.row.execution).collect();
        ids.retain(|id| after.is_none_or(|after| *id > after));
        ids.sort_unstable();
        ids.truncate(most as usize);
        Ok(ids)
    }

    fn held(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<(ExecutionId, MachineId)>, Failure> {
        let memory = self.lock();
        let is_here = |kept: &Kept| Shard::of(kept.row.execution, memory.shard_count()) == shard;
        let held = memory.rows.values().filter(|kept| is_held(&kept.row) && is_here(kept));
        let mut held: Vec<_> = held.map(|kept| (kept.row.execution, kept.row.machine)).collect();
        held.retain(|(id, _)| after.is_none_or(|after| *id > after));
        held.sort_unstable();
        held.truncate(most as usize);
        Ok(held)
    }

    fn held_counts(&mut self) -> Result<BTreeMap<MachineId, u64>, Failure> {
        let mut counts = BTreeMap::new();
        for kept in self.lock().rows.values().filter(|kept| is_held(&kept.row)) {
            *counts.entry(kept.row.machine).or_default() += 1;
        }
        Ok(counts)
    }

    fn registered(
        &mut self,
        kind: Registry,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<Registered>, Failure> {
        let memory = self.lock();
        let range = (Bound::Excluded((kind, Arc::from(after.unwrap_or("")))), Bound::Unbounded);
        let entries = memory.registry.range(range).map(|(_, entry)| entry);
        Ok(entries.take_while(|entry| entry.kind == kind).take(most as usize).cloned().collect())
    }

    fn registered_one(&mut self, kind: Registry, name: &str) -> Result<Option<Registered>, Failure> {
        Ok(self.lock().registry.get(&(kind, Arc::from(name))).cloned())
    }

    fn unlisted(&mut self) -> Result<Vec<Unlisted>, Failure> {
        let memory = self.lock();
        let rows = memory.journal.values().filter_map(|sealed| record::read_journal(sealed).ok());
        let first = rows.flat_map(|(_, turns)| turns).filter(|(_, turn)| turn.number == 1);
        let unlisted = first.filter(|(execution, _)| !memory.rows.contains_key(execution));
        Ok(unlisted.filter_map(|(execution, turn)| Unlisted::of(execution, &turn)).collect())
    }

    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure> {
        let memory = self.lock();
        if let Some(run) = filter.map_run {
            return Ok(Listing { rows: memory.list_children(run, filter, most), next: None });
        }
        let comes_after = |summary: &Summary| after.is_none_or(|after| filter.place(summary) < Some(after));
        let rows = memory.rows.values().map(summary);
        let rows = rows.filter(|summary| filter.shows(summary) && comes_after(summary)).collect();
        Ok(filter.page(rows, most, None))
    }

    fn child_statuses(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<ChildStatus>, Failure> {
        let memory = self.lock();
        let children = memory.children_of(run, from).take(most as usize);
        let status = |(index, child): (u32, ExecutionId)| {
            let row = &memory.rows[&child].row;
            ChildStatus { index, status: row.status, items: row.child.map_or(1, |child| child.items) }
        };
        Ok(children.map(status).collect())
    }

    fn children(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<Row>, Failure> {
        let memory = self.lock();
        let children = memory.children_of(run, from).take(most as usize);
        Ok(children.map(|(_, child)| memory.rows[&child].row.clone()).collect())
    }

    fn map_run(&mut self, run: Uuid) -> Result<Option<MapRunRow>, Failure> {
        let memory = self.lock();
        Ok(memory.map_runs.get(&run).filter(|_| !memory.orphaned.contains(&run)).cloned())
    }

    fn running_map_runs(&mut self, after: Option<Uuid>, most: u32) -> Result<Vec<MapRunRow>, Failure> {
        let memory = self.lock();
        let runs = memory.map_runs.values().filter(|run| after.is_none_or(|after| run.id > after));
        let running = runs.filter(|run| run.ended_at.is_none() && !memory.orphaned.contains(&run.id));
        Ok(running.take(most as usize).cloned().collect())
    }

    fn map_runs(&mut self, execution: ExecutionId) -> Result<Vec<MapRunRow>, Failure> {
        let memory = self.lock();
        let runs = memory.runs_of(execution).into_iter();
        Ok(runs.filter(|run| !memory.orphaned.contains(&run.id)).cloned().collect())
    }

    fn turns(
        &mut self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure> {
        let mut stretch = Stretch::new(from, bytes_max);
        self.lock().stretch(execution, &mut stretch).map_err(|damage| corrupt(execution, damage))?;
        Ok(stretch.turns())
    }

    fn turns_before(
        &mut self,
        execution: ExecutionId,
        before: Option<u64>,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure> {
        self.lock().retreat(execution, before, bytes_max).map_err(|damage| corrupt(execution, damage))
    }

    fn left(&mut self, execution: ExecutionId) -> Result<Left, Failure> {
        let memory = self.lock();
        let row = memory.rows.get(&execution).map(|kept| &kept.row);
        let mut turns: BTreeMap<u64, StoredTurn> = BTreeMap::new();
        let mut take =
            |found: Vec<StoredTurn>| turns.extend(found.into_iter().map(|turn| (turn.number, turn)));
        for (_, segment) in memory.segments.range((execution, 0)..=(execution, u64::MAX)) {
            take(record::read_history(&segment.bytes, segment.first).unwrap_or_default());
        }
        if let Some(content) = row.and_then(|row| row.content.as_ref()) {
            take(record::read_history(&content.tail, content.tail_from).unwrap_or_default());
        }
        for sealed in memory.aside.values().flatten().chain(memory.journal.values()) {
            let found = record::read_journal(sealed).map(|(_, turns)| turns).unwrap_or_default();
            take(found.into_iter().filter(|(whose, _)| *whose == execution).map(|(_, turn)| turn).collect());
        }
        Ok(Left { status: row.map(|row| row.status), turns: turns.into_values().collect() })
    }

    fn ledger(&mut self, filter: &LedgerFilter, most: u32) -> Result<Vec<LedgerRow>, Failure> {
        let memory = self.lock();
        let wanted = |row: &&LedgerRow| {
            filter.status.is_none_or(|status| row.status == status)
                && filter.execution.is_none_or(|execution| row.execution == execution)
                && filter.wire_key.is_none_or(|wire_key| row.wire_key == wire_key)
                && filter.started_before.is_none_or(|before| row.started_at < before)
                && filter.after.as_ref().is_none_or(|(at, key)| (row.started_at, &row.key) > (*at, key))
        };
        let mut rows: Vec<&LedgerRow> = memory.ledger.values().map(|(row, _)| row).filter(wanted).collect();
        rows.sort_by(|a, b| (a.started_at, &a.key).cmp(&(b.started_at, &b.key)));
        Ok(rows.into_iter().take(most as usize).cloned().collect())
    }

    fn sweepable(
        &mut self,
        retention: &Retention,
        after: Option<SweepPlace>,
        most: u32,
    ) -> Result<Sweepable, Failure> {
        Ok(self.lock().sweepable(retention, after, most as usize))
    }

    fn old_ledger(&mut self, before: Timestamp) -> Result<u64, Failure> {
        Ok(self.lock().old_ledger(before).len() as u64)
    }

    fn audit(&mut self, page: &AuditPage) -> Result<Vec<AuditRow>, Failure> {
        Ok(self.lock().audit.page(page))
    }

    fn verify_audit(
        &mut self,
        noted: &[(Chain, Hash)],
        _: &mut dyn FnMut(u64),
    ) -> Result<Result<Vec<Verified>, Broken>, Failure> {
        Ok(self.lock().audit.verify(noted))
    }

    fn stats(&mut self) -> Result<Stats, Failure> {
        let memory = self.lock();
        let totals = memory.lives.keys().map(|incarnation| memory.totals(*incarnation));
        let count = |status| memory.rows.values().filter(|kept| kept.row.status == status).count() as u64;
        let executions = words::STATUSES.map(|status| (status, count(status)));
        let count =
            |status: LedgerStatus| memory.ledger.values().filter(|(row, _)| row.status == status).count();
        let ledger = words::LEDGER_STATUSES.map(|status| (status, count(status) as u64));
        let pending = memory.ledger.values().filter(|(row, _)| row.status == LedgerStatus::Pending);
        Ok(Stats {
            totals: gather::sum(totals),
            executions: executions.into_iter().filter(|(_, count)| *count > 0).collect(),
            ledger: ledger.into_iter().filter(|(_, count)| *count > 0).collect(),
            oldest_pending: pending.map(|(row, _)| row.started_at).min(),
            tables: vec![
                ("execution".to_owned(), memory.rows.len() as u64, memory.bytes()),
                ("journal".to_owned(), memory.journal.len() as u64, 0),
                ("history".to_owned(), memory.segments.len() as u64, 0),
                ("ledger".to_owned(), memory.ledger.len() as u64, 0),
                ("counter".to_owned(), memory.lives.len() as u64, 0),
                ("map_run".to_owned(), memory.map_runs.len() as u64, 0),
            ],
            bytes: memory.bytes(),
            room: crate::store::Room::default(),
        })
    }

    fn secret(&mut self) -> Result<[u8; 32], Failure> {
        Ok(self.lock().secret.0)
    }
}

fn is_held(row: &Row) -> bool {
    row.held && !row.awake
}

fn summary(Kept { row, erased_at, covered_at: _ }: &Kept) -> Summary {
    Summary {
        execution: row.execution,
        machine: row.machine,
        revision: row.revision,
        name: row.name.clone(),
        status: row.status,
        started_at: row.started_at,
        ended_at: row.ended_at,
        redrives: row.redrives,
        redriven_at: row.redriven_at,
        version: row.version,
        alias: row.alias.clone(),
        labels: row.labels.clone(),
        root_key: row.root_key.clone(),
        error: row.error.clone(),
        child: row.child.map(|child| child.index),
        erased_at: *erased_at,
    }
}
