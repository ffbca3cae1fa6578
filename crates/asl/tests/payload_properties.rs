//! Whatever text becomes a Payload can stand inside a larger document, be stored and be read back.

use perdura_asl::intrinsic::Intrinsic;
use perdura_asl::json::{DEPTH_MAX, Payload, Value, parse};
use perdura_asl::jsonata::Expression;
use perdura_asl::path::Path;
use perdura_asl::scope::{Dice, Scope, States, Variables};
use proptest::prelude::*;

/// Texts that have caused trouble somewhere.
const HOSTILE: [&str; 62] = [
    "",
    " ",
    "\u{feff}",
    "\u{feff}{}",
    "\u{feff}{\"a\":1}",
    "\u{feff}\u{feff}1",
    " \u{feff}1",
    "1\u{feff}",
    "{}\u{feff}",
    "[\u{feff}1]",
    "{\u{feff}\"a\":1}",
    "\"\u{feff}\"",
    "{\"\u{feff}a\":\"\u{feff}\"}",
    r#""\ufeff""#,
    r#""\u0000""#,
    "\"\u{0}\"",
    "\u{0}",
    r#""\ud800""#,
    r#""\uDC00""#,
    r#""x\ud800y\ud83d\ude00\udc00z""#,
    r#""\ud800\ud800\udc00""#,
    r#""\ud800\u0041""#,
    r#""\\ud800""#,
    r#"{"\ud800":1,"\ud801":2}"#,
    r#"{"a":{"\udfff":1}}"#,
    r#"{"a":"\ud800","a\ufffd":"\ufffd"}"#,
    "1e400",
    "-1e400",
    "1e-400",
    "-0",
    "-0.0",
    "-0e5",
    "[-0,-0.0,0,0.0]",
    "0e10",
    "1.0",
    "1E5",
    "9007199254740993",
    "123456789012345678901234567890",
    "1e-7",
    "01",
    "+1",
    ".5",
    "NaN",
    r#"{"a":1,"a":2}"#,
    r#"{"a":1,"b":2,"a":{"c":1,"c":[]}}"#,
    r#"{"a":1,"\u0061":2}"#,
    "[1,2] ",
    "  [1,2]",
    "\t\r\n {\"a\" : [ ] }\n",
    "\u{c}{}",
    "\u{a0}{}",
    "\u{2028}{}",
    "{} {}",
    "{}x",
    "{},",
    "[1]]",
    "//x\n1",
    "'a'",
    "{\"a\":1,}",
    "\"\u{7f}\u{80}\u{fffe}\u{10ffff}\"",
    "\"a\u{2028}b\"",
    r#""\/\b\f""#,
];

/// A payload and what was made of it inside of larger documents.
fn survives(payload: &Payload) {
    let text = payload.text();
    let reread = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(reread, *payload.value(), "the text says what the value says: {text:?}");
    assert_eq!(reread.to_string(), payload.value().to_string(), "to the letter: {text:?}");

    let stored = serde_json::to_string(payload).unwrap();
    let back: Payload = serde_json::from_str(&stored).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(back.text(), text, "what is stored is read back byte for byte");
    assert_eq!(back.value().to_string(), payload.value().to_string());

    let many = Payload::array_of(&[payload.clone(), Payload::default(), payload.clone()]);
    let stored = serde_json::to_string(&Payload::from(Value::from(vec![many.text().clone()]))).unwrap();
    let outer: Payload = serde_json::from_str(&stored).unwrap();
    let inner = outer.value().as_array().unwrap()[0].as_str().unwrap();
    assert_eq!(inner, &**many.text());
    let items = many.value().as_array().expect("an array of payloads is an array");
    assert_eq!(items.len(), 3, "{text:?}");
    assert_eq!(items[0].to_string(), payload.value().to_string(), "{text:?}");
    if many.depth() <= DEPTH_MAX {
        let again = Payload::from_text(many.text().clone()).unwrap_or_else(|error| panic!("{many}: {error}"));
        assert_eq!(again.text(), many.text());
    }
    // Others read it, too: whoever is called, and whoever asks for the history.
    let elsewhere: Result<serde_json::Value, _> = serde_json::from_str(text);
    assert!(elsewhere.is_ok() || payload.depth() > 100, "{text:?}: {elsewhere:?}");
}

#[test]
fn a_hostile_text_is_refused_at_its_place_or_survives() {
    for text in HOSTILE {
        match Payload::from_text(text) {
            Ok(payload) => survives(&payload),
            Err(error) => assert!(error.at <= text.len() && !error.message.is_empty(), "{text:?}"),
        }
    }
}

#[test]
fn a_byte_order_mark_is_refused_wherever_it_is_no_part_of_a_string() {
    for (text, at) in [("\u{feff}{}", 0), (" \u{feff}1", 1), ("1\u{feff}", 1), ("[\u{feff}1]", 1)] {
        assert_eq!(Payload::from_text(text).unwrap_err().at, at, "{text:?}");
        assert_eq!(parse(text).unwrap_err().at, at, "{text:?}");
    }
}

#[test]
fn half_a_surrogate_pair_is_replaced_in_a_string_and_refused_in_a_name() {
    for (text, expected) in [
        (r#" "x\ud800y\uDC00" "#, r#" "x\ufffdy\ufffd" "#),
        (
            r#"["\ud83d\ude00","\\ud800","\ud800\ud800\udc00"]"#,
            r#"["\ud83d\ude00","\\ud800","\ufffd\ud800\udc00"]"#,
        ),
    ] {
        assert_eq!(&**Payload::from_text(text).unwrap().text(), expected);
    }
    for (text, at) in [(r#"{"\ud800":1,"\ud801":2}"#, 1), (r#"{"a":1, "b\udfff":2}"#, 8)] {
        let error = Payload::from_text(text).unwrap_err();
        assert_eq!(error.at, at, "{text}");
        assert!(error.message.contains("surrogate"), "{error}");
    }
}

#[test]
fn of_two_members_with_one_name_the_last_counts_in_the_text_as_well() {
    let payload = Payload::from_text(r#"{ "a": 1, "b": [2], "\u0061": 3 }"#).unwrap();
    assert_eq!(&**payload.text(), r#"{"a":3,"b":[2]}"#);
    let untouched = r#"{ "a": 1, "b": {"a": 2} }"#;
    assert_eq!(&**Payload::from_text(untouched).unwrap().text(), untouched);
}

#[test]
fn a_number_is_written_as_it_came() {
    for text in ["-0", "-0.0", "0", "0.0", "[-0,{\"a\":-0.0}]", "9007199254740993", "1.0", "1e-7"] {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn a_record_of_an_earlier_version_with_a_byte_order_mark_is_read() {
    for (stored, expected) in [
        ("\u{feff}{\"a\": 1}", r#"{"a":1}"#),
        ("[\u{feff}{},[\u{feff} 1]]", "[{},[1]]"),
        ("{\"a\":1, \"a\":2}", "{\"a\":1, \"a\":2}"),
        (r#"{"\ud800":"\ud800"}"#, r#"{"\ud800":"\ud800"}"#),
    ] {
        let wire = serde_json::to_string(stored).unwrap();
        let payload: Payload =
            serde_json::from_str(&wire).unwrap_or_else(|error| panic!("{stored}: {error}"));
        assert_eq!(&**payload.text(), expected);
        let many = Payload::array_of(&[payload.clone(), payload]);
        assert_eq!(many.value().as_array().unwrap().len(), 2);
    }
    let broken = serde_json::to_string("{\u{feff}").unwrap();
    assert!(serde_json::from_str::<Payload>(&broken).is_err());
}

#[test]
fn results_as_deep_as_a_document_may_be_are_looked_into_when_they_are_gathered() {
    let deep = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
    let many = Payload::array_of(&[Payload::from_text(deep).unwrap()]);
    assert_eq!(many.depth(), DEPTH_MAX + 1, "whoever records it looks at this first");
    assert_eq!(many.value().as_array().unwrap().len(), 1);
}

/// Pieces of JSON and of what only looks like it.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned),
        4 => prop::sample::select(vec!["{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "d800", "\u{feff}", " ", "\n"])
            .prop_map(str::to_owned),
        2 => "[ -~]{0,6}",
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn whatever_text_is_taken_survives(pieces in prop::collection::vec(piece(), 0..5), shape in 0_usize..5) {
        let joined = pieces.join(",");
        let text = match shape {
            0 => pieces.concat(),
            1 => format!("[{joined}]"),
            2 => format!("{{\"a\":{}}}", pieces.concat()),
            3 => Value::from(pieces.concat()).to_string(),
            _ => format!(" [ {joined} , {{\"k\":{}}}] ", pieces.first().map_or("1", String::as_str)),
        };
        if let Ok(payload) = Payload::from_text(text) {
            survives(&payload);
        }
    }
}

#[test]
fn a_zero_with_a_sign_comes_out_as_it_came_in_on_every_path_until_something_computes_with_it() {
    let input = Payload::from_text(r#"{"zero":-0,"float":-0.0}"#).unwrap();
    let (variables, dice) = (Variables::default(), Dice::new(0, 1));
    let scope = Scope {
        input: input.value(),
        context: &Value::Null,
        variables: &variables,
        states: States { input: Some(input.value()), ..States::default() },
        dice: &dice,
    };
    for (path, expected) in [("$.zero", "-0"), ("$.float", "-0.0"), ("$.*", "[-0,-0.0]"), ("$", input.text())]
    {
        assert_eq!(Path::parse(path).unwrap().select(&scope).unwrap().to_string(), expected);
    }
    for (call, expected) in [
        ("States.Array($.zero, $.float)", "[-0,-0.0]"),
        ("States.JsonToString($)", r#""{\"zero\":-0,\"float\":-0.0}""#),
        ("States.StringToJson('[-0,-0.0]')", "[-0,-0.0]"),
        ("States.MathAdd($.zero, $.float)", "0"),
    ] {
        assert_eq!(Intrinsic::parse(call).unwrap().evaluate(&scope).unwrap().to_string(), expected, "{call}");
    }
    for (expression, expected) in [
        ("$states.input", &**input.text()),
        ("$states.input.zero", "-0"),
        ("$states.input.float", "-0.0"),
        ("[$states.input.zero, $states.input.*]", "[-0,-0,-0.0]"),
        ("{'a': $states.input.float}", r#"{"a":-0.0}"#),
        ("$states.input.zero + 0", "0"),
        ("-$states.input.zero", "0"),
        ("$sum([$states.input.float])", "0"),
        ("$string($states.input.zero)", r#""0""#),
        ("$states.input.zero = 0 and $states.input.float = 0", "true"),
        ("$boolean($states.input.zero)", "false"),
        // As on AWS, which writes what JavaScript would.
        ("$parse('[-0, -0.0, 0.0]')", "[0,0,0.0]"),
    ] {
        let found = Expression::parse(expression).unwrap().evaluate(&scope).unwrap().unwrap();
        assert_eq!(found.to_string(), expected, "{expression}");
    }
}
