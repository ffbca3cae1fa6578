//! Converts the API's answers to the shapes of commands.

use super::{name, strange};
use anyhow::{Context, Result};
use perdura_asl::json::{Payload, Value};
use perdura_asl::machine::MachineType;
use perdura_asl::timestamp::parse_ms;
use perdura_engine::{Fault, Labels, Status, Timestamp};
use perdura_server::control::{Listed, Shown};
use std::sync::Arc;

const STATUSES: [Status; 5] =
    [Status::Running, Status::Succeeded, Status::Failed, Status::Aborted, Status::TimedOut];

/// A required text.
pub(super) fn text(answer: &Value, name: &str) -> Result<Arc<str>> {
    maybe_text(answer, name).with_context(|| strange(&format!("{name} is missing")))
}

/// An optional text.
pub(super) fn maybe_text(answer: &Value, name: &str) -> Option<Arc<str>> {
    answer.get(name).and_then(Value::as_str).map(Arc::from)
}

/// A required instant.
pub(super) fn instant(answer: &Value, name: &str) -> Result<Timestamp> {
    maybe_instant(answer, name)?.with_context(|| strange(&format!("{name} is missing")))
}

/// Seconds since 1970 as on AWS, or a text as on other servers.
pub(super) fn maybe_instant(answer: &Value, name: &str) -> Result<Option<Timestamp>> {
    let Some(written) = answer.get(name).filter(|written| !written.is_null()) else { return Ok(None) };
    let seconds = written.as_f64().map(|seconds| (seconds * 1000.0).round() as i64);
    let ms = seconds.or_else(|| written.as_str().and_then(parse_ms));
    ms.map(|ms| Some(Timestamp(ms))).with_context(|| strange(&format!("{name} is {written}")))
}

/// The status of an execution. One that waits to be redriven with its Map Run has not ended.
pub(super) fn status(answer: &Value) -> Result<Status> {
    let written = text(answer, "status")?;
    if &*written == "PENDING_REDRIVE" {
        return Ok(Status::Running);
    }
    let known = STATUSES.into_iter().find(|status| status.name() == &*written);
    known.with_context(|| strange(&format!("the status is {written:?}")))
}

/// The type of a machine.
pub(super) fn kind(answer: &Value) -> MachineType {
    match answer.get("type").and_then(Value::as_str) {
        Some("EXPRESS") => MachineType::Express,
        // Answers of old servers have no type.
        Some(_) | None => MachineType::Standard,
    }
}

/// A row of `ListExecutions`.
pub(super) fn listed(row: &Value) -> Result<Listed> {
    let arn = text(row, "executionArn")?;
    Ok(Listed {
        machine: name::machine(&arn).into(),
        name: text(row, "name")?,
        status: status(row)?,
        started_at: instant(row, "startDate")?,
        ended_at: maybe_instant(row, "stopDate")?,
        redrives: redrives(row),
        labels: Labels::default(),
        error: None,
        erased_at: None,
        execution: arn,
    })
}

/// The answer of `DescribeExecution`.
pub(super) fn shown(answer: &Value) -> Result<Shown> {
    let arn = text(answer, "executionArn")?;
    let document = |name: &str| -> Result<Option<Payload>> {
        let Some(text) = maybe_text(answer, name) else { return Ok(None) };
        Payload::from_text(text).map(Some).map_err(|_| strange(&format!("{name} is no JSON")))
    };
    let (error, cause) = (maybe_text(answer, "error"), maybe_text(answer, "cause"));
    Ok(Shown {
        machine: name::machine(&arn).into(),
        name: text(answer, "name")?,
        status: status(answer)?,
        started_at: instant(answer, "startDate")?,
        ended_at: maybe_instant(answer, "stopDate")?,
        redrives: redrives(answer),
        labels: Labels::default(),
        root_key: None,
        turns: None,
        events: None,
        // It is withheld from callers without the right to decrypt it.
        input: document("input")?.unwrap_or_else(|| Value::Null.into()),
        output: document("output")?,
        fault: Fault { error, cause },
        standing: Vec::new(),
        wakes_at: None,
        parked: None,
        erased_at: None,
        execution: arn.clone(),
        arn,
    })
}

fn redrives(answer: &Value) -> u32 {
    let count = answer.get("redriveCount").and_then(Value::as_i64);
    count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// The items of a list, and the token of the next page.
pub(super) fn page<'a>(answer: &'a Value, items: &str) -> Result<(&'a [Value], Option<String>)> {
    let listed = answer.get(items).and_then(Value::as_array);
    let next = maybe_text(answer, "nextToken").filter(|token| !token.is_empty());
    let listed = listed.with_context(|| strange(&format!("{items} is missing")))?;
    Ok((listed, next.map(|token| token.to_string())))
}
