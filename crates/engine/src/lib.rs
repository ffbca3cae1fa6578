//! Executions as pure functions.
//!
//! Everything that happens to an [`Execution`] is an [`Input`]. [`decide`] returns what follows: a [`Turn`] of records
//! to commit, and the [`Effect`]s that may leave after the commit. No clock, no randomness, no IO: the [`Moment`] has
//! the only time and the only entropy. The state of an Execution is the fold of its Turns.

mod answered;
mod apply;
mod arn;
mod context;
mod deadlines;
mod decide;
mod destination;
mod draft;
mod effect;
pub mod erase;
mod event;
mod execution;
mod history;
mod id;
mod identity;
mod input;
mod kept;
mod labels;
mod map_run;
mod mark;
pub mod nested;
pub mod reach;
mod strand;
mod test_state;
mod trial;
mod turn;
mod validate;

pub use answered::Answered;
pub use arn::{Arn, ArnError, Arns, NAME_MAX, Named, is_allowed_in_name, is_name};
pub use decide::{Decision, LiveCall, decide, decide_before_calls, decide_paused, resume_beside};
pub use destination::{Destinations, Policy, Uncertain};
pub use effect::{BatcherOrder, Call, Effect, MapRunOrder, ReaderOrder, WriterOrder};
pub use event::{Event, EventKind, Fault, Iteration, Scheduled, StateType, TaskFamily};
pub use execution::{Execution, NotRedrivable, Status};
pub use id::{
    Attempt, EffectKey, ExecutionId, Moment, Round, Secret, Seq, Shard, StepPlace, StrandId, TaskToken,
    Timestamp, Wake,
};
pub use identity::{Identity, KEPT_BYTES_MAX, Limits, STATE_WORK_MAX, TURN_WORK_MAX};
pub use input::{By, Certainty, Input, Outcome, Resolution};
pub use kept::Kept;
pub use labels::{LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, LabelError, Labels};
pub use map_run::{
    Child, Known, MapRun, MapRunBounds, MapRunChange, MapRunCommand, MapRunCounts, MapRunEnd, MapRunEvent,
    MapRunFigures, MapRunLife, MapRunMove, MapRunOutcome, MapRunPlace, MapRunRecalled, Next, OrderedMapRun,
    Tally,
};
pub use mark::{Mark, Said};
pub use perdura_asl as asl;
pub use strand::{Clock, MapRunId, Run, Sent, Standing, Step, Strand};
pub use test_state::{
    Calling, Configuration, Exchange, InspectionLevel, Mock, Prepared, Refused, Strictness, TestState,
    TestStatus, Variables, Verdict,
};
pub use turn::{Lateness, LedgerStatus, Note, Record, Resolved, Retry, Turn};
pub use validate::{Complaint, Validating, Validation, invalid_definition, validate};
