//! Where AWS's words are known, they are ours, to the letter.

use perdura_asl::machine::MachineType;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::source::Source;

fn said(text: &str, machine_type: MachineType) -> Vec<String> {
    let source = Source::new("definition.json", text);
    let reading = read(&source, &ReadOptions { machine_type, strict: true });
    reading.diagnostics.iter().map(perdura_asl::diagnostic::Diagnostic::aws_message).collect()
}

fn one(state: &str) -> String {
    format!(r#"{{"StartAt": "Only", "States": {{"Only": {{{state}, "End": true}}}}}}"#)
}

#[test]
fn the_whole_is_refused_in_known_words() {
    let object = "SCHEMA_VALIDATION_FAILED: Definition must be a valid JSON object at null";
    for (text, expected) in [
        ("", object),
        ("\t\n", object),
        ("[]", object),
        ("{}", "SCHEMA_VALIDATION_FAILED: These fields are required: [States, StartAt] at /"),
        (r#"{"StartAt": "A"}"#, "SCHEMA_VALIDATION_FAILED: These fields are required: [States] at /"),
        (
            r#"{"Comment": "b", "States": {"A": {"Type": "Succeed"}}}"#,
            "SCHEMA_VALIDATION_FAILED: These fields are required: [StartAt] at /",
        ),
    ] {
        assert_eq!(said(text, MachineType::Standard)[0], expected, "{text}");
    }
}

#[test]
fn a_state_is_refused_in_known_words() {
    let timestamp =
        "SCHEMA_VALIDATION_FAILED: String does not match RFC3339 timestamp at /States/Only/Timestamp";
    let role = "SCHEMA_VALIDATION_FAILED: The field 'RoleArn' is required but was missing at /States/Only/Credentials";
    for (state, expected) in [
        (r#""Comment": "no type""#, "SCHEMA_VALIDATION_FAILED: The field 'Type' is required at /States/Only"),
        (r#""Type": "Wait", "Timestamp": "2031-02-03 04:05:06Z""#, timestamp),
        (r#""Type": "Wait", "Timestamp": "2031-02-03T04:05:06""#, timestamp),
        (r#""Type": "Wait", "Timestamp": "2031-02-31T04:05:06Z""#, timestamp),
        (r#""Type": "Wait", "Timestamp": "2031-02-03T04:65:06Z""#, timestamp),
        (r#""Type": "Wait", "Timestamp": "{% $now() %}""#, timestamp),
        (
            r#""Type": "Task", "Resource": "arn:aws:states:::sns:publish", "Parameters": {"Message": "m"}, "Credentials": {}"#,
            role,
        ),
        (
            r#""Type": "Task", "Resource": "arn:aws:states:::sns:publish", "Parameters": {"Message": "m"}, "Credentials": {"Role": 1}"#,
            role,
        ),
        (
            r#""Type": "Task", "Resource": "arn:aws:states:::dynamodb:batchGetItem", "Parameters": {}"#,
            "SCHEMA_VALIDATION_FAILED: The resource provided arn:aws:states:::dynamodb:batchGetItem is not recognized. The value is not a valid resource ARN, or the resource is not available in this region. at /States/Only/Resource",
        ),
        (
            r#""Type": "Pass", "Catch": []"#,
            "SCHEMA_VALIDATION_FAILED: Field 'Catch' is not supported at /States/Only",
        ),
        (
            r#""Type": "Pass", "Output": 1"#,
            "SCHEMA_VALIDATION_FAILED: The QueryLanguage is set to 'JSONPath', but field 'Output' is only supported for the 'JSONata' QueryLanguage at /States/Only",
        ),
        (
            r#""Type": "Pass", "InputPath": "a""#,
            "SCHEMA_VALIDATION_FAILED: Value must be a valid JSONPath. at /States/Only/InputPath",
        ),
        (
            r#""Type": "Wait", "Seconds": 1e9"#,
            "SCHEMA_VALIDATION_FAILED: Expected value of type Integer at /States/Only/Seconds",
        ),
        (
            r#""Type": "Wait", "Seconds": 999999999"#,
            "SCHEMA_VALIDATION_FAILED: Maximum value is 99999999 at /States/Only/Seconds",
        ),
        (
            r#""Type": "Pass", "Assign": {"v.$": "x"}"#,
            "SCHEMA_VALIDATION_FAILED: The value for the field 'v.$' must be a valid JSONPath or a valid intrinsic function call at /States/Only/Assign",
        ),
    ] {
        assert_eq!(said(&one(state), MachineType::Standard), [expected], "{state}");
    }
}

#[test]
fn an_expression_is_refused_in_known_words() {
    let at = "/States/Only/Output/v";
    for (expression, expected) in [
        ("1 +", "INVALID_JSONATA_EXPRESSION: Unexpected end of expression"),
        ("phone", "UNSUPPORTED_JSONATA_EXPRESSION: Reference to 'phone' at the top level is not supported."),
        ("$$", "UNSUPPORTED_JSONATA_EXPRESSION: Reference to '$$' is not supported."),
        (
            "$states.errorOutput",
            "UNSUPPORTED_JSONATA_EXPRESSION: Field '$states.errorOutput' does not exist.",
        ),
    ] {
        let state = format!(
            r#""Type": "Pass", "QueryLanguage": "JSONata", "Output": {{"v": "{{% {expression} %}}"}}"#
        );
        assert_eq!(
            said(&one(&state), MachineType::Standard),
            [format!("{expected} at {at}")],
            "{expression}"
        );
    }
}

#[test]
fn express_is_refused_in_known_words() {
    for (resource, expected) in [
        (
            "arn:aws:states:eu-west-1:123456789012:activity:sort",
            "Express state machine does not support Activity ARN",
        ),
        (
            "arn:aws:states:::batch:submitJob.sync",
            "Express state machine does not support '.sync' service integration",
        ),
        (
            "arn:aws:states:::lambda:invoke.waitForTaskToken",
            "Express state machine does not support '.waitForTaskToken' service integration ",
        ),
    ] {
        let state =
            format!(r#""Type": "Task", "Resource": "{resource}", "Parameters": {{"FunctionName": "f"}}"#);
        let expected = format!("SCHEMA_VALIDATION_FAILED: {expected} at /States/Only/Resource");
        assert_eq!(said(&one(&state), MachineType::Express), [expected], "{resource}");
        assert!(said(&one(&state), MachineType::Standard).is_empty(), "{resource}");
    }
}

#[test]
fn transitions_are_refused_in_known_words_and_order() {
    let missing =
        |at: &str, name: &str| format!("MISSING_TRANSITION_TARGET: Missing 'Next' target: {name} at {at}");
    let unreachable = |name: &str| {
        format!("MISSING_TRANSITION_TARGET: State \"{name}\" is not reachable. at /States/{name}")
    };
    let no_end = "MISSING_END_STATE: Workflow has no terminal state at null".to_owned();
    let task = r#""Type": "Task", "Resource": "arn:aws:lambda:eu-west-1:123456789012:function:f""#;
    for (states, expected) in [
        (r#""A": {"Type": "Pass", "Next": "N"}"#.to_owned(), vec![missing("/States/A/Next", "N"), no_end.clone()]),
        (r#""A": {"Type": "Pass", "Next": "B"}, "B": {"Type": "Pass", "Next": "A"}, "C": {"Type": "Pass", "Next": "A"}"#.to_owned(), vec![no_end]),
        (
            r#""A": {"Type": "Pass", "Next": "B"}, "B": {"Type": "Pass", "Next": "A"}, "C": {"Type": "Pass", "End": true}"#.to_owned(),
            vec![unreachable("C")],
        ),
        (
            r#""A": {"Type": "Choice", "Choices": [{"Variable": "$.a", "IsNull": true, "Next": "X"}], "Default": "Y"}, "B": {"Type": "Succeed"}"#.to_owned(),
            vec![missing("/States/A/Choices[0]/Next", "X"), missing("/States/A/Default", "Y"), unreachable("B")],
        ),
        (
            format!(r#""A": {{{task}, "Catch": [{{"ErrorEquals": ["E"], "Next": "X"}}], "End": true}}"#),
            vec![missing("/States/A/Catch[0]/Next", "X")],
        ),
    ] {
        let text = format!(r#"{{"StartAt": "A", "States": {{{states}}}}}"#);
        assert_eq!(said(&text, MachineType::Standard), expected, "{states}");
    }
    let text =
        r#"{"StartAt": "Z", "States": {"A": {"Type": "Pass", "Next": "B"}, "B": {"Type": "Succeed"}}}"#;
    assert_eq!(said(text, MachineType::Standard), [missing("/StartAt", "Z"), unreachable("A")]);
}

#[test]
fn text_that_is_not_json_is_refused_as_jackson_would() {
    let source = Source::new("definition.json", "hello there");
    let reading = read(&source, &ReadOptions::default());
    let told = reading.diagnostics[0].jackson(&source).expect("it is not JSON");
    assert_eq!(told.location, "[Source: (String)\"hello there\"; line: 1, column: 6]");
    assert_eq!(
        told.message,
        "Unrecognized token 'hello': was expecting (JSON String, Number, Array, Object or token 'null', 'true' or \
         'false')\n at [Source: (String)\"hello there\"; line: 1, column: 6]"
    );
    let fine = read(&Source::new("definition.json", "{}"), &ReadOptions::default());
    assert_eq!(fine.diagnostics[0].jackson(&source), None);
}
