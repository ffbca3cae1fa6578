//! Who has the next Turn.
//!
//! Machines take turns by what their Turns cost, and so do the executions of each machine: whoever has used less goes
//! first, so a machine whose Turns are expensive has fewer of them, and one that was idle has lost nothing and is owed
//! nothing. A Turn stands at the place where the one before it ended, or where the line is now, if that is later
//! (start-time fair queueing). Stops go before all others.

use perdura_engine::ExecutionId;
use perdura_store::MachineId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What the cheapest Turn costs, in units of work: there is more to it than what its expressions take.
const TURN_WORK: u64 = 5_000;
/// With more machines than this, those that have nothing to do and owe no more than a cheap Turn are forgotten.
const LANES_MAX: usize = 1_024;

/// The executions that are ready for a Turn.
#[derive(Default)]
pub(super) struct Ready {
    urgent: VecDeque<ExecutionId>,
    lanes: BTreeMap<Option<MachineId>, Lane>,
    line: Line<Option<MachineId>>,
    waiting: usize,
    /// Whose Turn it is: the machine, its place, and the execution's place within it.
    current: Option<(Option<MachineId>, u64, u64)>,
}

/// The executions of one machine.
#[derive(Default)]
struct Lane {
    line: Line<ExecutionId>,
    /// Where the last of its Turns ended.
    ended: u64,
    /// It stands in the line of the machines.
    stands: bool,
}

/// Whoever waits, by place and arrival.
struct Line<K> {
    heap: BinaryHeap<Reverse<(u64, u64, K)>>,
    /// The place of whoever was last.
    now: u64,
    arrivals: u64,
}

impl<K: Ord> Default for Line<K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), now: 0, arrivals: 0 }
    }
}

impl<K: Ord> Line<K> {
    fn push(&mut self, place: u64, who: K) {
        self.arrivals += 1;
        self.heap.push(Reverse((place.max(self.now), self.arrivals, who)));
    }

    fn pop(&mut self) -> Option<(u64, K)> {
        let Reverse((place, _, who)) = self.heap.pop()?;
        self.now = place;
        Some((place, who))
    }
}

impl Ready {
    /// How many are ready.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// An execution is ready; `ended` is where its last Turn ended, if it had one. One that is new comes after those
    /// that stand at the same place: however many begin, the others go on.
    pub(super) fn push(&mut self, machine: Option<MachineId>, who: ExecutionId, ended: Option<u64>) {
        if self.lanes.len() > LANES_MAX && !self.lanes.contains_key(&machine) {
            let owes = self.line.now + TURN_WORK;
            let current = self.current.map(|(machine, ..)| machine);
            self.lanes.retain(|machine, lane| {
                let is_busy = lane.stands || !lane.line.heap.is_empty() || current == Some(*machine);
                is_busy || lane.ended > owes
            });
        }
        self.waiting += 1;
        let lane = self.lanes.entry(machine).or_default();
        lane.line.push(ended.unwrap_or(lane.line.now + TURN_WORK), who);
        let is_current = self.current.is_some_and(|(current, ..)| current == machine);
        if !lane.stands && !is_current {
            lane.stands = true;
            self.line.push(lane.ended, machine);
        }
    }

    /// An execution goes before all others.
    pub(super) fn push_urgent(&mut self, who: ExecutionId) {
        self.waiting += 1;
        self.urgent.push_back(who);
    }

    /// Whose Turn it is. What it cost is to be said by [`Ready::charge`] before the next is asked for.
    pub(super) fn pop(&mut self) -> Option<ExecutionId> {
        debug_assert!(self.current.is_none(), "a Turn is charged before the next");
        if let Some(who) = self.urgent.pop_front() {
            self.waiting -= 1;
            return Some(who);
        }
        let (place, machine) = self.line.pop()?;
        let lane = self.lanes.get_mut(&machine).expect("a lane that stands in line is there");
        lane.stands = false;
        let (within, who) = lane.line.pop().expect("a lane that stands in line has somebody");
        self.waiting -= 1;
        self.current = Some((machine, place, within));
        Some(who)
    }

    /// The Turn has cost this many units of work; where it ended, for the execution's next.
    pub(super) fn charge(&mut self, work: u64) -> Option<u64> {
        let (machine, place, within) = self.current.take()?;
        let work = work.saturating_add(TURN_WORK);
        let lane = self.lanes.get_mut(&machine).expect("a lane whose Turn it is stays");
        lane.ended = place.saturating_add(work);
        if !lane.line.heap.is_empty() {
            lane.stands = true;
            self.line.push(lane.ended, machine);
        }
        Some(within.saturating_add(work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expensive, in units of work.
    const HOG: u64 = 10_000_000;

    fn id(number: u128) -> ExecutionId {
        ExecutionId::from_random(number)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as an execution has it")]
    fn machine(number: u64) -> Option<MachineId> {
        Some(MachineId(number))
    }

    /// Lets executions that are always ready again take turns; how many Turns each of them had.
    fn run(ready: &mut Ready, known: &[(Option<MachineId>, ExecutionId, u64)], turns: usize) -> Vec<usize> {
        let mut had = vec![0; known.len()];
        for _ in 0..turns {
            let who = ready.pop().unwrap();
            let at = known.iter().position(|(_, id, _)| *id == who).unwrap();
            had[at] += 1;
            let (machine, _, cost) = known[at];
            let ended = ready.charge(cost);
            ready.push(machine, who, ended);
        }
        had
    }

    #[test]
    fn whoever_comes_among_expensive_machines_has_the_next_turn_but_one() {
        let mut ready = Ready::default();
        let hogs: Vec<_> = (0..50).map(|number| (machine(number), id(u128::from(number)), HOG)).collect();
        for (machine, who, _) in &hogs {
            ready.push(*machine, *who, None);
        }
        run(&mut ready, &hogs, 500);
        let late = id(1_000);
        ready.push(machine(99), late, None);
        let first: Vec<ExecutionId> = std::iter::from_fn(|| {
            let who = ready.pop();
            ready.charge(HOG);
            who
        })
        .take(2)
        .collect();
        assert!(first.contains(&late), "{first:?}");
    }

    #[test]
    fn fifty_expensive_executions_of_one_machine_count_as_one_machine() {
        let mut ready = Ready::default();
        let mut known: Vec<_> = (0..50).map(|number| (machine(1), id(number), HOG / 10)).collect();
        known.push((machine(2), id(50), 1_000));
        for (machine, who, _) in &known {
            ready.push(*machine, *who, None);
        }
        let had = run(&mut ready, &known, 10_000);
        assert!(had[50] > 9_900, "{had:?}");
        assert!(had[..50].iter().all(|turns| *turns > 0), "nobody is forgotten: {had:?}");
    }

    #[test]
    fn a_cheap_execution_is_not_kept_waiting_by_expensive_ones_of_its_own_machine() {
        let mut ready = Ready::default();
        let hogs: Vec<_> = (0..50).map(|number| (machine(1), id(number), HOG)).collect();
        for (machine, who, _) in &hogs {
            ready.push(*machine, *who, None);
        }
        run(&mut ready, &hogs, 500);
        let known: Vec<_> = hogs.iter().copied().chain([(machine(1), id(99), 10)]).collect();
        ready.push(machine(1), id(99), None);
        let had = run(&mut ready, &known, 100);
        assert!(had[50] > 40, "{had:?}");
    }

    #[test]
    fn however_many_begin_those_that_run_go_on() {
        let mut ready = Ready::default();
        let old = id(0);
        ready.push(machine(1), old, None);
        let mut turns = 0;
        for number in 1..=1_000 {
            ready.push(machine(1), id(number), None);
            let who = ready.pop().unwrap();
            let ended = ready.charge(0);
            if who == old {
                turns += 1;
                ready.push(machine(1), old, ended);
            }
        }
        assert!(turns >= 20, "of 1,000 Turns it had {turns}, and 999 others began");
    }

    #[test]
    fn a_stop_goes_before_all_others() {
        let mut ready = Ready::default();
        ready.push(machine(1), id(1), None);
        ready.push_urgent(id(2));
        assert_eq!((ready.pop(), ready.charge(0)), (Some(id(2)), None));
        assert_eq!((ready.pop(), ready.len()), (Some(id(1)), 0));
    }

    #[test]
    fn machines_that_are_idle_and_owe_nothing_are_forgotten() {
        let mut ready = Ready::default();
        for number in 0..10 * LANES_MAX as u64 {
            ready.push(machine(number), id(u128::from(number)), None);
            ready.pop();
            ready.charge(0);
        }
        assert!(ready.lanes.len() <= LANES_MAX + 2, "{}", ready.lanes.len());
        assert!(ready.is_empty());
    }
}
