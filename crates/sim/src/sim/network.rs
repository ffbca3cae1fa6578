//! The network between nodes: requests to the holder of a Shard, and their answers. It loses, delays, doubles and
//! reorders them; a second copy may come long after the first one's work is done.

use super::process::State;
use super::{Happening, Sim};
use crate::observed::Life;
use crate::sabotage::Sabotage;
use perdura_engine::{ExecutionId, Input};
use perdura_runtime::{Event, Message, Pass, PassNumber, Reply, Request, Response};
use perdura_store::Shard;
use std::sync::{Arc, Mutex, PoisonError};

/// How long a node keeps a silent connection.
const CONNECTED_FOR_MS: i64 = 30_000;
/// The longest delay between a request and its second copy.
const SECOND_WITHIN_MS: i64 = 90_000;

/// The rates of network faults, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    pub(crate) lost: u32,
    pub(crate) doubled: u32,
    pub(crate) slow: u32,
}

/// A request on its way.
pub(super) struct Carried {
    by: Life,
    pass: Pass,
    /// It has arrived before, or will.
    is_second: bool,
}

/// Answers that are not on their way yet.
#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<Vec<(Life, PassNumber, Response)>>>);

impl Answers {
    fn take(&self) -> Vec<(Life, PassNumber, Response)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, answer: (Life, PassNumber, Response)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    }
}

impl Sim {
    /// A node sends a request to another.
    pub(super) fn carry(&mut self, by: Life, pass: Pass) {
        self.facts.count(match &pass.request {
            Request::Start { .. } => "starts passed on",
            Request::Input { .. } => "inputs passed on",
            Request::Watch { .. } => "watches passed on",
        });
        self.say(|| format!("{by:?} passes {:?} on to {}: {:?}", pass.number, pass.to, pass.request));
        let ways = self.plan.weather.ways;
        if self.strikes(ways.doubled) {
            self.facts.count("requests doubled");
            let later = self.dice.between(0..=SECOND_WITHIN_MS);
            let second = Carried { by, pass: pass.clone(), is_second: true };
            self.after(later, Happening::Carry(Box::new(second)));
        }
        if self.strikes(ways.lost) {
            return self.facts.count("requests lost");
        }
        let takes = self.takes();
        self.after(takes, Happening::Carry(Box::new(Carried { by, pass, is_second: false })));
    }

    /// A request arrives at the node with that name now.
    pub(super) fn arrive(&mut self, carried: Carried) {
        let Carried { by, pass, is_second } = carried;
        let is_up = |process: &usize| {
            let process = &self.processes[*process];
            process.holder == pass.to && matches!(process.state, State::Up(_))
        };
        let up: Vec<usize> = (0..self.processes.len()).filter(is_up).collect();
        if up.is_empty() {
            self.facts.count("requests to nobody");
            return self.send_event(by, pass.undelivered());
        }
        let process = *self.dice.pick(&up);
        let life = Life { process, boot: self.processes[process].boot };
        let Pass { number, mut request, .. } = pass;
        if is_second && self.sabotage == Some(Sabotage::DoneTwice) {
            self.forget_who(&mut request);
        }
        self.say(|| format!("{number:?} of {by:?} arrives at {life:?}"));
        let wanted = Arc::new(());
        let answers = self.answers.clone();
        let reply = Reply::while_wanted(&wanted, move |response| answers.push((by, number, response)));
        self.after(CONNECTED_FOR_MS, Happening::HangUp(wanted));
        self.post(life, Message::Passed { request, reply });
    }

    /// Sends the new answers.
    pub(super) fn hear_nodes(&mut self) {
        for (by, number, response) in self.answers.take() {
            self.say(|| format!("{number:?} of {by:?} is answered: {response:?}"));
            if response.is_elsewhere() {
                self.facts.count("requests for what was lost or moved");
            }
            let ways = self.plan.weather.ways;
            if self.strikes(ways.lost) {
                self.facts.count("answers lost");
                continue;
            }
            if self.strikes(ways.doubled) {
                let later = self.dice.between(0..=SECOND_WITHIN_MS);
                self.after(later, Happening::Respond(by, number, Box::new(response.clone())));
            }
            let takes = self.takes();
            self.after(takes, Happening::Respond(by, number, Box::new(response)));
        }
    }

    /// An answer arrives.
    pub(super) fn respond(&mut self, life: Life, number: PassNumber, response: Response) {
        self.send_event(life, Event::Told { number, response });
    }

    fn strikes(&mut self, rate: u32) -> bool {
        self.is_rough() && self.dice.in_thousand(rate)
    }

    fn takes(&mut self) -> i64 {
        let slow = self.plan.weather.ways.slow;
        if self.strikes(slow) { self.dice.between(100..=20_000) } else { self.dice.between(0..=20) }
    }

    /// For sabotage: a repeated request is not recognised.
    fn forget_who(&mut self, request: &mut Request) {
        match request {
            Request::Start { execution, start, .. } => {
                let shard = Shard::of(*execution, self.plan.shards);
                *execution = ExecutionId::beginning(self.clock.wall(), shard, self.dice.bits());
                if let Some(name) = &start.name {
                    self.disk().lies.insert(name.clone(), *execution);
                }
            }
            Request::Input { input: Input::RedriveOnce { token }, .. } => {
                *token = format!("{token} again").into();
            }
            Request::Input { .. } | Request::Watch { .. } => {}
        }
    }
}
