//! Definitions: parsed from a request, or read from the store.

use crate::sfn::Api;
use crate::sfn::error::{ApiError, Code};
use crate::sfn::requested::Requested;
use perdura_engine::asl::diagnostic::Severity;
use perdura_engine::asl::json::Value;
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{Validating, invalid_definition};
use perdura_runtime::read_definition;
use perdura_store::MachineRecord;
use std::sync::Arc;

/// `ValidateStateMachineDefinition`
pub(in crate::sfn) async fn validate(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let severity =
        if request.text("severity") == Some("WARNING") { Severity::Warning } else { Severity::Error };
    let max_results = request.number("maxResults").and_then(|most| usize::try_from(most).ok()).unwrap_or(0);
    let options = ReadOptions { machine_type: kind(request), strict: api.0.is_strict };
    let validating = Validating { options, severity, max_results };
    let text = request.shared("definition").unwrap_or_default();
    let known = api.0.doubts.clone();
    api.evaluating(move || {
        let doubts = |machine: &Machine| known.as_ref().map_or_else(Vec::new, |doubts| doubts(machine));
        Ok(perdura_engine::validate(&text, validating, doubts).to_api())
    })
    .await
}

/// Parses a definition; its first mistakes are told in AWS's words.
pub(super) async fn definition(
    api: &Api,
    text: Arc<str>,
    kind: MachineType,
) -> Result<(Arc<str>, Arc<Machine>), ApiError> {
    let options = ReadOptions { machine_type: kind, strict: api.0.is_strict };
    // Even a short definition may take long to check.
    api.parsing(move || {
        let source = Source::new("definition", text.clone());
        let reading = read(&source, &options);
        if let Some(machine) = reading.machine {
            return Ok((text, Arc::new(machine)));
        }
        Err(ApiError::new(Code::InvalidDefinition, invalid_definition(&reading.diagnostics, &source)))
    })
    .await
}

/// A stored definition, which was valid when it was stored.
pub(super) fn kept(record: &MachineRecord) -> Result<Arc<Machine>, ApiError> {
    let machine = read_definition(record).map(Arc::new);
    machine.ok_or_else(|| ApiError::unavailable(format!("the definition of {} cannot be read", record.name)))
}

pub(super) fn kind(request: Requested<'_>) -> MachineType {
    if request.text("type") == Some("EXPRESS") { MachineType::Express } else { MachineType::Standard }
}

/// As the API spells it.
pub(super) fn type_name(kind: MachineType) -> &'static str {
    match kind {
        MachineType::Standard => "STANDARD",
        MachineType::Express => "EXPRESS",
    }
}
