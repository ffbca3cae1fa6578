//! Definitions that validators answer in different ways: what ours says, as the table in docs/step-functions.md tells it.

use perdura_asl::diagnostic::Severity;
use perdura_asl::machine::MachineType;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::source::Source;

const INNER: &str = r#""StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}"#;

/// What is wrong with a machine of this state and these further members.
fn wrong(state: &str, more: &str) -> Vec<String> {
    let text = format!(r#"{{"StartAt": "A", "States": {{"A": {state}}}{more}}}"#);
    let options = ReadOptions { machine_type: MachineType::Standard, strict: true };
    let reading = read(&Source::new("m.asl.json", text), &options);
    let found = reading.diagnostics.iter().filter(|one| one.severity == Severity::Error);
    found.map(|one| one.message.clone()).collect()
}

#[test]
fn what_the_table_calls_refused_is_refused() {
    let jsonata = r#", "QueryLanguage": "JSONata""#;
    let object = "Expected value of type [OBJECT]";
    let task = r#""Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": true"#;
    let map = r#""Type": "Map", "End": true"#;
    let reader =
        r#"{"Resource": "arn:aws:states:::s3:getObject", "Parameters": {"Bucket": "b", "Key": "k"}}"#;
    let around = |state: &str| format!(r#"{{"StartAt": "P", "States": {{"P": {state}}}}}"#);
    let jsonpath = around(r#"{"Type": "Pass", "QueryLanguage": "JSONPath", "End": true}"#);
    let output = around(r#"{"Type": "Pass", "Output": "x", "End": true}"#);
    let caught = r#"{"Type": "Pass", "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "A"}], "End": true}"#;
    for (state, more, told) in [
        (format!(r#"{{{task}, "Parameters": ["a"]}}"#), "", object),
        (format!(r#"{{{task}, "Parameters": "a"}}"#), "", object),
        (
            format!(r#"{{{map}, "ItemProcessor": {{{INNER}}}, "ItemReader": {reader}}}"#),
            "",
            "Field 'ItemReader' is not supported",
        ),
        (
            format!(r#"{{{map}, "Items": [1], "ItemProcessor": {jsonpath}}}"#),
            jsonata,
            "'QueryLanguage' can not be 'JSONPath' if set to 'JSONata' for whole state machine",
        ),
        (
            format!(r#"{{{map}, "ItemProcessor": {{"QueryLanguage": "JSONata", {INNER}}}}}"#),
            "",
            "Field 'QueryLanguage' is not supported",
        ),
        (
            format!(r#"{{{map}, "QueryLanguage": "JSONata", "Items": [1], "ItemProcessor": {output}}}"#),
            "",
            "The QueryLanguage is set to 'JSONPath', but field 'Output' is only supported for the 'JSONata' \
             QueryLanguage",
        ),
        (
            format!(r#"{{{map}, "TimeoutSeconds": 1, "ItemProcessor": {{{INNER}}}}}"#),
            "",
            "Field 'TimeoutSeconds' is not supported",
        ),
        (caught.to_owned(), "", "Field 'Catch' is not supported"),
        (
            r#"{"Type": "Pass", "Parameters": {"x.$": "$[(@.length-1)].x"}, "End": true}"#.to_owned(),
            "",
            "The value for the field 'x.$' must be a valid JSONPath or a valid intrinsic function call",
        ),
    ] {
        assert_eq!(wrong(&state, more), [told], "{state}");
    }
}

#[test]
fn what_the_table_calls_taken_is_taken() {
    for state in [
        r#"{"Type": "Pass", "Parameters": {"x.$": "States.MathAdd(1,'-1')"}, "End": true}"#,
        r#"{"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f:1.2.3", "End": true}"#,
    ] {
        assert_eq!(wrong(state, ""), [""; 0], "{state}");
    }
}
