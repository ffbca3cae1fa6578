//! Rebuilds executions from their parts: a row, segments, and Turns scattered over the journal.
//!
//! All stores use this code, so they agree on when an execution is complete. An execution with a gap is damaged: if it
//! were rebuilt from half of its Turns, everybody would believe the result.

use crate::group::{Row, Totals};
use crate::lease::{Lease, Position, Shard};
use crate::record::{self, Damage};
use crate::store::{Aside, Recovered, Recovery, StoredTurn};
use perdura_engine::ExecutionId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of an execution in the store during recovery.
pub(crate) struct Standing {
    /// How many Turns its row covers; 0 without a row, or if all of them are in the journal.
    pub(crate) covered: u64,
    /// It is loaded even if the journal has nothing of it.
    pub(crate) awake: bool,
}

/// The executions to recover.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    shards: Arc<[Shard]>,
    count: u16,
}

impl Held {
    /// The executions of a Lease, in an installation with this many Shards.
    pub(crate) fn by(lease: &Lease, count: u16) -> Self {
        Self { shards: lease.shards.clone(), count }
    }

    pub(crate) fn all(count: u16) -> Self {
        Self { shards: (0..count).map(Shard).collect(), count }
    }

    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    pub(crate) fn has(&self, execution: ExecutionId) -> bool {
        self.shards.len() == usize::from(self.count)
            || self.shards.binary_search(&Shard::of(execution, self.count)).is_ok()
    }
}

/// Collects Turns from the journals, row by row.
pub(crate) struct Journal {
    held: Held,
    recovery: Recovery,
    /// The Turns beyond the row of each execution.
    found: BTreeMap<ExecutionId, Found>,
}

struct Found {
    standing: Standing,
    turns: Vec<(Position, StoredTurn)>,
    /// Some of the Turns were set aside; they may be in the journal too.
    is_aside: bool,
    /// Why a set-aside part cannot be read.
    damage: Option<Damage>,
}

impl Found {
    fn new(standing: Standing) -> Self {
        Self { standing, turns: Vec::new(), is_aside: false, damage: None }
    }

    fn take(&mut self, position: Position, turn: StoredTurn) {
        let is_known =
            |(known, has): &(Position, StoredTurn)| *known == position && has.number == turn.number;
        if turn.number > self.standing.covered && !(self.is_aside && self.turns.iter().any(is_known)) {
            self.turns.push((position, turn));
        }
    }
}

impl Journal {
    pub(crate) fn of(held: Held) -> Self {
        Self { held, recovery: Recovery::default(), found: BTreeMap::new() }
    }

    /// An execution to load even if the journal has nothing of it.
    pub(crate) fn awake(&mut self, execution: ExecutionId, covered: u64) {
        self.found.insert(execution, Found::new(Standing { covered, awake: true }));
    }

    /// Records a part that could not be read.
    pub(crate) fn damaged(&mut self, execution: Option<ExecutionId>, what: String) {
        self.recovery.damaged.push((execution, what));
    }

    /// Reads one more row of the journal; rows come in order. `standing` is asked about executions not seen before.
    pub(crate) fn read<E>(
        &mut self,
        position: Position,
        sealed: &[u8],
        mut standing: impl FnMut(ExecutionId) -> Result<Standing, E>,
    ) -> Result<(), E> {
        let (_, turns) = match record::read_journal(sealed) {
            Ok(read) => read,
            Err(damage) => {
                self.damaged(None, format!("journal row {position}: {damage}"));
                let turns = sealed.to_vec();
                self.recovery.aside.push(Aside { execution: None, position, turns });
                return Ok(());
            }
        };
        for (execution, turn) in turns {
            if !self.held.has(execution) {
                continue;
            }
            self.found(execution, &mut standing)?.take(position, turn);
        }
        Ok(())
    }

    /// Adds the Turns of an execution that were set aside, in the order of their positions, before the journal is read.
    pub(crate) fn take_back<E>(
        &mut self,
        execution: ExecutionId,
        position: Position,
        sealed: &[u8],
        mut standing: impl FnMut(ExecutionId) -> Result<Standing, E>,
    ) -> Result<(), E> {
        if !self.held.has(execution) {
            return Ok(());
        }
        let found = self.found(execution, &mut standing)?;
        // Report it, even if nothing of it is left.
        (found.is_aside, found.standing.awake) = (true, true);
        match record::read_journal(sealed) {
            Ok((_, turns)) => turns.into_iter().for_each(|(_, turn)| found.take(position, turn)),
            Err(damage) => {
                found.damage =
                    Some(Damage(format!("what was set aside of journal row {position}: {damage}")));
            }
        }
        Ok(())
    }

    /// An execution that was given up: ignore what the journal has of it.
    pub(crate) fn given_up(&mut self, execution: ExecutionId) {
        self.found.insert(execution, Found::new(Standing { covered: u64::MAX, awake: false }));
    }

    fn found<E>(
        &mut self,
        execution: ExecutionId,
        standing: &mut impl FnMut(ExecutionId) -> Result<Standing, E>,
    ) -> Result<&mut Found, E> {
        use std::collections::btree_map::Entry;
        match self.found.entry(execution) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(Found::new(standing(execution)?))),
        }
    }

    /// The whole result, for the node that continues at this position with these totals. `load` gives the row and the
    /// first Turn that no segment has.
    pub(crate) fn finish<E>(
        mut self,
        (next, totals): (Position, Totals),
        mut load: impl FnMut(ExecutionId) -> Result<Result<(Option<Row>, u64), Damage>, E>,
    ) -> Result<Recovery, E> {
        (self.recovery.next, self.recovery.totals) = (next, totals);
        for (execution, found) in self.found {
            if !found.standing.awake && found.turns.is_empty() {
                continue;
            }
            let loaded = load(execution)?.and_then(|(row, unsegmented_from)| {
                sound(row.as_ref())?;
                whole(&found)?;
                Ok((row, unsegmented_from))
            });
            match loaded {
                Ok((row, unsegmented_from)) => {
                    let turns = found.turns;
                    self.recovery.executions.push(Recovered { execution, row, unsegmented_from, turns });
                }
                Err(damage) => {
                    self.recovery.aside.extend(Aside::of(execution, &found.turns));
                    self.recovery.damaged.push((Some(execution), damage.0));
                }
            }
        }
        Ok(self.recovery)
    }
}

/// Checks that the blobs of a row can be opened.
pub(crate) fn sound(row: Option<&Row>) -> Result<(), Damage> {
    let Some(content) = row.and_then(|row| row.content.as_ref()) else { return Ok(()) };
    let turns =
        record::read_history(&content.tail, content.tail_from).map_err(|damage| within("tail", &damage))?;
    let end = content.tail_from + turns.len() as u64;
    if end != content.turns + 1 {
        return Err(Damage(format!(
            "its row covers {} Turns, but its tail ends at {}",
            content.turns,
            end - 1
        )));
    }
    if let Some(state) = &content.state {
        record::open(&state.bytes).map_err(|damage| within("state", &damage))?;
    }
    Ok(())
}

fn within(part: &str, damage: &Damage) -> Damage {
    Damage(format!("its {part}: {damage}"))
}

fn whole(found: &Found) -> Result<(), Damage> {
    if let Some(damage) = &found.damage {
        return Err(damage.clone());
    }
    if found.standing.covered == 0 && found.turns.is_empty() {
        return Err(Damage("its Turns are missing from the journal".to_owned()));
    }
    dense(found.standing.covered, &found.turns)
}

/// Checks that the Turns follow the covered ones without gaps.
pub(crate) fn dense(covered: u64, turns: &[(Position, StoredTurn)]) -> Result<(), Damage> {
    for ((position, turn), expected) in turns.iter().zip(covered + 1..) {
        if turn.number != expected {
            return Err(Damage(format!(
                "journal row {position} has its Turn {} where Turn {expected} belongs",
                turn.number
            )));
        }
    }
    Ok(())
}

/// Collects consecutive Turns of one execution, forwards, from several places that may overlap.
pub(crate) struct Stretch {
    next: u64,
    bytes_left: Option<usize>,
    turns: Vec<StoredTurn>,
}

impl Stretch {
    /// From this number on, until about `bytes_max` bytes were collected.
    pub(crate) fn new(from: u64, bytes_max: usize) -> Self {
        Self { next: from.max(1), bytes_left: Some(bytes_max), turns: Vec::new() }
    }

    /// The number of the next wanted Turn.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether there is room for more.
    pub(crate) fn wants_more(&self) -> bool {
        self.bytes_left.is_some()
    }

    /// Takes the wanted Turns of one place; earlier places must have been taken before.
    pub(crate) fn take(&mut self, turns: impl IntoIterator<Item = StoredTurn>) -> Result<(), Damage> {
        for turn in turns {
            if turn.number < self.next {
                continue;
            }
            let Some(left) = self.bytes_left else { return Ok(()) };
            if turn.number > self.next {
                return Err(missing(self.next, turn.number - 1));
            }
            self.bytes_left = left.checked_sub(turn.body.len().max(1));
            self.next += 1;
            self.turns.push(turn);
        }
        Ok(())
    }

    /// The collected Turns.
    pub(crate) fn turns(self) -> Vec<StoredTurn> {
        self.turns
    }
}

/// Collects consecutive Turns of one execution, backwards, from several places that may overlap.
pub(crate) struct Retreat {
    /// The number of the Turn that was taken last.
    before: u64,
    bytes_left: Option<usize>,
    turns: Vec<StoredTurn>,
}

impl Retreat {
    /// Before this number, or from the end, until about `bytes_max` bytes were collected. `end` is the number of the
    /// last Turn.
    pub(crate) fn new(before: Option<u64>, end: u64, bytes_max: usize) -> Self {
        let before = before.unwrap_or(u64::MAX).min(end + 1);
        Self { before, bytes_left: Some(bytes_max), turns: Vec::new() }
    }

    /// Whether a place whose first Turn has this number has wanted Turns.
    pub(crate) fn wants(&self, first: u64) -> bool {
        self.bytes_left.is_some() && first < self.before
    }

    /// Takes the wanted Turns of one place, which are in order; later places must have been taken before.
    pub(crate) fn take(&mut self, turns: Vec<StoredTurn>) -> Result<(), Damage> {
        for turn in turns.into_iter().rev() {
            if turn.number >= self.before {
                continue;
            }
            let Some(left) = self.bytes_left else { return Ok(()) };
            if turn.number + 1 != self.before {
                return Err(missing(turn.number + 1, self.before - 1));
            }
            self.bytes_left = left.checked_sub(turn.body.len().max(1));
            self.before = turn.number;
            self.turns.push(turn);
        }
        Ok(())
    }

    /// The collected Turns, the last one first, after all places were taken.
    pub(crate) fn turns(self) -> Result<Vec<StoredTurn>, Damage> {
        if self.wants(1) { Err(missing(1, self.before - 1)) } else { Ok(self.turns) }
    }
}

fn missing(from: u64, to: u64) -> Damage {
    Damage(format!("its Turns {from} to {to} are missing"))
}

/// The sum of several totals.
pub(crate) fn sum(totals: impl IntoIterator<Item = Totals>) -> Totals {
    let mut sum = [0u64; Totals::NAMES.len()];
    for one in totals {
        for (sum, value) in sum.iter_mut().zip(one.values()) {
            *sum = sum.saturating_add(value);
        }
    }
    Totals::from_values(&sum)
}
