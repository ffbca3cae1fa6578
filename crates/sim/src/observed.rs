//! The Turns that the store acknowledged, recorded at that moment: the truth that the checkers compare with.

use crate::dice::hash;
use perdura_engine::{EffectKey, Event, EventKind, ExecutionId, LedgerStatus, Note, Record, StrandId, Turn};
use perdura_store::record::{self, TurnBody};
use perdura_store::{Group, Incarnation, MachineId, Shard};
use std::collections::{BTreeMap, BTreeSet};

/// One life of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    pub(crate) process: usize,
    /// The number of its start.
    pub(crate) boot: u32,
}

/// A Turn that the store acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenTurn {
    pub(crate) hash: u64,
    pub(crate) commit: u64,
    /// The process that committed it.
    pub(crate) by: Life,
    pub(crate) at: i64,
}

/// The record of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenKey {
    /// How often each process recorded the call.
    pub(crate) ordered: BTreeMap<Life, u32>,
    /// The lines of control that completed it. One in another run of a Parallel or Map may call again under the key.
    completed_by: BTreeSet<StrandId>,
    /// When the Ledger said that it certainly failed.
    pub(crate) failed: Vec<i64>,
    /// The Ledger has said nothing else since.
    pub(crate) is_failed: bool,
    /// One of them recorded it again after that.
    pub(crate) ordered_after_completion: bool,
}

/// A machine, or without one all of them, is paused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) machine: Option<MachineId>,
    /// With all that runs.
    pub(crate) now: bool,
}

/// A pause until its end, with the executions that know of it.
#[derive(Debug)]
struct Holding {
    hold: Hold,
    known_by: BTreeSet<Life>,
    is_over: bool,
}

/// Of an execution, what a pause asks.
#[derive(Clone, Copy, Debug)]
struct Belongs {
    machine: MachineId,
    /// It is a child of a Map Run.
    is_child: bool,
    has_entered: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// By execution and number.
    pub(crate) turns: BTreeMap<(ExecutionId, u64), SeenTurn>,
    pub(crate) keys: BTreeMap<EffectKey, SeenKey>,
    /// How often a Parallel or Map was given up, to run again or because its error was caught.
    pub(crate) fans_dropped: u64,
    /// Executions that run according to their last Turn.
    running: BTreeSet<ExecutionId>,
    /// How often each line of control has scheduled a task.
    pub(crate) scheduled: BTreeMap<(ExecutionId, StrandId), u32>,
    /// The newest incarnation that wrote on each Shard.
    pub(crate) incarnations: BTreeMap<Shard, Incarnation>,
    /// Successful commits.
    pub(crate) commits: u64,
    /// Parts of long histories.
    pub(crate) segments: u64,
    /// Executions that left memory with a snapshot.
    pub(crate) snapshots: u64,
    /// Executions that fell asleep.
    pub(crate) sleepers: u64,
    /// Executions that ran on after the journal dropped their old Turns.
    pub(crate) taken_down: u64,
    /// Violations.
    pub(crate) complaints: Vec<String>,
    /// Executions that moved although they were paused.
    pub(crate) moved: Vec<String>,
    holds: Vec<Holding>,
    belongs: BTreeMap<ExecutionId, Belongs>,
}

impl Observed {
    /// Records a group that the store acknowledged.
    pub(crate) fn see(&mut self, group: &Group, by: Life, at: i64) {
        self.commits += 1;
        let by_now = group.lease.incarnation();
        for shard in group.lease.shards() {
            let newest = self.incarnations.entry(*shard).or_default();
            if by_now < *newest {
                self.complaints.push(format!(
                    "a commit of incarnation {by_now} on {shard} was taken after one of {newest}"
                ));
            }
            *newest = by_now.max(*newest);
        }
        self.segments += group.segments.len() as u64;
        for row in &group.rows {
            let Some(content) = &row.content else { continue };
            self.snapshots += u64::from(content.state.is_some());
            self.sleepers += u64::from(!row.awake && row.ended_at.is_none());
            self.taken_down += u64::from(row.awake);
        }
        if group.position.is_none() {
            return;
        }
        let (_, turns) = record::read_journal(&group.journal).expect("what is committed can be read");
        for (execution, turn) in turns {
            let seen = SeenTurn { hash: hash(&turn.body), commit: self.commits, by, at };
            let body = TurnBody::read(&turn.body).expect("what is committed can be read");
            if self.turns.insert((execution, turn.number), seen).is_some() {
                self.complaints.push(format!("Turn {} of {execution} was committed twice", turn.number));
            }
            if let Some(begun) = &body.begun {
                let (machine, is_child) = (begun.machine, begun.child.is_some());
                self.belongs.insert(execution, Belongs { machine, is_child, has_entered: false });
            }
            self.see_turn(execution, &body.turn, by, at);
        }
    }

    fn see_turn(&mut self, execution: ExecutionId, turn: &Turn, by: Life, at: i64) {
        for record in &turn.records {
            if let Record::Event(event) = record
                && !comes_of_an_answer(turn, event)
            {
                self.see_move(execution, &event.kind, by);
            }
            match record {
                Record::Note(Note::Ledger { strand, key, status }) => {
                    let seen = self.keys.entry(key.clone()).or_default();
                    seen.is_failed = *status == LedgerStatus::Failed;
                    match status {
                        LedgerStatus::Pending => order(seen, *strand, by),
                        LedgerStatus::Completed => {
                            seen.completed_by.insert(*strand);
                        }
                        LedgerStatus::Failed => seen.failed.push(at),
                        LedgerStatus::Uncertain => {}
                    }
                }
                Record::Note(Note::Repeated { strand, key }) => {
                    order(self.keys.entry(key.clone()).or_default(), *strand, by);
                }
                Record::Event(event) => match &event.kind {
                    EventKind::TaskScheduled(_) => {
                        *self.scheduled.entry((execution, event.strand)).or_default() += 1;
                    }
                    EventKind::ExecutionStarted { .. } => {
                        self.running.insert(execution);
                    }
                    EventKind::ExecutionRedriven { .. } => {
                        self.running.insert(execution);
                        // One that is redriven runs, also where it was stopped before its first state.
                        if let Some(belongs) = self.belongs.get_mut(&execution) {
                            belongs.has_entered = true;
                        }
                    }
                    EventKind::ExecutionSucceeded { .. }
                    | EventKind::ExecutionFailed(_)
                    | EventKind::ExecutionAborted(_)
                    | EventKind::ExecutionTimedOut(_) => {
                        self.running.remove(&execution);
                    }
                    _ => {}
                },
                Record::Note(Note::StrandsDropped { .. }) => self.fans_dropped += 1,
                Record::Note(_) => {}
            }
        }
    }

    /// An execution enters its first state, or carries one out.
    fn see_move(&mut self, execution: ExecutionId, kind: &EventKind, by: Life) {
        let Some(belongs) = self.belongs.get_mut(&execution) else { return };
        let enters = matches!(kind, EventKind::StateEntered { .. });
        let begins = enters && !std::mem::replace(&mut belongs.has_entered, true);
        let (machine, is_child) = (belongs.machine, belongs.is_child);
        let is_held = |holding: &&Holding| {
            let Hold { machine: held, now } = holding.hold;
            let moves = if now { begins || carries_out(kind) } else { begins && !is_child };
            let is_meant = held.is_none_or(|held| held == machine) && moves;
            is_meant && !holding.is_over && holding.known_by.contains(&by)
        };
        if let Some(holding) = self.holds.iter().find(is_held) {
            self.moved.push(format!("{execution} moved by {by:?}, under {:?}: {kind:?}", holding.hold));
        }
    }

    /// Something is paused from now on, by its number; a pause of the same before it is over.
    pub(crate) fn hold(&mut self, hold: Hold) -> usize {
        for holding in self.holds.iter_mut().filter(|holding| holding.hold.machine == hold.machine) {
            holding.is_over = true;
        }
        self.holds.push(Holding { hold, known_by: BTreeSet::new(), is_over: false });
        self.holds.len() - 1
    }

    /// This process was told, and has nothing on its way that it decided before.
    pub(crate) fn knows(&mut self, number: usize, life: Life) {
        self.holds[number].known_by.insert(life);
    }

    /// This process begins, and reads all that is paused.
    pub(crate) fn knows_all(&mut self, life: Life) {
        for holding in &mut self.holds {
            holding.known_by.insert(life);
        }
    }

    pub(crate) fn is_over(&self, number: usize) -> bool {
        self.holds[number].is_over
    }

    pub(crate) fn let_go(&mut self, number: usize) {
        self.holds[number].is_over = true;
    }

    /// Whether this execution's first Turn is on disk.
    pub(crate) fn has_begun(&self, execution: ExecutionId) -> bool {
        self.turns.contains_key(&(execution, 1))
    }

    /// Whether its last Turns on disk say that it runs.
    pub(crate) fn is_running(&self, execution: ExecutionId) -> bool {
        self.running.contains(&execution)
    }

    /// All executions that have begun.
    pub(crate) fn executions(&self) -> Vec<ExecutionId> {
        self.turns.keys().filter(|(_, number)| *number == 1).map(|(execution, _)| *execution).collect()
    }
}

fn order(seen: &mut SeenKey, strand: StrandId, by: Life) {
    *seen.ordered.entry(by).or_default() += 1;
    if seen.completed_by.contains(&strand) {
        seen.ordered_after_completion = true;
    }
}

/// Whether an event comes of a state that is carried out, and not of an answer or of time.
fn carries_out(kind: &EventKind) -> bool {
    use perdura_engine::StateType::{Choice, Pass, Succeed};
    match kind {
        EventKind::TaskScheduled(_) | EventKind::MapRunStarted { .. } => true,
        EventKind::StateExited { state_type, .. } => matches!(state_type, Pass | Choice | Succeed),
        _ => false,
    }
}

/// Whether a call that is put on record was answered before it was made, so that nobody makes it, or is made because a person
/// says so.
fn comes_of_an_answer(turn: &Turn, scheduled: &Event) -> bool {
    let answers = |record: &Record| match record {
        Record::Event(event) => {
            matches!(event.kind, EventKind::TaskSucceeded { .. }) && event.strand == scheduled.strand
        }
        Record::Note(note) => matches!(note, Note::Resolved { .. }),
    };
    matches!(scheduled.kind, EventKind::TaskScheduled(_)) && turn.records.iter().any(answers)
}

/// Whether an event ends a Wait.
pub(crate) fn ends_wait(kind: &EventKind) -> bool {
    matches!(kind, EventKind::StateExited { state_type: perdura_engine::StateType::Wait, .. })
}
