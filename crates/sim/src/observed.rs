//! The Turns that the store acknowledged, recorded at that moment: the truth that the checkers compare with.

use crate::dice::hash;
use perdura_engine::{EffectKey, EventKind, ExecutionId, LedgerStatus, Note, Record, StrandId, Turn};
use perdura_store::record::{self, TurnBody};
use perdura_store::{Group, Incarnation, Shard};
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

/// All of it.
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
    /// What should not have happened.
    pub(crate) complaints: Vec<String>,
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
            self.see_turn(execution, &body.turn, by, at);
        }
    }

    fn see_turn(&mut self, execution: ExecutionId, turn: &Turn, by: Life, at: i64) {
        for record in &turn.records {
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
                    EventKind::ExecutionStarted { .. } | EventKind::ExecutionRedriven { .. } => {
                        self.running.insert(execution);
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

    /// Whether this execution's beginning is on disk.
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

/// Whether an event ends a Wait.
pub(crate) fn ends_wait(kind: &EventKind) -> bool {
    matches!(kind, EventKind::StateExited { state_type: perdura_engine::StateType::Wait, .. })
}
