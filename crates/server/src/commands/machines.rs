//! Definitions.

use crate::control::{Answer, Deployed};
use crate::data::Data;
use crate::{Refusal, names};
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::asl::read::{BYTES_MAX, ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_runtime::card::is_deleting;
use perdura_store::{BLANK, Head, MachineChange, MachineRecord, NewRevision, Revised};
use std::sync::Arc;

/// How often a change is decided again because another change came first.
const TRIES_MAX: usize = 100;

pub(super) fn deleting(name: &str) -> Refusal {
    Refusal::conflict(format!("the machine {name} is being deleted"))
        .but("deploy it again when its executions have ended")
}

/// A definition as it was given.
pub(crate) struct Given {
    pub(crate) name: String,
    pub(crate) kind: MachineType,
    pub(crate) definition: String,
    /// The ARN of its role on AWS.
    pub(crate) role: Option<String>,
}

impl Given {
    fn parsed(&self) -> Result<Machine, Refusal> {
        names::check("a machine", &self.name)?;
        if self.definition.len() > BYTES_MAX {
            return Err(Refusal::invalid(format!(
                "the definition is too large: the most is {BYTES_MAX} bytes"
            )));
        }
        let source = Source::new(&*self.name, &*self.definition);
        let reading = read(&source, &ReadOptions { machine_type: self.kind, strict: false });
        reading.machine.ok_or_else(|| {
            let shown = |diagnostic: &Diagnostic| diagnostic.render(&source, false);
            let errors: Vec<String> =
                reading.diagnostics.iter().filter(|found| found.is_error()).map(shown).collect();
            Refusal::invalid(format!("the definition is wrong:\n{}", errors.concat().trim_end()))
        })
    }
}

/// Deploys, unless the check of what the machine is then refuses that. Returns the machine as this left it, too.
pub(crate) fn deploy<D: Data, E: From<Refusal>>(
    data: &mut D,
    given: &Given,
    check: impl Fn(Option<&Head>) -> Result<(), E>,
) -> Result<(Answer, Head), E> {
    let machine = Arc::new(given.parsed()?);
    let warnings = data.doubts(&machine).map(|doubts| doubts.into_iter().map(Into::into).collect());
    let (head, record) = keep(data, given, &machine, check)?;
    let MachineRecord { name, kind, revision, created_at, .. } = record;
    tracing::info!(machine = %name, revision = revision.0, "deployed");
    let arn = data.arns().machine(&name);
    let revision = Some(revision.0);
    Ok((Answer::Deployed(Deployed { machine: name, arn, kind, revision, created_at, warnings }), head))
}

fn keep<D: Data, E: From<Refusal>>(
    data: &mut D,
    given: &Given,
    machine: &Arc<Machine>,
    check: impl Fn(Option<&Head>) -> Result<(), E>,
) -> Result<(Head, MachineRecord), E> {
    let definition: Arc<str> = given.definition.as_str().into();
    for _ in 0..TRIES_MAX {
        let seen = seen(data, &given.name)?;
        check(seen.as_ref().map(|(head, _)| head))?;
        if seen.as_ref().is_some_and(|(head, _)| is_deleting(head)) {
            return Err(deleting(&given.name).into());
        }
        let present = seen.as_ref().map(|(_, record)| record);
        let new = NewRevision {
            kind: given.kind,
            definition: definition.clone(),
            // A role and settings given through the API stay: a command cannot give settings.
            role_arn: match &given.role {
                Some(role) => Some(role.as_str().into()),
                None => present.and_then(|present| present.role_arn.clone()),
            },
            settings: present.and_then(|present| present.settings.clone()),
            at: data.moment().now,
        };
        let (changed, card) = match seen {
            Some((head, record)) if record.says(&new) => return Ok((head, record)),
            Some((head, _)) => (Some(head.changed), head.card),
            None => (None, BLANK.into()),
        };
        let card = |_| Some(card.clone());
        let name = given.name.as_str().into();
        let change = MachineChange { name, seen: changed, revision: Some(new), card: &card };
        match data.revise(&change, machine.clone())? {
            Revised::Stands(head) => {
                let record = change.revision.map(|new| new.record(&head));
                return Ok((head, record.expect("the change has a definition")));
            }
            Revised::Gone | Revised::Otherwise(_) => {}
        }
    }
    Err(Refusal::conflict(format!("{} is changed by others all the time", given.name)).into())
}

/// A machine and the definition of it that counts.
fn seen<D: Data>(data: &mut D, name: &str) -> Result<Option<(Head, MachineRecord)>, Refusal> {
    Ok(data.read(|reader| {
        let Some(head) = reader.head(name)? else { return Ok(None) };
        Ok(reader.revision(head.revision)?.map(|record| (head, record)))
    })?)
}
