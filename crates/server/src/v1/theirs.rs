//! Callers that are bound to machines: each operation knows which machine it concerns, and what is not theirs is not
//! there for them.
//!
//! It is asked before the rule of the key, so before a stored answer too. Such a caller is told of nothing by an error
//! either: one that names what there is instead would name what is not theirs.

use super::asked::Asked;
use super::problem::{Code, Problem};
use super::table::{Of, Operation, Reads, kind};
use super::{BODY_MAX, Desk};
use crate::Refusal;
use crate::commands::{activities, executions, find, ledger::ledger};
use crate::control::{Answer, LedgerQuestion};
use crate::data::Served;
use crate::who::Caller;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use perdura_engine::ExecutionId;
use perdura_engine::asl::read::{BYTES_MAX, ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::reach::{Reach, reach};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::str::FromStr;
use uuid::Uuid;

fn not_theirs() -> Problem {
    Problem::new(Code::NotFound, "there is nothing of that name for this caller")
}

/// What a request is about.
enum About {
    Machines(Vec<String>),
    Execution(String),
    Id(ExecutionId),
    Activity(String),
    Key(String),
}

/// Refuses what is not the caller's, and gives the request back.
pub(super) async fn admit(
    desk: &Desk,
    operation: &'static Operation,
    caller: &Caller,
    request: Request,
) -> Result<Request, Problem> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, BODY_MAX).await;
    let body = body.map_err(|_| Problem::new(Code::TooLarge, "the body is too large, or was cut off"))?;
    let asked = Asked::new(operation, &head.uri, head.headers.clone(), body.clone())?;
    let bound = caller.clone();
    let abouts = desk.parsed(body.len(), move || {
        check_reach(operation, &bound, &asked)?;
        abouts(operation, &asked)
    });
    let abouts = abouts.await?;
    for about in abouts {
        let caller = caller.clone();
        // Why it cannot be found is nothing to such a caller.
        if !desk.reads(move |data| Ok(is_theirs(data, &caller, &about).unwrap_or(false))).await? {
            return Err(not_theirs());
        }
    }
    Ok(Request::from_parts(head, Body::from(body)))
}

/// Refuses a definition that would reach machines through this server that its caller may not have to do with: what a
/// definition asks for is done in the name of its machine, and not of the token that deployed it. One that cannot be read
/// is refused later, with what is wrong.
fn check_reach(operation: &Operation, caller: &Caller, asked: &Asked) -> Result<(), Problem> {
    let is_kept = matches!(operation.reads, Reads::Definition) && !matches!(operation.of, Of::Nothing);
    // What is not theirs is not there for them, whatever is sent.
    if !is_kept || !caller.may_see(&asked.first()) || asked.body.len() > BYTES_MAX {
        return Ok(());
    }
    let source = Source::new("definition", asked.text()?.to_owned());
    let reading = read(&source, &ReadOptions { machine_type: kind(asked), strict: false });
    let Some(machine) = reading.machine else { return Ok(()) };
    let Some(reach) = reach(&machine, |name| caller.may_see(name)) else { return Ok(()) };
    let how = match reach {
        Reach::Api { state } => format!("the state {state} calls the Step Functions API of this server"),
        Reach::Machine { state, name } => format!("the state {state} starts executions of {name}"),
        Reach::Any { state } => {
            format!(
                "the state {state} starts executions of a machine that is not written in its StateMachineArn"
            )
        }
    };
    let what = format!("the definition reaches other machines, and the token is bound to some: {how}");
    Err(Problem::new(Code::Forbidden, what).but(
        "deploy it with a token without --machines; a StateMachineArn that is written out may name a machine of the token's",
    ))
}

fn abouts(operation: &Operation, asked: &Asked) -> Result<Vec<About>, Problem> {
    let members = || match operation.reads {
        Reads::Members(shape) => asked.members(shape),
        Reads::Nothing | Reads::Definition => Err(not_theirs()),
    };
    Ok(match operation.of {
        Of::Machine => vec![About::Machines(vec![asked.first()])],
        Of::Execution => vec![About::Execution(asked.first())],
        Of::Activity => vec![About::Activity(asked.first())],
        Of::Start => vec![About::Machines(vec![members()?.needed("machine")])],
        Of::Starts => {
            let all = members()?.each("executions");
            vec![About::Machines(all.iter().map(|start| start.needed("machine")).collect())]
        }
        Of::Task => vec![About::Id(activities::read(&members()?.needed("token"))?.execution)],
        Of::Call => {
            let key = members()?.needed("key");
            let id = key.split(':').next().and_then(|id| Uuid::from_str(id).ok()).ok_or_else(not_theirs)?;
            vec![About::Id(ExecutionId::from_uuid(id))]
        }
        // What is told is looked at afterwards; what is asked for by name is looked at now.
        Of::Listed | Of::Traced => {
            let machine = asked.query("machine").map(|name| About::Machines(vec![name.to_owned()]));
            let execution = asked.query("execution").map(|name| About::Execution(name.to_owned()));
            let key = asked.query("key").map(|key| About::Key(key.to_owned()));
            machine.into_iter().chain(execution).chain(key).collect()
        }
        Of::Nothing => Vec::new(),
        Of::All => {
            return Err(Problem::new(
                Code::Forbidden,
                "this is about all machines, and the token is bound to some",
            )
            .but("use a token without --machines"));
        }
    })
}

fn is_theirs(data: &mut Served, caller: &Caller, about: &About) -> Result<bool, Refusal> {
    match about {
        About::Machines(names) => {
            Ok(names.iter().all(|name| caller.may_see(executions::machine_of_start(name))))
        }
        About::Execution(which) => {
            let id = find(data, which)?;
            is_theirs(data, caller, &About::Id(id))
        }
        About::Id(id) => {
            let machine = executions::machine_of(data, *id)?;
            Ok(machine.is_some_and(|machine| caller.may_see(&machine)))
        }
        About::Key(key) => {
            let question = LedgerQuestion { key: Some(key.clone()), most: 1, ..LedgerQuestion::default() };
            let Answer::Ledger(found) = ledger(data, &question)? else { return Ok(false) };
            let one = found.items.first().map(|entry| About::Id(entry.execution));
            one.map_or(Ok(false), |one| is_theirs(data, caller, &one))
        }
        About::Activity(name) => {
            let Answer::Activities(all) = activities::list(data)? else { return Ok(false) };
            let found = all.iter().find(|one| *one.name == *activities::plain(name));
            Ok(found.is_some_and(|one| is_all_theirs(caller, one.machines.iter().map(|name| &**name))))
        }
    }
}

/// An activity is theirs if theirs are all machines that name it, and there is one.
fn is_all_theirs<'m>(caller: &Caller, machines: impl Iterator<Item = &'m str>) -> bool {
    let mut machines = machines.peekable();
    machines.peek().is_some() && machines.all(|machine| caller.may_see(machine))
}

/// What of an answer such a caller is told.
pub(super) async fn told(
    desk: &Desk,
    operation: &Operation,
    caller: &Caller,
    response: Response,
) -> Result<Response, Problem> {
    if response.status() == StatusCode::NOT_FOUND {
        return Err(not_theirs());
    }
    let is_looked_at = matches!(operation.of, Of::Listed | Of::Traced | Of::Starts);
    if !is_looked_at || !response.status().is_success() {
        return Ok(response);
    }
    let (mut head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut told: Json = serde_json::from_slice(&body).unwrap_or_default();
    if matches!(operation.of, Of::Traced) {
        let machine = told["execution"]["machine"].as_str().unwrap_or_default();
        if !caller.may_see(machine) {
            return Err(not_theirs());
        }
        // A request may have begun executions of other machines too.
        if let Some(began) = told["began"].as_array_mut() {
            began.retain(|one| one["machine"].as_str().is_some_and(|machine| caller.may_see(machine)));
        }
    } else if let Some(items) = told["items"].as_array_mut() {
        let theirs = theirs(desk, caller, items).await?;
        let is_list = matches!(operation.of, Of::Listed);
        items.retain(|item| !is_list || is_shown(caller, item, &theirs));
        for item in items {
            if let Some(problem) = item.get_mut("problem").and_then(Json::as_object_mut) {
                problem.shift_remove("remedy");
            }
        }
    }
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.remove(perdura_idempotency::CONTENT_DIGEST);
    Ok(Response::from_parts(head, Body::from(told.to_string())))
}

/// Which of the executions that items belong to are of the caller's machines.
async fn theirs(desk: &Desk, caller: &Caller, items: &[Json]) -> Result<BTreeSet<String>, Problem> {
    let ids = items.iter().filter_map(|item| item.get("execution").and_then(Json::as_str));
    let mut ids: BTreeSet<String> = ids.map(str::to_owned).collect();
    let caller = caller.clone();
    desk.reads(move |data| {
        ids.retain(|id| is_theirs(data, &caller, &About::Execution(id.clone())).unwrap_or(false));
        Ok(ids)
    })
    .await
}

/// An item of a list is a machine, has a machine, has machines, or has an execution.
fn is_shown(caller: &Caller, item: &Json, theirs: &BTreeSet<String>) -> bool {
    if let Some(machines) = item.get("machines").and_then(Json::as_array) {
        return is_all_theirs(caller, machines.iter().filter_map(Json::as_str));
    }
    if let Some(execution) = item.get("execution").and_then(Json::as_str) {
        return theirs.contains(execution);
    }
    let machine = item.get("machine").or_else(|| item.get("name")).and_then(Json::as_str);
    machine.is_some_and(|machine| caller.may_see(machine))
}
