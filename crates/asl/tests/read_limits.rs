//! Texts that are too much: each is answered, soon, and with a reason.

use perdura_asl::diagnostic::{Diagnostic, code};
use perdura_asl::read::{BYTES_MAX, ReadOptions, Reading, STRICT_BYTES_MAX, read};
use perdura_asl::source::Source;
use std::fmt::Write;

fn read_text(name: &str, text: String) -> Reading {
    read(&Source::new(name, text), &ReadOptions::default())
}

/// The one complaint about a text.
fn only(reading: &Reading) -> &Diagnostic {
    assert!(reading.machine.is_none());
    assert_eq!(
        reading.diagnostics.len(),
        1,
        "{:?}",
        &reading.diagnostics[..2.min(reading.diagnostics.len())]
    );
    &reading.diagnostics[0]
}

/// A chain of states, each with something to compile.
fn chain(count: usize) -> String {
    let mut text = String::from(r#"{"StartAt": "S0", "States": {"#);
    for ix in 0..count {
        let way =
            if ix + 1 == count { r#""End": true"#.to_owned() } else { format!(r#""Next": "S{}""#, ix + 1) };
        let comma = if ix == 0 { "" } else { ", " };
        write!(
            text,
            r#"{comma}"S{ix}": {{"Type": "Pass", "Parameters": {{"n.$": "$.n", "v{ix}": {ix}}}, "Assign": {{"x{ix}.$": "$.n"}}, {way}}}"#
        )
        .unwrap();
    }
    text.push_str("}}");
    text
}

#[test]
fn a_definition_beyond_the_hard_bound_is_refused_unread() {
    let text = format!("\"{}\"", "x".repeat(BYTES_MAX));
    assert_eq!(only(&read_text("a.json", text)).code, code::DEFINITION_TOO_LARGE);
}

#[test]
fn a_megabyte_of_expressions_is_enough() {
    let of = |count: usize| {
        let expression = format!("{{% [{}1] %}}", "1,".repeat(511));
        let output = vec![format!("\"{expression}\""); count].join(",");
        format!(
            r#"{{"QueryLanguage": "JSONata", "StartAt": "A", "States": {{"A": {{"Type": "Pass", "End": true, "Output": [{output}]}}}}}}"#
        )
    };
    let reading = read_text("a.json", of(1_100));
    assert_eq!(only(&reading).code, code::INVALID_JSONATA_EXPRESSION);
    assert!(only(&reading).message.contains("1 MiB long together"), "{:?}", only(&reading));
    assert!(read_text("a.json", of(1_000)).machine.is_some());
}

#[test]
fn strict_reading_knows_the_bound_of_aws() {
    let padding = " ".repeat(STRICT_BYTES_MAX);
    let text = format!("{padding}{}", chain(1));
    let source = Source::new("a.json", text);
    let strict = read(&source, &ReadOptions { strict: true, ..ReadOptions::default() });
    assert_eq!(only(&strict).code, code::DEFINITION_TOO_LARGE);
    assert!(read(&source, &ReadOptions::default()).machine.is_some());
}

#[test]
fn a_hundred_megabytes_are_answered_in_bounded_memory() {
    let numbers = format!(r#"{{"Comment": [{}0]}}"#, "0,".repeat(50_000_000));
    assert_eq!(only(&read_text("a.json", numbers)).code, code::DEFINITION_TOO_LARGE);
    let yaml = "- 1\n".repeat(25_000_000);
    assert_eq!(only(&read_text("a.yaml", yaml)).code, code::DEFINITION_TOO_LARGE);
    let string = format!("{{\"Comment\": \"{}\"}}", "x".repeat(100_000_000));
    let complaint = read_text("a.json", string);
    assert_eq!(only(&complaint).message, "These fields are required: [States, StartAt]");
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    for depth in [300, 10_000, 1_000_000] {
        for (name, open) in [
            ("a.json", "["),
            ("a.json", "{\"a\":"),
            ("a.yaml", "["),
            ("a.yaml", "{a: "),
            ("a.yaml", "- "),
            ("a.yaml", "? "),
        ] {
            let reading = read_text(name, open.repeat(depth));
            let code = only(&reading).code;
            let expected = [code::TOO_DEEPLY_NESTED, code::INVALID_YAML_DESCRIPTION];
            assert!(expected.contains(&code), "{name} {open} {depth}: {code}");
        }
    }
    let indented: Vec<String> = (0..2_000).map(|depth| format!("{}a:", " ".repeat(depth))).collect();
    let indented = indented.join("\n");
    assert_eq!(only(&read_text("a.yaml", indented)).code, code::TOO_DEEPLY_NESTED);
}

#[test]
fn rules_and_flows_nest_as_deep_as_the_text_may() {
    let deep = |depth: usize| {
        let open = r#"{"Not": "#.repeat(depth);
        let inner = r#"{"Variable": "$.a", "IsNull": true}"#;
        let rule = format!("{open}{inner}{}", "}".repeat(depth));
        let rule = rule.replacen('{', r#"{"Next": "B", "#, 1);
        format!(
            r#"{{"StartAt": "A", "States": {{"A": {{"Type": "Choice", "Choices": [{rule}]}}, "B": {{"Type": "Succeed"}}}}}}"#
        )
    };
    assert!(read_text("a.json", deep(240)).machine.is_some());
    assert_eq!(only(&read_text("a.json", deep(260))).code, code::TOO_DEEPLY_NESTED);
    let flows = |depth: usize| {
        let mut text = r#"{"StartAt": "Z", "States": {"Z": {"Type": "Succeed"}}}"#.to_owned();
        for level in 0..depth {
            text = format!(
                r#"{{"StartAt": "S{level}", "States": {{"S{level}": {{"Type": "Map", "ItemProcessor": {text}, "End": true}}}}}}"#
            );
        }
        text
    };
    let reading = read_text("a.json", flows(80));
    assert_eq!(reading.machine.expect("80 flows in each other").states().len(), 81);
    assert_eq!(only(&read_text("a.json", flows(90))).code, code::TOO_DEEPLY_NESTED);
}

#[test]
fn aliases_cannot_blow_up() {
    let mut text = String::from("a: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..100 {
        let inside = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "b{level}: &a{level} [{inside}]").unwrap();
    }
    let reading = read_text("a.yaml", text);
    assert!(only(&reading).message.contains("copies"));
    let mut deep = String::from("a: &a0 [x]\n");
    for level in 1..1_000 {
        writeln!(deep, "b{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    assert_eq!(only(&read_text("a.yaml", deep)).code, code::TOO_DEEPLY_NESTED);
}

#[test]
fn ten_thousand_states_are_read() {
    let reading = read_text("a.json", chain(10_000));
    let machine = reading.machine.expect("a chain is fine");
    assert_eq!(machine.states().len(), 10_000);
    assert_eq!(reading.diagnostics, []);
}

#[test]
fn many_complaints_are_cut_off_and_counted() {
    let text = chain(10_000).replace("\"Type\": \"Pass\"", "\"Type\": \"Pass\", \"Odd\": 1");
    let reading = read_text("a.json", text);
    assert_eq!(reading.diagnostics.len(), 1_001);
    let last = reading.diagnostics.last().unwrap();
    assert_eq!((last.code, last.message.as_str()), (code::TOO_MANY_DIAGNOSTICS, "9000 more are not listed"));
    let missing = chain(10_000).replace("\"Next\": \"S", "\"Next\": \"T");
    let reading = read_text("a.json", missing);
    assert_eq!(reading.diagnostics.len(), 1_001);
}

#[test]
fn every_state_may_read_every_variable_without_end() {
    let mut text = String::from(r#"{"StartAt": "S0", "States": {"#);
    for ix in 0..5_000 {
        let next = (ix + 1) % 5_000;
        write!(
            text,
            r#""S{ix}": {{"Type": "Pass", "Parameters": {{"a.$": "$v{next}"}}, "Assign": {{"v{ix}": 1}}, "Next": "S{next}"}}, "#
        )
        .unwrap();
    }
    text.push_str(r#""Z": {"Type": "Succeed"}}}"#);
    let reading = read_text("a.json", text);
    assert!(reading.machine.is_none(), "Z is not reachable");
}
