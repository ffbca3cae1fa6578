//! The records of one pass over an execution.

use crate::event::{Event, Fault};
use crate::id::{EffectKey, Round, Seq, StrandId, Timestamp};
use crate::kept::Kept;
use perdura_asl::json::Payload;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One decision, as it is committed: all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub records: Vec<Record>,
}

impl Turn {
    /// The records with numbers.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.records.iter().filter_map(|record| match record {
            Record::Event(event) => Some(event),
            Record::Note(_) => None,
        })
    }

    /// The records without numbers.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.records.iter().filter_map(|record| match record {
            Record::Note(note) => Some(note),
            Record::Event(_) => None,
        })
    }

    /// Why the input changed nothing, if it did not.
    pub fn ignored(&self) -> Option<&str> {
        self.notes().find_map(|note| match note {
            Note::Ignored { reason } => Some(&**reason),
            _ => None,
        })
    }
}

/// An Event, or something that Step Functions has no event for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// Numbered, and shown in the history.
    Event(Event),
    /// Not numbered, and not shown in the history.
    Note(Note),
}

/// Records of a Turn beside Events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// A Wait, or a pause before a retry.
    Resting {
        /// The resting strand.
        strand: StrandId,
        /// The end, by the steady clock unless `wall` is set.
        until: Timestamp,
        /// Present: it is a retry.
        retry: Option<Retry>,
        /// It waits for a timestamp, and so for the wall clock.
        #[serde(default, skip_serializing_if = "is_false")]
        wall: bool,
    },
    /// The pause before a retry is over.
    Woken {
        /// The strand that continues.
        strand: StrandId,
    },
    /// A call was repeated after its process was gone: under the same key, with the same bytes.
    Repeated {
        /// The calling strand.
        strand: StrandId,
        key: EffectKey,
    },
    /// The outcome of a call is unknown, and it may not be repeated: a person decides.
    Held {
        /// The strand of the held step.
        strand: StrandId,
        /// The key of the call.
        key: EffectKey,
        /// The fault of the call.
        fault: Fault,
        /// When; older records do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// A person resolved a call. Otherwise an [`Note::Ignored`] says why nothing changed.
    Resolved {
        /// The strand of the step.
        strand: StrandId,
        /// The key of the call.
        key: EffectKey,
        /// How it went.
        resolution: Resolved,
        /// The reason that the person gave.
        reason: Arc<str>,
        /// When; older records do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// A Parallel or an inline Map began to run (again).
    FanStarted {
        /// The strand of the state.
        strand: StrandId,
        /// How many branches or items.
        total: u32,
        /// How many at once.
        at_once: u32,
        /// The items of a Map; the common input of a Parallel.
        items: Payload,
    },
    /// A branch or an iteration began.
    StrandStarted {
        /// Its number.
        strand: StrandId,
        /// The strand around it.
        parent: StrandId,
        /// The index of the branch or item.
        index: u32,
        /// The event that its first one follows from.
        after: Seq,
        /// The input of its first state; absent: the common input of the Parallel's branches.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
    },
    /// A branch or an iteration succeeded.
    StrandEnded {
        /// Its number.
        strand: StrandId,
        output: Payload,
    },
    /// A branch or an iteration failed; the failure of the whole follows from its last event.
    StrandFailed {
        /// Its number.
        strand: StrandId,
        fault: Fault,
    },
    /// A Parallel or Map failed and will run again, but calls in it may have been performed and may not be repeated.
    /// They stay held, everything else in it is removed, and it runs again once they are resolved.
    FanWaits {
        /// The strand of the state.
        strand: StrandId,
        /// The fault that it failed with.
        fault: Fault,
    },
    /// A call that a Parallel or Map waits for was settled: its outcome is known, or it may be repeated.
    Settled {
        /// The strand of the call; it goes no further.
        strand: StrandId,
        /// The record for the next run.
        kept: Kept,
    },
    /// The remaining branches of a Parallel or Map were removed: its error was caught, or it starts again.
    StrandsDropped {
        /// The strand around them.
        parent: StrandId,
    },
    /// A mark for the Ledger. If a call has been answered or was given up, the record before this one is the strand's
    /// event about that, with its result or its fault; if the step is held, the one after is [`Note::Held`], and if a
    /// Parallel or Map waited for it, [`Note::Settled`]; if a success came late under a failed key, the one before is
    /// [`Note::LateOutcome`]; otherwise the call is no longer wanted, and there is no other record.
    Ledger {
        /// The strand of the call; absent: the machine's own.
        #[serde(default, skip_serializing_if = "StrandId::is_top")]
        strand: StrandId,
        key: EffectKey,
        /// The status of the key.
        status: LedgerStatus,
    },
    /// An outcome that no step waits for.
    LateOutcome {
        /// The strand that it addressed.
        strand: StrandId,
        /// The key, if it was given.
        key: Option<EffectKey>,
        /// Whether it was a success.
        succeeded: bool,
        /// The state of its step.
        #[serde(default, skip_serializing_if = "Lateness::is_unknown")]
        lateness: Lateness,
    },
    /// An input that changed nothing.
    Ignored { reason: Arc<str> },
    /// Its data was erased: the data of the records before this one is gone.
    Erased { at: Timestamp },
}

/// Values that are usually false are not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// The change by a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Which retrier of the state.
    pub retrier: u32,
    /// The round of the next attempt.
    pub round: Round,
}

/// A person's verdict on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolved {
    /// Performed.
    Completed,
    /// Certainly not performed.
    Failed,
    /// Call it again.
    Again,
}

/// The state of a step whose outcome came too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lateness {
    /// Its step is gone; the Ledger may know more of its key.
    #[default]
    Unknown,
    /// Its step has taken an answer under this key already.
    Duplicate,
    /// Its step was given up. If the outcome says "done", a person should know.
    GivenUp,
}

impl Lateness {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// The Ledger's status of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerStatus {
    /// On its way.
    Pending,
    /// Done.
    Completed,
    /// Certainly not done.
    Failed,
    /// Perhaps done.
    Uncertain,
}
