//! Opening: the Shards that can be had are taken, and what ran on them is rebuilt. And its opposite.

use super::activities::Activities;
use super::anchor::Anchor;
use super::calls::Calls;
use super::errands::Errands;
use super::executions::Executions;
use super::here::Here;
use super::map_run::MapRuns;
use super::outgoing::Outgoing;
use super::pauses::Pauses;
use super::ready::Ready;
use super::room::{Bounds, Room};
use super::shards::Shards;
use super::sleepers::Sleepers;
use super::slot::{Away, Body};
use super::watchers::Watchers;
use super::{Node, Performs, Queued, ReplyTo, SHOW_EVERY_MS, Slot};
use crate::committer::{Committer, Item, base_of};
use crate::fold::Unreadable;
use crate::librarian::Librarian;
use crate::library::Library;
use crate::message::{InputError, Unavailable};
use perdura_engine::{By, Destinations, ExecutionId, Input, LiveCall, Moment, Outcome, Timestamp};
use perdura_store::{Aside, Claim, CommitError, Failure, FailureKind, Shard, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What finds no room at the start is written in groups of about this size.
const PUT_OFF_BYTES: u64 = 4 * 1024 * 1024;

/// What this process has in hand, for a node that is opened again in it.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Calls under way.
    pub calls: BTreeMap<ExecutionId, Vec<LiveCall>>,
    /// Answers that came and are not on disk: their calls need not be made again.
    pub answers: BTreeMap<ExecutionId, Vec<(By, Outcome)>>,
}

/// What a node is opened with.
pub struct Opening<'a> {
    /// Who opens it.
    pub holder: Arc<str>,
    /// The policies of those who are called.
    pub destinations: Arc<dyn Destinations>,
    /// Now.
    pub moment: Moment,
    /// Until when the Lease is good.
    pub expires_at: Timestamp,
    /// Where it reads and writes.
    pub store: &'a mut dyn Store,
    /// What this process has in hand already.
    pub live: Live,
    /// Whether this process performs effects; one that does not leaves what is under way to the next.
    pub performs: bool,
    /// How much it may hold.
    pub bounds: Bounds,
    /// The steady time of the node that this process had before; `None`: the process begins.
    pub anchor: Option<Anchor>,
}

/// A node that is open, with those who write and read for it.
pub struct Opened {
    pub node: Node,
    pub committer: Committer,
    pub librarian: Librarian,
}

impl Opening<'_> {
    /// Opens it, for a process that goes on without where that fails.
    pub fn open(self) -> Result<Opened, Failure> {
        Node::open(self).map_err(|error| match error {
            CommitError::Lost(failure) => failure,
            CommitError::Fenced { .. } | CommitError::Busy => Failure {
                what: "the shards cannot be taken".into(),
                why: error.to_string(),
                kind: FailureKind::Held,
            },
        })
    }
}

impl Node {
    /// Takes the Shards that can be had, and rebuilds what ran on them.
    pub fn open(opening: Opening<'_>) -> Result<Opened, CommitError> {
        let Opening { holder, destinations, moment, expires_at, store, mut live, performs, .. } = opening;
        let (bounds, anchor) = (opening.bounds, opening.anchor);
        let claim = Claim { holder, most: u16::MAX, now: moment.now, expires_at };
        let lease = store.acquire(&claim)?;
        let lease_for_ms = expires_at.0.saturating_sub(moment.now.0);
        let mut newest = lease.steady_at();
        // Whoever held them went on for no longer without saying so.
        let newest_max = newest.map(|at| at.after_ms(lease_for_ms));
        let shards: Vec<Shard> = lease.shards().to_vec();
        let mut reader = store.reader()?;
        let pauses = Pauses::read(&mut *reader)?;
        let destinations = Arc::new(Here::read(destinations, store.restored_at(), &mut *reader)?);
        let room = Room::within(bounds);
        let mut librarian = Librarian::new(reader, destinations.clone(), store.shards());
        let mut node = Self {
            sleepers: Sleepers::on(&shards, moment.now),
            shards: Shards::held_of(shards, store.shards()),
            library: Library::within(room.library_bytes_max()),
            destinations,
            performs: if performs { Performs::Yes } else { Performs::Never },
            anchor: Anchor::default(),
            shows_at: moment.steady.after_ms(SHOW_EVERY_MS),
            executions: Executions::default(),
            ready: Ready::default(),
            room,
            errands: Errands::numbered_from(moment.entropy),
            watchers: Watchers::default(),
            activities: Activities::default(),
            pauses,
            map_runs: MapRuns::numbered_from(moment.entropy),
            outgoing: Outgoing::default(),
        };
        let mut waiting = BTreeSet::new();
        if performs {
            node.search_map_runs();
            let mut reader = store.reader()?;
            for shard in node.shards.held() {
                if !reader.waiting(*shard, None, 1)?.is_empty() {
                    waiting.insert(*shard);
                }
            }
        }
        let mut recovery = store.recover(&lease)?;
        // Before the journal goes on without them.
        if !recovery.aside.is_empty() {
            store.set_aside(&lease, &std::mem::take(&mut recovery.aside))?;
        }
        let (mut aside, mut unreadable) = (Vec::new(), Vec::new());
        node.room.running += recovery.totals.running();
        let mut committer = Committer::new(lease.clone(), store.shards(), &recovery);
        for (execution, what) in &recovery.damaged {
            tracing::error!(execution = execution.map(tracing::field::display), what, "damaged");
            if let Some(execution) = execution {
                node.park_unreadable(*execution, what.as_str().into());
            }
        }
        for stored in recovery.executions {
            let (id, base) = (stored.execution, base_of(&stored));
            let left = node.recover(stored, (&mut librarian, &mut committer), (&mut live, &moment))?;
            unreadable.extend(base.filter(|_| !left.is_empty()));
            aside.extend(left);
            let running = node.executions.get(id).and_then(Slot::running);
            // Histories are told by the wall, which may have been wrong.
            let last_at = running.map(|running| running.execution.last_at());
            let is_plausible = |at: &Timestamp| newest_max.is_none_or(|most| *at <= most);
            newest = newest.max(last_at.filter(is_plausible));
            if committer.gathered() > 0 {
                waiting.insert(node.shards.of(id));
            }
            if committer.gathered_bytes() > PUT_OFF_BYTES {
                Self::put_off(&mut committer, store)?;
            }
        }
        if !aside.is_empty() {
            store.set_aside(&lease, &aside)?;
            committer.unpin(&unreadable);
        }
        Self::put_off(&mut committer, store)?;
        node.sleepers.resuming.look_on(waiting);
        node.anchor = anchor.unwrap_or_else(|| Anchor::begin(&moment, newest));
        node.shows_at = node.shows_at.after_ms(node.anchor.ahead_ms());
        Ok(Opened { node, committer, librarian })
    }

    /// Rebuilds one. What is to be set aside of it, should that not be possible.
    pub(super) fn recover(
        &mut self,
        stored: perdura_store::Recovered,
        (librarian, committer): (&mut Librarian, &mut Committer),
        (live, moment): (&mut Live, &Moment),
    ) -> Result<Vec<Aside>, Failure> {
        let id = stored.execution;
        let turns = stored.turns.clone();
        let rebuilt = librarian.rebuild(stored);
        librarian.fresh().into_iter().for_each(|definition| self.library.put(definition));
        match rebuilt {
            // There is no room for it now: it sleeps until there is. One of a line of descent that goes on without a place
            // stays: whoever fills memory may wait for it.
            Ok(running)
                if self.performs.sees_to_calls()
                    && !self.has_room()
                    && !live.calls.contains_key(&id)
                    && running.nesting.is_none_or(|nesting| nesting.has_place) =>
            {
                committer.rest_on_journal(&running);
                self.room.nest(id, running.nesting.filter(|_| !running.execution.is_ended()));
                committer.add(Item { is_put_off: true, ..Item::as_it_is(Box::new(running), moment) });
            }
            Ok(running) => {
                committer.rest_on_journal(&running);
                let is_ended = running.execution.is_ended();
                let parent = self.parent_of(&running);
                self.install(Box::new(running), moment);
                let slot = self.executions.get_mut(id).expect("it was just installed");
                slot.gate.awaits_parent = parent.is_some();
                self.errands.extend(parent);
                slot.calls = Calls::of(live.calls.remove(&id).unwrap_or_default());
                match slot.child {
                    _ if is_ended || !self.performs.sees_to_calls() || slot.gate.is_anothers => {}
                    Some(child) => self.await_run(id, child),
                    None => slot.inbox.push_back(Queued { input: Input::Resume, reply: ReplyTo::Nobody }),
                }
                let slot = self.executions.get_mut(id).expect("it was just installed");
                for (by, outcome) in live.answers.remove(&id).into_iter().flatten() {
                    let input = Input::TaskOutcome { by, outcome };
                    slot.inbox.push_back(Queued { input, reply: ReplyTo::Nobody });
                }
                self.make_ready(id);
            }
            Err(Unreadable::Damaged(damage)) => {
                self.park_unreadable(id, damage.0.into());
                return Ok(Aside::of(id, &turns));
            }
            // The journal would go on without it, and forget what it needs: better not to open at all.
            Err(Unreadable::Unavailable(failure)) => return Err(failure),
        }
        Ok(Vec::new())
    }

    /// Writes those for which there is no room.
    pub(super) fn put_off(committer: &mut Committer, store: &mut dyn Store) -> Result<(), CommitError> {
        if let Some(prepared) = committer.hand_over() {
            let put_off = prepared.len();
            prepared.write(store)?;
            tracing::info!(put_off, "there is no room in memory: they go on as soon as there is");
        }
        Ok(())
    }

    /// The node goes down: everybody who waits is told, and what this process has under way is handed on.
    pub fn abandon(self, why: &Unavailable) -> Live {
        let mut live = Live::default();
        for (id, mut slot) in self.executions.into_all() {
            let (told, answer) = match slot.body {
                Body::Away(Away { told, answer }) => (told, answer),
                Body::Here(_) | Body::Unreadable => (None, None),
            };
            let mut answers: Vec<(By, Outcome)> = answer.into_iter().collect();
            for queued in std::mem::take(&mut slot.inbox) {
                match queued.input {
                    Input::TaskOutcome { by, outcome } if slot.calls.is_live(&by) => {
                        answers.push((by, outcome));
                    }
                    _ => queued.reply.refuse(InputError::Unavailable(why.clone())),
                }
            }
            for (by, _) in &answers {
                slot.calls.keep(by);
            }
            if let Some(reply) = told {
                reply.refuse(InputError::Unavailable(why.clone()));
            }
            for reply in slot.shows {
                reply.send(None);
            }
            if !slot.calls.live().is_empty() {
                live.calls.insert(id, slot.calls.into_live());
            }
            if !answers.is_empty() {
                live.answers.insert(id, answers);
            }
        }
        self.room.abandon(why);
        for errand in self.errands.into_all() {
            errand.refuse(why);
        }
        for wish in self.outgoing.wishes {
            wish.refuse(why);
        }
        for watcher in self.watchers.into_all() {
            watcher.refuse(InputError::Unavailable(why.clone()));
        }
        self.activities.abandon(why);
        live
    }
}
