//! A diagnostic on a terminal, in the form of rustc.

use super::{Diagnostic, Severity};
use crate::source::{Source, Span};
use std::fmt::Write;

/// How many columns of a long line are shown.
const SHOWN_MAX: usize = 120;
/// How many of them are before the place.
const SHOWN_BEFORE: usize = 40;
/// How wide a tab is shown.
const TAB: &str = "    ";

pub(super) fn render(diagnostic: &Diagnostic, source: &Source, color: bool) -> String {
    let paint = Paint(color);
    let tone = match diagnostic.severity {
        Severity::Error => "1;31",
        Severity::Warning => "1;33",
    };
    let head = format!("{}[{}]", diagnostic.severity.name(), diagnostic.code);
    let mut out = format!(
        "{}{}\n",
        paint.with(tone, &head),
        paint.with("1", &format!(": {}", visible(&diagnostic.message)))
    );
    let last =
        diagnostic.related.iter().map(|related| related.span.start).chain([diagnostic.span.start]).max();
    let width = source.position(last.unwrap_or_default()).line.to_string().len();
    if source.text.is_empty() {
        let _ = writeln!(out, "{} {}", paint.with("1;34", " -->"), source.name);
    } else {
        let arrow = Snippet { source, span: diagnostic.span, width, paint, tone };
        arrow.write("-->", "", &mut out);
        if let Some(related) = &diagnostic.related {
            Snippet { span: related.span, tone: "1;34", ..arrow }.write(":::", &related.label, &mut out);
        }
    }
    if let Some(hint) = &diagnostic.hint {
        let bar = paint.with("1;34", "=");
        let _ = writeln!(out, "{:width$} {bar} {}: {}", "", paint.with("1", "help"), visible(hint));
    }
    out
}

#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn with(self, tone: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{tone}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// One line of the source with the place underlined.
#[derive(Clone, Copy)]
struct Snippet<'a> {
    source: &'a Source,
    span: Span,
    width: usize,
    paint: Paint,
    tone: &'a str,
}

impl Snippet<'_> {
    fn write(self, arrow: &str, label: &str, out: &mut String) {
        let (source, width, paint) = (self.source, self.width, self.paint);
        let start = source.position(self.span.start);
        let line = source.line(start.line);
        let end = self.span.end.saturating_sub(source.line_start(start.line)).min(line.len());
        let underlined =
            line.get(byte_of(line, start.column - 1)..end).map_or(0, |text| text.chars().count());
        let window = Window::around(line, start.column - 1, underlined.max(1));
        let (gutter, bar) = (" ".repeat(width), paint.with("1;34", "|"));
        let number = paint.with("1;34", &format!("{:>width$}", start.line));
        let _ = writeln!(
            out,
            "{gutter}{} {}:{}:{}",
            paint.with("1;34", arrow),
            source.name,
            start.line,
            start.column
        );
        let _ = writeln!(out, "{gutter} {bar}");
        let _ = writeln!(out, "{number} {bar} {}", window.text);
        let carets = "^".repeat(window.underlined.max(1));
        let marks = format!("{carets} {label}");
        let indent = " ".repeat(window.before);
        let _ = writeln!(out, "{gutter} {bar} {indent}{}", paint.with(self.tone, marks.trim_end()));
        let _ = writeln!(out, "{gutter} {bar}");
    }
}

fn byte_of(line: &str, column: usize) -> usize {
    line.char_indices().nth(column).map_or(line.len(), |(byte, _)| byte)
}

/// The shown part of a line, with its underlined part in shown columns.
struct Window {
    text: String,
    before: usize,
    underlined: usize,
}

impl Window {
    fn around(line: &str, column: usize, underlined: usize) -> Self {
        let length = line.chars().take(column + SHOWN_MAX + 1).count();
        let first = if length <= SHOWN_MAX { 0 } else { column.saturating_sub(SHOWN_BEFORE) };
        let cut_before = first > 0;
        let shown = line.chars().skip(first).take(SHOWN_MAX);
        let cut_after = line.chars().nth(first + SHOWN_MAX).is_some();
        let mut window = Self { text: String::new(), before: 0, underlined: 0 };
        if cut_before {
            window.text.push('…');
        }
        for (at, character) in shown.enumerate() {
            let at = first + at;
            let columns_before = window.columns();
            if at == column {
                window.before = columns_before;
            }
            match character {
                '\t' => window.text.push_str(TAB),
                plain => window.text.push(visible_char(plain)),
            }
            if at >= column && at < column + underlined {
                window.underlined += window.columns() - columns_before;
            }
        }
        if first + SHOWN_MAX <= column || line.chars().nth(column).is_none() {
            window.before = window.columns();
        }
        if cut_after {
            window.text.push('…');
        }
        window
    }

    fn columns(&self) -> usize {
        self.text.chars().count()
    }
}

/// Control characters must not reach a terminal.
fn visible_char(character: char) -> char {
    if character.is_control() { '\u{fffd}' } else { character }
}

fn visible(text: &str) -> String {
    text.chars().map(|character| if character == '\n' { '\n' } else { visible_char(character) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::code;

    fn shown(text: &str, span: Span) -> String {
        let source = Source::new("a.json", text);
        Diagnostic::error(code::NO_PATH, "odd").at("/", span).render(&source, false)
    }

    #[test]
    fn a_line_is_shown_with_what_is_meant_underlined() {
        let source = Source::new("a.json", "{\n\t\"Nxt\": 1\n}");
        let mut diagnostic =
            Diagnostic::error(code::SCHEMA_VALIDATION_FAILED, "Field 'Nxt' is not supported")
                .at("/", Span::new(3, 8));
        diagnostic.hint("did you mean `Next`?");
        assert_eq!(
            diagnostic.render(&source, false),
            "error[SCHEMA_VALIDATION_FAILED]: Field 'Nxt' is not supported\n \
             --> a.json:2:2\n  |\n2 |     \"Nxt\": 1\n  |     ^^^^^\n  |\n  = help: did you mean `Next`?\n"
        );
    }

    #[test]
    fn a_second_place_is_shown_too() {
        let source = Source::new("a.json", "{\"A\":1,\n\"A\":2}");
        let mut diagnostic = Diagnostic::error(code::DUPLICATE_FIELD, "twice").at("/", Span::new(8, 11));
        diagnostic.related(Span::new(1, 4), "first here");
        let text = diagnostic.render(&source, false);
        assert!(text.contains(" --> a.json:2:1\n  |\n2 | \"A\":2}\n  | ^^^\n"), "{text}");
        assert!(text.contains(" ::: a.json:1:2\n  |\n1 | {\"A\":1,\n  |  ^^^ first here\n"), "{text}");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("{}WRONG{}", "x".repeat(500), "y".repeat(500));
        let shown = shown(&text, Span::new(500, 505));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[3].chars().count() < 130, "{shown}");
        assert!(lines[3].contains("…xxx") && lines[3].ends_with("yyy…"), "{shown}");
        assert_eq!(lines[3].find("WRONG").map(|byte| byte - 2), lines[4].find('^'), "{shown}");
        assert_eq!(lines[4].matches('^').count(), 5, "{shown}");
    }

    #[test]
    fn a_place_at_the_end_and_a_span_over_lines_have_carets() {
        assert!(shown("ab", Span::new(2, 2)).contains("1 | ab\n  |   ^\n"));
        assert!(shown("a {\n}\n", Span::new(2, 5)).contains("1 | a {\n  |   ^\n"));
        assert!(shown("é\u{7}\n", Span::new(0, 3)).contains("1 | é\u{fffd}\n  | ^^\n"));
    }

    #[test]
    fn colour_is_only_used_where_wanted() {
        let source = Source::new("a.json", "{}");
        let diagnostic = Diagnostic::warning(code::NO_PATH, "odd");
        assert!(diagnostic.render(&source, true).contains("\u{1b}[1;33mwarning[NO_PATH]\u{1b}[0m"));
        assert!(!diagnostic.render(&source, false).contains('\u{1b}'));
    }
}
