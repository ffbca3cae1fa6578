//! Text to [`Value`].

use super::{Lexer, Map, Number, SyntaxError, Token, Value};

/// How deep a document may nest. Deeper ones are refused, so that walking one can never exhaust the stack.
pub const DEPTH_MAX: usize = 256;

/// Parses one JSON document. Of two members with one name the last counts, as in most readers. Half of a surrogate pair
/// is not a character: in a string it is read as U+FFFD, and a name that has one is refused.
pub fn parse(text: &str) -> Result<Value, SyntaxError> {
    parse_from_outside(text).map(|read| read.value)
}

/// The same, as JavaScript's `JSON.parse` followed by `JSON.stringify`: zero has no sign.
pub(crate) fn parse_without_signed_zeros(text: &str) -> Result<Value, SyntaxError> {
    read(Lexer::new(text), Reading { keeps_signed_zeros: false, ..STRICT }).map(|read| read.value)
}

/// Parses one JSON document from outside, and reports its irregularities.
pub(super) fn parse_from_outside(text: &str) -> Result<Read, SyntaxError> {
    read(Lexer::new(text), STRICT)
}

/// Parses a recorded document. Earlier versions accepted byte order marks and halves of surrogate pairs everywhere.
pub(super) fn parse_recorded(text: &str, depth_max: usize) -> Result<Read, SyntaxError> {
    read(Lexer::passing_marks(text), Reading { depth_max, refuses_halves: false, ..STRICT })
}

/// Options of the parser.
#[derive(Clone, Copy)]
struct Reading {
    depth_max: usize,
    /// In names, where they would make two members one.
    refuses_halves: bool,
    /// Otherwise `-0` is `0`.
    keeps_signed_zeros: bool,
}

const STRICT: Reading = Reading { depth_max: DEPTH_MAX, refuses_halves: true, keeps_signed_zeros: true };

/// A parsed document, and its irregularities.
pub(super) struct Read {
    pub(super) value: Value,
    /// Its depth: 0 for a scalar.
    pub(super) depth: usize,
    /// Some object names a member twice.
    pub(super) is_doubled: bool,
    /// A byte order mark is between its tokens.
    pub(super) is_marked: bool,
    /// The places of escapes that are half of a surrogate pair.
    pub(super) halves: Vec<usize>,
}

fn read(lexer: Lexer<'_>, reading: Reading) -> Result<Read, SyntaxError> {
    let mut parser = Parser { lexer, reading, deepest: 0, is_doubled: false };
    let (token, range) = parser.lexer.token()?;
    let value = parser.value(token, range.start, 0)?;
    match parser.lexer.token()? {
        (Token::End, _) => Ok(Read {
            value,
            depth: parser.deepest,
            is_doubled: parser.is_doubled,
            is_marked: parser.lexer.is_marked(),
            halves: parser.lexer.halves().to_vec(),
        }),
        (_, range) => fail(range.start, "text after the end of the document"),
    }
}

fn fail<T>(at: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
    Err(SyntaxError { at, message: message.into() })
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    reading: Reading,
    deepest: usize,
    is_doubled: bool,
}

impl<'t> Parser<'t> {
    fn value(&mut self, token: Token<'t>, at: usize, depth: usize) -> Result<Value, SyntaxError> {
        let opens = matches!(token, Token::ArrayStart | Token::ObjectStart);
        if opens && depth >= self.reading.depth_max {
            return fail(at, format!("nested more than {} deep", self.reading.depth_max));
        }
        Ok(match token {
            Token::Null => Value::Null,
            Token::Bool(truth) => Value::Bool(truth),
            Token::String(text) => Value::String(text.into()),
            Token::Number(text) => match Number::from_literal(text) {
                Some(number) if !self.reading.keeps_signed_zeros && number.is_signed_zero() => 0.into(),
                Some(number) => Value::Number(number),
                None => return fail(at, format!("the number {text} is out of range")),
            },
            Token::ArrayStart => self.array(depth + 1)?,
            Token::ObjectStart => self.object(depth + 1)?,
            Token::End => return fail(at, "the document ends where a value belongs"),
            Token::ObjectEnd | Token::ArrayEnd | Token::Colon | Token::Comma => {
                return fail(at, "a value belongs here");
            }
        })
    }

    fn array(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        self.deepest = self.deepest.max(depth);
        let mut items: Vec<Value> = Vec::new();
        let (mut token, mut range) = self.lexer.token()?;
        if token == Token::ArrayEnd {
            return Ok(items.into());
        }
        loop {
            items.push(self.value(token, range.start, depth)?);
            match self.lexer.token()? {
                (Token::Comma, _) => (token, range) = self.lexer.token()?,
                (Token::ArrayEnd, _) => return Ok(Value::from(items)),
                (_, range) => return fail(range.start, "`,` or `]` belongs here"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        self.deepest = self.deepest.max(depth);
        let mut map = Map::new();
        let (mut token, mut range) = self.lexer.token()?;
        if token == Token::ObjectEnd {
            return Ok(map.into());
        }
        loop {
            let Token::String(key) = token else { return fail(range.start, "a quoted name belongs here") };
            if self.reading.refuses_halves
                && self.lexer.halves().last().is_some_and(|half| range.contains(half))
            {
                return fail(range.start, "this name has half of a surrogate pair, which is no character");
            }
            match self.lexer.token()? {
                (Token::Colon, _) => {}
                (_, range) => return fail(range.start, "`:` belongs here"),
            }
            let (first, place) = self.lexer.token()?;
            let value = self.value(first, place.start, depth)?;
            self.is_doubled |= map.insert(key, value).is_some();
            match self.lexer.token()? {
                (Token::Comma, _) => (token, range) = self.lexer.token()?,
                (Token::ObjectEnd, _) => return Ok(map.into()),
                (_, range) => return fail(range.start, "`,` or `}` belongs here"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_printed_the_same() {
        for text in [
            r#"{"b":1,"a":[true,false,null,1.0,"x\ny"],"":{}}"#,
            "123456789012345678901234567890",
            r#""\u0001 \"quoted\" \\ é 😀""#,
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse(r#""\ud83d\ude00\/""#).unwrap(), Value::from("😀/"));
    }

    #[test]
    fn what_is_not_json_is_refused_at_its_place() {
        for (text, at) in [
            ("not json", 0),
            ("{\"a\" 1}", 5),
            ("[1,]", 3),
            ("[1 2]", 3),
            ("\"open", 0),
            ("01", 0),
            ("{} {}", 3),
            ("", 0),
            ("\"\\x\"", 1),
            ("1e400", 0),
            ("{a:1}", 1),
            ("-", 0),
            ("\"a\nb\"", 2),
        ] {
            assert_eq!(parse(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        let deep = "[".repeat(1_000_000);
        assert!(parse(&deep).unwrap_err().message.contains("nested"));
    }
}
