//! The bottom of a terminal, drawn again and again; finished lines move up and stay.

use crate::terminal::Out;
use rustix::termios::tcgetwinsize;
use std::fmt::Write as _;
use std::io;
use unicode_width::UnicodeWidthChar;

/// The drawn picture, and how many lines to overwrite.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    drawn: usize,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// The size of a terminal, or the traditional one.
    pub(crate) fn of(out: Out) -> Self {
        let size = match out {
            Out::Stdout => tcgetwinsize(io::stdout()),
            Out::Stderr => tcgetwinsize(io::stderr()),
        };
        match size {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: usize::from(size.ws_col), rows: usize::from(size.ws_row) }
            }
            _ => Self { columns: 80, rows: 24 },
        }
    }
}

impl Screen {
    /// The text that writes `above` permanently and shows `below` until the next time.
    fn frame(&mut self, above: &str, below: &[String], columns: usize) -> String {
        let mut out = String::new();
        if self.drawn > 0 {
            // Back to the first column too: a Ctrl-C leaves its mark in the last line.
            let _ = write!(out, "\r\u{1b}[{}A\u{1b}[J", self.drawn);
        }
        out.push_str(above);
        for line in below {
            out.push_str(&cut(line, columns));
            out.push('\n');
        }
        self.drawn = below.len();
        out
    }

    /// Draws. Errors of a closed terminal are ignored.
    pub(crate) fn draw(&mut self, out: Out, above: &str, below: &[String], columns: usize) {
        if above.is_empty() && below.is_empty() && self.drawn == 0 {
            return;
        }
        let frame = self.frame(above, below, columns);
        let _ = out.write(frame.as_bytes());
    }
}

/// The part of a line that fits, without counting colours: a wrapped line could not be overwritten.
fn cut(line: &str, columns: usize) -> String {
    let (mut out, mut used, mut in_escape) = (String::new(), 0, false);
    for char in line.chars() {
        if in_escape || char == '\u{1b}' {
            in_escape = char != 'm';
            out.push(char);
            continue;
        }
        let width = char.width().unwrap_or(0);
        if used + width >= columns {
            out.push_str("\u{1b}[0m");
            break;
        }
        used += width;
        out.push(char);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_stays_and_the_rest_is_overdrawn() {
        let mut screen = Screen::default();
        let lines = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(screen.frame("", &lines(&["a", "b"]), 80), "a\nb\n");
        assert_eq!(screen.frame("done\n", &lines(&["b"]), 80), "\r\u{1b}[2A\u{1b}[Jdone\nb\n");
        assert_eq!(screen.frame("", &[], 80), "\r\u{1b}[1A\u{1b}[J");
        assert_eq!(screen.frame("end\n", &[], 80), "end\n");
    }

    #[test]
    fn a_line_never_wraps() {
        assert_eq!(cut("abcdef", 4), "abc\u{1b}[0m");
        assert_eq!(cut("abc", 4), "abc");
        assert_eq!(cut("\u{1b}[31mab\u{1b}[0mcd", 4), "\u{1b}[31mab\u{1b}[0mc\u{1b}[0m");
        assert_eq!(cut("日本語", 5), "日本\u{1b}[0m");
    }
}
