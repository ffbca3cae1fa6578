//! What was read arrives, and errands are run.

use super::errands::{Absent, Errand, Heard, Hearing};
use super::{Node, ReplyTo, Watcher};
use crate::librarian::{Finding, Missing, Subject, Told};
use crate::message::{Ending, InputError, Reply, Unavailable};
use crate::peers::Asked;
use perdura_engine::{Execution, ExecutionId, Input, Moment, Wake};

impl Node {
    /// Something was read, or could not be.
    pub fn hear(&mut self, answer: Finding, moment: &Moment) {
        let moment = &self.anchor.see(moment);
        for definition in &answer.fresh {
            self.library.put(definition.clone());
        }
        if let Err(failure) = &answer.told {
            tracing::error!(%failure, "what is needed cannot be read");
            return self.errands.asked.failed(&answer, |errand| errand.tell(failure));
        }
        let Some(errands) = self.errands.asked.answered(&answer) else { return };
        let Finding { subject, told: Ok(told), .. } = answer else { return };
        match (&subject, told) {
            (Subject::Due(clock, shard), Told::Due(page)) => {
                self.sleepers.timers.told((*clock, *shard), page);
            }
            (Subject::Holders, Told::Holders(holders)) => self.outgoing.holders = Some(holders),
            (Subject::First, Told::First(first)) => self.sleepers.timers.told_first(first),
            (Subject::Waiting(shard), Told::Waiting(page)) => self.sleepers.resuming.told(*shard, page),
            (Subject::Held(shard), Told::Held(after, page)) => {
                let pauses = &self.pauses;
                let goes_on = |machine| !pauses.stops(machine);
                self.sleepers.resuming.told_held((*shard, after), &page, goes_on);
            }
            (Subject::LeftRuns, Told::Runs(slice)) => self.go_on_searching(slice),
            (Subject::Runs, Told::Runs(runs)) => runs.into_iter().for_each(|run| self.join_or_end(run)),
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
        while let Some(errand) = self.errands.pop() {
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
            Errand::ShowRun { run, reply } => self.show_map_run(run, reply, hearing),
            Errand::AdjustRun { run, change, reply } => self.adjust_map_run(run, change, reply, hearing),
            Errand::Finish { run, parent } => self.finish_run_of(run, parent, hearing, moment),
        }
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
        let is_asleep = !self.executions.has(execution) && hearing.is_none();
        if takes_place && is_asleep && !self.has_room() {
            return reply.refuse(InputError::Unavailable(Unavailable::Full));
        }
        let comes_by_timer = matches!(input, Input::Timer) && !self.executions.has(execution);
        match self.awake(execution, hearing, moment) {
            Ok(()) if comes_by_timer => {
                let wake = self.executions.get(execution).map_or(Wake::default(), |slot| slot.wake);
                self.sleepers.timers.went_off(execution, self.anchor.due(execution, wake), moment);
                self.put(execution, input, reply);
            }
            Ok(()) => match self.may_be_redriven(execution, &input) {
                Err(error) if takes_place => reply.refuse(error),
                Ok(()) | Err(_) => self.put(execution, input, reply),
            },
            Err(Absent::Unread) => {
                self.errands.wait_for(execution, Errand::Input { execution, input, reply });
            }
            Err(Absent::Not(error)) => match reply {
                ReplyTo::Worker(handing) => {
                    tracing::warn!(%execution, %error, "its task cannot be handed to a worker");
                    self.not_handed_over(*handing);
                }
                // A child that is shared with others, and given up: whoever holds it stops it.
                ReplyTo::Nobody
                    if self.shards.hold(execution).is_err() && matches!(input, Input::Stop { .. }) =>
                {
                    self.stray(execution, Asked::Input { input, reply: Reply::new(drop) }, None);
                }
                reply => reply.refuse(error),
            },
        }
    }

    /// An execution as it was last committed, in memory or as it was just read. `None`: there is none, or its first Turn is
    /// on its way.
    pub(super) fn known(&self, id: ExecutionId, hearing: &Hearing) -> Result<Option<Execution>, Absent> {
        if let Some(slot) = self.executions.get(id) {
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
        if let Some(slot) = self.executions.get(id) {
            let ending = slot.running().and_then(|running| Ending::of(&running.execution));
            match (&slot.parked, ending) {
                (Some(reason), _) => reply.send(Err(InputError::Parked(reason.clone()))),
                (None, Some(ending)) => reply.send(Ok(ending)),
                (None, None) => self.watchers.push(id, Watcher::Reply(reply)),
            }
            return;
        }
        match hearing.as_ref().and_then(|heard| heard.stored(id)) {
            None => self.errands.wait_for(id, Errand::Watch { execution: id, reply }),
            Some(Err(missing)) => reply.send(Err(missing.into())),
            Some(Ok(running)) => match Ending::of(&running.execution) {
                Some(ending) => reply.send(Ok(ending)),
                None => self.watchers.push(id, Watcher::Reply(reply)),
            },
        }
    }
}
