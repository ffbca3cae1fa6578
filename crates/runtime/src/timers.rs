//! Who is to be woken when. Only the near future is in memory; the rest stays in the store.
//!
//! There are two clocks: seconds and timeouts follow the steady one, a Wait until a timestamp follows the one on the
//! wall. Each has its own line, and stepping one does not touch the other.

use crate::librarian::Ask;
use perdura_engine::{ExecutionId, Moment, Timestamp, Wake};
use perdura_store::{Clock, Due, Shard};
use std::collections::BTreeSet;
use uuid::Uuid;

/// How far ahead sleepers are read from the store.
const HORIZON_MS: i64 = 60_000;
/// How many are read at once.
const PAGE: u32 = 4_096;
/// With this many in memory, no more are read.
const TIMERS_MAX: usize = 65_536;

/// The timers of a node.
#[derive(Debug)]
pub(crate) struct Timers {
    steady: Line,
    wall: Line,
    far: Far,
}

/// The timers of one clock.
#[derive(Debug)]
struct Line {
    clock: Clock,
    near: BTreeSet<Due>,
    stretches: Vec<Stretch>,
}

/// How much of the sleepers of one Shard has been read.
#[derive(Debug)]
struct Stretch {
    shard: Shard,
    /// Up to here.
    read: Due,
    /// More is being read, up to then.
    asked: Option<Timestamp>,
}

/// What is known of the first timer beyond all that was read.
#[derive(Debug)]
enum Far {
    Unknown,
    Asked,
    Known(Wake),
}

impl Timers {
    pub(crate) fn new(shards: &[Shard]) -> Self {
        let stretch = |shard: &Shard| Stretch { shard: *shard, read: NOTHING_READ, asked: None };
        let line =
            |clock| Line { clock, near: BTreeSet::new(), stretches: shards.iter().map(stretch).collect() };
        Self { steady: line(Clock::Steady), wall: line(Clock::Wall), far: Far::Unknown }
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

    /// A timer brought an execution into memory: all of its timers whose time has come have gone off with that.
    pub(crate) fn went_off(&mut self, execution: ExecutionId, wake: Wake, moment: &Moment) {
        for (line, at, now) in
            [(&mut self.steady, wake.steady, moment.steady), (&mut self.wall, wake.wall, moment.now)]
        {
            if let Some(at) = at.filter(|at| *at <= now) {
                line.near.remove(&Due { at, execution });
            }
        }
    }

    /// An execution left memory: only a near wake stays. One that falls asleep while its stretch is being read may be
    /// missing in what comes of that.
    pub(crate) fn fell_asleep(&mut self, execution: ExecutionId, shard: Shard, wake: Wake) {
        self.far = Far::Unknown;
        for (line, at) in [(&mut self.steady, wake.steady), (&mut self.wall, wake.wall)] {
            let Some(at) = at else { continue };
            let due = Due { at, execution };
            let covers = |it: &Stretch| due <= it.read || it.asked.is_some_and(|until| at <= until);
            if !line.stretches.iter().any(|it| it.shard == shard && covers(it)) {
                line.near.remove(&due);
            }
        }
    }

    /// What is to be read of the near future.
    pub(crate) fn look_ahead(&mut self, moment: &Moment) -> Vec<Ask> {
        let mut asks = self.steady.look_ahead(moment.steady);
        asks.extend(self.wall.look_ahead(moment.now));
        asks
    }

    /// What came of that.
    pub(crate) fn told(&mut self, (clock, shard): (Clock, Shard), page: Vec<Due>) {
        self.far = Far::Unknown;
        let line = match clock {
            Clock::Steady => &mut self.steady,
            Clock::Wall => &mut self.wall,
        };
        let Some(stretch) = line.stretches.iter_mut().find(|it| it.shard == shard) else { return };
        let Some(until) = stretch.asked.take() else { return };
        stretch.read = match page.last() {
            Some(last) if page.len() == PAGE as usize => *last,
            _ => Due { at: until, execution: ExecutionId::from_uuid(Uuid::max()) },
        };
        line.near.extend(page);
    }

    /// The first of all timers, however far ahead, if that is known; otherwise what is to be asked, unless it is already.
    pub(crate) fn first(&mut self) -> Result<Wake, Option<Ask>> {
        match &self.far {
            Far::Known(far) => Ok(Wake {
                steady: far.steady.into_iter().chain(self.steady.first()).min(),
                wall: far.wall.into_iter().chain(self.wall.first()).min(),
            }),
            Far::Asked => Err(None),
            Far::Unknown => {
                self.far = Far::Asked;
                let lines = [&self.steady, &self.wall].into_iter();
                let ends =
                    lines.flat_map(|line| line.stretches.iter().map(|it| (line.clock, it.shard, it.read)));
                Err(Some(Ask::First(ends.collect())))
            }
        }
    }

    /// What came of that; meanwhile more may have been read, or somebody fallen asleep.
    pub(crate) fn told_first(&mut self, first: Wake) {
        if matches!(self.far, Far::Asked) {
            self.far = Far::Known(first);
        }
    }

    /// Takes one whose time has come.
    pub(crate) fn pop_due(&mut self, moment: &Moment) -> Option<ExecutionId> {
        self.steady.pop_due(moment.steady).or_else(|| self.wall.pop_due(moment.now))
    }

    /// When to look again: at the first timer, or when more are to be read.
    pub(crate) fn next(&self) -> Wake {
        Wake { steady: self.steady.next(), wall: self.wall.next() }
    }
}

/// Before the first sleeper.
const NOTHING_READ: Due = Due { at: Timestamp(i64::MIN), execution: ExecutionId::from_uuid(Uuid::nil()) };

impl Line {
    fn look_ahead(&mut self, now: Timestamp) -> Vec<Ask> {
        let until = now.after_ms(HORIZON_MS);
        let is_full = self.near.len() >= TIMERS_MAX;
        let nobody_is_due = self.near.first().is_none_or(|first| first.at > now);
        // Timers of executions in memory must not crowd out those that sleep: what is due is read in any case.
        let is_wanted = |it: &&mut Stretch| {
            let is_near = it.read.at < now.after_ms(HORIZON_MS / 2);
            it.asked.is_none() && is_near && (!is_full || (it.read.at <= now && nobody_is_due))
        };
        let ask = |it: &mut Stretch| {
            it.asked = Some(until);
            Ask::Due { line: (self.clock, it.shard), after: it.read, until, most: PAGE }
        };
        self.stretches.iter_mut().filter(is_wanted).map(ask).collect()
    }

    fn first(&self) -> Option<Timestamp> {
        self.near.first().map(|due| due.at)
    }

    fn pop_due(&mut self, now: Timestamp) -> Option<ExecutionId> {
        let first = self.near.first().filter(|due| due.at <= now).copied()?;
        self.near.remove(&first);
        Some(first.execution)
    }

    fn next(&self) -> Option<Timestamp> {
        let ahead_ms = if self.near.len() < TIMERS_MAX { HORIZON_MS / 2 } else { 0 };
        // What is being read comes by itself.
        let unread = self.stretches.iter().filter(|it| it.asked.is_none());
        let reads_at = unread.map(|it| it.read.at.after_ms(-ahead_ms)).min();
        [self.first(), reads_at].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::librarian::{Librarian, Question, Told};
    use perdura_engine::Status;
    use perdura_engine::asl::json::Payload;
    use perdura_engine::asl::resource::Resource;
    use perdura_engine::{Destinations, Policy};
    use perdura_store::{Catalog, Claim, Content, Group, MachineId, MemoryStore, RevisionId, Row, Store};
    use std::sync::Arc;

    struct Nobody;

    impl Destinations for Nobody {
        fn policy(&self, _: &Resource, _: &Payload) -> Policy {
            Policy::default()
        }
    }

    fn librarian(store: &MemoryStore) -> Librarian {
        Librarian::new(store.reader().unwrap(), Arc::new(Nobody), 1)
    }

    /// Reads all that is wanted now.
    fn read(timers: &mut Timers, librarian: &mut Librarian, now: i64) {
        loop {
            let asks = timers.look_ahead(&at(now));
            if asks.is_empty() {
                return;
            }
            for ask in asks {
                answer(timers, librarian, ask);
            }
        }
    }

    fn answer(timers: &mut Timers, librarian: &mut Librarian, ask: Ask) {
        let told = librarian.answer(Question { number: 0, ask: ask.clone() }).told.unwrap();
        match (ask, told) {
            (Ask::Due { line, .. }, Told::Due(page)) => timers.told(line, page),
            (Ask::First(_), Told::First(first)) => timers.told_first(first),
            (ask, told) => panic!("{ask:?} is answered by {told:?}"),
        }
    }

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
            held: false,
            redrives: 0,
            redriven_at: None,
            version: None,
            alias: None,
            labels: perdura_engine::Labels::default(),
            root_key: None,
            error: None,
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
        let mut librarian = librarian(&store);
        let mut timers = Timers::new(&[Shard(0)]);
        let far = Wake { steady: Some(Timestamp(1 << 40)), wall: None };
        for id in 0..=TIMERS_MAX as u128 {
            timers.replace(ExecutionId::from_random(1_000 + id), Wake::default(), far);
        }
        let mut now = 0;
        loop {
            read(&mut timers, &mut librarian, now);
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
        let mut librarian = librarian(&store);
        let mut timers = Timers::new(&[Shard(0)]);
        read(&mut timers, &mut librarian, 0);
        let Err(Some(ask)) = timers.first() else { panic!("it has to be asked for") };
        assert!(matches!(timers.first(), Err(None)), "it is asked for once");
        answer(&mut timers, &mut librarian, ask);
        assert_eq!(timers.first().unwrap().steady, Some(Timestamp(70 * HORIZON_MS)));
        let sooner = Wake { steady: Some(Timestamp(5)), wall: None };
        timers.replace(ExecutionId::from_random(3), Wake::default(), sooner);
        assert_eq!(timers.first().unwrap().steady, Some(Timestamp(5)));
    }

    #[test]
    fn who_falls_asleep_while_its_stretch_is_being_read_is_not_forgotten() {
        let mut timers = Timers::new(&[Shard(0)]);
        let asks = timers.look_ahead(&at(0));
        let (execution, wake) = (ExecutionId::from_random(1), at(5_000).steady);
        let wake = Wake { steady: Some(wake), wall: None };
        timers.replace(execution, Wake::default(), wake);
        timers.fell_asleep(execution, Shard(0), wake);
        // It was read before its row was there.
        for ask in asks {
            let Ask::Due { line, .. } = ask else { panic!("{ask:?}") };
            timers.told(line, Vec::new());
        }
        assert_eq!(timers.pop_due(&at(5_000)), Some(execution));
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
