//! The loop: what arrives is taken in, decided, handed over to be written, and done after that.
//!
//! It has no threads, no clock and no store. A driver gives it what happened, asks what is next, does that, and says what
//! came of it: threads on a real machine, a simulation, or a command that holds the data for a moment. What the driver
//! does not say has not happened, so a crash is nothing but the loss of this value.

mod chore;

use crate::audit::Witnessed;
use crate::committer::{Committed, Committer, Prepared};
use crate::librarian::{Finding, Question};
use crate::message::{AdjustError, InputError, Message, StartError, Unavailable};
use crate::node::{Anchor, Deed, Live, Node, Wish};
use crate::peers::{Pass, PassNumber, Patience, Peers, Response, Step};
pub use chore::{Chore, Done};
use perdura_engine::{Moment, Timestamp, Wake};
use perdura_store::{CommitError, Erased, Failure, Lease};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many Turns one commit takes at most.
const GROUP_MAX: usize = 1_024;
/// A commit of this many bytes, uncompressed, takes no more Turns: its journal row has to be read again as one.
const GROUP_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// For so long Turns are decided before what arrived is looked at again.
const DECIDES_FOR_MS: i64 = 20;
/// How long to wait before a store that failed is opened again, at first and at most.
const OPENS_AFTER_MS: (i64, i64) = (100, 5_000);
/// How long what is in hand is worked off after the time for closing is up.
const FINISH_FOR_MS: i64 = 1_000;

/// What happened.
pub enum Event {
    /// Something arrived.
    Message(Message),
    /// What came of the group that was handed over.
    Committed(Result<Committed, CommitError>),
    /// What came of a chore.
    Done(Done),
    /// What another node answered to what was passed on to it.
    Told { number: PassNumber, response: Response },
    /// What came of a question.
    Read(Finding),
    /// What came of opening the store.
    Opened(Result<Box<(Node, Committer)>, Failure>),
    /// Nothing new is to be taken, no call begun, and those under way are to be waited for so long.
    Close { grace_ms: i64 },
}

/// What is to be done next.
pub enum Next {
    /// Write this. Until that is done nothing else is handed over, and the next group gathers.
    Commit(Box<Prepared>),
    /// Do this outside: its Turn is on disk.
    Do(Deed),
    /// Read this, beside everything else and in any order.
    Read(Vec<Question>),
    /// See to this in the store, before anything else is taken in.
    See(Chore),
    /// Carry this to another node; its answer may come late, twice or never.
    Pass(Pass),
    /// Open the store, for a node with these calls under way and this time.
    Open(Live, Option<Anchor>),
    /// There is nothing to do until something happens, or until then. A time that has come says: look at what arrived.
    Sleep(Wake),
    /// It is over: this is to be given back, if there is one.
    Closed(Option<Lease>),
}

/// The loop of one node.
pub struct Core {
    lease_for_ms: i64,
    state: State,
    /// What may be done now.
    deeds: VecDeque<Deed>,
    peers: Peers,
    /// It closes, and waits no longer than until then.
    closing: Option<Timestamp>,
    /// How long to wait before the store is opened again, should it fail.
    pause_ms: i64,
}

enum State {
    Open(Box<Open>),
    Shut(Box<Shut>),
    Over,
}

/// A node at work.
struct Open {
    node: Node,
    committer: Committer,
    /// A group is being written, or a chore seen to.
    is_busy: bool,
    wishes: VecDeque<Wish>,
    renews_at: Timestamp,
}

/// The store is not open.
struct Shut {
    live: Live,
    anchor: Option<Anchor>,
    /// Why; `None` at the beginning.
    why: Option<Arc<str>>,
    /// What came of calls meanwhile, and what was paused.
    kept: Vec<Message>,
    opens_at: Timestamp,
    is_opening: bool,
}

impl Core {
    /// One that begins by opening the store, with a Lease that is good for so long. A process that makes calls already
    /// says which.
    pub fn new(lease_for_ms: i64, live: Live) -> Self {
        let shut = Shut {
            live,
            anchor: None,
            why: None,
            kept: Vec::new(),
            opens_at: Timestamp(i64::MIN),
            is_opening: false,
        };
        Self {
            lease_for_ms,
            state: State::Shut(Box::new(shut)),
            deeds: VecDeque::new(),
            peers: Peers::default(),
            closing: None,
            pause_ms: OPENS_AFTER_MS.0,
        }
    }

    /// The node and its committer, while the store is open.
    pub fn open(&self) -> Option<(&Node, &Committer)> {
        match &self.state {
            State::Open(open) => Some((&open.node, &open.committer)),
            State::Shut(_) | State::Over => None,
        }
    }

    /// Why nothing can be written at the moment.
    pub fn trouble(&self) -> Option<&Arc<str>> {
        match &self.state {
            State::Shut(shut) => shut.why.as_ref(),
            State::Open(_) | State::Over => None,
        }
    }

    /// Whether a group is being written, or a chore seen to.
    pub fn is_busy(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.is_busy)
    }

    /// Rows for all that run, so that whoever reads the tables sees them now: to be written next, if there are any and
    /// nothing else is being written.
    pub fn show_all(&mut self, moment: &Moment) -> Option<Box<Prepared>> {
        let State::Open(open) = &mut self.state else { return None };
        if open.is_busy {
            return None;
        }
        open.node.show_all(moment);
        for item in open.node.gathered() {
            open.committer.add(item);
        }
        let prepared = open.committer.hand_over()?;
        open.is_busy = true;
        Some(prepared)
    }

    /// Until when nothing but time can bring anything, for a driver that need not wait for time: the next deadline of all
    /// executions. `None`: something is under way.
    pub fn idles_until(&mut self) -> Option<Wake> {
        match &mut self.state {
            State::Open(open) if self.deeds.is_empty() && !open.is_busy && self.peers.next_at().is_none() => {
                open.node.idles_until()
            }
            State::Open(_) | State::Shut(_) | State::Over => None,
        }
    }

    /// Something is to be read before anything else can be said.
    pub fn asks(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.node.has_questions())
    }

    /// Takes in what happened.
    pub fn take(&mut self, event: Event, moment: &Moment) {
        match event {
            Event::Message(message) => self.arrived(message, moment),
            Event::Committed(result) => self.committed(result, moment),
            Event::Done(done) => self.done(done, moment),
            Event::Told { number, response } => {
                if let Some((message, patience)) = self.peers.told(number, response, moment) {
                    self.take_again(message, patience, moment);
                }
            }
            Event::Read(finding) => {
                // What was asked by a node that is gone is of no use to another.
                if let State::Open(open) = &mut self.state {
                    open.node.hear(finding, moment);
                    if let Some(holders) = open.node.holders() {
                        self.peers.looked_up(holders, moment.steady);
                    }
                    self.pass_on(moment);
                }
            }
            Event::Opened(result) => self.opened(result, moment),
            Event::Close { grace_ms } => {
                self.closing = Some(moment.steady.after_ms(grace_ms));
                if let State::Open(open) = &mut self.state {
                    open.node.begin_no_more();
                }
            }
        }
    }

    fn arrived(&mut self, message: Message, moment: &Moment) {
        let is_new = !matches!(message, Message::Answer { .. } | Message::Fetched { .. });
        match &mut self.state {
            _ if self.closing.is_some() && is_new => refuse(message, &Unavailable::Closing),
            State::Over => refuse(message, &Unavailable::Closing),
            // What is paused may have been read already for the node that is being opened.
            State::Shut(shut) if matches!(message, Message::Answer { .. } | Message::Pace { .. }) => {
                shut.kept.push(message);
            }
            State::Shut(shut) => {
                let why = shut.why.clone().unwrap_or_else(|| "it is being opened".into());
                refuse(message, &Unavailable::Store(why));
            }
            State::Open(open) => {
                open.node.take(message, moment);
                self.pass_on(moment);
            }
        }
    }

    /// What belongs to another node is passed on.
    fn pass_on(&mut self, moment: &Moment) {
        let State::Open(open) = &mut self.state else { return };
        for stray in open.node.strays() {
            self.peers.pass(stray, moment);
        }
    }

    /// Another node could not do it, or did not answer: perhaps its Shard is held here by now.
    fn take_again(&mut self, message: Message, patience: Patience, moment: &Moment) {
        match &mut self.state {
            State::Open(open) => open.node.take_again(message, patience, moment),
            State::Shut(_) | State::Over => refuse(message, &Unavailable::Closing),
        }
        self.pass_on(moment);
    }

    /// The next request to be carried to another node.
    fn next_pass(&mut self, moment: &Moment) -> Option<Pass> {
        loop {
            let State::Open(open) = &mut self.state else { return None };
            match self.peers.next(open.committer.lease().holder(), moment.steady)? {
                Step::Look => open.node.look_for_holders(),
                Step::Pass(pass) => return Some(pass),
                Step::Again(message, patience) => self.take_again(message, patience, moment),
            }
        }
    }

    fn committed(&mut self, result: Result<Committed, CommitError>, moment: &Moment) {
        let State::Open(open) = &mut self.state else { return };
        open.is_busy = false;
        match result {
            Ok(committed) => {
                self.pause_ms = OPENS_AFTER_MS.0;
                self.deeds.extend(open.node.settle(committed));
            }
            Err(error) => self.fail(&error.to_string(), moment),
        }
    }

    fn done(&mut self, done: Done, moment: &Moment) {
        let State::Open(open) = &mut self.state else { return };
        open.is_busy = false;
        match done {
            Done::Renewed(Ok(lease)) => open.committer.renewed(lease),
            Done::Renewed(Err(error)) => self.fail(&error.to_string(), moment),
            Done::Swept | Done::Erased => {}
            Done::GivenUp(execution, result, reply) => {
                if result.is_ok() {
                    open.node.given_up(execution);
                }
                let unavailable = |error: CommitError| Unavailable::Store(error.to_string().into());
                reply.send(result.map(|_| true).map_err(|error| InputError::Unavailable(unavailable(error))));
            }
        }
    }

    fn opened(&mut self, result: Result<Box<(Node, Committer)>, Failure>, moment: &Moment) {
        let State::Shut(shut) = &mut self.state else { return };
        shut.is_opening = false;
        match result {
            Ok(opened) => {
                let (mut node, committer) = *opened;
                if self.closing.is_some() {
                    node.begin_no_more();
                }
                if shut.why.is_some() {
                    tracing::info!("the store is open again");
                }
                // At once: what is committed is never newer than the steady time on record by more than a lease lasts.
                let renews_at = moment.steady;
                let mut open = Open { node, committer, is_busy: false, wishes: VecDeque::new(), renews_at };
                for answer in shut.kept.drain(..) {
                    open.node.take(answer, moment);
                }
                self.state = State::Open(Box::new(open));
            }
            Err(failure) => {
                shut.why = Some(failure.to_string().into());
                shut.opens_at = moment.steady.after_ms(self.pause_ms);
                self.pause_ms = (self.pause_ms * 2).min(OPENS_AFTER_MS.1);
            }
        }
    }

    /// Nothing can be written any more: everybody who waits is told, and the store is opened again.
    fn fail(&mut self, why: &str, moment: &Moment) {
        let State::Open(open) = std::mem::replace(&mut self.state, State::Over) else { return };
        tracing::error!(why, "nothing can be written; the store is opened again");
        let why: Arc<str> = why.into();
        let unavailable = Unavailable::Store(why.clone());
        let Open { node, wishes, .. } = *open;
        for wish in wishes {
            wish.refuse(&unavailable);
        }
        self.peers.abandon(&unavailable);
        let anchor = Some(node.anchor());
        let shut = Shut {
            live: node.abandon(&unavailable),
            anchor,
            why: Some(why),
            kept: Vec::new(),
            opens_at: moment.steady.after_ms(self.pause_ms),
            is_opening: false,
        };
        self.pause_ms = (self.pause_ms * 2).min(OPENS_AFTER_MS.1);
        self.state = State::Shut(Box::new(shut));
    }

    /// What is to be done next. Deciding takes time, so the clock is asked for each Turn.
    pub fn next(&mut self, clock: &mut dyn FnMut() -> Moment) -> Next {
        if let Some(deed) = self.deeds.pop_front() {
            return Next::Do(deed);
        }
        let moment = clock();
        match &mut self.state {
            State::Over => Next::Closed(None),
            State::Shut(shut) if self.closing.is_some_and(|by| moment.steady >= by || shut.is_idle()) => {
                if !shut.is_idle() {
                    tracing::error!("ends although answers are not written: their calls are in doubt");
                }
                self.state = State::Over;
                Next::Closed(None)
            }
            State::Shut(shut) if shut.is_opening => Next::Sleep(Wake::default()),
            State::Shut(shut) if moment.steady < shut.opens_at => {
                let until = self.closing.map_or(shut.opens_at, |by| by.min(shut.opens_at));
                Next::Sleep(Wake { steady: Some(until), wall: None })
            }
            State::Shut(shut) => {
                shut.is_opening = true;
                Next::Open(shut.live.clone(), shut.anchor.clone())
            }
            State::Open(open) => {
                let questions = open.node.questions();
                if !questions.is_empty() {
                    return Next::Read(questions);
                }
                let closing = self.closing;
                let is_over = |at: Timestamp| closing.is_some_and(|by| at >= by.after_ms(FINISH_FOR_MS));
                open.decide(&moment, clock, &is_over);
                self.deeds.extend(open.node.fetches());
                self.pass_on(&moment);
                if let Some(pass) = self.next_pass(&moment) {
                    return Next::Pass(pass);
                }
                let State::Open(open) = &mut self.state else { return Next::Closed(None) };
                if let Some(next) = open.hand_over(&moment, self.lease_for_ms) {
                    return next;
                }
                if let Some(deed) = self.deeds.pop_front() {
                    return Next::Do(deed);
                }
                let questions = open.node.questions();
                if !questions.is_empty() {
                    return Next::Read(questions);
                }
                match closing {
                    Some(by) if open.may_close(moment.steady >= by, is_over(moment.steady)) => self.close(),
                    closing => {
                        let wake = open.sleeps(&moment, closing);
                        let steady = wake.steady.into_iter().chain(self.peers.next_at()).min();
                        Next::Sleep(Wake { steady, ..wake })
                    }
                }
            }
        }
    }

    fn close(&mut self) -> Next {
        let State::Open(open) = std::mem::replace(&mut self.state, State::Over) else {
            return Next::Closed(None);
        };
        let Open { node, committer, wishes, .. } = *open;
        for wish in wishes {
            wish.refuse(&Unavailable::Closing);
        }
        node.abandon(&Unavailable::Closing);
        self.peers.abandon(&Unavailable::Closing);
        Next::Closed(Some(committer.lease().clone()))
    }
}

impl Shut {
    /// No call is under way, and no answer waits to be written.
    fn is_idle(&self) -> bool {
        self.kept.is_empty() && self.live.answers.is_empty() && self.live.calls.is_empty()
    }
}

impl Open {
    /// The next group is not full yet.
    fn has_room(&self) -> bool {
        self.committer.gathered() < GROUP_MAX && self.committer.gathered_bytes() < GROUP_BYTES_MAX
    }

    /// Decides while there is room, and for no longer than others can wait.
    fn decide(
        &mut self,
        moment: &Moment,
        clock: &mut dyn FnMut() -> Moment,
        is_over: &dyn Fn(Timestamp) -> bool,
    ) {
        if self.has_room() {
            self.node.wake(moment);
        }
        let until = moment.steady.after_ms(DECIDES_FOR_MS);
        let seen = Cell::new(moment.steady);
        let mut clock = || {
            let moment = clock();
            seen.set(moment.steady);
            moment
        };
        while self.has_room() && !is_over(seen.get()) {
            let Some(item) = self.node.decide_next(&mut clock) else { break };
            self.committer.add(item);
            if seen.get() >= until {
                break;
            }
        }
        self.committer.add_map_runs(self.node.map_run_rows());
        self.committer.witness(self.node.witnessed());
    }

    /// What goes to the store now, if nothing else is on its way there.
    fn hand_over(&mut self, moment: &Moment, lease_for_ms: i64) -> Option<Next> {
        if self.is_busy {
            return None;
        }
        let next = if moment.steady >= self.renews_at {
            self.renews_at = moment.steady.after_ms(lease_for_ms / 2);
            let renewal = self.node.renewal(moment, lease_for_ms);
            Next::See(Chore::Renew(self.committer.lease().clone(), renewal))
        } else if let Some(chore) = self.next_chore() {
            Next::See(chore)
        } else {
            Next::Commit(self.committer.hand_over()?)
        };
        self.is_busy = true;
        Some(next)
    }

    fn next_chore(&mut self) -> Option<Chore> {
        self.wishes.extend(self.node.wishes());
        match self.wishes.pop_front()? {
            wish @ (Wish::Sweep(..) | Wish::Erase(_)) if !self.node.may_sweep() => {
                self.wishes.push_front(wish);
                None
            }
            // Nothing is being written, and what was decided since is in memory.
            Wish::Sweep(slice, reply) => Some(Chore::Sweep(self.node.sweepable(slice), reply)),
            Wish::GiveUp(execution, reply) => {
                Some(Chore::GiveUp(self.committer.lease().clone(), execution, reply))
            }
            Wish::Erase(erasing) => match self.node.in_use(&erasing) {
                Some(id) => {
                    erasing.reply.send(Ok(Erased::Moved(id)));
                    self.next_chore()
                }
                None => Some(Chore::Erase(self.committer.lease().clone(), erasing)),
            },
        }
    }

    /// Nothing is left to write, and what is under way is done or has had its time.
    fn may_close(&self, is_late: bool, is_over: bool) -> bool {
        let is_working = self.node.has_work() || self.node.is_asking();
        let is_done = !is_working && (is_late || self.node.live_calls() == 0);
        !self.is_busy && self.committer.gathered() == 0 && (is_over || is_done)
    }

    fn sleeps(&self, moment: &Moment, closing: Option<Timestamp>) -> Wake {
        let has_room = self.has_room();
        if has_room && self.node.has_work() {
            return Wake { steady: Some(moment.steady), wall: None };
        }
        // While a full group waits for the one before it, timers can wait too.
        let wake = if has_room { self.node.next_wake() } else { Wake::default() };
        let renews_at = (!self.is_busy).then_some(self.renews_at);
        let closes_at = closing.map(|by| if moment.steady < by { by } else { by.after_ms(FINISH_FOR_MS) });
        let steady = [wake.steady, renews_at, closes_at].into_iter().flatten().min();
        Wake { steady, ..wake }
    }
}

pub(crate) fn refuse(message: Message, why: &Unavailable) {
    match message {
        Message::Start { reply, .. } => reply.send(Err(StartError::Unavailable(why.clone()))),
        Message::Input { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        Message::Watch { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        Message::Poll { reply, .. } => reply.send(Err(why.clone())),
        Message::Witness(Witnessed { reply, .. }) => reply.send(Err(why.clone())),
        Message::Passed { request, reply } => reply.send(request.refusal(why.clone())),
        Message::Show { reply, .. } => reply.send(None),
        Message::Adjust { reply, .. } => reply.send(Err(AdjustError::Unavailable(why.clone()))),
        Message::Sweep { reply, .. } => reply.send(Err(why.clone())),
        Message::GiveUp { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        Message::Erase { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        // A reply that is dropped says that nobody is there; that nothing was found would be another answer.
        Message::Named { .. }
        | Message::Young { .. }
        | Message::Unlisted { .. }
        | Message::Pace { .. }
        | Message::Underway { .. }
        | Message::MapRun { .. }
        | Message::MapRuns { .. }
        | Message::Answer { .. }
        | Message::Activity { .. }
        | Message::Deployed { .. }
        | Message::Fetched { .. } => {}
    }
}
