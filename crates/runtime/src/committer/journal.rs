//! The journal, as its one writer knows it: the row in the making, and which rows somebody still needs.
//!
//! A row goes once no running execution needs it. One that runs for long would keep them all; so if the journal has
//! become too long, its oldest runners are named, to be taken down to rows of their own.

use crate::running::Running;
use perdura_engine::{ExecutionId, Turn};
use perdura_store::record::{self, Begun, JournalWriter};
use perdura_store::{Position, Recovered, Recovery, Totals};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The journal keeps no more than this, uncompressed, for the sake of old runners, unless their states are larger themselves.
const BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Nor more rows than this.
const ROWS_MAX: usize = 4_096;
/// How many old runners one commit takes down.
const SNAPSHOTS_AT_ONCE: usize = 16;
/// How much room the next row is given in advance at most.
const ROOM_MAX: u64 = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Journal {
    /// Where the row in the making goes.
    next: Position,
    row: JournalRow,
    /// Which row each running execution needs first.
    bases: BTreeSet<(Position, ExecutionId)>,
    /// The rows that are kept, and their sizes.
    kept: VecDeque<(Position, u64)>,
    kept_bytes: u64,
    /// Bytes of journal less bytes of snapshots: what old runners may cost.
    credit: i64,
    /// See [`Committer::read_back`](super::Committer::read_back).
    pub(super) reads_back: bool,
    /// One Turn, encoded.
    body: Vec<u8>,
}

/// A row in the making.
#[derive(Debug, Default)]
struct JournalRow {
    writer: JournalWriter,
    turns: usize,
    bytes: u64,
}

/// A row that is complete, to be sealed and written.
pub(super) struct Finished {
    /// Where it goes; `None`: no Turn is in it.
    pub(super) position: Option<Position>,
    pub(super) writer: JournalWriter,
    /// The first row that somebody needs.
    pub(super) keep_from: Position,
}

impl Journal {
    pub(super) fn after(recovery: &Recovery) -> Self {
        let mut kept: BTreeMap<Position, u64> = BTreeMap::new();
        for (position, turn) in recovery.executions.iter().flat_map(|execution| &execution.turns) {
            *kept.entry(*position).or_default() += turn.body.len() as u64;
        }
        Self {
            next: recovery.next,
            row: JournalRow::default(),
            // Until all are rebuilt, whatever is committed must not take from the journal what one of them needs.
            bases: recovery.executions.iter().filter_map(base_of).collect(),
            kept_bytes: kept.values().sum(),
            kept: kept.into_iter().collect(),
            credit: 0,
            reads_back: cfg!(debug_assertions),
            body: Vec::new(),
        }
    }

    /// These need the journal no more: what it has of them is kept elsewhere.
    pub(super) fn unpin(&mut self, unreadable: &[(Position, ExecutionId)]) {
        self.bases.retain(|base| !unreadable.contains(base));
    }

    /// A rebuilt execution needs the journal from its base on.
    pub(super) fn pin(&mut self, running: &Running) {
        if let Some(base) = running.base {
            self.bases.insert((base, running.id()));
        }
    }

    /// Its row is enough: the journal is not needed for it.
    pub(super) fn free(&mut self, running: &mut Running) {
        if let Some(base) = running.base.take() {
            self.bases.remove(&(base, running.id()));
        }
    }

    /// An old runner was taken down, at the cost of so many bytes.
    pub(super) fn took_down(&mut self, running: &mut Running, bytes: u64) {
        self.credit -= bytes as i64;
        self.free(running);
    }

    /// How large the row in the making is, before it is compressed.
    pub(super) fn bytes(&self) -> u64 {
        self.row.bytes
    }

    /// Writes the next Turn of an execution.
    pub(super) fn write(&mut self, running: &mut Running, begun: Option<&Begun>, turn: &Turn) {
        running.turns += 1;
        self.body.clear();
        record::write_turn(&mut self.body, begun, turn);
        if self.reads_back
            && let Err(damage) = record::comes_back(&self.body, begun, turn)
        {
            let events: Vec<String> = turn.events().map(perdura_engine::Event::type_name).collect();
            panic!("Turn {} of {} ({}): {damage}", running.turns, running.id(), events.join(", "));
        }
        self.row.turns += 1;
        self.row.bytes += self.body.len() as u64;
        self.row.writer.push(running.id(), running.turns, &self.body);
        running.largest = running.largest.max(self.body.len());
        record::push_turn(&mut running.tail.bytes, &self.body);
        if running.base.is_none() {
            running.base = Some(self.next);
            self.bases.insert((self.next, running.id()));
        }
    }

    /// The row is complete; the next one begins. One without Turns is written only where it is needed.
    pub(super) fn finish(&mut self, totals: &Totals, needs_row: bool) -> Finished {
        // The next one's Turns will hardly be larger.
        let writer = JournalWriter::with_room(self.row.bytes.min(ROOM_MAX) as usize);
        let next = JournalRow { writer, ..JournalRow::default() };
        let JournalRow { mut writer, turns, bytes } = std::mem::replace(&mut self.row, next);
        let position = (turns > 0 || needs_row).then_some(self.next);
        if let Some(position) = position {
            writer.set_totals(totals);
            self.next = position.next();
            self.kept.push_back((position, bytes));
            self.kept_bytes += bytes;
            self.credit = (self.credit + bytes as i64).min(BYTES_MAX as i64);
        }
        let keep_from = self.bases.first().map_or(self.next, |(position, _)| *position);
        while let Some((_, bytes)) = self.kept.front().copied().filter(|(position, _)| *position < keep_from)
        {
            self.kept.pop_front();
            self.kept_bytes -= bytes;
        }
        Finished { position, writer, keep_from }
    }

    /// The oldest runners, if the journal keeps more for them than it should.
    pub(super) fn stale(&self) -> Vec<ExecutionId> {
        let is_long = self.kept_bytes > BYTES_MAX || self.kept.len() > ROWS_MAX;
        if !is_long || self.credit < 0 {
            return Vec::new();
        }
        self.bases.iter().take(SNAPSHOTS_AT_ONCE).map(|(_, id)| *id).collect()
    }
}

/// The first journal row that an execution needs.
pub(crate) fn base_of(stored: &Recovered) -> Option<(Position, ExecutionId)> {
    stored.turns.first().map(|(position, _)| (*position, stored.execution))
}
