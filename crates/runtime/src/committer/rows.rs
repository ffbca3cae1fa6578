//! The rows of a group: executions that end, fall asleep, are taken down for the journal's sake, or are to be seen.

use crate::running::{Running, Told};
use perdura_engine::{Timestamp, Wake};
use perdura_store::{Row, Segment};

/// A history longer than this is cut into segments.
const SEGMENT_BYTES: usize = 256 * 1024;

/// Rows in the making.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) written: Vec<Row>,
    pub(super) segments: Vec<Segment>,
    /// What they hold, before it is compressed.
    pub(super) bytes: u64,
}

impl Rows {
    /// Cuts off what a history has become too long by.
    pub(super) fn cut(&mut self, running: &mut Running) {
        if running.tail.bytes.len() <= SEGMENT_BYTES {
            return;
        }
        let first = running.tail.first;
        self.segments.push(Segment {
            execution: running.id(),
            first,
            turns: running.turns + 1 - first,
            bytes: std::mem::take(&mut running.tail.bytes),
        });
        running.tail.first = running.turns + 1;
    }

    /// It ended or sleeps: its row is all that is needed. One that is put off waits for whoever resumes it. Which row it is.
    pub(super) fn rest(&mut self, running: &mut Running, is_put_off: bool, now: Timestamp) -> usize {
        let execution = &running.execution;
        let is_ended = execution.is_ended();
        let row = Row {
            awake: false,
            waits: !is_ended && (is_put_off || execution.is_attended()),
            // What could go on and rests all the same is held.
            held: execution.goes_on(),
            wake: if is_ended { Wake::default() } else { execution.next_wake() },
            ..running.row()
        };
        self.put(row, running);
        running.told = if is_ended { Told::Ended } else { Told::Asleep };
        running.since = now;
        self.written.len() - 1
    }

    /// It runs on, and its row has all of it so far; which row it is, and how many bytes that took.
    pub(super) fn take_down(&mut self, running: &mut Running) -> (usize, u64) {
        running.told = Told::Awake;
        let bytes = self.put(running.row(), running);
        (self.written.len() - 1, bytes)
    }

    /// Its row says that it runs.
    pub(super) fn show(&mut self, running: &mut Running) {
        if running.told != Told::Awake {
            self.written.push(running.row());
            running.told = Told::Awake;
        }
    }

    fn put(&mut self, row: Row, running: &Running) -> u64 {
        let content = running.content();
        let state = content.state.as_ref().map_or(0, |state| state.bytes.len());
        let bytes = (running.tail.bytes.len() + state) as u64;
        self.bytes += bytes;
        self.written.push(Row { content: Some(content), ..row });
        bytes
    }
}
