//! `perdura deploy`: a definition is checked and kept.

use crate::arguments::DeployArguments;
use crate::data::Data;
use crate::definition::Definition;
use crate::run::config::Config;
use crate::run::input::machine_name;
use crate::terminal::{self, stderr_paint};
use crate::{document, table};
use anyhow::{Result, bail};
use perdura_asl::source::Format;
use perdura_server::control::{Answer, Request};
use std::io::{self, Write};
use std::process::ExitCode;

/// Keeps a definition.
pub(crate) fn deploy(arguments: &DeployArguments) -> Result<ExitCode> {
    let definition = Definition::open(&arguments.file, arguments.reading.settled()?)?;
    if definition.reading.machine.is_none() {
        let paint = stderr_paint();
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "{}", definition.render(paint.0));
        let (name, counts) = (&definition.source.name, definition.counts());
        let _ = writeln!(stderr, "{} {name} cannot be deployed: {counts}", paint.bold_red("error:"));
        return Ok(ExitCode::FAILURE);
    }
    let source = &definition.source;
    // What is kept is JSON, whatever it was written in.
    let text = match source.format() {
        Format::Json => source.text.to_string(),
        Format::Yaml => document::payload(source)?.to_string(),
    };
    let request = Request::Deploy {
        machine: arguments.name.clone().unwrap_or_else(|| machine_name(&arguments.file)),
        kind: arguments.reading.machine_type.into(),
        definition: text,
    };
    let mut data = Data::reach(&arguments.data.folder()?)?;
    // A server knows its own configuration. Where there is none, the one that is found here is taken for its own.
    let own = if data.is_served() {
        Vec::new()
    } else {
        definition.doubts(&Config::find(&arguments.calls, &arguments.file)?.settings)
    };
    let Answer::Deployed(deployed) = data.ask(request)? else {
        bail!("the answer is none to this question");
    };
    let doubts = deployed.warnings.clone().map_or(own, |doubts| definition.placed(doubts));
    // The terminal may be gone; the machine is deployed all the same.
    let _ = io::stderr().write_all(definition.render_those(&doubts, stderr_paint().0).as_bytes());
    if arguments.data.json {
        table::print_json(&deployed)?;
    } else {
        let text = format!("{} is deployed, revision {}\n", deployed.machine, deployed.revision);
        terminal::print(text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
