//! An execution in memory, with what its store needs to know of it; and how it is rebuilt from what is stored.

use crate::committer::panic_text;
use crate::library::Shelf;
use crate::marks::Marks;
use perdura_engine::{Destinations, EffectKey, Execution, ExecutionId, Timestamp};
use perdura_store::record::{self, Begun, Damage, TurnBody};
use perdura_store::{
    ChildOf, Content, Failure, FailureKind, MachineId, Nesting, Position, Reader, Recovered, RevisionId, Row,
    StoredTurn, Summary,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How many bytes are read at once from a history that is too long for a row.
const READ_BYTES: usize = 1 << 20;
/// What an execution takes in memory whatever its payloads.
const WEIGHT_MIN: usize = 2_048;
/// Readers of the tables see what is older than this.
pub(crate) const SEEN_AFTER_MS: i64 = 1_000;

/// An execution that runs here.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) execution: Execution,
    pub(crate) machine: MachineId,
    pub(crate) revision: RevisionId,
    /// Its name was given; otherwise it is its id.
    pub(crate) named: bool,
    /// Whose child it is, if it is one.
    pub(crate) child: Option<ChildOf>,
    /// The step that started it and waits for its end, if there is one.
    pub(crate) awaited_by: Option<EffectKey>,
    /// Its place in a line of children without places, if it is in one.
    pub(crate) nesting: Option<Nesting>,
    /// How many Turns it has had.
    pub(crate) turns: u64,
    /// The Turns that no segment holds.
    pub(crate) tail: Tail,
    /// The first journal row that is needed to rebuild it; `None`: its row is enough.
    pub(crate) base: Option<Position>,
    /// Attempts that are under way.
    pub(crate) marks: Marks,
    /// The ledger table may have rows of it.
    pub(crate) has_ledger_rows: bool,
    /// What its row tells readers.
    pub(crate) told: Told,
    /// When it came into memory.
    pub(crate) since: Timestamp,
    /// The bytes of its largest Turn.
    pub(crate) largest: usize,
}

/// What the row of an execution in memory tells readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It has no row.
    Nothing,
    /// That it sleeps, and so that it runs.
    Asleep,
    /// That it has ended. A redrive changes that in its own commit: nobody may take away what runs.
    Ended,
    /// That it runs.
    Awake,
}

/// The last Turns of a history, not sealed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The number of the first.
    pub(crate) first: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Running {
    /// One that begins now.
    pub(crate) fn new(begun: &Begun, execution: Execution, now: Timestamp) -> Self {
        Self {
            execution,
            machine: begun.machine,
            revision: begun.revision,
            named: begun.named,
            child: begun.child,
            awaited_by: begun.parent.clone().filter(|_| begun.awaited),
            nesting: begun.nesting,
            turns: 0,
            tail: Tail { first: 1, bytes: Vec::new() },
            base: None,
            marks: Marks::default(),
            has_ledger_rows: false,
            told: Told::Nothing,
            since: now,
            // Its first Turn says its input twice: what it was given, and what its first state receives.
            largest: 2 * begun.identity.input.len(),
        }
    }

    /// How much memory it takes, roughly: payloads are there as text and as values, and what is not sealed yet.
    pub(crate) fn weight(&self) -> u64 {
        (WEIGHT_MIN + 2 * self.largest + self.tail.bytes.capacity()) as u64
    }

    /// How many of its line were let in without a place, down to it.
    pub(crate) fn depth(&self) -> u32 {
        self.nesting.map_or(0, |nesting| nesting.depth)
    }

    pub(crate) fn id(&self) -> ExecutionId {
        self.execution.identity().id
    }

    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.named.then(|| self.execution.identity().name.clone())
    }

    /// Whether the tables should be told of it.
    pub(crate) fn is_unseen(&self, now: Timestamp) -> bool {
        // One whose first Turn is not on disk yet does not exist for anybody.
        if self.turns == 0 {
            return false;
        }
        let seen_before = Timestamp(now.0.saturating_sub(SEEN_AFTER_MS));
        (self.told != Told::Awake && self.since <= seen_before) || self.marks.has_unwritten(seen_before)
    }

    /// Its row, without content.
    pub(crate) fn row(&self) -> Row {
        Row {
            execution: self.id(),
            machine: self.machine,
            revision: self.revision,
            name: self.name(),
            status: self.execution.status(),
            awake: true,
            started_at: self.execution.started_at(),
            ended_at: self.execution.ended_at(),
            wake: perdura_engine::Wake::default(),
            waits: false,
            redrives: self.execution.redrives(),
            redriven_at: self.execution.redriven_at(),
            version: self.execution.identity().version(),
            alias: self.execution.identity().alias().map(Into::into),
            child: self.child,
            content: None,
        }
    }

    /// It runs, and its row does not say so.
    pub(crate) fn is_unlisted(&self) -> bool {
        let is_told = matches!(self.told, Told::Asleep | Told::Awake);
        !is_told && self.turns > 0 && !self.execution.is_ended()
    }

    /// As a list would show it, if none does yet.
    pub(crate) fn young(&self) -> Option<Summary> {
        if !self.is_unlisted() {
            return None;
        }
        let row = self.row();
        Some(Summary {
            execution: row.execution,
            machine: row.machine,
            revision: row.revision,
            name: row.name,
            status: row.status,
            started_at: row.started_at,
            ended_at: row.ended_at,
            redrives: row.redrives,
            redriven_at: row.redriven_at,
            version: row.version,
            alias: row.alias,
            child: row.child.map(|child| child.index),
        })
    }

    /// What is stored of it in full; not sealed yet.
    pub(crate) fn content(&self) -> Content {
        let needs_state = self.tail.first > 1 && !self.execution.is_ended();
        let state = needs_state
            .then(|| perdura_store::Snapshot { turn: self.turns, bytes: state_bytes(&self.execution) });
        Content {
            turns: self.turns,
            events: self.execution.last_event().0,
            state,
            tail_from: self.tail.first,
            tail: self.tail.bytes.clone(),
        }
    }
}

fn state_bytes(execution: &Execution) -> Vec<u8> {
    let mut bytes = Vec::new();
    execution.serialize(&mut serde_json::Serializer::new(&mut bytes)).expect("a state can be written");
    bytes
}

/// Rebuilds what a Shard had running: from its row and the journal.
pub(crate) fn rebuild(
    stored: Recovered,
    shelf: &mut Shelf,
    reader: &mut dyn Reader,
    destinations: &Arc<dyn Destinations>,
) -> Result<Running, Unreadable> {
    let base = stored.turns.first().map(|(position, _)| *position);
    let newer: Vec<StoredTurn> = stored.turns.into_iter().map(|(_, turn)| turn).collect();
    let content = stored.row.as_ref().and_then(|row| row.content.clone());
    let mut fold = Fold::default();
    match (&stored.row, &content) {
        (Some(row), Some(content)) => fold.content(row, content, shelf, reader)?,
        _ => fold.tail = Some(Tail { first: 1, bytes: Vec::new() }),
    }
    let unsegmented_from = stored.unsegmented_from;
    if let Some(tail) = &mut fold.tail
        && tail.first < unsegmented_from
        && tail.bytes.is_empty()
    {
        tail.first = unsegmented_from;
    }
    for turn in newer {
        fold.turn(&turn, shelf, reader)?;
    }
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
pub(crate) enum Unreadable {
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
#[derive(Default)]
struct Fold {
    running: Option<Running>,
    tail: Option<Tail>,
}

impl Fold {
    fn content(
        &mut self,
        row: &Row,
        content: &Content,
        shelf: &mut Shelf,
        reader: &mut dyn Reader,
    ) -> Result<(), Unreadable> {
        self.tail = Some(Tail { first: content.tail_from, bytes: Vec::new() });
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
        let mut running = self.running.ok_or_else(|| Damage("nothing is stored of it".into()))?;
        running.execution = running.execution.with_destinations(destinations.clone());
        running.tail = self.tail.expect("a fold has a tail from the beginning");
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
