//! The outcome of a command's end, in Lambda's words. Pure.

use super::process::Ended;
use super::wanted::plain_name;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use perdura_engine::asl::error::DATA_LIMIT_EXCEEDED;
use perdura_engine::asl::json::{DEPTH_MAX, Payload, Value, without_mark};
use perdura_engine::asl::object;
use perdura_engine::{Certainty, Fault, Outcome};
use std::time::Duration;

/// The version in results if the function reports none.
pub(crate) const LATEST: &str = "$LATEST";

/// The form of the result that a caller expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The answer alone: the bare function ARN.
    Bare,
    /// The answer as Lambda's Invoke wraps it.
    Invoke,
    /// Only that it was called: `InvocationType: Event`.
    Event,
    /// Only that it could be called: `InvocationType: DryRun`.
    DryRun,
}

impl Shape {
    /// Wraps a function's answer, of this version, as the task's result.
    pub(crate) fn wrap(self, answer: Payload, version: &str) -> Payload {
        match self {
            Self::Bare => answer,
            Self::Invoke => object! {
                "ExecutedVersion" => version,
                "Payload" => answer.value().clone(),
                "StatusCode" => 200,
            }
            .into(),
            Self::Event => object! { "Payload" => "", "StatusCode" => 202 }.into(),
            Self::DryRun => object! { "Payload" => "", "StatusCode" => 204 }.into(),
        }
    }

    /// The task's result if only the call counts, not the function's answer.
    pub(crate) fn without_answer(self) -> Option<Payload> {
        match self {
            Self::Event | Self::DryRun => Some(self.wrap(Payload::default(), LATEST)),
            Self::Bare | Self::Invoke => None,
        }
    }
}

/// How much of a log Lambda returns.
const LOG_BYTES_MAX: usize = 4_096;

/// Adds the end of the log to the answer of Invoke, as Lambda does.
pub(crate) fn with_log(outcome: Outcome, log: LogResult<'_>) -> Outcome {
    let Outcome::Succeeded { output } = &outcome else { return outcome };
    let Some(members) = output.value().as_object() else { return outcome };
    let mut members = members.clone();
    match log {
        LogResult::Encoded(log) => members.insert("LogResult", log),
        LogResult::Text(log) => {
            let start = log.len().saturating_sub(LOG_BYTES_MAX);
            members.insert("LogResult", BASE64.encode(&log[start..]))
        }
    };
    Outcome::Succeeded { output: Value::from(members).into() }
}

/// The log of a call.
#[derive(Clone, Copy)]
pub(crate) enum LogResult<'a> {
    /// In Lambda's form: base64.
    Encoded(&'a str),
    Text(&'a [u8]),
}

/// The outcome of a command. `whose` is the name of the task.
pub(crate) fn of_command(ended: &Ended, whose: &str, shape: Shape) -> Outcome {
    match (ended, shape.without_answer()) {
        (Ended::NotStarted { reason } | Ended::NotNow { reason }, _) => {
            failed(Fault::new("Runtime.InvalidEntrypoint", reason.as_str()), Certainty::NotSent)
        }
        (Ended::Unattended { reason }, _) => {
            let cause = format!("the command was ended, because it could not be attended: {reason}");
            failed(Fault::new("Runtime.ExitError", cause), Certainty::Ambiguous)
        }
        (Ended::Exited { .. } | Ended::Killed { .. } | Ended::Flooded, Some(output)) => {
            Outcome::Succeeded { output }
        }
        (Ended::Exited { code: 0, stdout, .. }, None) => succeeded(stdout, "on stdout", shape, LATEST),
        (Ended::Exited { code, stdout, stderr }, None) => {
            let silent = || format!("the command ended with exit code {code} and wrote nothing to stderr");
            let fault = own_error(stdout).unwrap_or_else(|| {
                Fault::new("Runtime.ExitError", if stderr.is_empty() { silent() } else { stderr.clone() })
            });
            // It may have acted before it failed. Only an error name in `refused` says that it did not.
            failed(fault, Certainty::Ambiguous)
        }
        (Ended::Killed { signal, stderr }, None) => {
            let cause = format!("the command was killed by signal {signal}. {stderr}");
            failed(Fault::new("Runtime.ExitError", cause.trim_end()), Certainty::Ambiguous)
        }
        (Ended::Flooded, None) => too_large(whose),
    }
}

pub(crate) fn failed(fault: Fault, certainty: Certainty) -> Outcome {
    Outcome::Failed { fault, certainty }
}

/// The function has done its work. If the answer cannot be parsed, only the answer is lost.
pub(crate) fn succeeded(bytes: &[u8], at: &str, shape: Shape, version: &str) -> Outcome {
    match answer(bytes, at).map(|answer| shape.wrap(answer, version)) {
        // Wrapping makes it one level deeper.
        Ok(output) if output.depth() > DEPTH_MAX => {
            let cause = format!("the answer {at} nests so deep that its wrapped form could not be read back");
            failed(Fault::new("Runtime.MarshalError", cause), Certainty::Ambiguous)
        }
        Ok(output) => Outcome::Succeeded { output },
        Err(cause) => failed(Fault::new("Runtime.MarshalError", cause), Certainty::Ambiguous),
    }
}

/// The answer is larger than a payload may be.
pub(crate) fn too_large(whose: &str) -> Outcome {
    let cause = format!(
        "The state/task '{whose}' returned a result with a size exceeding the maximum number of bytes service \
         limit."
    );
    failed(Fault::new(DATA_LIMIT_EXCEEDED, cause), Certainty::Ambiguous)
}

/// One JSON value; empty bytes are `null`.
fn answer(bytes: &[u8], at: &str) -> Result<Payload, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("the answer {at} is not UTF-8 text"))?;
    let text = without_mark(text).trim();
    if text.is_empty() {
        return Ok(Value::Null.into());
    }
    Payload::from_text(text).map_err(|error| {
        let start: String = text.chars().take(80).collect();
        format!("the answer {at} is no JSON value: {error}, at byte {}. It begins: {start}", error.at)
    })
}

/// The error in the output of a failed function, as from Lambda's runtimes. The cause is the whole output.
pub(crate) fn own_error(bytes: &[u8]) -> Option<Fault> {
    let answer = answer(bytes, "").ok()?;
    let error = answer.value().get("errorType")?.as_str()?;
    Some(Fault::new(error, answer.text().clone()))
}

/// It ran longer than its configuration allows.
pub(crate) fn timed_out(most: Duration, certainty: Certainty) -> Outcome {
    let cause = object! {
        "errorType" => "Sandbox.Timedout",
        "errorMessage" => format!("Error: Task timed out after {:.2} seconds", most.as_secs_f64()),
    };
    failed(Fault::new("Sandbox.Timedout", cause.to_string()), certainty)
}

/// There is no such function, in Lambda's words.
pub(crate) fn missing(name: &str, request_id: &str) -> Outcome {
    let arn = if name.starts_with("arn:") {
        name.to_owned()
    } else {
        format!("arn:aws:lambda:us-east-1:123456789012:function:{}", plain_name(name))
    };
    let version = if arn.split(':').nth(7).is_some() { "" } else { ":$LATEST" };
    let cause = format!(
        "Function not found: {arn}{version} (Service: AWSLambda; Status Code: 404; Error Code: \
         ResourceNotFoundException; Request ID: {request_id}; Proxy: null)"
    );
    failed(Fault::new("Lambda.ResourceNotFoundException", cause), Certainty::NotSent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(code: i32, stdout: &str, stderr: &str) -> Ended {
        Ended::Exited { code, stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn an_answer_is_one_json_value_in_the_shape_that_was_asked_for() {
        for (stdout, shape, expected) in [
            ("{\"a\": 1}\n", Shape::Bare, "{\"a\": 1}"),
            ("", Shape::Bare, "null"),
            (" \n", Shape::Bare, "null"),
            ("5", Shape::Invoke, r#"{"ExecutedVersion":"$LATEST","Payload":5,"StatusCode":200}"#),
            ("whatever", Shape::Event, r#"{"Payload":"","StatusCode":202}"#),
            ("", Shape::DryRun, r#"{"Payload":"","StatusCode":204}"#),
        ] {
            match of_command(&exited(0, stdout, "chatter"), "arn", shape) {
                Outcome::Succeeded { output } => assert_eq!(output.to_string(), expected),
                other => panic!("{stdout}: {other:?}"),
            }
        }
    }

    #[test]
    fn each_bad_end_has_lambdas_name_and_says_whether_it_may_have_acted() {
        use Certainty::{Ambiguous, NotSent};
        let garbage = Ended::Exited { code: 0, stdout: vec![0xff], stderr: String::new() };
        let own = r#"{"errorType": "CardDeclined", "errorMessage": "no"}"#;
        for (ended, error, cause, certainty) in [
            (exited(1, "", "the card was declined"), "Runtime.ExitError", "the card was declined", Ambiguous),
            (exited(3, "{}", ""), "Runtime.ExitError", "exit code 3", Ambiguous),
            (exited(1, own, "chatter"), "CardDeclined", own, Ambiguous),
            (exited(0, "hello", ""), "Runtime.MarshalError", "It begins: hello", Ambiguous),
            (exited(0, "1 2", ""), "Runtime.MarshalError", "no JSON value", Ambiguous),
            (garbage, "Runtime.MarshalError", "not UTF-8", Ambiguous),
            (Ended::Killed { signal: 9, stderr: "x".into() }, "Runtime.ExitError", "signal 9. x", Ambiguous),
            (Ended::Flooded, "States.DataLimitExceeded", "'arn' returned a result with a size", Ambiguous),
            (Ended::NotStarted { reason: "no".into() }, "Runtime.InvalidEntrypoint", "no", NotSent),
            (Ended::Unattended { reason: "no thread".into() }, "Runtime.ExitError", "no thread", Ambiguous),
        ] {
            match of_command(&ended, "arn", Shape::Bare) {
                Outcome::Failed { fault, certainty: found } => {
                    assert_eq!(fault.error.as_deref(), Some(error), "{ended:?}");
                    assert!(fault.cause.as_deref().unwrap_or_default().contains(cause), "{fault:?}");
                    assert_eq!(found, certainty, "{ended:?}");
                }
                other => panic!("{ended:?}: {other:?}"),
            }
        }
        let late = timed_out(Duration::from_millis(1500), Ambiguous);
        assert!(format!("{late:?}").contains("Task timed out after 1.50 seconds"), "{late:?}");
    }

    #[test]
    fn a_missing_function_fails_as_on_aws() {
        for (name, expected) in [
            ("charge", "arn:aws:lambda:us-east-1:123456789012:function:charge:$LATEST"),
            ("arn:aws:lambda:eu-west-1:1:function:a", "arn:aws:lambda:eu-west-1:1:function:a:$LATEST"),
            ("arn:aws:lambda:eu-west-1:1:function:a:live", "arn:aws:lambda:eu-west-1:1:function:a:live"),
        ] {
            let Outcome::Failed { fault, certainty: Certainty::NotSent } = missing(name, "r-1") else {
                panic!("{name} is not called")
            };
            let expected = format!(
                "Function not found: {expected} (Service: AWSLambda; Status Code: 404; Error Code: \
                 ResourceNotFoundException; Request ID: r-1; Proxy: null)"
            );
            assert_eq!(fault, Fault::new("Lambda.ResourceNotFoundException", expected));
        }
    }
}
