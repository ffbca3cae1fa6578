//! What a node does of its own accord or for somebody, one thing after the other; what has to be read first waits.
//!
//! An errand looks at memory, then at what was just read, and otherwise asks and waits. So it runs once more with the
//! answer, from its beginning, and finds what has happened meanwhile.

use super::ReplyTo;
use super::asked::Questions;
use super::children::{ChildOrder, ParentStep};
use super::map_run::Redrive;
use super::shared::Mail;
use super::start::Starting;
use crate::librarian::{Ask, Missing, Stored, Subject, Told};
use crate::message::{AdjustError, Ending, InputError, MapRunChange, Reply, Slice, StartError, Unavailable};
use perdura_engine::{EffectKey, ExecutionId, Input, Outcome};
use perdura_store::{Failure, MapRunRow, Swept};
use std::collections::VecDeque;
use uuid::Uuid;

/// Something to do, now or as soon as what it needs is read.
pub(super) enum Errand {
    /// An execution to start.
    Start(Box<Starting>),
    /// Something for an execution.
    Input { execution: ExecutionId, input: Input, reply: ReplyTo },
    /// Somebody who waits for an execution's end.
    Watch { execution: ExecutionId, reply: Reply<Result<Ending, InputError>> },
    /// A person gives up one that was set aside.
    GiveUp { execution: ExecutionId, reply: Reply<Result<bool, InputError>> },
    /// What has ended is to be taken away.
    Sweep { slice: Slice, reply: Reply<Result<Swept, Unavailable>> },
    /// A sleeper of an earlier process.
    Resume(ExecutionId),
    /// A sleeper that was held.
    Release(ExecutionId),
    /// A child to start.
    Child(Box<ChildOrder>),
    /// The end of a child to wait for.
    Await(Box<ParentStep>),
    /// The same, of a child that is known.
    AwaitEnd { step: Box<ParentStep>, child: ExecutionId },
    /// The end of a child that another node holds.
    LookElsewhere { step: Box<ParentStep>, child: ExecutionId },
    /// A child has ended: its step is told, unless it was told already.
    Ended { step: Box<ParentStep>, outcome: Box<Outcome> },
    /// A child of an earlier process: does its step wait for it?
    Parent { child: ExecutionId, key: EffectKey },
    /// A child of a Map Run that is to run again.
    Redrive(Redrive),
    /// A child of a Map Run that is to be stopped.
    StopChild { run: Uuid, child: ExecutionId },
    /// Somebody who asks how a Map Run stands.
    ShowRun { run: Uuid, reply: Reply<Option<Box<MapRunRow>>> },
    /// Somebody who changes the bounds of a Map Run.
    AdjustRun { run: Uuid, change: MapRunChange, reply: Reply<Result<(), AdjustError>> },
    /// A Map Run comes to its end as soon as whoever waits for it is in memory.
    Finish { run: Uuid, parent: ExecutionId },
}

/// What is to be done here, and what waits for an answer.
pub(super) struct Errands {
    next: VecDeque<Errand>,
    /// What cannot be told here now, and is looked at again in a while.
    put_off: Vec<Errand>,
    pub(super) asked: Questions,
    pub(super) mail: Mail,
}

impl Errands {
    pub(super) fn numbered_from(number: u128) -> Self {
        let (next, put_off) = (VecDeque::new(), Vec::new());
        Self { next, put_off, asked: Questions::numbered_from(number), mail: Mail::default() }
    }

    pub(super) fn push(&mut self, errand: Errand) {
        self.next.push_back(errand);
    }

    pub(super) fn extend(&mut self, errands: impl IntoIterator<Item = Errand>) {
        self.next.extend(errands);
    }

    /// Nothing is known now that this needs: it is looked at again in a while.
    pub(super) fn put_off(&mut self, errand: Errand) {
        self.put_off.push(errand);
    }

    pub(super) fn pop(&mut self) -> Option<Errand> {
        self.next.pop_front()
    }

    /// Asks, unless that is asked already; an errand waits for the answer.
    pub(super) fn ask(&mut self, ask: Ask, errand: Option<Errand>) {
        self.asked.ask(ask, errand);
    }

    /// An errand waits until this execution is read.
    pub(super) fn wait_for(&mut self, execution: ExecutionId, errand: Errand) {
        self.ask(Ask::Execution(execution), Some(errand));
    }

    /// A while is over.
    pub(super) fn look_again(&mut self) {
        self.asked.ask_again();
        self.next.extend(self.put_off.drain(..));
    }

    /// How many are to be done at once.
    pub(super) fn len(&self) -> usize {
        self.next.len()
    }

    /// Nothing is to be done at once.
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    pub(super) fn are_put_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    pub(super) fn into_all(self) -> impl Iterator<Item = Errand> {
        self.next.into_iter().chain(self.put_off).chain(self.asked.into_errands())
    }
}

/// What was just read, and about what.
pub(super) struct Heard {
    pub(super) subject: Subject,
    pub(super) told: Told,
}

/// What an errand was told, if it waited for something.
pub(super) type Hearing = Option<Heard>;

/// Why an execution is not in memory.
pub(super) enum Absent {
    /// It has to be asked for.
    Unread,
    /// It will not be.
    Not(InputError),
}

impl Heard {
    /// How this execution is stored.
    pub(super) fn stored(&self, id: ExecutionId) -> Option<&Stored> {
        match (&self.subject, &self.told) {
            (Subject::Execution(of), Told::Execution(stored)) if *of == id => Some(stored),
            _ => None,
        }
    }

    pub(super) fn told(&self, subject: &Subject) -> Option<&Told> {
        (self.subject == *subject).then_some(&self.told)
    }
}

impl From<&Missing> for InputError {
    fn from(missing: &Missing) -> Self {
        match missing {
            Missing::Unknown => Self::Unknown,
            Missing::Elsewhere(shard) => Self::Unavailable(Unavailable::Elsewhere(*shard)),
            Missing::Damaged(what) => Self::Parked(what.clone()),
        }
    }
}

impl Errand {
    /// It could not be read. What nobody would say again waits: the end of a child, a stop, a timer, a task for a worker.
    pub(super) fn tell(self, failure: &Failure) -> Option<Self> {
        let why = Unavailable::Store(failure.to_string().into());
        match self {
            Self::Input { reply: ReplyTo::Nobody | ReplyTo::Parent(_) | ReplyTo::Worker(_), .. }
            | Self::Resume(_)
            | Self::Release(_)
            | Self::Child(_)
            | Self::Await(_)
            | Self::AwaitEnd { .. }
            | Self::Ended { .. }
            | Self::LookElsewhere { .. }
            | Self::Parent { .. }
            | Self::Redrive(_)
            | Self::StopChild { .. }
            | Self::Finish { .. } => Some(self),
            errand @ (Self::Start(_)
            | Self::Input { reply: ReplyTo::Taken(_) | ReplyTo::Started(_), .. }
            | Self::Watch { .. }
            | Self::GiveUp { .. }
            | Self::ShowRun { .. }
            | Self::AdjustRun { .. }
            | Self::Sweep { .. }) => {
                errand.refuse(&why);
                None
            }
        }
    }

    /// Nothing comes of it.
    pub(super) fn refuse(self, why: &Unavailable) {
        let error = InputError::Unavailable(why.clone());
        match self {
            Self::Start(starting) => starting.reply.send(Err(StartError::Unavailable(why.clone()))),
            Self::Input { reply, .. } => reply.refuse(error),
            Self::Watch { reply, .. } => reply.send(Err(error)),
            Self::GiveUp { reply, .. } => reply.send(Err(error)),
            Self::Sweep { reply, .. } => reply.send(Err(why.clone())),
            // Whoever asks reads its row, and learns why not.
            Self::ShowRun { reply, .. } => reply.send(None),
            Self::AdjustRun { reply, .. } => reply.send(Err(AdjustError::Unavailable(why.clone()))),
            // What waits in an execution is taken up again with it.
            Self::Resume(_)
            | Self::Release(_)
            | Self::Child(_)
            | Self::Await(_)
            | Self::AwaitEnd { .. }
            | Self::Ended { .. }
            | Self::LookElsewhere { .. }
            | Self::Parent { .. }
            | Self::Redrive(_)
            | Self::StopChild { .. }
            | Self::Finish { .. } => {}
        }
    }
}

impl Heard {
    /// Takes this execution out, to give it its place in memory.
    pub(super) fn take(hearing: &mut Hearing, id: ExecutionId) -> Option<Stored> {
        hearing.as_ref()?.stored(id)?;
        match hearing.take()?.told {
            Told::Execution(stored) => Some(stored),
            _ => None,
        }
    }
}
