//! Commands that are answered by a server with the Step Functions API: another perdura, or AWS itself.
//!
//! Commands use the requests of the control socket for every answerer. This module turns each [`Request`] into calls of
//! that API, and the answers into the same [`Answer`]. Data that the API does not have (Turns, keys, where an execution
//! stands) is absent from the answer, and an execution is identified by its ARN. [`Http`] sends and signs the calls;
//! the decisions here are tested with recorded answers.

mod fault;
mod history;
mod http;
mod list;
mod machines;
mod name;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use http::{Endpoint, Http};

use anyhow::{Result, anyhow};
use history::Bookmark;
use name::Meant;
use perdura_asl::json::{Map, Value};
use perdura_engine::{Arns, Status};
use perdura_server::control::{Answer, ListQuestion, Page, Request, Starting, Taken};
use perdura_server::{Refusal, RefusalKind};

/// Sends calls. A refusal is a [`Refusal`]; any other error means that there was no answer.
pub(crate) trait Api {
    /// Calls an action.
    fn call(&mut self, action: &str, body: Value) -> Result<Value>;

    /// A unique name, so that a call can be repeated without doing its work twice.
    fn unique(&mut self) -> Result<String>;

    /// The region of the server.
    fn region(&self) -> &str;
}

/// A server with the Step Functions API.
pub(crate) struct Remote<A> {
    api: A,
    /// The end of the last page of a history.
    bookmark: Option<Bookmark>,
}

impl<A: Api> Remote<A> {
    pub(crate) fn new(api: A) -> Self {
        Self { api, bookmark: None }
    }

    /// Partition, region and account of that server, from one of its machines or activities; `None`: it has neither.
    pub(crate) fn known_arns(&mut self) -> Result<Option<Arns>> {
        if let Some(machine) = self.machines()?.next(&mut self.api)? {
            return Ok(name::arns(&machine.arn));
        }
        let answer = self.api.call("ListActivities", fields([]))?;
        let first = read::page(&answer, "activities")?.0.first();
        Ok(first.and_then(|activity| name::arns(activity.get("activityArn")?.as_str()?)))
    }

    /// The same, with defaults: the region of the endpoint, and the rest as in a new perdura.
    pub(crate) fn arns(&mut self) -> Result<Arns> {
        let known = self.known_arns()?;
        Ok(known.unwrap_or_else(|| Arns { region: self.api.region().to_owned(), ..Arns::default() }))
    }

    /// Answers the requests of commands with `--endpoint`.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer> {
        match request {
            Request::Deploy { machine, kind, definition, role } => {
                self.deploy(&machine, kind, &definition, role).map(Answer::Deployed)
            }
            Request::PutActivity { name } => {
                self.api.call("CreateActivity", fields([("name", Some(name))]))?;
                Ok(Answer::Done)
            }
            // The server's limits apply.
            Request::Start { machine, name, input, strict: _, labels, key } => {
                if !labels.is_empty() || key.is_some() {
                    return Err(unknown_there("labels and keys of requests"));
                }
                let machine = self.machine_arn(&machine)?;
                let name = name.map_or_else(|| self.api.unique(), Ok)?;
                let of = machine.rsplit_once(":stateMachine:").map_or(&*machine, |(_, name)| name).into();
                let body = [
                    ("stateMachineArn", Some(machine)),
                    ("name", Some(name.clone())),
                    ("input", Some(input.text().to_string())),
                ];
                let started = self.api.call("StartExecution", fields(body))?;
                let arn = read::text(&started, "executionArn")?;
                let started_at = read::instant(&started, "startDate")?;
                let execution = arn.clone();
                Ok(Answer::Started(Starting {
                    execution,
                    arn,
                    name: name.into(),
                    machine: of,
                    status: Status::Running,
                    started_at,
                    labels,
                    fresh: None,
                    performs: true,
                }))
            }
            Request::List(question) => {
                let ListQuestion { machine, status, most, .. } = question.clone();
                let plain =
                    ListQuestion { machine, status, after: question.after, most, ..ListQuestion::default() };
                if question != plain {
                    return Err(unknown_there(
                        "lists by label, name, error or time, or in the order of the end",
                    ));
                }
                let items = self.list(plain.machine.as_deref(), status, most as usize)?;
                Ok(Answer::Executions(Page { items, next: None }))
            }
            Request::Show { execution } => {
                let described = self.describe(&execution)?;
                Ok(Answer::Execution(Box::new(read::shown(&described)?)))
            }
            Request::History { execution, from } => self.history(&execution, from).map(Answer::History),
            Request::Stop { execution, error, cause } => self.stop(&execution, error, cause),
            Request::Redrive { execution } => {
                let arn = self.find(&execution)?;
                let token = self.api.unique()?;
                let body = [("executionArn", Some(arn.clone())), ("clientToken", Some(token))];
                self.api.call("RedriveExecution", fields(body))?;
                Ok(taken(&arn, Status::Running, None))
            }
            Request::Who
            | Request::Turns { .. }
            | Request::Trace { .. }
            | Request::Ledger(_)
            | Request::Audit(_)
            | Request::Resolve(_)
            | Request::Activities
            | Request::Poll { .. }
            | Request::Succeed { .. }
            | Request::Fail { .. }
            | Request::Heartbeat { .. }
            | Request::PutConnection { .. }
            | Request::Connections
            | Request::CreateToken(_)
            | Request::Tokens
            | Request::RevokeToken { .. }
            | Request::DeleteConnection { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::Pauses
            | Request::Stats
            | Request::Left { .. }
            | Request::GiveUp { .. }
            | Request::Erase { .. }
            | Request::EraseKey { .. }
            | Request::Compact
            | Request::Cleanup { .. } => {
                Err(Refusal::invalid("the Step Functions API has no words for this").into())
            }
        }
    }

    /// An execution that has ended already is reported so, without a call.
    fn stop(&mut self, which: &str, error: Option<String>, cause: Option<String>) -> Result<Answer> {
        let described = self.describe(which)?;
        let arn = read::text(&described, "executionArn")?;
        let status = read::status(&described)?;
        if status.is_ended() {
            return Ok(taken(&arn, status, Some(format!("it has ended already: {}", status.name()))));
        }
        let body = [("executionArn", Some(arn.to_string())), ("error", error), ("cause", cause)];
        self.api.call("StopExecution", fields(body))?;
        Ok(taken(&arn, Status::Aborted, None))
    }

    /// The server's description of an execution.
    fn describe(&mut self, which: &str) -> Result<Value> {
        let arn = self.find(which)?;
        self.api.call("DescribeExecution", fields([("executionArn", Some(arn))]))
    }

    /// The ARN of an execution, by ARN, `machine/name`, or a unique name.
    fn find(&mut self, which: &str) -> Result<String> {
        let (machine, name) = match name::meant(which) {
            Meant::Arn(arn) => return Ok(arn.to_owned()),
            Meant::Name { machine, name } => (machine, name),
        };
        if let Some(machine) = machine {
            return Ok(name::execution(&self.machine_arn(machine)?, name));
        }
        let (mut machines, mut found) = (self.machines()?, Vec::new());
        while let Some(machine) = machines.next(&mut self.api)? {
            if machine.is_express {
                continue;
            }
            let arn = name::execution(&machine.arn, name);
            match self.api.call("DescribeExecution", fields([("executionArn", Some(arn.clone()))])) {
                Ok(_) => found.push(arn),
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
        match &found[..] {
            [arn] => Ok(arn.clone()),
            [] => Err(Refusal::not_found(format!("there is no execution {which:?}"))
                .but("`perdura ps --endpoint URL` lists them")
                .into()),
            several => {
                let names: Vec<String> =
                    several.iter().map(|arn| format!("{}/{name}", name::machine(arn))).collect();
                Err(Refusal::conflict(format!("several executions are called {which:?}"))
                    .but(format!("say which one: {}", names.join(", ")))
                    .into())
            }
        }
    }
}

/// The error for data that only perdura's own API has.
fn unknown_there(what: &str) -> anyhow::Error {
    Refusal::invalid(format!("the Step Functions API has no {what}"))
        .but("ask where the data is, with --data and without --endpoint")
        .into()
}

fn taken(arn: &str, status: Status, ignored: Option<String>) -> Answer {
    let ignored = ignored.map(Into::into);
    Answer::Taken(Taken { execution: arn.into(), ignored, status, performs: true })
}

/// The members of a request without absent ones.
fn fields<const N: usize>(members: [(&str, Option<String>); N]) -> Value {
    let given = members.into_iter().filter_map(|(name, text)| Some((name, text?)));
    given.collect::<Map>().into()
}

/// Whether the server answered that the thing does not exist.
fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<Refusal>(), Some(Refusal { kind: RefusalKind::NotFound, .. }))
}

/// An answer with an invalid form.
fn strange(what: &str) -> anyhow::Error {
    anyhow!("the server answers as Step Functions would not: {what}; is the URL that of its API?")
}
