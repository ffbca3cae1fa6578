//! What a call asks for: a function, an answer that needs none, or something else. Pure.

use super::Shape;
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::{Pattern, Target};
use perdura_engine::{Call, Certainty, Fault, Outcome};
use std::sync::Arc;

/// What is to be done about a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Wanted {
    Function {
        name: Arc<str>,
        payload: Payload,
        shape: Shape,
    },
    Answered(Outcome),
    /// Nothing in this process answers it.
    Elsewhere,
}

/// What is to be done about it.
pub(crate) fn wanted(call: &Call) -> Wanted {
    match &call.resource.target {
        Target::Function { .. } => Wanted::Function {
            name: call.resource.arn.clone(),
            payload: call.input.clone(),
            shape: Shape::Bare,
        },
        Target::Service { service, pattern: Pattern::RequestResponse, action }
            if (&**service, &**action) == ("lambda", "invoke") =>
        {
            invoke(&call.input)
        }
        Target::Service { .. } | Target::Activity { .. } | Target::Step { .. } => Wanted::Elsewhere,
    }
}

/// The arguments of Lambda's Invoke.
fn invoke(input: &Payload) -> Wanted {
    let arguments = input.value();
    let refused = |what: &str| {
        let cause = format!("The Parameters '{input}' could not be used to start the Task: [{what}]");
        Wanted::Answered(Outcome::Failed { fault: Fault::new(RUNTIME, cause), certainty: Certainty::Refused })
    };
    let name = match arguments.get("FunctionName") {
        None => return refused("The field 'FunctionName' is required but was missing"),
        Some(name) => match name.as_str() {
            None => return refused("The value for the field 'FunctionName' must be a STRING"),
            Some(name) => name.into(),
        },
    };
    let shape = match arguments.get("InvocationType").map(|kind| kind.as_str()) {
        None | Some(Some("RequestResponse")) => Shape::Invoke,
        Some(Some("Event")) => Shape::Event,
        Some(Some("DryRun")) => {
            let output = perdura_engine::asl::object! { "Payload" => "", "StatusCode" => 204 }.into();
            return Wanted::Answered(Outcome::Succeeded { output });
        }
        Some(_) => {
            return refused(
                "The value for the field 'InvocationType' must be Event, RequestResponse or DryRun",
            );
        }
    };
    let payload = arguments.get("Payload").map_or_else(Payload::default, |payload| payload.clone().into());
    Wanted::Function { name, payload, shape }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoked(input: &str) -> Wanted {
        invoke(&Payload::from_text(input).unwrap())
    }

    #[test]
    fn invoke_takes_lambdas_arguments() {
        let function = |payload: &str, shape| Wanted::Function {
            name: "f".into(),
            payload: Payload::from_text(payload).unwrap(),
            shape,
        };
        for (input, expected) in [
            (r#"{"FunctionName": "f"}"#, function("{}", Shape::Invoke)),
            (r#"{"FunctionName": "f", "Payload": [1]}"#, function("[1]", Shape::Invoke)),
            (r#"{"FunctionName": "f", "InvocationType": "Event"}"#, function("{}", Shape::Event)),
        ] {
            assert_eq!(invoked(input), expected, "{input}");
        }
        for (input, expected) in [
            ("{}", "'FunctionName' is required"),
            ("[]", "'FunctionName' is required"),
            (r#"{"FunctionName": 5}"#, "must be a STRING"),
            (r#"{"FunctionName": "f", "InvocationType": 5}"#, "'InvocationType' must be"),
            (r#"{"FunctionName": "f", "InvocationType": "DryRun"}"#, "204"),
        ] {
            let found = format!("{:?}", invoked(input));
            assert!(found.starts_with("Answered") && found.contains(expected), "{input}: {found}");
        }
    }
}
