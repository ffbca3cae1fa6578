//! `perdura activity`: tasks that wait for a worker.

mod work;

use crate::arguments::{
    ActivityArguments, ActivityCommand, ActivityListArguments, FailArguments, HeartbeatArguments,
    PollArguments, SucceedArguments,
};
use crate::data::Data;
use crate::run::input;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_engine::{Certainty, Limits};
use perdura_server::control::{Answer, Request};
use std::process::ExitCode;

/// The exit code of a poll without a task.
const NO_TASK: u8 = 5;

/// Runs the subcommand.
pub(crate) fn activity(arguments: &ActivityArguments) -> Result<ExitCode> {
    match &arguments.command {
        ActivityCommand::List(arguments) => list(arguments),
        ActivityCommand::Poll(arguments) => poll(arguments),
        ActivityCommand::Succeed(arguments) => succeed(arguments),
        ActivityCommand::Fail(arguments) => fail(arguments),
        ActivityCommand::Heartbeat(arguments) => heartbeat(arguments),
        ActivityCommand::Work(arguments) => work::work(arguments),
    }
}

fn list(arguments: &ActivityListArguments) -> Result<ExitCode> {
    let Answer::Activities(listed) = arguments.data.reach()?.ask(Request::Activities)? else {
        bail!("the answer is none to this question");
    };
    if arguments.data.json {
        table::print_json(&listed)?;
    } else {
        let rows: Vec<Vec<String>> =
            listed.iter().map(|one| vec![one.name.to_string(), one.machines.join(", ")]).collect();
        table::print(&["ACTIVITY", "MACHINES"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn poll(arguments: &PollArguments) -> Result<ExitCode> {
    let request = Request::Poll { activity: arguments.activity.clone(), worker: arguments.worker.clone() };
    let Answer::Task(task) = arguments.data.reach()?.ask(request)? else {
        bail!("the answer is none to this question");
    };
    match task {
        Some(task) if arguments.data.json => table::print_json(&task)?,
        Some(task) => table::print_pairs(&[
            ("token", task.token),
            ("key", task.key.to_string()),
            ("on the wire", task.wire_key),
            ("input", task.input.value().to_string()),
        ])?,
        None => {
            if arguments.data.json {
                table::print_json(&task)?;
            }
            terminal::tell("no task came in time; ask again");
            return Ok(ExitCode::from(NO_TASK));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn succeed(arguments: &SucceedArguments) -> Result<ExitCode> {
    let output = input::read(&arguments.output, Limits::GENEROUS.payload_bytes_max)?;
    let request = Request::Succeed { token: arguments.token.clone(), output };
    done(arguments.data.reach()?, request, arguments.data.json)
}

fn fail(arguments: &FailArguments) -> Result<ExitCode> {
    let request = Request::Fail {
        token: arguments.token.clone(),
        error: arguments.error.clone(),
        cause: arguments.cause.clone(),
        certainty: if arguments.refused { Certainty::Refused } else { Certainty::Ambiguous },
    };
    done(arguments.data.reach()?, request, arguments.data.json)
}

fn heartbeat(arguments: &HeartbeatArguments) -> Result<ExitCode> {
    let request = Request::Heartbeat { token: arguments.token.clone() };
    done(arguments.data.reach()?, request, arguments.data.json)
}

fn done(mut data: Data, request: Request, json: bool) -> Result<ExitCode> {
    let Answer::Done = data.ask(request)? else { bail!("the answer is none to this question") };
    if json {
        table::print_json(&serde_json::json!({ "taken": true }))?;
    } else {
        terminal::print(b"taken\n")?;
    }
    Ok(ExitCode::SUCCESS)
}
