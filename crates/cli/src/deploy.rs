//! `perdura deploy`: checks and stores a definition, or all definitions of a template.

use crate::arguments::DeployArguments;
use crate::data::Data;
use crate::definition::Definition;
use crate::run::config::Config;
use crate::run::input::machine_name;
use crate::template::{self, Given, Template};
use crate::terminal::{self, stderr_paint};
use crate::{document, table};
use anyhow::{Context, Result, anyhow, bail};
use perdura_asl::machine::MachineType;
use perdura_asl::read::BYTES_MAX;
use perdura_server::control::{Answer, Request};
use std::io::{self, Write};
use std::process::ExitCode;

/// A machine to deploy.
struct Deployment {
    name: String,
    kind: MachineType,
    definition: Definition,
    role: Option<String>,
}

/// Deploys a definition, or the contents of a template.
pub(crate) fn deploy(arguments: &DeployArguments) -> Result<ExitCode> {
    let source = document::read_text(&arguments.file, BYTES_MAX)?;
    let reading = arguments.reading.settled()?;
    let mut data = arguments.data.reach()?;
    let (deployments, activities) = if let Some(template) = template::parse(&source)? {
        let deployments = of_template(arguments, reading.strict, &template, &mut data)?;
        // If stderr is gone too, there is no place for the message.
        let doubled = Definition::of_template(source, template.doubled);
        let _ = write!(io::stderr().lock(), "{}", doubled.render(stderr_paint().0));
        deployments
    } else {
        let kind = reading.machine_type.into();
        let definition = Definition::read(source, kind, reading.strict);
        let name = arguments.name.clone().unwrap_or_else(|| machine_name(&arguments.file));
        (vec![Deployment { name, kind, definition, role: arguments.role.clone() }], Vec::new())
    };
    if !are_right(&deployments) {
        return Ok(ExitCode::FAILURE);
    }
    for name in activities {
        let Answer::Done = data.ask(Request::PutActivity { name: name.clone() })? else {
            bail!("the answer is none to this question");
        };
        if arguments.data.json {
            table::print_json(&serde_json::json!({ "activity": name }))?;
        } else {
            terminal::print(format!("{name} is kept as an activity\n").as_bytes())?;
        }
    }
    for one in deployments {
        keep(arguments, one, &mut data)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The machines and activities of a template.
fn of_template(
    arguments: &DeployArguments,
    strict: bool,
    template: &Template,
    data: &mut Data,
) -> Result<(Vec<Deployment>, Vec<String>)> {
    let given = Given::new(data.arns()?, &arguments.file, arguments.template.values());
    let found = template::read(template, &given, &arguments.file)?;
    if found.machines.is_empty() && found.activities.is_empty() {
        bail!("{} has neither state machines nor activities", arguments.file.display());
    }
    if arguments.name.is_some() && found.machines.len() != 1 {
        let count = found.machines.len();
        bail!("--name is for one machine, and the template has {count}: name them in the template");
    }
    let deployments = found.machines.into_iter().map(|machine| {
        let role = match (&arguments.role, machine.role) {
            (Some(role), _) => Some(role.clone()),
            (None, Ok(role)) => role,
            // Only AWS checks the role, and this server is not AWS.
            (None, Err(_)) if !data.is_elsewhere() => None,
            (None, Err(problem)) => return Err(anyhow!("{problem}, or name a role with --role")),
        };
        let name = arguments.name.clone().unwrap_or(machine.name);
        let definition = Definition::read(machine.definition, machine.kind, strict);
        Ok(Deployment { name, kind: machine.kind, definition, role })
    });
    Ok((deployments.collect::<Result<_>>()?, found.activities))
}

/// Whether all of them are valid; prints the mistakes. A template is deployed completely or not at all.
fn are_right(deployments: &[Deployment]) -> bool {
    let paint = stderr_paint();
    let mut stderr = io::stderr().lock();
    let wrong = deployments.iter().filter(|one| one.definition.reading.machine.is_none());
    let mut are_right = true;
    for Deployment { definition, .. } in wrong {
        are_right = false;
        // If stderr is gone too, there is no place for the message.
        let _ = write!(stderr, "{}", definition.render(paint.0));
        let (name, counts) = (&definition.source.name, definition.counts());
        let _ = writeln!(stderr, "{} {name} cannot be deployed: {counts}", paint.bold_red("error:"));
    }
    are_right
}

fn keep(arguments: &DeployArguments, deployment: Deployment, data: &mut Data) -> Result<()> {
    let Deployment { name, kind, definition, role } = deployment;
    let request = Request::Deploy { machine: name.clone(), kind, definition: definition.json()?, role };
    // A server knows its own configuration. Without a server, the local configuration counts as its own.
    let own = if data.is_served() {
        Vec::new()
    } else {
        definition.doubts(&Config::find(&arguments.calls, &arguments.file)?.settings)
    };
    let answer = data.ask(request).with_context(|| format!("{name} is not deployed"))?;
    let Answer::Deployed(deployed) = answer else { bail!("the answer is none to this question") };
    let doubts = deployed.warnings.clone().map_or(own, |doubts| definition.placed(doubts));
    // The terminal may be gone; the machine is deployed all the same.
    let _ = io::stderr().write_all(definition.render_those(&doubts, stderr_paint().0).as_bytes());
    if arguments.data.json {
        return table::print_json(&deployed);
    }
    let revision = deployed.revision.map(|number| format!(", revision {number}")).unwrap_or_default();
    terminal::print(format!("{} is deployed{revision}\n", deployed.machine).as_bytes())
}
