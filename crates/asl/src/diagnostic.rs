//! Diagnostics: mistakes in a definition, for people to correct and for programs to sort.
//!
//! Codes, messages and locations are those of AWS's `ValidateStateMachineDefinition` where AWS has them: the same
//! mistake reads the same here and there. In addition there are the place in the text and a hint. `docs/diagnostics.md`
//! explains each code.

pub mod code;
mod jackson;
mod render;

use crate::json::Value;
use crate::object;
use crate::source::{Source, Span};
pub use jackson::Jackson;
pub use jackson::{explain_data, explain_in_a_sentence};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The definition cannot be used.
    Error,
    /// The definition is usable, but probably not as its author meant it.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// A stable name for this kind of complaint, from [`code`].
    pub code: &'static str,
    /// The mistake, in AWS's words where they are known.
    pub message: String,
    /// AWS's location: `/` for the whole, `/States/Pay/Catch[0]/Next`; empty where AWS gives none.
    pub pointer: String,
    /// Where in the text.
    pub span: Span,
    /// The remedy.
    pub hint: Option<String>,
    /// A second place that is part of the mistake, and why.
    pub related: Option<Related>,
}

/// A second place of a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Where.
    pub span: Span,
    /// The label of that place.
    pub label: String,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            pointer: String::new(),
            span: Span::default(),
            hint: None,
            related: None,
        }
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Adds the place.
    pub fn at(mut self, pointer: impl Into<String>, span: Span) -> Self {
        self.pointer = pointer.into();
        self.span = span;
        self
    }

    /// Adds the remedy.
    pub fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a second place.
    pub fn related(&mut self, span: Span, label: impl Into<String>) -> &mut Self {
        self.related = Some(Related { span, label: label.into() });
        self
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// In the form of an `InvalidDefinition`: `CODE: message at /pointer`.
    pub fn aws_message(&self) -> String {
        let location = if self.pointer.is_empty() { "null" } else { &self.pointer };
        format!("{}: {} at {location}", self.code, self.message)
    }

    /// For a terminal, with the line of the text.
    pub fn render(&self, source: &Source, color: bool) -> String {
        render::render(self, source, color)
    }

    /// For programs.
    pub fn to_json(&self, source: &Source) -> Value {
        let (start, end) = (source.position(self.span.start), source.position(self.span.end));
        let location = Some(&self.pointer).filter(|pointer| !pointer.is_empty());
        object! {
            "file" => source.name.as_str(),
            "line" => start.line,
            "column" => start.column,
            "endLine" => end.line,
            "endColumn" => end.column,
            "severity" => self.severity.name(),
            "code" => self.code,
            "message" => self.message.as_str(),
            "location" => location.map_or(Value::Null, |pointer| pointer.as_str().into()),
            "hint" => self.hint.as_ref().map_or(Value::Null, |hint| hint.as_str().into()),
        }
    }

    /// AWS's JSON reader's message; for [`code::INVALID_JSON_DESCRIPTION`] only.
    pub fn jackson(&self, source: &Source) -> Option<Jackson> {
        (self.code == code::INVALID_JSON_DESCRIPTION).then(|| jackson::explain(&source.text)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_speaks_as_aws_does() {
        let missing =
            Diagnostic::error(code::SCHEMA_VALIDATION_FAILED, "These fields are required: [States]")
                .at("/", Span::default());
        assert_eq!(
            missing.aws_message(),
            "SCHEMA_VALIDATION_FAILED: These fields are required: [States] at /"
        );
        let nowhere = Diagnostic::error(code::MISSING_END_STATE, "Workflow has no terminal state");
        assert_eq!(nowhere.aws_message(), "MISSING_END_STATE: Workflow has no terminal state at null");
    }

    #[test]
    fn programs_get_places_and_nulls() {
        let source = Source::new("a.json", "{\n  \"é\": 1\n}");
        let mut diagnostic = Diagnostic::warning(code::NO_PATH, "odd").at("/é", Span::new(4, 8));
        assert_eq!(
            diagnostic.to_json(&source).to_string(),
            r#"{"file":"a.json","line":2,"column":3,"endLine":2,"endColumn":6,"severity":"warning","code":"NO_PATH","message":"odd","location":"/é","hint":null}"#
        );
        diagnostic.pointer.clear();
        diagnostic.hint("mend it");
        let json = diagnostic.to_json(&source);
        assert_eq!(json.get("location"), Some(&Value::Null));
        assert_eq!(json.get("hint"), Some(&Value::from("mend it")));
    }
}
