//! An execution in memory, with what its store needs to know of it.

use crate::marks::Marks;
use perdura_engine::{EffectKey, Execution, ExecutionId, Timestamp};
use perdura_store::record::Begun;
use perdura_store::{
    ChildOf, Content, MachineId, Nesting, Position, RevisionId, Row, Summary, error_in_rows,
};
use std::sync::Arc;

/// What an execution takes in memory whatever its payloads.
const WEIGHT_MIN: usize = 2_048;
/// Readers of the tables see what is older than this.
pub(crate) const SEEN_AFTER_MS: i64 = 1_000;

/// An execution that runs here.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) execution: Execution,
    /// What is written with its first Turn, until that is decided.
    pub(crate) begun: Option<Box<Begun>>,
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
            begun: None,
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
            largest: Self::first_turn(begun.identity.input.len()),
        }
    }

    /// How much memory it takes, roughly: payloads are there as text and as values, and what is not sealed yet.
    pub(crate) fn weight(&self) -> u64 {
        (WEIGHT_MIN + 2 * self.largest + self.tail.bytes.capacity()) as u64
    }

    /// How much one takes that begins with an input of so many bytes.
    pub(crate) fn weight_of_new(input_bytes: usize) -> u64 {
        (WEIGHT_MIN + 2 * Self::first_turn(input_bytes)) as u64
    }

    /// The bytes of the first Turn. It says its input twice: what the execution was given, and what its first state receives.
    fn first_turn(input_bytes: usize) -> usize {
        2 * input_bytes
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
            held: false,
            redrives: self.execution.redrives(),
            redriven_at: self.execution.redriven_at(),
            version: self.execution.identity().version(),
            alias: self.execution.identity().alias().map(Into::into),
            labels: self.execution.identity().labels.clone(),
            root_key: self.execution.identity().root_key.clone(),
            error: self.execution.fault().error.as_deref().map(|error| error_in_rows(error).into()),
            child: self.child,
            content: None,
        }
    }

    /// It runs, and its row does not say so.
    pub(crate) fn is_unlisted(&self) -> bool {
        let is_told = matches!(self.told, Told::Asleep | Told::Awake);
        !is_told && self.turns > 0 && !self.execution.is_ended()
    }

    /// Its row has all of its Turns, and says that it sleeps or has ended.
    pub(crate) fn rests_on_row(&self) -> bool {
        self.base.is_none() && matches!(self.told, Told::Asleep | Told::Ended)
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
            labels: row.labels,
            root_key: row.root_key,
            error: row.error,
            child: row.child.map(|child| child.index),
            erased_at: None,
        })
    }

    /// What is stored of it in full; its tail is sealed into it when it is written.
    pub(crate) fn content(&self) -> Content {
        let needs_state = self.tail.first > 1 && !self.execution.is_ended();
        let state = needs_state
            .then(|| perdura_store::Snapshot { turn: self.turns, bytes: state_bytes(&self.execution) });
        Content {
            turns: self.turns,
            events: self.execution.last_event().0,
            state,
            tail_from: self.tail.first,
            tail: Vec::new(),
        }
    }
}

fn state_bytes(execution: &Execution) -> Vec<u8> {
    let mut bytes = Vec::new();
    execution.serialize(&mut serde_json::Serializer::new(&mut bytes)).expect("a state can be written");
    bytes
}
