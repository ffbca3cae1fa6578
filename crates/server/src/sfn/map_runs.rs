//! Map Runs: described, listed, updated.

use super::error::ApiError;
use super::list::Pages;
use super::locate::{parse, wrong_resource};
use super::requested::Requested;
use super::{Api, seconds};
use perdura_engine::asl::json::{Number, Value};
use perdura_engine::asl::{members, object};
use perdura_engine::{Named, Tally};
use perdura_runtime::{AdjustError, MapRunChange};
use perdura_store::MapRunRow;
use uuid::Uuid;

/// The run that an ARN names.
fn run_of(arn: &str) -> Result<Uuid, ApiError> {
    match parse(arn)?.named {
        Named::MapRun { id, .. } => Ok(id),
        _ => Err(wrong_resource(arn)),
    }
}

pub(super) async fn describe(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("mapRunArn");
    let run = api.map_run(run_of(arn)?, arn).await?;
    let begun = api.begun(run.execution).await?.ok_or_else(|| ApiError::no_resource(arn))?;
    let MapRunRow { bounds, counts, results_written, .. } = &run;
    // Results are written together: either those of all items or none.
    let items_written = if *results_written > 0 { counts.items.total } else { 0 };
    let float = |value: f64| Value::Number(Number::Float(value));
    let mut shown = members! {
        "mapRunArn" => run.arn.clone(),
        "executionArn" => begun.identity.arn,
        "status" => run.status.name(),
        "startDate" => seconds(run.started_at),
        "maxConcurrency" => bounds.max_concurrency,
        "toleratedFailurePercentage" => float(bounds.tolerated_percentage.unwrap_or(0.0)),
        "toleratedFailureCount" => bounds.tolerated_count.unwrap_or(0),
        "itemCounts" => tally(&counts.items, items_written),
        "executionCounts" => tally(&counts.children, *results_written),
        "redriveCount" => u64::from(run.redrives),
    };
    if let Some(ended_at) = run.ended_at {
        shown.insert("stopDate", seconds(ended_at));
    }
    if let Some(redriven_at) = run.redriven_at {
        shown.insert("redriveDate", seconds(redriven_at));
    }
    Ok(shown.into())
}

fn tally(tally: &Tally, results_written: u64) -> Value {
    object! {
        "pending" => tally.pending(),
        "running" => tally.running,
        "succeeded" => tally.succeeded,
        "failed" => tally.failed,
        "timedOut" => tally.timed_out,
        "aborted" => tally.aborted,
        "total" => tally.total,
        "resultsWritten" => results_written,
    }
}

pub(super) async fn list(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("executionArn");
    let pages = Pages::of(api, request, "ListMapRuns");
    let after = pages.after(|place| place.parse::<usize>().ok())?.unwrap_or(0);
    let id = api.standard(arn).await?;
    // An execution has few Map Runs: a Map state starts one each time it is entered.
    let runs = api.door().map_runs(id).await?;
    let most = pages.most() as usize;
    let next = (runs.len() > after + most).then(|| (after + most).to_string());
    let shown = runs.into_iter().skip(after).take(most).map(|run| {
        let unlabelled = run.arn.rsplit_once(':').map_or(&*run.arn, |(machine, _)| machine);
        let mut shown = members! {
            "executionArn" => arn,
            "mapRunArn" => run.arn.clone(),
            "stateMachineArn" => unlabelled.replacen(":mapRun:", ":stateMachine:", 1),
            "startDate" => seconds(run.started_at),
        };
        if let Some(ended_at) = run.ended_at {
            shown.insert("stopDate", seconds(ended_at));
        }
        shown.into()
    });
    Ok(pages.answer("mapRuns", shown.collect(), next))
}

/// Changes the bounds of a Map Run under way.
pub(super) async fn update(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("mapRunArn");
    let run = run_of(arn)?;
    let count = |name: &str| request.number(name).and_then(|count| u64::try_from(count).ok());
    let change = MapRunChange {
        max_concurrency: count("maxConcurrency"),
        tolerated_count: count("toleratedFailureCount"),
        tolerated_percentage: request.value("toleratedFailurePercentage").and_then(Value::as_f64),
    };
    if change == MapRunChange::default() {
        return Err(ApiError::invalid(
            "At least one of maxConcurrency, toleratedFailurePercentage and toleratedFailureCount must be specified",
        )
        .with("reason", "MISSING_REQUIRED_PARAMETER"));
    }
    api.map_run(run, arn).await?;
    match api.door().adjust_map_run(run, change).await {
        Ok(()) => Ok(Value::empty_object()),
        Err(AdjustError::Unknown) => Err(ApiError::no_resource(arn)),
        Err(AdjustError::Ended) => {
            Err(ApiError::invalid(format!("Map Run has ended and cannot be updated: '{arn}'"))
                .with("reason", "CANNOT_UPDATE_COMPLETED_MAP_RUN"))
        }
        Err(AdjustError::Unavailable(unavailable)) => Err(unavailable.into()),
    }
}
