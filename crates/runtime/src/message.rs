//! What reaches a node, and what it answers.

use crate::audit::Witnessed;
use crate::fetch::{Fetched, Ticket};
use crate::naming::Start;
use crate::pause::Pause;
use crate::peers::{Request, Response};
pub use perdura_engine::MapRunChange;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{
    By, EffectKey, Execution, ExecutionId, Fault, Input, Lateness, Outcome, Status, TaskToken, Timestamp,
    Wake,
};
use perdura_store::audit::Origin;
use perdura_store::{After, Erased, Filter, MachineId, MachineRecord, MapRunRow, Shard, Summary, Swept};
use std::fmt;
use std::sync::{Arc, Weak};
use uuid::Uuid;

/// Who is told what came of it; called once, after the commit.
pub struct Reply<T> {
    tell: Box<dyn FnOnce(T) + Send>,
    /// Gone when nobody waits any more.
    wanted: Option<Weak<()>>,
    /// Who asked, where somebody did: the audit tells it.
    by: Option<Arc<Origin>>,
}

impl<T> Reply<T> {
    /// Calls this with the answer.
    pub fn new(tell: impl FnOnce(T) + Send + 'static) -> Self {
        Self { tell: Box::new(tell), wanted: None, by: None }
    }

    /// The same, for as long as somebody holds on to what is wanted.
    pub fn while_wanted(wanted: &Arc<()>, tell: impl FnOnce(T) + Send + 'static) -> Self {
        Self { tell: Box::new(tell), wanted: Some(Arc::downgrade(wanted)), by: None }
    }

    /// What it answers was asked for by this one.
    #[must_use]
    pub fn by(self, by: Option<Arc<Origin>>) -> Self {
        Self { by, ..self }
    }

    /// Who asked for what it answers.
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.by.as_ref()
    }

    /// Whether somebody still waits for it.
    pub fn is_wanted(&self) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.strong_count() > 0)
    }

    /// One that is told something else, which is put into the answer.
    pub(crate) fn of<U>(self, answer: impl FnOnce(U) -> T + Send + 'static) -> Reply<U>
    where
        T: 'static,
    {
        let Self { tell, wanted, by } = self;
        Reply { tell: Box::new(move |told| tell(answer(told))), wanted, by }
    }

    /// Answers.
    pub fn send(self, answer: T) {
        (self.tell)(answer);
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reply")
    }
}

/// Everything that comes in.
#[derive(Debug)]
pub enum Message {
    /// A new execution.
    Start {
        /// Of what, with what.
        start: Box<Start>,
        /// Told once it is on disk.
        reply: Reply<Result<Started, StartError>>,
        /// Told when it has ended.
        ending: Option<Reply<Result<Ending, InputError>>>,
    },
    /// Something for one execution.
    Input {
        execution: ExecutionId,
        input: Input,
        /// Told once it is on disk.
        reply: Reply<Result<Taken, InputError>>,
    },
    /// What came of a call.
    Answer { execution: ExecutionId, by: By, outcome: Outcome },
    /// Somebody waits for an execution's end.
    Watch {
        execution: ExecutionId,
        /// Told when it has ended, at once if it has.
        reply: Reply<Result<Ending, InputError>>,
    },
    /// A worker asks for a task.
    Poll {
        activity: Arc<str>,
        /// The worker's name.
        worker: Option<Arc<str>>,
        /// Told once it is on disk that the worker has it.
        reply: Reply<Result<ActivityTask, Unavailable>>,
    },
    /// An activity was deleted, or made again; that is on disk.
    Activity { name: Arc<str>, deleted: bool },
    /// A machine, or without one all of them, is paused or resumed; that is on disk.
    Pace {
        machine: Option<MachineId>,
        /// `None`: it is resumed.
        pause: Option<Pause>,
        /// Told when nothing that was decided before is still on its way to disk.
        reply: Reply<()>,
    },
    /// Somebody wants to know what is under way.
    Underway {
        /// How many calls are shown.
        most: usize,
        reply: Reply<Underway>,
    },
    /// Somebody wants to see an execution as it was last committed; `None`: it is not in memory.
    Show {
        execution: ExecutionId,
        /// Told at its next rest.
        reply: Reply<Option<Box<View>>>,
    },
    /// Somebody knows the name of an execution that is in memory.
    Named {
        machine: MachineId,
        name: Arc<str>,
        /// Told who that is.
        reply: Reply<Option<ExecutionId>>,
    },
    /// Somebody asks for the executions that no reader sees yet.
    Young {
        /// As a list would show them.
        filter: Filter,
        /// Only those that come after this one in a list.
        after: After,
        /// How many at most.
        most: usize,
        /// Told which there are.
        reply: Reply<Young>,
    },
    /// Somebody asks how many executions no reader sees yet.
    Unlisted {
        /// Told how many.
        reply: Reply<u64>,
    },
    /// Somebody asks for a Map Run as it stands; `None`: it is not in memory.
    MapRun {
        run: Uuid,
        /// Told how it stands.
        reply: Reply<Option<Box<MapRunRow>>>,
    },
    /// Somebody asks for the Map Runs of an execution that are in memory.
    MapRuns {
        execution: ExecutionId,
        /// Told how they stand.
        reply: Reply<Vec<MapRunRow>>,
    },
    /// Somebody changes the bounds of a Map Run.
    Adjust {
        run: Uuid,
        /// What about them.
        change: MapRunChange,
        /// Told once it is on disk.
        reply: Reply<Result<(), AdjustError>>,
    },
    /// A definition was stored.
    Deployed {
        record: MachineRecord,
        /// Read.
        machine: Arc<Machine>,
    },
    /// A person gives an execution up that was set aside.
    GiveUp {
        execution: ExecutionId,
        /// Told once nothing of it is left; `false`: it is not set aside, and stays.
        reply: Reply<Result<bool, InputError>>,
    },
    /// Executions that were seen to have ended are to lose their data, unless one of them is in memory here.
    Erase {
        /// Each with the end that was seen of it.
        ended: Vec<(ExecutionId, Timestamp)>,
        /// Told once nothing of it is stored.
        reply: Reply<Result<Erased, InputError>>,
    },
    /// What was seen to be old is to be taken away, unless it is in memory here.
    Sweep {
        /// What was seen.
        slice: Slice,
        /// Told what went.
        reply: Reply<Result<Swept, Unavailable>>,
    },
    /// Something is to be on the audit by itself.
    Witness(Witnessed),
    /// What another node asks for, because the Shard is held here, or was.
    Passed {
        request: Request,
        /// Told once it is on disk.
        reply: Reply<Response>,
    },
    /// What a Map Run asked for.
    Fetched {
        /// Who asked.
        ticket: Ticket,
        /// What came of it.
        fetched: Box<Fetched>,
    },
}

/// A slice of what is to be taken away.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Executions, each with the end that was seen of it.
    pub going: Vec<(ExecutionId, Timestamp)>,
    /// Rows of the ledger whose execution ended before this go too.
    pub ledger_before: Timestamp,
    /// How many of them at most.
    pub ledger_most: u32,
}

/// An execution that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub execution: ExecutionId,
    pub arn: Arc<str>,
    /// When it began.
    pub at: Timestamp,
    /// It began now; otherwise it ran already under this name with this input.
    pub fresh: bool,
}

/// Why nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The name is taken, by one with another input or other labels, or one that has ended.
    #[error("an execution with this name exists already: {0}")]
    Exists(ExecutionId),
    /// There is no such definition.
    #[error("there is no such machine")]
    NoMachine,
    /// As many run as may.
    #[error("{0} executions run, and no more may")]
    TooMany(u64),
    /// Its end is waited for, and it would not begin.
    #[error("the machine is paused")]
    Paused,
    /// The node cannot write. Nothing was started, or nobody knows: start again with the same name.
    #[error("{0}")]
    Unavailable(Unavailable),
}

/// The node cannot take Turns at the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The store failed; the node tries to open it again.
    #[error("the store cannot be written: {0}")]
    Store(Arc<str>),
    /// It shuts down.
    #[error("perdura is shutting down")]
    Closing,
    /// There is no room in memory for one more. Nothing was started; try again later.
    #[error("there is no room in memory now: what runs has to end or fall asleep first")]
    Full,
    /// Another node holds this Shard, and has to be asked.
    #[error("another node holds {0}")]
    Elsewhere(Shard),
}

/// What came of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Why it changed nothing, if it did not.
    pub ignored: Option<Arc<str>>,
    /// It was an outcome that nobody waited for.
    pub late: Option<Lateness>,
    /// The Turn that it is on record in; `None`: it left nothing to remember.
    pub turn: Option<u64>,
    /// The execution's status after it.
    pub status: Status,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// When the execution was last redriven; for a redrive under a token that was used before, when that was.
    pub redriven_at: Option<Timestamp>,
}

/// Why a Map Run was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdjustError {
    /// There is no such Map Run.
    #[error("there is no such Map Run")]
    Unknown,
    /// It has ended.
    #[error("the Map Run has ended")]
    Ended,
    /// The node cannot write, or nobody knows whether it did: ask again.
    #[error("{0}")]
    Unavailable(Unavailable),
}

/// Executions in memory that have no row yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Young {
    /// As a list would show them.
    pub seen: Vec<Summary>,
    /// Those that are being committed: how they stand is known after that.
    pub busy: Vec<ExecutionId>,
}

/// What is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Underway {
    /// How many calls this process makes.
    pub calls: usize,
    /// Some of them.
    pub shown: Vec<(ExecutionId, EffectKey)>,
    /// How many executions move, or are about to.
    pub moving: usize,
}

impl Underway {
    /// Nothing is: the process can end without cutting anything off.
    pub fn is_nothing(&self) -> bool {
        self.calls == 0 && self.moving == 0
    }
}

/// A task that a worker has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityTask {
    /// To be returned with the answer.
    pub token: TaskToken,
    /// Under which key its effect is to be made.
    pub key: EffectKey,
    pub input: Payload,
}

/// Why a worker's answer, or its sign of life, was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No execution has such a task.
    #[error("there is no task with this token")]
    Unknown,
    /// The task has ended, by another answer, by time or with its execution. A late answer is on record.
    #[error("nobody waits for this task any more")]
    TimedOut,
    /// The execution cannot take it.
    #[error("{0}")]
    NotTaken(InputError),
}

/// Why an input was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// There is no such execution.
    #[error("there is no such execution")]
    Unknown,
    /// It was set aside: something in it is broken.
    #[error("the execution is parked: {0}")]
    Parked(Arc<str>),
    /// It would run again, and as many run as may.
    #[error("{0} executions run, and no more may")]
    TooMany(u64),
    /// The node cannot write.
    #[error("{0}")]
    Unavailable(Unavailable),
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// Well or not.
    pub status: Status,
    pub output: Option<Payload>,
    /// Error and cause.
    pub fault: Fault,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// An execution as it was last committed.
#[derive(Clone, Debug)]
pub struct View {
    pub execution: Execution,
    /// How many Turns it has had.
    pub turns: u64,
    /// Calls that this process is making.
    pub live: Vec<EffectKey>,
    /// When it wants to be woken.
    pub wake: Wake,
    /// Why it was set aside.
    pub parked: Option<Arc<str>>,
    /// As a list would show it; `None`: lists show it already, or it is a child of a Map Run.
    pub young: Option<Summary>,
}

impl Ending {
    /// Of an execution that has ended.
    pub fn of(execution: &Execution) -> Option<Self> {
        Some(Self {
            status: execution.status(),
            output: execution.output().cloned(),
            fault: execution.fault().clone(),
            started_at: execution.started_at(),
            ended_at: execution.ended_at()?,
        })
    }
}
