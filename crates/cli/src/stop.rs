//! `perdura stop` and `perdura redrive`: send an input to an execution.

use crate::arguments::{RedriveArguments, StopArguments};
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_server::control::{Answer, Request, Taken};
use std::process::ExitCode;

/// Ends an execution.
pub(crate) fn stop(arguments: &StopArguments) -> Result<ExitCode> {
    let request = Request::Stop {
        execution: arguments.execution.clone(),
        error: arguments.error.clone(),
        cause: arguments.cause.clone(),
    };
    let answer = arguments.data.reach()?.ask(request)?;
    tell_taken(&answer, "stopped", arguments.data.json)
}

/// Runs the unsuccessful part again.
pub(crate) fn redrive(arguments: &RedriveArguments) -> Result<ExitCode> {
    let request = Request::Redrive { execution: arguments.execution.clone() };
    let answer = arguments.data.reach()?.ask(request)?;
    tell_taken(&answer, "redriven", arguments.data.json)
}

/// Prints the result, and whether it changed anything.
pub(crate) fn tell_taken(answer: &Answer, done: &str, json: bool) -> Result<ExitCode> {
    let Answer::Taken(taken) = answer else { bail!("the answer is none to this question") };
    let Taken { execution, ignored, status, performs } = taken;
    if json {
        table::print_json(taken)?;
    } else if ignored.is_none() {
        terminal::print(format!("{execution} is {done}: {}\n", status.name()).as_bytes())?;
        if !performs && status.name() == "RUNNING" {
            terminal::tell("it goes on when `perdura serve` is started on this data");
        }
    }
    let Some(reason) = ignored else { return Ok(ExitCode::SUCCESS) };
    terminal::complain(&format!("{execution} is not {done}: {reason}"));
    Ok(ExitCode::FAILURE)
}
