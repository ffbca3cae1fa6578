//! Whatever is written, reading ends in an answer, and the answer is whole: a machine or a reason.

use perdura_asl::diagnostic::Diagnostic;
use perdura_asl::machine::{Kind, Machine, MachineType, Transition};
use perdura_asl::read::{ReadOptions, read, read_state};
use perdura_asl::source::Source;
use proptest::prelude::*;

/// A definition with a bit of everything.
const VALID: &str = r#"{
  "Comment": "a bit of everything",
  "StartAt": "Start",
  "TimeoutSeconds": 60,
  "States": {
    "Start": {"Type": "Pass", "Result": {"a": [1, 2.5, null]}, "ResultPath": "$.r", "Assign": {"v": 1}, "Next": "Ask"},
    "Ask": {
      "Type": "Choice",
      "Choices": [
        {"And": [{"Variable": "$.a", "IsPresent": true}, {"Not": {"Variable": "$.a", "StringEquals": "x"}}], "Next": "Call"},
        {"Variable": "$.n", "NumericGreaterThanPath": "$.m", "Assign": {"w.$": "$.n"}, "Next": "Rest"}
      ],
      "Default": "Each"
    },
    "Call": {
      "Type": "Task",
      "Resource": "arn:aws:states:::lambda:invoke",
      "Parameters": {"FunctionName": "f", "Payload.$": "$", "Id.$": "States.UUID()"},
      "ResultSelector": {"p.$": "$.Payload"},
      "TimeoutSeconds": 10,
      "HeartbeatSeconds": 5,
      "Retry": [{"ErrorEquals": ["States.Timeout"], "IntervalSeconds": 2, "BackoffRate": 1.5, "JitterStrategy": "FULL"}],
      "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Bad"}],
      "Next": "Rest"
    },
    "Rest": {"Type": "Wait", "Seconds": 1, "Next": "Both"},
    "Both": {
      "Type": "Parallel",
      "Branches": [
        {"StartAt": "L", "States": {"L": {"Type": "Pass", "QueryLanguage": "JSONata", "Output": {"x": "{% $states.input.a %}"}, "End": true}}},
        {"StartAt": "R", "States": {"R": {"Type": "Wait", "Timestamp": "2030-01-01T00:00:00Z", "End": true}}}
      ],
      "Next": "Each"
    },
    "Each": {
      "Type": "Map",
      "ItemsPath": "$.items",
      "ItemSelector": {"i.$": "$$.Map.Item.Value"},
      "MaxConcurrency": 3,
      "Label": "each",
      "ItemProcessor": {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
        "StartAt": "One",
        "States": {"One": {"Type": "Succeed"}}
      },
      "ItemBatcher": {"MaxItemsPerBatch": 10, "BatchInput": {"k": "v"}},
      "ItemReader": {"Resource": "arn:aws:states:::s3:getObject", "Parameters": {"Bucket": "b", "Key.$": "$.k"}, "ReaderConfig": {"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}},
      "ResultWriter": {"Resource": "arn:aws:states:::s3:putObject", "Parameters": {"Bucket": "b"}, "WriterConfig": {"OutputType": "JSON", "Transformation": "COMPACT"}},
      "Next": "Good"
    },
    "Good": {"Type": "Succeed"},
    "Bad": {"Type": "Fail", "ErrorPath": "$.error.Error", "Cause": "it failed"}
  }
}"#;

/// Reads a text in every way, and checks what every reading promises.
fn check(name: &str, text: &str) {
    let source = Source::new(name, text);
    for strict in [false, true] {
        for machine_type in [MachineType::Standard, MachineType::Express] {
            let options = ReadOptions { machine_type, strict };
            for reading in [read(&source, &options), read_state(&source, "S", &options)] {
                assert_eq!(reading.machine.is_none(), reading.diagnostics.iter().any(Diagnostic::is_error));
                for diagnostic in &reading.diagnostics {
                    assert!(diagnostic.span.start <= diagnostic.span.end, "{diagnostic:?}");
                    assert!(diagnostic.span.start <= text.len(), "{diagnostic:?}");
                    assert!(!diagnostic.message.is_empty());
                    diagnostic.render(&source, true);
                    diagnostic.to_json(&source);
                    diagnostic.jackson(&source);
                }
                if let Some(machine) = &reading.machine {
                    check_machine(machine);
                }
            }
        }
    }
}

/// Every index leads somewhere in the same flow.
fn check_machine(machine: &Machine) {
    for (ix, state) in machine.states() {
        let flow = state.flow;
        let same_flow = |target| assert_eq!(machine.state(target).flow, flow, "{ix:?} leads out of its flow");
        if let Transition::Next(next) = state.next {
            same_flow(next);
        }
        match &state.kind {
            Kind::Choice(choice) => {
                choice.rules.iter().for_each(|rule| same_flow(rule.next));
                choice.default.into_iter().for_each(same_flow);
            }
            Kind::Parallel(parallel) => {
                assert!(parallel.branches.iter().all(|branch| machine.flow(*branch).parent == Some(ix)));
            }
            Kind::Map(map) => assert_eq!(machine.flow(map.processor).parent, Some(ix)),
            Kind::Task(task) => task.after.catch.iter().for_each(|catcher| same_flow(catcher.next)),
            Kind::Pass(_) | Kind::Wait(_) | Kind::Succeed | Kind::Fail(_) => {}
        }
    }
}

/// Words that mean something, and some that almost do.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "Type",
        "Pass",
        "Task",
        "Map",
        "Parallel",
        "Choice",
        "Wait",
        "Fail",
        "Succeed",
        "States",
        "StartAt",
        "Next",
        "End",
        "A",
        "B",
        "Choices",
        "Variable",
        "Condition",
        "And",
        "Not",
        "NumericEquals",
        "IsNull",
        "Default",
        "Branches",
        "ItemProcessor",
        "Iterator",
        "ProcessorConfig",
        "Mode",
        "DISTRIBUTED",
        "ExecutionType",
        "EXPRESS",
        "Retry",
        "Catch",
        "ErrorEquals",
        "States.ALL",
        "Assign",
        "Output",
        "Parameters",
        "Arguments",
        "Resource",
        "arn:aws:states:::lambda:invoke",
        "QueryLanguage",
        "JSONata",
        "JSONPath",
        "InputPath",
        "ResultPath",
        "$",
        "$.a",
        "$$.x",
        "$v",
        "a.$",
        "States.UUID()",
        "{% 1 %}",
        "{% $states.result %}",
        "{%",
        "Seconds",
        "Timestamp",
        "Items",
        "ItemReader",
        "ReaderConfig",
        "InputType",
        "CSV",
        "ItemBatcher",
        "ResultWriter",
        "Label",
        "MaxConcurrency",
        "TimeoutSeconds",
        "Comment",
        "Version",
        "1.0",
        "",
        "é",
        "\u{0}",
    ])
    .prop_map(str::to_owned)
}

fn quoted(text: &str) -> String {
    perdura_asl::json::Value::from(text).to_string()
}

/// A tree that looks like a definition from afar.
fn tree() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        word().prop_map(|word| quoted(&word)),
        Just("null".to_owned()),
        Just("true".to_owned()),
        (-5_i64..100_000_000).prop_map(|number| number.to_string()),
        Just("0.5".to_owned()),
    ];
    leaf.prop_recursive(7, 80, 7, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((word(), inner), 0..7).prop_map(|members| {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// A state of a known kind with a few fields, right or wrong.
fn definition() -> impl Strategy<Value = String> {
    let kind =
        prop::sample::select(vec!["Pass", "Task", "Map", "Parallel", "Choice", "Wait", "Fail", "Succeed"]);
    let fields = prop::collection::vec((word(), tree()), 0..6);
    let state = (kind, fields).prop_map(|(kind, fields)| {
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!(",{}:{value}", quoted(name))).collect();
        let fields = fields.concat();
        format!(r#"{{"Type":"{kind}"{fields}}}"#)
    });
    prop::collection::vec((word(), state), 1..4).prop_map(|states| {
        let first = quoted(&states[0].0);
        let states: Vec<String> =
            states.iter().map(|(name, state)| format!("{}:{state}", quoted(name))).collect();
        format!(r#"{{"StartAt":{first},"States":{{{}}}}}"#, states.join(","))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        for name in ["a.json", "a.yaml", "a"] {
            check(name, &text);
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        for name in ["a.json", "a.yaml"] {
            check(name, &text);
        }
    }

    #[test]
    fn a_definition_with_a_piece_changed_is_answered(
        at in 0.0_f64..1.0,
        length in 0_usize..40,
        piece in prop_oneof![word(), tree(), ".{0,6}"],
    ) {
        let start = VALID.floor_char_boundary((VALID.len() as f64 * at) as usize);
        let end = VALID.floor_char_boundary((start + length).min(VALID.len()));
        let text = format!("{}{piece}{}", &VALID[..start], &VALID[end..]);
        check("a.json", &text);
        check("a.yaml", &text);
    }

    #[test]
    fn a_definition_with_a_line_less_is_answered(line in 0_usize..60) {
        let lines = VALID.lines().enumerate().filter(|(at, _)| *at != line);
        let text: Vec<&str> = lines.map(|(_, line)| line).collect();
        check("a.json", &text.join("\n"));
    }

    #[test]
    fn any_tree_is_answered(text in tree()) {
        check("a.json", &text);
        check("a.yaml", &text);
    }

    #[test]
    fn any_states_are_answered(text in definition()) {
        check("a.json", &text);
    }

    #[test]
    fn any_path_like_text_is_answered(text in r#"[$.\[\]'"a-z0-9*?()@,:{}% ]{0,20}"#) {
        let text = quoted(&text);
        let field = |name: &str| format!(r#"{{"StartAt":"A","States":{{"A":{{"Type":"Pass","{name}":{text},"End":true}}}}}}"#);
        for name in ["InputPath", "OutputPath", "ResultPath", "Comment"] {
            check("a.json", &field(name));
        }
        check("a.json", &format!(r#"{{"StartAt":"A","States":{{"A":{{"Type":"Pass","Parameters":{{"a.$":{text}}},"End":true}}}}}}"#));
        check("a.json", &format!(r#"{{"QueryLanguage":"JSONata","StartAt":"A","States":{{"A":{{"Type":"Pass","Output":{text},"End":true}}}}}}"#));
    }
}

#[test]
fn a_valid_definition_is_read_without_a_word() {
    let source = Source::new("a.json", VALID);
    let reading = read(&source, &ReadOptions { strict: true, ..ReadOptions::default() });
    assert_eq!(reading.diagnostics, []);
    let machine = reading.machine.expect("it is valid");
    check_machine(&machine);
    let names: Vec<&str> = machine.states().map(|(_, state)| &*state.name).collect();
    let expected = ["Start", "Ask", "Call", "Rest", "Both", "L", "R", "Each", "One", "Good", "Bad"];
    assert_eq!(names, expected, "states stand in the order of the text");
}

#[test]
fn what_was_read_reads_the_same_again() {
    let shape = |text: &str, name: &str| {
        let reading = read(&Source::new(name, text), &ReadOptions::default());
        let machine = reading.machine.expect("it is valid");
        // Where a Resource stands is told of the text, and says nothing about the machine.
        let unplaced = |text: String| match text.split_once("resource_span: Span {") {
            Some((before, after)) => format!("{before}{}", after.split_once('}').expect("it has an end").1),
            None => text,
        };
        let states: Vec<String> =
            machine.states().map(|(ix, state)| unplaced(format!("{ix:?} {state:?}"))).collect();
        (machine.text.to_string(), states)
    };
    let (text, first) = shape(VALID, "a.json");
    assert_eq!(text, VALID);
    assert_eq!(shape(&text, "a.json").1, first);
    // JSON is YAML, and spaces mean nothing.
    assert_eq!(shape(&text, "a.yaml").1, first);
    let compact = perdura_asl::json::parse(VALID).unwrap().to_string();
    assert_eq!(shape(&compact, "a.json").1, first);
}
