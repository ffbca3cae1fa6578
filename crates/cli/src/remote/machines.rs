//! Machines: list, find by name, and deploy.

use super::{Api, Remote, fields, is_not_found, read};
use anyhow::Result;
use perdura_asl::json::Value;
use perdura_asl::machine::MachineType;
use perdura_engine::Arns;
use perdura_server::Refusal;
use perdura_server::control::{Deployed, Doubt};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many names an error message shows.
const NAMES_SHOWN: usize = 10;

/// A machine in the list.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) arn: String,
    pub(super) name: Arc<str>,
    pub(super) is_express: bool,
}

/// All machines, read page by page.
pub(super) struct Machines {
    ahead: VecDeque<Machine>,
    token: Option<String>,
}

impl Machines {
    pub(super) fn next(&mut self, api: &mut impl Api) -> Result<Option<Machine>> {
        while self.ahead.is_empty() && self.token.is_some() {
            *self = page(api, self.token.take())?;
        }
        Ok(self.ahead.pop_front())
    }
}

fn page(api: &mut impl Api, token: Option<String>) -> Result<Machines> {
    let answer = api.call("ListStateMachines", fields([("nextToken", token)]))?;
    let (rows, token) = read::page(&answer, "stateMachines")?;
    let machine = |row: &Value| {
        Ok(Machine {
            arn: read::text(row, "stateMachineArn")?.to_string(),
            name: read::text(row, "name")?,
            is_express: read::kind(row) == MachineType::Express,
        })
    };
    Ok(Machines { ahead: rows.iter().map(machine).collect::<Result<_>>()?, token })
}

impl<A: Api> Remote<A> {
    pub(super) fn machines(&mut self) -> Result<Machines> {
        page(&mut self.api, None)
    }

    /// The ARN of a machine.
    pub(super) fn machine_arn(&mut self, which: &str) -> Result<String> {
        if which.starts_with("arn:") {
            return Ok(which.to_owned());
        }
        let (found, known) = self.named(which)?;
        found.map(|machine| machine.arn).ok_or_else(|| no_such(which, &known).into())
    }

    /// The machine with this name, and the first existing names.
    fn named(&mut self, which: &str) -> Result<(Option<Machine>, Vec<Arc<str>>)> {
        let (mut machines, mut known) = (self.machines()?, Vec::new());
        while let Some(machine) = machines.next(&mut self.api)? {
            if &*machine.name == which {
                return Ok((Some(machine), known));
            }
            if known.len() < NAMES_SHOWN {
                known.push(machine.name);
            }
        }
        Ok((None, known))
    }

    /// Creates a machine, or updates its definition; the same definition changes nothing.
    pub(super) fn deploy(
        &mut self,
        name: &str,
        kind: MachineType,
        definition: &str,
        role: Option<String>,
    ) -> Result<Deployed> {
        let described = match self.named(name)?.0 {
            None => None,
            Some(machine) => self.described(&machine.arn)?,
        };
        let (arn, created_at) = match described {
            None => self.create(name, kind, definition, role)?,
            Some(described) if read::kind(&described) != kind => {
                let there = kind_name(read::kind(&described));
                return Err(Refusal::conflict(format!(
                    "there is a machine {name:?} already, of type {there}"
                ))
                .but(format!(
                    "its type cannot change: add `--type {}`, or choose another --name",
                    there.to_lowercase()
                ))
                .into());
            }
            Some(described) => self.update(&described, definition, role)?,
        };
        let warnings = self.doubts(kind, definition);
        Ok(Deployed {
            machine: name.into(),
            arn: arn.to_string(),
            kind,
            revision: None,
            created_at,
            warnings,
        })
    }

    /// The description of a machine; `None` if it was deleted meanwhile.
    fn described(&mut self, arn: &str) -> Result<Option<Value>> {
        match self.api.call("DescribeStateMachine", fields([("stateMachineArn", Some(arn.to_owned()))])) {
            Ok(described) => Ok(Some(described)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(
        &mut self,
        name: &str,
        kind: MachineType,
        definition: &str,
        role: Option<String>,
    ) -> Result<(Arc<str>, perdura_engine::Timestamp)> {
        // A role is required. perdura accepts any; AWS refuses this one, and the remedy names --role.
        let role = role.map_or_else(|| self.arns().map(|arns| usual_role(&arns)), Ok)?;
        let body = [
            ("name", Some(name.to_owned())),
            ("definition", Some(definition.to_owned())),
            ("roleArn", Some(role)),
            ("type", Some(kind_name(kind).to_owned())),
        ];
        let made = self.api.call("CreateStateMachine", fields(body))?;
        Ok((read::text(&made, "stateMachineArn")?, read::instant(&made, "creationDate")?))
    }

    fn update(
        &mut self,
        described: &Value,
        definition: &str,
        role: Option<String>,
    ) -> Result<(Arc<str>, perdura_engine::Timestamp)> {
        let arn = read::text(described, "stateMachineArn")?;
        let has = |member: &str, wanted: &str| described.get(member).and_then(Value::as_str) == Some(wanted);
        if has("definition", definition) && role.as_deref().is_none_or(|role| has("roleArn", role)) {
            return Ok((arn, read::instant(described, "creationDate")?));
        }
        let body = [
            ("stateMachineArn", Some(arn.to_string())),
            ("definition", Some(definition.to_owned())),
            ("roleArn", role),
        ];
        let changed = self.api.call("UpdateStateMachine", fields(body))?;
        Ok((arn, read::instant(&changed, "updateDate")?))
    }

    /// The server's warnings about an accepted definition; `None` if it does not report them.
    fn doubts(&mut self, kind: MachineType, definition: &str) -> Option<Vec<Doubt>> {
        let body = [
            ("definition", Some(definition.to_owned())),
            ("type", Some(kind_name(kind).to_owned())),
            ("severity", Some("WARNING".to_owned())),
        ];
        // The machine is deployed in any case: other servers may not have this action, and a user who may deploy may
        // lack the permission for it.
        let answer = self.api.call("ValidateStateMachineDefinition", fields(body)).ok()?;
        let found = answer.get("diagnostics").and_then(Value::as_array).unwrap_or_default();
        let member = |diagnostic: &Value, name: &str| {
            read::maybe_text(diagnostic, name).map(|text| text.to_string()).unwrap_or_default()
        };
        let doubt = |diagnostic: &Value| Doubt {
            code: member(diagnostic, "code"),
            message: member(diagnostic, "message"),
            location: member(diagnostic, "location"),
            hint: None,
        };
        Some(found.iter().map(doubt).collect())
    }
}

fn no_such(which: &str, known: &[Arc<str>]) -> Refusal {
    let remedy = match known {
        [] => "there are none yet; `perdura deploy FILE --endpoint URL` keeps one".to_owned(),
        known => format!("there is {}; `perdura deploy FILE --endpoint URL` keeps another", known.join(", ")),
    };
    Refusal::not_found(format!("there is no machine {which:?}")).but(remedy)
}

fn usual_role(arns: &Arns) -> String {
    format!("arn:{}:iam::{}:role/perdura", arns.partition, arns.account)
}

fn kind_name(kind: MachineType) -> &'static str {
    match kind {
        MachineType::Standard => "STANDARD",
        MachineType::Express => "EXPRESS",
    }
}
