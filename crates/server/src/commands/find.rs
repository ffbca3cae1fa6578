//! The execution that a text means: an id, an ARN, `machine/name`, or a name that only one execution has.

use crate::Refusal;
use crate::data::Data;
use perdura_engine::ExecutionId;
use perdura_store::MachineId;
use std::str::FromStr;
use std::sync::Arc;
use uuid::Uuid;

pub(crate) fn find<D: Data>(data: &mut D, which: &str) -> Result<ExecutionId, Refusal> {
    let (machine, name) = match read(which) {
        Meant::Id(id) => return Ok(id),
        Meant::Name { machine, name } => (machine, name),
    };
    let machines: Vec<(MachineId, Arc<str>)> = data.read(|reader| match machine {
        // A deleted machine still has executions.
        Some(machine) => Ok(reader.machine_id(machine)?.map(|id| (id, machine.into())).into_iter().collect()),
        None => Ok(reader.machines()?.into_iter().map(|record| (record.machine, record.name)).collect()),
    })?;
    let mut found = Vec::new();
    for (machine, of) in machines {
        found.extend(data.named(machine, name)?.map(|id| (of, id)));
    }
    match &found[..] {
        [(_, id)] => Ok(*id),
        [] => {
            Err(Refusal::not_found(format!("there is no execution {which:?}")).but("`perdura ps` lists them"))
        }
        several => {
            let names: Vec<String> = several.iter().map(|(of, _)| format!("{of}/{name}")).collect();
            Err(Refusal::conflict(format!("several executions are called {which:?}"))
                .but(format!("say which one: {}", names.join(", "))))
        }
    }
}

#[derive(Debug, PartialEq)]
enum Meant<'a> {
    Id(ExecutionId),
    Name { machine: Option<&'a str>, name: &'a str },
}

fn read(which: &str) -> Meant<'_> {
    let (machine, name) = if which.starts_with("arn:") {
        // arn:aws:states:REGION:ACCOUNT:execution:MACHINE:NAME, and for an Express one :UNIQUE behind it.
        let parts: Vec<&str> = which.split(':').collect();
        match parts[..] {
            [.., "execution", machine, name] => (Some(machine), name),
            [.., "express", machine, _, unique] => (Some(machine), unique),
            _ => (None, which),
        }
    } else {
        which.split_once('/').map_or((None, which), |(machine, name)| (Some(machine), name))
    };
    match Uuid::from_str(name) {
        Ok(id) => Meant::Id(ExecutionId::from_uuid(id)),
        Err(_) => Meant::Name { machine, name },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_known_by_id_by_arn_and_by_name() {
        let id = "0f0e0d0c-0b0a-4908-8706-050403020100";
        let meant = Meant::Id(ExecutionId::from_uuid(Uuid::from_str(id).unwrap()));
        for (which, expected) in [
            (id.to_owned(), meant),
            ("nightly".into(), Meant::Name { machine: None, name: "nightly" }),
            ("order/A-1".into(), Meant::Name { machine: Some("order"), name: "A-1" }),
            (
                "arn:aws:states:us-east-1:123456789012:execution:order:A-1".into(),
                Meant::Name { machine: Some("order"), name: "A-1" },
            ),
        ] {
            assert_eq!(read(&which), expected, "{which}");
        }
        for arn in ["execution:order:", "express:order:A-1:"] {
            let arn = format!("arn:aws:states:us-east-1:123456789012:{arn}{id}");
            assert!(matches!(read(&arn), Meant::Id(_)), "{arn}");
        }
    }
}
