//! What one pass over an execution records.

use crate::event::{Event, Fault};
use crate::id::{EffectKey, Round, Seq, StrandId, Timestamp};
use crate::kept::Kept;
use perdura_asl::json::Payload;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One decision, as it is committed: all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// In the order in which they happened.
    pub records: Vec<Record>,
}

impl Turn {
    /// The numbered ones.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.records.iter().filter_map(|record| match record {
            Record::Event(event) => Some(event),
            Record::Note(_) => None,
        })
    }

    /// The others.
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

/// An Event, or what Step Functions has no word for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// Numbered, and shown in the history.
    Event(Event),
    /// Neither.
    Note(Note),
}

/// What a Turn records beside Events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// A Wait, or a pause before a retry.
    Resting {
        /// Who rests.
        strand: StrandId,
        /// Until when, by the steady clock unless `wall` is set.
        until: Timestamp,
        /// Present: it is a retry.
        retry: Option<Retry>,
        /// It waits for a timestamp, and so for the wall clock.
        #[serde(default, skip_serializing_if = "is_false")]
        wall: bool,
    },
    /// The pause before a retry is over.
    Woken {
        /// Who goes on.
        strand: StrandId,
    },
    /// A call was made again after its process was gone: under the same key, with the same bytes.
    Repeated {
        /// Who calls.
        strand: StrandId,
        key: EffectKey,
    },
    /// Nobody knows whether a call was performed, and it may not be repeated: a person decides.
    Held {
        /// Whose step is held.
        strand: StrandId,
        /// Under which key it was called.
        key: EffectKey,
        /// What happened to the call.
        fault: Fault,
        /// When; older records do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// A person said how a call went. Where this is missing, an [`Note::Ignored`] says why it changed nothing.
    Resolved {
        /// Whose step it was.
        strand: StrandId,
        /// Under which key it was called.
        key: EffectKey,
        /// How it went.
        resolution: Resolved,
        /// How they know.
        reason: Arc<str>,
        /// When; older records do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// A Parallel or an inline Map began to run (again).
    FanStarted {
        /// Whose state it is.
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
        /// Whose branch it is.
        parent: StrandId,
        /// Which branch or item.
        index: u32,
        /// The event from which its first one follows.
        after: Seq,
        /// What its first state receives; absent: what all branches of the Parallel receive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
    },
    /// A branch or an iteration ended well.
    StrandEnded {
        /// Its number.
        strand: StrandId,
        output: Payload,
    },
    /// A branch or an iteration failed; its last event is what the failure of the whole follows from.
    StrandFailed {
        /// Its number.
        strand: StrandId,
        fault: Fault,
    },
    /// A Parallel or Map failed and is to be run again, but calls in it may have been performed and may not be repeated.
    /// They stay held, all else that it had running is gone, and it is run again once they are resolved.
    FanWaits {
        /// Whose state it is.
        strand: StrandId,
        /// With what it failed.
        fault: Fault,
    },
    /// It is known of a call that a Parallel or Map waits for how it went, or that it may be repeated.
    Settled {
        /// Whose call it was; it goes no further.
        strand: StrandId,
        /// What the next run is to know of it.
        kept: Kept,
    },
    /// What a Parallel or Map still had running is gone: its error was caught, or it starts again.
    StrandsDropped {
        /// Whose branches they were.
        parent: StrandId,
    },
    /// A mark for the Ledger. Where a call has been answered or was given up, the record before this one is the
    /// strand's event that says so, with its result or its fault; where the step is held, the one after is
    /// [`Note::Held`], and where a Parallel or Map waited for it, [`Note::Settled`]; where a success came late under a
    /// key that had failed, the one before is [`Note::LateOutcome`]; otherwise nobody waits for the call any more, and
    /// there is nothing to say.
    Ledger {
        /// Whose call it is; absent: the machine's own.
        #[serde(default, skip_serializing_if = "StrandId::is_top")]
        strand: StrandId,
        key: EffectKey,
        /// What is known of it.
        status: LedgerStatus,
    },
    /// An outcome that nobody waits for.
    LateOutcome {
        /// The strand it was for.
        strand: StrandId,
        /// The key, where it was told.
        key: Option<EffectKey>,
        /// Whether it was a success.
        succeeded: bool,
        /// What is known of its step.
        #[serde(default, skip_serializing_if = "Lateness::is_unknown")]
        lateness: Lateness,
    },
    /// An input that changed nothing.
    Ignored { reason: Arc<str> },
    /// Its data was erased: what the records before this one were given and gave is gone.
    Erased { at: Timestamp },
}

/// What is mostly not so is not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a retry changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Which retrier of the state.
    pub retrier: u32,
    /// The round of the next attempt.
    pub round: Round,
}

/// How a person said that a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolved {
    /// Performed.
    Completed,
    /// Certainly not performed.
    Failed,
    /// To be called again.
    Again,
}

/// What is known of the step whose outcome came too late.
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

/// What is known of what was done under a key.
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
