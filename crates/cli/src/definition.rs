//! Definitions: parses text to a Machine, for every command that needs one.

use crate::arguments::ReadingArguments;
use crate::document;
use anyhow::Result;
use perdura_asl::diagnostic::{Diagnostic, code};
use perdura_asl::machine::{Kind, Machine, MachineType};
use perdura_asl::read::{BYTES_MAX, ReadOptions, Reading, read};
use perdura_asl::source::{Format, Source, Span};
use perdura_server::control::Doubt;
use perdura_tasks::{Settings, warnings};
use std::collections::BTreeMap;
use std::path::Path;

/// A definition with its diagnostics.
pub(crate) struct Definition {
    pub(crate) source: Source,
    pub(crate) reading: Reading,
}

impl Definition {
    /// Reads a file, or stdin if the name is -.
    pub(crate) fn open(path: &Path, arguments: ReadingArguments) -> Result<Self> {
        let source = document::read_text(path, BYTES_MAX)?;
        Ok(Self::read(source, arguments.machine_type.into(), arguments.strict))
    }

    /// Parses a text.
    pub(crate) fn read(source: Source, machine_type: MachineType, strict: bool) -> Self {
        let reading = read(&source, &ReadOptions { machine_type, strict });
        Self { source, reading }
    }

    /// A template with its diagnostics; its definitions are parsed separately.
    pub(crate) fn of_template(source: Source, diagnostics: Vec<Diagnostic>) -> Self {
        Self { source, reading: Reading { machine: None, diagnostics } }
    }

    /// The text to store: JSON, in whatever format it was written.
    pub(crate) fn json(&self) -> Result<String> {
        match self.source.format() {
            Format::Json => Ok(self.source.text.to_string()),
            Format::Yaml => Ok(document::payload(&self.source)?.to_string()),
        }
    }

    /// The states that cannot run under these settings.
    pub(crate) fn doubts(&self, settings: &Settings) -> Vec<Diagnostic> {
        self.reading.machine.as_ref().map_or_else(Vec::new, |machine| warnings(settings, machine))
    }

    /// A server's warnings about it, with their places in this text.
    pub(crate) fn placed(&self, doubts: Vec<Doubt>) -> Vec<Diagnostic> {
        let states = self.reading.machine.iter().flat_map(Machine::states);
        let spans: BTreeMap<String, Span> = states
            .filter_map(|(_, state)| match &state.kind {
                Kind::Task(task) => Some((format!("{}/Resource", state.pointer), task.resource_span)),
                Kind::Pass(_)
                | Kind::Choice(_)
                | Kind::Wait(_)
                | Kind::Succeed
                | Kind::Fail(_)
                | Kind::Parallel(_)
                | Kind::Map(_) => None,
            })
            .collect();
        let placed = doubts.into_iter().map(|Doubt { code, message, location, hint }| {
            let span = spans.get(&location).copied().unwrap_or_default();
            // A server of another version may have codes that are unknown here.
            let code = code::ALL.into_iter().find(|known| *known == code).unwrap_or("WARNING");
            Diagnostic { hint, ..Diagnostic::warning(code, message).at(location, span) }
        });
        placed.collect()
    }

    /// The numbers of errors and warnings.
    pub(crate) fn counts(&self) -> Counts {
        let errors = self.reading.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
        Counts { errors, warnings: self.reading.diagnostics.len() - errors }
    }

    /// All diagnostics as text, each followed by an empty line.
    pub(crate) fn render(&self, color: bool) -> String {
        self.render_those(&self.reading.diagnostics, color)
    }

    /// These diagnostics as text.
    pub(crate) fn render_those(&self, diagnostics: &[Diagnostic], color: bool) -> String {
        let render = |diagnostic: &Diagnostic| diagnostic.render(&self.source, color) + "\n";
        diagnostics.iter().map(render).collect()
    }
}

/// The numbers of errors and warnings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.errors += other.errors;
        self.warnings += other.warnings;
    }
}

/// `2 errors and 1 warning`, `no errors`.
impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.errors {
            0 => formatter.write_str("no errors")?,
            count => formatter.write_str(&plural(count, "error"))?,
        }
        match self.warnings {
            0 => Ok(()),
            count => write!(formatter, " and {}", plural(count, "warning")),
        }
    }
}

/// `1 error`, `2 errors`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_as_a_sentence_would_have_them() {
        for (errors, warnings, expected) in [
            (0, 0, "no errors"),
            (1, 0, "1 error"),
            (2, 1, "2 errors and 1 warning"),
            (0, 3, "no errors and 3 warnings"),
        ] {
            assert_eq!(Counts { errors, warnings }.to_string(), expected);
        }
    }
}
