//! A list for many lookups.
//!
//! `[?(@.id in $.done)]` asks for each value whether it is in the same list. Searching one by one costs the product of
//! both lengths, so the list is indexed once. Equality is that of [`super::judge`]: a text also equals a number with
//! that notation, and a number a text that parses as it.

use super::judge::{effort, equal, read_number};
use crate::json::{Number, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;

pub(super) struct Members<'a> {
    list: Cow<'a, Value>,
    /// Texts, and numbers as they are written.
    texts: BTreeSet<String>,
    /// Numbers, and texts that parse as numbers, in one notation.
    numbers: BTreeSet<String>,
    /// `null`, `false` and `true`.
    words: [bool; 3],
}

impl<'a> Members<'a> {
    /// `None`: the value is not a list.
    pub(super) fn new(list: Cow<'a, Value>) -> Option<Self> {
        let (mut texts, mut numbers, mut words) = (BTreeSet::new(), BTreeSet::new(), [false; 3]);
        for item in list.as_array()? {
            match item {
                Value::String(text) => {
                    numbers.extend(read_number(text).as_ref().map(plain));
                    texts.insert(text.to_string());
                }
                Value::Number(number) => {
                    numbers.insert(plain(number));
                    texts.insert(number.to_string());
                }
                Value::Null => words[0] = true,
                Value::Bool(truth) => words[1 + usize::from(*truth)] = true,
                Value::Array(_) | Value::Object(_) => {}
            }
        }
        Some(Self { list, texts, numbers, words })
    }

    /// How many values are in the list, with long texts counted by their length.
    pub(super) fn len(&self) -> usize {
        self.items()
            .iter()
            .map(|item| 1 + if let Value::String(_) = item { effort(item, item) } else { 0 })
            .sum()
    }

    fn items(&self) -> &[Value] {
        self.list.as_array().unwrap_or_default()
    }

    /// How many values are looked at to find `wanted`.
    pub(super) fn cost(&self, wanted: &Value) -> usize {
        match wanted {
            Value::Array(_) | Value::Object(_) => {
                self.items().iter().map(|item| 1 + effort(wanted, item)).sum()
            }
            Value::String(_) => 1 + effort(wanted, wanted),
            Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        }
    }

    pub(super) fn contains(&self, wanted: &Value) -> bool {
        match wanted {
            Value::Null => self.words[0],
            Value::Bool(truth) => self.words[1 + usize::from(*truth)],
            Value::String(text) => self.texts.contains(&**text),
            Value::Number(number) => self.numbers.contains(&plain(number)),
            Value::Array(_) | Value::Object(_) => self.items().iter().any(|item| equal(wanted, item)),
        }
    }
}

/// A number in one notation: `1`, `1.0` and `1e0` are the same.
fn plain(number: &Number) -> String {
    match number {
        Number::Written(float, _) => plain(&Number::Float(*float)),
        Number::Float(float) if float.fract() == 0.0 => format!("{:.0}", float + 0.0),
        Number::Big(_) if number.as_i64() == Some(0) => "0".to_owned(),
        Number::Int(_) | Number::Float(_) | Number::Big(_) => number.to_string(),
    }
}
