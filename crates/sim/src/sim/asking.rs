//! Requests of clients, their answers, and outgoing calls.

use super::{Happening, LOOK_EVERY_MS, Letter, Sim};
use crate::clients::{Request, RequestId, Told, Wish};
use crate::history::History;
use crate::observed::Life;
use crate::receiver::{Answered, UNREACHABLE, payload};
use crate::sabotage::Sabotage;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::Pattern;
use perdura_engine::{
    Arns, By, Certainty, EffectKey, ExecutionId, Fault, Input, Limits, Outcome, Resolution, Status,
    Timestamp, Turn,
};
use perdura_runtime::{Message, Start, Via};
use perdura_store::audit::{DoorKind, Origin};
use std::sync::Arc;

/// Whether there was no connection: then the receiver did not see the call.
fn is_never_made(answered: Option<&Answered>) -> bool {
    let Some((_, Outcome::Failed { fault, .. })) = answered else { return false };
    fault.error.as_deref() == Some(UNREACHABLE)
}

/// The answer under a key according to the history.
fn on_record(history: &History, key: &EffectKey) -> Option<Payload> {
    let marks = history.turns.iter().flat_map(Turn::marks);
    let text = marks.filter(|mark| mark.key == key).find_map(|mark| mark.said.result())?;
    Some(payload(text.to_string()))
}

impl Sim {
    pub(super) fn request(&mut self, wish: Wish, about: usize, mark: Option<String>) -> RequestId {
        self.requests.push(Request { wish, told: None, sent: 0, sent_at: None, about, mark });
        self.requests.len() - 1
    }

    /// A start without a name is not repeated: the second could not be told from the first.
    pub(super) fn is_given_up(&self, request: &Request) -> bool {
        match &request.wish {
            Wish::Start(planned) => self.plan.starts[*planned].name.is_none() && request.sent > 0,
            // A swept execution cannot answer.
            Wish::Input(execution, _) | Wish::Watch(execution) => self.swept.contains_key(execution),
        }
    }

    pub(super) fn ask(&mut self, number: RequestId) {
        let request = &self.requests[number];
        if request.told.is_some() || self.is_given_up(request) {
            return;
        }
        let patience = match request.wish {
            Wish::Watch(_) => 60_000,
            Wish::Start(_) | Wish::Input(..) => self.dice.between(2_000..=9_000),
        };
        self.after(patience, Happening::Ask(number));
        let serving: Vec<usize> =
            (0..self.processes.len()).filter(|process| self.processes[*process].serves()).collect();
        if serving.is_empty() {
            return;
        }
        let process = *self.dice.pick(&serving);
        let life = Life { process, boot: self.processes[process].boot };
        self.requests[number].sent += 1;
        self.requests[number].sent_at.get_or_insert(self.clock.now());
        let mut wish = self.requests[number].wish.clone();
        self.pass_on_failure(&mut wish);
        self.say(|| format!("request {number} to process {process}: {wish:?}"));
        let message = match wish {
            Wish::Start(planned) => Message::Start {
                start: Box::new(self.start_of(planned)),
                reply: self.ears.reply(number, Told::Started).by(Some(self.origin(number))),
                ending: None,
            },
            Wish::Input(execution, input) => {
                let reply = self.ears.reply(number, Told::Taken).by(Some(self.origin(number)));
                Message::Input { execution, input, reply }
            }
            Wish::Watch(execution) => {
                Message::Watch { execution, reply: self.ears.reply(number, Told::Ended) }
            }
        };
        self.post(life, message);
    }

    /// The requester for the audit.
    fn origin(&self, number: RequestId) -> Arc<Origin> {
        Arc::new(Origin {
            at: Timestamp(self.clock.now()),
            principal: "client".into(),
            tenant: "default".into(),
            role: "admin".into(),
            door: DoorKind::V1,
            from: None,
            operation: "ask".into(),
            key: Some(format!("request-{number}").into()),
        })
    }

    /// For sabotage: the failure of an old attempt is given to the running one.
    fn pass_on_failure(&self, wish: &mut Wish) {
        if self.sabotage == Some(Sabotage::OldFailuresCount)
            && let Wish::Input(
                _,
                Input::TaskOutcome { by: By::Token(token), outcome: Outcome::Failed { .. } },
            ) = wish
            && let Some(newest) = self.newest.get(&(token.execution, token.strand))
        {
            *token = *newest;
        }
    }

    fn start_of(&self, planned: usize) -> Start {
        let planned = &self.plan.starts[planned];
        Start {
            revision: self.revisions[planned.script],
            name: planned.name.clone(),
            input: payload(planned.input.to_string()),
            limits: Limits {
                turn_states_max: planned.turn_states_max,
                kept_bytes_max: planned.kept_bytes_max,
                ..Limits::GENEROUS
            },
            shares_name: false,
            arns: Arns::default(),
            via: Via::default(),
        }
    }

    /// Takes the new answers.
    pub(super) fn hear(&mut self) {
        if self.sabotage == Some(Sabotage::EffectsFirst) && self.disk().has_promises() {
            return;
        }
        for (number, told) in self.ears.hear() {
            self.say(|| format!("request {number} is answered: {told:?}"));
            if told.is_for_later() || self.requests[number].told.is_some() {
                continue;
            }
            self.requests[number].told = Some(told.clone());
            match told {
                Told::Started(Ok(started)) => {
                    self.facts.count("starts acknowledged");
                    if !self.disk().observed.has_begun(started.execution) {
                        let complaint =
                            format!("{} was acknowledged before it was on disk", started.execution);
                        self.facts.complaints.push(complaint);
                    }
                    self.follow_up(number, started.execution, started.fresh);
                    self.list_soon(300);
                }
                Told::Ended(Ok(ending)) => self.after_end(number, ending.status),
                Told::Taken(Ok(_)) => {
                    self.after_redrive(number);
                    self.after_stop(number);
                }
                Told::Started(Err(_)) | Told::Taken(Err(_)) | Told::Ended(Err(_)) => {}
            }
        }
    }

    /// The client may watch its execution, and another may stop it.
    fn follow_up(&mut self, number: RequestId, execution: ExecutionId, fresh: bool) {
        let about = self.requests[number].about;
        let planned = self.plan.starts[about].clone();
        if planned.redriven > 0 || fresh {
            let watch = self.request(Wish::Watch(execution), about, None);
            let soon = self.dice.between(0..=500);
            self.after(soon, Happening::Ask(watch));
        }
        if let Some(after) = planned.stopped_after {
            let mark = format!("mark-{number}-stop");
            let fault = Fault::new("Stopped", mark.as_str());
            let stop = self.request(Wish::Input(execution, Input::Stop { fault }), about, Some(mark));
            self.after(after, Happening::Ask(stop));
        }
    }

    fn after_end(&mut self, number: RequestId, status: Status) {
        self.facts.count("endings told");
        let Wish::Watch(execution) = self.requests[number].wish else { return };
        let about = self.requests[number].about;
        let failed = matches!(status, Status::Failed | Status::Aborted | Status::TimedOut);
        if failed && self.plan.starts[about].redriven > 0 {
            self.plan.starts[about].redriven -= 1;
            // With several nodes, some clients use a token: then the redrive counts once, however often it arrives.
            let input = if self.plan.is_cluster && self.dice.in_thousand(500) {
                Input::RedriveOnce { token: format!("redrive {number}").into() }
            } else {
                Input::Redrive
            };
            let redrive = self.request(Wish::Input(execution, input), about, None);
            let soon = self.dice.between(0..=10_000);
            self.after(soon, Happening::Ask(redrive));
        }
    }

    /// A client lists, and a sweep runs, right after a redrive.
    fn after_redrive(&mut self, number: RequestId) {
        let is_redrive = self.requests[number].wish.is_redrive();
        if is_redrive {
            self.list_soon(300);
        }
        if is_redrive && self.plan.sweeps() && self.dice.in_thousand(500) {
            let soon = self.dice.between(0..=1_500);
            self.after(soon, Happening::Fault(crate::plan::Fault::Sweep(0)));
        }
    }

    /// A stop's effects on other executions come after its answer: a process may die before that.
    fn after_stop(&mut self, number: RequestId) {
        let is_stop = matches!(self.requests[number].wish, Wish::Input(_, Input::Stop { .. }));
        if is_stop && !self.plan.steadfast && self.dice.in_thousand(300) {
            let process = self.dice.below(self.processes.len() as u64) as usize;
            let soon = self.dice.between(0..=20);
            self.after(soon, Happening::Fault(crate::plan::Fault::Crash(process)));
        }
    }

    /// A call reaches its receiver.
    pub(super) fn deliver(&mut self, letter: Letter) {
        let Letter { by, execution, call } = letter;
        let answered = self.receiver.deliver(&call);
        if super::is_held(&call.resource) && !is_never_made(answered.as_ref()) {
            *self.facts.held_reached.entry(call.key.clone()).or_default() += 1;
        }
        if let Some((_, Outcome::Failed { fault, .. })) = &answered {
            self.count_failure(fault.error.as_deref());
        }
        self.facts.count("deliveries");
        self.say(|| format!("{} arrives, and the answer is {answered:?}", call.key));
        let place = call.by();
        let is_callback = call.resource.pattern == Pattern::Callback;
        // A receiver of a repeated message repeats its answer.
        if is_callback && self.receiver.kept.contains_key(&call.key) {
            self.call_back(&call);
        }
        match answered {
            Some((after, outcome)) => self.after(after, Happening::Answer(by, execution, place, outcome)),
            // A connection without a timeout breaks after a while.
            None if call.timeout_seconds.is_none() => {
                let fault = Fault::new("Unsure", "The connection broke.");
                let outcome = Outcome::Failed { fault, certainty: Certainty::Ambiguous };
                let after = self.dice.between(20_000..=60_000);
                self.after(after, Happening::Answer(by, execution, place, outcome));
            }
            None => {}
        }
    }

    fn count_failure(&mut self, error: Option<&str>) {
        match error {
            Some(UNREACHABLE) => self.facts.count("connections never made"),
            Some("Http.Lost") => self.facts.count("receivers that died"),
            Some(redirect) if redirect.starts_with("Http.3") => self.facts.count("redirects"),
            Some("Http.409" | "Http.422") => self.facts.count("conflicts"),
            Some("Runtime.ExitError") => self.facts.count("exit codes"),
            Some(_) | None => {}
        }
    }

    /// A person looks at the held calls, asks the receiver, and resolves them.
    pub(super) fn resolve(&mut self) {
        self.after(LOOK_EVERY_MS, Happening::Resolve);
        for history in crate::history::read_all(self) {
            let Some(execution) = &history.execution else { continue };
            for (strand, key, attempt) in execution.held() {
                if !self.resolved.insert((key.readable().to_owned(), execution.last_event().0)) {
                    continue;
                }
                let done = self.receiver.kept.get(&key).map(|kept| kept.first.clone());
                let resolution = match done {
                    // A receiver that honours keys may also be asked again.
                    Some(Outcome::Succeeded { output }) if !self.dice.in_thousand(300) => {
                        Resolution::Completed { output }
                    }
                    // It was refused, and the refusal is remembered.
                    Some(Outcome::Failed { fault, .. }) => Resolution::Failed { fault },
                    Some(_) => Resolution::Again,
                    // A child is started by the node itself; its result is on record.
                    None => match on_record(&history, &key) {
                        Some(output) => Resolution::Completed { output },
                        None => Resolution::Again,
                    },
                };
                self.facts.count("holds resolved");
                let by = By::Key { strand, key, attempt: Some(attempt) };
                let input = Input::Resolve { by, resolution, reason: "it was looked up".into() };
                let request = self.request(Wish::Input(history.id, input), 0, None);
                self.after(0, Happening::Ask(request));
            }
        }
    }

    /// A receiver got a token, and will answer by it: with heartbeats before, and sometimes twice.
    fn call_back(&mut self, call: &perdura_engine::Call) {
        let Some(token) = call.token else { return };
        let input: serde_json::Value = serde_json::from_str(call.input.text()).expect("a payload is JSON");
        let body = &input["MessageBody"];
        let n = body["n"].as_i64().unwrap_or(0);
        let by = By::Token(token);
        let mut at = self.dice.between(0..=2_000);
        if call.heartbeat_seconds.is_some() {
            for _ in 0..self.dice.between(0..=4) {
                at += self.dice.between(500..=12_000);
                let beat = Input::Heartbeat { by: by.clone() };
                let request = self.request(Wish::Input(token.execution, beat), 0, None);
                self.after(at, Happening::Ask(request));
            }
        } else if self.dice.in_thousand(300) {
            at += self.dice.between(1_000..=30_000);
        }
        let times = if self.dice.in_thousand(200) { 2 } else { 1 };
        for _ in 0..times {
            at += self.dice.between(0..=1_500);
            let output = payload(format!(r#"{{"n":{}}}"#, n + 1));
            let input = Input::TaskOutcome { by: by.clone(), outcome: Outcome::Succeeded { output } };
            let mark = Some(format!("token {}", token.strand.0));
            let request = self.request(Wish::Input(token.execution, input), 0, mark);
            self.after(at, Happening::Ask(request));
        }
    }
}
