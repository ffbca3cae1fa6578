//! Those who are called: they honour keys, and are slow, silent, refusing or broken as the seed wants it.
//!
//! A key is applied once. Its first bytes and its first result are remembered, refusals included, and every later
//! delivery gets that result, unless its receiver is one of the unkind.

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

/// How well those who are called behave, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// The answer never comes, though it was done.
    pub(crate) silent: u32,
    /// The call is lost on its way.
    pub(crate) lost: u32,
    /// It was done, and the answer says that nobody knows.
    pub(crate) unsure_done: u32,
    /// It was not done, and the answer says that nobody knows.
    pub(crate) unsure: u32,
    /// The answer takes long.
    pub(crate) slow: u32,
    /// It dies before it answers, having acted or not, and refuses connections for a while.
    pub(crate) dies: u32,
    /// It was done, and the answer is a redirect.
    pub(crate) redirects: u32,
    /// It was done before, and the answer is a conflict.
    pub(crate) conflicts: u32,
    /// It is refused, and that is remembered.
    pub(crate) refuses: u32,
    /// A command ends with an exit code, before the deed or after it.
    pub(crate) exits: u32,
}

/// What was done under a key.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The first bytes that came with it.
    pub(crate) bytes: Arc<str>,
    /// How often it was applied: once, by those who honour keys.
    pub(crate) applied: u32,
    /// How often it came.
    pub(crate) deliveries: u32,
    /// The first result.
    pub(crate) first: Outcome,
    /// It was refused, and will be whenever it comes.
    pub(crate) refused: bool,
    /// When it came first.
    pub(crate) at: i64,
}

/// An answer and when it leaves.
pub(crate) type Answered = (i64, Outcome);

/// All who are called.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// By key.
    pub(crate) kept: BTreeMap<EffectKey, Kept>,
    /// Keys under which something may have been done, numbered in the order in which that began.
    pub(crate) met: BTreeMap<EffectKey, u64>,
    /// Keys that a worker refused, though another had done it.
    pub(crate) belied: BTreeSet<EffectKey>,
    /// What should not have happened.
    pub(crate) complaints: Vec<String>,
    /// How they behave while faults are on.
    pub(crate) manners: Manners,
    /// Faults are on.
    pub(crate) misbehaves: bool,
    /// True time.
    pub(crate) now: i64,
    /// Until when steps take no connections.
    down_until: BTreeMap<Arc<str>, i64>,
    sabotage: Option<Sabotage>,
    dice: Dice,
}

impl Receiver {
    /// With nothing done yet.
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

    /// A call arrives. `None`: it is never answered.
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

    /// From now on something may have been done under this key.
    pub(crate) fn meet(&mut self, key: &EffectKey) {
        let number = self.met.len() as u64;
        self.met.entry(key.clone()).or_insert(number);
    }

    /// Whether something may have been done under this key: it was met, and nobody has refused it.
    pub(crate) fn is_in_doubt(&self, key: &EffectKey) -> bool {
        let is_refused = self.kept.get(key).is_some_and(|kept| kept.refused) || self.belied.contains(key);
        self.met.contains_key(key) && !is_refused
    }

    /// Does it, unless that was done under this key before; with what result.
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

    /// Does nothing, and remembers that, unless something was done under this key before; with what result.
    pub(crate) fn decline(&mut self, call: &Call) -> Outcome {
        if self.kept.contains_key(&call.key) { self.apply(call) } else { self.keep(call, declined()) }
    }

    /// Whether it was done under this key.
    pub(crate) fn is_done(&self, key: &EffectKey) -> bool {
        self.kept.get(key).is_some_and(|kept| kept.applied > 0)
    }

    /// Says that nothing was done under this key, though it was.
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

/// Only steps whose machines expect it get an answer that says that nobody knows.
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

/// Text that is known to be JSON.
pub(crate) fn payload(text: String) -> Payload {
    Payload::from_text(text).expect("the simulation writes valid JSON")
}

/// A key without its round: the step that it belongs to.
pub(crate) fn step_place(key: &EffectKey) -> &str {
    key.readable().rsplit_once(':').map_or(key.readable(), |(step, _)| step)
}

/// The visit that a key belongs to: its execution, its place and its state, whatever the round, and whichever run of a
/// Parallel or Map it is in. No machine here visits a Parallel or Map twice.
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
