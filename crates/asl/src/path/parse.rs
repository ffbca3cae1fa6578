//! Parses paths.

use super::Root;
use super::cursor::Cursor;
use super::parse_filter;
use super::step::Step;
use crate::json::SyntaxError;
use std::sync::Arc;

/// How many steps a path may have.
pub const STEPS_MAX: usize = 1_000;

/// How deep filters, and parentheses and lists inside of them, may nest.
pub const NESTING_MAX: usize = 64;

/// The surroundings of a path, which decide which characters end a name.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Surroundings {
    /// The path is the whole text.
    Whole,
    /// The path is an argument of an intrinsic function.
    Argument,
    /// The path stands in a filter.
    Filter,
}

impl Surroundings {
    fn ends_name(self, c: char) -> bool {
        match self {
            Self::Whole => false,
            Self::Argument => c.is_whitespace() || matches!(c, ',' | ')'),
            Self::Filter => c.is_whitespace() || "()&|<>=!~,]".contains(c),
        }
    }
}

/// Reads a text that is one path and nothing else.
pub(crate) fn whole(text: &str) -> Result<(Root, Vec<Step>), SyntaxError> {
    whole_with(text, |_, step| Ok(step))
}

/// Parses a whole path and passes each step, with its byte, to a check.
pub(super) fn whole_with<S>(
    text: &str,
    take: impl FnMut(usize, Step) -> Result<S, SyntaxError>,
) -> Result<(Root, Vec<S>), SyntaxError> {
    let mut cursor = Cursor::new(text);
    let root = root(&mut cursor)?;
    let steps = steps_with(&mut cursor, Surroundings::Whole, 0, take)?;
    if cursor.rest().trim_end().is_empty() {
        return Ok((root, steps));
    }
    cursor.fail("`.` or `[` belongs here, or the end of the path")
}

/// Parses a path that is followed by other text.
pub(crate) fn rooted(
    cursor: &mut Cursor<'_>,
    surroundings: Surroundings,
) -> Result<(Root, Vec<Step>), SyntaxError> {
    let root = root(cursor)?;
    Ok((root, steps(cursor, surroundings, 0)?))
}

fn root(cursor: &mut Cursor<'_>) -> Result<Root, SyntaxError> {
    cursor.expect("$", "a path begins with `$`, `$$` for the context object, or `$name` for a variable")?;
    if cursor.eat("$") {
        return match cursor.peek() {
            Some(c) if c.is_alphanumeric() || c == '_' => {
                cursor.fail("`.` or `[` belongs after `$$`, as in `$$.Execution.Id`")
            }
            _ => Ok(Root::Context),
        };
    }
    let start = cursor.at();
    let name = cursor.take_while(|c| c.is_alphanumeric() || c == '_');
    match name.chars().next() {
        None => Ok(Root::Input),
        Some(first) if first.is_numeric() => {
            Cursor::error(start, "a variable's name begins with a letter; a path goes on with `.` or `[`")
        }
        Some(_) => Ok(Root::Variable(name.into())),
    }
}

/// Parses steps until something else comes.
pub(super) fn steps(
    cursor: &mut Cursor<'_>,
    surroundings: Surroundings,
    nesting: usize,
) -> Result<Vec<Step>, SyntaxError> {
    steps_with(cursor, surroundings, nesting, |_, step| Ok(step))
}

fn steps_with<S>(
    cursor: &mut Cursor<'_>,
    surroundings: Surroundings,
    nesting: usize,
    mut take: impl FnMut(usize, Step) -> Result<S, SyntaxError>,
) -> Result<Vec<S>, SyntaxError> {
    let mut steps = Vec::new();
    loop {
        let start = cursor.at();
        if cursor.eat("..") {
            steps.push(take(start, Step::Descend)?);
        } else if !cursor.eat(".") && cursor.peek() != Some('[') {
            return Ok(steps);
        }
        let step = match cursor.peek() {
            Some('[') => bracket(cursor, nesting)?,
            Some('*') => {
                cursor.bump();
                Step::Every
            }
            _ => Step::Name(name(cursor, surroundings)?.into()),
        };
        steps.push(take(start, step)?);
        if steps.len() > STEPS_MAX {
            return Cursor::error(start, format!("a path has at most {STEPS_MAX} steps"));
        }
    }
}

/// A name after a dot. A backslash takes any character as part of the name.
fn name(cursor: &mut Cursor<'_>, surroundings: Surroundings) -> Result<String, SyntaxError> {
    let start = cursor.at();
    let mut name = String::new();
    while let Some(c) = cursor.peek() {
        match c {
            '.' | '[' => break,
            '(' => {
                return Cursor::error(
                    start,
                    format!(
                        "Step Functions has no path functions such as {name}(); use an intrinsic function, \
                         for a length States.ArrayLength"
                    ),
                );
            }
            _ if surroundings.ends_name(c) => break,
            _ if c.is_whitespace() && cursor.rest().trim_end().is_empty() => break,
            _ if c.is_whitespace() || matches!(c, ']' | ')') => {
                return cursor.fail("a name with such a character is written in brackets: ['my name']");
            }
            '\\' => {
                cursor.bump();
                name.push(match cursor.bump() {
                    None => return Cursor::error(start, "a backslash stands for nothing at the end"),
                    Some('u') => cursor.unit(),
                    Some(plain) => plain,
                });
            }
            _ => name.extend(cursor.bump()),
        }
    }
    if name.is_empty() {
        return Cursor::error(start, "a name belongs after the dot; an empty name is written ['']");
    }
    Ok(name)
}

fn bracket(cursor: &mut Cursor<'_>, nesting: usize) -> Result<Step, SyntaxError> {
    let open = cursor.at();
    cursor.bump();
    cursor.spaces();
    let step = match cursor.peek() {
        None => return Cursor::error(open, "this bracket is never closed"),
        Some('\'' | '"') => names(cursor)?,
        Some('*') => {
            cursor.bump();
            Step::Every
        }
        Some('?') => {
            cursor.bump();
            cursor.spaces();
            cursor.expect("(", "a filter is written [?(@.name == 'value')]")?;
            let filter = parse_filter::condition(cursor, nesting + 1)?;
            cursor.expect(")", "a filter ends with `)]`, and conditions are joined by && or ||")?;
            Step::Filter(Arc::new(filter))
        }
        Some('(') => {
            return cursor.fail(
                "scripts in brackets are not supported; count from the end with [-1], or filter with [?(…)]",
            );
        }
        Some('-' | ':' | '0'..='9') => numbers(cursor)?,
        Some(_) => return cursor.fail("a quoted name, an index, a slice, `*` or `?(…)` belongs in brackets"),
    };
    cursor.spaces();
    if cursor.peek().is_none() {
        return Cursor::error(open, "this bracket is never closed");
    }
    cursor.expect("]", "names and indices in brackets are separated by commas")?;
    Ok(step)
}

fn names(cursor: &mut Cursor<'_>) -> Result<Step, SyntaxError> {
    let mut names: Vec<Arc<str>> = vec![cursor.quoted()?.into()];
    cursor.spaces();
    while cursor.eat(",") {
        cursor.spaces();
        if !matches!(cursor.peek(), Some('\'' | '"')) {
            return cursor.fail("a quoted name belongs after the comma");
        }
        names.push(cursor.quoted()?.into());
        cursor.spaces();
    }
    Ok(if names.len() == 1 { Step::Name(names.swap_remove(0)) } else { Step::Names(names.into()) })
}

fn numbers(cursor: &mut Cursor<'_>) -> Result<Step, SyntaxError> {
    let first = integer(cursor)?;
    cursor.spaces();
    if cursor.eat(":") {
        cursor.spaces();
        let to = integer(cursor)?;
        cursor.spaces();
        if cursor.peek() == Some(':') {
            return cursor.fail("a slice has no step in Step Functions; write [from:to]");
        }
        if first.is_none() && to.is_none() {
            return cursor.fail("a slice needs an end; for everything write [*]");
        }
        return Ok(Step::Slice { from: first, to });
    }
    let Some(first) = first else { return cursor.fail("an index belongs here") };
    let mut indices = vec![first];
    while cursor.eat(",") {
        cursor.spaces();
        match integer(cursor)? {
            Some(index) => indices.push(index),
            None => return cursor.fail("an index belongs after the comma"),
        }
        cursor.spaces();
    }
    Ok(if indices.len() == 1 { Step::Index(first) } else { Step::Indices(indices.into()) })
}

/// An integer, if one is next.
fn integer(cursor: &mut Cursor<'_>) -> Result<Option<i64>, SyntaxError> {
    let start = cursor.at();
    cursor.eat("-");
    cursor.take_while(|c| c.is_ascii_digit());
    match cursor.since(start) {
        "" => Ok(None),
        "-" => Cursor::error(start, "a minus sign must be followed by digits"),
        digits => match digits.parse() {
            Ok(index) => Ok(Some(index)),
            Err(_) => Cursor::error(start, format!("the index {digits} is out of range")),
        },
    }
}
