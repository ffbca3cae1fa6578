//! Executions: started, shown, stopped, redriven.

use super::catalog::Entry;
use super::error::{ApiError, Code};
use super::locate::MachineArn;
use super::machines::deleting;
use super::requested::{Asked, Requested};
use super::{Api, seconds};
use perdura_engine::asl::diagnostic::explain_in_a_sentence;
use perdura_engine::asl::json::{Map, Payload, Value};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::{members, object};
use perdura_engine::{Execution, Fault, Input, Status, is_name};
use perdura_runtime::card::{Unstartable, is_gone};
use perdura_runtime::{Ending, Start, StartError, Started, Via};
use std::sync::Arc;

/// AWS bills in units of this memory.
const BILLED_MEMORY_MB: u64 = 64;
/// AWS bills in steps of this many milliseconds.
const BILLED_MS: i64 = 100;

pub(super) async fn start(api: &Api, asked: Asked) -> Result<Value, ApiError> {
    let changes = api.door().machine_changes();
    let (start, entry, arn) = prepare(api, asked.requested(), None).await?;
    let machine = asked.requested().required("stateMachineArn").to_owned();
    // A large input counts as the request's until the node has taken it.
    let room = asked.into_room();
    let started = api.door().start(start).await.map_err(|error| not_started(error, &arn))?;
    drop(room);
    if started.fresh {
        tracing::debug!(execution = %started.execution, "started");
    }
    if api.door().machine_changes() != changes
        && is_gone(api.machine(&entry.head.name).await?.as_ref().map(|now| &now.head), &entry.head)
    {
        // The machine was deleted before this execution was listed: it is stopped like the others.
        api.door().input(started.execution, Input::Stop { fault: Fault::default() }).await?;
        return Err(deleting(&machine));
    }
    Ok(object! {"executionArn" => started.arn, "startDate" => seconds(started.at)})
}

/// Starts an Express execution and waits for its end.
pub(super) async fn start_sync(api: &Api, asked: Asked) -> Result<Value, ApiError> {
    let request = asked.requested();
    let (start, entry, arn) = prepare(api, request, Some(MachineType::Express)).await?;
    let (with_data, name) = (request.wants_data(), start.name.clone());
    let trace_header = request.text("traceHeader").map(str::to_owned);
    let input = start.input.clone();
    let room = asked.into_room();
    let begun = api.door().begin(start).await.map_err(|error| not_started(error, &arn))?;
    // From here on this only waits for the execution: a client that hangs up leaves nothing else behind.
    drop(room);
    let (Started { execution, arn, .. }, ending) = begun;
    let Ending { status, output, fault, started_at, ended_at } = ending.await?;
    let mut shown = members! {
        "executionArn" => arn,
        "stateMachineArn" => api.0.arns.machine(&entry.head.name),
        "name" => name.unwrap_or_else(|| execution.to_string().into()),
        "startDate" => seconds(started_at),
        "stopDate" => seconds(ended_at),
        // The caller of a synchronous execution sees a stop as a failure.
        "status" => if status == Status::Aborted { "FAILED" } else { status.name() },
    };
    let took_ms = ended_at.0.saturating_sub(started_at.0).max(1);
    let billed_ms = (took_ms + BILLED_MS - 1) / BILLED_MS * BILLED_MS;
    shown.insert(
        "billingDetails",
        object! {
            "billedMemoryUsedInMB" => BILLED_MEMORY_MB,
            "billedDurationInMilliseconds" => billed_ms,
        },
    );
    insert_data(&mut shown, "input", Some(&input), with_data);
    insert_data(&mut shown, "output", output.as_ref(), with_data);
    // AWS gives these details also without an output.
    shown.insert("outputDetails", object! {"included" => with_data});
    if with_data {
        insert_fault(&mut shown, &fault);
    }
    if let Some(header) = trace_header {
        shown.insert("traceHeader", header);
    }
    Ok(shown.into())
}

/// The start, its machine, and the ARN of an execution of this name.
async fn prepare(
    api: &Api,
    request: Requested<'_>,
    only: Option<MachineType>,
) -> Result<(Start, Arc<Entry>, String), ApiError> {
    let machine_arn = request.required("stateMachineArn");
    let found = MachineArn::read(&api.0.arns, machine_arn)?;
    let missing = || ApiError::no_machine(machine_arn);
    if let MachineArn::Labelled { .. } = found {
        return Err(super::list::labelled());
    }
    let name = request.text("name");
    if let Some(name) = name.filter(|name| !is_name(name)) {
        return Err(ApiError::invalid_name(name));
    }
    let entry = api.machine(found.name()).await?.ok_or_else(missing)?;
    let (qualifier, chance) = (found.qualifier(), api.moment().entropy);
    let chosen = entry.card.start(entry.head.revision, qualifier.as_deref(), chance);
    if chosen == Err(Unstartable::Deleting) {
        return Err(deleting(machine_arn));
    }
    let kind = entry.head.kind;
    if only.is_some_and(|only| only != kind) {
        return Err(ApiError::wrong_type());
    }
    api.0.keys.check(entry.settings()?.key())?;
    let limits = api.limits(kind);
    let (text, bytes_max) = (request.shared("input"), limits.payload_bytes_max);
    let bytes = text.as_ref().map_or(0, |text| text.len());
    let input = api.computing(bytes, move || input(text, bytes_max)).await?;
    let (revision, via) = chosen.map_err(|_| missing())?;
    let arn = api.0.arns.execution(found.name(), name.unwrap_or_default(), kind, "");
    let via = Via { trace_header: request.text("traceHeader").map(Arc::from), ..via };
    let shares_name = kind == MachineType::Express;
    let name = match name {
        // An Express execution has two ids in its ARN: the second is its own.
        None if shares_name => Some(made_up_name(chance).into()),
        name => name.map(Arc::from),
    };
    let arns = api.0.arns.clone();
    Ok((Start { revision, name, shares_name, input, limits, arns, via }, entry, arn))
}

/// The name of an execution that is not named by its id.
fn made_up_name(chance: u128) -> String {
    uuid::Builder::from_random_bytes(chance.to_be_bytes()).into_uuid().to_string()
}

/// The input; without one, an empty object.
fn input(text: Option<Arc<str>>, bytes_max: usize) -> Result<Payload, ApiError> {
    let text = text.unwrap_or_else(|| "{}".into());
    let wrong = |what: String| {
        Err(ApiError::new(
            Code::InvalidExecutionInput,
            format!("Invalid State Machine Execution Input: '{what}'"),
        ))
    };
    if text.len() > bytes_max {
        return wrong(format!("The input has {} bytes; the most is {bytes_max}", text.len()));
    }
    match Payload::from_text(text.clone()) {
        Ok(input) => Ok(input),
        Err(error) => wrong(explain_in_a_sentence(&text, &error, "Invalid execution input.")),
    }
}

fn not_started(error: StartError, arn: &str) -> ApiError {
    match error {
        StartError::Exists(_) => {
            ApiError::new(Code::ExecutionAlreadyExists, format!("Execution Already Exists: '{arn}'"))
        }
        StartError::TooMany(most) => ApiError::too_many_run(most),
        StartError::Paused => {
            ApiError::unavailable("the state machine is paused: start it again when it was resumed")
        }
        StartError::NoMachine => ApiError::unavailable("the definition cannot be read"),
        StartError::Unavailable(unavailable) => unavailable.into(),
    }
}

pub(super) async fn describe(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("executionArn");
    let execution = api.standard_seen(arn).await?;
    let identity = execution.identity();
    api.gives_out(identity.id).await?;
    let run = if identity.is_child_of_map_run() { api.run_of_child(identity.id).await? } else { None };
    if request.wants_data() {
        let machine = execution.identity().machine_name.clone();
        if let Some(entry) = api.machine(&machine).await? {
            api.0.keys.check(entry.settings()?.key())?;
        }
    }
    let mut shown = shown(&execution, request.wants_data());
    let is_child = run.is_some();
    if let Some(run) = run {
        shown.insert("mapRunArn", run.arn);
    }
    insert_redrive(&mut shown, &execution, is_child);
    Ok(shown.into())
}

fn shown(execution: &Execution, with_data: bool) -> Map {
    let identity = execution.identity();
    let mut shown = members! {
        "executionArn" => identity.arn.clone(),
        "stateMachineArn" => identity.machine_arn.clone(),
        "name" => identity.name.clone(),
        "status" => execution.status().name(),
        "startDate" => seconds(execution.started_at()),
    };
    if let Some(ended_at) = execution.ended_at() {
        shown.insert("stopDate", seconds(ended_at));
    }
    insert_data(&mut shown, "input", Some(&identity.input), with_data);
    insert_data(&mut shown, "output", execution.output(), with_data);
    if with_data {
        insert_fault(&mut shown, execution.fault());
    }
    let optional = [
        ("traceHeader", &identity.trace_header),
        ("stateMachineVersionArn", &identity.version_arn),
        ("stateMachineAliasArn", &identity.alias_arn),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            shown.insert(name, value.clone());
        }
    }
    shown
}

/// Whether it can be redriven, alone or with its Map Run.
fn insert_redrive(shown: &mut Map, execution: &Execution, is_child: bool) {
    shown.insert("redriveCount", u64::from(execution.redrives()));
    if let Some(redriven_at) = execution.redriven_at() {
        shown.insert("redriveDate", seconds(redriven_at));
    }
    let status = execution.status();
    let (word, reason) = match status {
        _ if execution.erased_at().is_some() => ("NOT_REDRIVABLE", Some(not_redrivable(execution))),
        Status::Created | Status::Running | Status::Succeeded => {
            ("NOT_REDRIVABLE", Some(not_redrivable(execution)))
        }
        Status::Failed | Status::Aborted | Status::TimedOut if is_child => (
            "REDRIVABLE_BY_MAP_RUN",
            Some("Execution is a child of a Map Run and is redriven with it".to_owned()),
        ),
        Status::Failed | Status::Aborted | Status::TimedOut => ("REDRIVABLE", None),
    };
    shown.insert("redriveStatus", word);
    if let Some(reason) = reason {
        shown.insert("redriveStatusReason", reason);
    }
}

fn not_redrivable(execution: &Execution) -> String {
    match execution.erased_at() {
        Some(_) => "Execution was erased and cannot be redriven".to_owned(),
        None => format!("Execution is {} and cannot be redriven", execution.status().name()),
    }
}

/// A payload with its details, or only the detail that it is left out.
fn insert_data(shown: &mut Map, name: &'static str, payload: Option<&Payload>, with_data: bool) {
    let Some(payload) = payload else { return };
    if with_data {
        shown.insert(name, payload.text().clone());
    }
    let details = if name == "input" { "inputDetails" } else { "outputDetails" };
    shown.insert(details, object! {"included" => with_data});
}

fn insert_fault(shown: &mut Map, fault: &Fault) {
    for (name, value) in [("error", &fault.error), ("cause", &fault.cause)] {
        if let Some(value) = value {
            shown.insert(name, value.clone());
        }
    }
}

/// Stops an execution. As on AWS, stopping an ended one changes nothing and is no error.
pub(super) async fn stop(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("executionArn");
    let id = api.standard(arn).await?;
    let text = |name: &str| request.text(name).map(Arc::from);
    let fault = Fault { error: text("error"), cause: text("cause") };
    let taken = api.door().input(id, Input::Stop { fault }).await?;
    let ended_at = taken.ended_at.unwrap_or_else(|| api.now());
    Ok(object! {"stopDate" => seconds(ended_at)})
}

/// Runs the unsuccessful part of an execution again.
pub(super) async fn redrive(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("executionArn");
    let id = api.standard(arn).await?;
    let refused = |why: &str| ApiError::new(Code::ExecutionNotRedrivable, why.to_owned());
    let token: Option<Arc<str>> = request.text("clientToken").map(Arc::from);
    let input = token.clone().map_or(Input::Redrive, |token| Input::RedriveOnce { token });
    let before = api.seen(id, arn).await?;
    if before.identity().is_child_of_map_run() {
        return Err(refused("Execution is a child of a Map Run and is redriven with it"));
    }
    let taken = api.door().input(id, input).await?;
    let execution = api.seen(id, arn).await?;
    if let Some(redriven_at) = token.and_then(|token| execution.redriven_under(&token)) {
        return Ok(object! {"redriveDate" => seconds(redriven_at)});
    }
    if taken.ignored.is_some() {
        return Err(refused(&not_redrivable(&before)));
    }
    let redriven_at = execution.redriven_at().unwrap_or_else(|| api.now());
    Ok(object! {"redriveDate" => seconds(redriven_at)})
}
