//! The machines that a definition reaches through the engine itself, found from its text alone.
//!
//! A step's request is made in the name of its machine. A token that may deploy only some machines must not reach the
//! others by a definition, so a target that is not certainly the machine's own counts as another's.

use crate::nested::machine_of;
use perdura_asl::json::Value;
use perdura_asl::machine::{Kind, Machine, Template};
use perdura_asl::resource::{Resource, Target, TaskKind};

/// How a definition reaches executions and machines beside those that are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach<'m> {
    /// It calls the Step Functions API.
    Api { state: &'m str },
    /// It starts executions of a machine that is not its own.
    Machine { state: &'m str, name: &'m str },
    /// It starts executions of whatever machine is computed or given.
    Any { state: &'m str },
}

/// The first state by which a definition reaches others than those that are its own, those inside Parallel and Map
/// included. Only what is written in the definition counts: what is computed may become anything.
pub fn reach(machine: &Machine, is_own: impl Fn(&str) -> bool) -> Option<Reach<'_>> {
    machine.states().find_map(|(_, state)| {
        let name = &*state.name;
        let api = |resource: &Resource| is_api(resource).then_some(Reach::Api { state: name });
        match &state.kind {
            Kind::Task(task) if task.resource.kind == TaskKind::Child => {
                child(name, task.arguments.as_ref(), &is_own)
            }
            Kind::Task(task) => api(&task.resource),
            Kind::Map(map) => {
                let read = map.reader.as_ref().and_then(|reader| api(&reader.resource));
                let writes = || map.writer.as_ref().and_then(|writer| writer.resource.as_ref());
                read.or_else(|| writes().and_then(api))
            }
            Kind::Pass(_)
            | Kind::Choice(_)
            | Kind::Wait(_)
            | Kind::Succeed
            | Kind::Fail(_)
            | Kind::Parallel(_) => None,
        }
    })
}

/// Whether it is a call of the Step Functions API, by whichever of its names.
fn is_api(resource: &Resource) -> bool {
    let Target::Service { service, .. } = &resource.target else { return false };
    let service = service.strip_prefix("aws-sdk:").unwrap_or(service);
    ["sfn", "states"].iter().any(|own| service.eq_ignore_ascii_case(own))
}

/// A step that starts an execution names its machine in so many words, in each member of that name.
fn child<'m>(
    state: &'m str,
    arguments: Option<&'m Template>,
    is_own: impl Fn(&str) -> bool,
) -> Option<Reach<'m>> {
    let named: Vec<Option<&str>> = match arguments {
        Some(Template::Literal(value)) => vec![value.get("StateMachineArn").and_then(Value::as_str)],
        Some(Template::Object(members)) => {
            let named = members.iter().filter(|(name, _)| &**name == "StateMachineArn");
            named
                .map(|(_, template)| match template {
                    Template::Literal(value) => value.as_str(),
                    _ => None,
                })
                .collect()
        }
        Some(_) | None => Vec::new(),
    };
    if named.is_empty() {
        return Some(Reach::Any { state });
    }
    named.into_iter().find_map(|arn| {
        let Some(arn) = arn else { return Some(Reach::Any { state }) };
        let (name, _) = machine_of(arn);
        (!is_own(name)).then_some(Reach::Machine { state, name })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_asl::read::{ReadOptions, read};
    use perdura_asl::source::Source;

    fn of(states: &str) -> String {
        let text = format!(r#"{{"StartAt": "T", "States": {{{states}}}}}"#);
        let reading = read(&Source::new("definition", text), &ReadOptions::default());
        let machine = reading.machine.unwrap_or_else(|| panic!("{states}: {:?}", reading.diagnostics));
        format!("{:?}", reach(&machine, |name| name.starts_with("a-")))
    }

    fn task(resource: &str, arguments: &str) -> String {
        let resource = format!(r#""Resource": "arn:aws:states:::{resource}""#);
        of(&format!(r#""T": {{"Type": "Task", {resource}, "End": true {arguments}}}"#))
    }

    #[test]
    fn a_start_is_its_own_where_its_machine_is_written_out() {
        const START: &str = "states:startExecution";
        let arn = |name: &str| format!("arn:aws:states:us-east-1:123456789012:stateMachine:{name}");
        for (arguments, expected) in [
            (format!(r#", "Parameters": {{"StateMachineArn": "{}"}}"#, arn("a-1")), "None"),
            (format!(r#", "Parameters": {{"StateMachineArn": "{}", "Input.$": "$"}}"#, arn("a-1:2")), "None"),
            (r#", "Parameters": {"StateMachineArn": "a-1"}"#.into(), "None"),
            (
                format!(r#", "Parameters": {{"StateMachineArn": "{}", "Input.$": "$"}}"#, arn("b:a-1")),
                r#"Some(Machine { state: "T", name: "b" })"#,
            ),
            (
                format!(r#", "Parameters": {{"StateMachineArn": "{}"}}"#, arn(&arn("b"))),
                r#"Some(Machine { state: "T", name: "b" })"#,
            ),
            (r#", "Parameters": {"StateMachineArn.$": "$.m"}"#.into(), r#"Some(Any { state: "T" })"#),
            (
                r#", "QueryLanguage": "JSONata", "Arguments": {"StateMachineArn": "{% 'a-1' %}"}"#.into(),
                r#"Some(Any { state: "T" })"#,
            ),
            (
                r#", "QueryLanguage": "JSONata", "Arguments": "{% $states.input %}""#.into(),
                r#"Some(Any { state: "T" })"#,
            ),
        ] {
            assert_eq!(task(START, &arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn the_api_is_never_its_own_and_other_services_are_nobody_s() {
        for (resource, expected) in [
            ("aws-sdk:sfn:listStateMachines", r#"Some(Api { state: "T" })"#),
            ("aws-sdk:sqs:listQueues", "None"),
        ] {
            assert_eq!(task(resource, r#", "Parameters": {}"#), expected, "{resource}");
        }
    }
}
