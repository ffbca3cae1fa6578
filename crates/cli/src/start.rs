//! `perdura start`: starts an execution.

use crate::arguments::StartArguments;
use crate::run::input;
use crate::{settings, table, terminal};
use anyhow::{Result, bail};
use perdura_engine::{Labels, Limits};
use perdura_server::control::{Answer, Request};
use std::process::ExitCode;

/// The labels of the command line.
fn labels(pairs: &[(String, String)]) -> Result<Labels> {
    Ok(Labels::new(pairs.iter().map(|(key, value)| (key, value)))?)
}

/// Starts an execution.
pub(crate) fn start(arguments: &StartArguments) -> Result<ExitCode> {
    let request = Request::Start {
        machine: arguments.machine.clone(),
        name: arguments.name.clone(),
        input: input::read(&arguments.input, Limits::GENEROUS.payload_bytes_max)?,
        strict: settings::strict(arguments.strict)?,
        labels: labels(&arguments.labels)?,
        key: arguments.key.clone(),
    };
    let Answer::Started(starting) = arguments.data.reach()?.ask(request)? else {
        bail!("the answer is none to this question");
    };
    if arguments.data.json {
        table::print_json(&starting)?;
        return Ok(ExitCode::SUCCESS);
    }
    terminal::print(format!("{}\n", starting.execution).as_bytes())?;
    terminal::tell(match (starting.fresh, starting.performs) {
        (Some(true) | None, true) => "it runs",
        (Some(false), true) => "it runs already, under this name and with this input",
        (Some(true) | None, false) => "it is recorded, and runs when `perdura serve` is started on this data",
        (Some(false), false) => {
            "it is recorded already, and runs when `perdura serve` is started on this data"
        }
    });
    Ok(ExitCode::SUCCESS)
}
