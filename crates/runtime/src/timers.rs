//! Who is to be woken when. Only the near future is in memory; the rest stays in the store.
//!
//! There are two clocks: seconds and timeouts follow the steady one, a Wait until a timestamp follows the one on the
//! wall. Each has its own line, and stepping one does not touch the other.

use perdura_engine::{ExecutionId, Moment, Timestamp, Wake};
use perdura_store::{Clock, Due, Failure, Reader, Shard};
use std::collections::BTreeSet;
use uuid::Uuid;

/// How far ahead sleepers are read from the store.
const HORIZON_MS: i64 = 60_000;
/// How many are read at once.
const PAGE: u32 = 4_096;
/// How long to wait before trying again where they could not be read.
const READ_AGAIN_MS: i64 = 1_000;
/// With this many in memory, no more are read.
const TIMERS_MAX: usize = 65_536;

/// The timers of a node.
#[derive(Debug)]
pub(crate) struct Timers {
    steady: Line,
    wall: Line,
    /// Sleepers could not be read; they are tried again then.
    reads_again_at: Option<Timestamp>,
}

/// The timers of one clock.
#[derive(Debug)]
struct Line {
    clock: Clock,
    near: BTreeSet<Due>,
    /// For each Shard, up to where its sleepers have been read.
    read: Vec<(Shard, Due)>,
}

impl Timers {
    pub(crate) fn new(shards: &[Shard]) -> Self {
        let line = |clock| Line {
            clock,
            near: BTreeSet::new(),
            read: shards.iter().map(|shard| (*shard, NOTHING_READ)).collect(),
        };
        Self { steady: line(Clock::Steady), wall: line(Clock::Wall), reads_again_at: None }
    }

    /// An execution in memory has another wake than before.
    pub(crate) fn replace(&mut self, execution: ExecutionId, before: Wake, after: Wake) {
        for (line, before, after) in
            [(&mut self.steady, before.steady, after.steady), (&mut self.wall, before.wall, after.wall)]
        {
            if before != after
                && let Some(at) = before
            {
                line.near.remove(&Due { at, execution });
            }
            // Also one that stays as it was: it may have gone off early, if the wall was stepped back meanwhile.
            line.near.extend(after.map(|at| Due { at, execution }));
        }
    }

    /// An execution left memory: only a near wake stays.
    pub(crate) fn fell_asleep(&mut self, execution: ExecutionId, shard: Shard, wake: Wake) {
        for (line, at) in [(&mut self.steady, wake.steady), (&mut self.wall, wake.wall)] {
            let Some(at) = at else { continue };
            let due = Due { at, execution };
            let is_read = line.read.iter().any(|(of, read)| *of == shard && due <= *read);
            if !is_read {
                line.near.remove(&due);
            }
        }
    }

    /// Reads what the near future holds.
    pub(crate) fn read_ahead(&mut self, moment: &Moment, reader: &mut dyn Reader) -> Result<(), Failure> {
        if self.reads_again_at.is_some_and(|at| at > moment.steady) {
            return Ok(());
        }
        let read = self.steady.read_ahead(moment.steady, reader);
        let read = read.and_then(|()| self.wall.read_ahead(moment.now, reader));
        self.reads_again_at = read.is_err().then(|| moment.steady.after_ms(READ_AGAIN_MS));
        read
    }

    /// The first of all timers, however far ahead.
    pub(crate) fn first(&self, reader: &mut dyn Reader) -> Result<Wake, Failure> {
        Ok(Wake { steady: self.steady.first(reader)?, wall: self.wall.first(reader)? })
    }

    /// Takes one whose time has come.
    pub(crate) fn pop_due(&mut self, moment: &Moment) -> Option<ExecutionId> {
        self.steady.pop_due(moment.steady).or_else(|| self.wall.pop_due(moment.now))
    }

    /// When to look again: at the first timer, or when more are to be read.
    pub(crate) fn next(&self) -> Wake {
        if let Some(again) = self.reads_again_at {
            let first = |line: &Line| line.near.first().map(|due| due.at);
            let steady = first(&self.steady).map_or(again, |at| at.min(again));
            return Wake { steady: Some(steady), wall: first(&self.wall) };
        }
        Wake { steady: self.steady.next(), wall: self.wall.next() }
    }
}

/// Before the first sleeper.
const NOTHING_READ: Due = Due { at: Timestamp(i64::MIN), execution: ExecutionId::from_uuid(Uuid::nil()) };

impl Line {
    fn read_ahead(&mut self, now: Timestamp, reader: &mut dyn Reader) -> Result<(), Failure> {
        let until = now.after_ms(HORIZON_MS);
        for (shard, read) in &mut self.read {
            // Timers of executions in memory must not crowd out those that sleep: what is due is read in any case.
            while read.at < now.after_ms(HORIZON_MS / 2)
                && (self.near.len() < TIMERS_MAX
                    || (read.at <= now && self.near.first().is_none_or(|first| first.at > now)))
            {
                let page = reader.due(*shard, self.clock, Some(*read), until, PAGE)?;
                *read = match page.last() {
                    Some(last) if page.len() == PAGE as usize => *last,
                    _ => Due { at: until, execution: ExecutionId::from_uuid(Uuid::max()) },
                };
                self.near.extend(page);
            }
        }
        Ok(())
    }

    fn first(&self, reader: &mut dyn Reader) -> Result<Option<Timestamp>, Failure> {
        let mut first = self.near.first().map(|due| due.at);
        for (shard, read) in &self.read {
            let asleep = reader.due(*shard, self.clock, Some(*read), Timestamp(i64::MAX), 1)?;
            first = first.into_iter().chain(asleep.first().map(|due| due.at)).min();
        }
        Ok(first)
    }

    fn pop_due(&mut self, now: Timestamp) -> Option<ExecutionId> {
        let first = self.near.first().filter(|due| due.at <= now).copied()?;
        self.near.remove(&first);
        Some(first.execution)
    }

    fn next(&self) -> Option<Timestamp> {
        let first = self.near.first().map(|due| due.at);
        let ahead_ms = if self.near.len() < TIMERS_MAX { HORIZON_MS / 2 } else { 0 };
        let reads_at = self.read.iter().map(|(_, read)| read.at.after_ms(-ahead_ms)).min();
        [first, reads_at].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::Status;
    use perdura_store::{Catalog, Claim, Content, Group, MachineId, MemoryStore, RevisionId, Row, Store};

    fn at(ms: i64) -> Moment {
        Moment { now: Timestamp(ms), steady: Timestamp(ms), entropy: 0 }
    }

    /// A store in which these sleep until then.
    fn asleep(sleepers: &[(u128, i64)]) -> MemoryStore {
        let mut store = MemoryStore::new(1);
        let (now, expires_at) = (Timestamp(0), Timestamp(1));
        let claim = Claim { holder: "test".into(), most: 1, now, expires_at };
        let lease = store.acquire(&claim).unwrap();
        let row = |(id, wake): &(u128, i64)| Row {
            execution: ExecutionId::from_random(*id),
            machine: MachineId(1),
            revision: RevisionId(1),
            name: None,
            status: Status::Running,
            awake: false,
            started_at: Timestamp(0),
            ended_at: None,
            wake: Wake { steady: Some(Timestamp(*wake)), wall: None },
            waits: false,
            redrives: 0,
            redriven_at: None,
            version: None,
            alias: None,
            child: None,
            content: Some(Content { turns: 1, events: 1, state: None, tail_from: 1, tail: Vec::new() }),
        };
        let rows = sleepers.iter().map(row).collect();
        store.commit(&Group { rows, ..Group::under(lease) }).unwrap();
        store
    }

    #[test]
    fn who_sleeps_is_woken_in_time_although_memory_is_full_of_timers() {
        let store = asleep(&[(1, 5_000)]);
        let mut reader = store.reader().unwrap();
        let mut timers = Timers::new(&[Shard(0)]);
        let far = Wake { steady: Some(Timestamp(1 << 40)), wall: None };
        for id in 0..=TIMERS_MAX as u128 {
            timers.replace(ExecutionId::from_random(1_000 + id), Wake::default(), far);
        }
        let mut now = 0;
        loop {
            timers.read_ahead(&at(now), &mut *reader).unwrap();
            if timers.pop_due(&at(now)) == Some(ExecutionId::from_random(1)) {
                break;
            }
            let next = timers.next().steady.unwrap().0;
            assert!(next > now, "it looks again at {next}, and it is {now} already");
            now = next;
        }
        assert_eq!(now, 5_000);
    }

    #[test]
    fn the_first_of_all_is_found_however_far_ahead_it_sleeps() {
        let store = asleep(&[(1, 90 * HORIZON_MS), (2, 70 * HORIZON_MS)]);
        let mut reader = store.reader().unwrap();
        let mut timers = Timers::new(&[Shard(0)]);
        timers.read_ahead(&at(0), &mut *reader).unwrap();
        let first = |timers: &Timers, reader: &mut dyn Reader| timers.first(reader).unwrap().steady;
        assert_eq!(first(&timers, &mut *reader), Some(Timestamp(70 * HORIZON_MS)));
        let sooner = Wake { steady: Some(Timestamp(5)), wall: None };
        timers.replace(ExecutionId::from_random(3), Wake::default(), sooner);
        assert_eq!(first(&timers, &mut *reader), Some(Timestamp(5)));
    }

    #[test]
    fn a_timer_that_went_off_too_early_can_be_set_to_the_same_time() {
        let execution = ExecutionId::from_random(1);
        let wake = Wake { steady: None, wall: Some(Timestamp(5)) };
        let mut timers = Timers::new(&[]);
        timers.replace(execution, Wake::default(), wake);
        let moment = Moment::at(Timestamp(5), 0);
        assert_eq!(timers.pop_due(&moment), Some(execution));
        timers.replace(execution, wake, wake);
        assert_eq!(timers.pop_due(&moment), Some(execution));
    }
}
