//! `perdura show`: one execution.

use crate::arguments::ShowArguments;
use crate::{duration, table, terminal};
use anyhow::{Result, bail};
use perdura_server::control::{Answer, Request, Shown, Standing};
use std::process::ExitCode;

/// Shows an execution.
pub(crate) fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let request = Request::Show { execution: arguments.execution.clone() };
    let Answer::Execution(shown) = arguments.data.reach()?.ask(request)? else {
        bail!("the answer is none to this question");
    };
    if arguments.data.json {
        table::print_json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    table::print_pairs(&pairs(&shown))?;
    if !shown.standing.is_empty() {
        terminal::print(b"\n")?;
        let rows: Vec<Vec<String>> = shown.standing.iter().map(row).collect();
        table::print(&["STATE", "DOING", "SINCE", "UNTIL", "RETRIES", "KEY"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn pairs(shown: &Shown) -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        ("execution", shown.execution.to_string()),
        ("arn", shown.arn.to_string()),
        ("machine", shown.machine.to_string()),
        ("name", shown.name.to_string()),
        ("status", shown.status.name().to_owned()),
        ("started", shown.started_at.to_string()),
    ];
    // Without an id, the ARN replaces it.
    pairs.dedup_by(|(_, second), (_, first)| second == first);
    if let Some(ended_at) = shown.ended_at {
        pairs
            .push(("ended", format!("{ended_at}, after {}", duration::say(ended_at.0 - shown.started_at.0))));
    }
    pairs.extend(shown.erased_at.iter().map(|at| ("erased", at.to_string())));
    if shown.redrives > 0 {
        pairs.push(("redrives", shown.redrives.to_string()));
    }
    if !shown.labels.is_empty() {
        pairs.push(("labels", table::labels(&shown.labels)));
    }
    pairs.extend(shown.root_key.iter().map(|key| ("root key", key.to_string())));
    if let (Some(events), Some(turns)) = (shown.events, shown.turns) {
        pairs.push(("events", format!("{events} in {turns} turns")));
    }
    pairs.push(("input", shown.input.value().to_string()));
    pairs.extend(shown.output.iter().map(|output| ("output", output.value().to_string())));
    pairs.extend(shown.fault.error.iter().map(|error| ("error", error.to_string())));
    pairs.extend(shown.fault.cause.iter().map(|cause| ("cause", cause.to_string())));
    pairs.extend(shown.wakes_at.iter().map(|at| ("wakes", at.to_string())));
    pairs.extend(shown.parked.iter().map(|why| ("parked", why.to_string())));
    pairs
}

fn row(standing: &Standing) -> Vec<String> {
    let doing = if standing.live { format!("{}, now", standing.doing) } else { standing.doing.to_string() };
    vec![
        standing.state.clone(),
        doing,
        standing.since.to_string(),
        standing.until.map_or_else(|| "-".to_owned(), |at| at.to_string()),
        standing.retries.to_string(),
        standing.key.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
