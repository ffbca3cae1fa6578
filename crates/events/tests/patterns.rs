//! A set of patterns says what each pattern says by itself, and what whoever writes the rule down naively says.

mod naive;

use perdura_events::{Event, Pattern, Patterns};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

/// Of so few letters that patterns often match, and often nearly.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[abAB*]{0,4}",
        1 => "[äÄa/]{0,3}",
        1 => select(vec!["10.0.0.1", "10.0.1.1", "10.1.0.1", "192.168.0.1", "::1", "2001:db8::1"]).prop_map(String::from),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    select(vec!["0", "1", "1.0", "1e0", "-1", "2.5", "25e-1", "10", "1e1", "-0", "3"])
        .prop_map(|text| serde_json::from_str(text).expect("a number"))
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => text().prop_map(Value::String),
        2 => number(),
        1 => select(vec![json!(null), json!(true), json!(false)]),
    ]
}

fn name() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c"]).prop_map(String::from)
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), value, 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// The data of a message: objects and lists within each other.
fn data() -> impl Strategy<Value = Value> {
    let inner = leaf().prop_recursive(4, 48, 5, |inner| {
        let elements = prop::collection::vec(object(inner.clone()), 0..4).prop_map(Value::Array);
        prop_oneof![
            object(inner.clone()),
            prop::collection::vec(inner, 0..5).prop_map(Value::Array),
            elements
        ]
    });
    object(inner)
}

fn wildcard() -> impl Strategy<Value = String> {
    prop::collection::vec(select(vec!["a", "b", "A", "*", "/", "\\*"]), 0..6).prop_map(|pieces| {
        let mut text = String::new();
        for piece in pieces {
            if !(piece == "*" && text.ends_with('*') && !text.ends_with("\\*")) {
                text.push_str(piece);
            }
        }
        text
    })
}

fn network() -> impl Strategy<Value = &'static str> {
    select(vec![
        "10.0.0.0/8",
        "10.0.0.0/16",
        "10.0.0.0/24",
        "10.0.0.1/32",
        "0.0.0.0/0",
        "::/0",
        "2001:db8::/32",
    ])
}

fn bound() -> impl Strategy<Value = Value> {
    (select(vec!["=", "<", "<=", ">", ">="]), number())
        .prop_map(|(operator, number)| json!([operator, number]))
}

fn range() -> impl Strategy<Value = Value> {
    let between = (select(vec![">", ">="]), -3..3_i32, select(vec!["<", "<="]), 1..3_i32)
        .prop_map(|(low, from, high, more)| json!([low, from, high, from + more]));
    prop_oneof![bound(), between]
}

fn one_or_more(value: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    prop_oneof![value.clone(), prop::collection::vec(value, 1..3).prop_map(Value::Array)]
}

fn test() -> impl Strategy<Value = Value> {
    let string = || text().prop_map(Value::String).boxed();
    let ends = || select(vec!["prefix", "suffix"]);
    prop_oneof![
        4 => leaf(),
        2 => (ends(), text()).prop_map(|(name, text)| json!({name: text})),
        1 => (ends(), text()).prop_map(|(name, text)| json!({name: {"equals-ignore-case": text}})),
        1 => text().prop_map(|text| json!({"equals-ignore-case": text})),
        1 => text().prop_map(|text| json!({"exact": text})),
        2 => wildcard().prop_map(|text| json!({"wildcard": text})),
        2 => range().prop_map(|range| json!({"numeric": range})),
        1 => network().prop_map(|network| json!({"cidr": network})),
        1 => any::<bool>().prop_map(|exists| json!({"exists": exists})),
        1 => one_or_more(string()).prop_map(|values| json!({"anything-but": values})),
        1 => one_or_more(number().boxed()).prop_map(|values| json!({"anything-but": values})),
        1 => (select(vec!["prefix", "suffix", "equals-ignore-case"]), one_or_more(string()))
            .prop_map(|(name, values)| json!({"anything-but": {name: values}})),
        1 => one_or_more(wildcard().prop_map(Value::String).boxed())
            .prop_map(|values| json!({"anything-but": {"wildcard": values}})),
    ]
}

fn tests() -> impl Strategy<Value = Value> {
    prop::collection::vec(test(), 1..4).prop_map(Value::Array)
}

/// Fields of the data, some of them a choice.
fn fields() -> impl Strategy<Value = Value> {
    tests().prop_recursive(3, 12, 3, |inner| {
        let fields = prop::collection::btree_map(name(), inner, 1..3)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
            .boxed();
        let with_or = (fields.clone(), prop::collection::vec(fields.clone(), 2..4)).prop_filter_map(
            "a choice is between objects",
            |(mut fields, choices)| {
                fields.as_object_mut()?.insert("$or".to_owned(), Value::Array(choices));
                Some(fields)
            },
        );
        prop_oneof![3 => fields, 1 => with_or]
    })
}

fn pattern() -> impl Strategy<Value = Value> {
    let attributes =
        prop::collection::btree_map(select(vec!["source", "detail-type", "id", "subject"]), tests(), 0..2);
    (attributes, select(vec!["data", "detail"]), fields(), 0..10).prop_map(
        |(attributes, name, fields, dice)| {
            let mut pattern: Map<String, Value> =
                attributes.into_iter().map(|(name, tests)| (name.to_owned(), tests)).collect();
            if dice > 0 || pattern.is_empty() {
                pattern.insert(name.to_owned(), fields);
            }
            Value::Object(pattern)
        },
    )
}

fn message() -> impl Strategy<Value = (Event, Value)> {
    (text(), text(), prop::option::of(text()), data()).prop_map(|(kind, source, subject, data)| {
        let (kind, source) = (format!("t{kind}"), format!("s{source}"));
        let mut event = Event::new(&kind, &source).expect("valid");
        let mut naive =
            json!({"type": kind, "source": source, "data": data, "datacontenttype": "application/json"});
        if let Some(subject) = subject.filter(|subject| !subject.is_empty()) {
            event.set("subject", &subject).expect("valid");
            naive["subject"] = Value::String(subject);
        }
        event.set_json(&data.to_string());
        (event, naive)
    })
}

/// The values that hold no others, with their paths.
fn leaves<'a>(value: &'a Value, path: &mut Vec<String>, all: &mut Vec<(Vec<String>, &'a Value)>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                path.push(name.clone());
                leaves(value, path, all);
                path.pop();
            }
        }
        Value::Array(values) => values.iter().for_each(|value| leaves(value, path, all)),
        leaf => all.push((path.clone(), leaf)),
    }
}

/// A test that this value passes or nearly passes.
fn aimed_test(value: &Value, dice: &mut impl FnMut(usize) -> usize) -> Value {
    match value {
        Value::String(text) => {
            let characters: Vec<char> = text.chars().collect();
            let (from, to) = (dice(characters.len() + 1), dice(characters.len() + 1));
            let part = |range: std::ops::Range<usize>| characters[range].iter().collect::<String>();
            let (begin, end) = (part(0..from.min(to)), part(from.max(to)..characters.len()));
            match dice(8) {
                0 => json!(text),
                1 => json!({"prefix": begin}),
                2 => json!({"suffix": end}),
                3 | 4 => {
                    let escaped = |text: &str| text.replace('\\', "\\\\").replace('*', "\\*");
                    json!({"wildcard": format!("{}*{}", escaped(&begin), escaped(&end))})
                }
                5 => json!({"equals-ignore-case": text.to_uppercase()}),
                6 => json!({"anything-but": {"prefix": begin}}),
                _ => json!({"anything-but": ([text, "b"][dice(2)])}),
            }
        }
        Value::Number(_) => match dice(4) {
            0 => value.clone(),
            1 => json!({"numeric": [(["=", "<", "<=", ">", ">="][dice(5)]), value]}),
            2 => json!({"numeric": [([">", ">="][dice(2)]), value, "<", 99]}),
            _ => json!({"anything-but": [value, ([1, 2, 3][dice(3)])]}),
        },
        _ => [value.clone(), json!({"exists": true}), json!({"anything-but": "a"})][dice(3)].clone(),
    }
}

/// A pattern on several values of the data, which need not be in one element of a list.
fn aimed(data: &Value, rolls: &[Index]) -> Option<Value> {
    let mut rolls = rolls.iter().cycle();
    let mut dice = |sides: usize| rolls.next().expect("a cycle").index(sides);
    let mut all = Vec::new();
    leaves(data, &mut vec!["data".to_owned()], &mut all);
    let mut pattern = json!({});
    for _ in 0..all.len().min(1 + dice(3)) {
        let (path, value) = &all[dice(all.len())];
        let tests = (0..=dice(2)).map(|_| aimed_test(value, &mut dice)).collect::<Vec<_>>();
        let mut place = &mut pattern;
        for name in path {
            // One field may be part of another's way.
            place = place.as_object_mut()?.entry(name.as_str()).or_insert_with(|| json!({}));
        }
        if place.as_object().is_none_or(|members| !members.is_empty()) {
            return None;
        }
        *place = Value::Array(tests);
    }
    pattern.as_object().is_some_and(|members| !members.is_empty()).then_some(pattern)
}

fn parse(pattern: &Value) -> Pattern {
    Pattern::parse(&pattern.to_string()).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

fn check(patterns: &[Value], event: &Event, naive: &Value) -> Result<(), TestCaseError> {
    let set = Patterns::new(patterns.iter().map(parse).enumerate()).expect("a few");
    let wanted: Vec<usize> = (0..patterns.len()).filter(|at| naive::matches(&patterns[*at], naive)).collect();
    let found: Vec<usize> = set.matching(event).copied().collect();
    prop_assert_eq!(found, wanted, "{:?} and {}", patterns, naive);
    Ok(())
}

proptest! {
    #[test]
    fn a_set_aimed_at_a_message_matches_what_the_naive_reading_matches(
        (event, naive) in message(),
        rolls in prop::collection::vec(prop::collection::vec(any::<Index>(), 1..24), 1..16),
    ) {
        let patterns: Vec<Value> = rolls.iter().filter_map(|rolls| aimed(&naive["data"], rolls)).collect();
        check(&patterns, &event, &naive)?;
    }

    #[test]
    fn a_set_matches_what_the_naive_reading_matches(
        patterns in prop::collection::vec(pattern(), 1..12),
        messages in prop::collection::vec(message(), 1..4),
    ) {
        for (event, naive) in &messages {
            check(&patterns, event, naive)?;
        }
    }

    #[test]
    fn whatever_is_given_as_a_pattern_is_read_or_refused(
        pieces in prop::collection::vec(select(vec![
            "{", "}", "[", "]", ",", ":", "\"source\"", "\"data\"", "\"$or\"", "\"prefix\"", "\"anything-but\"",
            "\"numeric\"", "\">\"", "1", "1e999", "null", "\"wildcard\"", "\"*a*\"", "\"cidr\"", "\"10.0.0.0/8\"",
        ]), 0..24),
    ) {
        let _ = Pattern::parse(&pieces.concat());
    }

    #[test]
    fn a_pattern_with_anything_changed_is_read_or_refused(
        pattern in pattern(),
        at in any::<Index>(),
        put in "[\\[\\]{},:\"*\\\\0-9a-z$ ]{0,3}",
        (event, _) in message(),
    ) {
        let mut text = pattern.to_string();
        let mut place = at.index(text.len());
        while !text.is_char_boundary(place) {
            place -= 1;
        }
        text.insert_str(place, &put);
        if let Ok(pattern) = Pattern::parse(&text) {
            let _ = Patterns::new([((), pattern)]).expect("one").matching(&event).count();
        }
    }

    #[test]
    fn any_data_is_walked(data in prop::collection::vec(any::<u8>(), 0..80), patterns in prop::collection::vec(pattern(), 1..4)) {
        let mut event = Event::new("t", "s").expect("valid");
        event.set("datacontenttype", "application/json").expect("valid");
        event.set_data(Some(data));
        let set = Patterns::new(patterns.iter().map(parse).enumerate()).expect("a few");
        let _ = set.matching(&event).count();
    }
}
