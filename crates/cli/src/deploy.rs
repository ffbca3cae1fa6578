//! `perdura deploy`: a definition is checked and kept.

use crate::arguments::DeployArguments;
use crate::data::Data;
use crate::definition::Definition;
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
    let source = definition.source;
    // What is kept is JSON, whatever it was written in.
    let text = match source.format() {
        Format::Json => source.text.to_string(),
        Format::Yaml => document::payload(&source)?.to_string(),
    };
    let request = Request::Deploy {
        machine: arguments.name.clone().unwrap_or_else(|| machine_name(&arguments.file)),
        kind: arguments.reading.machine_type.into(),
        definition: text,
    };
    let Answer::Deployed(deployed) = Data::reach(&arguments.data.folder()?)?.ask(request)? else {
        bail!("the answer is none to this question");
    };
    if arguments.data.json {
        table::print_json(&deployed)?;
    } else {
        let text = format!("{} is deployed, revision {}\n", deployed.machine, deployed.revision);
        terminal::print(text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
