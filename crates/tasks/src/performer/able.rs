//! Which resources can be performed here, and warnings about states with other resources. Pure.
//!
//! A definition that AWS accepts is accepted: it may be meant for AWS, or for a later configuration. Resources that
//! cannot be performed are reported when a definition is checked and when it is deployed, and fail when they are
//! called.

use crate::aws::speaks;
use crate::functions::plain_name;
use crate::settings::Settings;
use perdura_engine::asl::diagnostic::{Diagnostic, code};
use perdura_engine::asl::json::Value;
use perdura_engine::asl::machine::{Kind, Machine, Task, Template};
use perdura_engine::asl::resource::{Doer, Resource, Target, TaskKind};

/// Whether [`crate::Tasks`] performs it itself.
pub(super) fn performs(resource: &Resource) -> bool {
    match resource.kind {
        TaskKind::Function | TaskKind::Http => true,
        TaskKind::Service => speaks(resource),
        TaskKind::Activity | TaskKind::Child | TaskKind::Step => false,
    }
}

/// The names of these kinds of tasks.
pub(super) fn listed(kinds: impl Iterator<Item = TaskKind>) -> String {
    let names: Vec<&str> = kinds.map(TaskKind::name).collect();
    let (last, others) = names.split_last().expect("there are kinds of tasks");
    format!("{} and {last}", others.join(", "))
}

/// Whether there is a performer for it: here, in the runtime, or in the embedding program. It does not check whether a
/// function is configured.
pub fn can_perform(resource: &Resource) -> bool {
    match resource.kind.doer() {
        Doer::Callee => performs(resource),
        Doer::Worker | Doer::Engine | Doer::Program => true,
    }
}

/// The states with resources that cannot be performed under these settings, each with its line.
pub fn warnings(settings: &Settings, machine: &Machine) -> Vec<Diagnostic> {
    let tasks = machine.states().filter_map(|(_, state)| match &state.kind {
        Kind::Task(task) => Some((state, task)),
        Kind::Pass(_)
        | Kind::Choice(_)
        | Kind::Wait(_)
        | Kind::Succeed
        | Kind::Fail(_)
        | Kind::Parallel(_)
        | Kind::Map(_) => None,
    });
    let doubts = tasks.filter_map(|(state, task)| {
        let mut doubt = doubt(settings, &state.name, task)?;
        doubt.pointer = format!("{}/Resource", state.pointer);
        doubt.span = task.resource_span;
        Some(doubt)
    });
    doubts.collect()
}

fn doubt(settings: &Settings, state: &str, task: &Task) -> Option<Diagnostic> {
    let resource = &task.resource;
    if !can_perform(resource) {
        let message = format!("{state:?} calls {}, which perdura cannot run", resource.arn);
        let mut doubt = Diagnostic::warning(code::UNSUPPORTED_RESOURCE, message);
        let outside = TaskKind::all().filter(|kind| kind.doer() != Doer::Program);
        doubt.hint(format!("{} can be called", listed(outside)));
        return Some(doubt);
    }
    if let Some(service) = settings.aws.lacks(resource) {
        let message = format!("{state:?} calls {}, and {service} has no address", resource.arn);
        let mut doubt = Diagnostic::warning(code::UNCONFIGURED_SERVICE, message);
        doubt.hint(
            "add [aws] with endpoint = \"http://…\" to perdura.toml, or the service to [aws.endpoints]",
        );
        return Some(doubt);
    }
    let name = match &resource.target {
        Target::Function { .. } => Some(&*resource.arn),
        Target::Service { .. } if resource.kind == TaskKind::Function => {
            written_name(task.arguments.as_ref()?)
        }
        Target::Service { .. } | Target::Activity { .. } | Target::Step { .. } => None,
    }?;
    if settings.has_function(name) {
        return None;
    }
    let name = plain_name(name);
    let message = format!("{state:?} calls the function {name}, which is not configured");
    let mut doubt = Diagnostic::warning(code::UNCONFIGURED_FUNCTION, message);
    doubt.hint(format!("add [functions.{name}] with command, url or lambda to perdura.toml"));
    Some(doubt)
}

/// `FunctionName`, if it is written and not computed.
fn written_name(arguments: &Template) -> Option<&str> {
    match arguments {
        Template::Literal(value) => value.get("FunctionName").and_then(Value::as_str),
        Template::Object(members) => {
            let (_, name) = members.iter().find(|(name, _)| &**name == "FunctionName")?;
            match name {
                Template::Literal(value) => value.as_str(),
                Template::Path(_)
                | Template::Intrinsic(_)
                | Template::Jsonata(_)
                | Template::Array(_)
                | Template::Object(_) => None,
            }
        }
        Template::Path(_) | Template::Intrinsic(_) | Template::Jsonata(_) | Template::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Tables;
    use perdura_engine::asl::read::{ReadOptions, read};
    use perdura_engine::asl::source::Source;
    use std::path::Path;

    const MACHINE: &str = r#"{"StartAt": "Charge", "States": {
        "Charge": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:charge:live", "Next": "Ship"},
        "Ship": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": "ship", "Payload.$": "$"}, "Next": "Any"},
        "Any": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName.$": "$.name"}, "Next": "Both"},
        "Both": {"Type": "Parallel", "Next": "Other", "Branches": [{"StartAt": "Send", "States": {
            "Send": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "End": true,
                "Parameters": {"QueueUrl": "q", "MessageBody": "b"}}}}]},
        "Other": {"Type": "Task", "Resource": "arn:aws:states:::glue:startJobRun", "Next": "Call",
            "Parameters": {"JobName": "j"}},
        "Call": {"Type": "Task", "Resource": "arn:aws:states:::http:invoke", "Next": "Child",
            "Parameters": {"ApiEndpoint": "https://a.example", "Method": "GET", "Authentication": {"ConnectionArn": "c"}}},
        "Child": {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2", "Next": "Approve",
            "Parameters": {"StateMachineArn": "m"}},
        "Approve": {"Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:approve", "End": true}}}"#;

    #[test]
    fn what_cannot_be_run_is_told_with_state_and_line() {
        let source = Source::new("m.json", MACHINE);
        let reading = read(&source, &ReadOptions::default());
        let machine = reading.machine.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
        let told = |text: &str| -> Vec<String> {
            let tables: Tables = toml::from_str(text).unwrap();
            let settings = Settings::check(tables, Path::new("/")).unwrap();
            let told = warnings(&settings, &machine).into_iter().map(|warning| {
                assert!(!warning.is_error() && warning.hint.is_some(), "{warning:?}");
                let line = source.position(warning.span.start).line;
                format!("{line} {} {} {}", warning.code, warning.pointer, warning.message)
            });
            told.collect()
        };
        let sqs = "8 UNCONFIGURED_SERVICE /States/Both/Branches[0]/States/Send/Resource \"Send\" calls \
                   arn:aws:states:::sqs:sendMessage, and sqs has no address";
        let glue = "10 UNSUPPORTED_RESOURCE /States/Other/Resource \"Other\" calls \
                    arn:aws:states:::glue:startJobRun, which perdura cannot run";
        let charge = "2 UNCONFIGURED_FUNCTION /States/Charge/Resource \"Charge\" calls the function charge, which is \
                      not configured";
        let ship = "3 UNCONFIGURED_FUNCTION /States/Ship/Resource \"Ship\" calls the function ship, which is not \
                    configured";
        assert_eq!(told(""), [charge, ship, sqs, glue]);
        assert_eq!(told("[functions.charge]\ncommand = ['c']"), [ship, sqs, glue]);
        assert_eq!(told("[lambda]\nendpoint = 'http://127.0.0.1:1'"), [sqs, glue]);
        assert_eq!(told("[aws.endpoints]\nsqs = 'http://127.0.0.1:1'"), [charge, ship, glue]);
        assert_eq!(told("[aws]\nendpoint = 'http://127.0.0.1:1'"), [glue]);
    }
}
