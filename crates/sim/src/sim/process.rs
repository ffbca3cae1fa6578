//! A process: it opens its store, takes Turns, has them written, and does what they ask for, as the runtime's threads do.

use super::{Everybody, Happening, Letter, Sim};
use crate::clock::Steady;
use crate::facts::Left;
use crate::observed::Life;
use crate::sabotage::Sabotage;
use crate::store::SimStore;
use perdura_engine::{Call, ExecutionId, Moment};
use perdura_runtime::{
    Anchor, Bounds, Committed, Committer, Deed, Live, Message, Node, Opening, Prepared, Resolver, Unavailable,
};
use perdura_store::{CommitError, Store};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many executions one commit takes at most.
const GROUP_MAX: usize = 1_024;
/// For how long a Lease is good.
const LEASE_FOR_MS: i64 = 10_000;

/// A process, whether it runs or not.
pub(super) struct Process {
    pub(super) holder: Arc<str>,
    pub(super) boot: u32,
    steady: Option<Steady>,
    /// How its nodes take steady time from that.
    anchor: Option<Anchor>,
    pub(super) state: State,
    pub(super) paused_until: i64,
    inbox: VecDeque<Message>,
    /// Another one was begun in its place: once it is fenced, it ends.
    pub(super) is_replaced: bool,
}

/// What it is doing.
pub(super) enum State {
    Down,
    Up(Box<Up>),
    /// Its store failed; it opens it again, and the calls that it makes go on.
    Reopening(Live),
}

/// A node at work.
pub(super) struct Up {
    pub(super) node: Node,
    pub(super) store: SimStore,
    committer: Committer,
    /// A group is being written, or its writer has not said yet what came of it.
    pub(super) is_writing: bool,
    writing: Option<Prepared>,
    reported: Option<Result<Committed, CommitError>>,
    renews_at: perdura_engine::Timestamp,
    /// The next step that is queued.
    steps_at: Option<i64>,
    /// It is asked to end, by this time.
    pub(super) closes_by: Option<i64>,
}

impl Process {
    pub(super) fn new(holder: Arc<str>) -> Self {
        Self {
            holder,
            boot: 0,
            steady: None,
            anchor: None,
            state: State::Down,
            paused_until: 0,
            inbox: VecDeque::new(),
            is_replaced: false,
        }
    }

    /// It is gone, with all that it knew.
    pub(super) fn lose(&mut self) {
        self.state = State::Down;
        self.inbox.clear();
        self.paused_until = 0;
    }

    pub(super) fn serves(&self) -> bool {
        matches!(&self.state, State::Up(up) if up.closes_by.is_none())
    }
}

impl Sim {
    fn life(&self, process: usize) -> Life {
        Life { process, boot: self.processes[process].boot }
    }

    /// Whether this life still lasts; one that is paused goes on later.
    pub(super) fn lives(&mut self, life: Life, happening: impl FnOnce() -> Happening) -> bool {
        let process = &self.processes[life.process];
        if process.boot != life.boot || matches!(process.state, State::Down) {
            return false;
        }
        if process.paused_until > self.clock.now() {
            let until = process.paused_until;
            self.at(until, happening());
            return false;
        }
        true
    }

    fn moment(&mut self, life: Life) -> Moment {
        let steady = self.processes[life.process].steady.expect("a process that runs has a clock");
        let mut moment = self.clock.moment(steady);
        if self.sabotage == Some(Sabotage::ClockAhead) {
            moment.now = moment.now.after_ms(30_000);
            moment.steady = moment.steady.after_ms(30_000);
        }
        moment
    }

    pub(super) fn boot(&mut self, process: usize) {
        if !matches!(self.processes[process].state, State::Down) {
            return;
        }
        self.processes[process].boot += 1;
        let steady = self.clock.boot();
        self.processes[process].steady = Some(steady);
        self.processes[process].anchor =
            (self.sabotage == Some(Sabotage::SteadyForgotten)).then(Anchor::default);
        let life = self.life(process);
        self.facts.lives.insert(life, steady);
        self.facts.count("boots");
        let live = if self.sabotage == Some(Sabotage::ResumeForgotten) {
            self.calls_on_record()
        } else {
            Live::default()
        };
        self.open(life, live);
    }

    pub(super) fn reopen(&mut self, life: Life) {
        if !self.lives(life, || Happening::Reopen(life)) {
            return;
        }
        if let State::Reopening(live) = &self.processes[life.process].state {
            let live = live.clone();
            self.open(life, live);
        }
    }

    fn open(&mut self, life: Life, live: Live) {
        let mut store = self.handle(life);
        let moment = self.moment(life);
        let opening = Opening {
            holder: self.processes[life.process].holder.clone(),
            destinations: Arc::new(Everybody),
            moment,
            expires_at: moment.now.after_ms(LEASE_FOR_MS),
            store: &mut store,
            live: live.clone(),
            performs: true,
            resolver: Resolver::default(),
            bounds: Bounds::default(),
            anchor: self.processes[life.process].anchor.clone(),
        };
        let opened = Node::open(opening);
        self.processes[life.process].state = State::Reopening(live);
        let (node, mut committer) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.say(|| format!("{life:?} cannot open the store: {error}"));
                let pause = self.dice.between(100..=3_000);
                return self.after(pause, Happening::Reopen(life));
            }
        };
        if committer.leases().count() < usize::from(self.plan.shards) {
            self.facts.count("standbys");
            let pause = self.dice.between(1_000..=4_000);
            return self.after(pause, Happening::Reopen(life));
        }
        committer.read_back();
        let epoch = committer.leases().next().map(|lease| lease.epoch());
        self.say(|| format!("{life:?} opened under epoch {epoch:?} with {} in memory", node.in_memory()));
        let renews_at = moment.steady;
        self.facts.followed(life, node.steady_ahead_ms());
        self.facts.followed(life, node.new_ahead_ms());
        let up = Up {
            node,
            store,
            committer,
            is_writing: false,
            writing: None,
            reported: None,
            renews_at,
            steps_at: None,
            closes_by: None,
        };
        self.processes[life.process].state = State::Up(Box::new(up));
        self.list_soon(500);
        self.step_at(life, self.clock.now());
    }

    /// Something arrives at a process.
    pub(super) fn post(&mut self, life: Life, message: Message) {
        let process = &mut self.processes[life.process];
        if process.boot != life.boot || matches!(process.state, State::Down) {
            return;
        }
        process.inbox.push_back(message);
        let soon = self.clock.now() + self.dice.between(0..=2);
        self.step_at(life, soon);
    }

    /// Has a process go on at a time, unless it does so before anyway.
    fn step_at(&mut self, life: Life, at: i64) {
        let State::Up(up) = &mut self.processes[life.process].state else { return };
        if up.steps_at.is_none_or(|planned| at < planned) {
            up.steps_at = Some(at);
            self.at(at, Happening::Step(life));
        }
    }

    /// One pass of the node's thread.
    pub(super) fn step(&mut self, life: Life) {
        if !self.lives(life, || Happening::Step(life)) {
            return;
        }
        if !matches!(self.processes[life.process].state, State::Up(_)) {
            return;
        }
        let State::Up(mut up) = std::mem::replace(&mut self.processes[life.process].state, State::Down)
        else {
            unreachable!("it was just seen to be up");
        };
        if up.steps_at.is_some_and(|planned| planned <= self.clock.now()) {
            up.steps_at = None;
        }
        let inbox = std::mem::take(&mut self.processes[life.process].inbox);
        for message in inbox {
            up.node.take(message, &self.moment(life));
        }
        self.dawdle(life);
        let is_due = up.node.next_wake().wall.is_some_and(|at| at <= self.clock.wall());
        up.node.wake(&self.moment(life));
        self.dawdle(life);
        if is_due {
            self.take_back(life);
        }
        let room = GROUP_MAX.saturating_sub(up.committer.gathered());
        for item in up.node.decide(room, &mut || self.moment(life)) {
            up.committer.add(item);
        }
        up.committer.add_map_runs(up.node.map_run_rows());
        for deed in up.node.fetches() {
            let soon = self.dice.between(0..=3);
            self.after(soon, Happening::Perform(life, deed));
        }
        let failed = self.hand_over(life, &mut up);
        let ends = up.closes_by.is_some_and(|by| {
            !up.is_writing
                && !up.node.has_work()
                && up.committer.gathered() == 0
                && (up.node.live_calls() == 0 || self.clock.now() >= by)
        });
        let goes_on_at = self.goes_on_at(life, &up);
        self.facts.followed(life, up.node.steady_ahead_ms());
        self.facts.followed(life, up.node.new_ahead_ms());
        self.processes[life.process].state = State::Up(up);
        if let Some(why) = failed {
            self.fail(life, &why);
        } else if ends {
            self.end(life);
        } else if let Some(at) = goes_on_at {
            self.step_at(life, at);
        }
    }

    fn goes_on_at(&self, life: Life, up: &Up) -> Option<i64> {
        let now = self.clock.now();
        if up.node.has_work() && up.committer.gathered() < GROUP_MAX {
            return Some(now);
        }
        let steady = self.processes[life.process].steady?;
        let wake = up.node.next_wake();
        let waits = [
            wake.steady.map(|at| self.clock.until_steady(steady, at)),
            wake.wall.map(|at| self.clock.until_wall(at)),
            Some(self.clock.until_steady(steady, up.renews_at)),
            up.closes_by.map(|by| by - now),
        ];
        let late = if self.sabotage == Some(Sabotage::WokenLate) { 20_000 } else { 0 };
        // What is due and was not done waits for the writer; it is looked at again when that is done.
        waits.into_iter().flatten().min().map(|wait| now + wait.max(1) + late)
    }

    fn hand_over(&mut self, life: Life, up: &mut Up) -> Option<String> {
        if up.is_writing {
            return None;
        }
        let moment = self.moment(life);
        if moment.steady >= up.renews_at {
            up.renews_at = moment.steady.after_ms(LEASE_FOR_MS / 2);
            let renewal = up.node.renewal(&moment, LEASE_FOR_MS);
            for lease in up.committer.leases() {
                if let Err(error) = up.store.renew(lease, renewal) {
                    return Some(error.to_string());
                }
            }
        }
        if let Some(prepared) = up.committer.hand_over() {
            up.is_writing = true;
            up.writing = Some(prepared);
            let slow = self.is_rough() && self.dice.in_thousand(self.plan.weather.slow_commit);
            let takes = if slow { self.dice.between(10..=3_000) } else { self.dice.between(0..=4) };
            self.after(takes, Happening::Commit(life));
        }
        None
    }

    pub(super) fn commit(&mut self, life: Life) {
        if !self.lives(life, || Happening::Commit(life)) || self.dies(life, "before a commit") {
            return;
        }
        if self.stalls(life) {
            return self.commit(life);
        }
        let State::Up(up) = &mut self.processes[life.process].state else { return };
        let Some(prepared) = up.writing.take() else { return };
        let result = prepared.write(&mut up.store);
        let line = match &result {
            Ok(_) => "committed".to_owned(),
            Err(error) => format!("could not commit: {error}"),
        };
        up.reported = Some(result);
        self.say(|| format!("{life:?} {line}"));
        if self.dies(life, "after a commit") {
            return;
        }
        let takes = self.dice.between(0..=2);
        self.after(takes, Happening::Report(life));
    }

    pub(super) fn report(&mut self, life: Life) {
        if !self.lives(life, || Happening::Report(life)) {
            return;
        }
        let State::Up(up) = &mut self.processes[life.process].state else { return };
        let Some(result) = up.reported.take() else { return };
        up.is_writing = false;
        let committed = match result {
            Ok(committed) => committed,
            Err(error) => return self.fail(life, &error.to_string()),
        };
        let deeds = up.node.settle(committed);
        self.facts.count("groups settled");
        let is_lazy = matches!(self.sabotage, Some(Sabotage::EffectsFirst | Sabotage::RepliesFirst));
        let mut at = self.clock.now();
        if is_lazy {
            let kept_at = at + self.dice.between(5..=200);
            self.at(kept_at, Happening::Keep(life));
            if self.sabotage == Some(Sabotage::RepliesFirst) {
                at = kept_at + 1;
            }
        }
        for deed in deeds {
            at += self.dice.between(0..=1);
            self.at(at, Happening::Perform(life, deed));
        }
        self.step_at(life, self.clock.now());
    }

    /// Its store failed: everybody who waits is told, and it tries again.
    fn fail(&mut self, life: Life, why: &str) {
        let process = &mut self.processes[life.process];
        let State::Up(up) = std::mem::replace(&mut process.state, State::Down) else { return };
        process.anchor = Some(up.node.anchor());
        let live = up.node.abandon(&Unavailable::Store(why.into()));
        self.facts.count("stores lost and opened again");
        self.say(|| format!("{life:?} lost its store: {why}"));
        if self.processes[life.process].is_replaced {
            self.say(|| format!("{life:?} was replaced, and ends"));
            return self.processes[life.process].lose();
        }
        self.processes[life.process].state = State::Reopening(live);
        let pause = self.dice.between(100..=2_000);
        self.after(pause, Happening::Reopen(life));
    }

    /// It was asked to end, and is begun again.
    fn end(&mut self, life: Life) {
        let process = &mut self.processes[life.process];
        let State::Up(up) = std::mem::replace(&mut process.state, State::Down) else { return };
        let Up { node, mut store, mut committer, .. } = *up;
        node.abandon(&Unavailable::Closing);
        for lease in committer.leases() {
            // One that was fenced has nothing to give back.
            let _ = store.release(lease);
        }
        self.processes[life.process].lose();
        self.say(|| format!("{life:?} ended as it was asked to"));
        if !self.processes[life.process].is_replaced {
            let pause = self.dice.between(10..=3_000);
            self.after(pause, Happening::Boot(life.process));
        }
    }

    pub(super) fn perform(&mut self, life: Life, deed: Deed) {
        let process = &self.processes[life.process];
        if process.boot != life.boot || matches!(process.state, State::Down) {
            return;
        }
        if process.paused_until > self.clock.now() {
            let until = process.paused_until;
            return self.at(until, Happening::Perform(life, deed));
        }
        let (execution, call) = match deed {
            Deed::Perform { execution, call } => (execution, call),
            Deed::Fetch(fetch) => return self.fetch(life, fetch),
            Deed::Cancel { .. } | Deed::Publish { .. } => return,
        };
        if self.dies(life, "before a call") {
            return;
        }
        self.send(life, execution, call);
        self.dies(life, "after a call");
    }

    fn send(&mut self, by: Life, execution: ExecutionId, mut call: Call) {
        let ordered = self
            .disk()
            .observed
            .keys
            .get(&call.key)
            .map_or(0, |seen| seen.ordered.get(&by).copied().unwrap_or(0));
        self.facts.left.push(Left { by, key: call.key.clone(), at: self.clock.now(), ordered });
        self.facts.count("calls");
        self.say(|| format!("{by:?} calls {}", call.key));
        let mut is_again = true;
        let first = *self.called.entry(call.key.readable().to_owned()).or_insert_with(|| {
            is_again = false;
            call.strand
        });
        if is_again {
            self.facts.count("calls made again");
        }
        match self.sabotage {
            Some(Sabotage::NewBytesOnRepeat) if is_again => {
                call.input = crate::receiver::payload(r#"{"n":-7}"#.into());
            }
            Some(Sabotage::NewKeyOnRepeat) if is_again => call.key = self.another_key(&call),
            Some(Sabotage::RunsForgetKeys) if first != call.strand => call.key = self.another_key(&call),
            Some(Sabotage::CalledAfterwards) => {
                let letter = Letter { by, execution, call: call.clone() };
                let left = self.facts.left.last().expect("one just left").clone();
                self.facts.left.push(left);
                self.after(30_000, Happening::Deliver(Box::new(letter)));
            }
            _ => {}
        }
        let takes = self.dice.between(0..=10);
        self.after(takes, Happening::Deliver(Box::new(Letter { by, execution, call })));
    }

    pub(super) fn keep_promises(&mut self, life: Life) {
        if !self.lives(life, || Happening::Keep(life)) {
            return;
        }
        let mut store = self.handle(life);
        if let Err(error) = store.keep_promises() {
            self.say(|| format!("{life:?} broke its promise: {error}"));
        }
    }

    /// After everything: one more process, to see that there is nothing left to do.
    pub(super) fn open_at_last(&mut self) {
        let life = Life { process: self.processes.len(), boot: 0 };
        self.clock.advance_to(self.clock.now() + 4_000_000);
        let mut store = self.handle(life);
        let steady = self.clock.boot();
        let moment = self.clock.moment(steady);
        let opening = Opening {
            holder: "at last".into(),
            destinations: Arc::new(Everybody),
            moment,
            expires_at: moment.now.after_ms(LEASE_FOR_MS),
            store: &mut store,
            live: Live::default(),
            performs: true,
            resolver: Resolver::default(),
            bounds: Bounds::default(),
            anchor: None,
        };
        match Node::open(opening) {
            Ok((node, _)) => {
                self.facts.in_memory_at_last = node.in_memory();
                self.facts.parked_at_last = node.parked();
            }
            Err(error) => self.facts.complaints.push(format!("the store cannot be opened at last: {error}")),
        }
    }
}
