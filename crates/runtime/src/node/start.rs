//! A new execution, or the one that has its name already.

use super::{Node, Queued, ReplyTo, Slot, WaitingStart, Watcher};
use crate::message::{Ending, InputError, Reply, StartError, Started, Unavailable, View, Young};
use crate::naming::{NamingOf, Start};
use crate::peers::Asked;
use crate::running::{Running, Unreadable};
use perdura_engine::asl::machine::Machine;
use perdura_engine::{EffectKey, Execution, ExecutionId, Identity, Input, Moment};
use perdura_store::record::Begun;
use perdura_store::{After, ChildOf, Failure, Filter, MachineId, MachineRecord, Nesting, RevisionId, Shard};
use std::cmp::Reverse;
use std::sync::Arc;

/// Who is to begin.
pub(super) struct NewExecution {
    pub(super) machine: MachineId,
    pub(super) revision: RevisionId,
    pub(super) definition: Arc<Machine>,
    pub(super) identity: Identity,
    /// Its name was given; otherwise it is its id.
    pub(super) named: bool,
    /// The step that starts it.
    pub(super) parent: Option<EffectKey>,
    /// That step waits for its end.
    pub(super) awaited: bool,
    /// Its place in a line of children without places, if it is in one.
    pub(super) nesting: Option<Nesting>,
    /// Its place in a Map Run, if it has one.
    pub(super) child: Option<ChildOf>,
}

/// Where a start leads.
enum Place {
    /// To a new execution.
    Begins(ExecutionId),
    /// To the one that has its name.
    There(ExecutionId),
    /// To one of another node.
    Elsewhere(ExecutionId),
}

/// What an execution runs by.
pub(super) type Definition = (MachineRecord, Arc<Machine>);

impl Node {
    pub(super) fn start(&mut self, (mut start, reply, ending): WaitingStart, moment: &Moment) {
        let definition = match self.definition(start.revision) {
            Ok(definition) => definition,
            Err(error) => return reply.send(Err(error)),
        };
        match self.place(&mut start, definition.0.machine, moment) {
            Ok(Place::Begins(id)) => {
                if let Some(ending) = ending {
                    self.watchers.push(id, Watcher::Reply(ending));
                }
                self.begin_start(id, &start, definition, reply, moment);
            }
            Ok(Place::There(id)) => {
                self.start_again(id, &start, reply);
                if let Some(ending) = ending {
                    self.watch(id, ending);
                }
            }
            Ok(Place::Elsewhere(id)) => self.stray(id, Asked::Start { start, reply, ending }),
            Err(error) => reply.send(Err(error)),
        }
    }

    pub(super) fn definition(&mut self, revision: RevisionId) -> Result<Definition, StartError> {
        match self.library.find(revision, &mut *self.reader) {
            Ok(kept) => Ok((kept.record.clone(), kept.machine.clone())),
            Err(Unreadable::Damaged(damage)) => {
                tracing::error!(what = damage.0, "a start names a definition that cannot be used");
                Err(StartError::NoMachine)
            }
            Err(Unreadable::Unavailable(failure)) => {
                Err(StartError::Unavailable(Unavailable::Store(failure.to_string().into())))
            }
        }
    }

    /// Begins what was asked for, under this id.
    pub(super) fn begin_start(
        &mut self,
        id: ExecutionId,
        start: &Start,
        (record, definition): Definition,
        reply: Reply<Result<Started, StartError>>,
        moment: &Moment,
    ) {
        let name = start.name.clone().unwrap_or_else(|| id.to_string().into());
        let of = NamingOf {
            id,
            name,
            record: &record,
            input: start.input.clone(),
            limits: start.limits,
            via: &start.via,
        };
        let identity = of.identity(&start.arns);
        let new = NewExecution {
            machine: record.machine,
            revision: record.revision,
            definition,
            identity,
            named: start.own_name().is_some(),
            parent: None,
            awaited: false,
            nesting: None,
            child: None,
        };
        self.begin(new, ReplyTo::Started(reply), moment);
    }

    /// Gives a new execution its place, and its first input.
    pub(super) fn begin(&mut self, new: NewExecution, reply: ReplyTo, moment: &Moment) {
        let NewExecution { machine, revision, definition, identity, named, parent, awaited, nesting, child } =
            new;
        let id = identity.id;
        if named {
            self.names.insert((machine, identity.name.clone()), id);
        }
        let begun =
            Begun { machine, revision, named, parent, awaited, nesting, identity: identity.clone(), child };
        let execution =
            Execution::new(definition, identity).with_destinations(self.rebuilding.destinations.clone());
        let running = Running::new(&begun, execution, moment.now);
        let mut slot = Slot {
            running: Some(Box::new(running)),
            begun: Some(Box::new(begun)),
            machine: Some(machine),
            child,
            is_counted: true,
            ..Slot::default()
        };
        self.room.running += 1;
        self.room.nest(id, nesting);
        slot.inbox.push_back(Queued { input: Input::Start, reply });
        self.slots.insert(id, slot);
        self.weigh(id);
        self.make_ready(id);
    }

    /// A new id, on a Shard that is held here if one is. Several starts that waited are let in at the same moment, so an id
    /// that was drawn from it already is passed over.
    fn draw_id(&self, moment: &Moment) -> ExecutionId {
        let bits = (moment.entropy >> 64) as u64;
        let here = self.shards.get(moment.entropy as usize % self.shards.len().max(1));
        let shard = here.copied().unwrap_or(Shard(moment.entropy as u16 % self.shard_count.max(1)));
        let id = |step: u64| ExecutionId::beginning(moment.now, shard, bits.wrapping_add(step));
        let mut ids = (0..=self.slots.len() as u64).map(id);
        ids.find(|id| !self.slots.contains_key(id)).expect("there are more ids than executions in memory")
    }

    /// Under which id a start begins, or which execution it asks for again. A name is somebody's from here on, whether or
    /// not that one ever begins.
    fn place(&mut self, start: &mut Start, machine: MachineId, moment: &Moment) -> Result<Place, StartError> {
        let drawn = self.draw_id(moment);
        let is_here = self.held(drawn);
        // What is passed on goes by its name: another node must know it again.
        if is_here.is_err() && start.name.is_none() {
            start.name = Some(drawn.to_string().into());
        }
        let has_place = self.may_run_one_more().map_err(StartError::TooMany);
        let Some(name) = start.own_name() else {
            is_here.map_err(StartError::Unavailable)?;
            return has_place.map(|()| Place::Begins(drawn));
        };
        let unread =
            |failure: Failure| StartError::Unavailable(Unavailable::Store(failure.to_string().into()));
        let id = match &has_place {
            Ok(()) => self.whose(machine, name, drawn).map_err(unread)?,
            // What cannot begin reserves nothing.
            Err(_) => match self.has_name(machine, name).map_err(unread)? {
                Some(id) => id,
                None => return has_place.map(|()| Place::Begins(drawn)),
            },
        };
        if self.held(id).is_err() {
            return Ok(Place::Elsewhere(id));
        }
        let is_there = id != drawn && self.has_begun(id).map_err(unread)?;
        if is_there { Ok(Place::There(id)) } else { has_place.map(|()| Place::Begins(id)) }
    }

    /// Whose a name is from now on: that of whoever wants it, or of whoever came before.
    pub(super) fn whose(
        &mut self,
        machine: MachineId,
        name: &Arc<str>,
        wanted_by: ExecutionId,
    ) -> Result<ExecutionId, Failure> {
        match self.names.get(&(machine, name.clone())) {
            Some(id) => Ok(*id),
            None => self.reader.reserve(machine, name, wanted_by),
        }
    }

    /// Whether one that has a name has begun. What belongs to another node may have.
    pub(super) fn has_begun(&mut self, id: ExecutionId) -> Result<bool, Failure> {
        Ok(self.held(id).is_err() || self.slots.contains_key(&id) || self.reader.row(id)?.is_some())
    }

    /// Whose a name is, begun or not.
    pub(super) fn has_name(
        &mut self,
        machine: MachineId,
        name: &Arc<str>,
    ) -> Result<Option<ExecutionId>, Failure> {
        match self.names.get(&(machine, name.clone())) {
            Some(id) => Ok(Some(*id)),
            None => self.reader.reserved(machine, name),
        }
    }

    /// The first of a list that have no row yet. One of which a Turn is being committed is told by its id.
    pub(super) fn young(&self, filter: &Filter, after: After, most: usize) -> Young {
        let mut young = Young::default();
        let is_meant = |slot: &&Slot| {
            let is_of_machine = filter.machine.is_none_or(|machine| slot.machine == Some(machine));
            slot.child.map(|child| child.run) == filter.map_run && (is_of_machine || filter.map_run.is_some())
        };
        for (id, slot) in self.slots.iter().filter(|(_, slot)| is_meant(slot)) {
            match &slot.running {
                Some(running) => young.seen.extend(running.young()),
                None => young.busy.push(*id),
            }
        }
        young.seen = filter.complete(Vec::new(), young.seen, after, most as u32);
        // Ids begin with the time at which they were drawn.
        young.busy.sort_unstable_by_key(|id| Reverse(*id));
        young.busy.truncate(most);
        young
    }

    /// How many have no row yet. Of one that is being committed nobody knows before that is done.
    pub(super) fn unlisted(&self) -> u64 {
        let running = self.slots.values().filter_map(|slot| slot.running.as_ref());
        running.filter(|running| running.is_unlisted()).count() as u64
    }

    /// The name is taken. The same start again is answered as the first; any other is refused.
    pub(super) fn start_again(
        &mut self,
        id: ExecutionId,
        start: &Start,
        reply: Reply<Result<Started, StartError>>,
    ) {
        if !self.slots.contains_key(&id) {
            return match self.stored(id) {
                Ok(Ok(running)) => reply.send(compare(&running.execution, start)),
                Ok(Err(what)) => ReplyTo::Started(reply).refuse(InputError::Parked(what)),
                Err(error) => ReplyTo::Started(reply).refuse(error),
            };
        }
        let start = start.clone();
        let tell = move |view: Option<Box<View>>| {
            let unseen = || Unavailable::Store("the execution with this name cannot be seen now".into());
            let answer = view.ok_or_else(|| StartError::Unavailable(unseen()));
            reply.send(answer.and_then(|view| compare(&view.execution, &start)));
        };
        self.show(id, Reply::new(tell));
    }

    pub(super) fn watch(&mut self, id: ExecutionId, reply: Reply<Result<Ending, InputError>>) {
        if let Some(slot) = self.slots.get(&id) {
            let ending = slot.running.as_ref().and_then(|running| Ending::of(&running.execution));
            match (&slot.parked, ending) {
                (Some(reason), _) => reply.send(Err(InputError::Parked(reason.clone()))),
                (None, Some(ending)) => reply.send(Ok(ending)),
                (None, None) => self.watchers.push(id, Watcher::Reply(reply)),
            }
            return;
        }
        match self.stored(id) {
            Err(error) => reply.send(Err(error)),
            Ok(Err(what)) => reply.send(Err(InputError::Parked(what))),
            Ok(Ok(running)) => match Ending::of(&running.execution) {
                Some(ending) => reply.send(Ok(ending)),
                None => self.watchers.push(id, Watcher::Reply(reply)),
            },
        }
    }
}

/// The same name stands for the same start only while it runs, and with the same input. One that has its id as its name was
/// not asked for by anybody else.
fn compare(execution: &Execution, start: &Start) -> Result<Started, StartError> {
    let identity = execution.identity();
    let is_its_own = start.name.as_deref() == Some(&identity.id.to_string());
    if !is_its_own && (execution.is_ended() || identity.input.text() != start.input.text()) {
        return Err(StartError::Exists(identity.id));
    }
    Ok(Started {
        execution: identity.id,
        arn: identity.arn.clone(),
        at: execution.started_at(),
        fresh: false,
    })
}
