//! `perdura stats`: counts and sizes of the data.

use crate::arguments::StatsArguments;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_server::control::{Answer, Paused, Request};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Shows the statistics.
pub(crate) fn stats(arguments: &StatsArguments) -> Result<ExitCode> {
    let Answer::Stats(stats) = arguments.data.reach()?.ask(Request::Stats)? else {
        bail!("the answer is none to this question");
    };
    if arguments.data.json {
        table::print_json(&stats)?;
        return Ok(ExitCode::SUCCESS);
    }
    counted("EXECUTIONS", &stats.executions)?;
    counted("LEDGER", &stats.ledger)?;
    counted("SINCE THE BEGINNING", &stats.totals)?;
    let oldest = stats.oldest_pending.map_or_else(|| "none".to_owned(), |at| at.to_string());
    table::print_pairs(&[
        ("oldest pending", oldest),
        ("repeated or answered twice", format!("{:.2} % of all attempts", stats.repeated_share * 100.0)),
        ("bytes on disk", stats.bytes.to_string()),
        ("of them free", stats.free_bytes.to_string()),
        ("paused", paused(&stats.paused)),
        ("held by that", stats.held.to_string()),
    ])?;
    terminal::print(b"\n")?;
    let rows: Vec<Vec<String>> = stats
        .tables
        .iter()
        .map(|table| vec![table.name.clone(), table.rows.to_string(), table.bytes.to_string()])
        .collect();
    table::print(&["TABLE", "ROWS", "BYTES"], &rows)?;
    Ok(ExitCode::SUCCESS)
}

fn paused(paused: &[Paused]) -> String {
    let names: Vec<&str> =
        paused.iter().map(|one| one.machine.as_deref().unwrap_or("all machines")).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn counted(head: &str, counts: &BTreeMap<String, u64>) -> Result<()> {
    let rows: Vec<Vec<String>> =
        counts.iter().map(|(name, count)| vec![name.replace('_', " "), count.to_string()]).collect();
    table::print(&[head, "COUNT"], &rows)?;
    terminal::print(b"\n")
}
