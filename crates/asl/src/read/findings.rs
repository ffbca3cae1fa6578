//! Collects diagnostics.

use super::at::At;
use crate::diagnostic::{Diagnostic, code};
use crate::source::Span;

/// How many complaints are listed. AWS lists a hundred.
const LISTED_MAX: usize = 1_000;

/// The order of diagnostics: AWS checks the shape first, then the targets of transitions, then reachability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Shape,
    Targets,
    Ending,
    Reach,
    Variables,
}

#[derive(Debug)]
pub(super) struct Findings {
    listed: Vec<(Stage, Diagnostic)>,
    unlisted: usize,
    /// Takes the hints of diagnostics that are not listed.
    spare: Diagnostic,
    has_errors: bool,
}

impl Findings {
    pub(super) fn new() -> Self {
        let spare = Diagnostic::warning(code::TOO_MANY_DIAGNOSTICS, String::new());
        Self { listed: Vec::new(), unlisted: 0, spare, has_errors: false }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// Whether a hint is worth its time.
    pub(super) fn wants_hints(&self) -> bool {
        self.listed.len() < LISTED_MAX / 10
    }

    pub(super) fn push(&mut self, stage: Stage, diagnostic: Diagnostic) -> &mut Diagnostic {
        self.has_errors |= diagnostic.is_error();
        if self.listed.len() >= LISTED_MAX {
            self.unlisted += 1;
            return &mut self.spare;
        }
        self.listed.push((stage, diagnostic));
        &mut self.listed.last_mut().expect("just pushed").1
    }

    /// Something about the shape of the definition.
    pub(super) fn shape(&mut self, at: &At<'_>, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.error(code::SCHEMA_VALIDATION_FAILED, at, span, message)
    }

    pub(super) fn error(
        &mut self,
        code: &'static str,
        at: &At<'_>,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.push(Stage::Shape, Diagnostic::error(code, message).at(at.pointer(), span))
    }

    pub(super) fn warning(
        &mut self,
        code: &'static str,
        at: &At<'_>,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.push(Stage::Shape, Diagnostic::warning(code, message).at(at.pointer(), span))
    }

    /// All of them: by stage, then in the order of the text.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        self.listed.sort_by_key(|(stage, diagnostic)| (*stage, diagnostic.span));
        let mut all: Vec<Diagnostic> = self.listed.into_iter().map(|(_, diagnostic)| diagnostic).collect();
        if self.unlisted > 0 {
            let message = format!("{} more are not listed", self.unlisted);
            all.push(Diagnostic { message, ..self.spare });
            if let Some(last) = all.last_mut() {
                (last.hint, last.related) = (None, None);
            }
        }
        all
    }
}
