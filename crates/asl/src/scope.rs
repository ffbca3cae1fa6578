//! The values that an expression can read while it is evaluated.

use crate::error::RUNTIME;
use crate::json::Value;
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The cause when a state's paths, rules and calls take more work together than is allowed.
pub const EXHAUSTED: &str = "The paths, rules and intrinsic functions of this state take more work together than one \
    state may. Let them look at less data, or divide the work among several states.";

/// The variables that are visible at one place: inner scopes first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables<'a> {
    /// The variables of the innermost scope.
    pub own: Option<&'a BTreeMap<Arc<str>, crate::json::Payload>>,
    /// The variables of the scopes around it.
    pub outer: Option<&'a Variables<'a>>,
}

impl<'a> Variables<'a> {
    /// The value of a variable, from the innermost scope that has it.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        match self.own.and_then(|own| own.get(name)) {
            Some(payload) => Some(payload.value()),
            None => self.outer.and_then(|outer| outer.get(name)),
        }
    }
}

/// The values of `$`, `$$`, `$name` and `$states` at one point of a state.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// `$` in `JSONPath`: the input, the result or the item, by field.
    pub input: &'a Value,
    /// `$$`, and `$states.context`.
    pub context: &'a dyn Context,
    /// `$name`
    pub variables: &'a Variables<'a>,
    /// `$states`, in JSONata only.
    pub states: States<'a>,
    /// The time and the randomness for expressions.
    pub dice: &'a Dice,
}

/// The members of `$states` besides `context`; the field decides which exist.
#[derive(Clone, Copy, Debug, Default)]
pub struct States<'a> {
    /// `$states.input`
    pub input: Option<&'a Value>,
    /// `$states.result`
    pub result: Option<&'a Value>,
    /// `$states.errorOutput`
    pub error_output: Option<&'a Value>,
}

/// The context object. The engine builds it, and only the parts that are read.
pub trait Context {
    /// The whole object, as Step Functions shows it.
    fn whole(&self) -> Value;

    /// A value that is readable by its path of names but not part of the whole: our `Task.IdempotencyKey`.
    fn hidden(&self, names: &[&str]) -> Option<Value>;
}

/// Without an execution, the caller gives the context object.
impl Context for Value {
    fn whole(&self) -> Value {
        self.clone()
    }

    fn hidden(&self, _names: &[&str]) -> Option<Value> {
        None
    }
}

/// The time and the randomness of one Turn, and the work of its expressions. The same numbers give the same random
/// values, in the same order, and the same expressions on the same data cost the same.
#[derive(Debug)]
pub struct Dice {
    now_ms: i64,
    entropy: u128,
    thrown: Cell<u64>,
    spent: Cell<u64>,
    allowed: Cell<u64>,
}

impl Dice {
    /// All random values follow from `entropy`; all times are `now_ms`, milliseconds since 1970.
    pub fn new(now_ms: i64, entropy: u128) -> Self {
        Self { now_ms, entropy, thrown: Cell::new(0), spent: Cell::new(0), allowed: Cell::new(u64::MAX) }
    }

    /// The time of the Turn, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The work of all evaluations so far, in units: a node of JSONata is 16, 16 bytes of text are one. Units are
    /// counted, not timed, so a replayed Turn costs the same.
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Counts work of an evaluation.
    pub fn spend(&self, units: u64) {
        self.spent.set(self.spent.get().saturating_add(units));
    }

    /// From here on evaluations may take this much work together; then they fail.
    pub fn allow(&self, units: u64) {
        self.allowed.set(self.spent.get().saturating_add(units));
    }

    /// How much work evaluations may still take together.
    pub(crate) fn left(&self) -> u64 {
        self.allowed.get().saturating_sub(self.spent.get())
    }

    /// An error once evaluations have taken more work than they may.
    pub fn check(&self) -> Result<(), Failure> {
        if self.spent.get() > self.allowed.get() { Err(Failure::new(RUNTIME, EXHAUSTED)) } else { Ok(()) }
    }

    /// 128 unguessable bits.
    pub fn throw(&self) -> u128 {
        let count = self.thrown.get();
        self.thrown.set(count + 1);
        let digest = Sha256::new()
            .chain_update(self.entropy.to_be_bytes())
            .chain_update(count.to_be_bytes())
            .finalize();
        u128::from_be_bytes(digest[..16].try_into().expect("a SHA-256 digest has 32 bytes"))
    }

    /// A double in 0..1, every multiple of 2^-53 equally likely.
    pub fn fraction(&self) -> f64 {
        (self.throw() >> 75) as f64 / (1_u64 << 53) as f64
    }

    /// A random UUID (version 4).
    pub fn uuid(&self) -> String {
        let bits = self.throw() & !(0xf << 76) & !(0b11 << 62) | (0x4 << 76) | (0b10 << 62);
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

/// A failed evaluation: the error for a Catch, and a sentence about it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{error}: {cause}")]
pub struct Failure {
    /// A `States.*` name.
    pub error: &'static str,
    /// The message, for people.
    pub cause: String,
    /// The field, such as `Output/total`, if AWS shows it.
    pub location: Option<String>,
}

impl Failure {
    /// A failure without a location.
    pub fn new(error: &'static str, cause: impl Into<String>) -> Self {
        Self { error, cause: cause.into(), location: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_beyond_what_is_allowed_is_an_error_until_more_is_allowed() {
        let dice = Dice::new(0, 7);
        dice.spend(1_000);
        assert_eq!(dice.check(), Ok(()), "without a bound all is allowed");
        dice.allow(10);
        dice.spend(10);
        assert_eq!((dice.left(), dice.check()), (0, Ok(())));
        dice.spend(1);
        assert_eq!((dice.left(), dice.check().unwrap_err().error), (0, RUNTIME));
        dice.allow(5);
        assert_eq!((dice.left(), dice.check()), (5, Ok(())));
    }

    #[test]
    fn dice_repeat_for_the_same_entropy_and_differ_between_throws() {
        let (a, b) = (Dice::new(0, 7), Dice::new(0, 7));
        assert_eq!(a.uuid(), b.uuid());
        assert_ne!(a.uuid(), Dice::new(0, 7).uuid());
        assert_eq!(&a.uuid()[14..15], "4");
        assert!((0..100).all(|_| (0.0..1.0).contains(&a.fraction())));
    }
}
