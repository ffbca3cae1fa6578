//! What an execution is started with, and how it is called then.
//!
//! A machine may be named with a version or an alias. What these mean is known to whoever keeps them: a
//! [`Resolver`] is given to the node for the starts that it makes itself, for steps that start other executions.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{Arns, ExecutionId, Identity, Limits};
use perdura_store::{Head, MachineRecord, RevisionId};
use std::fmt;
use std::sync::Arc;

/// An execution to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// Under which definition; it need not be the one that counts.
    pub revision: RevisionId,
    /// Its name; `None`: its id.
    pub name: Option<Arc<str>>,
    /// Its input.
    pub input: Payload,
    /// Its bounds.
    pub limits: Limits,
    /// The ARNs and the role that it goes by.
    pub naming: Naming,
    /// What it was started through.
    pub via: Via,
}

/// What an execution was started through, beside its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Via {
    /// The version of the machine.
    pub version: Option<u32>,
    /// The alias that led to the version.
    pub alias: Option<Arc<str>>,
    /// What whoever starts it calls the trace that it belongs to.
    pub trace_header: Option<Arc<str>>,
}

/// How an execution is called, from its id.
#[derive(Clone)]
pub struct Naming(pub Arc<dyn Fn(NamingOf<'_>) -> Identity + Send + Sync>);

impl Naming {
    /// With ARNs of one partition, region and account.
    pub fn new(arns: Arns) -> Self {
        Self(Arc::new(move |of| of.identity(&arns)))
    }
}

impl fmt::Debug for Naming {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Naming")
    }
}

/// What is known when an execution gets its names.
#[derive(Debug)]
pub struct NamingOf<'a> {
    /// Its id.
    pub id: ExecutionId,
    /// Its name, or its id.
    pub name: Arc<str>,
    /// Its machine.
    pub record: &'a MachineRecord,
    /// Its input.
    pub input: Payload,
    /// Its bounds.
    pub limits: Limits,
    /// What it was started through.
    pub via: &'a Via,
}

impl NamingOf<'_> {
    /// Who it is, with ARNs of one partition, region and account.
    pub fn identity(self, arns: &Arns) -> Identity {
        let Self { id, name, record, input, limits, via } = self;
        let role_arn = record.role_arn.clone().unwrap_or_else(|| arns.default_role().into());
        Identity {
            id,
            arn: arns.execution(&record.name, &name, record.kind, &id.to_string()).into(),
            name,
            machine_arn: arns.machine(&record.name).into(),
            machine_name: record.name.clone(),
            role_arn,
            version_arn: via.version.map(|version| arns.version(&record.name, version).into()),
            alias_arn: via.alias.as_ref().map(|alias| arns.alias(&record.name, alias).into()),
            trace_header: via.trace_header.clone(),
            kind: record.kind,
            flow: Machine::TOP,
            input,
            limits,
        }
    }
}

/// Says which definition a version or an alias of a machine stands for.
#[derive(Clone)]
pub struct Resolver(pub Arc<dyn Fn(Qualified<'_>) -> Option<Chosen> + Send + Sync>);

impl Default for Resolver {
    /// Nothing has versions or aliases.
    fn default() -> Self {
        Self(Arc::new(|_| None))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Resolver")
    }
}

/// A machine that is named with a version or an alias.
#[derive(Debug)]
pub struct Qualified<'a> {
    /// The machine as it stands.
    pub head: &'a Head,
    /// The version or the alias.
    pub qualifier: &'a str,
    /// The chance that decides where an alias stands for two versions.
    pub chance: u128,
}

/// What a version or an alias stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The definition.
    pub revision: RevisionId,
    /// The version.
    pub version: u32,
    /// The alias, if it was named by one.
    pub alias: Option<Arc<str>>,
}
