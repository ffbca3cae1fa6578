//! Calls that some recordings show the answers of, but not the calls: they were made with what an answer of AWS
//! held, a page's token or the ARN of a Map Run, or of another service, which our server is asked to call.

use super::client::Answer;
use super::recording::{Recorded, Source, text};
use super::services::LOG_GROUP_NAME;
use perdura_engine::asl::json::{Map, Value, parse};
use perdura_engine::asl::object;

/// The key of an object that an execution has written.
pub(crate) const OBJECT: &str = "get-s3-object";

/// The key of the end of an execution as it was logged.
pub(crate) const LOG: &str = "end_event";

/// What follows on a call: key of the recording, action, parameters.
pub(crate) fn after(
    recorded: &[Recorded],
    action: &str,
    params: &Value,
    answer: &Answer,
) -> Vec<(String, &'static str, Value)> {
    let Ok(answer) = answer else { return Vec::new() };
    let missing = recorded.iter().filter(|one| one.source == Source::LeftOut);
    let next = missing.filter_map(|one| {
        let (action, params) = match (action, one.key) {
            ("ListExecutions", key) if params.get("maxResults").is_some() => list(key, params, answer)?,
            ("GetExecutionHistory", OBJECT) => read_object(started_with(answer)?)?,
            ("StartExecution", LOG) => read_log(text(params, "stateMachineArn").rsplit(':').next()?),
            ("ListMapRuns", "describe_map_run") => {
                let first = answer.get("mapRuns")?.as_array()?.first()?;
                ("DescribeMapRun", object! {"mapRunArn" => text(first, "mapRunArn")})
            }
            _ => return None,
        };
        Some((one.key.to_owned(), action, params))
    });
    next.collect()
}

/// Whether the recording has no call for this, whatever number it names.
pub(crate) fn is_left_out(key: &str) -> bool {
    key.starts_with("list-executions-invalid-param") || key == OBJECT || key == LOG
}

/// A state that reads what a machine has logged.
fn read_log(machine: &str) -> (&'static str, Value) {
    let arguments =
        object! {"LogGroupName" => LOG_GROUP_NAME, "LogStreamNamePrefix" => format!("states/{machine}/")};
    let state = object! {
        "Type" => "Task",
        "Resource" => "arn:aws:states:::aws-sdk:cloudwatchlogs:filterLogEvents",
        "Parameters" => arguments,
        "End" => true,
    };
    let role = "arn:aws:iam::000000000000:role/reader";
    ("TestState", object! {"definition" => state.to_string(), "roleArn" => role, "input" => "{}"})
}

/// The end of an execution in what was read of logs.
pub(crate) fn logged_end(tested: &Value, execution_arn: &str) -> Option<Value> {
    let read = parse(text(tested, "output")).ok()?;
    let messages = read.get("Events")?.as_array()?.iter();
    let mut events = messages.filter_map(|event| parse(text(event, "Message")).ok());
    let ends = ["ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted", "ExecutionTimedOut"];
    events.find(|event| ends.contains(&text(event, "type")) && text(event, "execution_arn") == execution_arn)
}

/// A state that reads an object, as the execution before it may have written it. AWS's clients ask for the checksum.
fn read_object(input: &str) -> Option<(&'static str, Value)> {
    let input = parse(input).ok()?;
    let (bucket, key) = (text(&input, "Bucket"), text(&input, "Key"));
    let state = object! {
        "Type" => "Task",
        "Resource" => "arn:aws:states:::aws-sdk:s3:getObject",
        "Parameters" => object! {"Bucket" => bucket, "Key" => key, "ChecksumMode" => "ENABLED"},
        "End" => true,
    };
    let role = "arn:aws:iam::000000000000:role/reader";
    Some(("TestState", object! {"definition" => state.to_string(), "roleArn" => role, "input" => "{}"}))
}

/// The input that a history begins with.
fn started_with(history: &Value) -> Option<&str> {
    history.get("events")?.as_array()?.first()?.get("executionStartedEventDetails")?.get("input")?.as_str()
}

fn list(key: &str, params: &Value, page: &Value) -> Option<(&'static str, Value)> {
    let with = |name: &str, value: Value| {
        let mut members: Map = params.as_object().cloned().unwrap_or_default();
        members.insert(name, value);
        Some(("ListExecutions", members.into()))
    };
    match key {
        "list-executions-page-2" | "list-execution-page-2" => {
            with("nextToken", page.get("nextToken")?.clone())
        }
        "list-executions-invalid-param-too-large" => with("maxResults", 1001.into()),
        "list-executions-invalid-param-short-nextToken" => with("nextToken", "".into()),
        "list-executions-invalid-param-long-nextToken" => with("nextToken", "x".repeat(3097).into()),
        "deletion_resp" => {
            let machine = text(params, "stateMachineArn").split(':').take(7).collect::<Vec<_>>().join(":");
            Some(("DeleteStateMachine", object! {"stateMachineArn" => machine}))
        }
        _ => None,
    }
}
