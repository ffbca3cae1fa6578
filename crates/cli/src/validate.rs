//! `perdura validate`: all mistakes in definitions.

use crate::REFUSED;
use crate::arguments::{ReadingArguments, ValidateArguments};
use crate::definition::{Counts, Definition, plural};
use crate::run::config::Config;
use crate::template::{self, Given};
use crate::{document, settings, terminal};
use anyhow::Result;
use perdura_asl::diagnostic::{Diagnostic, code};
use perdura_asl::json::Value;
use perdura_asl::object;
use perdura_asl::read::BYTES_MAX;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Reads each file and prints its mistakes. A file that cannot be read does not hide the others.
pub(crate) fn validate(arguments: &ValidateArguments) -> Result<ExitCode> {
    let reading = arguments.reading.settled()?;
    let paint = terminal::stderr_paint();
    let mut stderr = io::stderr().lock();
    let mut counts = Counts::default();
    let mut unread = 0;
    for path in &arguments.files {
        let definitions = match open(path, arguments, reading) {
            Ok(definitions) => definitions,
            Err(error) => {
                unread += 1;
                let _ = writeln!(stderr, "{} {error:#}", paint.bold_red("error:"));
                continue;
            }
        };
        for definition in &definitions {
            counts += definition.counts();
            if arguments.json {
                terminal::print(format!("{}\n", to_json(definition)).as_bytes())?;
            } else {
                let _ = stderr.write_all(definition.render(paint.0).as_bytes());
            }
        }
    }
    if !arguments.json {
        let _ = writeln!(stderr, "{}", summary(arguments.files.len() - unread, counts, unread));
    }
    Ok(match (unread, counts.errors) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::FAILURE,
        (_, _) => ExitCode::from(REFUSED),
    })
}

/// Reads a file, which may be a template of several machines, and finds the states that cannot run under its
/// configuration. Functions and services are only checked if there is a configuration.
fn open(path: &Path, arguments: &ValidateArguments, reading: ReadingArguments) -> Result<Vec<Definition>> {
    let source = document::read_text(path, BYTES_MAX)?;
    let mut definitions = match template::parse(&source)? {
        None => vec![Definition::read(source, reading.machine_type.into(), reading.strict)],
        Some(document) => {
            let given = Given::new(settings::arns()?, path, arguments.template.values());
            let machines = template::read(&document, &given, path)?.machines.into_iter();
            let machines =
                machines.map(|machine| Definition::read(machine.definition, machine.kind, reading.strict));
            let itself =
                (!document.doubled.is_empty()).then(|| Definition::of_template(source, document.doubled));
            itself.into_iter().chain(machines).collect()
        }
    };
    let config = Config::find(&arguments.calls, path)?;
    let of_configuration = [code::UNCONFIGURED_FUNCTION, code::UNCONFIGURED_SERVICE];
    for definition in &mut definitions {
        let mut doubts = definition.doubts(&config.settings);
        doubts.retain(|doubt| config.file.is_some() || !of_configuration.contains(&doubt.code));
        definition.reading.diagnostics.extend(doubts);
    }
    Ok(definitions)
}

fn summary(files: usize, counts: Counts, unread: usize) -> String {
    let unread = match unread {
        0 => String::new(),
        count => format!(", {} could not be read", plural(count, "file")),
    };
    format!("{} checked: {counts}{unread}", plural(files, "file"))
}

/// AWS's answer to ValidateStateMachineDefinition, with the place added.
fn to_json(definition: &Definition) -> Value {
    let Definition { source, reading } = definition;
    let diagnostic = |diagnostic: &Diagnostic| {
        let mut object = diagnostic.to_json(source).as_object().cloned().unwrap_or_default();
        object.remove("file");
        object.insert("severity", diagnostic.severity.name().to_uppercase());
        Value::from(object)
    };
    object! {
        "file" => source.name.as_str(),
        "result" => if definition.counts().errors > 0 { "FAIL" } else { "OK" },
        "diagnostics" => reading.diagnostics.iter().map(diagnostic).collect::<Value>(),
    }
}
