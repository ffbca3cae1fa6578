//! Executions folded from their stored Turns: for the node, to go on with them, and for readers.
//!
//! What is stored may be damaged, and may not be what this program would have written. So nothing is believed: Turns have to
//! follow each other, and one that does not apply is damage and no panic.

use crate::committer::panic_text;
use crate::library::Shelf;
use crate::marks::Marks;
use crate::running::{Running, Tail, Told};
use perdura_engine::{Destinations, Execution, ExecutionId, Timestamp};
use perdura_store::record::{self, Begun, Damage, TurnBody};
use perdura_store::{Content, Failure, FailureKind, Reader, Recovered, Row, StoredTurn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How many bytes are read at once from a history that is too long for a row.
const READ_BYTES: usize = 1 << 20;

/// An execution as it stands on disk.
#[derive(Debug)]
pub struct Folded {
    pub execution: Execution,
    /// How many Turns it has had.
    pub turns: u64,
}

/// Folds one execution; `None`: there is none.
pub fn fold(reader: &mut dyn Reader, id: ExecutionId) -> Result<Option<Folded>, Unreadable> {
    let Some(stored) = reader.execution(id)? else { return Ok(None) };
    fold_stored(reader, &stored).map(Some)
}

/// The same, from rows that were read already.
pub fn fold_stored(reader: &mut dyn Reader, stored: &Recovered) -> Result<Folded, Unreadable> {
    let mut fold = Fold { running: None, tail: None };
    fold.stored(stored, &mut Shelf::default(), reader)?;
    let Running { execution, turns, .. } = fold.running.ok_or_else(nothing)?;
    Ok(Folded { execution, turns })
}

fn nothing() -> Damage {
    Damage("nothing is stored of it".into())
}

/// Rebuilds what a Shard had running: from its row and the journal.
pub(crate) fn rebuild(
    stored: Recovered,
    shelf: &mut Shelf,
    reader: &mut dyn Reader,
    destinations: &Arc<dyn Destinations>,
) -> Result<Running, Unreadable> {
    let base = stored.turns.first().map(|(position, _)| *position);
    let first =
        stored.row.as_ref().and_then(|row| row.content.as_ref()).map_or(1, |content| content.tail_from);
    let mut fold = Fold { running: None, tail: Some(Tail { first, bytes: Vec::new() }) };
    fold.stored(&stored, shelf, reader)?;
    let mut running = fold.finish(destinations)?;
    running.base = base;
    running.told = match stored.row {
        None => Told::Nothing,
        Some(row) if row.awake => Told::Awake,
        Some(row) if row.ended_at.is_some() => Told::Ended,
        Some(_) => Told::Asleep,
    };
    Ok(running)
}

/// Why an execution could not be rebuilt.
#[derive(Debug)]
pub enum Unreadable {
    /// What is stored is not what was written.
    Damaged(Damage),
    /// The store could not be read; it may be another time.
    Unavailable(Failure),
}

impl From<Damage> for Unreadable {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<Failure> for Unreadable {
    fn from(failure: Failure) -> Self {
        match failure.kind {
            FailureKind::Corrupt => Self::Damaged(Damage(failure.to_string())),
            FailureKind::DiskFull
            | FailureKind::ReadOnly
            | FailureKind::Held
            | FailureKind::Newer
            | FailureKind::Io => Self::Unavailable(failure),
        }
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(damage) => formatter.write_str(&damage.0),
            Self::Unavailable(failure) => failure.fmt(formatter),
        }
    }
}

/// An execution in the making.
struct Fold {
    running: Option<Running>,
    /// The Turns that no segment holds; `None`: nobody wants them.
    tail: Option<Tail>,
}

impl Fold {
    /// All that is stored of it.
    fn stored(
        &mut self,
        stored: &Recovered,
        shelf: &mut Shelf,
        reader: &mut dyn Reader,
    ) -> Result<(), Unreadable> {
        let content = stored.row.as_ref().and_then(|row| Some((row, row.content.as_ref()?)));
        if let Some((row, content)) = content {
            self.content(row, content, shelf, reader)?;
        }
        if let Some(tail) = &mut self.tail
            && tail.first < stored.unsegmented_from
            && tail.bytes.is_empty()
        {
            tail.first = stored.unsegmented_from;
        }
        for (_, turn) in &stored.turns {
            self.turn(turn, shelf, reader)?;
        }
        Ok(())
    }

    fn content(
        &mut self,
        row: &Row,
        content: &Content,
        shelf: &mut Shelf,
        reader: &mut dyn Reader,
    ) -> Result<(), Unreadable> {
        if let Some(state) = &content.state {
            let machine = shelf.find(row.revision, reader)?.machine.clone();
            let bytes = record::open(&state.bytes)?;
            let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
            let execution = Execution::deserialize(machine, &mut deserializer)
                .map_err(|error| Damage(format!("the state of {} cannot be read: {error}", row.execution)))?;
            let begun = Begun {
                machine: row.machine,
                revision: row.revision,
                named: row.name.is_some(),
                parent: None,
                awaited: false,
                nesting: None,
                identity: execution.identity().clone(),
                child: row.child,
            };
            let mut running = Running::new(&begun, execution, Timestamp(0));
            running.turns = state.turn;
            running.largest = running.largest.max(bytes.len());
            self.running = Some(running);
        } else if content.tail_from > 1 {
            let mut from = 1;
            while from < content.tail_from {
                let turns = reader.turns(row.execution, from, READ_BYTES)?;
                let Some(last) = turns.last() else { break };
                from = last.number + 1;
                for turn in turns.iter().filter(|turn| turn.number < content.tail_from) {
                    self.turn(turn, shelf, reader)?;
                }
            }
        }
        for turn in record::read_history(&content.tail, content.tail_from)? {
            self.turn(&turn, shelf, reader)?;
        }
        Ok(())
    }

    /// The next Turn. What a snapshot covers goes to the tail only.
    fn turn(
        &mut self,
        turn: &StoredTurn,
        shelf: &mut Shelf,
        reader: &mut dyn Reader,
    ) -> Result<(), Unreadable> {
        let done = self.running.as_ref().map_or(0, |running| running.turns);
        if let Some(tail) = &mut self.tail
            && turn.number >= tail.first
        {
            record::push_turn(&mut tail.bytes, &turn.body);
        }
        if turn.number <= done {
            return Ok(());
        }
        if turn.number != done + 1 {
            return Err(Damage(format!("Turn {} is missing: {} comes next", done + 1, turn.number)).into());
        }
        let body = TurnBody::read(&turn.body)?;
        let running = match (&mut self.running, body.begun) {
            (Some(running), None) => running,
            (none @ None, Some(begun)) => {
                let machine = shelf.find(begun.revision, reader)?.machine.clone();
                let execution = Execution::new(machine, begun.identity.clone());
                none.insert(Running::new(&begun, execution, Timestamp(0)))
            }
            (Some(_), Some(_)) => return Err(Damage(format!("Turn {} begins again", turn.number)).into()),
            (None, None) => return Err(Damage("the first Turn does not say who it is".into()).into()),
        };
        // A Turn that was not decided on this state breaks what the engine holds to be so.
        catch_unwind(AssertUnwindSafe(|| running.execution.apply(&body.turn))).map_err(|panic| {
            Damage(format!("Turn {} does not apply: {}", turn.number, panic_text(&*panic)))
        })?;
        running.turns = turn.number;
        running.largest = running.largest.max(turn.body.len());
        Ok(())
    }

    fn finish(self, destinations: &Arc<dyn Destinations>) -> Result<Running, Damage> {
        let mut running = self.running.ok_or_else(nothing)?;
        running.execution = running.execution.with_destinations(destinations.clone());
        running.tail = self.tail.expect("whoever goes on with it wants its tail");
        running.has_ledger_rows = true;
        let sent_at = |strand| {
            let step = running.execution.strand(strand).and_then(|strand| strand.step.as_ref());
            step.and_then(|step| step.sent.as_ref()).map_or(running.execution.last_at(), |sent| sent.at)
        };
        let mut marks = Marks::default();
        // One that has ended stands where it stood, but has nothing under way.
        if !running.execution.is_ended() {
            for (strand, key, _) in running.execution.calls() {
                let at = sent_at(strand);
                marks.begin(key, at);
            }
        }
        running.marks = marks;
        Ok(running)
    }
}
