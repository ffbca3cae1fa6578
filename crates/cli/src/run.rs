//! `perdura run`: one execution, from its start to its end, in this process.

mod clock;
pub(crate) mod config;
mod driver;
mod durable;
pub(crate) mod input;
pub(crate) mod lines;
mod mine;
mod mock;
mod outside;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod story;
mod tree;

use crate::arguments::RunArguments;
use crate::definition::{Definition, plural};
use crate::settings::{self, Settings};
use crate::terminal::{self, stderr_paint};
use crate::{REFUSED, duration};
use anyhow::{Context, Result, anyhow, bail};
use clock::Clock;
use config::Config;
use driver::{Driver, Message};
pub(crate) use driver::{Ending, ExecutionNo};
use mock::Mocks;
use outside::Outside;
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::machine::Machine;
use perdura_engine::{Arns, Execution, ExecutionId, Fault, Identity, Limits, Status};
use perdura_server::names;
use progress::Progress;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

/// The exit code of a program that was interrupted twice.
const INTERRUPTED: i32 = 130;

/// Runs a machine, prints its output, and gives the exit code of its status.
pub(crate) fn run(mut arguments: RunArguments) -> Result<ExitCode> {
    settle(&mut arguments)?;
    let arguments = &arguments;
    if arguments.file == Path::new("-") && arguments.input == "@-" {
        bail!("stdin can be the definition or the input, not both: give one of them as a file");
    }
    if let Some(folder) = &arguments.data {
        return durable::run(arguments, folder);
    }
    let Some(machine) = machine(arguments)? else { return Ok(ExitCode::from(REFUSED)) };
    let limits =
        if arguments.reading.strict { Limits::strict(machine.machine_type) } else { Limits::GENEROUS };
    let name = input::machine_name(&arguments.file);
    let input = input::read(&arguments.input, limits.payload_bytes_max)?;
    if let Some(name) = &arguments.name {
        names::check("an execution", name).map_err(|refusal| anyhow!("--name is wrong: {refusal}"))?;
    }
    let config = Config::find(&arguments.calls, &arguments.file)?;
    let mocks = match &arguments.mock {
        Some(mock) => Mocks::open(mock, &machine, &name)?,
        None => Mocks::default(),
    };
    let identity = identity(&machine, &name, arguments.name.as_deref(), input, limits)?;
    let id = identity.id;
    let execution = Execution::new(machine, identity);

    let (sender, inbox) = mpsc::channel();
    listen(sender.clone())?;
    let config_file = config.file_name();
    let outside = Outside::new(config.with_credentials(arguments.reading.strict)?, sender)?;
    let clock = Clock::start(arguments.skip_time);
    let progress = Progress::new(arguments.quiet, clock.now());
    let ending = Driver::new(clock, inbox, outside, mocks, progress, config_file).run(execution)?;
    let manner = Manner { quiet: arguments.quiet, json: arguments.json };
    report(id, &ending, manner)
}

/// What the flags leave open, environment and file decide.
fn settle(arguments: &mut RunArguments) -> Result<()> {
    let mut flags = arguments.calls.flags();
    flags.extend(arguments.reading.strict.then(|| (&settings::STRICT, "true".to_owned())));
    arguments.reading.strict = Settings::load(flags, Some(&arguments.file))?.strict()?;
    Ok(())
}

/// The machine, or all that is wrong with it on stderr.
fn machine(arguments: &RunArguments) -> Result<Option<Arc<Machine>>> {
    let definition = Definition::open(&arguments.file, arguments.reading)?;
    let counts = definition.counts();
    let mut stderr = io::stderr().lock();
    let paint = stderr_paint();
    if definition.reading.machine.is_none() {
        let _ = write!(stderr, "{}", definition.render(paint.0));
        let name = &definition.source.name;
        let _ = writeln!(stderr, "{} {name} cannot be run: {counts}", paint.bold_red("error:"));
    } else if counts.warnings > 0 && !arguments.quiet {
        let _ = writeln!(
            stderr,
            "{} {} in the definition; see `perdura validate {}`",
            paint.bold("hint:"),
            plural(counts.warnings, "warning"),
            arguments.file.display()
        );
    }
    Ok(definition.reading.machine.map(Arc::new))
}

fn identity(
    machine: &Machine,
    machine_name: &str,
    name: Option<&str>,
    input: Payload,
    limits: Limits,
) -> Result<Identity> {
    let id = ExecutionId::from_random(driver::entropy()?);
    let unique = id.to_string();
    let name = name.unwrap_or(&unique);
    let arns = Arns::default();
    Ok(Identity {
        id,
        arn: arns.execution(machine_name, name, machine.machine_type, &unique).into(),
        name: name.into(),
        machine_arn: arns.machine(machine_name).into(),
        machine_name: machine_name.into(),
        role_arn: "arn:aws:iam::123456789012:role/perdura".into(),
        version_arn: None,
        alias_arn: None,
        trace_header: None,
        kind: machine.machine_type,
        flow: Machine::TOP,
        input,
        limits,
    })
}

/// The first signal stops the execution. The second ends the process, should the first not have done it.
fn listen(inbox: Sender<Message>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for (count, _) in signals.forever().enumerate() {
                if count > 0 || inbox.send(Message::Interrupted).is_err() {
                    std::process::exit(INTERRUPTED);
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// How an ending is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Only what went wrong.
    pub(crate) quiet: bool,
    /// For programs.
    pub(crate) json: bool,
}

/// Output to stdout, everything else to stderr; for programs all of it to stdout.
pub(crate) fn report(id: impl std::fmt::Display, ending: &Ending, manner: Manner) -> Result<ExitCode> {
    let paint = stderr_paint();
    let status = ending.status.name();
    let took = match (duration::say(ending.took_ms), ending.skipped_ms) {
        (took, 0) => took,
        (took, skipped) => format!("{took}, of which {} were skipped", duration::say(skipped)),
    };
    let mut stderr = io::stderr().lock();
    if ending.status == Status::Succeeded {
        if !manner.quiet {
            let _ = writeln!(stderr, "{} after {took}", paint.green(status));
        }
    } else {
        let _ = writeln!(stderr, "{} after {took}{}", paint.bold_red(status), why(&ending.fault));
    }
    if manner.json {
        terminal::print(format!("{}\n", to_json(id, ending)).as_bytes())?;
    } else if let (Status::Succeeded, Some(output)) = (ending.status, &ending.output) {
        terminal::print(format!("{}\n", output.value()).as_bytes())?;
    }
    Ok(exit_code(ending.status))
}

/// The exit code of a status.
pub(crate) fn exit_code(status: Status) -> ExitCode {
    ExitCode::from(match status {
        Status::Succeeded => 0,
        Status::Created | Status::Running | Status::Failed => 1,
        Status::TimedOut => 3,
        Status::Aborted => 4,
    })
}

fn to_json(id: impl std::fmt::Display, ending: &Ending) -> Value {
    let mut told = Map::new();
    told.insert("execution", id.to_string());
    told.insert("status", ending.status.name());
    if let Some(output) = &ending.output {
        told.insert("output", output.value().clone());
    }
    for (name, text) in [("error", &ending.fault.error), ("cause", &ending.fault.cause)] {
        if let Some(text) = text {
            told.insert(name, text.clone());
        }
    }
    told.insert("tookMs", ending.took_ms);
    told.into()
}

/// Error and cause in full; a cause of several lines keeps them.
fn why(fault: &Fault) -> String {
    let parts = [fault.error.as_deref(), fault.cause.as_deref()].into_iter().flatten();
    let shown = parts.filter(|part| !part.is_empty()).map(|part| {
        let lines: Vec<String> = part.lines().map(terminal::harmless).collect();
        format!(": {}", lines.join("\n  "))
    });
    shown.collect()
}
