//! The progress of a run for people: a pure fold of the records of Turns.
//!
//! It gives sentences about new events, and a picture of the current state (see [`super::tree`]). A Map of many items
//! shows counts, not single items.

use perdura_engine::asl::error::TIMEOUT;
use perdura_engine::{Event, EventKind, Fault, Note, Record, StateType, Status, StrandId, Timestamp, Turn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An execution of this process: the one that was started, or a child in a Distributed Map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExecutionNo(pub(crate) u32);

impl ExecutionNo {
    /// The one that was started.
    pub(crate) const TOP: Self = Self(0);
}

/// A line of control of an execution.
pub(super) type At = (ExecutionNo, StrandId);

/// A Map of more items than this shows counts.
const TOLD_MAX: u64 = 100;

/// All active lines of control.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(super) strands: BTreeMap<At, Strand>,
}

/// One of them.
#[derive(Debug, Default)]
pub(super) struct Strand {
    pub(super) parent: Option<At>,
    pub(super) index: u32,
    /// The number of its parent's items that it covers.
    items: u64,
    /// Its place in Map and Parallel, `[3]`, as keys have it.
    place: String,
    /// It is one of too many, and shows no lines.
    hushed: bool,
    pub(super) state: Option<Arc<str>>,
    pub(super) doing: Doing,
    pub(super) tries: u64,
    /// Why the current try failed, until the failure is handled.
    pub(super) fault: Option<Fault>,
    pub(super) fan: Fan,
}

/// Its current activity.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Doing {
    #[default]
    Passing,
    Calling {
        since: Timestamp,
    },
    Waiting {
        until: Timestamp,
    },
    Retrying {
        until: Timestamp,
    },
    Fanning,
    Failed,
}

/// The counts of a state's branches or items.
#[derive(Debug, Default)]
pub(super) struct Fan {
    pub(super) total: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
    /// How many tenths were reported.
    tenths: u64,
}

/// A line to show.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) at: Timestamp,
    /// The state, with its place.
    pub(crate) whose: String,
    pub(crate) what: What,
}

/// The event.
#[derive(Debug, PartialEq)]
pub(crate) enum What {
    Entered,
    Waits { until: Timestamp },
    Retries { tries: u64, until: Timestamp, fault: Option<Fault> },
    Succeeded,
    Caught(Fault),
    Failed(Fault),
    Counted { total: u64, done: u64, failed: u64 },
}

impl Strand {
    fn whose(&self) -> String {
        format!("{}{}", self.state.as_deref().unwrap_or_default(), self.place)
    }

    /// Whether its branches or items are only counted.
    fn hushes(&self) -> bool {
        self.hushed || self.fan.total > TOLD_MAX
    }
}

impl Story {
    /// A child of a Distributed Map begins.
    pub(super) fn begin_child(&mut self, child: ExecutionNo, parent: At, index: u32, items: u32) {
        let strand = self.branch(parent, index, u64::from(items));
        self.strands.insert((child, StrandId::TOP), strand);
    }

    /// Removes an execution.
    pub(super) fn drop_execution(&mut self, number: ExecutionNo) {
        let all = (number, StrandId(0))..=(number, StrandId(u32::MAX));
        drop(self.strands.extract_if(all, |_, _| true).collect::<Vec<_>>());
    }

    fn branch(&self, parent: At, index: u32, items: u64) -> Strand {
        let around = self.strands.get(&parent);
        Strand {
            parent: Some(parent),
            index,
            items,
            place: format!("{}[{index}]", around.map_or("", |around| &around.place)),
            hushed: around.is_some_and(Strand::hushes),
            ..Strand::default()
        }
    }

    /// Applies a Turn, and returns its lines.
    pub(crate) fn take(&mut self, number: ExecutionNo, turn: &Turn, now: Timestamp) -> Vec<Told> {
        let mut told = Vec::new();
        for record in &turn.records {
            let said = match record {
                Record::Event(event) => self.event(number, event),
                Record::Note(note) => self.note(number, note),
            };
            told.extend(said.map(|(whose, what)| Told { at: now, whose, what }));
        }
        told
    }

    fn event(&mut self, number: ExecutionNo, event: &Event) -> Option<(String, What)> {
        let at = (number, event.strand);
        match &event.kind {
            EventKind::ExecutionStarted { .. } => {
                self.strands.entry(at).or_default();
                return None;
            }
            EventKind::ExecutionSucceeded { .. } => {
                return self.execution_ended(number, Status::Succeeded, None);
            }
            EventKind::ExecutionFailed(fault) => {
                return self.execution_ended(number, Status::Failed, Some(fault));
            }
            EventKind::ExecutionAborted(fault) => {
                return self.execution_ended(number, Status::Aborted, Some(fault));
            }
            EventKind::ExecutionTimedOut(fault) => {
                return self.execution_ended(number, Status::TimedOut, Some(fault));
            }
            _ => {}
        }
        let strand = self.strands.get_mut(&at)?;
        let what = match &event.kind {
            EventKind::StateEntered { name, .. } => {
                strand.state = Some(name.clone());
                (strand.doing, strand.tries, strand.fault) = (Doing::Passing, 0, None);
                strand.fan = Fan::default();
                What::Entered
            }
            EventKind::TaskScheduled(_) => {
                (strand.doing, strand.fault) = (Doing::Calling { since: event.at }, None);
                return None;
            }
            EventKind::TaskFailed { fault, .. }
            | EventKind::TaskSubmitFailed { fault, .. }
            | EventKind::TaskTimedOut { fault, .. }
            | EventKind::TaskNotStarted { fault, .. }
            | EventKind::EvaluationFailed { fault, .. }
            | EventKind::MapRunFailed(fault) => {
                strand.fault = Some(fault.clone());
                return None;
            }
            // Failures of its parts were tolerated.
            EventKind::StateSucceeded { .. } | EventKind::MapRunSucceeded => {
                strand.fault = None;
                return None;
            }
            EventKind::MapStateStarted { length } => {
                (strand.doing, strand.fault) = (Doing::Fanning, None);
                strand.fan = Fan { total: *length, ..Fan::default() };
                return None;
            }
            EventKind::StateExited { state_type, .. } => match (strand.fault.take(), state_type) {
                (Some(fault), _) => What::Caught(fault),
                (None, StateType::Task | StateType::Wait | StateType::Parallel | StateType::Map) => {
                    What::Succeeded
                }
                (None, StateType::Pass | StateType::Choice | StateType::Succeed | StateType::Fail) => {
                    return None;
                }
            },
            _ => return None,
        };
        (!strand.hushed).then(|| (strand.whose(), what))
    }

    fn note(&mut self, number: ExecutionNo, note: &Note) -> Option<(String, What)> {
        match note {
            Note::Resting { strand, until, retry, wall: _ } => {
                let strand = self.strands.get_mut(&(number, *strand))?;
                let until = *until;
                let what = if retry.is_some() {
                    strand.tries += 1;
                    strand.doing = Doing::Retrying { until };
                    What::Retries {
                        tries: strand.tries,
                        until,
                        fault: strand.fault.clone().filter(|fault| *fault != Fault::default()),
                    }
                } else {
                    strand.doing = Doing::Waiting { until };
                    What::Waits { until }
                };
                (!strand.hushed).then(|| (strand.whose(), what))
            }
            Note::Woken { strand } => {
                self.strands.get_mut(&(number, *strand))?.doing = Doing::Passing;
                None
            }
            Note::FanStarted { strand, total, .. } => {
                let strand = self.strands.get_mut(&(number, *strand))?;
                (strand.doing, strand.fault) = (Doing::Fanning, None);
                strand.fan = Fan { total: u64::from(*total), ..Fan::default() };
                None
            }
            Note::StrandStarted { strand, parent, index, .. } => {
                let branch = self.branch((number, *parent), *index, 1);
                self.strands.insert((number, *strand), branch);
                None
            }
            Note::StrandEnded { strand, .. } => {
                let ended = self.strands.remove(&(number, *strand))?;
                self.count(ended.parent?, ended.items, None)
            }
            Note::StrandFailed { strand, fault } => {
                // It stays until its parent drops it, with its own branches.
                let failed = self.strands.get_mut(&(number, *strand))?;
                failed.doing = Doing::Failed;
                failed.fault = Some(fault.clone());
                let said = (!failed.hushed).then(|| (failed.whose(), What::Failed(fault.clone())));
                let (parent, items) = (failed.parent?, failed.items);
                let counted = self.count(parent, items, Some(fault));
                said.or(counted)
            }
            Note::StrandsDropped { parent } => {
                self.drop_branches((number, *parent));
                None
            }
            Note::Repeated { .. }
            | Note::Held { .. }
            | Note::FanWaits { .. }
            | Note::Settled { .. }
            | Note::Resolved { .. }
            | Note::Ledger { .. }
            | Note::LateOutcome { .. }
            | Note::Ignored { .. }
            | Note::Erased { .. } => None,
        }
    }

    fn drop_branches(&mut self, parent: At) {
        let mut open = vec![parent];
        while let Some(parent) = open.pop() {
            let all = (parent.0, StrandId(0))..=(parent.0, StrandId(u32::MAX));
            let branches = self.strands.extract_if(all, |_, strand| strand.parent == Some(parent));
            open.extend(branches.map(|(at, _)| at));
        }
    }

    /// A branch or an item has ended; many are reported by tenths.
    fn count(&mut self, parent: At, items: u64, fault: Option<&Fault>) -> Option<(String, What)> {
        let parent = self.strands.get_mut(&parent)?;
        match fault {
            None => parent.fan.done += items,
            Some(fault) => {
                parent.fan.failed += items;
                parent.fault = Some(fault.clone());
            }
        }
        let Fan { total, done, failed, tenths } = parent.fan;
        let now = (done + failed) * 10 / total.max(1);
        if total <= TOLD_MAX || parent.hushed || now == tenths {
            return None;
        }
        parent.fan.tenths = now;
        Some((parent.whose(), What::Counted { total, done, failed }))
    }

    fn execution_ended(
        &mut self,
        number: ExecutionNo,
        status: Status,
        fault: Option<&Fault>,
    ) -> Option<(String, What)> {
        let ended = self.strands.remove(&(number, StrandId::TOP));
        self.drop_execution(number);
        let ended = ended?;
        let counted = ended.parent.and_then(|parent| self.count(parent, ended.items, fault));
        let has_failed = matches!(status, Status::Failed | Status::TimedOut);
        if !has_failed || ended.hushed {
            return counted;
        }
        let fault = match (status, ended.parent) {
            (Status::TimedOut, _) => Fault::named(TIMEOUT),
            // The caller reports why the whole failed.
            (_, None) => Fault::default(),
            (_, Some(_)) => fault.cloned().unwrap_or_default(),
        };
        Some((ended.whose(), What::Failed(fault)))
    }
}

#[cfg(test)]
mod tests;
