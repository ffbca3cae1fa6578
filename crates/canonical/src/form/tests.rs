mod spelling;

use super::*;
use crate::scan::DEPTH_MAX;
use proptest::prelude::*;
use proptest::sample::Index;
use spelling::{Json, json, leaves, replace, spell};

fn of(text: &str) -> Result<Vec<u8>, Fault> {
    form(text.as_bytes())
}

fn why(text: &[u8]) -> String {
    match form(text) {
        Err(fault) => fault.to_string(),
        Ok(form) => panic!("{} gave {form:?}", text.escape_ascii()),
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
fn names_are_in_order_however_they_begin_and_are_spelled() {
    let names = [
        "",
        "\u{0}",
        "a",
        "a\u{0}",
        "a\"",
        "abcdefg",
        "abcdefgh",
        "abcdefgh\u{0}",
        "abcdefghi",
        "abcdefghj",
        "abcdefgé",
        "abcdefg\u{d7ff}",
        "abcdefg😀",
        "abcdefg\u{e000}",
        "b",
        "é",
        "éé",
        "😀",
        "😀a",
        "\u{e000}",
        "\u{e000}a",
        "\u{ffff}",
    ];
    let escape = |unit| format!("\\u{unit:04x}");
    let escaped = |name: &str| name.encode_utf16().map(escape).collect::<Vec<_>>().concat();
    // The last character alone is escaped, or all, or what must be.
    let spellings = |name: &str| {
        let last = name.char_indices().next_back().map_or(0, |(at, _)| at);
        let plain = serde_json::to_string(name).expect("text");
        [plain, format!("\"{}{}\"", escaped(&name[..last]), escaped(&name[last..])), {
            let begin = serde_json::to_string(&name[..last]).expect("text");
            format!("{}{}\"", begin.strip_suffix('"').expect("a quote"), escaped(&name[last..]))
        }]
    };
    for (at, a) in names.iter().enumerate() {
        for b in &names[at + 1..] {
            let wanted = of(&format!("{{{}:1,{}:2}}", spellings(a)[0], spellings(b)[0])).expect("two names");
            assert!(
                wanted.starts_with(&[b"{\"", a.as_bytes(), b"\xff+1"].concat()),
                "{a:?} comes before {b:?}"
            );
            for (first, second) in spellings(a).iter().zip(spellings(b).iter().cycle().skip(1)) {
                assert_eq!(
                    of(&format!("{{{second}:2,{first}:1}}")).as_ref(),
                    Ok(&wanted),
                    "{first} {second}"
                );
            }
        }
        for pair in spellings(a).windows(2) {
            assert!(
                why(format!("{{{}:1,{}:2}}", pair[0], pair[1]).as_bytes()).contains("a name twice"),
                "{a:?}"
            );
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
    fn what_is_json_is_what_serde_json_takes(
        value in json(),
        dice in prop::collection::vec(any::<Index>(), 1..40),
        at in any::<Index>(),
        removed in 0_usize..3,
        put in "[\\[\\]{},:\"\\\\u0-1.eE+d8 tn-]{0,2}",
    ) {
        let mut text = spell(&value, &dice).into_bytes();
        let start = at.index(text.len());
        let end = text.len().min(start + removed);
        text.splice(start..end, put.bytes());
        let theirs = serde_json::from_slice::<serde_json::Value>(&text);
        let shown = text.escape_ascii();
        match (form(&text), theirs) {
            (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
            (Ok(_), Err(theirs)) => {
                prop_assert!(theirs.to_string().contains("out of range"), "{shown}: {theirs}");
            }
            (Err(ours), Ok(_)) => prop_assert!(ours.to_string().contains("a name twice"), "{shown}: {ours}"),
        }
    }
}
