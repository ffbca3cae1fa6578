//! Text to [`Value`].

use super::{Lexer, Map, Number, SyntaxError, Token, Value};

/// How deep a document may nest. Deeper ones are refused, so that walking one can never exhaust the stack.
pub const DEPTH_MAX: usize = 256;

/// Reads one JSON document. Of two members with one name the last counts, as in most readers.
pub fn parse(text: &str) -> Result<Value, SyntaxError> {
    parse_measured(text).map(|(value, _)| value)
}

/// Reads one JSON document, and tells how deep it nests: 0 for a scalar.
pub(super) fn parse_measured(text: &str) -> Result<(Value, usize), SyntaxError> {
    let mut parser = Parser { lexer: Lexer::new(text), deepest: 0 };
    let (token, range) = parser.lexer.token()?;
    let value = parser.value(token, range.start, 0)?;
    match parser.lexer.token()? {
        (Token::End, _) => Ok((value, parser.deepest)),
        (_, range) => fail(range.start, "text after the end of the document"),
    }
}

fn fail<T>(at: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
    Err(SyntaxError { at, message: message.into() })
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    deepest: usize,
}

impl<'t> Parser<'t> {
    fn value(&mut self, token: Token<'t>, at: usize, depth: usize) -> Result<Value, SyntaxError> {
        let opens = matches!(token, Token::ArrayStart | Token::ObjectStart);
        if opens && depth >= DEPTH_MAX {
            return fail(at, format!("nested more than {DEPTH_MAX} deep"));
        }
        Ok(match token {
            Token::Null => Value::Null,
            Token::Bool(truth) => Value::Bool(truth),
            Token::String(text) => Value::String(text.into()),
            Token::Number(text) => match Number::from_literal(text) {
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
            match self.lexer.token()? {
                (Token::Colon, _) => {}
                (_, range) => return fail(range.start, "`:` belongs here"),
            }
            let (first, place) = self.lexer.token()?;
            map.insert(key, self.value(first, place.start, depth)?);
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
