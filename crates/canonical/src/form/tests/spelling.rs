//! Values, and the many ways to spell each of them.

use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;

/// A value, apart from how it is written. Numbers are digits without zeros at the ends, and a power of ten.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Word(&'static str),
    Number { is_negative: bool, digits: String, power: i32 },
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

/// Any value, of few letters.
pub(super) fn json() -> impl Strategy<Value = Json> {
    let text = || {
        prop_oneof![
            "[ab\"\\\\/\\n]{0,4}",
            "[a-zé😀\u{e000}\u{ffff}]{0,3}",
            Just("0123456789abcdef".to_owned())
        ]
    };
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false"]).prop_map(Json::Word),
        (any::<bool>(), "[1-9]|[1-9][0-9]{0,20}[1-9]", -30..30)
            .prop_map(|(is_negative, digits, power)| { Json::Number { is_negative, digits, power } }),
        Just(Json::Number { is_negative: false, digits: "0".to_owned(), power: 0 }),
        text().prop_map(Json::Text),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::List),
            prop::collection::btree_map(text(), inner, 0..6).prop_map(Json::Object),
        ]
    })
}

/// Writes a value in one of its many spellings, by the dice.
struct Writer<'a> {
    dice: std::iter::Cycle<std::slice::Iter<'a, Index>>,
    out: String,
}

impl Writer<'_> {
    fn roll(&mut self, sides: usize) -> usize {
        self.dice.next().expect("a cycle does not end").index(sides)
    }

    fn space(&mut self) {
        let space = ["", "", " ", "\n\t", "\r\n  "][self.roll(5)];
        self.out.push_str(space);
    }

    fn value(&mut self, value: &Json) {
        self.space();
        match value {
            Json::Word(word) => self.out.push_str(word),
            Json::Number { is_negative, digits, power } => self.number(*is_negative, digits, *power),
            Json::Text(text) => self.text(text),
            Json::List(values) => {
                self.out.push('[');
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        self.out.push(',');
                    }
                    self.value(value);
                }
                self.space();
                self.out.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for at in (1..members.len()).rev() {
                    let other = self.roll(at + 1);
                    members.swap(at, other);
                }
                self.out.push('{');
                for (at, (name, value)) in members.into_iter().enumerate() {
                    if at > 0 {
                        self.out.push(',');
                    }
                    self.space();
                    self.text(name);
                    self.space();
                    self.out.push(':');
                    self.value(value);
                }
                self.space();
                self.out.push('}');
            }
        }
        self.space();
    }

    fn number(&mut self, is_negative: bool, digits: &str, power: i32) {
        let is_zero = digits == "0";
        if is_negative || (is_zero && self.roll(2) == 0) {
            self.out.push('-');
        }
        let zeros = self.roll(3);
        let digits = format!("{digits}{}", "0".repeat(zeros));
        let power = power - zeros as i32;
        // The point before, within or behind the digits.
        let whole = self.roll(digits.len() + 1);
        let fraction = digits.len() - whole;
        let (before, behind) = digits.split_at(whole);
        let before = if whole == 0 || is_zero { "0" } else { before };
        self.out.push_str(before);
        if fraction > 0 {
            self.out.push('.');
            self.out.push_str(behind);
        }
        let power = power + fraction as i32;
        if power != 0 || self.roll(2) == 0 {
            let letter = ["e", "E"][self.roll(2)];
            self.out.push_str(letter);
            let sign = if power < 0 { "-" } else { ["", "+"][self.roll(2)] };
            self.out.push_str(sign);
            let zeros = self.roll(3);
            self.out.push_str(&"0".repeat(zeros));
            self.out.push_str(&power.unsigned_abs().to_string());
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let must = matches!(character, '"' | '\\') || character < ' ';
            match (self.roll(4), character) {
                (0, _) => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let escape = if self.roll(2) == 0 {
                            format!("\\u{unit:04x}")
                        } else {
                            format!("\\u{unit:04X}")
                        };
                        self.out.push_str(&escape);
                    }
                }
                (_, '\n') => self.out.push_str("\\n"),
                (1, '/') => self.out.push_str("\\/"),
                (_, other) => {
                    if must {
                        self.out.push('\\');
                    }
                    self.out.push(other);
                }
            }
        }
        self.out.push('"');
    }
}

/// One of the spellings of a value.
pub(super) fn spell(value: &Json, dice: &[Index]) -> String {
    let mut writer = Writer { dice: dice.iter().cycle(), out: String::new() };
    writer.value(value);
    writer.out
}

/// How many values there are that hold no others.
pub(super) fn leaves(value: &Json) -> usize {
    match value {
        Json::List(values) if !values.is_empty() => values.iter().map(leaves).sum(),
        Json::Object(members) if !members.is_empty() => members.values().map(leaves).sum(),
        Json::Word(_) | Json::Number { .. } | Json::Text(_) | Json::List(_) | Json::Object(_) => 1,
    }
}

/// Puts another value in place of the leaf that `left` others come before.
pub(super) fn replace(value: &mut Json, left: &mut usize, leaf: &Json) {
    match value {
        Json::List(values) if !values.is_empty() => {
            for value in values {
                replace(value, left, leaf);
            }
        }
        Json::Object(members) if !members.is_empty() => {
            for value in members.values_mut() {
                replace(value, left, leaf);
            }
        }
        Json::Word(_) | Json::Number { .. } | Json::Text(_) | Json::List(_) | Json::Object(_) => {
            if *left == 0 {
                *value = leaf.clone();
            }
            *left = left.wrapping_sub(1);
        }
    }
}
