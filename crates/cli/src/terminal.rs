//! Output for people: colours where they are wanted, and pipes that may close.

use anyhow::{Context, Result};
use std::io::{self, IsTerminal, Write};

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn bold_red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }
}

/// The output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Stdout,
    Stderr,
}

impl Out {
    /// The colours for it: on a terminal, unless `NO_COLOR` is set.
    pub(crate) fn paint(self) -> Paint {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Paint(self.is_lively() && !refused)
    }

    /// Whether it is a terminal on which lines can be redrawn.
    pub(crate) fn is_lively(self) -> bool {
        let is_terminal = match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        };
        is_terminal && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
    }

    /// Writes all of it, at once.
    pub(crate) fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
            Self::Stderr => io::stderr().lock().write_all(bytes),
        }
    }
}

/// The colours for stderr.
pub(crate) fn stderr_paint() -> Paint {
    Out::Stderr.paint()
}

/// Writes to stdout. A closed pipe, as of `head`, is no error.
pub(crate) fn print(bytes: &[u8]) -> Result<()> {
    print_while_read(bytes).map(drop)
}

/// The same for continued output; `false`: the reader is gone.
pub(crate) fn print_while_read(bytes: &[u8]) -> Result<bool> {
    match Out::Stdout.write(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to stdout"),
    }
}

/// Prints a message for people on stderr, beside the answer.
pub(crate) fn tell(text: &str) {
    // If stderr is gone too, there is no place for the message.
    let _ = writeln!(io::stderr(), "{}", harmless(text));
}

/// Prints a question, without a line end.
pub(crate) fn ask(text: &str) {
    let _ = write!(io::stderr(), "{}", harmless(text));
}

/// Prints an error.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{} {}", stderr_paint().bold_red("error:"), harmless(text));
}

/// Text from outside, made safe to print: control characters could move the cursor or change colours.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\nc\u{9b}d é"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d é");
    }
}
