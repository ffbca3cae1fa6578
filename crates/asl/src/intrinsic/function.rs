//! The functions by name.

use super::{array, digest, math, text};
use crate::json::Value;
use crate::scope::Dice;
use std::ops::RangeInclusive;

/// One of the 18.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Format,
    StringToJson,
    JsonToString,
    Array,
    ArrayPartition,
    ArrayContains,
    ArrayRange,
    ArrayGetItem,
    ArrayLength,
    ArrayUnique,
    Base64Encode,
    Base64Decode,
    Hash,
    JsonMerge,
    MathRandom,
    MathAdd,
    StringSplit,
    Uuid,
}

impl Function {
    /// All of them, with their names after `States.` and the counts of arguments they take.
    pub(super) const ALL: [(Self, &str, RangeInclusive<usize>); 18] = [
        (Self::Format, "Format", 1..=usize::MAX),
        (Self::StringToJson, "StringToJson", 1..=1),
        (Self::JsonToString, "JsonToString", 1..=1),
        (Self::Array, "Array", 0..=usize::MAX),
        (Self::ArrayPartition, "ArrayPartition", 2..=2),
        (Self::ArrayContains, "ArrayContains", 2..=2),
        (Self::ArrayRange, "ArrayRange", 3..=3),
        (Self::ArrayGetItem, "ArrayGetItem", 2..=2),
        (Self::ArrayLength, "ArrayLength", 1..=1),
        (Self::ArrayUnique, "ArrayUnique", 1..=1),
        (Self::Base64Encode, "Base64Encode", 1..=1),
        (Self::Base64Decode, "Base64Decode", 1..=1),
        (Self::Hash, "Hash", 2..=2),
        (Self::JsonMerge, "JsonMerge", 3..=3),
        (Self::MathRandom, "MathRandom", 2..=3),
        (Self::MathAdd, "MathAdd", 2..=2),
        (Self::StringSplit, "StringSplit", 2..=2),
        (Self::Uuid, "UUID", 0..=0),
    ];

    /// The name after `States.`.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(function, ..)| *function == self).map_or("", |(_, name, _)| name)
    }

    /// The mistake in this number of arguments, if any.
    pub(super) fn miscount(self, count: usize) -> Option<String> {
        let (_, name, counts) = Self::ALL.iter().find(|(function, ..)| *function == self)?;
        if counts.contains(&count) {
            return None;
        }
        let wanted = match (*counts.start(), *counts.end()) {
            (least, usize::MAX) => format!("{least} or more"),
            (least, most) if least == most => format!("{least}"),
            (least, most) => format!("{least} to {most}"),
        };
        Some(format!("States.{name} takes {wanted} arguments, and here are {count}"))
    }

    /// Its work, in units of [`Dice::spent`]: by the data that it reads, which for some is only the top level.
    pub(super) fn cost(self, arguments: &[Value]) -> u64 {
        let looked_at: usize = match self {
            Self::Array | Self::ArrayGetItem | Self::ArrayLength => arguments.len(),
            Self::ArrayRange => 16 * array::RANGE_MAX as usize,
            Self::ArrayPartition | Self::JsonMerge => arguments.iter().map(|value| 16 * width(value)).sum(),
            Self::MathAdd | Self::MathRandom | Self::Uuid => 1_024,
            Self::Format
            | Self::StringToJson
            | Self::JsonToString
            | Self::ArrayContains
            | Self::ArrayUnique
            | Self::Base64Encode
            | Self::Base64Decode
            | Self::Hash
            | Self::StringSplit => {
                let mut left = text::TEXT_MAX;
                arguments.iter().all(|value| text::fits(value, &mut left));
                // Removing duplicates needs a tree of all texts.
                let times = if self == Self::ArrayUnique { 24 } else { 4 };
                times * (text::TEXT_MAX - left)
            }
        };
        16 + looked_at as u64 / 16
    }

    /// Applies it to its arguments. The error is a sentence of AWS.
    pub(super) fn apply(self, arguments: &[Value], dice: &Dice) -> Result<Value, String> {
        let result = match (self, arguments) {
            (Self::Array, items) => Some(items.iter().cloned().collect()),
            (Self::Format, [template, values @ ..]) => return text::format(template, values),
            (Self::StringToJson, [Value::String(json)]) => return text::read_json(json),
            (Self::JsonToString, [value]) => text::print(value).map(Value::from),
            (Self::JsonToString, _) => {
                return Err(
                    "Invalid arguments in States.JsonToString: only a single argument is allowed.".to_owned()
                );
            }
            (Self::ArrayPartition, [Value::Array(items), size]) => array::partition(items, size),
            (Self::ArrayContains, [Value::Array(items), wanted]) => array::contains(items, wanted),
            (Self::ArrayRange, [first, last, step]) => array::range(first, last, step),
            (Self::ArrayGetItem, [Value::Array(items), index]) => array::item(items, index),
            (Self::ArrayLength, [Value::Array(items)]) => Some(items.len().into()),
            (Self::ArrayUnique, [Value::Array(items)]) => array::unique(items),
            (Self::Base64Encode, [Value::String(text)]) => digest::base64_encode(text),
            (Self::Base64Decode, [Value::String(text)]) => digest::base64_decode(text),
            (Self::Hash, [data, Value::String(algorithm)]) => digest::hash(data, algorithm),
            (Self::JsonMerge, [first, second, deep]) => merge(first, second, deep),
            (Self::MathRandom, [start, end]) => math::random(start, end, dice),
            (Self::MathRandom, [start, end, seed]) => math::random_seeded(start, end, seed),
            (Self::MathAdd, [left, right]) => math::add(left, right),
            (Self::StringSplit, [Value::String(text), Value::String(splitter)]) => {
                Some(text::split(text, splitter))
            }
            // It ignores its arguments.
            (Self::Uuid, _) => Some(dice.uuid().into()),
            _ => None,
        };
        result.ok_or_else(|| format!("Invalid arguments in States.{}", self.name()))
    }
}

/// How many values stand right inside.
fn width(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

/// Two objects merged; of a member that both have, the second counts. `true` would ask for a deep merge, which does not
/// exist.
fn merge(first: &Value, second: &Value, deep: &Value) -> Option<Value> {
    let (Value::Object(first), Value::Object(second)) = (first, second) else { return None };
    if deep.as_bool() == Some(true) || deep.as_str() == Some("true") {
        return None;
    }
    let mut merged = (**first).clone();
    for (name, value) in second.iter() {
        merged.insert(name.clone(), value.clone());
    }
    Some(merged.into())
}
