//! What a definition becomes: compiled, with defaults, and nothing left to look up by name.

use perdura_asl::json::Value;
use perdura_asl::machine::{
    Condition, Items, Kind, Machine, MachineType, MapMode, Operand, Operator, Placement, QueryLanguage,
    Scalar, Selection, State, Template, Transition, Wait,
};
use perdura_asl::read::{ReadOptions, Reading, read, read_state};
use perdura_asl::resource::{Pattern, Target};
use perdura_asl::source::Source;

fn machine(text: &str) -> Machine {
    let Reading { machine, diagnostics } = read(&Source::new("a.json", text), &ReadOptions::default());
    machine.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

fn state(machine: &Machine, name: &str) -> usize {
    machine.find(name).expect("it is there").0 as usize
}

fn get<'m>(machine: &'m Machine, name: &str) -> &'m State {
    machine.states().nth(state(machine, name)).map(|(_, state)| state).expect("it is there")
}

#[test]
fn templates_are_compiled_and_what_is_constant_is_one_value() {
    let machine = machine(
        r#"{"StartAt": "A", "States": {
            "A": {"Type": "Pass", "Parameters": {"list": [1, {"k": null}], "p.$": "$.x", "i.$": "States.UUID()",
                  "deep": [{"q.$": "$$.Execution.Id"}, "s"]}, "Next": "B"},
            "B": {"Type": "Pass", "Parameters": {"a": {"b": [true]}}, "Next": "C"},
            "C": {"Type": "Pass", "QueryLanguage": "JSONata", "Output": ["{% 1 + 1 %}", {"plain": "{ % }"}],
                  "Assign": {"v": "{% $states.input %}"}, "End": true}}}"#,
    );
    let Kind::Pass(pass) = &get(&machine, "A").kind else { panic!() };
    let Some(Template::Object(members)) = &pass.parameters else { panic!("{:?}", pass.parameters) };
    let names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["list", "p", "i", "deep"]);
    let Template::Literal(list) = &members[0].1 else { panic!() };
    assert_eq!(list.to_string(), r#"[1,{"k":null}]"#);
    let Template::Path(path) = &members[1].1 else { panic!() };
    assert_eq!(path.text(), "$.x");
    let Template::Intrinsic(intrinsic) = &members[2].1 else { panic!() };
    assert_eq!(intrinsic.text(), "States.UUID()");
    let Template::Array(items) = &members[3].1 else { panic!() };
    assert!(matches!(items.as_slice(), [Template::Object(_), Template::Literal(_)]));

    let Kind::Pass(pass) = &get(&machine, "B").kind else { panic!() };
    let Some(Template::Literal(value)) = &pass.parameters else { panic!() };
    assert_eq!(value.to_string(), r#"{"a":{"b":[true]}}"#);

    let c = get(&machine, "C");
    assert_eq!(c.language, QueryLanguage::Jsonata);
    let Some(Template::Array(items)) = &c.output else { panic!() };
    let Template::Jsonata(expression) = &items[0] else { panic!() };
    assert_eq!(expression.text(), "1 + 1");
    assert!(matches!(&items[1], Template::Literal(_)));
    assert_eq!(&*c.assign[0].0, "v");
    assert_eq!(c.next, Transition::End);
}

#[test]
fn absent_fields_have_their_defaults() {
    let machine = machine(
        r#"{"StartAt": "A", "States": {
            "A": {"Type": "Task", "Resource": "arn:aws:lambda:eu-west-1:123456789012:function:f:live",
                  "Retry": [{"ErrorEquals": ["E"]}], "InputPath": null, "OutputPath": "$", "ResultPath": null, "Next": "B"},
            "B": {"Type": "Pass", "InputPath": "$.a", "ResultPath": "$.b", "End": true}}}"#,
    );
    assert_eq!((machine.timeout_seconds, machine.language), (None, QueryLanguage::JsonPath));
    assert_eq!(machine.machine_type, MachineType::Standard);
    let a = get(&machine, "A");
    assert!(matches!((&a.input_path, &a.output_path), (Selection::Nothing, Selection::Whole)));
    assert_eq!(a.pointer, "/States/A");
    let Kind::Task(task) = &a.kind else { panic!() };
    assert_eq!(task.resource.target, Target::Function { name: "f".into() });
    assert!(task.timeout.is_none() && task.heartbeat.is_none() && task.credentials.is_none());
    assert!(matches!(task.after.result_path, Placement::Discard));
    let retrier = &task.after.retry[0];
    assert_eq!((retrier.interval_seconds, retrier.max_attempts, retrier.backoff_rate), (1, 3, 2.0));
    assert_eq!((retrier.max_delay_seconds, retrier.full_jitter), (None, false));
    let b = get(&machine, "B");
    let Kind::Pass(pass) = &b.kind else { panic!() };
    assert!(matches!((&b.input_path, &pass.result_path), (Selection::Path(_), Placement::At(_))));
}

#[test]
fn choices_waits_and_failures_keep_what_they_ask() {
    let machine = machine(
        r#"{"StartAt": "A", "States": {
            "A": {"Type": "Choice", "Choices": [
                {"Or": [{"Variable": "$.a", "TimestampLessThan": "2030-01-01T00:00:00Z"},
                        {"Not": {"Variable": "$v", "StringMatches": "a*"}}], "Next": "B"},
                {"Variable": "$.a", "NumericEqualsPath": "$.b", "Next": "C"}], "Default": "D"},
            "B": {"Type": "Wait", "SecondsPath": "$.s", "Next": "A"},
            "C": {"Type": "Wait", "QueryLanguage": "JSONata", "Timestamp": "{% $t %}", "Next": "E"},
            "D": {"Type": "Fail", "Error": "E", "CausePath": "States.Format('{}', $.c)"},
            "E": {"Type": "Choice", "QueryLanguage": "JSONata",
                  "Choices": [{"Condition": true, "Next": "D"}, {"Condition": "{% 1 = 1 %}", "Output": 5, "Next": "D"}]}}}"#,
    );
    let Kind::Choice(choice) = &get(&machine, "A").kind else { panic!() };
    assert_eq!(choice.default, machine.find("D"));
    assert_eq!(choice.rules[0].next, machine.find("B").unwrap());
    let Condition::Or(inner) = &choice.rules[0].condition else { panic!() };
    assert!(matches!(
        &inner[0],
        Condition::Test { operator: Operator::Timestamp(_), operand: Operand::Literal(_), .. }
    ));
    assert!(matches!(&inner[1], Condition::Not(_)));
    let Condition::Test { variable, operand: Operand::Path(path), .. } = &choice.rules[1].condition else {
        panic!()
    };
    assert_eq!((variable.text(), path.text()), ("$.a", "$.b"));
    assert!(matches!(&get(&machine, "B").kind, Kind::Wait(Wait::Seconds(Scalar::Path(_)))));
    assert!(matches!(&get(&machine, "C").kind, Kind::Wait(Wait::Timestamp(Scalar::Jsonata(_)))));
    let Kind::Fail(fail) = &get(&machine, "D").kind else { panic!() };
    assert!(matches!(&fail.error, Some(Scalar::Literal(Value::String(text))) if &**text == "E"));
    assert!(matches!(&fail.cause, Some(Scalar::Intrinsic(_))));
    let Kind::Choice(choice) = &get(&machine, "E").kind else { panic!() };
    assert!(matches!(&choice.rules[0].condition, Condition::Jsonata(Scalar::Literal(Value::Bool(true)))));
    assert!(matches!(&choice.rules[1].condition, Condition::Jsonata(Scalar::Jsonata(_))));
    assert!(choice.rules[1].output.is_some() && choice.default.is_none());
}

#[test]
fn maps_old_and_new_are_the_same_kind() {
    let machine = machine(
        r#"{"StartAt": "Old", "States": {
            "Old": {"Type": "Map", "Iterator": {"StartAt": "I", "States": {"I": {"Type": "Succeed"}}},
                    "Parameters": {"x.$": "$$.Map.Item.Value"}, "ItemsPath": "$.list", "Next": "New"},
            "New": {"Type": "Map", "QueryLanguage": "JSONata", "Items": ["{% 1 %}", 2], "MaxConcurrency": "{% 5 %}", "Label": "l",
                    "ToleratedFailurePercentage": 2.5, "ItemReader": {"Resource": "arn:aws:states:::s3:listObjectsV2",
                    "Arguments": {"Bucket": "b"}, "ReaderConfig": {"MaxItems": 7, "InputType": "JSON"}},
                    "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
                    "StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}, "End": true}}}"#,
    );
    let Kind::Map(old) = &get(&machine, "Old").kind else { panic!() };
    assert_eq!(old.mode, MapMode::Inline);
    assert!(old.selector.is_some() && matches!(old.items, Items::Path(Selection::Path(_))));
    assert_eq!(machine.flow(old.processor).start_at, machine.find("I").unwrap());
    assert_eq!(machine.flow(old.processor).parent, machine.find("Old"));
    let Kind::Map(new) = &get(&machine, "New").kind else { panic!() };
    let label = Some("l".into());
    assert_eq!(new.mode, MapMode::Distributed { execution_type: MachineType::Express, label });
    assert!(matches!(&new.items, Items::Template(Template::Array(_))));
    assert!(matches!(&new.max_concurrency, Some(Scalar::Jsonata(_))));
    assert!(matches!(&new.tolerated_percentage, Some(Scalar::Literal(_))));
    let reader = new.reader.as_ref().unwrap();
    assert_eq!(reader.config.to_string(), r#"{"InputType":"JSON"}"#);
    assert!(matches!(&reader.max_items, Some(Scalar::Literal(_))));
    assert_eq!(
        get(&machine, "P").language,
        QueryLanguage::JsonPath,
        "a processor does not inherit from its Map"
    );
    assert_eq!(get(&machine, "P").pointer, "/States/New/ItemProcessor/States/P");
}

#[test]
fn a_single_state_becomes_a_machine_around_it() {
    let text = r#"{"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": "q", "MessageBody": "m"},
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Recover"}], "Next": "Ship"}"#;
    let reading = read_state(&Source::new("a.json", text), "Only", &ReadOptions::default());
    let machine = reading.machine.expect("it is a state");
    let names: Vec<&str> = machine.states().map(|(_, state)| &*state.name).collect();
    assert_eq!(names, ["Only", "Recover", "Ship"]);
    let only = get(&machine, "Only");
    assert_eq!(only.next, Transition::Next(machine.find("Ship").unwrap()));
    let Kind::Task(task) = &only.kind else { panic!() };
    assert_eq!(task.resource.pattern, Pattern::Callback);
    let wrong = read_state(&Source::new("a.json", r#"{"Type": "Odd"}"#), "Only", &ReadOptions::default());
    assert_eq!(wrong.diagnostics[0].pointer, "/States/Only/Type");
}

#[test]
fn a_state_knows_which_variables_it_reads() {
    let machine = machine(
        r#"{"StartAt": "A", "States": {
            "A": {"Type": "Pass", "Assign": {"b": 1, "a": 2, "c": "$a"}, "Next": "B"},
            "B": {"Type": "Pass", "InputPath": "$b.x", "Parameters": {"p.$": "States.Array($a, $.n, $b)", "q.$": "$$.State.Name"},
                  "Next": "C"},
            "C": {"Type": "Choice", "Choices": [{"Variable": "$c", "StringEqualsPath": "$a", "Next": "D"}], "Default": "D"},
            "D": {"Type": "Pass", "QueryLanguage": "JSONata", "Output": "{% ($x := $states.input; $sum([$x, $c])) %}", "Next": "E"},
            "E": {"Type": "Fail", "ErrorPath": "$b"}}}"#,
    );
    let variables = |name: &str| {
        get(&machine, name).variables.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(["A", "B", "C", "D", "E"].map(variables), ["", "a b", "a c", "c", "b"]);
}
