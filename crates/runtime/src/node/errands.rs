//! What a node does of its own accord or for somebody, one thing after the other; what has to be read first waits.
//!
//! An errand looks at memory, then at what was just read, and otherwise asks and waits. So it runs once more with the
//! answer, from its beginning, and finds what has happened meanwhile.

use super::children::{ChildOrder, ParentStep};
use super::map_run::Redrive;
use super::start::Starting;
use super::{Node, ReplyTo, Watcher};
use crate::librarian::{Ask, Finding, Missing, Stored, Subject, Told};
use crate::message::{Ending, InputError, Reply, Slice, StartError, Unavailable};
use crate::peers::Asked;
use perdura_engine::{EffectKey, Execution, ExecutionId, Input, Moment, Outcome, Wake};
use perdura_store::{Failure, Swept};
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
    /// A Map Run comes to its end as soon as whoever waits for it is in memory.
    Finish { run: Uuid, parent: ExecutionId },
}

/// What was just read, and about what.
pub(super) struct Heard {
    subject: Subject,
    told: Told,
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
    fn tell(self, failure: &Failure) -> Option<Self> {
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

impl Node {
    /// Something was read, or could not be.
    pub fn hear(&mut self, answer: Finding, moment: &Moment) {
        let moment = &self.anchor.see(moment);
        for definition in &answer.fresh {
            self.library.put(definition.clone());
        }
        if let Err(failure) = &answer.told {
            tracing::error!(%failure, "what is needed cannot be read");
            return self.asked.failed(&answer, |errand| errand.tell(failure));
        }
        let Some(errands) = self.asked.answered(&answer) else { return };
        let Finding { subject, told: Ok(told), .. } = answer else { return };
        match (&subject, told) {
            (Subject::Due(clock, shard), Told::Due(page)) => self.timers.told((*clock, *shard), page),
            (Subject::Holders, Told::Holders(holders)) => self.holders = Some(holders),
            (Subject::First, Told::First(first)) => self.timers.told_first(first),
            (Subject::Waiting(shard), Told::Waiting(page)) => self.resuming.told(*shard, page),
            (Subject::Held(shard), Told::Held(after, page)) => {
                let pauses = &self.pauses;
                self.resuming.told_held((*shard, after), &page, |machine| !pauses.stops(machine));
            }
            (_, told) => {
                // A child that was to begin may not have taken its place.
                self.room.has_changed |= matches!(subject, Subject::Child(_));
                let mut hearing = Some(Heard { subject, told });
                for errand in errands {
                    self.run(errand, &mut hearing, moment);
                }
            }
        }
    }

    /// Does what one execution meant for another.
    pub(super) fn run_errands(&mut self, moment: &Moment) {
        self.read_mail();
        while let Some(errand) = self.errands.pop_front() {
            self.run(errand, &mut None, moment);
        }
    }

    /// Runs one, with what it was told, if it was.
    pub(super) fn run(&mut self, errand: Errand, hearing: &mut Hearing, moment: &Moment) {
        match errand {
            Errand::Start(start) => self.start(start, hearing, moment),
            Errand::Input { execution, input, reply } => {
                self.give(execution, input, reply, (hearing, moment));
            }
            Errand::Watch { execution, reply } => self.watch(execution, reply, hearing),
            Errand::GiveUp { execution, reply } => self.give_up(execution, reply, hearing),
            Errand::Sweep { slice, reply } => self.sweep(slice, reply, hearing),
            Errand::Resume(execution) => self.resume(execution, hearing, moment),
            Errand::Release(execution) => self.release(execution, hearing, moment),
            Errand::Child(order) => self.start_child(order, hearing, moment),
            Errand::Await(step) => self.await_end(step, hearing),
            Errand::AwaitEnd { step, child } => self.await_end_of(step, child, hearing),
            Errand::LookElsewhere { step, child } => self.look_elsewhere(step, child, hearing),
            Errand::Ended { step, outcome } => self.tell_of_end(step, outcome, (hearing, moment)),
            Errand::Parent { child, key } => self.ask_for_parent(child, key, hearing),
            Errand::Redrive(redrive) => self.redrive_map_child(redrive, hearing, moment),
            Errand::StopChild { run, child } => self.stop_map_child(run, child, hearing, moment),
            Errand::Finish { run, parent } => self.finish_run_of(run, parent, hearing, moment),
        }
    }

    /// An errand waits until this execution is read.
    pub(super) fn wait_for(&mut self, execution: ExecutionId, errand: Errand) {
        self.asked.ask(Ask::Execution(execution), Some(errand));
    }

    /// Gives an execution something, which wakes it up if it sleeps.
    fn give(
        &mut self,
        execution: ExecutionId,
        input: Input,
        reply: ReplyTo,
        (hearing, moment): (&mut Hearing, &Moment),
    ) {
        let redrives = matches!(input, Input::Redrive | Input::RedriveOnce { .. });
        let takes_place = redrives && matches!(reply, ReplyTo::Taken(_));
        // One that was read has its room.
        let is_asleep = !self.slots.contains_key(&execution) && hearing.is_none();
        if takes_place && is_asleep && !self.has_room() {
            return reply.refuse(InputError::Unavailable(Unavailable::Full));
        }
        let comes_by_timer = matches!(input, Input::Timer) && !self.slots.contains_key(&execution);
        match self.awake(execution, hearing, moment) {
            Ok(()) if comes_by_timer => {
                let wake = self.slots.get(&execution).map_or(Wake::default(), |slot| slot.wake);
                self.timers.went_off(execution, self.anchor.due(execution, wake), moment);
                self.put(execution, input, reply);
            }
            Ok(()) => match self.may_be_redriven(execution, &input) {
                Err(error) if takes_place => reply.refuse(error),
                Ok(()) | Err(_) => self.put(execution, input, reply),
            },
            Err(Absent::Unread) => {
                self.wait_for(execution, Errand::Input { execution, input, reply });
            }
            Err(Absent::Not(error)) => match reply {
                ReplyTo::Worker(handing) => {
                    tracing::warn!(%execution, %error, "its task cannot be handed to a worker");
                    self.not_handed_over(*handing);
                }
                // A child that is shared with others, and given up: whoever holds it stops it.
                ReplyTo::Nobody if self.held(execution).is_err() && matches!(input, Input::Stop { .. }) => {
                    self.stray(execution, Asked::Input { input, reply: Reply::new(drop) }, None);
                }
                reply => reply.refuse(error),
            },
        }
    }

    /// An execution as it was last committed, in memory or as it was just read. `None`: there is none, or its first Turn is
    /// on its way.
    pub(super) fn known(&self, id: ExecutionId, hearing: &Hearing) -> Result<Option<Execution>, Absent> {
        if let Some(slot) = self.slots.get(&id) {
            if let Some(reason) = &slot.parked {
                return Err(Absent::Not(InputError::Parked(reason.clone())));
            }
            return Ok(slot.begun().map(|running| running.execution.clone()));
        }
        match hearing.as_ref().and_then(|heard| heard.stored(id)) {
            Some(Ok(running)) => Ok(Some(running.execution.clone())),
            Some(Err(Missing::Unknown)) => Ok(None),
            Some(Err(missing)) => Err(Absent::Not(missing.into())),
            None => Err(Absent::Unread),
        }
    }

    pub(super) fn watch(
        &mut self,
        id: ExecutionId,
        reply: Reply<Result<Ending, InputError>>,
        hearing: &Hearing,
    ) {
        if let Some(slot) = self.slots.get(&id) {
            let ending = slot.running().and_then(|running| Ending::of(&running.execution));
            match (&slot.parked, ending) {
                (Some(reason), _) => reply.send(Err(InputError::Parked(reason.clone()))),
                (None, Some(ending)) => reply.send(Ok(ending)),
                (None, None) => self.watchers.push(id, Watcher::Reply(reply)),
            }
            return;
        }
        match hearing.as_ref().and_then(|heard| heard.stored(id)) {
            None => self.wait_for(id, Errand::Watch { execution: id, reply }),
            Some(Err(missing)) => reply.send(Err(missing.into())),
            Some(Ok(running)) => match Ending::of(&running.execution) {
                Some(ending) => reply.send(Ok(ending)),
                None => self.watchers.push(id, Watcher::Reply(reply)),
            },
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
