//! `perdura audit`: shows who did what, and verifies that no entry was changed.

use crate::arguments::AuditArguments;
use crate::data::Whom;
use crate::definition::plural;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_server::Refusal;
use perdura_server::control::{Answer, AuditEntry, AuditQuestion, Request};
use perdura_store::audit::{AuditResult, Entry, Subject, Verb, Verified};
use perdura_store::{Reader, SqliteReader};
use std::process::ExitCode;

/// How many entries a person sees.
const SHOWN: u32 = 100;
/// How many entries to request at once.
const PAGE: u32 = 1_000;

/// Shows entries, or verifies them all.
pub(crate) fn audit(arguments: &AuditArguments) -> Result<ExitCode> {
    if arguments.verify { verify(arguments) } else { show(arguments) }
}

fn show(arguments: &AuditArguments) -> Result<ExitCode> {
    let json = arguments.data.json;
    let mut left = arguments.limit.unwrap_or(if json { u32::MAX } else { SHOWN });
    let verb = |name: &String| Verb::ALL.into_iter().find(|verb| verb.name() == *name);
    let mut question = AuditQuestion {
        since: arguments.since,
        until: arguments.until,
        who: arguments.who.clone(),
        verb: arguments.verb.as_ref().and_then(verb),
        execution: arguments.execution.clone(),
        machine: arguments.machine.clone(),
        key: arguments.key.clone(),
        oldest_first: json,
        after: None,
        most: left.min(PAGE),
    };
    let mut data = arguments.data.reach()?;
    let mut rows = Vec::new();
    loop {
        let answer = data.ask(Request::Audit(question.clone()))?;
        let Answer::Audit(page) = answer else { bail!("the answer is none to this question") };
        left -= page.items.len() as u32;
        for entry in &page.items {
            if json {
                table::print_json(entry)?;
            } else {
                rows.push(row(entry));
            }
        }
        match page.next {
            Some(place) if left > 0 => question.after = Some(place),
            next => {
                if !json {
                    table::print(&["WHEN", "WHO", "FROM", "VERB", "WHAT", "CHANGE", "RESULT"], &rows)?;
                }
                if next.is_some() {
                    terminal::tell("there are more; ask for more with --limit");
                }
                return Ok(ExitCode::SUCCESS);
            }
        }
        question.most = left.min(PAGE);
    }
}

fn row(AuditEntry { entry, .. }: &AuditEntry) -> Vec<String> {
    let Entry { origin, verb, subject, before, after, result, why, .. } = entry;
    let told = |value: &Option<serde_json::Value>| match value {
        None => "-".to_owned(),
        Some(serde_json::Value::String(word)) => word.clone(),
        // A person sees what changed; `--json` shows everything.
        Some(value) => {
            value.get("revision").map_or_else(|| "…".to_owned(), |revision| format!("revision {revision}"))
        }
    };
    let change = match (before, after) {
        (None, None) => "-".to_owned(),
        (before, after) => format!("{} -> {}", told(before), told(after)),
    };
    let result = match (result, why) {
        (AuditResult::Done, _) => "done".to_owned(),
        (AuditResult::Unchanged, why) => format!("unchanged: {}", why.as_deref().unwrap_or("-")),
        (AuditResult::Refused, why) => format!("refused: {}", why.as_deref().unwrap_or("-")),
    };
    let from = origin.from.as_deref().unwrap_or("-").to_owned();
    let what = what(subject);
    vec![
        origin.at.to_string(),
        origin.principal.to_string(),
        from,
        verb.name().to_owned(),
        what,
        change,
        result,
    ]
}

fn what(subject: &Subject) -> String {
    match subject {
        Subject::Execution { execution, machine: Some(machine) } => format!("{machine}/{execution}"),
        Subject::Execution { execution, machine: None } => execution.to_string(),
        Subject::Executions { executions } => plural(executions.len(), "execution"),
        Subject::MapRun { map_run, .. } => format!("Map Run {map_run}"),
        Subject::Machine { machine } => format!("machine {machine}"),
        Subject::Registered { kind, name } => format!("{kind} {name}"),
        Subject::Key { key } => format!("key {key}"),
        Subject::Audit { chain } => format!("audit {chain}"),
        Subject::Installation => "-".to_owned(),
    }
}

/// Reads the file while a server may use it.
fn verify(arguments: &AuditArguments) -> Result<ExitCode> {
    let json = arguments.data.json;
    let Whom::Folder(folder) = arguments.data.whom()? else {
        bail!("--verify reads the file itself: run it where the data is")
    };
    let mut reader = SqliteReader::open(&folder).map_err(Refusal::from)?;
    let mut told = |rows: u64| {
        if !json {
            terminal::tell(&format!("{rows} rows verified"));
        }
    };
    match reader.verify_audit(&arguments.head, &mut told).map_err(Refusal::from)? {
        Ok(chains) if json => table::print_json(&serde_json::json!({ "chains": chains }))?,
        Ok(chains) => {
            let row = |one: &Verified| {
                let Verified { chain, rows, entries, first, last, head } = one;
                let numbers = [rows, entries, first, last].map(ToString::to_string);
                [vec![chain.to_string()], numbers.to_vec(), vec![head.clone()]].concat()
            };
            let rows: Vec<Vec<String>> = chains.iter().map(row).collect();
            table::print(&["CHAIN", "ROWS", "ENTRIES", "FIRST", "LAST", "HEAD"], &rows)?;
        }
        Err(broken) => {
            if json {
                table::print_json(&serde_json::json!({ "row": broken.row, "broken": broken.what }))?;
            } else {
                terminal::complain(&broken.to_string());
            }
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
