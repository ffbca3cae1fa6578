//! Fingerprints and names, by vectors that another program computes too, and by what must and must not change them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use perdura_events::{Basis, Event, Identity, Rule, Without};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};

const VECTORS: &str = include_str!("vectors/fingerprints.json");
const DOCUMENTATION: &str = include_str!("../../../docs/events.md");

fn event(vector: &Value) -> Event {
    let text = |name: &str| vector[name].as_str();
    let mut event =
        Event::new(text("type").expect("a type"), text("source").expect("a source")).expect("valid");
    for name in ["datacontenttype", "id", "idempotencykey"] {
        if let Some(value) = text(name) {
            event.set(name, value).expect("valid");
        }
    }
    let bytes = text("data_base64").map(|text| STANDARD.decode(text).expect("Base64"));
    event.set_data(bytes.or_else(|| text("data").map(|text| text.as_bytes().to_vec())));
    event
}

fn rule(paths: &[&str]) -> Rule {
    Rule { without: Without::new(paths.iter().copied()).expect("valid"), ..Rule::default() }
}

#[test]
fn messages_have_the_names_that_the_vectors_say() {
    let vectors: Vec<Value> = serde_json::from_str(VECTORS).expect("a list");
    assert!(vectors.len() >= 30);
    for vector in &vectors {
        let paths = vector["without"]
            .as_array()
            .map_or(Vec::new(), |paths| paths.iter().filter_map(Value::as_str).collect());
        let identity = Identity::of(&event(vector), &rule(&paths)).expect("something is left");
        let basis = match identity.basis {
            Basis::Key => "key",
            Basis::Id => "id",
            Basis::Fingerprint => "fingerprint",
        };
        let found = json!({"basis": basis, "message": identity.name.to_string(), "payload": identity.payload.to_string()});
        let said =
            json!({"basis": vector["basis"], "message": vector["message"], "payload": vector["payload"]});
        assert_eq!(found, said, "{}", vector["name"]);
    }
}

/// The program of the documentation, which knows nothing of this crate, computes the same.
#[test]
fn the_documented_program_computes_the_vectors() {
    let program = DOCUMENTATION
        .split("```python\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a program");
    let said = program.lines().last().and_then(|line| line.strip_prefix("# ")).expect("what it prints");
    let check = r#"
import base64, sys
for vector in json.load(sys.stdin):
    data = vector.get("counts", vector.get("data"))
    data = None if data is None else data.encode()
    if "data_base64" in vector:
        data = base64.b64decode(vector["data_base64"])
    version = "perdura-event-1"
    if "without" in vector:
        version += ";without=" + sha256(b"without", *[path.encode() for path in sorted(set(vector["without"]))])
    payload = fingerprint(vector["type"], vector["source"], vector.get("datacontenttype"), data, version)
    assert payload == vector["payload"], vector["name"]
    print("same")
"#;
    let mut python = Command::new("python3")
        .args(["-c", &format!("{program}{check}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    python.stdin.take().expect("piped").write_all(VECTORS.as_bytes()).expect("it reads");
    let output = python.wait_with_output().expect("it ends");
    let printed = String::from_utf8(output.stdout).expect("text");
    let vectors: Vec<Value> = serde_json::from_str(VECTORS).expect("a list");
    assert_eq!(
        printed,
        format!("{said}\n{}", "same\n".repeat(vectors.len())),
        "the program says it all is the same"
    );
    assert!(output.status.success());
}

fn of(json: &str, rule: &Rule) -> [u8; 32] {
    let mut event = Event::new("t", "/s").expect("valid");
    event.set_json(json);
    *Identity::of(&event, rule).expect("something is left").name.as_bytes()
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-9999..9999_i32).prop_map(|cents| Value::from(f64::from(cents) / 4.0)),
        "[ab\"\\\\/é😀\u{e000}]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let members = prop::collection::btree_map("[abé😀\u{e000}]{0,2}", inner.clone(), 0..5);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            members.prop_map(|members: BTreeMap<String, Value>| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes a value in one of its spellings: other white space, order of members, escapes, and zeros at numbers.
fn spell(value: &Value, dice: &mut impl FnMut(usize) -> usize, out: &mut String) {
    let space = [" ", "", "\n\t"][dice(3)];
    out.push_str(space);
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::Number(number) => {
            let text = number.to_string();
            let zeros = dice(3);
            out.push_str(&text);
            out.push_str(if text.contains('.') { "" } else { ".0" });
            out.push_str(&"0".repeat(zeros));
            out.push_str(["", "e0", "E-0", "e+00"][dice(4)]);
        }
        Value::String(text) => spell_text(text, dice, out),
        Value::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                spell(value, dice, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for at in (1..members.len()).rev() {
                members.swap(at, dice(at + 1));
            }
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                spell_text(name, dice, out);
                out.push(':');
                spell(value, dice, out);
            }
            out.push('}');
        }
    }
    out.push_str(space);
}

fn spell_text(text: &str, dice: &mut impl FnMut(usize) -> usize, out: &mut String) {
    out.push('"');
    for unit in text.chars() {
        if dice(3) == 0 || matches!(unit, '"' | '\\') {
            for unit in unit.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04X}").expect("a String takes all");
            }
        } else {
            out.push(unit);
        }
    }
    out.push('"');
}

fn spelled(value: &Value, rolls: &[Index]) -> String {
    let mut rolls = rolls.iter().cycle();
    let mut out = String::new();
    spell(value, &mut |sides| rolls.next().expect("a cycle").index(sides), &mut out);
    out
}

fn rolls() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 1..40)
}

proptest! {
    #[test]
    fn two_messages_are_one_exactly_when_their_data_is(a in value(), b in value(), rolls in rolls(), others in rolls()) {
        let rule = Rule::default();
        prop_assert_eq!(of(&spelled(&a, &rolls), &rule), of(&spelled(&a, &others), &rule));
        let same = spelled(&a, &[rolls[0]]) == spelled(&b, &[rolls[0]]);
        prop_assert_eq!(of(&spelled(&a, &rolls), &rule) == of(&spelled(&b, &others), &rule), same || a == b);
    }

    #[test]
    fn what_is_left_out_does_not_count_and_all_else_does(
        kept in value(), other in value(), left_out in value(), instead in value(), rolls in rolls(), depth in 0..4_usize,
    ) {
        let rule = rule(&["/x/sentAt", "/**/attempt"]);
        let message = |kept: &Value, left_out: &Value| {
            let mut deep = json!({"kept": kept, "attempt": left_out});
            for _ in 0..depth {
                deep = json!({"in": [deep], "attempt": left_out});
            }
            let mut members = Map::new();
            members.insert("x".to_owned(), json!({"sentAt": left_out, "y": 1}));
            members.insert("deep".to_owned(), deep);
            of(&spelled(&Value::Object(members), &rolls), &rule)
        };
        prop_assert_eq!(message(&kept, &left_out), message(&kept, &instead));
        prop_assert_eq!(message(&kept, &left_out) == message(&other, &left_out), kept == other);
    }

    #[test]
    fn a_name_twice_is_hashed_as_it_is(value in value(), rolls in rolls()) {
        let twice = |space: &str| format!("{{\"a\":{},{space}\"\\u0061\":1}}", spelled(&value, &rolls));
        let rule = Rule::default();
        prop_assert_eq!(of(&twice(""), &rule), of(&format!(" {}\n", twice("")), &rule));
        prop_assert_ne!(of(&twice(""), &rule), of(&twice(" "), &rule));
        prop_assert_ne!(of(&twice(""), &rule), of("{\"a\":1}", &rule));
    }
}
