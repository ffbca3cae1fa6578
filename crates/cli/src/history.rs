//! `perdura history`: the events of an execution.

use crate::arguments::HistoryArguments;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_asl::json::{Payload, Value};
use perdura_asl::timestamp::parse_ms;
use perdura_engine::Timestamp;
use perdura_server::control::{Answer, Request};
use std::process::ExitCode;

/// Prints the events.
pub(crate) fn history(arguments: &HistoryArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    let mut rows = Vec::new();
    let mut from = Some(1);
    while let Some(turn) = from {
        let request = Request::History { execution: arguments.execution.clone(), from: turn };
        let Answer::History(page) = data.ask(request)? else { bail!("the answer is none to this question") };
        for event in &page.items {
            if arguments.data.json {
                terminal::print(format!("{event}\n").as_bytes())?;
            } else {
                rows.push(row(event));
            }
        }
        from = page.next;
    }
    if !arguments.data.json {
        table::print(&["ID", "AFTER", "TIME", "TYPE", "WHAT"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The time of an event.
pub(crate) fn at(event: &Value) -> Timestamp {
    let written = event.get("timestamp").and_then(Value::as_str);
    Timestamp(written.and_then(parse_ms).unwrap_or_default())
}

fn row(event: &Payload) -> Vec<String> {
    let event = event.value();
    let number = |name: &str| event.get(name).map(ToString::to_string).unwrap_or_default();
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    vec![number("id"), number("previousEventId"), at(event).to_string(), kind.to_owned(), what(event)]
}

/// The important details of an event: the state, the resource, the fault.
fn what(event: &Value) -> String {
    let Some(map) = event.as_object() else { return String::new() };
    let details = map.iter().find(|(name, _)| name.ends_with("EventDetails")).map(|(_, details)| details);
    let part = |name: &str| details.and_then(|details| details.get(name)).and_then(Value::as_str);
    let index = details.and_then(|details| details.get("index")).map(|index| format!("[{index}]"));
    let told = [part("name"), part("resource"), part("error"), part("cause")];
    let told: Vec<&str> = told.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let line = told.join(": ") + index.as_deref().unwrap_or_default();
    line.lines().next().unwrap_or_default().to_owned()
}
