//! Definitions.

use crate::control::{Answer, Deployed};
use crate::data::Data;
use crate::{Refusal, names};
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::read::{BYTES_MAX, ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_runtime::card::is_deleting;
use perdura_store::{MachineRecord, NewMachine};
use std::sync::Arc;

pub(super) fn deleting(name: &str) -> Refusal {
    Refusal::conflict(format!("the machine {name} is being deleted"))
        .but("deploy it again when its executions have ended")
}

pub(super) fn deploy<D: Data>(
    data: &mut D,
    name: &str,
    kind: MachineType,
    definition: String,
    role: Option<&str>,
) -> Result<Answer, Refusal> {
    names::check("a machine", name)?;
    if definition.len() > BYTES_MAX {
        return Err(Refusal::invalid(format!("the definition is too large: the most is {BYTES_MAX} bytes")));
    }
    let definition: Arc<str> = definition.into();
    let source = Source::new(name, definition.clone());
    let reading = read(&source, &ReadOptions { machine_type: kind, strict: false });
    let Some(machine) = reading.machine else {
        let shown = |diagnostic: &Diagnostic| diagnostic.render(&source, false);
        let errors: Vec<String> =
            reading.diagnostics.iter().filter(|found| found.is_error()).map(shown).collect();
        return Err(Refusal::invalid(format!("the definition is wrong:\n{}", errors.concat().trim_end())));
    };
    let warnings = data.doubts(&machine).map(|doubts| doubts.into_iter().map(Into::into).collect());
    // A role and settings given through the API stay: a command cannot give settings.
    let (head, present) = data.read(|reader| Ok((reader.head(name)?, reader.machine(name)?)))?;
    if head.is_some_and(|head| is_deleting(&head)) {
        return Err(deleting(name));
    }
    let (present_role, settings) =
        present.map_or((None, None), |present| (present.role_arn, present.settings));
    let role_arn = role.map(Arc::from).or(present_role);
    let new = NewMachine { name: name.into(), kind, definition, role_arn, settings, at: data.moment().now };
    let MachineRecord { name, kind, revision, created_at, .. } = data.deploy(&new, Arc::new(machine))?;
    tracing::info!(machine = %name, revision = revision.0, "deployed");
    let arn = data.arns().machine(&name);
    let revision = Some(revision.0);
    Ok(Answer::Deployed(Deployed { machine: name, arn, kind, revision, created_at, warnings }))
}
