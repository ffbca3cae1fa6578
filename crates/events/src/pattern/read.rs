//! Understanding a pattern: every mistake is told with its place.

use super::automaton::Piece;
use super::network::Network;
use super::number::{Bound, Decimal, Range};
use super::value::Value;
use super::{
    ALTERNATIVES_MAX, Alternative, Atom, Case, FIELDS_MAX, Field, PATTERN_BYTES_MAX, Pattern, PatternError,
    STARS_MAX, Shape, Test, below, folded,
};

/// Names that in an object of `$or` say that it is no such thing, as EventBridge has it.
const OPERATORS: &[&str] = &[
    "exact",
    "prefix",
    "suffix",
    "equals-ignore-case",
    "anything-but",
    "numeric",
    "exists",
    "wildcard",
    "cidr",
];

pub(super) fn pattern(text: &str) -> Result<Pattern, PatternError> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(refuse("", format!("it is longer than {PATTERN_BYTES_MAX} bytes")));
    }
    let Value::Object(members) = Value::parse(text)? else {
        return Err(refuse("", "a pattern is a JSON object"));
    };
    let mut alternatives = object(&members, &[], "", false)?;
    for alternative in &mut alternatives {
        alternative.sort();
        alternative.dedup();
    }
    alternatives.sort();
    alternatives.dedup();
    Ok(Pattern { alternatives })
}

fn refuse(place: &str, what: impl Into<String>) -> PatternError {
    PatternError { place: place.to_owned(), what: what.into() }
}

fn object(
    members: &[(String, Value)],
    path: &[Box<str>],
    place: &str,
    is_in_or: bool,
) -> Result<Vec<Alternative>, PatternError> {
    if members.is_empty() {
        return Err(refuse(place, "an empty object matches nothing and everything; name a field"));
    }
    let mut all: Vec<Alternative> = vec![Vec::new()];
    for (name, value) in members {
        let place = below(place, name);
        if is_in_or && OPERATORS.contains(&name.as_str()) {
            return Err(refuse(
                &place,
                "in an object of `$or` there are fields, and this is the name of an operator",
            ));
        }
        let these = if name == "$or" {
            or(value, path, &place)?
        } else {
            let mut path = path.to_vec();
            path.push(if path.is_empty() { attribute(name, &place)?.into() } else { name.as_str().into() });
            match value {
                Value::Object(members) => object(members, &path, &place, is_in_or)?,
                Value::List(tests) => vec![vec![Field { tests: tests_of(tests, &place)?, path }]],
                Value::Text(_) | Value::Number(_) | Value::Word(_) => {
                    return Err(refuse(
                        &place,
                        "a field has a list of what it may be: put this into brackets",
                    ));
                }
            }
        };
        all = multiplied(all, these, &place)?;
    }
    Ok(all)
}

/// Each of these with each of those, if that is not too many.
fn multiplied(
    mut all: Vec<Alternative>,
    mut these: Vec<Alternative>,
    place: &str,
) -> Result<Vec<Alternative>, PatternError> {
    let fields = |alternatives: &[Alternative]| alternatives.iter().map(Vec::len).sum::<usize>();
    if all.len() * these.len() > ALTERNATIVES_MAX {
        return Err(refuse(place, format!("its `$or` make more than {ALTERNATIVES_MAX} combinations")));
    }
    if fields(&all) * these.len() + all.len() * fields(&these) > FIELDS_MAX {
        return Err(refuse(
            place,
            format!("the combinations of its `$or` have more than {FIELDS_MAX} fields"),
        ));
    }
    if let ([alternative], [these]) = (all.as_mut_slice(), these.as_mut_slice()) {
        alternative.append(these);
        return Ok(all);
    }
    let with = |before: &Alternative| {
        these.iter().map(|these| [&before[..], &these[..]].concat()).collect::<Vec<_>>()
    };
    Ok(all.iter().flat_map(with).collect())
}

/// A name at the top: only attributes are there, and the data.
fn attribute<'a>(name: &'a str, place: &str) -> Result<&'a str, PatternError> {
    match name {
        "detail-type" => Ok("type"),
        "detail" => Ok("data"),
        "version" | "specversion" => Err(refuse(place, "it is the same in every message: leave it out")),
        _ if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) => Ok(name),
        _ => Err(refuse(
            place,
            "no attribute has such a name; fields of the data stand under `data` or `detail`",
        )),
    }
}

fn or(value: &Value, path: &[Box<str>], place: &str) -> Result<Vec<Alternative>, PatternError> {
    let Value::List(elements) = value else {
        return Err(refuse(place, "`$or` has a list of objects"));
    };
    if elements.len() < 2 {
        return Err(refuse(place, "`$or` needs at least two objects"));
    }
    let mut all = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let place = format!("{place}/{at}");
        let Value::Object(members) = element else {
            return Err(refuse(&place, "`$or` has objects, and this is another value"));
        };
        all.extend(object(members, path, &place, true)?);
        if all.len() > ALTERNATIVES_MAX {
            return Err(refuse(&place, format!("its `$or` make more than {ALTERNATIVES_MAX} combinations")));
        }
    }
    Ok(all)
}

fn tests_of(tests: &[Value], place: &str) -> Result<Vec<Test>, PatternError> {
    if tests.is_empty() {
        return Err(refuse(place, "an empty list matches nothing: say what the field may be"));
    }
    let mut read = Vec::with_capacity(tests.len());
    for (at, test) in tests.iter().enumerate() {
        read.push(test_of(test, &format!("{place}/{at}"))?);
    }
    read.sort();
    read.dedup();
    Ok(read)
}

fn test_of(test: &Value, place: &str) -> Result<Test, PatternError> {
    let (name, argument) = match test {
        Value::Text(text) => return Ok(Test::Is(exact(text))),
        Value::Number(form) | Value::Word(form) => return Ok(Test::Is(Atom::Exact(form.as_slice().into()))),
        Value::List(_) => {
            return Err(refuse(place, "a list within the list of tests says nothing: leave it out"));
        }
        Value::Object(members) => match members.as_slice() {
            [(name, argument)] => (name.as_str(), argument),
            _ => {
                return Err(refuse(place, "an operator is an object with one member; write several of them"));
            }
        },
    };
    let place = below(place, name);
    match name {
        "anything-but" => anything_but(argument, &place),
        "exists" => match argument {
            Value::Word(word) if word == b"t" => Ok(Test::Exists(true)),
            Value::Word(word) if word == b"f" => Ok(Test::Exists(false)),
            _ => Err(refuse(&place, "`exists` is true or false")),
        },
        _ => atom(name, argument, &place).map(Test::Is),
    }
}

fn exact(text: &str) -> Atom {
    Atom::Exact([b"\"", text.as_bytes()].concat().into())
}

fn atom(name: &str, argument: &Value, place: &str) -> Result<Atom, PatternError> {
    match name {
        "exact" => Ok(exact(text(argument, place)?)),
        "equals-ignore-case" => {
            Ok(Atom::Text { case: Case::Ignored, shape: Shape::Whole(folded(text(argument, place)?).into()) })
        }
        "prefix" | "suffix" => end(name, argument, place),
        "wildcard" => wildcard(text(argument, place)?, place),
        "numeric" => numeric(argument, place).map(Atom::Number),
        "cidr" => {
            Network::parse(text(argument, place)?).map(Atom::Network).map_err(|what| refuse(place, what))
        }
        _ => Err(refuse(place, format!("there is no such operator; those are {}", OPERATORS.join(", ")))),
    }
}

fn text<'a>(argument: &'a Value, place: &str) -> Result<&'a str, PatternError> {
    match argument {
        Value::Text(text) => Ok(text),
        _ => Err(refuse(place, "this is a string")),
    }
}

/// `{"prefix": "a"}`, or `{"prefix": {"equals-ignore-case": "a"}}`; the same for `suffix`.
fn end(name: &str, argument: &Value, place: &str) -> Result<Atom, PatternError> {
    let shape =
        |text: &str| if name == "prefix" { Shape::Prefix(text.into()) } else { Shape::Suffix(text.into()) };
    let Value::Object(members) = argument else {
        return Ok(Atom::Text { case: Case::Counts, shape: shape(text(argument, place)?) });
    };
    match members.as_slice() {
        [(inner, argument)] if inner == "equals-ignore-case" => {
            let text = text(argument, &below(place, inner))?;
            Ok(Atom::Text { case: Case::Ignored, shape: shape(&folded(text)) })
        }
        _ => Err(refuse(place, "this is a string, or an object with `equals-ignore-case`")),
    }
}

fn wildcard(text: &str, place: &str) -> Result<Atom, PatternError> {
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' => {
                if literal.is_empty() && !pieces.is_empty() {
                    return Err(refuse(place, "it has two `*` in a row: one says the same"));
                }
                if !literal.is_empty() {
                    pieces.push(Piece::Bytes(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Star);
            }
            '\\' => match characters.next() {
                Some(escaped @ ('*' | '\\')) => literal.push(escaped as u8),
                _ => return Err(refuse(place, "after a `\\` comes `*` or another `\\`")),
            },
            other => literal.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Bytes(literal));
    }
    if pieces.iter().filter(|piece| **piece == Piece::Star).count() > STARS_MAX {
        return Err(refuse(place, format!("it has more than {STARS_MAX} `*`")));
    }
    Ok(Atom::Text { case: Case::Counts, shape: Shape::Wildcard(pieces) })
}

fn numeric(argument: &Value, place: &str) -> Result<Range, PatternError> {
    let wrong = || refuse(place, "this is a list like [\"=\", 5], [\">\", 0] or [\">=\", 0, \"<\", 5.5]");
    let Value::List(elements) = argument else { return Err(wrong()) };
    let mut comparisons = Vec::new();
    for pair in elements.chunks(2) {
        let [Value::Text(operator), Value::Number(number)] = pair else { return Err(wrong()) };
        comparisons.push((operator.as_str(), Decimal::read(number)));
    }
    let (mut low, mut high) = (None, None);
    let count = comparisons.len();
    for (operator, number) in comparisons {
        let (side, bound) = match operator {
            "=" if count == 1 => {
                let bound = Bound { number, is_in: true };
                return Ok(Range { low: Some(bound.clone()), high: Some(bound) });
            }
            ">" => (&mut low, Bound { number, is_in: false }),
            ">=" => (&mut low, Bound { number, is_in: true }),
            "<" => (&mut high, Bound { number, is_in: false }),
            "<=" => (&mut high, Bound { number, is_in: true }),
            _ => return Err(wrong()),
        };
        if side.replace(bound).is_some() {
            return Err(wrong());
        }
    }
    let range = Range { low, high };
    if range == (Range { low: None, high: None }) {
        return Err(wrong());
    }
    if range.is_empty() {
        return Err(refuse(place, "no number is in this range"));
    }
    Ok(range)
}

/// One value or a list of them, or an operator with one or a list.
fn anything_but(argument: &Value, place: &str) -> Result<Test, PatternError> {
    let wrong = "this is a string, a number, a list of either, or an object with one of prefix, suffix, wildcard, \
                 equals-ignore-case";
    let atoms = match argument {
        Value::Object(members) => match members.as_slice() {
            [(name, argument)]
                if matches!(name.as_str(), "prefix" | "suffix" | "wildcard" | "equals-ignore-case") =>
            {
                let place = below(place, name);
                each(argument, &place, |argument, place| atom(name, argument, place))?
            }
            _ => return Err(refuse(place, wrong)),
        },
        _ => each(argument, place, |value, place| match value {
            Value::Text(text) => Ok(exact(text)),
            Value::Number(form) => Ok(Atom::Exact(form.as_slice().into())),
            Value::Word(_) | Value::List(_) | Value::Object(_) => Err(refuse(place, wrong)),
        })?,
    };
    if matches!(argument, Value::List(values) if values.iter().any(|value| matches!(value, Value::Text(_)))
        && values.iter().any(|value| matches!(value, Value::Number(_))))
    {
        return Err(refuse(place, "the list is of strings or of numbers, and not of both"));
    }
    Ok(Test::AnythingBut(atoms))
}

fn each(
    argument: &Value,
    place: &str,
    read: impl Fn(&Value, &str) -> Result<Atom, PatternError>,
) -> Result<Vec<Atom>, PatternError> {
    let Value::List(values) = argument else { return Ok(vec![read(argument, place)?]) };
    if values.is_empty() {
        return Err(refuse(place, "an empty list leaves out nothing: write {\"exists\": true}"));
    }
    let mut atoms = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        atoms.push(read(value, &format!("{place}/{at}"))?);
    }
    atoms.sort();
    atoms.dedup();
    Ok(atoms)
}
