//! The six functions of Step Functions. With odd arguments they behave as AWS was seen to behave.

use super::Arguments;
use crate::codec::hash_hex;
use crate::java_random::Random;
use crate::json::{Lexer, Token, parse_without_signed_zeros};
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::meter::DICE;
use crate::jsonata::value::{Flags, List, Val};
use std::collections::BTreeSet;

/// AWS accepts `$range(1, 360145, 1)` and refuses one element more.
const RANGE_MAX: i128 = 360_145;

/// The counted size of a parsed byte of JSON text, until the evaluation ends.
const PARSED_BYTES: usize = 3;

impl Evaluator<'_> {
    /// Chunks of an array; the last one has the rest.
    pub(super) fn partition(&self, args: Arguments<'_>) -> Fallible<Val> {
        let array = match args.get(0) {
            Val::Undefined => return Ok(Val::Undefined),
            Val::Array(array) => array,
            _ => return Err(Error::new("T0412").text("undefined").index(1)),
        };
        let size = match whole(args, 1)? {
            Some(size) if size < 0 => return Err(Error::custom("Second argument must be zero or greater")),
            Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
            None => array.len(),
        };
        if array.is_empty() || size == 0 {
            return Ok(Val::Undefined);
        }
        let mut chunks = List::new(&self.meter)?;
        let mut chunk = List::new(&self.meter)?;
        for item in array.iter() {
            chunk.push(item)?;
            if chunk.len() == size {
                chunks.push(std::mem::replace(&mut chunk, List::new(&self.meter)?).finish(Flags::PLAIN))?;
            }
        }
        if chunk.len() > 0 {
            chunks.push(chunk.finish(Flags::PLAIN))?;
        }
        Ok(chunks.finish(Flags::PLAIN))
    }

    /// Numbers from the first to the last, which is included if a step lands on it. One number stands for itself.
    pub(super) fn step_range(&self, args: Arguments<'_>) -> Fallible<Val> {
        let (Some(first), Some(last), Some(step)) = (whole(args, 0)?, whole(args, 1)?, whole(args, 2)?)
        else {
            return Ok(Val::Undefined);
        };
        let (first, last, step) = (i128::from(first), i128::from(last), i128::from(step));
        if step == 0 || (last - first).signum() == -step.signum() {
            return Ok(Val::Undefined);
        }
        let count = (last - first) / step + 1;
        if count > RANGE_MAX {
            return Err(Error::memory());
        }
        let mut numbers = List::new(&self.meter)?;
        for at in 0..count {
            numbers.push(Val::from(&crate::json::Number::from(first + at * step)))?;
        }
        Ok(numbers.finish(Flags::SEQUENCE))
    }

    pub(super) fn hash(&self, args: Arguments<'_>) -> Fallible<Val> {
        let (Some(text), Some(algorithm)) = (args.text(0)?, args.text(1)?) else { return Ok(Val::Undefined) };
        // Hashing costs more than copying.
        self.meter.work(128 + text.len() as u64)?;
        let Some(digest) = hash_hex(text, algorithm) else {
            let known = "SHA-1, SHA-384, SHA-256, SHA-512, MD5";
            return Err(Error::custom(format!("Hash algorithm '{}' must be one of {known}", &**algorithm)));
        };
        Val::built(&self.meter, &digest)
    }

    /// A number from 0 to 1: from the dice of the Turn, or from a seed as Java draws it.
    pub(super) fn random(&self, args: Arguments<'_>) -> Fallible<Val> {
        if let Some(seed) = whole(args, 0)? {
            return Ok(Val::Number(Random::new(seed).fraction()));
        }
        self.meter.work(DICE)?;
        Ok(Val::Number(self.scope.dice.fraction()))
    }

    /// JSON text as a value. Stricter than most readers: no key twice, nothing after the end.
    pub(super) fn parse(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.text(32 * text.len())?;
        self.meter.keep(PARSED_BYTES * text.len())?;
        let invalid = || Error::custom("Invalid JSON");
        if has_key_twice(text) {
            return Err(invalid());
        }
        parse_without_signed_zeros(text).map(|value| Val::from(&value)).map_err(|_| invalid())
    }
}

/// An argument as an integer, rounded towards zero.
fn whole(args: Arguments<'_>, at: usize) -> Fallible<Option<i64>> {
    Ok(match args.get(at) {
        Val::Exact(number) => Some(number.as_i64().unwrap_or(number.as_f64() as i64)),
        _ => args.number(at)?.map(|number| number as i64),
    })
}

/// Whether an object of a JSON text has a member twice. The parser refuses texts that are not JSON.
fn has_key_twice(text: &str) -> bool {
    let mut lexer = Lexer::new(text);
    let mut objects: Vec<Option<BTreeSet<String>>> = Vec::new();
    let mut expects_key = false;
    // Deeper documents are refused by the reader, too.
    while objects.len() <= crate::json::DEPTH_MAX + 1
        && let Ok((token, _)) = lexer.token()
    {
        match token {
            Token::ObjectStart => {
                objects.push(Some(BTreeSet::new()));
                expects_key = true;
                continue;
            }
            Token::ArrayStart => objects.push(None),
            Token::ObjectEnd | Token::ArrayEnd => drop(objects.pop()),
            Token::Comma => {
                expects_key = matches!(objects.last(), Some(Some(_)));
                continue;
            }
            Token::String(key) if expects_key => {
                if let Some(Some(keys)) = objects.last_mut()
                    && !keys.insert(key.into_owned())
                {
                    return true;
                }
            }
            Token::End => return false,
            Token::Colon | Token::String(_) | Token::Number(_) | Token::Bool(_) | Token::Null => {}
        }
        expects_key = false;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_twice_only_within_one_object() {
        assert!(has_key_twice(r#"{"a":1,"b":{"a":2},"a":3}"#));
        assert!(has_key_twice(r#"[{"a":[{"b":1,"b":2}]}]"#));
        assert!(!has_key_twice(r#"{"a":{"a":["a","a"]},"b":"a"}"#));
    }
}
