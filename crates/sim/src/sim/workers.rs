//! Workers of an activity: they wait for tasks, perform them under their keys, and answer; late, twice or not at all.

use super::{Happening, Sim};
use crate::clients::Wish;
use crate::observed::Life;
use crate::plan::Trouble;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Attempt, By, Call, Certainty, Fault, Input, Outcome, TaskToken};
use perdura_runtime::{ActivityTask, Message, Reply, Unavailable};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of workers.
const WORKERS: usize = 3;
/// Their activity.
const ACTIVITY: &str = "work";

/// The task that a worker got, if any.
type Heard = Arc<Mutex<Option<Result<ActivityTask, Unavailable>>>>;

#[derive(Default)]
pub(super) struct Worker {
    heard: Heard,
    /// It waits for a task for as long as this exists.
    wanted: Option<Arc<()>>,
    /// How often it has asked.
    asked: u64,
}

/// A task in a worker's hands.
struct Handed {
    token: TaskToken,
    /// The attempt of its step.
    attempt: u32,
}

impl Handed {
    /// The worker failed in this attempt.
    fn failure(&self) -> Outcome {
        let fault = Fault::new("Worker.Failed", format!("attempt {}", self.attempt));
        Outcome::Failed { fault, certainty: Certainty::Ambiguous }
    }
}

impl Sim {
    pub(super) fn hire(&mut self) {
        for number in 0..WORKERS {
            self.workers.push(Worker::default());
            self.after(number as i64 * 100, Happening::Poll(number, 0));
        }
    }

    /// A worker asks for a task, unless it has asked again since this was planned.
    pub(super) fn poll(&mut self, number: usize, asked: u64) {
        if self.workers[number].asked != asked {
            return;
        }
        let worker = &mut self.workers[number];
        worker.asked += 1;
        // A repeated request replaces the earlier one.
        let wanted = Arc::new(());
        worker.wanted = Some(wanted.clone());
        worker.heard = Heard::default();
        let (heard, asked) = (worker.heard.clone(), worker.asked);
        let patience = self.dice.between(1_000..=60_000);
        self.after(patience, Happening::Poll(number, asked));
        let serving: Vec<usize> =
            (0..self.processes.len()).filter(|process| self.processes[*process].serves()).collect();
        if serving.is_empty() {
            return;
        }
        let process = *self.dice.pick(&serving);
        let life = Life { process, boot: self.processes[process].boot };
        let reply = Reply::while_wanted(&wanted, move |task| {
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        });
        self.facts.count("polls");
        let worker = Some(format!("worker {number}").into());
        self.post(life, Message::Poll { activity: ACTIVITY.into(), worker, reply });
    }

    /// Takes the tasks that workers got.
    pub(super) fn hear_workers(&mut self) {
        for number in 0..self.workers.len() {
            let worker = &mut self.workers[number];
            let heard = worker.heard.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(heard) = heard else { continue };
            worker.wanted = None;
            let asked = worker.asked;
            let soon = match heard {
                Ok(task) => self.work(number, &task),
                Err(_) => self.dice.between(100..=2_000),
            };
            self.after(soon, Happening::Poll(number, asked));
        }
    }

    /// A worker has a task; returns when it asks for the next.
    fn work(&mut self, number: usize, task: &ActivityTask) -> i64 {
        let ActivityTask { token, key, input } = task;
        self.facts.count("tasks handed out");
        self.say(|| format!("worker {number} has {key}"));
        self.facts.handed.push(*token);
        self.newest.insert((token.execution, token.strand), *token);
        let attempt = self.disk().observed.scheduled.get(&(token.execution, token.strand)).copied();
        let task = Handed { token: *token, attempt: attempt.unwrap_or(0) };
        if self.is_rough() && self.dice.in_thousand(150) {
            self.facts.count("workers that died before their work");
            self.receiver.meet(key);
            return self.dice.between(1_000..=20_000);
        }
        let call = Call {
            strand: token.strand,
            key: key.clone(),
            attempt: Attempt::FIRST,
            resource: Resource::parse("arn:aws:states:us-east-1:123456789012:activity:work")
                .expect("it is an activity"),
            input: input.clone(),
            token: Some(*token),
            credentials: None,
            timeout_seconds: None,
            heartbeat_seconds: None,
            submitted: false,
        };
        if self.is_rough() && self.plan.has(Trouble::Overlaps) && self.dice.in_thousand(400) {
            return self.overlap(&task, &call);
        }
        let outcome = self.receiver.apply(&call);
        if self.is_rough() && self.dice.in_thousand(250) {
            self.facts.count("workers that died after their work");
            return self.dice.between(1_000..=20_000);
        }
        let is_late = self.is_rough() && self.dice.in_thousand(150);
        let mut at = if is_late { self.dice.between(45_000..=90_000) } else { self.dice.between(0..=5_000) };
        let times = if self.dice.in_thousand(200) { 2 } else { 1 };
        for _ in 0..times {
            self.answer_by_token(task.token, outcome.clone(), at);
            at += self.dice.between(0..=1_500);
        }
        at
    }

    /// A worker that may be silent for so long that another gets the task, and that answers all the same: it did the
    /// work, or failed before it, or refuses it, perhaps without knowing that another has done it.
    fn overlap(&mut self, task: &Handed, call: &Call) -> i64 {
        self.facts.count("workers that may overlap");
        self.receiver.meet(&call.key);
        let mut at = self.dice.between(5_000..=45_000);
        if self.dice.in_thousand(300) {
            let mut beats_at = 0;
            while beats_at + 9_000 < at {
                beats_at += self.dice.between(3_000..=9_000);
                let beat = Input::Heartbeat { by: By::Token(task.token) };
                let request = self.request(Wish::Input(task.token.execution, beat), 0, None);
                self.after(beats_at, Happening::Ask(request));
            }
        }
        let is_done = self.receiver.is_done(&call.key);
        let outcome = if is_done && self.dice.in_thousand(600) {
            at = self.dice.between(0..=2_000);
            self.belie(call)
        } else {
            match self.dice.below(10) {
                0..5 => self.receiver.apply(call),
                5..9 => task.failure(),
                _ => self.receiver.decline(call),
            }
        };
        self.answer_by_token(task.token, outcome, at);
        at += 1;
        at
    }

    /// A worker refuses a task that another has done. No worker takes the next attempt, so the success can still count.
    fn belie(&mut self, call: &Call) -> Outcome {
        self.facts.count("refusals of what was done");
        self.go_away();
        self.receiver.belie(call)
    }

    /// All workers hang up, and ask again after a while: meanwhile nobody takes queued tasks.
    fn go_away(&mut self) {
        for number in 0..self.workers.len() {
            let worker = &mut self.workers[number];
            worker.wanted = None;
            worker.heard = Heard::default();
            worker.asked += 1;
            let asked = worker.asked;
            let away = self.dice.between(5_000..=40_000);
            self.after(away, Happening::Poll(number, asked));
        }
    }

    fn answer_by_token(&mut self, token: TaskToken, outcome: Outcome, after: i64) {
        let is_success = matches!(outcome, Outcome::Succeeded { .. });
        let mark = is_success.then(|| format!("token {}", token.strand.0));
        let input = Input::TaskOutcome { by: By::Token(token), outcome };
        let request = self.request(Wish::Input(token.execution, input), 0, mark);
        self.after(after, Happening::Ask(request));
    }
}
