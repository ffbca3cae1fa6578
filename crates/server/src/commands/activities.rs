//! Activities, and the answers of workers to their tasks.

use crate::control::{ActivityListed, Answer, Task};
use crate::data::{Data, Served};
use crate::{Refusal, RefusalKind, names};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::Kind;
use perdura_engine::asl::resource::Target;
use perdura_engine::{Certainty, Fault, Outcome, TaskToken};
use perdura_runtime::read_definition;
use perdura_store::{Registered, Registry};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long a worker waits for a task before it has to ask again.
const POLL_FOR: Duration = Duration::from_mins(1);

/// Activities that were created, and those that the newest definition of a machine names.
pub(crate) fn list<D: Data>(data: &mut D) -> Result<Answer, Refusal> {
    let (registered, machines) =
        data.read(|reader| Ok((reader.registered(Registry::Activity, None, u32::MAX)?, reader.machines()?)))?;
    let mut found: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> =
        registered.into_iter().map(|entry| (entry.name, BTreeSet::new())).collect();
    for record in machines {
        let Some(machine) = read_definition(&record) else { continue };
        for (_, state) in machine.states() {
            if let Kind::Task(task) = &state.kind
                && let Target::Activity { name } = &task.resource.target
            {
                found.entry(name.clone()).or_default().insert(record.name.clone());
            }
        }
    }
    let listed = found.into_iter();
    let listed =
        listed.map(|(name, machines)| ActivityListed { name, machines: machines.into_iter().collect() });
    Ok(Answer::Activities(listed.collect()))
}

/// Creates an activity, unless it exists.
pub(super) fn put<D: Data>(data: &mut D, name: &str) -> Result<Answer, Refusal> {
    names::check("an activity", name)?;
    if data.read(|reader| reader.registered_one(Registry::Activity, name))?.is_none() {
        let created_at = data.moment().now;
        let entry = Registered { kind: Registry::Activity, name: name.into(), created_at, body: Vec::new() };
        data.register(&entry)?;
        tracing::info!(activity = name, "put");
    }
    Ok(Answer::Done)
}

/// Waits for a task. If this future is dropped, the next worker gets the task.
pub(crate) async fn poll(data: &Served, activity: &str, worker: Option<String>) -> Result<Answer, Refusal> {
    let polling = data.door().poll(plain(activity).into(), worker.map(Into::into));
    match tokio::time::timeout(POLL_FOR, polling).await {
        Ok(Ok(task)) => Ok(Answer::Task(Some(Box::new(Task {
            token: task.token.to_string(),
            key: task.key.readable().into(),
            wire_key: task.key.wire().to_string(),
            input: task.input,
        })))),
        Ok(Err(unavailable)) => Err(unavailable.into()),
        Err(_elapsed) => Ok(Answer::Task(None)),
    }
}

/// The name of an activity, which may be given as an ARN.
pub(crate) fn plain(name: &str) -> &str {
    name.rsplit_once(":activity:").map_or(name, |(_, plain)| plain)
}

pub(crate) fn no_server() -> Refusal {
    Refusal::new(RefusalKind::Unavailable, "no server holds this data, and only a server hands out tasks")
        .but("start one with `perdura serve`")
}

pub(super) fn succeed<D: Data>(data: &mut D, token: &str, output: Payload) -> Result<Answer, Refusal> {
    answer(data, token, Outcome::Succeeded { output })
}

pub(super) fn fail<D: Data>(
    data: &mut D,
    token: &str,
    error: Option<String>,
    cause: Option<String>,
    certainty: Certainty,
) -> Result<Answer, Refusal> {
    let fault = Fault { error: error.map(Into::into), cause: cause.map(Into::into) };
    answer(data, token, Outcome::Failed { fault, certainty })
}

fn answer<D: Data>(data: &mut D, token: &str, outcome: Outcome) -> Result<Answer, Refusal> {
    data.answer(read(token)?, outcome)?;
    Ok(Answer::Done)
}

pub(super) fn heartbeat<D: Data>(data: &mut D, token: &str) -> Result<Answer, Refusal> {
    data.heartbeat(read(token)?)?;
    Ok(Answer::Done)
}

pub(crate) fn read(token: &str) -> Result<TaskToken, Refusal> {
    TaskToken::parse(token).ok_or_else(|| {
        // A mistyped token may be nearly right, and a token is a secret: the message does not repeat it.
        Refusal::invalid("this is no task token").but("a token has 72 hexadecimal digits; copy all of it")
    })
}
