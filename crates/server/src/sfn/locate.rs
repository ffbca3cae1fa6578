//! From ARNs to machines, executions and Map Runs.

use super::Api;
use super::error::ApiError;
use super::list::labelled;
use crate::fold::{begun, fold_at_rest};
use perdura_engine::{Arn, ArnError, Arns, Execution, ExecutionId, Named};
use perdura_runtime::card::version_number;
use perdura_store::MapRunRow;
use perdura_store::record::Begun;
use std::borrow::Cow;
use uuid::Uuid;

/// What of a machine an ARN names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MachineArn {
    Plain { name: String },
    Version { name: String, number: u32 },
    Alias { name: String, alias: String },
    Labelled { name: String, label: String },
}

impl MachineArn {
    /// Parses an ARN. A machine of another account or region does not exist here.
    pub(super) fn read(arns: &Arns, arn: &str) -> Result<Self, ApiError> {
        let parsed = parse(arn)?;
        let found = Self::of(&parsed.named).ok_or_else(|| wrong_resource(arn))?;
        if parsed.is_of(arns) { Ok(found) } else { Err(ApiError::no_machine(arn)) }
    }

    fn of(named: &Named<'_>) -> Option<Self> {
        match *named {
            Named::Machine { name } => Some(Self::Plain { name: name.to_owned() }),
            Named::Qualified { name, qualifier } => Some(match version_number(qualifier) {
                Some(number) => Self::Version { name: name.to_owned(), number },
                None => Self::Alias { name: name.to_owned(), alias: qualifier.to_owned() },
            }),
            Named::Labelled { name, label } => {
                Some(Self::Labelled { name: name.to_owned(), label: label.to_owned() })
            }
            Named::Execution { .. }
            | Named::Express { .. }
            | Named::MapRun { .. }
            | Named::Activity { .. } => None,
        }
    }

    /// The name of a machine. Where only a machine is meant, one with the name of a version or alias does not exist.
    pub(super) fn plain(arns: &Arns, arn: &str) -> Result<String, ApiError> {
        match Self::read(arns, arn)? {
            Self::Plain { name } => Ok(name),
            Self::Labelled { .. } => Err(labelled()),
            Self::Version { .. } | Self::Alias { .. } => Err(ApiError::no_machine(arn)),
        }
    }

    pub(super) fn qualifier(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Version { number, .. } => Some(number.to_string().into()),
            Self::Alias { alias, .. } => Some(alias.into()),
            Self::Plain { .. } | Self::Labelled { .. } => None,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Plain { name }
            | Self::Version { name, .. }
            | Self::Alias { name, .. }
            | Self::Labelled { name, .. } => name,
        }
    }
}

/// AWS's error for an ARN of the wrong kind.
pub(super) fn wrong_resource(arn: &str) -> ApiError {
    let kind = arn.split(':').nth(5).unwrap_or(arn);
    ApiError::invalid_arn(format!("Resource type not valid in this context: {kind}"))
}

/// Parses an ARN of any account. Each action has its own error for one that is not ours.
pub(super) fn parse(arn: &str) -> Result<Arn<'_>, ApiError> {
    Arn::parse(arn).map_err(|error| match error {
        ArnError::NoArn => ApiError::invalid_arn(format!("Invalid ARN prefix: {arn}")),
        ArnError::OtherService | ArnError::UnknownKind => wrong_resource(arn),
        ArnError::BadName => ApiError::invalid_arn(arn),
    })
}

/// What an ARN names.
enum Found {
    /// An execution that was read to find it.
    Seen(Box<Execution>),
    Named(ExecutionId),
}

/// AWS stores no Express executions but the children of Map Runs.
fn refuse_express(arn: &str) -> Result<(), ApiError> {
    match parse(arn)?.named {
        Named::Express { label: None, .. } => Err(wrong_resource(arn)),
        _ => Ok(()),
    }
}

impl Api {
    /// Whether an ARN is of this partition, region and account.
    pub(super) fn is_ours(&self, arn: &str) -> bool {
        Arn::parse(arn).is_ok_and(|arn| arn.is_of(&self.0.arns))
    }

    /// The Standard execution that an ARN names, or a child of a Map Run.
    pub(super) async fn standard(&self, arn: &str) -> Result<ExecutionId, ApiError> {
        refuse_express(arn)?;
        self.execution(arn).await
    }

    /// The same, as its execution.
    pub(super) async fn standard_seen(&self, arn: &str) -> Result<Execution, ApiError> {
        refuse_express(arn)?;
        match self.found(arn).await? {
            Found::Seen(execution) => Ok(*execution),
            Found::Named(id) => self.seen(id, arn).await,
        }
    }

    /// The execution that an ARN names.
    pub(super) async fn execution(&self, arn: &str) -> Result<ExecutionId, ApiError> {
        // What is stored is found without waiting for a Turn that is being decided.
        if let Some(id) = self.stored(arn).await? {
            return Ok(id);
        }
        Ok(match self.found(arn).await? {
            Found::Seen(execution) => execution.identity().id,
            Found::Named(id) => id,
        })
    }

    /// The execution that an ARN names, if there is a row that says so.
    async fn stored(&self, arn: &str) -> Result<Option<ExecutionId>, ApiError> {
        let Named::Execution { machine, name, .. } = parse(arn)?.named else { return Ok(None) };
        if !self.is_ours(arn) {
            return Ok(None);
        }
        if let Ok(id) = Uuid::parse_str(name).map(ExecutionId::from_uuid)
            && self.begun(id).await?.is_some_and(|begun| *begun.identity.arn == *arn)
        {
            return Ok(Some(id));
        }
        let (machine, name) = (machine.to_owned(), name.to_owned());
        self.read(move |reader| match reader.machine_id(&machine)? {
            Some(machine) => reader.named(machine, &name),
            None => Ok(None),
        })
        .await
    }

    async fn found(&self, arn: &str) -> Result<Found, ApiError> {
        let unknown = || ApiError::no_execution(arn);
        let (machine, name) = match parse(arn)?.named {
            Named::Execution { machine, name, .. } => (machine.to_owned(), name),
            Named::Express { id, .. } => {
                let id = Uuid::parse_str(id).map(ExecutionId::from_uuid).map_err(|_| unknown())?;
                return self.if_it_is(id, arn).await?.ok_or_else(unknown);
            }
            Named::Machine { .. }
            | Named::Qualified { .. }
            | Named::Labelled { .. }
            | Named::MapRun { .. }
            | Named::Activity { .. } => return Err(wrong_resource(arn)),
        };
        if !self.is_ours(arn) {
            return Err(unknown());
        }
        // An execution without a name has its id as name.
        if let Ok(id) = Uuid::parse_str(name)
            && let Some(found) = self.if_it_is(ExecutionId::from_uuid(id), arn).await?
        {
            return Ok(found);
        }
        let id = self.read(move |reader| reader.machine_id(&machine)).await?.ok_or_else(unknown)?;
        let named = self.door().named(id, name.into()).await?;
        named.map(Found::Named).ok_or_else(unknown)
    }

    /// The execution with this id, if it has this ARN.
    async fn if_it_is(&self, id: ExecutionId, arn: &str) -> Result<Option<Found>, ApiError> {
        let seen = self.look_at(id).await?.filter(|execution| *execution.identity().arn == *arn);
        Ok(seen.map(|execution| Found::Seen(Box::new(execution))))
    }

    /// How an execution began, as its first Turn says.
    pub(super) async fn begun(&self, id: ExecutionId) -> Result<Option<Begun>, ApiError> {
        self.reading(move |api| {
            api.door().read(|reader| Ok(begun(reader, id)))?.map_err(ApiError::unavailable)
        })
        .await
    }

    /// The Map Run that a child belongs to.
    pub(super) async fn run_of_child(&self, id: ExecutionId) -> Result<Option<MapRunRow>, ApiError> {
        let Some(child) = self.begun(id).await?.and_then(|begun| begun.child) else { return Ok(None) };
        self.read(move |reader| reader.map_run(child.run)).await
    }

    pub(super) async fn seen(&self, id: ExecutionId, arn: &str) -> Result<Execution, ApiError> {
        self.look_at(id).await?.ok_or_else(|| ApiError::no_execution(arn))
    }

    /// An execution, from memory or from the store.
    async fn look_at(&self, id: ExecutionId) -> Result<Option<Execution>, ApiError> {
        if let Some(view) = self.door().view(id).await {
            return Ok(Some(view.execution));
        }
        let folded = self
            .reading(move |api| {
                api.door().read(|reader| Ok(fold_at_rest(reader, id)))?.map_err(ApiError::unavailable)
            })
            .await?;
        Ok(folded.map(|folded| folded.execution))
    }

    pub(super) async fn map_run(&self, run: Uuid, arn: &str) -> Result<MapRunRow, ApiError> {
        let found = self.door().map_run(run).await?;
        found.filter(|found| *found.arn == *arn).ok_or_else(|| ApiError::no_resource(arn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sfn::Code;

    #[test]
    fn a_machine_of_another_account_region_or_partition_is_not_ours() {
        let arns = Arns::default();
        assert!(MachineArn::read(&arns, &arns.machine("m")).is_ok());
        for foreign in [
            Arns { account: "999999999999".into(), ..Arns::default() },
            Arns { region: "eu-west-1".into(), ..Arns::default() },
            Arns { partition: "aws-cn".into(), ..Arns::default() },
        ] {
            for arn in [foreign.machine("m"), foreign.version("m", 1), foreign.alias("m", "live")] {
                let code = MachineArn::read(&arns, &arn).map_err(|error| error.code);
                assert_eq!(code, Err(Code::StateMachineDoesNotExist), "{arn}");
            }
        }
    }
}
