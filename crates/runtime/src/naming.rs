//! What an execution is started with, and how it is called then.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{Arns, ExecutionId, Identity, Labels, Limits};
use perdura_store::{MachineRecord, RevisionId};
use std::sync::Arc;

/// An execution to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// Under which definition; it need not be the one that counts.
    pub revision: RevisionId,
    /// Its name; `None`: its id.
    pub name: Option<Arc<str>>,
    /// Others may have the same name, as with Express: only ids tell them apart.
    pub shares_name: bool,
    pub input: Payload,
    /// Its bounds.
    pub limits: Limits,
    /// How ARNs are made here.
    pub arns: Arns,
    /// What it was started through.
    pub via: Via,
}

impl Start {
    /// Under its id, within generous bounds.
    pub fn new(revision: RevisionId, input: Payload) -> Self {
        Self {
            revision,
            name: None,
            shares_name: false,
            input,
            limits: Limits::GENEROUS,
            arns: Arns::default(),
            via: Via::default(),
        }
    }

    /// The name that no other execution of its machine may have.
    pub(crate) fn own_name(&self) -> Option<&Arc<str>> {
        self.name.as_ref().filter(|_| !self.shares_name)
    }
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
    pub labels: Labels,
    /// The key of the request that all of this began with.
    pub root_key: Option<Arc<str>>,
}

/// What is known when an execution gets its names.
#[derive(Debug)]
pub(crate) struct NamingOf<'a> {
    pub(crate) id: ExecutionId,
    /// Its name, or its id.
    pub(crate) name: Arc<str>,
    /// Its machine.
    pub(crate) record: &'a MachineRecord,
    pub(crate) input: Payload,
    /// Its bounds.
    pub(crate) limits: Limits,
    /// What it was started through.
    pub(crate) via: &'a Via,
}

impl NamingOf<'_> {
    /// Who it is, with ARNs of one partition, region and account.
    pub(crate) fn identity(self, arns: &Arns) -> Identity {
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
            labels: via.labels.clone(),
            root_key: via.root_key.clone(),
            kind: record.kind,
            flow: Machine::TOP,
            input,
            limits,
        }
    }
}
