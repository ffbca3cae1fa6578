//! JSON text to a tree.

use super::{Member, Node, NodeKind, VALUES_MAX};
use crate::diagnostic::{Diagnostic, code};
use crate::json::{DEPTH_MAX, Lexer, Number, SyntaxError, Token};
use crate::source::Span;
use std::ops::Range;

type Parsed<T> = Result<T, Box<Diagnostic>>;

/// Parses one JSON document. A byte order mark before it is skipped, as editors leave one in files.
pub(super) fn parse(text: &str) -> Parsed<Node> {
    let mut parser = Parser { lexer: Lexer::of_file(text), text, values: 0 };
    let (token, range) = parser.token()?;
    let node = parser.value(token, range, 0)?;
    match parser.token()? {
        (Token::End, _) => Ok(node),
        (_, range) => Parser::fail(range, "text after the end of the document"),
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    text: &'t str,
    values: usize,
}

impl<'t> Parser<'t> {
    fn token(&mut self) -> Parsed<(Token<'t>, Range<usize>)> {
        self.lexer.token().map_err(|error| self.syntax(error))
    }

    fn syntax(&self, error: SyntaxError) -> Box<Diagnostic> {
        let rest = self.text.get(error.at..).unwrap_or_default();
        let word = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let length = word.max(rest.chars().next().map_or(0, char::len_utf8));
        let span = Span::new(error.at, error.at + length);
        let mut diagnostic = Diagnostic::error(code::INVALID_JSON_DESCRIPTION, error.message).at("", span);
        if rest.starts_with('\'') {
            diagnostic.hint("strings are written in double quotes");
        } else if rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with('#') {
            diagnostic.hint("JSON has no comments; use a `Comment` field");
        }
        Box::new(diagnostic)
    }

    fn fail<T>(range: Range<usize>, message: &str) -> Parsed<T> {
        let error = Diagnostic::error(code::INVALID_JSON_DESCRIPTION, message).at("", range.into());
        Err(Box::new(error))
    }

    fn value(&mut self, token: Token<'t>, range: Range<usize>, depth: usize) -> Parsed<Node> {
        if depth > DEPTH_MAX {
            let message = format!("nested more than {DEPTH_MAX} deep");
            return Err(Box::new(Diagnostic::error(code::TOO_DEEPLY_NESTED, message).at("", range.into())));
        }
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(super::too_many_values(range.into()));
        }
        let start = range.start;
        let kind = match token {
            Token::Null => NodeKind::Null,
            Token::Bool(truth) => NodeKind::Bool(truth),
            Token::String(text) => NodeKind::String(text.into()),
            Token::Number(text) => match Number::from_literal(text) {
                Some(number) => NodeKind::Number(number),
                None => return Self::fail(range, "this number is out of range"),
            },
            Token::ArrayStart => return self.array(start, depth),
            Token::ObjectStart => return self.object(start, depth),
            Token::End => return Self::fail(range, "the document ends where a value belongs"),
            Token::ObjectEnd | Token::ArrayEnd | Token::Colon | Token::Comma => {
                return Self::fail(range, "a value belongs here");
            }
        };
        Ok(Node { span: range.into(), kind })
    }

    fn array(&mut self, start: usize, depth: usize) -> Parsed<Node> {
        let mut items = Vec::new();
        let (mut token, mut range) = self.token()?;
        if token == Token::ArrayEnd {
            return Ok(Node { span: Span::new(start, range.end), kind: NodeKind::Array(items) });
        }
        loop {
            items.push(self.value(token, range, depth + 1)?);
            match self.token()? {
                (Token::Comma, comma) => {
                    (token, range) = self.token()?;
                    if token == Token::ArrayEnd {
                        return Self::comma_too_many(comma, "]");
                    }
                }
                (Token::ArrayEnd, range) => {
                    return Ok(Node { span: Span::new(start, range.end), kind: NodeKind::Array(items) });
                }
                (Token::End, range) => return Self::unclosed(start, range, "`]`"),
                (_, range) => return Self::fail(range, "`,` or `]` belongs here"),
            }
        }
    }

    fn object(&mut self, start: usize, depth: usize) -> Parsed<Node> {
        let mut members = Vec::new();
        let (mut token, mut range) = self.token()?;
        if token == Token::ObjectEnd {
            return Ok(Node { span: Span::new(start, range.end), kind: NodeKind::Object(members) });
        }
        loop {
            let Token::String(key) = token else {
                return match token {
                    Token::End => Self::unclosed(start, range, "`}`"),
                    _ => Self::fail(range, "a quoted name belongs here"),
                };
            };
            match self.token()? {
                (Token::Colon, _) => {}
                (_, range) => return Self::fail(range, "`:` belongs here"),
            }
            let (first, place) = self.token()?;
            let value = self.value(first, place, depth + 1)?;
            members.push(Member { key: key.into(), key_span: range.into(), value });
            match self.token()? {
                (Token::Comma, comma) => {
                    (token, range) = self.token()?;
                    if token == Token::ObjectEnd {
                        return Self::comma_too_many(comma, "}");
                    }
                }
                (Token::ObjectEnd, range) => {
                    return Ok(Node { span: Span::new(start, range.end), kind: NodeKind::Object(members) });
                }
                (Token::End, range) => return Self::unclosed(start, range, "`}`"),
                (_, range) => return Self::fail(range, "`,` or `}` belongs here"),
            }
        }
    }

    fn comma_too_many<T>(comma: Range<usize>, bracket: &str) -> Parsed<T> {
        Self::fail(comma, &format!("no comma belongs before `{bracket}`"))
    }

    fn unclosed<T>(start: usize, range: Range<usize>, bracket: &str) -> Parsed<T> {
        let message = format!("the document ends where `,` or {bracket} belongs");
        let mut error = Diagnostic::error(code::INVALID_JSON_DESCRIPTION, message).at("", range.into());
        error.related(Span::new(start, start + 1), "opened here");
        Err(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_knows_its_place() {
        let text = r#" {"a": [1, "é"], "b": null}"#;
        let node = parse(text).unwrap();
        let slice = |span: Span| &text[span.start..span.end];
        assert_eq!(slice(node.span), text.trim_start());
        let members = node.as_object().unwrap();
        assert_eq!(slice(members[0].key_span), "\"a\"");
        assert_eq!(slice(members[0].value.span), "[1, \"é\"]");
        assert_eq!(slice(members[0].value.as_array().unwrap()[1].span), "\"é\"");
        assert_eq!(node.to_value().to_string(), r#"{"a":[1,"é"],"b":null}"#);
    }

    #[test]
    fn what_is_not_json_is_refused_at_its_place() {
        for (text, place) in [
            ("not json", 0..3),
            ("{\"a\" 1}", 5..6),
            ("[1, ]", 2..3),
            ("{\"a\": 1,}", 7..8),
            ("{} {}", 3..4),
            ("{\"a\": tru}", 6..9),
            ("{\"a\": 1", 7..7),
            ("[", 1..1),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.span, Span::from(place), "{text}");
            assert_eq!(error.code, code::INVALID_JSON_DESCRIPTION, "{text}");
        }
    }
}
