//! A group in the making: its journal row, its rows, and its marks for the Ledger.

use super::{Done, Item, JOURNAL_BYTES_MAX, Journal, rests};
use crate::running::{Running, SEEN_AFTER_MS, Told};
use perdura_engine::{Effect, EventKind, LedgerStatus, Mark, Note, Record, Status, Timestamp, Turn, Wake};
use perdura_store::record::{self, Begun, JournalWriter};
use perdura_store::{Content, Group, Lease, LedgerChange, LedgerRow, MapRunRow, Segment, Totals};
use std::sync::Arc;

/// How much room the Turns of the next group are given in advance at most.
const ROOM_MAX: u64 = 1024 * 1024;

/// A history longer than this is cut into segments.
const SEGMENT_BYTES: usize = 256 * 1024;

/// A group in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) journal: JournalWriter,
    pub(super) turns: usize,
    /// Of the journal.
    pub(super) bytes: u64,
    /// Of the rows.
    pub(super) content_bytes: u64,
    pub(super) rows: Vec<perdura_store::Row>,
    pub(super) segments: Vec<Segment>,
    pub(super) ledger: Vec<LedgerChange>,
    pub(super) map_runs: Vec<MapRunRow>,
    pub(super) publishes: bool,
    pub(super) body: Vec<u8>,
}

impl Draft {
    pub(super) fn with_room(bytes: u64) -> Self {
        let journal = JournalWriter::with_room(bytes.min(ROOM_MAX) as usize);
        Self { journal, ..Self::default() }
    }

    pub(super) fn add(&mut self, item: Item, journal: &mut Journal) -> Done {
        let Item { running, decision, begun, is_idle, is_stale, is_put_off, moment } = item;
        let mut done = Done {
            running,
            effects: Vec::new(),
            turn: None,
            remarks: Vec::new(),
            ignored: None,
            late: None,
            may_leave: false,
        };
        let running = &mut *done.running;
        if let Some(mut decision) = decision {
            let turn = std::mem::take(&mut decision.turn);
            self.write_turn(running, begun.as_deref(), &turn, journal);
            done.ignored =
                read_notes(&turn, running, &mut self.ledger, &mut journal.totals, &mut done.remarks);
            done.effects = running.execution.commit(decision);
            done.late = done.remarks.iter().find_map(|note| match note {
                Note::LateOutcome { lateness, .. } => Some(*lateness),
                _ => None,
            });
            done.turn = journal.keeps_turns.then_some(turn);
            journal.totals.started += u64::from(begun.is_some());
        }
        count_status(&done.effects, &mut journal.totals);
        let is_ended = running.execution.is_ended();
        let sleeps = is_idle && rests(&done.effects, running.execution.next_wake(), &moment);
        if is_ended || sleeps || is_put_off {
            let mut row = running.row();
            row.awake = false;
            row.waits = !is_ended && (is_put_off || running.execution.is_attended());
            row.wake = if is_ended { Wake::default() } else { running.execution.next_wake() };
            let content = running.content();
            self.content_bytes += size(&content);
            row.content = Some(content);
            self.rows.push(row);
            write_pending(running, &mut self.ledger, None);
            if is_ended && running.has_ledger_rows {
                let at = running.execution.ended_at().unwrap_or(moment.now);
                self.ledger.push(LedgerChange::Ended { execution: running.id(), at });
            }
            running.told = if is_ended { Told::Ended } else { Told::Asleep };
            running.since = moment.now;
            free(running, journal);
            done.may_leave = true;
        } else if is_stale {
            let mut row = running.row();
            let content = running.content();
            self.content_bytes += size(&content);
            journal.credit -= size(&content) as i64;
            row.content = Some(content);
            self.rows.push(row);
            running.told = Told::Awake;
            free(running, journal);
        }
        // It was redriven: from this commit on nobody may take it for one that has ended.
        if !done.may_leave && running.told == Told::Ended {
            self.rows.push(running.row());
            running.told = Told::Awake;
        }
        if !done.may_leave && running.is_unseen(moment.now) {
            if running.told != Told::Awake {
                self.rows.push(running.row());
                running.told = Told::Awake;
            }
            write_pending(running, &mut self.ledger, Some(moment.now.after_ms(-SEEN_AFTER_MS)));
            self.publishes = true;
        }
        done
    }

    pub(super) fn write_turn(
        &mut self,
        running: &mut Running,
        begun: Option<&Begun>,
        turn: &Turn,
        journal: &mut Journal,
    ) {
        running.turns += 1;
        journal.totals.turns += 1;
        self.turns += 1;
        self.body.clear();
        record::write_turn(&mut self.body, begun, turn);
        if journal.reads_back
            && let Err(damage) = record::comes_back(&self.body, begun, turn)
        {
            let doors: Vec<String> = turn.events().map(perdura_engine::Event::type_name).collect();
            panic!("Turn {} of {} ({}): {damage}", running.turns, running.id(), doors.join(", "));
        }
        self.bytes += self.body.len() as u64;
        running.largest = running.largest.max(self.body.len());
        self.journal.push(running.id(), running.turns, &self.body);
        record::push_turn(&mut running.tail.bytes, &self.body);
        if running.base.is_none() {
            running.base = Some(journal.next);
            journal.bases.insert((journal.next, running.id()));
        }
        if running.tail.bytes.len() > SEGMENT_BYTES {
            let first = running.tail.first;
            self.segments.push(Segment {
                execution: running.id(),
                first,
                turns: running.turns + 1 - first,
                bytes: std::mem::take(&mut running.tail.bytes),
            });
            running.tail.first = running.turns + 1;
        }
    }

    pub(super) fn finish(mut self, lease: Lease, journal: &mut Journal) -> (Group, JournalWriter) {
        let position = (self.turns > 0).then_some(journal.next);
        if let Some(position) = position {
            self.journal.set_totals(&journal.totals);
            journal.next = position.next();
            journal.rows.push_back((position, self.bytes));
            journal.row_bytes += self.bytes;
            journal.credit = (journal.credit + self.bytes as i64).min(JOURNAL_BYTES_MAX as i64);
        }
        let keep_from = journal.keep_from();
        while let Some((_, bytes)) =
            journal.rows.front().copied().filter(|(position, _)| *position < keep_from)
        {
            journal.rows.pop_front();
            journal.row_bytes -= bytes;
        }
        let group = Group {
            position,
            keep_from,
            rows: self.rows,
            segments: self.segments,
            ledger: self.ledger,
            map_runs: self.map_runs,
            totals: self.publishes.then_some(journal.totals),
            ..Group::under(lease)
        };
        (group, self.journal)
    }
}

pub(super) fn size(content: &Content) -> u64 {
    (content.tail.len() + content.state.as_ref().map_or(0, |state| state.bytes.len())) as u64
}

/// Its row is enough: the journal is not needed for it.
pub(super) fn free(running: &mut Running, journal: &mut Journal) {
    if let Some(base) = running.base.take() {
        journal.bases.remove(&(base, running.id()));
    }
}

pub(super) fn count_status(effects: &[Effect], totals: &mut Totals) {
    for effect in effects {
        if let Effect::Publish { status } = effect {
            match status {
                Status::Created | Status::Running => {}
                Status::Succeeded => totals.succeeded += 1,
                Status::Failed | Status::Aborted | Status::TimedOut => totals.failed += 1,
            }
        }
    }
}

/// Follows the Ledger's marks; what went wrong is written at once, what is under way only if it takes long.
pub(super) fn read_notes(
    turn: &Turn,
    running: &mut Running,
    ledger: &mut Vec<LedgerChange>,
    totals: &mut Totals,
    remarks: &mut Vec<Note>,
) -> Option<Arc<str>> {
    for made in turn.marks() {
        mark(running, &made, turn, ledger, totals);
    }
    let mut ignored = None;
    for record in &turn.records {
        let note = match record {
            Record::Event(event) => {
                totals.redriven += u64::from(matches!(event.kind, EventKind::ExecutionRedriven { .. }));
                continue;
            }
            Record::Note(note) => note,
        };
        match note {
            Note::Repeated { .. } => {
                totals.steps_repeated += 1;
                remarks.push(note.clone());
            }
            Note::LateOutcome { .. } => {
                totals.outcomes_late += 1;
                remarks.push(note.clone());
            }
            Note::Held { .. } | Note::Resolved { .. } => remarks.push(note.clone()),
            Note::Ignored { reason } => ignored = Some(reason.clone()),
            Note::Ledger { .. }
            | Note::Resting { .. }
            | Note::Woken { .. }
            | Note::FanStarted { .. }
            | Note::StrandStarted { .. }
            | Note::StrandEnded { .. }
            | Note::StrandFailed { .. }
            | Note::StrandsDropped { .. }
            | Note::FanWaits { .. }
            | Note::Settled { .. } => {}
        }
    }
    ignored
}

fn mark(
    running: &mut Running,
    Mark { key, status, said }: &Mark<'_>,
    turn: &Turn,
    ledger: &mut Vec<LedgerChange>,
    totals: &mut Totals,
) {
    let at = turn.events().next().map_or(running.execution.last_at(), |event| event.at);
    match status {
        LedgerStatus::Pending => {
            totals.steps_sent += 1;
            running.marks.begin((*key).clone(), at);
        }
        LedgerStatus::Completed => {
            totals.steps_completed += 1;
            running.marks.end(key);
            // An earlier attempt under this key, or another process, may have left a row.
            if running.has_ledger_rows {
                ledger.push(LedgerChange::Drop { key: key.readable().into() });
            }
        }
        LedgerStatus::Failed | LedgerStatus::Uncertain => {
            match status {
                LedgerStatus::Failed => totals.steps_failed += 1,
                _ => totals.steps_uncertain += 1,
            }
            let started_at = running.marks.end(key).unwrap_or(at);
            let row = LedgerRow::of(key, running.id(), *status, started_at);
            let row = LedgerRow { completed_at: Some(at), error: said.error(), ..row };
            ledger.push(LedgerChange::Put(Box::new(row)));
            running.has_ledger_rows = true;
        }
    }
}

/// Attempts under way that readers should see: all, or those sent before.
pub(super) fn write_pending(
    running: &mut Running,
    ledger: &mut Vec<LedgerChange>,
    before: Option<Timestamp>,
) {
    let id = running.id();
    for (at, key) in running.marks.take_unwritten(before) {
        running.has_ledger_rows = true;
        ledger.push(LedgerChange::Put(Box::new(LedgerRow::of(&key, id, LedgerStatus::Pending, at))));
    }
}
