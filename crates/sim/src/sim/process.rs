//! A process: it drives the runtime's loop, with a simulated store, writer and clock.

use super::{Everybody, Happening, Letter, Sim};
use crate::clock::Steady;
use crate::facts::Left;
use crate::observed::Life;
use crate::sabotage::Sabotage;
use crate::store::SimStore;
use perdura_engine::{Call, ExecutionId, Moment, Wake};
use perdura_runtime::{
    Anchor, Bounds, Chore, Committed, Core, Deed, Event, Finding, Librarian, Live, Message, Next, Node,
    Opened, Opening, Prepared, Question,
};
use perdura_store::{CommitError, Failure, FailureKind, Lease, Store};
use std::collections::VecDeque;
use std::sync::Arc;

/// The duration of a Lease.
const LEASE_FOR_MS: i64 = 10_000;

/// A process, whether it runs or not.
pub(super) struct Process {
    pub(super) holder: Arc<str>,
    pub(super) boot: u32,
    steady: Option<Steady>,
    pub(super) state: State,
    pub(super) paused_until: i64,
    inbox: VecDeque<Event>,
    /// The most Shards that it takes.
    pub(super) most: u16,
    /// It takes all Shards that it can get when it begins next.
    pub(super) wants_all: bool,
    /// Another one was begun in its place: once it is fenced, it ends.
    pub(super) is_replaced: bool,
}

pub(super) enum State {
    Down,
    Up(Box<Up>),
}

/// A loop at work.
pub(super) struct Up {
    pub(super) core: Core,
    /// Present while the loop has its node.
    pub(super) store: Option<SimStore>,
    /// Its reader.
    librarian: Option<Librarian>,
    writing: Option<Box<Prepared>>,
    reported: Option<Result<Committed, CommitError>>,
    /// The next step that is queued.
    steps_at: Option<i64>,
    /// It performs no effects before this time.
    does_from: i64,
    /// It is asked to end.
    closes: bool,
}

impl Process {
    pub(super) fn new(holder: Arc<str>) -> Self {
        Self {
            holder,
            boot: 0,
            steady: None,
            state: State::Down,
            paused_until: 0,
            inbox: VecDeque::new(),
            most: u16::MAX,
            wants_all: false,
            is_replaced: false,
        }
    }

    /// It is gone, with its memory.
    pub(super) fn lose(&mut self) {
        self.state = State::Down;
        self.inbox.clear();
        self.paused_until = 0;
    }

    pub(super) fn serves(&self) -> bool {
        matches!(&self.state, State::Up(up) if !up.closes && up.core.open().is_some())
    }

    /// It neither reads nor writes.
    pub(super) fn is_away(&self) -> bool {
        match &self.state {
            State::Down => true,
            State::Up(up) => up.store.is_none(),
        }
    }
}

impl Sim {
    fn life(&self, process: usize) -> Life {
        Life { process, boot: self.processes[process].boot }
    }

    /// Whether this process still runs; events of a paused one are postponed.
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
        let wanted = self.shards_wanted();
        let wants_all = std::mem::take(&mut self.processes[process].wants_all);
        self.processes[process].most = if wants_all { u16::MAX } else { wanted };
        let steady = self.clock.boot();
        self.processes[process].steady = Some(steady);
        let life = self.life(process);
        self.facts.lives.insert(life, steady);
        self.facts.count("boots");
        self.knows_what_is_held(life);
        let live = if self.sabotage == Some(Sabotage::ResumeForgotten) {
            self.calls_on_record()
        } else {
            Live::default()
        };
        let up = Up {
            core: Core::new(LEASE_FOR_MS, live),
            store: None,
            librarian: None,
            writing: None,
            reported: None,
            steps_at: None,
            does_from: 0,
            closes: false,
        };
        self.processes[process].state = State::Up(Box::new(up));
        self.step_at(life, self.clock.now());
    }

    fn open(
        &mut self,
        life: Life,
        live: Live,
        anchor: Option<Anchor>,
    ) -> Result<(SimStore, Opened), Failure> {
        let mut store = self.handle(life);
        let opening = {
            let (mut moment, holder) = (self.moment(life), self.processes[life.process].holder.clone());
            if self.sabotage == Some(Sabotage::JumpsBelieved) {
                // The time for which a jump is doubted passes before the process begins.
                (moment.now, moment.steady) = (moment.now.after_ms(-60_000), moment.steady.after_ms(-60_000));
            }
            opening(moment, holder, self.destinations(), &mut store)
        };
        let opened = Node::open(Opening { live, anchor, ..opening });
        let mut opened = opened.map_err(|error| {
            self.say(|| format!("{life:?} cannot open the store: {error}"));
            held(&error.to_string())
        })?;
        let (node, committer) = (&opened.node, &mut opened.committer);
        let shards = committer.lease().shards().len();
        if !self.plan.is_cluster && shards < usize::from(self.plan.shards) {
            self.facts.count("standbys");
            return Err(held("another process holds some of the shards"));
        }
        committer.read_back();
        let number = committer.lease().incarnation();
        self.say(|| {
            format!(
                "{life:?} opened as incarnation {number} on {shards} shards with {} in memory",
                node.in_memory()
            )
        });
        self.list_soon(500);
        Ok((store, opened))
    }

    /// Something arrives at a process.
    pub(super) fn post(&mut self, life: Life, message: Message) {
        self.send_event(life, Event::Message(message));
    }

    /// Asks a process to end, within this time.
    pub(super) fn ask_to_end(&mut self, process: usize, grace_ms: i64) {
        let life = self.life(process);
        let State::Up(up) = &mut self.processes[process].state else { return };
        if up.core.open().is_none() || up.closes {
            return;
        }
        up.closes = true;
        self.facts.count("graceful restarts");
        self.send_event(life, Event::Close { grace_ms });
    }

    pub(super) fn send_event(&mut self, life: Life, event: Event) {
        let process = &mut self.processes[life.process];
        if process.boot != life.boot || matches!(process.state, State::Down) {
            return;
        }
        process.inbox.push_back(event);
        let soon = self.clock.now() + self.dice.between(0..=2);
        self.step_at(life, soon);
    }

    /// Makes a process continue at a time, unless it does so before anyway.
    fn step_at(&mut self, life: Life, at: i64) {
        let State::Up(up) = &mut self.processes[life.process].state else { return };
        if up.steps_at.is_none_or(|planned| at < planned) {
            up.steps_at = Some(at);
            self.at(at, Happening::Step(life));
        }
    }

    /// One pass of the thread that decides.
    pub(super) fn step(&mut self, life: Life) {
        if !self.lives(life, || Happening::Step(life)) {
            return;
        }
        let State::Up(mut up) = std::mem::replace(&mut self.processes[life.process].state, State::Down)
        else {
            unreachable!("a process that lives is up");
        };
        if up.steps_at.is_some_and(|planned| planned <= self.clock.now()) {
            up.steps_at = None;
        }
        for event in std::mem::take(&mut self.processes[life.process].inbox) {
            up.core.take(event, &self.moment(life));
        }
        self.dawdle(life);
        let wall = self.clock.wall();
        let mut is_due =
            up.core.open().is_some_and(|(node, _)| node.next_wake().wall.is_some_and(|at| at <= wall));
        let mut goes_on_at = None;
        let ended = loop {
            let mut looks = 0;
            let next = up.core.next(&mut || {
                looks += 1;
                // After a wake, and before it is decided.
                if looks == 2 {
                    self.dawdle(life);
                    if std::mem::take(&mut is_due) {
                        self.take_back(life);
                    }
                }
                self.moment(life)
            });
            match next {
                Next::Do(deed) => {
                    let at = self.clock.now().max(up.does_from) + self.dice.between(0..=2);
                    self.at(at, Happening::Perform(life, deed));
                }
                Next::Commit(prepared) => {
                    up.writing = Some(prepared);
                    let slow = self.is_rough() && self.dice.in_thousand(self.plan.weather.slow_commit);
                    let takes = if slow { self.dice.between(10..=3_000) } else { self.dice.between(0..=4) };
                    self.after(takes, Happening::Commit(life));
                }
                Next::Pass(pass) => self.carry(life, pass),
                Next::Read(questions) => {
                    for question in questions {
                        let takes = self.reading_takes();
                        self.after(takes, Happening::LookUp(life, question));
                    }
                }
                Next::See(chore) => self.see_to(life, &mut up, chore),
                Next::Open(live, anchor) => {
                    let is_forgotten = self.sabotage == Some(Sabotage::SteadyForgotten);
                    let anchor = anchor.or_else(|| is_forgotten.then(Anchor::default));
                    let opened = self.open(life, live, anchor).map(|(store, opened)| {
                        let Opened { node, committer, librarian } = opened;
                        (up.store, up.librarian) = (Some(store), Some(librarian));
                        Box::new((node, committer))
                    });
                    up.core.take(Event::Opened(opened), &self.moment(life));
                }
                Next::Sleep(wake) => {
                    goes_on_at = self.goes_on_at(life, wake);
                    break None;
                }
                Next::Closed(lease) => break Some(lease),
            }
        };
        if let Some((node, _)) = up.core.open() {
            self.facts.followed(life, node.steady_ahead_ms());
            self.facts.followed(life, node.new_ahead_ms());
        }
        let has_lost = up.core.open().is_none() && up.store.take().is_some();
        if has_lost {
            up.librarian = None;
        }
        if let Some(lease) = ended {
            return self.end(life, up.store, lease.as_ref());
        }
        self.processes[life.process].state = State::Up(up);
        if has_lost {
            self.lost(life);
        }
        if let Some(at) = goes_on_at {
            self.step_at(life, at);
        }
    }

    /// Half of the time of a read: drawn for each, so that answers come in any order.
    fn reading_takes(&mut self) -> i64 {
        let is_slow = self.is_rough() && self.dice.in_thousand(self.plan.weather.slow_read);
        if is_slow { self.dice.between(10..=2_000) } else { self.dice.between(0..=1) }
    }

    /// A process's reader has read, and reports that a little later.
    pub(super) fn look_up(&mut self, life: Life, question: Question) {
        let process = &mut self.processes[life.process];
        let State::Up(up) = &mut process.state else { return };
        if process.boot != life.boot {
            return;
        }
        let Some(librarian) = &mut up.librarian else { return };
        let finding = librarian.answer(question);
        self.facts.count("questions");
        let takes = self.reading_takes();
        self.after(takes, Happening::Found(life, Box::new(finding)));
    }

    pub(super) fn found(&mut self, life: Life, finding: Finding) {
        self.send_event(life, Event::Read(finding));
    }

    fn goes_on_at(&self, life: Life, wake: Wake) -> Option<i64> {
        let now = self.clock.now();
        let steady = self.processes[life.process].steady?;
        let waits = [
            wake.steady.map(|at| self.clock.until_steady(steady, at)),
            wake.wall.map(|at| self.clock.until_wall(at)),
        ];
        let wait = waits.into_iter().flatten().min()?;
        let late = if wait > 0 && self.sabotage == Some(Sabotage::WokenLate) { 20_000 } else { 0 };
        // Work that is due and was not done waits for the writer; it is checked again when that is done.
        Some(now + wait.max(1) + late)
    }

    /// Performs a chore of the store, at once.
    fn see_to(&mut self, life: Life, up: &mut Up, chore: Chore) {
        let store = up.store.as_mut().expect("a node that is open has a store");
        let done = match chore {
            Chore::Sweep(slice, reply) => {
                let before = self.look_at(&slice);
                let done = Chore::Sweep(slice, reply).see_to(store);
                self.look_again(before);
                done
            }
            chore => chore.see_to(store),
        };
        up.core.take(Event::Done(done), &self.moment(life));
    }

    pub(super) fn commit(&mut self, life: Life) {
        if !self.lives(life, || Happening::Commit(life)) || self.dies(life, "before a commit") {
            return;
        }
        if self.stalls(life) {
            return self.commit(life);
        }
        let State::Up(up) = &mut self.processes[life.process].state else { return };
        let (Some(prepared), Some(store)) = (up.writing.take(), &mut up.store) else { return };
        let result = prepared.write(store);
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
        if result.is_ok() {
            self.facts.count("groups settled");
            self.promise(life);
        }
        self.processes[life.process].inbox.push_front(Event::Committed(result));
        self.step(life);
    }

    /// For sabotage: writes a commit only a little later.
    fn promise(&mut self, life: Life) {
        if matches!(self.sabotage, Some(Sabotage::EffectsFirst | Sabotage::RepliesFirst)) {
            let kept_at = self.clock.now() + self.dice.between(5..=200);
            self.at(kept_at, Happening::Keep(life));
            if let (Some(Sabotage::RepliesFirst), State::Up(up)) =
                (self.sabotage, &mut self.processes[life.process].state)
            {
                up.does_from = kept_at + 1;
            }
        }
    }

    /// Its store failed: it opens it again, unless another process took its place.
    fn lost(&mut self, life: Life) {
        self.facts.count("stores lost and opened again");
        self.say(|| format!("{life:?} lost its store"));
        if self.processes[life.process].is_replaced {
            self.say(|| format!("{life:?} was replaced, and ends"));
            self.processes[life.process].lose();
        }
    }

    /// It was asked to end, and is begun again.
    fn end(&mut self, life: Life, store: Option<SimStore>, lease: Option<&Lease>) {
        if let (Some(mut store), Some(lease)) = (store, lease) {
            // A fenced process has no lease to release.
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
            Deed::Perform { execution, call } | Deed::StandIn { execution, call } => (execution, call),
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

    /// At the very end: one more process, to see that there is nothing left to do.
    pub(super) fn open_at_last(&mut self) {
        let life = Life { process: self.processes.len(), boot: 0 };
        self.clock.advance_to(self.clock.now() + 4_000_000);
        let mut store = self.handle(life);
        let steady = self.clock.boot();
        let moment = self.clock.moment(steady);
        let opening = opening(moment, "at last".into(), self.destinations(), &mut store);
        match Node::open(opening) {
            Ok(Opened { node, .. }) => {
                self.facts.in_memory_at_last = node.in_memory();
                self.facts.parked_at_last = node.parked();
            }
            Err(error) => self.facts.complaints.push(format!("the store cannot be opened at last: {error}")),
        }
    }
}

fn opening(moment: Moment, holder: Arc<str>, destinations: Everybody, store: &mut SimStore) -> Opening<'_> {
    Opening {
        holder,
        destinations: Arc::new(destinations),
        moment,
        expires_at: moment.now.after_ms(LEASE_FOR_MS),
        store,
        live: Live::default(),
        performs: true,
        bounds: Bounds::default(),
        anchor: None,
    }
}

fn held(why: &str) -> Failure {
    Failure { what: "the shards cannot be taken".into(), why: why.into(), kind: FailureKind::Held }
}
