//! A new execution, or the one that has its name already.

use super::errands::{Errand, Hearing};
use super::slot::Weight;
use super::{Node, Queued, ReplyTo, Slot, Watcher};
use crate::librarian::{Ask, Missing, Stored, Told};
use crate::library::Definition;
use crate::message::{Ending, InputError, Reply, StartError, Started, Unavailable, View, Young};
use crate::naming::{NamingOf, Start};
use crate::peers::{Asked, Patience};
use crate::running::Running;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{EffectKey, Execution, ExecutionId, Identity, Input, Moment};
use perdura_store::record::Begun;
use perdura_store::{After, ChildOf, Filter, Listing, MachineId, Nesting, RevisionId};
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

/// A start on its way.
pub(super) struct Starting {
    pub(super) start: Box<Start>,
    /// Told once it is on disk.
    pub(super) reply: Reply<Result<Started, StartError>>,
    /// Told when it has ended.
    pub(super) ending: Option<Reply<Result<Ending, InputError>>>,
    /// Another node asks for it, under the id that its name is reserved for.
    pub(super) under: Option<ExecutionId>,
    /// Another node could not do it, and this much is left of trying.
    pub(super) patience: Option<Patience>,
}

impl Starting {
    /// What the execution will weigh.
    pub(super) fn weight(&self) -> u64 {
        Running::weight_of_new(self.start.input.len())
    }

    fn refuse(self, error: StartError) {
        self.reply.send(Err(error));
    }
}

impl Node {
    /// Begins an execution, or finds the one that has its name. A name is somebody's from here on, whether or not that one
    /// ever begins. A request of another node that comes after all of that is over finds the name free, or another's, and
    /// begins nothing.
    pub(super) fn start(&mut self, mut starting: Box<Starting>, hearing: &Hearing, moment: &Moment) {
        if starting.under.is_none() && !self.has_room() {
            return self.wait_for_room(starting, moment);
        }
        let definition = match self.defined(starting.start.revision, hearing) {
            Ok(definition) => definition,
            Err(Undefined::Unread(ask)) => return self.errands.ask(ask, Some(Errand::Start(starting))),
            Err(Undefined::Damaged(what)) => {
                tracing::error!(what = &*what, "a start names a definition that cannot be used");
                return starting.refuse(StartError::NoMachine);
            }
        };
        let record = &definition.record;
        if starting.ending.is_some() && self.would_wait_in_vain(record.machine, record.kind) {
            return starting.refuse(StartError::Paused);
        }
        let may_run = self.may_run_one_more();
        let drawn = self.shards.draw_id(moment);
        let is_here = self.shards.hold(drawn);
        // What is passed on goes by its name: another node must know it again.
        if is_here.is_err() && starting.start.name.is_none() {
            starting.start.name = Some(drawn.to_string().into());
        }
        let Some(name) = starting.start.own_name().cloned() else {
            return match (is_here, may_run) {
                (Err(why), _) => starting.refuse(StartError::Unavailable(why)),
                (Ok(()), Err(most)) => starting.refuse(StartError::TooMany(most)),
                (Ok(()), Ok(())) => self.begin_start(drawn, *starting, &definition, moment),
            };
        };
        let machine = definition.record.machine;
        // What cannot begin reserves nothing.
        let wanted_by = (may_run.is_ok() && starting.under.is_none()).then_some(drawn);
        let holder = match self.holder(machine, &name, wanted_by, hearing) {
            Ok(holder) => holder,
            Err(ask) => return self.errands.ask(ask, Some(Errand::Start(starting))),
        };
        let elsewhere = |id| StartError::Unavailable(Unavailable::Elsewhere(self.shards.of(id)));
        let holder = match (holder, starting.under) {
            (Some(holder), None) => holder,
            (Some(holder), Some(under)) if holder.id == under => holder,
            (Some(_) | None, Some(under)) => return starting.refuse(elsewhere(under)),
            (None, None) => {
                if let Err(most) = may_run {
                    return starting.refuse(StartError::TooMany(most));
                }
                // It was asked for one that could not begin.
                let ask = Ask::Name { machine, name, wanted_by };
                return self.errands.ask(ask, Some(Errand::Start(starting)));
            }
        };
        if self.shards.hold(holder.id).is_err() {
            let Starting { start, reply, ending, patience, .. } = *starting;
            return self.stray(holder.id, Asked::Start { start, reply, ending }, patience);
        }
        if self.has_begun(&holder) {
            return self.start_again(&holder, *starting, moment);
        }
        match may_run {
            Err(most) => starting.refuse(StartError::TooMany(most)),
            Ok(()) if !self.has_room() => starting.refuse(StartError::Unavailable(Unavailable::Full)),
            Ok(()) => self.begin_start(holder.id, *starting, &definition, moment),
        }
    }

    /// Begins what was asked for, under this id.
    fn begin_start(&mut self, id: ExecutionId, starting: Starting, definition: &Definition, moment: &Moment) {
        let Starting { start, reply, ending, .. } = starting;
        let Definition { record, machine } = definition;
        let name = start.name.clone().unwrap_or_else(|| id.to_string().into());
        let of =
            NamingOf { id, name, record, input: start.input.clone(), limits: start.limits, via: &start.via };
        let identity = of.identity(&start.arns);
        if let Some(ending) = ending {
            self.watchers.push(id, Watcher::Reply(ending));
        }
        let new = NewExecution {
            machine: record.machine,
            revision: record.revision,
            definition: machine.clone(),
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
        let begun =
            Begun { machine, revision, named, parent, awaited, nesting, identity: identity.clone(), child };
        let execution = Execution::new(definition, identity).with_destinations(self.destinations.clone());
        let running = Running::new(&begun, execution, moment.now);
        let running = Box::new(Running { begun: Some(Box::new(begun)), ..running });
        let weight = Weight { is_counted: true, ..Weight::default() };
        let mut slot = Slot { weight, ..Slot::here(running) };
        self.room.running += 1;
        self.room.nest(id, nesting);
        slot.inbox.push_back(Queued { input: Input::Start, reply });
        self.executions.insert(id, slot);
        self.weigh(id);
        self.make_ready(id);
    }

    /// A definition, if it is known or was just read.
    fn defined(&mut self, revision: RevisionId, hearing: &Hearing) -> Result<Arc<Definition>, Undefined> {
        if let Some(known) = self.library.known(revision) {
            return Ok(known.clone());
        }
        let ask = Ask::Definition(revision);
        match hearing.as_ref().and_then(|heard| heard.told(&ask.subject())) {
            Some(Told::Definition(Ok(definition))) => Ok(definition.clone()),
            Some(Told::Definition(Err(what))) => Err(Undefined::Damaged(what.clone())),
            Some(_) | None => Err(Undefined::Unread(ask)),
        }
    }

    /// The execution that has a name, by memory or as it was just read. A start that would take the name meanwhile waits
    /// for the same answer.
    pub(super) fn holder<'a>(
        &self,
        machine: MachineId,
        name: &Arc<str>,
        wanted_by: Option<ExecutionId>,
        hearing: &'a Hearing,
    ) -> Result<Option<Holder<'a>>, Ask> {
        if let Some(id) = self.executions.named(machine, name.clone()) {
            return Ok(Some(Holder { id, stored: None }));
        }
        let ask = Ask::Name { machine, name: name.clone(), wanted_by };
        match hearing.as_ref().and_then(|heard| heard.told(&ask.subject())) {
            Some(Told::Name(None)) => Ok(None),
            Some(Told::Name(Some((id, stored)))) => Ok(Some(Holder { id: *id, stored: Some(stored) })),
            Some(_) | None => Err(ask),
        }
    }

    /// Whether one that has a name has begun.
    pub(super) fn has_begun(&self, holder: &Holder<'_>) -> bool {
        let has_row = !matches!(holder.stored, Some(Err(Missing::Unknown)));
        self.executions.has(holder.id) || has_row
    }

    /// The first of a list that have no row yet. One of which a Turn is being committed is told by its id.
    pub(super) fn young(&self, filter: &Filter, after: After, most: usize) -> Young {
        let mut young = Young::default();
        let is_meant = |slot: &&Slot| {
            let is_of_machine = filter.machine.is_none_or(|machine| slot.machine == Some(machine));
            slot.child.map(|child| child.run) == filter.map_run && (is_of_machine || filter.map_run.is_some())
        };
        for (id, slot) in self.executions.iter().filter(|(_, slot)| is_meant(slot)) {
            match slot.running() {
                Some(running) => young.seen.extend(running.young()),
                None => young.busy.push(id),
            }
        }
        young.seen = filter.complete(Listing::default(), young.seen, after, most as u32).rows;
        // Ids begin with the time at which they were drawn.
        young.busy.sort_unstable_by_key(|id| Reverse(*id));
        young.busy.truncate(most);
        young
    }

    /// How many have no row yet. Of one that is being committed nobody knows before that is done.
    pub(super) fn unlisted(&self) -> u64 {
        let running = self.executions.iter().filter_map(|(_, slot)| slot.running());
        running.filter(|running| running.is_unlisted()).count() as u64
    }

    /// The name is taken. The same start again is answered as the first; any other is refused.
    fn start_again(&mut self, holder: &Holder<'_>, starting: Starting, moment: &Moment) {
        let Starting { start, reply, ending, .. } = starting;
        let execution = holder.id;
        match holder.stored.filter(|_| !self.executions.has(execution)) {
            Some(Ok(running)) => reply.send(compare(&running.execution, &start)),
            Some(Err(missing)) => ReplyTo::Started(reply).refuse(missing.into()),
            None => {
                let tell = move |view: Option<Box<View>>| {
                    let unseen =
                        || Unavailable::Store("the execution with this name cannot be seen now".into());
                    let answer = view.ok_or_else(|| StartError::Unavailable(unseen()));
                    reply.send(answer.and_then(|view| compare(&view.execution, &start)));
                };
                self.show(execution, Reply::new(tell));
            }
        }
        if let Some(reply) = ending {
            // How it stood when its name was read is not how it stands.
            self.run(Errand::Watch { execution, reply }, &mut None, moment);
        }
    }
}

/// Who has a name.
pub(super) struct Holder<'a> {
    pub(super) id: ExecutionId,
    /// How it stood when it was read; `None`: it is in memory.
    pub(super) stored: Option<&'a Stored>,
}

/// Why there is no definition to start with.
enum Undefined {
    /// It has to be asked for.
    Unread(Ask),
    Damaged(Arc<str>),
}

/// The same name stands for the same start only while it runs, with the same input and, where it says any, the same labels.
/// One that has its id as its name was not asked for by anybody else.
fn compare(execution: &Execution, start: &Start) -> Result<Started, StartError> {
    let identity = execution.identity();
    let is_its_own = start.name.as_deref() == Some(&identity.id.to_string());
    let has_labels = start.via.labels.is_empty() || start.via.labels == identity.labels;
    let is_same = has_labels && identity.input.text() == start.input.text();
    if !is_its_own && (execution.is_ended() || !is_same) {
        return Err(StartError::Exists(identity.id));
    }
    Ok(Started {
        execution: identity.id,
        arn: identity.arn.clone(),
        at: execution.started_at(),
        fresh: false,
    })
}
