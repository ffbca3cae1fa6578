//! The messages of Jackson, AWS's JSON reader, about a text that is not JSON.
//!
//! Clients show these sentences to people and tests compare them, so they are reproduced here: the expectation of the
//! reader, and the place where it stopped, which is after the mistake.

use crate::json::SyntaxError;
use std::fmt::Write;

/// A mistake in Jackson's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jackson {
    /// The sentence, with its location on a second line.
    pub message: String,
    /// `[Source: (String)"…"; line: 1, column: 4]`
    pub location: String,
}

impl Jackson {
    /// The first mistake in a text; `None` if there is none.
    pub fn of(text: &str) -> Option<Self> {
        explain(text)
    }

    /// The message about a refused text: Jackson's, or ours in its form if Jackson accepts the text.
    pub fn refusal(text: &str, error: &SyntaxError) -> String {
        explain(text).map_or_else(|| format!("{error}\n at {}", quoting(text, error.at)), |said| said.message)
    }
}

/// How much of the text a location quotes.
const QUOTED_MAX: usize = 500;
/// How much of an invalid word is quoted.
const TOKEN_MAX: usize = 256;
const VALUES: &str = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')";

/// The first mistake in `text`; `None` if Jackson finds none.
pub(super) fn explain(text: &str) -> Option<Jackson> {
    let mut reader = Reader { text, at: 0, open: Vec::new(), location: quoting };
    let message = reader.run().err()?;
    let location = quoting(text, reader.at);
    Some(Jackson { message: format!("{message}\n at {location}"), location })
}

/// The same without the place: AWS's form for the input of an execution, where the message for an empty one is
/// `of_nothing`. Mistakes that only we refuse have our own words.
pub fn explain_in_a_sentence(text: &str, error: &SyntaxError, of_nothing: &str) -> String {
    if text.trim().is_empty() {
        return of_nothing.to_owned();
    }
    if explain(text).is_none() {
        return error.to_string();
    }
    let told = explain_data(text, error);
    let ends = ["\n at ", " (start marker at "];
    let end = ends.iter().filter_map(|end| told.find(end)).min().unwrap_or(told.len());
    told[..end].to_owned()
}

/// The message about data that was refused with `error`. AWS reads data with a later Jackson: it does not quote the
/// text, and its place is before the unexpected character.
pub fn explain_data(text: &str, error: &SyntaxError) -> String {
    let mut reader = Reader { text, at: 0, open: Vec::new(), location: redacted };
    let Err(message) = reader.run() else {
        // Jackson accepts deep nesting, numbers beyond a double, and halves of surrogate pairs in names.
        return format!("{error}\n at {}", redacted(text, error.at));
    };
    let mut at = reader.at;
    if message.starts_with("Unexpected character") {
        at -= text[..at].chars().next_back().map_or(0, char::len_utf8);
    }
    format!("{message}\n at {}", redacted(text, at))
}

fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

fn redacted(text: &str, at: usize) -> String {
    let (line, column) = line_and_column(text, at);
    format!(
        "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: {line}, column: {column}]"
    )
}

fn quoting(text: &str, at: usize) -> String {
    let (line, column) = line_and_column(text, at);
    let mut quoted = String::from("[Source: (String)\"");
    let length = text.chars().count();
    quoted.extend(text.chars().take(QUOTED_MAX));
    quoted.push('"');
    if length > QUOTED_MAX {
        let _ = write!(quoted, "[truncated {} chars]", length - QUOTED_MAX);
    }
    let _ = write!(quoted, "; line: {line}, column: {column}]");
    quoted
}

/// An open bracket with its place.
#[derive(Clone, Copy)]
struct Open {
    bracket: char,
    at: usize,
    is_empty: bool,
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    open: Vec<Open>,
    /// Formats a place in the text.
    location: fn(&str, usize) -> String,
}

/// `Err` is the sentence.
type Read = Result<(), String>;

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    /// One value after another: the innermost bracket decides what may come before each.
    fn run(&mut self) -> Read {
        let mut first = true;
        loop {
            self.space();
            let Some(innermost) = self.open.last_mut().map(|open| {
                let before = *open;
                open.is_empty = false;
                before
            }) else {
                // Text after the first value is not read.
                if !first || self.peek().is_none() {
                    return Ok(());
                }
                first = false;
                self.value()?;
                continue;
            };
            if matches!(self.peek(), Some(']' | '}')) {
                self.close(innermost)?;
                continue;
            }
            let (kind, opened) =
                if innermost.bracket == '{' { ("Object", "field name") } else { ("Array", "value") };
            if !innermost.is_empty {
                match self.next() {
                    Some(',') => self.space(),
                    None => return Err(self.ended(innermost, kind)),
                    Some(other) => {
                        return Err(unexpected(
                            other,
                            &format!("was expecting comma to separate {kind} entries"),
                        ));
                    }
                }
            }
            match self.peek() {
                None if innermost.is_empty => return Err(self.ended(innermost, kind)),
                None => return Err(format!("Unexpected end-of-input within/between {kind} entries")),
                Some(_) if opened == "field name" => self.field()?,
                Some(_) => self.value()?,
            }
        }
    }

    fn ended(&self, open: Open, kind: &str) -> String {
        let start = (self.location)(self.text, open.at);
        format!("Unexpected end-of-input: expected close marker for {kind} (start marker at {start})")
    }

    fn close(&mut self, innermost: Open) -> Read {
        let found = self.next().unwrap_or_default();
        let (wanted, kind) = if innermost.bracket == '{' { ('}', "Object") } else { (']', "Array") };
        if found != wanted {
            let start = (self.location)(self.text, innermost.at);
            return Err(format!(
                "Unexpected close marker '{found}': expected '{wanted}' (for {kind} starting at {start})"
            ));
        }
        self.open.pop();
        Ok(())
    }

    fn field(&mut self) -> Read {
        match self.next() {
            Some('"') => self.string("name", "Unexpected end-of-input in field name")?,
            Some(other) => {
                return Err(unexpected(other, "was expecting double-quote to start field name"));
            }
            None => {}
        }
        self.space();
        match self.next() {
            Some(':') => self.space(),
            None => return Err("Unexpected end-of-input within/between Object entries".to_owned()),
            Some(other) => {
                return Err(unexpected(other, "was expecting a colon to separate field name and value"));
            }
        }
        self.value()
    }

    fn value(&mut self) -> Read {
        let start = self.at;
        match self.next() {
            None => Err("Unexpected end-of-input within/between Object entries".to_owned()),
            Some(bracket @ ('{' | '[')) => {
                self.open.push(Open { bracket, at: start, is_empty: true });
                Ok(())
            }
            Some('"') => self.string(
                "string value",
                "Unexpected end-of-input: was expecting closing quote for a string value",
            ),
            Some(digit @ ('-' | '0'..='9')) => self.number(digit),
            Some(letter) if letter.is_alphabetic() || matches!(letter, '_' | '$') => self.word(start),
            Some(other) => Err(unexpected(other, &format!("expected a valid value {VALUES}"))),
        }
    }

    fn word(&mut self, start: usize) -> Read {
        while self.peek().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '$')) {
            self.next();
            if self.text[start..self.at].chars().count() >= TOKEN_MAX {
                let word = &self.text[start..self.at];
                return Err(format!("Unrecognized token '{word}...': was expecting {VALUES}"));
            }
        }
        match &self.text[start..self.at] {
            "null" | "true" | "false" => Ok(()),
            word => Err(format!("Unrecognized token '{word}': was expecting {VALUES}")),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some('0'..='9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self, first: char) -> Read {
        let first = if first == '-' {
            match self.next() {
                Some(digit @ '0'..='9') => digit,
                Some(other) => {
                    return Err(unexpected(
                        other,
                        "expected digit (0-9) to follow minus sign, for valid numeric value",
                    ));
                }
                None => return Err("Unexpected end-of-input".to_owned()),
            }
        } else {
            first
        };
        if first == '0' && matches!(self.peek(), Some('0'..='9')) {
            return Err("Invalid numeric value: Leading zeroes not allowed".to_owned());
        }
        self.digits();
        if self.peek() == Some('.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.no_digit("Decimal point not followed by a digit"));
            }
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.at += 1;
            if matches!(self.peek(), Some('+' | '-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.no_digit("Exponent indicator not followed by a digit"));
            }
        }
        Ok(())
    }

    fn no_digit(&mut self, why: &str) -> String {
        match self.next() {
            Some(other) => unexpected(other, why),
            None => format!("Unexpected end-of-input: {why}"),
        }
    }

    fn string(&mut self, what: &str, ended: &str) -> Read {
        loop {
            match self.next() {
                None => return Err(ended.to_owned()),
                Some('"') => return Ok(()),
                Some('\\') => self.escape()?,
                Some(control @ '\0'..='\u{1f}') => {
                    return Err(format!(
                        "Illegal unquoted character ({}): has to be escaped using backslash to be included in {what}",
                        described(control)
                    ));
                }
                Some(_) => {}
            }
        }
    }

    fn escape(&mut self) -> Read {
        match self.next() {
            Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => Ok(()),
            Some('u') => {
                for _ in 0..4 {
                    match self.next() {
                        Some(digit) if digit.is_ascii_hexdigit() => {}
                        Some(other) => {
                            return Err(unexpected(
                                other,
                                "expected a hex-digit for character escape sequence",
                            ));
                        }
                        None => return Err("Unexpected end-of-input in character escape sequence".to_owned()),
                    }
                }
                Ok(())
            }
            Some(other) => Err(format!("Unrecognized character escape {}", described(other))),
            None => Err("Unexpected end-of-input in character escape sequence".to_owned()),
        }
    }
}

fn unexpected(character: char, why: &str) -> String {
    format!("Unexpected character ({}): {why}", described(character))
}

fn described(character: char) -> String {
    let number = u32::from(character);
    match number {
        0..=0x1f | 0x7f..=0x9f => format!("(CTRL-CHAR, code {number})"),
        0x20..=0xff => format!("'{character}' (code {number})"),
        _ => format!("'{character}' (code {number} / 0x{number:x})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_mistakes_are_told_as_jackson_tells_them() {
        for (text, sentence, column) in [
            (
                "oops",
                "Unrecognized token 'oops': was expecting (JSON String, Number, Array, Object or token 'null', 'true' or 'false')",
                5,
            ),
            (
                "{a:1}",
                "Unexpected character ('a' (code 97)): was expecting double-quote to start field name",
                3,
            ),
            (
                "{\"a\" 1}",
                "Unexpected character ('1' (code 49)): was expecting a colon to separate field name and value",
                7,
            ),
            (
                "{\"a\":1 \"b\":2}",
                "Unexpected character ('\"' (code 34)): was expecting comma to separate Object entries",
                9,
            ),
            (
                "[1 2]",
                "Unexpected character ('2' (code 50)): was expecting comma to separate Array entries",
                5,
            ),
            (
                "[1,]",
                "Unexpected character (']' (code 93)): expected a valid value (JSON String, Number, Array, Object or token 'null', 'true' or 'false')",
                5,
            ),
            (
                "{\"a\":1,}",
                "Unexpected character ('}' (code 125)): was expecting double-quote to start field name",
                9,
            ),
            (
                "[}",
                "Unexpected close marker '}': expected ']' (for Array starting at [Source: (String)\"[}\"; line: 1, column: 1])",
                3,
            ),
            (
                "{",
                "Unexpected end-of-input: expected close marker for Object (start marker at [Source: (String)\"{\"; line: 1, column: 1])",
                2,
            ),
            (
                "[1",
                "Unexpected end-of-input: expected close marker for Array (start marker at [Source: (String)\"[1\"; line: 1, column: 1])",
                3,
            ),
            ("{\"a\":", "Unexpected end-of-input within/between Object entries", 6),
            ("\"open", "Unexpected end-of-input: was expecting closing quote for a string value", 6),
            ("{\"a", "Unexpected end-of-input in field name", 4),
            ("\"\\x\"", "Unrecognized character escape 'x' (code 120)", 4),
            (
                "\"\t\"",
                "Illegal unquoted character ((CTRL-CHAR, code 9)): has to be escaped using backslash to be included in string value",
                3,
            ),
            ("01", "Invalid numeric value: Leading zeroes not allowed", 2),
            (
                "“a”",
                "Unexpected character ('“' (code 8220 / 0x201c)): expected a valid value (JSON String, Number, Array, Object or token 'null', 'true' or 'false')",
                2,
            ),
        ] {
            let told = explain(text).unwrap_or_else(|| panic!("{text}"));
            let location = format!("[Source: (String)\"{text}\"; line: 1, column: {column}]");
            assert_eq!(told.message, format!("{sentence}\n at {location}"), "{text}");
            assert_eq!(told.location, location, "{text}");
        }
    }

    #[test]
    fn what_is_json_is_not_complained_about() {
        for text in
            ["{}", " [1, {\"a\": [null, -0.5e+3]}, \"\\u00e9\"] ", "{\"a\":{\"b\":[]},\"c\":1} trailing", ""]
        {
            assert_eq!(explain(text), None, "{text}");
        }
    }

    #[test]
    fn long_texts_are_quoted_in_part_and_lines_are_counted() {
        let told = explain(&format!("[\n{}, x]", "1".repeat(600))).unwrap();
        assert!(
            told.location.ends_with("1\"[truncated 106 chars]; line: 2, column: 604]"),
            "{}",
            told.location
        );
    }
}
