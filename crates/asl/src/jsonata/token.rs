//! The text of an expression, token by token.

use super::error::{Error, Fallible};
use super::number;
use super::regex::Regex;
use std::sync::Arc;

/// One token.
#[derive(Clone, Debug)]
pub(super) enum Token {
    Name(Arc<str>),
    /// Without its `$`.
    Variable(Arc<str>),
    String(Arc<str>),
    Number(f64),
    Bool(bool),
    Null,
    Regex(Arc<Regex>),
    Operator(&'static str),
    End,
}

impl Token {
    /// Whether it is this operator.
    pub(super) fn is(&self, symbol: &str) -> bool {
        matches!(self, Self::Operator(operator) if *operator == symbol)
    }

    /// As text, for function signatures.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Name(text) | Self::Variable(text) | Self::String(text) => text.to_string(),
            Self::Number(number) => number::display(*number),
            Self::Bool(truth) => truth.to_string(),
            Self::Null => "null".into(),
            Self::Regex(regex) => regex.source().into(),
            Self::Operator(operator) => (*operator).into(),
            Self::End => "(end)".into(),
        }
    }

    /// As JSON, for error messages.
    pub(super) fn json(&self) -> String {
        match self {
            Self::Number(_) | Self::Bool(_) | Self::Null => self.text(),
            Self::Regex(_) => "{}".into(),
            other => crate::json::Value::from(other.text()).to_string(),
        }
    }
}

/// Reads tokens. The context decides whether a slash divides or opens a regular expression.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

const TWO: [&str; 7] = ["..", ":=", "!=", ">=", "<=", "**", "~>"];
const ONE: [&str; 26] = [
    ".", "[", "]", "{", "}", "(", ")", ",", "@", "#", ";", ":", "?", "+", "-", "*", "/", "%", "|", "=", "<",
    ">", "^", "&", "!", "~",
];

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b)
}

fn is_operator(byte: u8) -> bool {
    ONE.iter().any(|symbol| symbol.as_bytes()[0] == byte)
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// The next token and its end. `infix`: a slash divides.
    pub(super) fn token(&mut self, infix: bool) -> Fallible<(Token, usize)> {
        self.skip()?;
        let start = self.at;
        let rest = &self.text[start..];
        if rest.is_empty() {
            return Ok((Token::End, start));
        }
        let byte = self.byte(start);
        let token = if byte == b'/' && !infix {
            self.at += 1;
            self.regex()?
        } else if let Some(symbol) = TWO.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.at += 2;
            Token::Operator(symbol)
        } else if let Some(symbol) = ONE.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.at += 1;
            Token::Operator(symbol)
        } else if byte == b'"' || byte == b'\'' {
            self.string(byte)?
        } else if byte.is_ascii_digit() {
            self.number()?
        } else if byte == b'`' {
            self.quoted()?
        } else {
            self.word()
        };
        Ok((token, self.at))
    }

    /// Passes over space and comments.
    fn skip(&mut self) -> Fallible<()> {
        loop {
            while is_space(self.byte(self.at)) {
                self.at += 1;
            }
            if !self.text[self.at..].starts_with("/*") {
                return Ok(());
            }
            match self.text[self.at + 2..].find("*/") {
                Some(length) => self.at += 2 + length + 2,
                None => return Err(Error::new("S0106").at(self.at)),
            }
        }
    }

    fn regex(&mut self) -> Fallible<Token> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut depth = 0_i32;
        while self.at < bytes.len() {
            let byte = bytes[self.at];
            if byte == b'/' && depth == 0 {
                let escapes = bytes[..self.at].iter().rev().take_while(|byte| **byte == b'\\').count();
                if escapes % 2 == 0 {
                    let pattern = &self.text[start..self.at];
                    if pattern.is_empty() {
                        return Err(Error::new("S0301").at(self.at));
                    }
                    self.at += 1;
                    let flags = self.at;
                    while matches!(self.byte(self.at), b'i' | b'm') {
                        self.at += 1;
                    }
                    let regex = Regex::new(pattern, &self.text[flags..self.at]).map_err(|reason| {
                        Error::plain(format!("Invalid regular expression: /{pattern}/: {reason}")).at(start)
                    })?;
                    return Ok(Token::Regex(Arc::new(regex)));
                }
            }
            if bytes[self.at - 1] != b'\\' {
                match byte {
                    b'(' | b'[' | b'{' => depth += 1,
                    b')' | b']' | b'}' => depth -= 1,
                    _ => {}
                }
            }
            self.at += 1;
        }
        Err(Error::new("S0302").at(self.at))
    }

    fn string(&mut self, quote: u8) -> Fallible<Token> {
        self.at += 1;
        let mut out = String::new();
        let mut piece = self.at;
        loop {
            let byte = self.byte(self.at);
            if self.at >= self.text.len() {
                return Err(Error::new("S0101").at(self.at));
            }
            if byte == quote {
                out.push_str(&self.text[piece..self.at]);
                self.at += 1;
                return Ok(Token::String(out.into()));
            }
            if byte == b'\\' {
                out.push_str(&self.text[piece..self.at]);
                self.escape(&mut out)?;
                piece = self.at;
            } else {
                self.at += 1;
            }
        }
    }

    /// One escape, from its backslash on.
    fn escape(&mut self, out: &mut String) -> Fallible<()> {
        let kind = self.text[self.at + 1..].chars().next();
        let Some(kind) = kind else { return Err(Error::new("S0103").token("").at(self.at + 1)) };
        let plain = match kind {
            '"' | '\\' | '/' => kind,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let unit = self.unit(self.at)?;
                self.at += 6;
                if (0xd800..0xdc00).contains(&unit)
                    && self.text[self.at..].starts_with("\\u")
                    && let Ok(low @ 0xdc00..0xe000) = self.unit(self.at)
                {
                    self.at += 6;
                    let joined = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    out.extend(char::from_u32(joined));
                    return Ok(());
                }
                // Half a surrogate pair is not a character; Rust cannot represent it.
                out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            other => return Err(Error::new("S0103").token(other.to_string()).at(self.at + 1)),
        };
        out.push(plain);
        self.at += 2;
        Ok(())
    }

    /// The four digits of the `\uXXXX` that starts at `at`.
    fn unit(&self, at: usize) -> Fallible<u32> {
        self.text
            .get(at + 2..at + 6)
            .filter(|four| four.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|four| u32::from_str_radix(four, 16).ok())
            .ok_or_else(|| Error::new("S0104").at(at + 1))
    }

    fn number(&mut self) -> Fallible<Token> {
        let start = self.at;
        let digits = |mut at: usize| {
            while self.byte(at).is_ascii_digit() {
                at += 1;
            }
            at
        };
        let mut end = if self.byte(start) == b'0' { start + 1 } else { digits(start) };
        if self.byte(end) == b'.' && self.byte(end + 1).is_ascii_digit() {
            end = digits(end + 1);
        }
        if matches!(self.byte(end), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(end + 1), b'+' | b'-'));
            if self.byte(end + 1 + sign).is_ascii_digit() {
                end = digits(end + 1 + sign);
            }
        }
        let text = &self.text[start..end];
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at = end;
                Ok(Token::Number(number))
            }
            _ => Err(Error::new("S0102").token(text).at(start)),
        }
    }

    fn quoted(&mut self) -> Fallible<Token> {
        let start = self.at + 1;
        match self.text[start..].find('`') {
            Some(length) => {
                self.at = start + length + 1;
                Ok(Token::Name(self.text[start..start + length].into()))
            }
            None => Err(Error::new("S0105").at(self.text.len())),
        }
    }

    fn word(&mut self) -> Token {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| is_space(*byte) || is_operator(*byte)).unwrap_or(rest.len());
        let word = &self.text[self.at..self.at + length];
        self.at += length;
        if let Some(name) = word.strip_prefix('$') {
            return Token::Variable(name.into());
        }
        match word {
            "or" => Token::Operator("or"),
            "in" => Token::Operator("in"),
            "and" => Token::Operator("and"),
            "true" => Token::Bool(true),
            "false" => Token::Bool(false),
            "null" => Token::Null,
            _ => Token::Name(word.into()),
        }
    }
}
