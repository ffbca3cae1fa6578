//! Requests for executions that another node holds.
//!
//! A node passes such a request on to the holder of the Shard, and whoever asked is told what came of it. Two things are
//! not to be relied on. What is known of the holders may be old: whoever gets a request for a Shard that it does not hold
//! says so, and the asking node looks again. And the way there loses, delays and doubles: so an answer that does not come is
//! asked for again, and what is passed on does no harm however often and however late it arrives. A start goes by the id
//! that its name is reserved for, an outcome by its attempt, a redrive by a token; a stop of what was stopped changes nothing.
//!
//! This value decides; whoever drives the loop carries.

use crate::core::{Event, refuse};
use crate::message::{Ending, InputError, Message, Reply, StartError, Started, Taken, Unavailable};
use crate::naming::Start;
use perdura_engine::{ExecutionId, Input, Moment, Timestamp};
use perdura_store::Shard;
use perdura_store::audit::Origin;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often a request is passed on at most, and for how long it is tried.
const HOPS_MAX: u32 = 12;
const TRIED_FOR_MS: i64 = 10_000;
/// How long an answer is waited for before it is asked for again.
const ANSWERED_WITHIN_MS: i64 = 2_500;
/// The end of an execution may be far: how often it is asked for.
const WATCHES_AGAIN_MS: i64 = 20_000;
/// How often the holders are looked up at most.
const LOOKS_EVERY_MS: i64 = 200;

/// What one node asks of another: data, which may arrive twice, late or never.
#[derive(Clone, Debug)]
pub enum Request {
    /// Begin this execution, unless it has begun: its name is reserved for it.
    Start { execution: ExecutionId, start: Box<Start>, by: Option<Arc<Origin>> },
    /// Something for an execution.
    Input { execution: ExecutionId, input: Input, by: Option<Arc<Origin>> },
    /// Tell its end, when it has ended.
    Watch { execution: ExecutionId },
}

/// What the other one answers, after its commit.
#[derive(Clone, Debug)]
pub enum Response {
    Started(Result<Started, StartError>),
    Taken(Result<Taken, InputError>),
    Ended(Result<Ending, InputError>),
}

/// Which request a response is for. A process gives each number once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassNumber(u64);

/// A request to be carried to another node.
#[derive(Clone, Debug)]
pub struct Pass {
    pub number: PassNumber,
    /// The name that the node holds its Shards under.
    pub to: Arc<str>,
    pub request: Request,
}

impl Pass {
    /// What happened where there is no way to that node.
    pub fn undelivered(self) -> Event {
        Event::Told { number: self.number, response: self.request.refusal(Unavailable::Closing) }
    }
}

impl Request {
    /// The execution that it is about; its Shard's holder is asked.
    pub fn execution(&self) -> ExecutionId {
        match self {
            Self::Start { execution, .. } | Self::Input { execution, .. } | Self::Watch { execution } => {
                *execution
            }
        }
    }

    /// The response of one who cannot.
    pub fn refusal(&self, why: Unavailable) -> Response {
        match self {
            Self::Start { .. } => Response::Started(Err(StartError::Unavailable(why))),
            Self::Input { .. } => Response::Taken(Err(InputError::Unavailable(why))),
            Self::Watch { .. } => Response::Ended(Err(InputError::Unavailable(why))),
        }
    }
}

impl Response {
    /// The other one does not hold the Shard.
    pub fn is_elsewhere(&self) -> bool {
        matches!(
            self,
            Self::Started(Err(StartError::Unavailable(Unavailable::Elsewhere(_))))
                | Self::Taken(Err(InputError::Unavailable(Unavailable::Elsewhere(_))))
                | Self::Ended(Err(InputError::Unavailable(Unavailable::Elsewhere(_))))
        )
    }

    /// The other one could not do it, and perhaps somebody else can.
    fn is_to_be_tried_again(&self) -> bool {
        let why = match self {
            Self::Started(Err(StartError::Unavailable(why)))
            | Self::Taken(Err(InputError::Unavailable(why)))
            | Self::Ended(Err(InputError::Unavailable(why))) => why,
            Self::Started(_) | Self::Taken(_) | Self::Ended(_) => return false,
        };
        match why {
            Unavailable::Elsewhere(_) | Unavailable::Closing | Unavailable::Store(_) => true,
            Unavailable::Full => false,
        }
    }
}

/// A message for an execution that another node holds.
pub(crate) struct Stray {
    pub(crate) execution: ExecutionId,
    pub(crate) shard: Shard,
    pub(crate) asked: Asked,
    /// It was passed on before, and this much is left; `None`: it was not.
    pub(crate) patience: Option<Patience>,
}

/// What was asked, and who is told.
pub(crate) enum Asked {
    Start {
        start: Box<Start>,
        reply: Reply<Result<Started, StartError>>,
        ending: Option<Reply<Result<Ending, InputError>>>,
    },
    Input {
        input: Input,
        reply: Reply<Result<Taken, InputError>>,
    },
    Watch {
        reply: Reply<Result<Ending, InputError>>,
    },
}

impl Stray {
    fn request(&self) -> Request {
        let execution = self.execution;
        match &self.asked {
            Asked::Start { start, reply, .. } => {
                Request::Start { execution, start: start.clone(), by: reply.origin().cloned() }
            }
            Asked::Input { input, reply } => {
                Request::Input { execution, input: input.clone(), by: reply.origin().cloned() }
            }
            Asked::Watch { .. } => Request::Watch { execution },
        }
    }

    /// As it came in: by now it may be at home here, and a name may be another's.
    fn into_message(self) -> Message {
        let execution = self.execution;
        match self.asked {
            Asked::Start { start, reply, ending } => Message::Start { start, reply, ending },
            Asked::Input { input, reply } => Message::Input { execution, input, reply },
            Asked::Watch { reply } => Message::Watch { execution, reply },
        }
    }

    fn refuse(self, why: &Unavailable) {
        refuse(self.into_message(), why);
    }
}

/// How much longer a request is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    hops: u32,
    until: Timestamp,
}

impl Patience {
    fn from(now: Timestamp) -> Self {
        Self { hops: HOPS_MAX, until: now.after_ms(TRIED_FOR_MS) }
    }

    fn after_a_hop(self) -> Self {
        Self { hops: self.hops.saturating_sub(1), ..self }
    }

    fn is_over(self, now: Timestamp) -> bool {
        self.hops == 0 || self.until <= now
    }
}

/// A request on its way.
struct Waiting {
    stray: Stray,
    patience: Patience,
    /// It was passed on; otherwise nobody is known who holds its Shard.
    is_passed: bool,
    looks_at: Timestamp,
}

/// What is next.
pub(crate) enum Step {
    /// Look who holds what.
    Look,
    /// Carry this.
    Pass(Pass),
    /// Take this in once more, with so much patience left.
    Again(Message, Patience),
}

/// Requests that were passed on, and who holds what as far as is known.
#[derive(Default)]
pub(crate) struct Peers {
    holders: BTreeMap<Shard, Arc<str>>,
    /// The holders are not looked up before.
    looks_from: Option<Timestamp>,
    waiting: BTreeMap<PassNumber, Waiting>,
    /// When each of them is looked at again.
    agenda: BTreeSet<(Timestamp, PassNumber)>,
    last: u64,
}

impl Peers {
    /// Passes a request on, or tells whoever asked that it was tried for long enough.
    pub(crate) fn pass(&mut self, mut stray: Stray, moment: &Moment) {
        let now = moment.steady;
        let patience = stray.patience.unwrap_or_else(|| Patience::from(now));
        if patience.is_over(now) {
            let shard = stray.shard;
            return stray.refuse(&Unavailable::Elsewhere(shard));
        }
        // Said twice it would be done twice.
        if let Asked::Input { input: input @ Input::Redrive, .. } = &mut stray.asked {
            *input = Input::RedriveOnce { token: format!("{:032x}", moment.entropy).into() };
        }
        self.last += 1;
        let waiting = Waiting { stray, patience, is_passed: false, looks_at: now };
        self.agenda.insert((now, PassNumber(self.last)));
        self.waiting.insert(PassNumber(self.last), waiting);
    }

    /// What is to be done now, for a node that holds its Shards under this name.
    pub(crate) fn next(&mut self, own_name: &str, now: Timestamp) -> Option<Step> {
        loop {
            let number = self.agenda.first().filter(|(at, _)| *at <= now)?.1;
            let waiting = &self.waiting[&number];
            if waiting.is_passed {
                match self.unanswered(number, now) {
                    Some(again) => return Some(again),
                    None => continue,
                }
            }
            let shard = waiting.stray.shard;
            let holder = self.holders.get(&shard).filter(|holder| ***holder != *own_name).cloned();
            match (holder, self.looks_from) {
                (Some(to), _) => return Some(Step::Pass(self.pass_to(number, to, now))),
                (None, Some(from)) if from > now => {
                    if waiting.patience.is_over(now) {
                        let waiting = self.remove(number).expect("it waits");
                        waiting.stray.refuse(&Unavailable::Elsewhere(shard));
                    } else {
                        self.look_at(number, from);
                    }
                }
                (None, _) => {
                    self.looks_from = Some(now.after_ms(LOOKS_EVERY_MS));
                    return Some(Step::Look);
                }
            }
        }
    }

    fn pass_to(&mut self, number: PassNumber, to: Arc<str>, now: Timestamp) -> Pass {
        let waiting = self.waiting.get_mut(&number).expect("it waits");
        waiting.is_passed = true;
        let request = waiting.stray.request();
        let waits_for = match &request {
            Request::Start { .. } | Request::Input { .. } => ANSWERED_WITHIN_MS,
            Request::Watch { .. } => WATCHES_AGAIN_MS,
        };
        self.look_at(number, now.after_ms(waits_for));
        Pass { number, to, request }
    }

    /// No answer has come. One who waits for an end is not answered for as long as there is none.
    fn unanswered(&mut self, number: PassNumber, now: Timestamp) -> Option<Step> {
        let Waiting { stray, patience, .. } = self.remove(number)?;
        self.holders.remove(&stray.shard);
        let patience = match &stray.asked {
            Asked::Watch { reply } if !reply.is_wanted() => return None,
            Asked::Watch { .. } => Patience::from(now),
            Asked::Start { .. } | Asked::Input { .. } => patience.after_a_hop(),
        };
        Some(Step::Again(stray.into_message(), patience))
    }

    /// What was found: whoever waited for it goes on now.
    pub(crate) fn looked_up(&mut self, holders: BTreeMap<Shard, Arc<str>>, now: Timestamp) {
        let waits = |it: &Waiting| !it.is_passed && holders.contains_key(&it.stray.shard);
        let waiting: Vec<PassNumber> =
            self.waiting.iter().filter(|(_, it)| waits(it)).map(|(number, _)| *number).collect();
        for number in waiting {
            self.look_at(number, now);
        }
        self.holders = holders;
    }

    /// What came of a request. What another node could not do is to be taken in once more.
    pub(crate) fn told(
        &mut self,
        number: PassNumber,
        response: Response,
        moment: &Moment,
    ) -> Option<(Message, Patience)> {
        let Waiting { stray, patience, .. } = self.remove(number)?;
        let Stray { execution, shard, asked, .. } = stray;
        match (asked, response) {
            (asked, response) if response.is_to_be_tried_again() => {
                // The map may be old.
                self.holders.remove(&shard);
                let stray = Stray { execution, shard, asked, patience: None };
                Some((stray.into_message(), patience.after_a_hop()))
            }
            (Asked::Start { reply, ending, .. }, Response::Started(told)) => {
                if let (Ok(started), Some(reply)) = (&told, ending) {
                    let execution = started.execution;
                    let asked = Asked::Watch { reply };
                    self.pass(Stray { execution, shard, asked, patience: None }, moment);
                }
                reply.send(told);
                None
            }
            (Asked::Input { reply, .. }, Response::Taken(told)) => {
                reply.send(told);
                None
            }
            (Asked::Watch { reply }, Response::Ended(told)) => {
                reply.send(told);
                None
            }
            // Nobody answers so.
            (asked, Response::Started(_) | Response::Taken(_) | Response::Ended(_)) => {
                let stray = Stray { execution, shard, asked, patience: None };
                Some((stray.into_message(), patience.after_a_hop()))
            }
        }
    }

    /// When it is to be asked again what is next.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.agenda.first().map(|(at, _)| *at)
    }

    /// Whoever waits is told that there will be no answer.
    pub(crate) fn abandon(&mut self, why: &Unavailable) {
        self.agenda.clear();
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            waiting.stray.refuse(why);
        }
    }

    fn look_at(&mut self, number: PassNumber, at: Timestamp) {
        let waiting = self.waiting.get_mut(&number).expect("it waits");
        self.agenda.remove(&(waiting.looks_at, number));
        waiting.looks_at = at;
        self.agenda.insert((at, number));
    }

    fn remove(&mut self, number: PassNumber) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        self.agenda.remove(&(waiting.looks_at, number));
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    const SHARD: Shard = Shard(1);

    fn at(ms: i64) -> Moment {
        Moment::at(Timestamp(ms), 7)
    }

    fn execution() -> ExecutionId {
        ExecutionId::from_random(1)
    }

    /// A redrive of an execution elsewhere, and who waits for it.
    fn redrive() -> (Stray, Receiver<Result<Taken, InputError>>) {
        let (sender, told) = channel();
        let reply = Reply::new(move |answer| sender.send(answer).unwrap());
        let asked = Asked::Input { input: Input::Redrive, reply };
        (Stray { execution: execution(), shard: SHARD, asked, patience: None }, told)
    }

    fn held_by(holder: &str) -> BTreeMap<Shard, Arc<str>> {
        BTreeMap::from([(SHARD, holder.into())])
    }

    fn elsewhere() -> Response {
        Response::Taken(Err(InputError::Unavailable(Unavailable::Elsewhere(SHARD))))
    }

    /// The next request to be carried; whoever is asked for the holders says this one.
    fn next_pass(peers: &mut Peers, holder: &str, ms: i64) -> Option<Pass> {
        loop {
            match peers.next("own", Timestamp(ms))? {
                Step::Look => peers.looked_up(held_by(holder), Timestamp(ms)),
                Step::Pass(pass) => return Some(pass),
                Step::Again(message, patience) => stray_again(peers, message, patience, ms),
            }
        }
    }

    fn stray_again(peers: &mut Peers, message: Message, patience: Patience, ms: i64) {
        let Message::Input { input, reply, .. } = message else { panic!("it was an input") };
        let asked = Asked::Input { input, reply };
        let stray = Stray { execution: execution(), shard: SHARD, asked, patience: Some(patience) };
        peers.pass(stray, &at(ms));
    }

    #[test]
    fn a_request_goes_to_the_holder_and_its_answer_to_whoever_asked() {
        let (mut peers, (stray, told)) = (Peers::default(), redrive());
        peers.pass(stray, &at(0));
        let pass = next_pass(&mut peers, "b", 0).unwrap();
        assert_eq!(&*pass.to, "b");
        let unknown = Response::Taken(Err(InputError::Unknown));
        assert!(peers.told(pass.number, unknown.clone(), &at(5)).is_none());
        assert_eq!(told.try_recv().unwrap(), Err(InputError::Unknown));
        // It comes a second time, and nobody waits any more.
        assert!(peers.told(pass.number, unknown, &at(6)).is_none());
        assert_eq!(peers.next_at(), None);
    }

    #[test]
    fn a_redrive_that_is_passed_on_again_goes_under_the_same_token() {
        let (mut peers, (stray, _told)) = (Peers::default(), redrive());
        peers.pass(stray, &at(0));
        let first = next_pass(&mut peers, "b", 0).unwrap();
        let second = next_pass(&mut peers, "b", ANSWERED_WITHIN_MS).unwrap();
        assert_ne!(first.number, second.number);
        let token = |pass: Pass| match pass.request {
            Request::Input { input: Input::RedriveOnce { token }, .. } => token,
            other => panic!("{other:?}"),
        };
        assert_eq!(token(first), token(second));
    }

    #[test]
    fn whoever_lost_a_shard_is_not_asked_again_before_it_was_looked_up_who_has_it() {
        let (mut peers, (stray, _told)) = (Peers::default(), redrive());
        peers.pass(stray, &at(0));
        let pass = next_pass(&mut peers, "b", 0).unwrap();
        let (message, patience) = peers.told(pass.number, elsewhere(), &at(10)).unwrap();
        stray_again(&mut peers, message, patience, 10);
        assert!(next_pass(&mut peers, "c", 10).is_none(), "it was looked up a moment ago");
        assert_eq!(peers.next_at(), Some(Timestamp(LOOKS_EVERY_MS)));
        assert_eq!(&*next_pass(&mut peers, "c", LOOKS_EVERY_MS).unwrap().to, "c");
    }

    #[test]
    fn a_shard_that_nobody_holds_is_waited_for_and_not_for_ever() {
        let (mut peers, (stray, told)) = (Peers::default(), redrive());
        peers.pass(stray, &at(0));
        for ms in (0..TRIED_FOR_MS).step_by(100) {
            assert!(next_pass(&mut peers, "own", ms).is_none(), "what this node lost is nobody's");
        }
        assert!(told.try_recv().is_err());
        assert!(next_pass(&mut peers, "own", TRIED_FOR_MS).is_none());
        let refused = told.try_recv().unwrap();
        assert_eq!(refused, Err(InputError::Unavailable(Unavailable::Elsewhere(SHARD))));
        assert_eq!(peers.next_at(), None);
    }

    #[test]
    fn a_request_that_everybody_sends_on_ends() {
        let (mut peers, (stray, told)) = (Peers::default(), redrive());
        peers.pass(stray, &at(0));
        let mut hops = 0;
        for ms in (0..TRIED_FOR_MS).step_by(50) {
            let Some(pass) = next_pass(&mut peers, "b", ms) else { continue };
            hops += 1;
            let (message, patience) = peers.told(pass.number, elsewhere(), &at(ms)).unwrap();
            stray_again(&mut peers, message, patience, ms);
        }
        assert_eq!(hops, HOPS_MAX);
        assert!(told.try_recv().unwrap().is_err());
    }
}
