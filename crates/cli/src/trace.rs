//! `perdura trace`: everything that happened under a key.

use crate::arguments::TraceArguments;
use crate::{duration, table, terminal};
use anyhow::{Result, bail};
use perdura_engine::Fault;
use perdura_server::control::{Answer, Request, TraceBy, Traced, TracedStart, TracedStep, ledger_word};
use std::process::ExitCode;

/// Prints the trace.
pub(crate) fn trace(arguments: &TraceArguments) -> Result<ExitCode> {
    let request = Request::Trace { key: arguments.key.clone() };
    let Answer::Trace(traced) = arguments.data.reach()?.ask(request)? else {
        bail!("the answer is none to this question");
    };
    if arguments.data.json {
        table::print_json(&traced)?;
        return Ok(ExitCode::SUCCESS);
    }
    table::print_pairs(&whose(&traced))?;
    if traced.began.len() > 1 {
        terminal::print(b"\n")?;
        let rows: Vec<Vec<String>> = traced.began.iter().map(began).collect();
        table::print(&["  BEGAN", "MACHINE", "NAME", "STATUS", "STARTED"], &indented(rows))?;
    }
    for step in &traced.steps {
        terminal::print(b"\n")?;
        table::print_pairs(&call(step))?;
        let rows: Vec<Vec<String>> = step
            .events
            .iter()
            .map(|event| {
                let number = event.event.map_or_else(|| "-".to_owned(), |number| number.to_string());
                vec![event.at.to_string(), number, event.what.to_string(), why(&event.fault)]
            })
            .collect();
        table::print(&["  TIME", "EVENT", "WHAT", "WHY"], &indented(rows))?;
    }
    if traced.more {
        terminal::tell("there are more steps than are told here; `perdura history` has them all");
    }
    Ok(ExitCode::SUCCESS)
}

fn indented(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let indent = |mut row: Vec<String>| {
        if let Some(first) = row.first_mut() {
            first.insert_str(0, "  ");
        }
        row
    };
    rows.into_iter().map(indent).collect()
}

fn began(start: &TracedStart) -> Vec<String> {
    let (id, status) = (start.execution.to_string(), start.status.name().to_owned());
    vec![id, start.machine.to_string(), start.name.to_string(), status, start.started_at.to_string()]
}

fn whose(traced: &Traced) -> Vec<(&'static str, String)> {
    let of = &traced.execution;
    let by = match traced.by {
        TraceBy::Key => "a key",
        TraceBy::WireKey => "a key from the wire",
        TraceBy::Token => "a task token",
        TraceBy::TraceParent => "a traceparent",
        TraceBy::Execution => "an execution",
        TraceBy::RootKey => "the key of a request",
    };
    let mut pairs = vec![
        ("this is", by.to_owned()),
        ("execution", of.execution.to_string()),
        ("machine", of.machine.to_string()),
        ("name", of.name.to_string()),
        ("status", of.status.name().to_owned()),
        ("started", of.started_at.to_string()),
    ];
    if let Some(ended_at) = of.ended_at {
        pairs.push(("ended", format!("{ended_at}, after {}", duration::say(ended_at.0 - of.started_at.0))));
    }
    pairs.extend(of.parent.iter().map(|key| ("started by", key.to_string())));
    if !of.labels.is_empty() {
        pairs.push(("labels", table::labels(&of.labels)));
    }
    pairs.extend(of.erased_at.iter().map(|at| ("erased", at.to_string())));
    pairs.extend(of.root_key.iter().map(|key| ("root key", key.to_string())));
    pairs.extend(Some(("why", why(&of.fault))).filter(|(_, why)| !why.is_empty()));
    pairs
}

fn call(step: &TracedStep) -> Vec<(&'static str, String)> {
    let entry = &step.entry;
    let mut pairs = vec![
        ("key", entry.key.to_string()),
        ("on the wire", entry.wire_key.clone()),
        ("step", format!("{}, round {}", entry.step, entry.round)),
    ];
    pairs.extend(step.resource.iter().map(|resource| ("calls", resource.to_string())));
    pairs.extend(step.child.iter().map(|child| ("started", child.to_string())));
    pairs.push(("status", ledger_word(entry.status).to_owned()));
    pairs.push(("attempts", step.attempts.to_string()));
    pairs.extend(entry.result.iter().map(|result| ("result", first_line(result))));
    pairs.extend(entry.error.iter().map(|error| ("error", first_line(error))));
    pairs
}

fn why(fault: &Fault) -> String {
    let parts = [fault.error.as_deref(), fault.cause.as_deref()];
    first_line(&parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": "))
}

/// The part of a text that fits a table.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
