//! `ValidateStateMachineDefinition`: the mistakes in a definition, in AWS's form.

use perdura_asl::diagnostic::{Diagnostic, Severity};
use perdura_asl::json::{Map, Value};
use perdura_asl::machine::Machine;
use perdura_asl::object;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::source::Source;

/// The most complaints in one answer, and the default.
const RESULTS_MAX: usize = 100;

/// The result of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// Whether a machine can be made of it.
    pub is_valid: bool,
    /// The mistakes.
    pub diagnostics: Vec<Complaint>,
    /// There are more.
    pub is_truncated: bool,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Whether it prevents the machine.
    pub severity: Severity,
    /// AWS's code for it, or ours if AWS has none.
    pub code: &'static str,
    /// The message, for people.
    pub message: String,
    /// The location, such as `/States/Pay/Next`.
    pub location: Option<String>,
}

/// The settings of a validation.
#[derive(Clone, Copy, Debug)]
pub struct Validating {
    /// The kind of machines, and the limits.
    pub options: ReadOptions,
    /// The least severity to report.
    pub severity: Severity,
    /// The most complaints; 0: the default, up to a hundred.
    pub max_results: usize,
}

/// Validates a definition. `doubts` are warnings about a machine that is valid, but cannot run here.
pub fn validate(
    definition: &str,
    validating: Validating,
    doubts: impl Fn(&Machine) -> Vec<Diagnostic>,
) -> Validation {
    let Validating { options, severity, max_results } = validating;
    let source = Source::new("definition", definition);
    let reading = read(&source, &options);
    let most = if max_results == 0 { RESULTS_MAX } else { max_results.min(RESULTS_MAX) };
    let doubts = reading.machine.as_ref().map(doubts).unwrap_or_default();
    let mut diagnostics: Vec<Complaint> = reading
        .diagnostics
        .iter()
        .chain(&doubts)
        .filter(|diagnostic| diagnostic.severity <= severity)
        .map(|diagnostic| Complaint::of(diagnostic, &source))
        .collect();
    let is_truncated = diagnostics.len() > most;
    diagnostics.truncate(most);
    Validation { is_valid: !reading.has_errors(), diagnostics, is_truncated }
}

/// Why a definition is refused, in the form of `InvalidDefinition`.
pub fn invalid_definition(diagnostics: &[Diagnostic], source: &Source) -> String {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    let words: Vec<String> = errors
        .map(|diagnostic| match diagnostic.jackson(source) {
            Some(said) => format!("{}: {}", diagnostic.code, said.message),
            None => diagnostic.aws_message(),
        })
        .collect();
    format!("Invalid State Machine Definition: '{}'", words.join(", "))
}

impl Complaint {
    fn of(diagnostic: &Diagnostic, source: &Source) -> Self {
        let Diagnostic { severity, code, message, pointer, .. } = diagnostic.clone();
        let (message, location) = match diagnostic.jackson(source) {
            Some(said) => (said.message, Some(said.location)),
            None => (message, Some(pointer).filter(|pointer| !pointer.is_empty())),
        };
        Self { severity, code, message, location }
    }

    fn to_api(&self) -> Value {
        let mut shown = Map::new();
        shown.insert(
            "severity",
            match self.severity {
                Severity::Error => "ERROR",
                Severity::Warning => "WARNING",
            },
        );
        shown.insert("code", self.code);
        shown.insert("message", self.message.clone());
        if let Some(location) = &self.location {
            shown.insert("location", location.clone());
        }
        shown.into()
    }
}

impl Validation {
    /// The answer of the API action.
    pub fn to_api(&self) -> Value {
        object! {
            "result" => if self.is_valid { "OK" } else { "FAIL" },
            "diagnostics" => self.diagnostics.iter().map(Complaint::to_api).collect::<Value>(),
            "truncated" => self.is_truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_asl::machine::MachineType;

    fn found(definition: &str, severity: Severity, max_results: usize) -> Validation {
        of_kind(MachineType::Standard, definition, severity, max_results)
    }

    fn of_kind(
        machine_type: MachineType,
        definition: &str,
        severity: Severity,
        max_results: usize,
    ) -> Validation {
        let options = ReadOptions { machine_type, strict: true };
        validate(definition, Validating { options, severity, max_results }, |_| Vec::new())
    }

    const DOUBTFUL: &str = r#"{"StartAt": "A", "States": {
        "A": {"Type": "Pass", "Parameters": {"x": "$.y"}, "Result": "$.z", "End": true}}}"#;
    const BROKEN: &str = r#"{"StartAt": "A", "States": {
        "A": {"Type": "Pass", "Next": "B"}, "C": {"Type": "Nothing"}, "D": {"Type": "Wait", "End": true}}}"#;

    #[test]
    fn warnings_are_told_on_demand_and_keep_no_machine_from_being_made() {
        let silent = found(DOUBTFUL, Severity::Error, 0);
        assert_eq!(silent, Validation { is_valid: true, diagnostics: Vec::new(), is_truncated: false });
        let told = found(DOUBTFUL, Severity::Warning, 0);
        assert!(told.is_valid && !told.diagnostics.is_empty());
        assert!(told.diagnostics.iter().all(|complaint| complaint.severity == Severity::Warning));
        assert_eq!(told.to_api().get("result").and_then(Value::as_str), Some("OK"));
    }

    #[test]
    fn no_more_is_told_than_was_asked_for() {
        let all = found(BROKEN, Severity::Error, 0);
        assert!(!all.is_valid && !all.is_truncated && all.diagnostics.len() > 2);
        let some = found(BROKEN, Severity::Error, 2);
        assert!(!some.is_valid && some.is_truncated);
        assert_eq!(some.diagnostics, all.diagnostics[..2]);
        let count = all.diagnostics.len();
        assert!(!found(BROKEN, Severity::Error, count).is_truncated);
    }

    #[test]
    fn what_only_standard_machines_can_do_is_told_for_express() {
        let activity = r#"{"StartAt": "A", "States": {"A": {"Type": "Task", "End": true,
            "Resource": "arn:aws:states:us-east-1:123456789012:activity:dig"}}}"#;
        assert!(found(activity, Severity::Error, 0).is_valid);
        let express = of_kind(MachineType::Express, activity, Severity::Error, 0);
        let complaint = &express.diagnostics[0];
        assert_eq!(complaint.message, "Express state machine does not support Activity ARN");
        assert_eq!(complaint.location.as_deref(), Some("/States/A/Resource"));
    }
}
