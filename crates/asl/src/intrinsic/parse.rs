//! Text to calls.

use super::function::Function;
use super::{Argument, Call};
use crate::json::{SyntaxError, Value};
use crate::path::Path;
use crate::path::cursor::Cursor;
use crate::path::parse::{Surroundings, rooted};

/// How deep calls may nest, as on AWS.
pub const NESTING_MAX: usize = 10;

/// How many arguments one call may have.
pub const ARGUMENTS_MAX: usize = 1_000;

/// Reads a text that is one call and nothing else.
pub(super) fn whole(text: &str) -> Result<Call, SyntaxError> {
    let mut cursor = Cursor::new(text);
    cursor.spaces();
    let call = call(&mut cursor, 1)?;
    cursor.spaces();
    match cursor.peek() {
        None => Ok(call),
        Some(_) => cursor.fail("text after the end of the call; nest calls as arguments of one another"),
    }
}

fn call(cursor: &mut Cursor<'_>, nesting: usize) -> Result<Call, SyntaxError> {
    let start = cursor.at();
    if nesting > NESTING_MAX {
        return cursor.fail(format!("calls nest at most {NESTING_MAX} deep"));
    }
    let name = cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '.' | '_'));
    let Some((function, ..)) = Function::ALL.iter().find(|(_, short, _)| is_name(name, short)) else {
        return Cursor::error(start, unknown(name));
    };
    cursor.spaces();
    cursor.expect("(", "the arguments of a function stand in parentheses, even if there are none")?;
    let mut arguments = Vec::new();
    cursor.spaces();
    if !cursor.eat(")") {
        loop {
            cursor.spaces();
            let template = *function == Function::Format && arguments.is_empty();
            arguments.push(argument(cursor, nesting, template)?);
            if arguments.len() > ARGUMENTS_MAX {
                return cursor.fail(format!("a function has at most {ARGUMENTS_MAX} arguments"));
            }
            cursor.spaces();
            if cursor.eat(")") {
                break;
            }
            cursor.expect(",", "arguments are separated by commas and end with `)`")?;
        }
    }
    Ok(Call { function: *function, arguments: arguments.into() })
}

fn is_name(name: &str, short: &str) -> bool {
    name.strip_prefix("States.") == Some(short)
}

fn unknown(name: &str) -> String {
    let short = name.rsplit('.').next().unwrap_or_default();
    let near = Function::ALL.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(short));
    match near {
        Some((_, known, _)) => format!("there is no function `{name}`; did you mean States.{known}?"),
        None if name.is_empty() => "the name of a function belongs here, such as States.Format".into(),
        None => format!("there is no function `{name}`; there are {}", {
            let names: Vec<_> = Function::ALL.iter().map(|(_, known, _)| format!("States.{known}")).collect();
            names.join(", ")
        }),
    }
}

fn argument(cursor: &mut Cursor<'_>, nesting: usize, template: bool) -> Result<Argument, SyntaxError> {
    let start = cursor.at();
    match cursor.peek() {
        Some('\'') => string(cursor, template),
        Some('$') => {
            let (root, steps) = rooted(cursor, Surroundings::Argument)?;
            Ok(Argument::Path(Path::new(cursor.since(start), root, steps)))
        }
        Some('-' | '0'..='9') => cursor.number().map(|number| Argument::Literal(number.into())),
        Some('"') => cursor.fail("a string stands in single quotes: 'text'"),
        Some(c) if c.is_alphabetic() => {
            let word = cursor.rest();
            let word = &word[..word.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(word.len())];
            let literal = match word {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" => Value::Null,
                _ => return call(cursor, nesting + 1).map(Argument::Call),
            };
            cursor.eat(word);
            Ok(Argument::Literal(literal))
        }
        _ => cursor.fail("an argument belongs here: 'text', a number, true, false, null, a path or a call"),
    }
}

/// A string in single quotes. A template keeps its escapes: there `\{` and `{` are not the same.
fn string(cursor: &mut Cursor<'_>, template: bool) -> Result<Argument, SyntaxError> {
    let start = cursor.at();
    cursor.bump();
    let body = cursor.at();
    let mut text = String::new();
    loop {
        let at = cursor.at();
        match cursor.bump() {
            None => return Cursor::error(start, "this string is never closed"),
            Some('\'') => break,
            Some('\\') => match cursor.bump() {
                Some(plain @ ('\'' | '{' | '}' | '\\')) => text.push(plain),
                _ => {
                    return Cursor::error(
                        at,
                        "a backslash stands only before ' { } and \\; itself it is \\\\",
                    );
                }
            },
            Some(plain) => text.push(plain),
        }
    }
    if template {
        let raw = cursor.since(body).strip_suffix('\'').unwrap_or_default();
        return Ok(Argument::Template(raw.into()));
    }
    Ok(Argument::Literal(text.into()))
}
