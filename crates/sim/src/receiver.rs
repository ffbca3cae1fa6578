//! Receivers: they honour keys, and are slow, silent, refusing or broken as the seed says.
//!
//! A key is applied once. Its first bytes and its first result are remembered, refusals included, and every later
//! delivery gets that result, except from the `unkind` receivers.

mod unkind;

pub(crate) use unkind::{DECLINED, UNREACHABLE, declined};

use crate::dice::{Dice, hash};
use crate::machines::result_of;
use crate::sabotage::Sabotage;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::{Pattern, Target};
use perdura_engine::{Call, Certainty, EffectKey, Fault, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The rates of bad behaviour of receivers, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// The call is performed, and the answer never comes.
    pub(crate) silent: u32,
    /// The call is lost on its way.
    pub(crate) lost: u32,
    /// It is performed, and the answer says "unknown".
    pub(crate) unsure_done: u32,
    /// It is not performed, and the answer says "unknown".
    pub(crate) unsure: u32,
    /// The answer takes long.
    pub(crate) slow: u32,
    /// The receiver dies before it answers, before or after its effect, and refuses connections for a while.
    pub(crate) dies: u32,
    /// It is performed, and the answer is a redirect.
    pub(crate) redirects: u32,
    /// It was performed before, and the answer is a conflict.
    pub(crate) conflicts: u32,
    /// It is refused, and the refusal is remembered.
    pub(crate) refuses: u32,
    /// A command ends with an exit code, before its effect or after it.
    pub(crate) exits: u32,
}

/// The record of a key.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The first bytes that came with it.
    pub(crate) bytes: Arc<str>,
    /// How often it was applied: once, if keys are honoured.
    pub(crate) applied: u32,
    /// How often it came.
    pub(crate) deliveries: u32,
    /// The first result.
    pub(crate) first: Outcome,
    /// It was refused, and will be refused again.
    pub(crate) refused: bool,
    /// When it came first.
    pub(crate) at: i64,
}

/// An answer and when it leaves.
pub(crate) type Answered = (i64, Outcome);

#[derive(Debug)]
pub(crate) struct Receiver {
    /// By key.
    pub(crate) kept: BTreeMap<EffectKey, Kept>,
    /// Keys that may have been used, numbered in the order in which that began.
    pub(crate) met: BTreeMap<EffectKey, u64>,
    /// Keys that a worker refused, though another had performed the task.
    pub(crate) belied: BTreeSet<EffectKey>,
    /// Violations.
    pub(crate) complaints: Vec<String>,
    /// The rates while faults are on.
    pub(crate) manners: Manners,
    /// Faults are on.
    pub(crate) misbehaves: bool,
    /// True time.
    pub(crate) now: i64,
    /// Until when steps refuse connections.
    down_until: BTreeMap<Arc<str>, i64>,
    sabotage: Option<Sabotage>,
    dice: Dice,
}

impl Receiver {
    pub(crate) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        Self {
            kept: BTreeMap::new(),
            met: BTreeMap::new(),
            belied: BTreeSet::new(),
            complaints: Vec::new(),
            manners: Manners::default(),
            misbehaves: false,
            now: 0,
            down_until: BTreeMap::new(),
            sabotage,
            dice: Dice::new(seed, "receiver"),
        }
    }

    /// Delivers a call. `None`: it is never answered.
    pub(crate) fn deliver(&mut self, call: &Call) -> Option<Answered> {
        let manners = if self.misbehaves { self.manners } else { Manners::default() };
        match step_of(call) {
            "mortal" | "wary" => return self.deliver_to_mortal(call, manners),
            "command" | "guarded" => return Some(self.run_command(call, manners)),
            "picky" => return Some(self.deliver_to_picky(call, manners)),
            _ => {}
        }
        let can_fail = may_fail(call);
        if can_fail && self.dice.in_thousand(manners.lost) {
            self.meet(&call.key);
            return None;
        }
        if can_fail && !self.kept.contains_key(&call.key) && self.dice.in_thousand(manners.unsure) {
            self.meet(&call.key);
            return Some((self.delay(call), unsure()));
        }
        let outcome = self.apply(call);
        if can_fail && self.dice.in_thousand(manners.silent) {
            return None;
        }
        let says = if can_fail && self.dice.in_thousand(manners.unsure_done) { unsure() } else { outcome };
        let mut delay = self.delay(call);
        if self.dice.in_thousand(manners.slow) {
            delay += self.dice.between(1_000..=15_000);
        }
        Some((delay, says))
    }

    fn delay(&mut self, call: &Call) -> i64 {
        match step_of(call) {
            "slow" => self.dice.between(100..=3_000),
            "sluggish" => self.dice.between(20_000..=70_000),
            _ => self.dice.between(0..=40),
        }
    }

    /// From now on this key may have been used.
    pub(crate) fn meet(&mut self, key: &EffectKey) {
        let number = self.met.len() as u64;
        self.met.entry(key.clone()).or_insert(number);
    }

    /// Whether this key may have been used: it was met, and was not refused.
    pub(crate) fn is_in_doubt(&self, key: &EffectKey) -> bool {
        let is_refused = self.kept.get(key).is_some_and(|kept| kept.refused) || self.belied.contains(key);
        self.met.contains_key(key) && !is_refused
    }

    /// Performs the call, unless this key was used before; returns the result.
    pub(crate) fn apply(&mut self, call: &Call) -> Outcome {
        self.meet(&call.key);
        if let Some(kept) = self.kept.get_mut(&call.key) {
            kept.deliveries += 1;
            if kept.bytes != *call.input.text() {
                let complaint = format!("{} came again with other bytes: {}", call.key, call.input.text());
                self.complaints.push(complaint);
            }
            if self.sabotage == Some(Sabotage::KeysIgnored) && matches!(kept.first, Outcome::Succeeded { .. })
            {
                kept.applied += 1;
                return result(call, kept.applied);
            }
            return kept.first.clone();
        }
        self.keep(call, result(call, 1))
    }

    /// Refuses the call and remembers that, unless the key was used before; returns the result.
    pub(crate) fn decline(&mut self, call: &Call) -> Outcome {
        if self.kept.contains_key(&call.key) { self.apply(call) } else { self.keep(call, declined()) }
    }

    /// Whether the call was performed under this key.
    pub(crate) fn is_done(&self, key: &EffectKey) -> bool {
        self.kept.get(key).is_some_and(|kept| kept.applied > 0)
    }

    /// Answers that nothing was done under this key, though it was.
    pub(crate) fn belie(&mut self, call: &Call) -> Outcome {
        self.belied.insert(call.key.clone());
        declined()
    }

    fn keep(&mut self, call: &Call, first: Outcome) -> Outcome {
        self.meet(&call.key);
        let done = matches!(first, Outcome::Succeeded { .. } | Outcome::Submitted { .. });
        let kept = Kept {
            bytes: call.input.text().clone(),
            applied: u32::from(done),
            deliveries: 1,
            first: first.clone(),
            refused: !done,
            at: self.now,
        };
        self.kept.insert(call.key.clone(), kept);
        first
    }
}

/// Only steps whose machines expect it get the answer "unknown".
fn may_fail(call: &Call) -> bool {
    matches!(step_of(call), "shaky" | "careful")
}

fn step_of(call: &Call) -> &str {
    match &call.resource.target {
        Target::Step { name } => name,
        Target::Function { .. } | Target::Activity { .. } | Target::Service { .. } => "",
    }
}

fn unsure() -> Outcome {
    Outcome::Failed {
        fault: Fault::new("Unsure", "The connection was lost."),
        certainty: Certainty::Ambiguous,
    }
}

fn result(call: &Call, times: u32) -> Outcome {
    if call.resource.pattern == Pattern::Callback {
        return Outcome::Submitted { output: payload(r#"{"MessageId":"1"}"#.into()) };
    }
    let step = step_of(call);
    let refuses = match step {
        "fail" => true,
        "flaky" => u64::from(call.key.round().0) <= hash(call.input.text().as_bytes()) % 3,
        _ => false,
    };
    if refuses {
        let fault = Fault::new("Refused", "Not this time.");
        return Outcome::Failed { fault, certainty: Certainty::Refused };
    }
    let input: serde_json::Value = serde_json::from_str(call.input.text()).expect("a payload is JSON");
    let mut result = result_of(step, &input);
    if times > 1 {
        result["times"] = times.into();
    }
    Outcome::Succeeded { output: payload(result.to_string()) }
}

/// A text that is valid JSON.
pub(crate) fn payload(text: String) -> Payload {
    Payload::from_text(text).expect("the simulation writes valid JSON")
}

/// A key without its round: its step.
pub(crate) fn step_place(key: &EffectKey) -> &str {
    key.readable().rsplit_once(':').map_or(key.readable(), |(step, _)| step)
}

/// The visit of a key: its execution, place and state, in any round and any run of a Parallel or Map. No machine here
/// visits a Parallel or Map twice.
pub(crate) fn visit_of(key: &EffectKey) -> String {
    let mut parts = step_place(key).split('[');
    let mut visit = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_run = |run: &str| !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit());
        let index = part.split_once(':').filter(|(run, _)| is_run(run)).map_or(part, |(_, index)| index);
        visit.push('[');
        visit.push_str(index);
    }
    visit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_is_the_same_whatever_the_round_and_the_run() {
        let key = |text: &str| -> EffectKey { serde_json::from_value(text.into()).unwrap() };
        let visit = visit_of(&key("e:Pay[3][0]#1:1"));
        assert_eq!(visit, "e:Pay[3][0]#1");
        assert_eq!(visit_of(&key("e:Pay[2:3][4:0]#1:7")), visit);
        assert_ne!(visit_of(&key("e:Pay[2:3][4:1]#1:7")), visit);
        assert_ne!(visit_of(&key("e:Pay[3][0]#2:1")), visit);
    }
}
