//! `perdura ps`: executions, the newest first.

use crate::arguments::{PsArguments, SortArgument, StatusArgument};
use crate::{duration, pause, table};
use anyhow::{Result, bail};
use perdura_engine::Status;
use perdura_server::control::{Answer, ListQuestion, Listed, Order, Request};
use std::process::ExitCode;

/// How many executions to request at once.
const PAGE: usize = 1_000;

impl From<StatusArgument> for Status {
    fn from(argument: StatusArgument) -> Self {
        match argument {
            StatusArgument::Running => Self::Running,
            StatusArgument::Succeeded => Self::Succeeded,
            StatusArgument::Failed => Self::Failed,
            StatusArgument::Aborted => Self::Aborted,
            StatusArgument::TimedOut => Self::TimedOut,
        }
    }
}

/// Lists executions.
pub(crate) fn ps(arguments: &PsArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    // A merged list of several machines cannot be continued, so it is requested as a whole.
    let page = if data.is_elsewhere() { u32::MAX as usize } else { PAGE };
    let (mut question, mut rows) = (question(arguments), Vec::new());
    while rows.len() < arguments.limit {
        question.most = (arguments.limit - rows.len()).min(page) as u32;
        let Answer::Executions(page) = data.ask(Request::List(question.clone()))? else {
            bail!("the answer is none to this question")
        };
        rows.extend(page.items);
        question.after = page.next;
        if question.after.is_none() {
            break;
        }
    }
    if arguments.data.json {
        table::print_json(&rows)?;
    } else {
        let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
        pause::note(&mut data, arguments.data.json);
        table::print(&["EXECUTION", "MACHINE", "NAME", "STATUS", "STARTED", "TOOK", "LABELS"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn question(arguments: &PsArguments) -> ListQuestion {
    ListQuestion {
        machine: arguments.machine.clone(),
        status: arguments.status.map(Status::from),
        label: arguments.label.as_ref().map(|(key, value)| format!("{key}:{value}")),
        name_prefix: arguments.name_prefix.clone(),
        error: arguments.error.clone(),
        since: arguments.since,
        until: arguments.until,
        sort: match arguments.sort {
            SortArgument::Start => Order::Start,
            SortArgument::End => Order::End,
        },
        ..ListQuestion::default()
    }
}

fn row(listed: &Listed) -> Vec<String> {
    let id = listed.execution.to_string();
    let name = if *listed.name == id { "-".to_owned() } else { listed.name.to_string() };
    let took = listed.ended_at.map_or_else(|| "-".to_owned(), |at| duration::say(at.0 - listed.started_at.0));
    let machine = listed.machine.to_string();
    let labels = table::labels(&listed.labels);
    let erased = if listed.erased_at.is_some() { ", erased" } else { "" };
    let status = format!("{}{erased}", listed.status.name());
    vec![id, machine, name, status, listed.started_at.to_string(), took, labels]
}
