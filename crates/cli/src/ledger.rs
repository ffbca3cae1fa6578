//! `perdura ledger`: shows the calls by key, and records a person's verdict.

use crate::arguments::{LedgerArguments, LedgerCommand, ResolveArguments};
use crate::run::input;
use crate::stop::tell_taken;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_engine::{LedgerStatus, Limits};
use perdura_server::control::{Answer, LedgerEntry, LedgerQuestion, Request, Resolving, ledger_word};
use std::process::ExitCode;

/// Shows the ledger, or resolves an entry.
pub(crate) fn ledger(arguments: &LedgerArguments) -> Result<ExitCode> {
    if let Some(LedgerCommand::Resolve(resolving)) = &arguments.command {
        return resolve(resolving);
    }
    let status = match (arguments.pending, arguments.uncertain) {
        (true, _) => Some(LedgerStatus::Pending),
        (_, true) => Some(LedgerStatus::Uncertain),
        (false, false) => None,
    };
    let question = LedgerQuestion {
        status,
        stuck: arguments.stuck,
        execution: arguments.execution.clone(),
        key: arguments.key.clone(),
        after: None,
        most: arguments.limit,
    };
    let answer = arguments.data.reach()?.ask(Request::Ledger(question))?;
    let Answer::Ledger(page) = answer else { bail!("the answer is none to this question") };
    print(&page.items, arguments.data.json)?;
    if page.next.is_some() {
        terminal::tell("there are more; ask for more with --limit");
    }
    Ok(ExitCode::SUCCESS)
}

/// Rows of the ledger.
pub(crate) fn print(entries: &[LedgerEntry], json: bool) -> Result<()> {
    if json {
        return table::print_json(&entries);
    }
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    table::print(&["KEY", "STATUS", "SENT", "SETTLED", "ON THE WIRE", "WHAT"], &rows)
}

fn row(entry: &LedgerEntry) -> Vec<String> {
    let settled = entry.completed_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let what = entry.error.as_deref().or(entry.result.as_deref()).unwrap_or("-");
    let what: String = what.lines().next().unwrap_or_default().chars().take(80).collect();
    let sent = entry.started_at.to_string();
    let status = ledger_word(entry.status).to_owned();
    vec![entry.key.to_string(), status, sent, settled, entry.wire_key.clone(), what]
}

fn resolve(arguments: &ResolveArguments) -> Result<ExitCode> {
    let read = |text: &String| input::read(text, Limits::GENEROUS.payload_bytes_max);
    let request = Request::Resolve(Resolving {
        key: arguments.key.clone(),
        completed: arguments.completed.as_ref().map(read).transpose()?,
        failed: arguments.failed.clone().map(|error| (error, arguments.cause.clone())),
        again: arguments.again,
        reason: arguments.reason.clone(),
    });
    let answer = arguments.data.reach()?.ask(request)?;
    tell_taken(&answer, "resolved", arguments.data.json)
}
