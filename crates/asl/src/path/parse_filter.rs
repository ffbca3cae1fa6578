//! Parses filters.

use super::cursor::Cursor;
use super::filter::{Filter, Operand, Operator, Query};
use super::parse::{NESTING_MAX, Surroundings, steps};
use super::step::are_definite;
use crate::json::{Map, SyntaxError, Value};
use regex::{Regex, RegexBuilder};

/// The memory limit of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Reads conditions joined by `||`, up to the parenthesis that ends them.
pub(super) fn condition(cursor: &mut Cursor<'_>, nesting: usize) -> Result<Filter, SyntaxError> {
    if nesting > NESTING_MAX {
        return cursor.fail(format!("filters nest at most {NESTING_MAX} deep"));
    }
    joined(cursor, "||", Filter::Any, |cursor| {
        joined(cursor, "&&", Filter::All, |cursor| unit(cursor, nesting))
    })
}

fn joined(
    cursor: &mut Cursor<'_>,
    sign: &str,
    join: impl Fn(Vec<Filter>) -> Filter,
    read: impl Fn(&mut Cursor<'_>) -> Result<Filter, SyntaxError>,
) -> Result<Filter, SyntaxError> {
    let mut parts = vec![read(cursor)?];
    cursor.spaces();
    while cursor.eat(sign) {
        parts.push(read(cursor)?);
        cursor.spaces();
    }
    Ok(if parts.len() == 1 { parts.swap_remove(0) } else { join(parts) })
}

/// A comparison, a path that must exist, a condition in parentheses, or a negation.
fn unit(cursor: &mut Cursor<'_>, nesting: usize) -> Result<Filter, SyntaxError> {
    cursor.spaces();
    let start = cursor.at();
    if cursor.eat("!") {
        if nesting >= NESTING_MAX {
            return cursor.fail(format!("filters nest at most {NESTING_MAX} deep"));
        }
        cursor.spaces();
        let bare = !matches!(cursor.peek(), Some('(' | '!'));
        return match unit(cursor, nesting + 1)? {
            Filter::Compare { .. } if bare => {
                Cursor::error(start, "`!` stands before a path or parentheses: !(@.a == 1)")
            }
            denied => Ok(Filter::Not(Box::new(denied))),
        };
    }
    if cursor.eat("(") {
        let inner = condition(cursor, nesting + 1)?;
        cursor.expect(")", "every parenthesis must be closed")?;
        return Ok(inner);
    }
    let left = operand(cursor, nesting)?;
    cursor.spaces();
    if matches!(cursor.peek(), None | Some(')' | '&' | '|')) {
        return match left {
            Operand::Query(query) => Ok(Filter::Exists(query)),
            Operand::Literal(_) | Operand::Pattern(_) => {
                Cursor::error(start, "a value alone is no condition; compare it with a path such as @.name")
            }
        };
    }
    let operator = operator(cursor)?;
    cursor.spaces();
    let right = match cursor.peek() {
        Some(first) if first.is_alphabetic() => Operand::Literal(word(cursor)),
        _ => operand(cursor, nesting)?,
    };
    Ok(Filter::Compare { left, operator, right })
}

/// A word to compare with. A word without quotes is a text, too: AWS has accepted such definitions.
fn word(cursor: &mut Cursor<'_>) -> Value {
    match cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
        "true" => true.into(),
        "false" => false.into(),
        "null" => Value::Null,
        text => text.into(),
    }
}

fn operator(cursor: &mut Cursor<'_>) -> Result<Operator, SyntaxError> {
    let start = cursor.at();
    for (sign, operator) in Operator::SIGNS {
        if cursor.eat(sign) {
            return Ok(operator);
        }
    }
    let word = cursor.take_while(|c| c.is_alphanumeric() || c == '_');
    for (known, operator) in Operator::WORDS {
        if word.eq_ignore_ascii_case(known) {
            return Ok(operator);
        }
    }
    Cursor::error(
        start,
        "an operator belongs here: == != < <= > >= =~ in nin subsetof anyof noneof all size empty contains",
    )
}

fn operand(cursor: &mut Cursor<'_>, nesting: usize) -> Result<Operand, SyntaxError> {
    match cursor.peek() {
        Some('@') => {
            cursor.bump();
            query(cursor, false, nesting)
        }
        Some('$') => {
            cursor.bump();
            match cursor.peek() {
                Some(c) if c.is_alphanumeric() || matches!(c, '_' | '$') => cursor.fail(
                    "in a filter there are only `@`, the value at hand, and `$`, where this path begins",
                ),
                _ => query(cursor, true, nesting),
            }
        }
        Some('/') => pattern(cursor).map(Operand::Pattern),
        _ => literal(cursor, nesting).map(Operand::Literal),
    }
}

fn query(cursor: &mut Cursor<'_>, from_root: bool, nesting: usize) -> Result<Operand, SyntaxError> {
    let steps = steps(cursor, Surroundings::Filter, nesting)?;
    Ok(Operand::Query(Query { from_root, definite: are_definite(&steps), steps }))
}

/// `/pattern/flags`, with the flags of Java. The whole text must match.
fn pattern(cursor: &mut Cursor<'_>) -> Result<Regex, SyntaxError> {
    let start = cursor.at();
    cursor.bump();
    let body = cursor.at();
    loop {
        match cursor.bump() {
            None => return Cursor::error(start, "this pattern is never closed; it ends with `/`"),
            Some('/') => break,
            Some('\\') => drop(cursor.bump()),
            Some(_) => {}
        }
    }
    let source = cursor.since(body).strip_suffix('/').unwrap_or_default();
    let flags = cursor.take_while(char::is_alphabetic);
    if let Some(unknown) = flags.chars().find(|flag| !"dimsuUx".contains(*flag)) {
        return Cursor::error(
            start,
            format!("unknown flag `{unknown}` after the pattern; there are d i m s u U x"),
        );
    }
    // With x a comment at the end of the pattern would swallow the parenthesis without the line break.
    let last = if flags.contains('x') { "\n" } else { "" };
    let built = RegexBuilder::new(&format!("\\A(?:{source}{last})\\z"))
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('s'))
        .ignore_whitespace(flags.contains('x'))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .nest_limit(NESTING_MAX as u32)
        .build();
    built.or_else(|error| {
        let reason = match error {
            regex::Error::CompiledTooBig(_) => "it is too large".into(),
            other => {
                other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
            }
        };
        Cursor::error(
            start,
            format!(
                "this pattern cannot be used: {reason}; look-around and back-references are not supported"
            ),
        )
    })
}

/// A JSON value whose strings may also stand in single quotes.
fn literal(cursor: &mut Cursor<'_>, nesting: usize) -> Result<Value, SyntaxError> {
    if nesting > NESTING_MAX {
        return cursor.fail(format!("filters nest at most {NESTING_MAX} deep"));
    }
    match cursor.peek() {
        Some('\'' | '"') => cursor.quoted().map(Value::from),
        Some('-' | '0'..='9') => cursor.number().map(Value::from),
        Some('[') => {
            let mut items: Vec<Value> = Vec::new();
            elements(cursor, "]", |cursor| {
                items.push(literal(cursor, nesting + 1)?);
                Ok(())
            })?;
            Ok(items.into())
        }
        Some('{') => {
            let mut members = Map::new();
            elements(cursor, "}", |cursor| {
                if !matches!(cursor.peek(), Some('\'' | '"')) {
                    return cursor.fail("a quoted name belongs here");
                }
                let name = cursor.quoted()?;
                cursor.spaces();
                cursor.expect(":", "a member is written 'name': value")?;
                cursor.spaces();
                members.insert(name, literal(cursor, nesting + 1)?);
                Ok(())
            })?;
            Ok(members.into())
        }
        _ => {
            let start = cursor.at();
            match cursor.take_while(|c| c.is_alphanumeric() || c == '_') {
                "true" => Ok(true.into()),
                "false" => Ok(false.into()),
                "null" => Ok(Value::Null),
                _ => Cursor::error(
                    start,
                    "a path such as @.name or a value belongs here; text must be quoted: 'text'",
                ),
            }
        }
    }
}

fn elements(
    cursor: &mut Cursor<'_>,
    close: &str,
    mut read: impl FnMut(&mut Cursor<'_>) -> Result<(), SyntaxError>,
) -> Result<(), SyntaxError> {
    cursor.bump();
    cursor.spaces();
    if cursor.eat(close) {
        return Ok(());
    }
    loop {
        read(cursor)?;
        cursor.spaces();
        if cursor.eat(close) {
            return Ok(());
        }
        cursor.expect(",", "values are separated by commas and the list must be closed")?;
        cursor.spaces();
    }
}
