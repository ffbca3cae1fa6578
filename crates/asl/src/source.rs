//! A definition's text, and places in it.
//!
//! Every parsed part keeps its range of bytes, so that a diagnostic can show the line. Lines are counted on demand,
//! once; then every lookup is a search.

use std::sync::{Arc, OnceLock};

/// A range of bytes in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// From the first byte to the one after the last.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

impl From<std::ops::Range<usize>> for Span {
    fn from(range: std::ops::Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A position for people: both from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    /// Which character of the line.
    pub column: usize,
}

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 8259.
    Json,
    /// YAML 1.2, core schema.
    Yaml,
}

/// A text and its name.
#[derive(Debug)]
pub struct Source {
    /// A file name, or a substitute for one.
    pub name: String,
    pub text: Arc<str>,
    line_starts: OnceLock<Vec<usize>>,
}

impl Source {
    /// A text under a name; the suffix `.yaml`, `.yml` or `.json` sets its format.
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into(), line_starts: OnceLock::new() }
    }

    /// Its format: by its name, or else by its beginning.
    pub fn format(&self) -> Format {
        let ending = self.name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        match ending.as_deref() {
            Some("yaml" | "yml") => Format::Yaml,
            Some("json") => Format::Json,
            _ if looks_like_yaml(&self.text) => Format::Yaml,
            _ => Format::Json,
        }
    }

    fn line_starts(&self) -> &[usize] {
        self.line_starts.get_or_init(|| {
            let bytes = self.text.as_bytes();
            let ends = bytes.iter().enumerate().filter(|(at, byte)| match byte {
                b'\n' => true,
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            });
            std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
        })
    }

    /// The line and column of a byte; of the end, for a byte beyond it.
    pub fn position(&self, byte: usize) -> Position {
        let byte = self.text.floor_char_boundary(byte);
        let line = self.line_starts().partition_point(|start| *start <= byte);
        let column = self.text[self.line_starts()[line - 1]..byte].chars().count() + 1;
        Position { line, column }
    }

    /// A line by its number from 1, without its end; empty where there is none.
    pub fn line(&self, number: usize) -> &str {
        let starts = self.line_starts();
        let Some(start) = number.checked_sub(1).and_then(|at| starts.get(at)) else { return "" };
        let end = starts.get(number).copied().unwrap_or(self.text.len());
        self.text[*start..end].trim_end_matches(['\n', '\r'])
    }

    /// The first byte of a line by its number from 1.
    pub fn line_start(&self, number: usize) -> usize {
        let starts = self.line_starts();
        number.checked_sub(1).and_then(|at| starts.get(at)).copied().unwrap_or(self.text.len())
    }

    /// The text of a span.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }
}

/// A comment, a document marker, or a first line such as `StartAt: Ship`. Any other text counts as JSON, so that a text
/// in neither format gets the message of a JSON reader, as on AWS.
pub(crate) fn looks_like_yaml(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with("---") || text.starts_with(['#', '%']) {
        return true;
    }
    let first = text.lines().next().unwrap_or_default();
    let name_end = first.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(first.len());
    let rest = &first[name_end..];
    name_end > 0 && (rest == ":" || rest.starts_with(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = Source::new("a", "ab\r\ncé😀d\rlast\n");
        for (byte, line, column) in [(0, 1, 1), (2, 1, 3), (4, 2, 1), (7, 2, 3), (11, 2, 4), (13, 3, 1)] {
            assert_eq!(source.position(byte), Position { line, column }, "byte {byte}");
        }
        assert_eq!(source.position(6), source.position(5), "inside a character is its start");
        assert_eq!(source.position(usize::MAX), Position { line: 4, column: 1 });
        let lines: Vec<&str> = (0..=5).map(|number| source.line(number)).collect();
        assert_eq!(lines, ["", "ab", "cé😀d", "last", "", ""]);
    }

    #[test]
    fn the_format_follows_the_name_and_then_the_beginning() {
        for (name, text, format) in [
            ("a.yaml", "{}", Format::Yaml),
            ("a.YML", "", Format::Yaml),
            ("a.json", "StartAt: A", Format::Json),
            ("a", "  {\"StartAt\": 1}", Format::Json),
            ("a.asl", "StartAt: A\nStates:", Format::Yaml),
            ("-", "# a comment\n{}", Format::Yaml),
            ("-", "---\n{}", Format::Yaml),
            ("-", "not a definition", Format::Json),
            ("-", "", Format::Json),
        ] {
            assert_eq!(Source::new(name, text).format(), format, "{name} {text:?}");
        }
    }
}
