//! The moves of Map Runs: children are started, redriven and stopped, and the end is told.
//!
//! A run makes its moves when nothing else is to be decided, and a few in any case, so that a million children neither
//! keep others waiting nor wait for ever.

use super::super::errands::{Absent, Errand, Hearing};
use super::super::start::NewExecution;
use super::super::{Node, Queued, ReplyTo, Slot};
use super::Parent;
use crate::fetch::Ticket;
use perdura_engine::{
    By, ExecutionId, Fault, Input, MapRunEnd, MapRunEvent, MapRunMove, MapRunOutcome, MapRunPlace, Moment,
    Status, TURN_WORK_MAX, Timestamp,
};
use perdura_store::{ChildOf, MapRunRow};
use uuid::Uuid;

/// How many moves one run makes before another has its turn.
const START_AT_ONCE: usize = 32;
/// How many children are started even if others wait to be decided. Children that take much work to make count for more.
const START_AT_LEAST: usize = 64;
/// A child that takes this many units of work to make counts for one more.
const CHILD_WORK: u64 = TURN_WORK_MAX / START_AT_LEAST as u64;
/// How many executions may be ready before no more children are brought into memory to be stopped.
const STOP_AHEAD: usize = 256;

/// A child that is to run again.
#[derive(Clone, Copy)]
pub(in super::super) struct Redrive {
    /// Of which run, as it was taken up.
    ticket: Ticket,
    child: ExecutionId,
    index: u32,
    /// When its run was redriven.
    since: Option<Timestamp>,
}

impl Node {
    /// A few children are started in any case, on average: one item may take the work of many.
    pub(in super::super) fn move_some_runs(&mut self, moment: &Moment) {
        self.map_runs.ahead = self.map_runs.ahead.saturating_sub(START_AT_LEAST);
        if self.map_runs.ahead == 0 {
            self.move_runs(START_AT_LEAST, moment);
        }
    }

    /// Runs have something to do, and may do it here.
    pub(in super::super) fn runs_may_move(&self) -> bool {
        self.performs.begins() && !self.map_runs.eager.is_empty()
    }

    /// Lets runs make their moves, until about so many children were started.
    pub(in super::super) fn move_runs(&mut self, most: usize, moment: &Moment) {
        let mut started = 0;
        while started < most
            && self.runs_may_move()
            && let Some(id) = self.map_runs.eager.pop_front()
        {
            let Some(run) = self.map_runs.runs.get_mut(&id) else { continue };
            run.is_eager = false;
            if self.drive(id, &mut started, moment) {
                self.map_runs.wake(id);
            }
        }
        self.map_runs.ahead = self.map_runs.ahead.max(started.saturating_sub(START_AT_LEAST));
    }

    /// Lets one run make some moves; whether it wants more.
    fn drive(&mut self, id: Uuid, started: &mut usize, moment: &Moment) -> bool {
        let until = *started + START_AT_ONCE;
        while *started < until {
            let Some(run) = self.map_runs.runs.get(&id) else { return false };
            if run.life.has_children_to_stop()
                && self.ready.len() + self.errands.asked.executions() >= STOP_AHEAD
            {
                *started += START_AT_LEAST;
                return true;
            }
            let depth = run.parent.as_ref().map_or(0, |parent| parent.depth);
            let place = match self.has_place() {
                true => MapRunPlace::Free,
                false if self.may_nest(depth) => MapRunPlace::ForTheFirst,
                false => MapRunPlace::None,
            };
            let Some(run) = self.map_runs.runs.get_mut(&id) else { return false };
            let spent = run.life.spent();
            let next = run.life.go_on(place);
            *started += ((run.life.spent() - spent) / CHILD_WORK) as usize;
            match next {
                MapRunMove::Start { identity, definition, index, items } => {
                    let Some(Parent { machine, revision, depth }) = run.parent else { return false };
                    let new = NewExecution {
                        machine,
                        revision,
                        definition,
                        identity: *identity,
                        named: false,
                        parent: None,
                        awaited: false,
                        nesting: self.admits(depth, true).unwrap_or_default(),
                        child: Some(ChildOf { run: id, index, items }),
                    };
                    self.begin(new, ReplyTo::Nobody, moment);
                }
                MapRunMove::Redrive { child, index, since } => {
                    let redrive = Redrive { ticket: run.ticket, child, index, since };
                    self.redrive_map_child(redrive, &mut None, moment);
                }
                MapRunMove::Stop(child) => {
                    self.stop_map_child(id, child, &mut None, moment);
                }
                MapRunMove::Finish(end) => {
                    self.finish_map_run(id, *end, moment);
                    return false;
                }
                MapRunMove::Rest(commands) => {
                    self.carry_out(id, commands);
                    return false;
                }
            }
            *started += 1;
        }
        true
    }

    /// One that did not succeed runs again, unless it did so in this redrive already. Its run is told of that.
    pub(in super::super) fn redrive_map_child(
        &mut self,
        redrive: Redrive,
        hearing: &mut Hearing,
        moment: &Moment,
    ) {
        let Redrive { ticket, child, index, since } = redrive;
        let run = ticket.run;
        self.map_runs.redriven.remove(&child);
        // While it was read its run may have ended, and stopped all children that it had.
        if self.map_runs.runs.get(&run).is_none_or(|run| run.ticket != ticket) {
            return;
        }
        match self.awake(child, hearing, moment) {
            Ok(()) => {
                let running = self.executions.get(child).and_then(Slot::running);
                let ended = running.and_then(|running| Some((running.execution.ended_at()?, running)));
                if let Some((at, running)) = ended
                    && since.is_some_and(|since| at >= since)
                {
                    let status = running.execution.status();
                    return self.tell_run(run, MapRunEvent::ChildEnded { child, index, status });
                }
                self.put(child, Input::Redrive, ReplyTo::Nobody);
            }
            Err(Absent::Unread) => {
                self.map_runs.redriven.insert(child);
                self.errands.wait_for(child, Errand::Redrive(redrive));
            }
            Err(Absent::Not(error)) => {
                tracing::error!(execution = %child, %error, "a child cannot be redriven");
                self.tell_run(run, MapRunEvent::ChildEnded { child, index, status: Status::Failed });
            }
        }
    }

    /// Stops a child; its run is told if nothing comes of that.
    pub(in super::super) fn stop_map_child(
        &mut self,
        run: Uuid,
        child: ExecutionId,
        hearing: &mut Hearing,
        moment: &Moment,
    ) {
        if let Err(Absent::Unread) = self.awake(child, hearing, moment) {
            return self.errands.wait_for(child, Errand::StopChild { run, child });
        }
        // One that was about to run again stays as it ended.
        if self.executions.get_mut(child).is_some_and(Slot::drop_redrive) {
            self.weigh(child);
        }
        if self.executions.get(child).is_some_and(|slot| slot.parked.is_none() && !slot.is_ended()) {
            self.join(child, Input::Stop { fault: Fault::default() });
        } else {
            self.tell_run(run, MapRunEvent::StopInVain(child));
        }
    }

    /// A run is over: whoever waits is told, and it is gone.
    fn finish_map_run(&mut self, id: Uuid, end: MapRunEnd, moment: &Moment) {
        let MapRunEnd { writes, tells, is_asked_for } = end;
        let Some(run) = self.map_runs.runs.get(&id) else { return };
        let parent = run.row.execution;
        if tells.is_some()
            && let Err(Absent::Unread) = self.awake(parent, &mut None, moment)
        {
            // It comes to its end once more as soon as that one is in memory.
            return self.errands.wait_for(parent, Errand::Finish { run: id, parent });
        }
        let Some(mut run) = self.map_runs.runs.remove(&id) else { return };
        if let Some((status, figures)) = writes {
            let over = MapRunRow { status, ended_at: Some(moment.now), ..run.row_with(figures) };
            self.map_runs.rows.push(over.into());
        }
        if let Some((by, outcome)) = tells {
            self.tell_parent(parent, by, outcome);
        }
        if let Some(asking) = run.asked_for.take().filter(|_| is_asked_for) {
            self.take_up(asking);
        }
    }

    /// Somebody who is to be told of the end of a run was read.
    pub(in super::super) fn finish_run_of(
        &mut self,
        run: Uuid,
        parent: ExecutionId,
        hearing: &mut Hearing,
        moment: &Moment,
    ) {
        if let Err(Absent::Unread) = self.awake(parent, hearing, moment) {
            return self.errands.wait_for(parent, Errand::Finish { run, parent });
        }
        self.map_runs.wake(run);
    }

    fn tell_parent(&mut self, parent: ExecutionId, by: By, outcome: MapRunOutcome) {
        let Some(slot) = self.executions.get_mut(parent).filter(|slot| slot.parked.is_none()) else { return };
        // Before all that waits there: one that was just woken up would ask for this run again.
        let input = Input::ChildOutcome { by, outcome };
        slot.inbox.push_front(Queued { input, reply: ReplyTo::Nobody });
        self.make_ready(parent);
    }
}
