use super::*;
use proptest::prelude::*;
use proptest::sample::Index;

fn of(text: &str) -> Result<Vec<u8>, ContentFault> {
    form(text.as_bytes())
}

fn why(text: &[u8]) -> String {
    match form(text) {
        Err(ContentFault::Malformed(why)) => why,
        other => panic!("{} gave {other:?}", text.escape_ascii()),
    }
}

#[test]
fn the_form_is_pinned() {
    let table: &[(&str, &[u8])] = &[
        ("null", b"n"),
        (" true ", b"t"),
        ("false", b"f"),
        ("\"\"", b"\"\xff"),
        ("\"a\\u0000\\n\"", b"\"a\0\n\xff"),
        ("[]", b"[]"),
        ("{}", b"{}"),
        ("[1, -2.50, \"x\", [null]]", b"[+1-25e-1\"x\xff[n]]"),
        ("{\"b\":1,\"a\":{\"d\":[],\"c\":0}}", b"{\"a\xff{\"c\xff+0\"d\xff[]}\"b\xff+1}"),
    ];
    for (text, expected) in table {
        assert_eq!(of(text).as_deref(), Ok(*expected), "{text}");
    }
}

#[test]
fn spellings_of_one_value_have_one_form() {
    let table: &[&[&str]] = &[
        &["{\"a\":1,\"b\":2}", "{ \"b\" : 2e0 ,\r\n\t\"a\" : 1.0 }", "{\"\\u0062\":2,\"\\u0061\":10e-1}"],
        &["\"/\"", "\"\\/\"", "\"\\u002f\"", "\"\\u002F\""],
        &["\"\\b\\f\\n\\r\\t\\\"\\\\\"", "\"\\u0008\\u000c\\u000a\\u000d\\u0009\\u0022\\u005c\""],
        &["\"😀\"", "\"\\ud83d\\ude00\"", "\"\\uD83D\\uDE00\""],
        &["[0,-0,0.0]", "[-0.0e7, 0, 0]"],
    ];
    for spellings in table {
        for spelling in &spellings[1..] {
            assert_eq!(of(spelling), of(spellings[0]), "{spelling}");
            assert!(of(spelling).is_ok(), "{spelling}");
        }
    }
}

#[test]
fn different_values_have_different_forms() {
    let texts = [
        "null",
        "0",
        "1",
        "-1",
        "10",
        "1e1000",
        "9007199254740993",
        "9007199254740992",
        "\"\"",
        "\"1\"",
        "\"null\"",
        "\"é\"",
        "\"e\\u0301\"",
        "[]",
        "[[]]",
        "[[],[]]",
        "[1,2]",
        "[2,1]",
        "[12]",
        "[\"a\",\"b\"]",
        "[\"ab\"]",
        "[\"a\\\",\\\"b\"]",
        "{}",
        "[{}]",
        "{\"a\":null}",
        "{\"a\":\"\"}",
        "{\"\":\"a\"}",
        "{\"a\":1,\"b\":2}",
        "{\"a\":2,\"b\":1}",
        "{\"a\":{\"b\":1}}",
        "{\"a\":[],\"b\":1}",
        "[1,-1]",
        "[1e-1]",
        "true",
        "false",
        "[true]",
    ];
    for (at, a) in texts.iter().enumerate() {
        for b in &texts[at + 1..] {
            assert_ne!(of(a).expect(a), of(b).expect(b), "{a} and {b}");
        }
    }
}

#[test]
fn names_are_in_the_order_of_their_utf16_code_units() {
    let names = [
        "",
        "\r",
        "1",
        "a",
        "aa",
        "\u{80}",
        "ö",
        "\u{2028}",
        "\u{d7ff}",
        "😀",
        "\u{10ffff}",
        "\u{e000}",
        "\u{ffff}",
    ];
    for (at, a) in names.iter().enumerate() {
        for (other, b) in names.iter().enumerate() {
            assert_eq!(utf16_order(a.as_bytes(), b.as_bytes()), at.cmp(&other), "{a:?} {b:?}");
            assert_eq!(a.encode_utf16().cmp(b.encode_utf16()), at.cmp(&other), "{a:?} {b:?}");
        }
    }
}

#[test]
fn what_is_not_json_is_refused_and_says_where() {
    let table: &[(&[u8], &str)] = &[
        (b"", "byte 0: it ends"),
        (b"  ", "byte 2: it ends"),
        (b"nul", "byte 0: no value"),
        (b"NaN", "byte 0: no value"),
        (b"Infinity", "byte 0: no value"),
        (b"-Infinity", "byte 0: a number needs"),
        (b"1 2", "byte 2: there is something after"),
        (b"01", "zero"),
        (b"+1", "no value"),
        (b".5", "no value"),
        (b"truex", "byte 4: there is something after"),
        (b"[1,]", "byte 3: no value"),
        (b"[1 2]", "without a comma"),
        (b"[", "it ends"),
        (b"[1", "does not end"),
        (b"{\"a\":1,}", "byte 7: a member"),
        (b"{a:1}", "byte 1: a member"),
        (b"{\"a\" 1}", "colon"),
        (b"{\"a\":}", "no value"),
        (b"{\"a\":1", "does not end"),
        (b"{\"a\":1]", "does not end"),
        (b"\"a", "byte 2: a string does not end"),
        (b"\"a\nb\"", "byte 2: a string holds a control"),
        (b"\"12345678\x1f\"", "byte 9: a string holds a control"),
        (b"\"\\x\"", "no such escape"),
        (b"\"\\", "no such escape"),
        (b"\"\\u12\"", "four hexadecimal"),
        (b"\"\\u+123\"", "four hexadecimal"),
        (b"\"\\ud800\"", "surrogate"),
        (b"\"\\udc00\"", "surrogate"),
        (b"\"\\ud800\\ud800\"", "surrogate"),
        (b"\"\\ud800x\"", "surrogate"),
        (b"\"\\ude00\\ud83d\"", "surrogate"),
        (b"{\"a\":1,\"a\":1}", "a name twice"),
        (b"{\"b\":1,\"a\":1,\"b\":2}", "a name twice"),
        (b"{\"a\":1,\"\\u0061\":2}", "a name twice"),
        (b"[{\"x\":{\"a\":1,\"b\":0,\"a\":2}}]", "a name twice"),
        (b"\"\xff\"", "byte 1: this is not UTF-8"),
        (b"\"\xc0\xaf\"", "byte 1: this is not UTF-8"),
        (b"\"\xed\xa0\x80\"", "byte 1: this is not UTF-8"),
        (b"\xff\xfe1\0", "not UTF-8"),
        (b"/**/1", "no value"),
        (b"1e1000000000000000000", "more than 18"),
    ];
    for (text, expected) in table {
        let said = why(text);
        assert!(said.contains(expected), "{}: {said}", text.escape_ascii());
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(of(&nested(DEPTH_MAX)).is_ok());
    assert!(why(nested(DEPTH_MAX + 1).as_bytes()).contains("too deeply"));
    assert!(why("[".repeat(1_000_000).as_bytes()).contains("too deeply"));
    assert!(why("{\"a\":".repeat(1_000_000).as_bytes()).contains("too deeply"));
}

#[test]
fn a_fault_quotes_nothing_of_the_content() {
    for text in ["{\"card\":4111x}", "{\"card\":1,\"card\":2}", "\"card", "card"] {
        let said = why(text.as_bytes());
        assert!(!said.contains("card") && !said.contains("4111"), "{said}");
    }
}

#[test]
fn plain_bytes_end_at_the_first_special_one() {
    for length in 0..40 {
        let mut text = vec![0x80 | b'a'; length];
        assert_eq!(plain_bytes(&text), length);
        for at in 0..length {
            for special in [b'"', b'\\', 0, 0x1f] {
                text.fill(b' ');
                text[at..].fill(special);
                assert_eq!(plain_bytes(&text), at);
                text[at + 1..].fill(0x21);
                assert_eq!(plain_bytes(&text), at);
            }
        }
    }
}

/// A value, apart from how it is written. Numbers are digits without zeros at the ends, and a power of ten.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Word(&'static str),
    Number { is_negative: bool, digits: String, power: i32 },
    Text(String),
    List(Vec<Json>),
    Object(std::collections::BTreeMap<String, Json>),
}

fn json() -> impl Strategy<Value = Json> {
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

fn spell(value: &Json, dice: &[Index]) -> String {
    let mut writer = Writer { dice: dice.iter().cycle(), out: String::new() };
    writer.value(value);
    writer.out
}

proptest! {
    #[test]
    fn forms_are_equal_exactly_when_values_are(
        a in json(),
        b in json(),
        dice in prop::collection::vec(any::<Index>(), 1..40),
        other_dice in prop::collection::vec(any::<Index>(), 1..40),
    ) {
        let (spelled, again, other) = (spell(&a, &dice), spell(&a, &other_dice), spell(&b, &dice));
        let canonical = of(&spelled).map_err(|fault| TestCaseError::fail(format!("{spelled}: {fault}")))?;
        let canonical_again = of(&again);
        prop_assert_eq!(canonical_again.as_ref(), Ok(&canonical), "{} and {}", spelled, again);
        prop_assert_eq!(of(&other).as_ref() == Ok(&canonical), a == b, "{} and {}", spelled, other);
    }

    #[test]
    fn one_changed_leaf_is_another_form(
        value in json(),
        dice in prop::collection::vec(any::<Index>(), 1..40),
        at in any::<Index>(),
        leaf in prop_oneof![Just(Json::Word("null")), Just(Json::Text("new".into())), Just(Json::List(vec![]))],
    ) {
        let mut changed = value.clone();
        replace(&mut changed, &mut at.index(leaves(&value)), &leaf);
        prop_assert_eq!(of(&spell(&value, &dice)) == of(&spell(&changed, &dice)), value == changed);
    }

    #[test]
    fn whatever_is_sent_is_read_as_serde_json_reads_it_or_refused(text in "[\\[\\]{},:\"\\\\ua0-1.eE+d8c truefalsn]{0,24}") {
        // What serde_json takes and we do not: equal names. It refuses numbers that no double holds; we do not.
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        match of(&text) {
            Ok(_) => prop_assert!(theirs.is_ok() || theirs.unwrap_err().to_string().contains("out of range")),
            Err(ContentFault::Malformed(why)) if why.contains("name twice") => {}
            Err(_) => prop_assert!(theirs.is_err(), "{}", text),
        }
    }
}

/// How many values there are that hold no others.
fn leaves(value: &Json) -> usize {
    match value {
        Json::List(values) if !values.is_empty() => values.iter().map(leaves).sum(),
        Json::Object(members) if !members.is_empty() => members.values().map(leaves).sum(),
        Json::Word(_) | Json::Number { .. } | Json::Text(_) | Json::List(_) | Json::Object(_) => 1,
    }
}

/// Puts another value in place of the leaf that `left` others come before.
fn replace(value: &mut Json, left: &mut usize, leaf: &Json) {
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
