//! `perdura run`: one execution, from its start to its end, in this process.

mod clock;
pub(crate) mod config;
mod driver;
pub(crate) mod input;
pub(crate) mod lines;
mod mock;
mod outside;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod story;
mod telling;
mod tree;

use crate::arguments::RunArguments;
use crate::data::{self, open_store};
use crate::definition::{Definition, plural};
use crate::serve::{connections, listen_for_signals, opener, threads};
use crate::settings::{self, Settings};
use crate::terminal::{self, stderr_paint};
use crate::{REFUSED, duration};
use anyhow::{Result, anyhow, bail};
use clock::Clock;
use config::Config;
use driver::{Driver, Ended};
use mock::Mocks;
use outside::Outside;
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::machine::Machine;
use perdura_engine::{Arns, Fault, Limits, Status, Timestamp};
use perdura_runtime::{Opener, Start, Via};
use perdura_server::{Refusal, names};
use perdura_store::{Catalog, Failure, MemoryStore, NewMachine, Registry, Store};
use perdura_tasks::connection::Connections;
use progress::Progress;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use telling::Telling;

/// The exit code of an execution that the next process will continue.
const LEFT: u8 = 4;
/// How long to wait for calls that were ended with the execution.
const REST: Duration = Duration::from_millis(500);

/// The end of an execution.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) status: Status,
    pub(crate) output: Option<Payload>,
    pub(crate) fault: Fault,
    /// From its start to its end, by its own clock.
    pub(crate) took_ms: i64,
    /// The skipped part of that.
    pub(crate) skipped_ms: i64,
}

/// Runs a machine, prints its output, and gives the exit code of its status.
pub(crate) fn run(mut arguments: RunArguments) -> Result<ExitCode> {
    settle(&mut arguments)?;
    let arguments = &arguments;
    let (file, folder) = (&*arguments.file, arguments.data.as_deref());
    match folder {
        _ if file == Path::new("-") && arguments.input == "@-" => {
            bail!("stdin can be the definition or the input, not both: give one of them as a file");
        }
        Some(_) if file == Path::new("-") => {
            bail!("a definition from stdin cannot be kept: give it as a file");
        }
        _ => {}
    }
    let Some((new, machine)) = definition(file, arguments)? else { return Ok(ExitCode::from(REFUSED)) };
    let mut children = Vec::new();
    for file in &arguments.machine {
        let Some(child) = definition(file, arguments)? else { return Ok(ExitCode::from(REFUSED)) };
        children.push(child);
    }
    let limits =
        if arguments.reading.strict { Limits::strict(machine.machine_type) } else { Limits::GENEROUS };
    let input = input::read(&arguments.input, limits.payload_bytes_max)?;
    if let Some(name) = &arguments.name {
        names::check("an execution", name).map_err(|refusal| anyhow!("--name is wrong: {refusal}"))?;
    }
    let config = Config::find(&arguments.calls, file)?;
    let mocks = match &arguments.mock {
        Some(mock) => Mocks::open(mock, &machine, &new.name)?,
        None => Mocks::default(),
    };
    let signals = listen_for_signals()?;
    let tokio = threads()?;
    let connections = Arc::<Connections>::default();
    let opener = match folder {
        Some(folder) => on_disk(folder, arguments, &connections)?,
        None => in_memory(),
    };
    let tasks = config.tasks(arguments.reading.strict, connections, tokio.handle().clone())?;
    let outside = Outside::new(tasks, &new.name, mocks, (folder.is_some(), config.file_name()));
    let clock = Clock::new(arguments.skip_time);
    let telling = Telling::new(Progress::new(arguments.quiet, clock.moment().now));
    let mut driver = Driver::open(opener, outside, clock, telling)?;
    for (child, machine) in children {
        driver.deploy(child, machine)?;
    }
    let record = driver.deploy(new, machine)?;
    let name: Option<Arc<str>> = arguments.name.as_deref().map(Arc::from);
    driver.take_up(record.machine, name.as_ref())?;
    if let Some(folder) = folder.filter(|_| arguments.skip_time)
        && driver.has_others()?
    {
        let folder = folder.display();
        bail!(
            "other executions run in {folder}, and their time would pass too: give this one another directory"
        );
    }
    let (revision, via) = (record.revision, Via::default());
    let start = Start { revision, name, shares_name: false, input, limits, arns: Arns::default(), via };
    let ended = driver.run(start, &signals);
    driver.close()?;
    tokio.shutdown_timeout(REST);
    match ended? {
        (id, Ended::Yes(ending)) => {
            report(id, &ending, Manner { quiet: arguments.quiet, json: arguments.json })
        }
        (_, Ended::Left) => {
            terminal::tell(if arguments.name.is_some() {
                "left where it is; the same command goes on with it"
            } else {
                "left where it is; `perdura serve` on this data goes on with it"
            });
            Ok(ExitCode::from(LEFT))
        }
    }
}

/// Adds the settings from environment and file to the flags.
fn settle(arguments: &mut RunArguments) -> Result<()> {
    let mut flags = arguments.calls.flags();
    flags.extend(arguments.reading.strict.then(|| (&settings::STRICT, "true".to_owned())));
    arguments.reading.strict = Settings::load(flags, Some(&arguments.file))?.strict()?;
    Ok(())
}

/// A store in memory.
fn in_memory() -> Opener {
    let store = MemoryStore::new(1);
    Box::new(move || -> Result<Box<dyn Store>, Failure> { Ok(Box::new(store.clone())) })
}

/// A store in a directory, with its connections.
fn on_disk(folder: &Path, arguments: &RunArguments, connections: &Arc<Connections>) -> Result<Opener> {
    if data::server(folder)?.is_some() {
        bail!(
            "a server holds {}: use `perdura deploy` and `perdura start`, and it runs there",
            folder.display()
        );
    }
    let store = open_store(folder).map_err(Refusal::from)?;
    let key = Settings::load(arguments.calls.flags(), Some(&arguments.file))?.sealing_key()?;
    let kept = store.reader().and_then(|mut reader| reader.registered(Registry::Connection, None, u32::MAX));
    connections::open(key.as_ref(), connections, kept.map_err(Refusal::from)?);
    Ok(opener(folder, store))
}

/// The definition as stored and as parsed; prints all mistakes to stderr.
fn definition(file: &Path, arguments: &RunArguments) -> Result<Option<(NewMachine, Arc<Machine>)>> {
    let definition = Definition::open(file, arguments.reading)?;
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
            file.display()
        );
    }
    if definition.reading.machine.is_none() {
        return Ok(None);
    }
    let text = definition.json()?;
    let Some(machine) = definition.reading.machine else { return Ok(None) };
    let new = NewMachine {
        name: input::machine_name(file).into(),
        kind: machine.machine_type,
        definition: text.into(),
        role_arn: None,
        settings: None,
        at: Timestamp::default(),
    };
    Ok(Some((new, Arc::new(machine))))
}

/// How to report the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Print only failures.
    pub(crate) quiet: bool,
    /// Print JSON, for programs.
    pub(crate) json: bool,
}

/// Prints the output to stdout, everything else to stderr; for programs everything to stdout.
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
