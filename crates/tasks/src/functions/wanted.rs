//! The function that a call names, and its arguments. Pure.

use super::Shape;
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::{Payload, Value};
use perdura_engine::asl::resource::{Resource, Target, TaskKind};
use perdura_engine::{Call, Certainty, Fault, Outcome};
use std::sync::Arc;

/// A call of a function, with the members of Lambda's Invoke.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invocation {
    /// As written: bare, with a version or alias behind it, or as an ARN.
    pub(crate) name: Arc<str>,
    pub(crate) qualifier: Option<Arc<str>>,
    pub(crate) payload: Payload,
    pub(crate) shape: Shape,
    /// As written: base64.
    pub(crate) client_context: Option<Arc<str>>,
    /// Whether the answer should contain the end of the log: `LogType: Tail`.
    pub(crate) wants_log: bool,
}

/// The function that a call names; if its arguments are wrong, the outcome without a call.
pub(crate) fn invocation(call: &Call) -> Result<Invocation, Outcome> {
    if let Target::Function { .. } = call.resource.target {
        return Ok(Invocation {
            name: call.resource.arn.clone(),
            qualifier: written_qualifier(&call.resource.arn),
            payload: call.input.clone(),
            shape: Shape::Bare,
            client_context: None,
            wants_log: false,
        });
    }
    invoke(&call.input).map_err(|what| {
        let cause = format!("The Parameters '{}' could not be used to start the Task: [{what}]", call.input);
        Outcome::Failed { fault: Fault::new(RUNTIME, cause), certainty: Certainty::Refused }
    })
}

/// The function's name in a call, as written: an ARN, or Invoke's `FunctionName`.
pub(crate) fn function_of<'a>(resource: &'a Resource, input: &'a Payload) -> Option<&'a str> {
    match &resource.target {
        Target::Function { .. } => Some(&resource.arn),
        Target::Service { .. } if resource.kind == TaskKind::Function => {
            input.value().get("FunctionName")?.as_str()
        }
        Target::Service { .. } | Target::Activity { .. } | Target::Step { .. } => None,
    }
}

/// The bare name of a function: without ARN, alias and version.
pub(crate) fn plain_name(name: &str) -> &str {
    let name = name.rsplit_once("function:").map_or(name, |(_, name)| name);
    name.split(':').next().unwrap_or(name)
}

/// The version or alias behind a name or an ARN.
pub(crate) fn written_qualifier(name: &str) -> Option<Arc<str>> {
    let name = name.rsplit_once("function:").map_or(name, |(_, name)| name);
    name.split_once(':').map(|(_, qualifier)| qualifier.into())
}

/// Parses the arguments of Lambda's Invoke, or returns the mistake.
fn invoke(input: &Payload) -> Result<Invocation, String> {
    let arguments = input.value();
    let Some(name) = text(arguments, "FunctionName")? else {
        return Err("The field 'FunctionName' is required but was missing".to_owned());
    };
    let shape = match text(arguments, "InvocationType")?.as_deref() {
        None | Some("RequestResponse") => Shape::Invoke,
        Some("Event") => Shape::Event,
        Some("DryRun") => Shape::DryRun,
        Some(_) => {
            let known = "Event, RequestResponse or DryRun";
            return Err(format!("The value for the field 'InvocationType' must be {known}"));
        }
    };
    let payload = match arguments.get("Payload") {
        None | Some(Value::Null) => Payload::default(),
        // A string is sent as its text: JSON in it becomes the function's input.
        Some(Value::String(text)) => {
            Payload::from_text(text.clone()).unwrap_or_else(|_| Value::String(text.clone()).into())
        }
        Some(payload) => payload.clone().into(),
    };
    let qualifier = text(arguments, "Qualifier")?.or_else(|| written_qualifier(&name));
    let client_context = text(arguments, "ClientContext")?;
    let wants_log = match text(arguments, "LogType")?.as_deref() {
        None | Some("None") => false,
        Some("Tail") => true,
        Some(_) => return Err("The value for the field 'LogType' must be None or Tail".into()),
    };
    Ok(Invocation { name, qualifier, payload, shape, client_context, wants_log })
}

/// An optional text argument.
fn text(arguments: &Value, field: &str) -> Result<Option<Arc<str>>, String> {
    let Some(value) = arguments.get(field) else { return Ok(None) };
    match value.as_str() {
        Some(text) => Ok(Some(text.into())),
        None => Err(format!("The value for the field '{field}' must be a STRING")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoked(input: &str) -> Result<Invocation, String> {
        invoke(&Payload::from_text(input).unwrap())
    }

    #[test]
    fn invoke_takes_lambdas_arguments() {
        let function = |payload: &str, shape| Invocation {
            name: "f".into(),
            qualifier: None,
            payload: Payload::from_text(payload).unwrap(),
            shape,
            client_context: None,
            wants_log: false,
        };
        for (input, expected) in [
            (r#"{"FunctionName": "f"}"#, function("{}", Shape::Invoke)),
            (r#"{"FunctionName": "f", "Payload": null}"#, function("{}", Shape::Invoke)),
            (r#"{"FunctionName": "f", "Payload": [1]}"#, function("[1]", Shape::Invoke)),
            (r#"{"FunctionName": "f", "Payload": "0"}"#, function("0", Shape::Invoke)),
            (r#"{"FunctionName": "f", "Payload": "\"a\""}"#, function(r#""a""#, Shape::Invoke)),
            (r#"{"FunctionName": "f", "Payload": "no JSON"}"#, function(r#""no JSON""#, Shape::Invoke)),
            (
                r#"{"FunctionName": "f", "LogType": "Tail"}"#,
                Invocation { wants_log: true, ..function("{}", Shape::Invoke) },
            ),
            (r#"{"FunctionName": "f", "LogType": "None"}"#, function("{}", Shape::Invoke)),
            (r#"{"FunctionName": "f", "InvocationType": "Event"}"#, function("{}", Shape::Event)),
            (r#"{"FunctionName": "f", "InvocationType": "DryRun"}"#, function("{}", Shape::DryRun)),
            (
                r#"{"FunctionName": "f", "Qualifier": "7", "ClientContext": "e30="}"#,
                Invocation {
                    qualifier: Some("7".into()),
                    client_context: Some("e30=".into()),
                    ..function("{}", Shape::Invoke)
                },
            ),
        ] {
            assert_eq!(invoked(input), Ok(expected), "{input}");
        }
        for (input, expected) in [
            ("{}", "'FunctionName' is required"),
            ("[]", "'FunctionName' is required"),
            (r#"{"FunctionName": 5}"#, "must be a STRING"),
            (r#"{"FunctionName": "f", "InvocationType": 5}"#, "'InvocationType' must be"),
            (r#"{"FunctionName": "f", "InvocationType": "Later"}"#, "'InvocationType' must be Event"),
            (r#"{"FunctionName": "f", "Qualifier": 7}"#, "'Qualifier' must be a STRING"),
            (r#"{"FunctionName": "f", "LogType": "All"}"#, "'LogType' must be None or Tail"),
        ] {
            let found = invoked(input).expect_err(input);
            assert!(found.contains(expected), "{input}: {found}");
        }
    }

    #[test]
    fn a_function_is_known_by_its_bare_name_and_called_by_its_qualifier() {
        for (name, qualifier) in [
            ("charge", None),
            ("charge:live", Some("live")),
            ("arn:aws:lambda:us-east-1:123456789012:function:charge", None),
            ("arn:aws:lambda:us-east-1:123456789012:function:charge:7", Some("7")),
            ("123456789012:function:charge", None),
        ] {
            assert_eq!(plain_name(name), "charge", "{name}");
            assert_eq!(written_qualifier(name).as_deref(), qualifier, "{name}");
        }
    }
}
