//! Answers for tasks, from a file: which call of which state gets which answer.
//!
//! There are two formats: our own, a list of answers for each state, and the configuration of Step Functions Local.
//! Both become the same sequences. Giving answers is pure; only [`Mocks::open`] reads a file.

mod local;
mod own;

use crate::document;
use anyhow::{Context, Result, anyhow};
use perdura_asl::diagnostic::{Diagnostic, code};
use perdura_asl::json::Payload;
use perdura_asl::machine::{Kind, Machine};
use perdura_asl::node::Node;
use perdura_asl::source::{Source, Span};
use perdura_engine::{Certainty, Fault, Outcome};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The answers of all mocked states.
#[derive(Debug, Default)]
pub(crate) struct Mocks(BTreeMap<Arc<str>, Sequence>);

/// The answers of one state; at least one.
#[derive(Debug)]
struct Sequence {
    /// Each with the number of the last call that gets it, counted from 0.
    answers: Vec<(u64, Answer)>,
    calls: u64,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Result(Payload),
    Error(Fault),
}

/// The machine and case that a mock file is read for.
struct For<'a> {
    machine: &'a Machine,
    machine_name: &'a str,
    case: Option<&'a str>,
}

impl Mocks {
    /// Reads a file; the test case is after a #, if the file has several.
    pub(crate) fn open(argument: &str, machine: &Machine, machine_name: &str) -> Result<Self> {
        let (file, case) = match argument.rsplit_once('#') {
            Some((file, case)) if !Path::new(argument).exists() => (file, Some(case)),
            _ => (argument, None),
        };
        let source = document::read_text(Path::new(file), BYTES_MAX).context("the mock file is wrong")?;
        read(&source, &For { machine, machine_name, case }).context("the mock file is wrong")
    }

    /// The states that are mocked.
    pub(crate) fn states(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    /// The answer to the next call of a state; `None` if it is not mocked.
    pub(crate) fn answer(&mut self, state: &str) -> Option<Answer> {
        self.0.get_mut(state).map(Sequence::next)
    }
}

impl Sequence {
    /// After the last answer, the last is repeated.
    fn next(&mut self) -> Answer {
        let call = self.calls;
        self.calls += 1;
        let at = self.answers.partition_point(|(last, _)| *last < call).min(self.answers.len() - 1);
        self.answers[at].1.clone()
    }
}

impl Answer {
    /// The answer as an outcome.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Result(output) => Outcome::Succeeded { output },
            Self::Error(fault) => {
                let certainty = certainty(fault.error.as_deref().unwrap_or_default());
                Outcome::Failed { fault, certainty }
            }
        }
    }
}

/// The certainty of a real failure with this name.
fn certainty(error: &str) -> Certainty {
    if let Some(status) = error.strip_prefix("States.Http.StatusCode.") {
        return Certainty::of_http(status.parse().ok());
    }
    match error {
        "States.Timeout"
        | "States.HeartbeatTimeout"
        | "States.Http.Socket"
        | "Sandbox.Timedout"
        | "Lambda.AWSLambdaException"
        | "Lambda.ClientExecutionTimeoutException"
        | "Lambda.SdkClientException"
        | "Lambda.ServiceException"
        | "Lambda.Unknown" => Certainty::Ambiguous,
        _ => Certainty::Refused,
    }
}

fn read(source: &Source, wanted: &For<'_>) -> Result<Mocks> {
    let root = Node::parse(source).map_err(|diagnostic| document::refusal(source, &diagnostic))?;
    let page = Page { source };
    let members = page.object(&root, "a mock file")?;
    let is_local = members.iter().any(|member| matches!(&*member.key, "StateMachines" | "MockedResponses"));
    if is_local {
        return local::read(page, &root, wanted);
    }
    if let Some(case) = wanted.case {
        return Err(page.wrong(root.span, format!("there are no test cases in this format, so no {case:?}")));
    }
    own::read(page, members, wanted)
}

/// A mock file being parsed: every mistake has its place.
#[derive(Clone, Copy)]
struct Page<'a> {
    source: &'a Source,
}

impl Page<'_> {
    fn wrong(self, span: Span, message: String) -> anyhow::Error {
        document::refusal(
            self.source,
            &Diagnostic::error(code::SCHEMA_VALIDATION_FAILED, message).at("", span),
        )
    }

    fn object<'n>(self, node: &'n Node, what: &str) -> Result<&'n [perdura_asl::node::Member]> {
        node.as_object()
            .ok_or_else(|| self.wrong(node.span, format!("{what} is an object, not {}", node.described())))
    }

    fn text<'n>(self, node: &'n Node, what: &str) -> Result<&'n Arc<str>> {
        node.as_str()
            .ok_or_else(|| self.wrong(node.span, format!("{what} is a string, not {}", node.described())))
    }

    /// A state that can be mocked. An unknown name is refused, so that a typing mistake does not pass for a mock.
    fn mockable(self, machine: &Machine, name: &Arc<str>, span: Span) -> Result<Mocked> {
        let wrong = |message| Err(self.wrong(span, message));
        let Some((_, state)) = machine.states().find(|(_, state)| state.name == *name) else {
            let tasks = machine.states().filter(|(_, state)| matches!(state.kind, Kind::Task(_)));
            let names: Vec<String> = tasks.take(10).map(|(_, state)| format!("{:?}", state.name)).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return wrong(format!("the machine has no state {name:?}; its Task states are: {known}"));
        };
        match &state.kind {
            Kind::Task(_) => Ok(Mocked { name: name.clone(), span, is_reader: false }),
            Kind::Map(map) if map.reader.is_some() => {
                Ok(Mocked { name: name.clone(), span, is_reader: true })
            }
            _ => wrong(format!("{name:?} is no Task state and reads no items, and only those are mocked")),
        }
    }

    /// Adds a state's answers; a repeated state is a mistake.
    fn put(self, mocks: &mut Mocks, state: Mocked, answers: Vec<(u64, Answer)>) -> Result<()> {
        let Mocked { name, span, is_reader } = state;
        let is_list = |answer: &Answer| match answer {
            Answer::Result(items) => items.value().as_array().is_some(),
            Answer::Error(_) => true,
        };
        if is_reader && !answers.iter().all(|(_, answer)| is_list(answer)) {
            return Err(self.wrong(span, format!("the items of {name:?} are a list")));
        }
        if mocks.0.contains_key(&name) {
            return Err(anyhow!("the state {name:?} is there twice"));
        }
        mocks.0.insert(name, Sequence { answers, calls: 0 });
        Ok(())
    }
}

/// A state of the machine, as a mock file names it.
struct Mocked {
    name: Arc<str>,
    span: Span,
    /// It is a Map whose items are mocked.
    is_reader: bool,
}

#[cfg(test)]
mod tests_support {
    use super::*;
    use perdura_asl::read::{ReadOptions, read as read_machine};

    const MACHINE: &str = r#"{"StartAt": "Pay", "States": {
        "Pay": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "Parameters": {"QueueUrl": "q", "MessageBody": "m"}, "Next": "Ship"},
        "Ship": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:ship", "Next": "Done"},
        "Done": {"Type": "Succeed"}}}"#;

    fn try_read(text: &str, case: Option<&str>) -> Result<Mocks> {
        let machine = read_machine(&Source::new("order.json", MACHINE), &ReadOptions::default());
        let machine = machine.machine.expect("the test's own machine is valid");
        read(&Source::new("a.json", text), &For { machine: &machine, machine_name: "order", case })
    }

    pub(super) fn mocks(text: &str, case: Option<&str>) -> Mocks {
        try_read(text, case).unwrap()
    }

    pub(super) fn refused(text: &str, case: Option<&str>, expected: &str) {
        let error = format!("{:#}", try_read(text, case).unwrap_err());
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_get_answers_in_order_and_the_last_is_repeated() {
        let result = |text: &str| Answer::Result(Payload::from_text(text).unwrap());
        let mut sequence =
            Sequence { answers: vec![(0, result("0")), (2, result("1")), (3, result("3"))], calls: 0 };
        let given: Vec<Answer> = (0..6).map(|_| sequence.next()).collect();
        assert_eq!(given, ["0", "1", "1", "3", "3", "3"].map(result));
    }

    #[test]
    fn a_mocked_error_is_as_certain_as_the_real_one() {
        for (error, expected) in [
            ("States.Timeout", Certainty::Ambiguous),
            ("States.Http.StatusCode.503", Certainty::Ambiguous),
            ("States.Http.StatusCode.400", Certainty::Refused),
            ("CardDeclined", Certainty::Refused),
            ("", Certainty::Refused),
        ] {
            assert_eq!(certainty(error), expected, "{error}");
        }
    }
}
