//! What holds for every text, every path and every value.

use perdura_asl::intrinsic::Intrinsic;
use perdura_asl::json::{Map, Number, Value};
use perdura_asl::path::{Path, ReferencePath};
use perdura_asl::scope::{Dice, Scope, States, Variables};
use proptest::prelude::*;
use std::fmt::Write;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|float| Value::Number(Number::Float(float))),
        "[abx1é \\\\']{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6)
                .prop_map(|members| members.into_iter().collect::<Map>().into()),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[ab]", 1 => "[a-c.'\"\\\\\\[\\] é😀]{0,5}"]
}

/// Texts that look like paths, so that many of them are.
fn path_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(".a".to_owned()),
        Just(".b".to_owned()),
        Just("..".to_owned()),
        Just("..a".to_owned()),
        Just(".*".to_owned()),
        Just("[*]".to_owned()),
        Just("..*".to_owned()),
        Just(".length".to_owned()),
        Just("['a','b']".to_owned()),
        (-4_i64..4).prop_map(|index| format!("[{index}]")),
        (-4_i64..4, -4_i64..4).prop_map(|(a, b)| format!("[{a},{b}]")),
        (-4_i64..4, -4_i64..4).prop_map(|(a, b)| format!("[{a}:{b}]")),
        filter_like().prop_map(|filter| format!("[?({filter})]")),
        "[$@.\\[\\]()'\"?*:,!&|<>=~ a\\\\/0-9]{1,3}",
    ];
    (prop_oneof![Just("$"), Just("$$"), Just("$v"), Just("")], prop::collection::vec(piece, 0..6))
        .prop_map(|(root, pieces)| format!("{root}{}", pieces.concat()))
}

fn filter_like() -> impl Strategy<Value = String> {
    let side = prop_oneof![
        Just("@".to_owned()),
        Just("@.a".to_owned()),
        Just("@..b".to_owned()),
        Just("@[*]".to_owned()),
        Just("$.a".to_owned()),
        Just("$..*".to_owned()),
        Just("'a'".to_owned()),
        Just("['a', 1, null]".to_owned()),
        Just("{'a': 1}".to_owned()),
        Just("/a.*/i".to_owned()),
        Just("true".to_owned()),
        (-3_i64..3).prop_map(|number| number.to_string()),
    ];
    let operator = prop::sample::select(vec![
        "==", "!=", "===", "!==", "<", "<=", ">", ">=", "=~", "in", "nin", "subsetof", "anyof", "noneof",
        "all", "size", "empty", "contains",
    ]);
    let comparison = (side.clone(), operator, side.clone())
        .prop_map(|(left, operator, right)| format!("{left} {operator} {right}"));
    prop_oneof![side, comparison].prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|filter| format!("!({filter})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} || ({b})")),
            inner.prop_map(|filter| format!("@.a[?({filter})]")),
        ]
    })
}

/// Texts that look like calls, mostly with as many arguments as the function takes.
fn call_like() -> impl Strategy<Value = String> {
    let functions = [
        ("Format", 2),
        ("StringToJson", 1),
        ("JsonToString", 1),
        ("Array", 3),
        ("ArrayPartition", 2),
        ("ArrayContains", 2),
        ("ArrayRange", 3),
        ("ArrayGetItem", 2),
        ("ArrayLength", 1),
        ("ArrayUnique", 1),
        ("Base64Encode", 1),
        ("Base64Decode", 1),
        ("Hash", 2),
        ("JsonMerge", 3),
        ("MathRandom", 3),
        ("MathAdd", 2),
        ("StringSplit", 2),
        ("UUID", 0),
    ];
    let argument = prop_oneof![
        Just("$".to_owned()),
        Just("$.a".to_owned()),
        Just("$..*".to_owned()),
        Just("$$.b".to_owned()),
        Just("null".to_owned()),
        Just("false".to_owned()),
        Just("'SHA-256'".to_owned()),
        Just("'{}'".to_owned()),
        "'[ab{}\\\\ é]{0,4}'",
        any::<i64>().prop_map(|int| int.to_string()),
        (-1e3..1e3).prop_map(|float| format!("{float:?}")),
    ];
    let argument = prop_oneof![20 => argument, 1 => "[$'(),a.\\\\ ]{0,3}"];
    argument.prop_recursive(4, 16, 3, move |inner| {
        (prop::sample::select(functions.to_vec()), prop::collection::vec(inner, 3), 0..10_usize).prop_map(
            |((name, count), arguments, other)| {
                let count = if other < arguments.len() { other } else { count };
                format!("States.{name}({})", arguments[..count].join(", "))
            },
        )
    })
}

/// Every place in a value, as a reference path, with what is there.
fn places(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    found.push((path.to_owned(), value.clone()));
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                places(item, &format!("{path}[{at}]"), found);
            }
        }
        Value::Object(map) => {
            for (name, member) in map.iter() {
                places(member, &format!("{path}{}", in_brackets(name)), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn in_brackets(name: &str) -> String {
    format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn in_dots(name: &str) -> String {
    name.chars().fold(".".to_owned(), |mut text, c| {
        write!(text, "\\u{:04x}", u32::from(c)).unwrap();
        text
    })
}

fn scope<'a>(input: &'a Value, variables: &'a Variables<'a>, dice: &'a Dice) -> Scope<'a> {
    Scope { input, context: input, variables, states: States::default(), dice }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused_inside_of_it(text in prop_oneof!["\\PC{0,40}", path_like(), call_like()]) {
        let refusals = [
            Path::parse(&text).err(),
            ReferencePath::parse(&text).err(),
            Intrinsic::parse(&text).err(),
        ];
        for error in refusals.into_iter().flatten() {
            prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{error:?} in {text:?}");
            prop_assert!(!error.message.is_empty());
        }
    }

    #[test]
    fn any_path_gives_an_answer_on_any_value(text in path_like(), input in value()) {
        if let Ok(path) = Path::parse(&text) {
            let (variables, dice) = (Variables::default(), Dice::new(0, 1));
            let scope = scope(&input, &variables, &dice);
            let _ = path.select(&scope);
            let _ = path.look_in_template(&scope);
            let found = path.select_from(&input);
            if !path.is_definite() {
                prop_assert!(found.is_some_and(|found| found.as_array().is_some()), "{text} gives a list");
            }
        }
    }

    #[test]
    fn any_call_gives_an_answer_on_any_value(text in call_like(), input in value()) {
        if let Ok(call) = Intrinsic::parse(&text) {
            let (variables, dice) = (Variables::default(), Dice::new(0, 1));
            let _ = call.evaluate(&scope(&input, &variables, &dice));
            prop_assert!(call.paths().all(|path| text.contains(path.text())));
        }
    }

    #[test]
    fn a_place_that_is_there_is_found(input in value()) {
        let mut found = Vec::new();
        places(&input, "$", &mut found);
        for (text, expected) in found {
            let path = Path::parse(&text).unwrap();
            prop_assert!(path.is_definite());
            prop_assert_eq!(path.select_from(&input), Some(expected), "{}", text);
        }
    }

    #[test]
    fn brackets_and_dots_say_the_same(name in "\\PC{1,6}", inner in value()) {
        let map: Map = [(name.as_str(), inner.clone())].into_iter().collect();
        let input = Value::from(map);
        prop_assert_eq!(
            Path::parse(&format!("${}", in_brackets(&name))).unwrap().select_from(&input),
            Some(inner.clone())
        );
        if name.chars().all(|c| u32::from(c) < 0x1_0000) {
            prop_assert_eq!(
                Path::parse(&format!("${}", in_dots(&name))).unwrap().select_from(&input),
                Some(inner)
            );
        }
    }

    #[test]
    fn what_is_put_is_found_and_all_else_stays(input in value(), put in value(), pick in any::<prop::sample::Index>()) {
        let mut found = Vec::new();
        places(&input, "$", &mut found);
        let (text, _) = pick.get(&found);
        let path = ReferencePath::parse(text).unwrap();
        let after = path.put(input.clone(), put.clone()).unwrap();
        prop_assert_eq!(Path::parse(text).unwrap().select_from(&after), Some(put), "{}", text);
        for (other, before) in &found {
            if !other.starts_with(text.as_str()) && !text.starts_with(other.as_str()) {
                prop_assert_eq!(Path::parse(other).unwrap().select_from(&after), Some(before.clone()));
            }
        }
    }

    #[test]
    fn what_is_put_where_nothing_was_is_found(names in prop::collection::vec(name(), 1..5), put in value()) {
        let text: String = std::iter::once("$".to_owned()).chain(names.iter().map(|name| in_brackets(name))).collect();
        let after = ReferencePath::parse(&text).unwrap().put(Value::empty_object(), put.clone()).unwrap();
        prop_assert_eq!(Path::parse(&text).unwrap().select_from(&after), Some(put));
    }

    #[test]
    fn a_list_is_the_same_wherever_it_stands(wanted in value(), list in prop::collection::vec(value(), 0..8)) {
        let item = perdura_asl::object! {"wanted" => wanted, "list" => list};
        let input: Value = [item].into_iter().collect();
        for operator in ["in", "nin", "subsetof", "anyof", "noneof"] {
            let found = |list: &str| {
                Path::parse(&format!("$[?(@.wanted {operator} {list})]")).unwrap().select_from(&input)
            };
            prop_assert_eq!(found("@.list"), found("$[0].list"), "{}", operator);
        }
    }

    #[test]
    fn base64_comes_back(text in "\\PC{0,60}") {
        let (variables, dice) = (Variables::default(), Dice::new(0, 1));
        let input = Value::from(text);
        let call = Intrinsic::parse("States.Base64Decode(States.Base64Encode($))").unwrap();
        prop_assert_eq!(call.evaluate(&scope(&input, &variables, &dice)), Ok(input.clone()));
    }
}
