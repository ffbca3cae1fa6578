//! A Store in memory: for tests, for simulation, and for trials. Its data ends with the process.
//!
//! It refuses whatever SQLite refuses, so that a program that works on it works on disk. Everything is ordered and
//! nothing depends on chance, except its secret: the same calls give the same answers.

mod audit;
mod erase;
mod keep;
mod machines;
mod view;

use crate::audit::{Chain, Entries, Entry, Origin, Subject, Verb, erasing};
use crate::gather::{self, Held, Journal, Standing};
use crate::group::{Group, LedgerRow, MachineId, MapRunRow, RevisionId, Row, Segment, Totals};
use crate::lease::{Claim, Incarnation, Lease, Position, Renewal, Shard};
use crate::machine::{MachineChange, MachineRecord, NewMachine, Registered, Registry, Revised};
use crate::record;
use crate::store::{
    Aside, Catalog, CommitError, Erased, Failure, FailureKind, Reader, Recovery, Store, Swept,
};
use perdura_engine::{ExecutionId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};
use uuid::Uuid;

/// Memory that is shared by all clones: a clone is another node on the same data.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    shards: Vec<Owned>,
    /// Living incarnations, and those that were given back and have no successor yet.
    lives: BTreeMap<Incarnation, Life>,
    latest: Incarnation,
    journal: BTreeMap<Position, Vec<u8>>,
    machines: BTreeMap<Arc<str>, machines::Known>,
    revisions: BTreeMap<RevisionId, MachineRecord>,
    rows: BTreeMap<ExecutionId, Kept>,
    /// Names of executions with rows, and reserved names.
    names: BTreeMap<(MachineId, Arc<str>), ExecutionId>,
    segments: BTreeMap<(ExecutionId, u64), Segment>,
    ledger: BTreeMap<Arc<str>, (LedgerRow, Option<Timestamp>)>,
    map_runs: BTreeMap<Uuid, MapRunRow>,
    children: BTreeMap<(Uuid, u32), ExecutionId>,
    /// Map Runs whose parents are gone.
    orphaned: BTreeSet<Uuid>,
    registry: BTreeMap<(Registry, Arc<str>), Registered>,
    /// The Turns of executions that cannot be read; without Turns: the execution was given up.
    aside: BTreeMap<(Position, Option<ExecutionId>), Option<Vec<u8>>>,
    audit: audit::Audit,
    secret: Secret,
}

/// Random bytes that are never shown.
struct Secret([u8; 32]);

impl Default for Secret {
    /// The keys of a hasher are the only randomness in the standard library.
    fn default() -> Self {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&RandomState::new().hash_one(0).to_le_bytes());
        }
        Self(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

#[derive(Clone, Debug, Default)]
struct Owned {
    by: Option<Incarnation>,
    /// No earlier journal row is needed for it.
    keep_from: Position,
}

/// An incarnation.
#[derive(Clone, Debug)]
struct Life {
    /// `None`: it was given back.
    holder: Option<Arc<str>>,
    expires_at: Timestamp,
    steady_at: Option<Timestamp>,
    /// The counters at its beginning, or the last ones written for readers.
    totals: Totals,
}

/// A row.
#[derive(Clone, Debug)]
struct Kept {
    row: Row,
    /// The newest journal row when its content was written: no Turn that it covers is in a later one.
    covered_at: Position,
    erased_at: Option<Timestamp>,
}

impl MemoryStore {
    /// An empty store with this many Shards.
    pub fn new(shards: u16) -> Self {
        let shards = vec![Owned::default(); usize::from(shards.max(1))];
        Self { memory: Arc::new(Mutex::new(Memory { shards, ..Memory::default() })) }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }
}

/// A panic elsewhere leaves nothing half done: every change is checked before its first part is made.
fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn refuse(what: &str, why: String) -> CommitError {
    let what = format!("{what} to the store in memory");
    CommitError::Lost(Failure { what, why, kind: FailureKind::Corrupt })
}

impl Memory {
    fn shard_count(&self) -> u16 {
        self.shards.len() as u16
    }

    fn fence(&self, lease: &Lease) -> Result<(), CommitError> {
        match self.lives.get(&lease.incarnation) {
            Some(Life { holder: Some(_), .. }) => Ok(()),
            _ => Err(CommitError::Fenced { held: lease.incarnation, newest: self.latest }),
        }
    }

    fn journal_of(&self, incarnation: Incarnation) -> impl DoubleEndedIterator<Item = (Position, &Vec<u8>)> {
        let first = Position::before(incarnation);
        let all = self.journal.range(first..=Position { number: u64::MAX, ..first });
        all.map(|(position, sealed)| (*position, sealed))
    }

    /// The last journal row of an incarnation, or the position before its first.
    fn newest(&self, incarnation: Incarnation) -> Position {
        let newest = self.journal_of(incarnation).next_back();
        newest.map_or(Position::before(incarnation), |(position, _)| position)
    }

    /// The counters of an incarnation and its predecessors.
    fn totals(&self, incarnation: Incarnation) -> Totals {
        let mut rows = self.journal_of(incarnation).rev();
        let newest = rows.find_map(|(_, sealed)| record::read_journal(sealed).ok());
        newest.map_or_else(|| self.lives[&incarnation].totals, |(totals, _)| totals)
    }

    /// The first Turn of an execution that no segment has.
    fn unsegmented_from(&self, execution: ExecutionId) -> u64 {
        let last = self.segments.range((execution, 0)..=(execution, u64::MAX)).next_back();
        last.map_or(1, |(_, segment)| segment.first + segment.turns)
    }

    /// The children of a Map Run, in their order, from this one on.
    fn children_of(&self, run: Uuid, from: u32) -> impl DoubleEndedIterator<Item = (u32, ExecutionId)> {
        let all = (run, from)..=(run, u32::MAX);
        self.children.range(all).map(|((_, index), execution)| (*index, *execution))
    }

    /// The Map Runs of an execution, in the order of their start.
    fn runs_of(&self, execution: ExecutionId) -> Vec<&MapRunRow> {
        let mut runs: Vec<_> = self.map_runs.values().filter(|run| run.execution == execution).collect();
        runs.sort_by_key(|run| (run.started_at, run.id));
        runs
    }

    fn covered(&self, execution: ExecutionId) -> u64 {
        self.rows
            .get(&execution)
            .and_then(|kept| kept.row.content.as_ref())
            .map_or(0, |content| content.turns)
    }
}

impl Store for MemoryStore {
    fn shards(&self) -> u16 {
        self.lock().shard_count()
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Lease, CommitError> {
        let mut memory = self.lock();
        let memory = &mut *memory;
        let incarnation = Incarnation(memory.latest.0 + 1);
        let is_over = |life: &Life| match &life.holder {
            Some(holder) => *holder == claim.holder || life.expires_at < claim.now,
            None => true,
        };
        let ended: Vec<Incarnation> =
            memory.lives.iter().filter(|(_, life)| is_over(life)).map(|(number, _)| *number).collect();
        let totals = gather::sum(ended.iter().map(|number| memory.totals(*number)));
        let steady_at = memory.lives.values().filter_map(|life| life.steady_at).max();
        memory.lives.retain(|number, _| !ended.contains(number));
        let mut shards = Vec::new();
        for (shard, owned) in memory.shards.iter_mut().enumerate() {
            owned.by = owned.by.filter(|by| memory.lives.contains_key(by));
            if owned.by.is_none() && shards.len() < usize::from(claim.most) {
                owned.by = Some(incarnation);
                shards.push(Shard(shard as u16));
            }
        }
        memory.latest = incarnation;
        let (holder, expires_at) = (claim.holder.clone(), claim.expires_at);
        let life = Life { holder: Some(holder.clone()), expires_at, steady_at, totals };
        memory.lives.insert(incarnation, life);
        Ok(Lease { incarnation, shards: shards.into(), holder, expires_at, steady_at })
    }

    fn renew(&mut self, lease: &mut Lease, renewal: Renewal) -> Result<(), CommitError> {
        let mut memory = self.lock();
        memory.fence(lease)?;
        let life = memory.lives.get_mut(&lease.incarnation).expect("it lives");
        (life.expires_at, life.steady_at) = (renewal.expires_at, Some(renewal.steady_at));
        lease.expires_at = renewal.expires_at;
        Ok(())
    }

    fn release(&mut self, lease: &Lease) -> Result<(), CommitError> {
        let mut memory = self.lock();
        memory.fence(lease)?;
        memory.lives.get_mut(&lease.incarnation).expect("it lives").holder = None;
        Ok(())
    }

    fn recover(&mut self, lease: &Lease) -> Result<Recovery, CommitError> {
        let memory = self.lock();
        memory.fence(lease)?;
        let held = Held::by(lease, memory.shard_count());
        let mut journal = Journal::of(held.clone());
        for (execution, kept) in &memory.rows {
            if held.has(*execution) && kept.row.awake {
                journal.awake(*execution, memory.covered(*execution));
            }
        }
        let standing =
            |execution| Ok::<_, Infallible>(Standing { covered: memory.covered(execution), awake: false });
        for ((position, execution), sealed) in &memory.aside {
            match (execution, sealed) {
                (Some(execution), None) => journal.given_up(*execution),
                (Some(execution), Some(sealed)) => {
                    let Ok(()) = journal.take_back(*execution, *position, sealed, standing);
                }
                (None, _) => {}
            }
        }
        for (position, sealed) in &memory.journal {
            let Ok(()) = journal.read(*position, sealed, standing);
        }
        let (next, totals) = (memory.newest(lease.incarnation).next(), memory.totals(lease.incarnation));
        let Ok(recovery) = journal.finish((next, totals), |execution| {
            let row = memory.rows.get(&execution).map(|kept| kept.row.clone());
            Ok::<_, Infallible>(Ok((row, memory.unsegmented_from(execution))))
        });
        Ok(recovery)
    }

    fn newest(&mut self, lease: &Lease) -> Result<Position, CommitError> {
        let memory = self.lock();
        memory.fence(lease)?;
        Ok(memory.newest(lease.incarnation))
    }

    fn commit(&mut self, group: &Group) -> Result<(), CommitError> {
        let mut memory = self.lock();
        memory.check(group)?;
        memory.keep(group);
        Ok(())
    }

    fn set_aside(&mut self, lease: &Lease, aside: &[Aside]) -> Result<(), CommitError> {
        let mut memory = self.lock();
        memory.fence(lease)?;
        for Aside { execution, position, turns } in aside {
            memory.aside.entry((*position, *execution)).or_insert_with(|| Some(turns.clone()));
        }
        Ok(())
    }

    fn erase(
        &mut self,
        lease: &Lease,
        ended: &[(ExecutionId, Timestamp)],
        at: Timestamp,
        by: Option<&Arc<Origin>>,
    ) -> Result<Erased, CommitError> {
        let mut memory = self.lock();
        memory.fence(lease)?;
        let erased = memory.erase(ended, at).map_err(|damage| refuse("erasing in", damage.0))?;
        for (chain, entries) in erasing(&erased, ended, memory.shard_count(), by) {
            memory.audit.append(chain, &entries);
        }
        Ok(erased)
    }

    fn give_up(
        &mut self,
        lease: &Lease,
        execution: ExecutionId,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError> {
        let mut memory = self.lock();
        memory.fence(lease)?;
        let is_gone = memory.give_up(lease.incarnation, execution);
        if let Some(by) = by.filter(|_| is_gone) {
            let entry = Entry::done(by, Verb::GiveUp, Subject::execution(execution));
            let chain = Chain::Shard(Shard::of(execution, memory.shard_count()));
            memory.audit.append(chain, &Entries::from(&entry));
        }
        Ok(is_gone)
    }
}

impl Catalog for MemoryStore {
    fn deploy(
        &mut self,
        machine: &NewMachine,
        by: Option<&Arc<Origin>>,
    ) -> Result<MachineRecord, CommitError> {
        let mut memory = self.lock();
        let before = memory.machines.get(&machine.name).and_then(|known| memory.counting(known)).cloned();
        let record = memory.deploy(machine);
        memory.audit.note(by, |by| Entry::deployed(by, before.as_ref(), &record));
        Ok(record)
    }

    fn revise(
        &mut self,
        change: &MachineChange<'_>,
        by: Option<&Arc<Origin>>,
    ) -> Result<Revised, CommitError> {
        let mut memory = self.lock();
        let before = memory.head_of(&change.name);
        let revised = memory.revise(change);
        memory.audit.note(by, |by| Entry::revised(by, &change.name, before.as_ref(), &revised));
        Ok(revised)
    }

    fn register(&mut self, entry: &Registered, by: Option<&Arc<Origin>>) -> Result<(), CommitError> {
        let mut memory = self.lock();
        let before = memory.registry.insert((entry.kind, entry.name.clone()), entry.clone());
        memory.audit.note(by, |by| Entry::registered(by, entry, before.is_some()));
        Ok(())
    }

    fn unregister(
        &mut self,
        kind: Registry,
        name: &str,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError> {
        let mut memory = self.lock();
        let was_there = memory.registry.remove(&(kind, Arc::from(name))).is_some();
        memory.audit.note(by, |by| Entry::unregistered(by, kind, name, was_there));
        Ok(was_there)
    }

    fn sweep(
        &mut self,
        going: &[(ExecutionId, Timestamp)],
        ledger_before: Timestamp,
        ledger_most: u32,
        by: Option<&Arc<Origin>>,
    ) -> Result<Swept, CommitError> {
        let mut memory = self.lock();
        let (swept, gone) = memory.sweep(going, ledger_before, ledger_most as usize);
        if swept.executions + swept.ledger > 0 {
            memory.audit.note(by, |by| Entry::swept(by, gone, swept.ledger));
        }
        Ok(swept)
    }

    fn cut_audit(&mut self, before: Timestamp, most: u32, by: &Arc<Origin>) -> Result<u64, CommitError> {
        Ok(self.lock().audit.cut(before, most as usize, by))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Failure> {
        Ok(Box::new(view::MemoryReader::new(self.memory.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Home;

    struct Shared(MemoryStore);

    impl Home for Shared {
        fn handle(&mut self) -> Box<dyn Store> {
            Box::new(self.0.clone())
        }

        fn restart(&mut self) {}
    }

    crate::store_conformance!(|shards| Shared(MemoryStore::new(shards)));
}
