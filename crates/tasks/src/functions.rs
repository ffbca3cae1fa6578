//! Functions by configuration: a local command, a URL, or a Lambda-compatible endpoint.
//!
//! A definition names a function; `perdura.toml` says what it is. Every kind gets the payload and the key, its errors
//! have the names that Step Functions reports for Lambda, and each end says whether the function may have acted.

mod command;
mod environment;
mod lambda;
mod outcome;
mod process;
mod wanted;
mod web;

pub(crate) use environment::Written as WrittenEnvironment;
pub(crate) use lambda::client_context;
pub(crate) use outcome::too_large;
pub(crate) use web::said;

pub use command::{Work, work};
pub use environment::Environment;
pub use process::{Group, Program};

pub(crate) use wanted::{Invocation, function_of, invocation, plain_name, written_qualifier};

use crate::client::{CallError, Client, Incoming, Outgoing};
use crate::destination::Destination;
use crate::lack::PutOff;
use crate::settings::{Function, Means, Settings};
use crate::shares::Shares;
use bytes::Bytes;
use outcome::{Shape, missing};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{Call, ExecutionId, Limits, Outcome};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The default time limit of a function elsewhere: as long as Lambda lets one run.
const TIMEOUT: Duration = Duration::from_mins(15);

/// All configured functions.
pub(crate) struct Functions {
    settings: Arc<Settings>,
    /// The places for commands.
    shares: Shares,
    answer_bytes_max: usize,
    put_off: PutOff,
}

/// One call of a function.
#[derive(Clone, Copy)]
pub(crate) struct Calling<'a> {
    pub(crate) execution: ExecutionId,
    pub(crate) call: &'a Call,
    pub(crate) destination: &'a Destination,
    pub(crate) invocation: &'a Invocation,
}

/// The HTTP client and the places for calls that leave this machine.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) client: &'a Client,
    pub(crate) shares: &'a Shares,
}

impl Line<'_> {
    /// Sends a request and returns its answer, once there is a place for this receiver.
    pub(crate) async fn send(self, receiver: &str, outgoing: Outgoing) -> Result<Incoming, CallError> {
        let _held = self.shares.enter(receiver).await;
        self.client.send(outgoing).await
    }
}

/// The limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    timeout: Duration,
    answer_bytes_max: usize,
}

/// How a function is called.
#[derive(Debug, PartialEq)]
enum Plan<'a> {
    Command {
        program: &'a Arc<Program>,
        timeout: Option<Duration>,
    },
    Url {
        url: &'a Url,
        timeout: Duration,
    },
    Lambda {
        endpoint: &'a Url,
        name: &'a str,
        qualifier: Option<&'a str>,
        timeout: Duration,
    },
    /// It could be called; that was the whole request.
    Able,
    Missing,
}

impl Functions {
    /// The functions of a configuration.
    pub(crate) fn new(settings: Arc<Settings>, put_off: PutOff) -> Self {
        let limits = if settings.strict { Limits::strict(MachineType::Standard) } else { Limits::GENEROUS };
        Self {
            shares: Shares::new(settings.commands),
            answer_bytes_max: limits.payload_bytes_max,
            put_off,
            settings,
        }
    }

    /// Calls a function. Dropping the future ends the call: a command with all processes that it started.
    pub(crate) async fn invoke(&self, line: Line<'_>, calling: Calling<'_>) -> Outcome {
        let bounds = |timeout| Bounds { timeout, answer_bytes_max: self.answer_bytes_max };
        match self.plan(calling.invocation) {
            Plan::Command { program, timeout } => self.command(program, timeout, calling).await,
            Plan::Url { url, timeout } => web::post(line, url, bounds(timeout), calling).await,
            Plan::Lambda { endpoint, name, qualifier, timeout } => {
                let function =
                    lambda::Function { endpoint, name, qualifier, signer: &self.settings.aws.signer };
                lambda::invoke(line, function, bounds(timeout), calling).await
            }
            Plan::Able => {
                let output = calling.invocation.shape.wrap(Payload::default(), outcome::LATEST);
                Outcome::Succeeded { output }
            }
            Plan::Missing => {
                let (execution, key, name) = (calling.execution, &calling.call.key, &calling.invocation.name);
                tracing::warn!(
                    %execution, step = key.step(), %key, function = %name,
                    "this function is not configured"
                );
                missing(name, &key.wire().to_string())
            }
        }
    }

    /// Whether it is a local command.
    pub(crate) fn is_command(&self, invocation: &Invocation) -> bool {
        matches!(self.plan(invocation), Plan::Command { .. })
    }

    fn plan<'a>(&'a self, invocation: &'a Invocation) -> Plan<'a> {
        let name = plain_name(&invocation.name);
        let Some(Function { means, timeout }) = self.settings.functions.get(name) else {
            let qualifier = invocation.qualifier.as_deref();
            return self.settings.lambda_endpoint.as_ref().map_or(Plan::Missing, |endpoint| Plan::Lambda {
                endpoint,
                name,
                qualifier,
                timeout: TIMEOUT,
            });
        };
        let at_most = timeout.unwrap_or(TIMEOUT);
        match (means, invocation.shape) {
            (Means::Command(_) | Means::Url(_), Shape::DryRun) => Plan::Able,
            (Means::Command(program), Shape::Bare | Shape::Invoke | Shape::Event) => {
                Plan::Command { program, timeout: *timeout }
            }
            (Means::Url(url), Shape::Bare | Shape::Invoke | Shape::Event) => {
                Plan::Url { url, timeout: at_most }
            }
            (Means::Lambda(function), _) => {
                self.settings.lambda_endpoint.as_ref().map_or(Plan::Missing, |endpoint| {
                    let qualifier = function.qualifier.as_deref().or(invocation.qualifier.as_deref());
                    Plan::Lambda { endpoint, name: &function.name, qualifier, timeout: at_most }
                })
            }
        }
    }
}

/// The bytes of a payload, shared with it.
struct Text(Arc<str>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn body(payload: &Payload) -> Bytes {
    Bytes::from_owner(Text(payload.text().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Qualified;
    use std::collections::BTreeMap;

    fn invocation(name: &str, shape: Shape) -> Invocation {
        Invocation {
            name: name.into(),
            qualifier: written_qualifier(name),
            payload: Payload::default(),
            shape,
            client_context: None,
            wants_log: false,
        }
    }

    #[test]
    fn each_function_is_what_its_table_says_and_the_rest_is_at_the_endpoint() {
        let program = Arc::new(Program { path: "charge".into(), folder: "/".into(), ..Program::default() });
        let url = Url::parse("http://ship.example/").unwrap();
        let endpoint = Url::parse("http://lambda.example/").unwrap();
        let short = Duration::from_secs(3);
        let at = |name: &str, qualifier: Option<&str>| {
            Means::Lambda(Qualified { name: name.into(), qualifier: qualifier.map(Arc::from) })
        };
        let functions = BTreeMap::from([
            ("charge".to_owned(), Function { means: Means::Command(program.clone()), timeout: None }),
            ("ship".to_owned(), Function { means: Means::Url(url.clone()), timeout: Some(short) }),
            ("bill".to_owned(), Function { means: at("billing", Some("7")), timeout: None }),
            ("mail".to_owned(), Function { means: at("mailing", None), timeout: None }),
        ]);
        let with = |endpoint: Option<&Url>| {
            let lambda_endpoint = endpoint.cloned();
            let settings = Settings { functions: functions.clone(), lambda_endpoint, ..Settings::default() };
            Functions::new(settings.into(), PutOff::default())
        };
        let lambda =
            |name, qualifier| Plan::Lambda { endpoint: &endpoint, name, qualifier, timeout: TIMEOUT };
        for (name, shape, expected) in [
            ("charge", Shape::Bare, Plan::Command { program: &program, timeout: None }),
            (
                "arn:aws:lambda:r:1:function:charge:live",
                Shape::Event,
                Plan::Command { program: &program, timeout: None },
            ),
            ("charge", Shape::DryRun, Plan::Able),
            ("ship", Shape::Invoke, Plan::Url { url: &url, timeout: short }),
            ("ship", Shape::DryRun, Plan::Able),
            ("bill:live", Shape::Invoke, lambda("billing", Some("7"))),
            ("mail:live", Shape::DryRun, lambda("mailing", Some("live"))),
            ("other", Shape::Bare, lambda("other", None)),
            ("other:3", Shape::DryRun, lambda("other", Some("3"))),
        ] {
            assert_eq!(with(Some(&endpoint)).plan(&invocation(name, shape)), expected, "{name} {shape:?}");
        }
        for name in ["other", "bill"] {
            assert_eq!(with(None).plan(&invocation(name, Shape::DryRun)), Plan::Missing, "{name}");
        }
    }
}
