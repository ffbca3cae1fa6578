//! The service's model of requests: their members, and what each may be.
//!
//! The table of actions lists the members; [`check`] checks a request against them. It complains as AWS does: about all
//! that is wrong at once, in the order of the table, and about a wrong type before anything else. Unknown members are
//! ignored. What the table does not say, that an ARN is one of ours or that a name is taken, the action checks itself.

use super::error::{ApiError, Code};
use perdura_engine::asl::json::{Map, Value};
use std::fmt::Write;

/// One member of a structure.
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) is_required: bool,
    pub(super) shape: Shape,
}

/// The type and the bounds of a member.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Length in characters.
    Text {
        min: usize,
        max: usize,
        pattern: Option<Pattern>,
        is_sensitive: bool,
    },
    /// JSON in a string. AWS's upper bound holds only in strict mode; without it the bound is the body's.
    Document {
        min: usize,
        max: usize,
    },
    OneOf(&'static [&'static str]),
    Flag,
    Integer {
        min: i64,
        max: i64,
    },
    Float {
        min: f64,
        max: f64,
    },
    Object {
        type_name: &'static str,
        members: &'static [Member],
    },
    List {
        min: usize,
        max: usize,
        item: &'static Shape,
    },
}

/// A pattern of the model.
#[derive(Clone, Copy)]
pub(super) enum Pattern {
    AliasName,
    Printable,
    Ascii,
}

impl Pattern {
    fn text(self) -> &'static str {
        match self {
            Self::AliasName => r"^(?=.*[a-zA-Z_\-\.])[a-zA-Z0-9_\-\.]+$",
            Self::Printable => "[!-~]+",
            Self::Ascii => r"\p{ASCII}*",
        }
    }

    fn fits(self, text: &str) -> bool {
        let mark = |char: char| matches!(char, '_' | '-' | '.');
        match self {
            Self::AliasName => {
                text.chars().all(|char| char.is_ascii_alphanumeric() || mark(char))
                    && text.chars().any(|char| char.is_ascii_alphabetic() || mark(char))
            }
            Self::Printable => text.chars().all(|char| char.is_ascii_graphic()),
            Self::Ascii => text.is_ascii(),
        }
    }
}

/// Checks a request against the model.
pub(super) fn check(members: &[Member], request: &Map, is_strict: bool) -> Result<(), ApiError> {
    types(request, members)?;
    let mut complaints = Complaints { found: Vec::new(), is_strict };
    complaints.structure(request, members, "");
    match complaints.found.len() {
        0 => Ok(()),
        1 => Err(ApiError::invalid(format!("1 validation error detected: {}", complaints.found[0]))),
        count => {
            let all = complaints.found.join("; ");
            Err(ApiError::invalid(format!("{count} validation errors detected: {all}")))
        }
    }
}

/// Checks the types of all members.
fn types(given: &Map, members: &[Member]) -> Result<(), ApiError> {
    for member in members {
        if let Some(value) = given.get(member.name).filter(|value| !value.is_null()) {
            type_of(value, &member.shape)?;
        }
    }
    Ok(())
}

fn type_of(value: &Value, shape: &Shape) -> Result<(), ApiError> {
    let wanted = match (shape, value) {
        (Shape::Text { .. } | Shape::Document { .. } | Shape::OneOf(_), Value::String(_))
        | (Shape::Flag, Value::Bool(_))
        | (Shape::Float { .. }, Value::Number(_)) => return Ok(()),
        (Shape::Integer { .. }, Value::Number(number)) if number.as_i64().is_some() => return Ok(()),
        (Shape::Object { members, .. }, Value::Object(given)) => return types(given, members),
        (Shape::List { item, .. }, Value::Array(items)) => {
            let mut given = items.iter().filter(|value| !value.is_null());
            return given.try_for_each(|value| type_of(value, item));
        }
        (Shape::Text { .. } | Shape::Document { .. } | Shape::OneOf(_), _) => "String",
        (Shape::Flag, _) => "Boolean",
        (Shape::Integer { .. }, _) => "Integer",
        (Shape::Float { .. }, _) => "Float",
        (Shape::Object { .. } | Shape::List { .. }, _) => "",
    };
    let found = match value {
        Value::Array(_) | Value::Object(_) if wanted.is_empty() => "Unexpected container type".to_owned(),
        Value::Array(_) => "Unrecognized collection type class java.lang.String".to_owned(),
        Value::Object(_) => "Start of structure or map found where not expected.".to_owned(),
        _ if wanted.is_empty() => "Unexpected field type".to_owned(),
        Value::Number(number) if number.is_integer() => {
            format!("NUMBER_VALUE cannot be converted to {wanted}")
        }
        Value::Number(_) => format!("DECIMAL_VALUE cannot be converted to {wanted}"),
        Value::Bool(true) => format!("TRUE_VALUE cannot be converted to {wanted}"),
        Value::Bool(false) => format!("FALSE_VALUE cannot be converted to {wanted}"),
        Value::String(_) | Value::Null => format!("STRING_VALUE cannot be converted to {wanted}"),
    };
    Err(ApiError::new(Code::SerializationException, found))
}

/// Complaints about a request whose types are right.
struct Complaints {
    found: Vec<String>,
    is_strict: bool,
}

impl Complaints {
    fn structure(&mut self, given: &Map, members: &[Member], place: &str) {
        for member in members {
            let place =
                if place.is_empty() { member.name.to_owned() } else { format!("{place}.{}", member.name) };
            match given.get(member.name).filter(|value| !value.is_null()) {
                Some(value) => self.value(value, &member.shape, &place),
                None if member.is_required => {
                    self.found.push(format!(
                        "Value null at '{place}' failed to satisfy constraint: Member must not be null"
                    ));
                }
                None => {}
            }
        }
    }

    fn value(&mut self, value: &Value, shape: &Shape, place: &str) {
        match (shape, value) {
            (Shape::Text { min, max, pattern, is_sensitive }, Value::String(text)) => {
                let length = text.chars().count();
                let shown = (!is_sensitive).then(|| text.to_string());
                self.length(length, *min, *max, shown.as_deref(), place);
                if let Some(pattern) = pattern.filter(|pattern| length > 0 && !pattern.fits(text)) {
                    let must = format!("Member must satisfy regular expression pattern: {}", pattern.text());
                    self.complain(shown.as_deref(), place, &must);
                }
            }
            (Shape::Document { min, max }, Value::String(text)) => {
                let max = if self.is_strict { *max } else { usize::MAX };
                self.length(text.chars().count(), *min, max, None, place);
            }
            (Shape::OneOf(words), Value::String(text)) if !words.contains(&&**text) => {
                let must = format!("Member must satisfy enum value set: [{}]", words.join(", "));
                self.complain(Some(text), place, &must);
            }
            (Shape::Integer { min, max }, Value::Number(number)) => {
                let given = number.as_i64().unwrap_or_default();
                let shown = given.to_string();
                if given < *min {
                    let must = format!("Member must have value greater than or equal to {min}");
                    self.complain(Some(&shown), place, &must);
                } else if given > *max {
                    self.complain(
                        Some(&shown),
                        place,
                        &format!("Member must have value less than or equal to {max}"),
                    );
                }
            }
            (Shape::Float { min, max }, Value::Number(number)) => {
                let (given, shown) = (number.as_f64(), number.to_string());
                if given < *min {
                    let must = format!("Member must have value greater than or equal to {min}");
                    self.complain(Some(&shown), place, &must);
                } else if given > *max {
                    self.complain(
                        Some(&shown),
                        place,
                        &format!("Member must have value less than or equal to {max}"),
                    );
                }
            }
            (Shape::Object { members, .. }, Value::Object(given)) => self.structure(given, members, place),
            (Shape::List { min, max, item }, Value::Array(items)) => {
                if items.len() < *min || items.len() > *max {
                    let shown = as_java(value, shape);
                    self.length(items.len(), *min, *max, Some(&shown), place);
                }
                for (at, value) in items.iter().enumerate() {
                    self.value(value, item, &format!("{place}.{}.member", at + 1));
                }
            }
            // A word of the list, or null: `types` has checked everything else.
            _ => {}
        }
    }

    fn length(&mut self, length: usize, min: usize, max: usize, shown: Option<&str>, place: &str) {
        if length < min {
            self.complain(shown, place, &format!("Member must have length greater than or equal to {min}"));
        } else if length > max {
            self.complain(shown, place, &format!("Member must have length less than or equal to {max}"));
        }
    }

    fn complain(&mut self, shown: Option<&str>, place: &str, must: &str) {
        let shown = shown.map_or_else(String::new, |shown| format!(" '{shown}'"));
        self.found.push(format!("Value{shown} at '{place}' failed to satisfy constraint: {must}"));
    }
}

/// A value as AWS prints it in a complaint.
fn as_java(value: &Value, shape: &Shape) -> String {
    match (value, shape) {
        (Value::Array(items), Shape::List { item, .. }) => {
            let items: Vec<String> = items.iter().map(|value| as_java(value, item)).collect();
            format!("[{}]", items.join(", "))
        }
        (Value::Object(given), Shape::Object { type_name, members }) => {
            let mut shown = format!("{type_name}(");
            for (at, member) in members.iter().enumerate() {
                let value = given
                    .get(member.name)
                    .map_or_else(|| "null".into(), |value| as_java(value, &member.shape));
                let comma = if at == 0 { "" } else { ", " };
                write!(shown, "{comma}{}={value}", member.name).expect("a text takes everything");
            }
            shown + ")"
        }
        (Value::String(text), _) => text.to_string(),
        (value, _) => value.to_string(),
    }
}

#[cfg(test)]
mod bounds;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sfn::actions::{ACTIONS, find};
    use perdura_engine::asl::json::parse;

    fn complaint(action: &str, request: &str, is_strict: bool) -> Option<String> {
        let Value::Object(request) = parse(request).unwrap() else { panic!("{request}") };
        let checked = check(find(action).unwrap().members, &request, is_strict);
        checked.err().map(|error| format!("{}: {}", error.code.name(), error.message))
    }

    #[test]
    fn every_required_member_is_missed() {
        for action in &ACTIONS {
            let told = complaint(action.name, "{}", false).unwrap_or_default();
            for member in action.members.iter().filter(|member| member.is_required) {
                let missing = format!("Value null at '{}' failed to satisfy constraint", member.name);
                assert!(told.contains(&missing), "{}: {told}", action.name);
            }
        }
    }

    #[test]
    fn requests_are_complained_about_as_aws_does() {
        let long = format!(r#"{{"name": "{}", "definition": "d", "roleArn": "a"}}"#, "x".repeat(81));
        let long_told = format!(
            "ValidationException: 1 validation error detected: Value '{}' at 'name' failed to satisfy constraint: \
             Member must have length less than or equal to 80",
            "x".repeat(81)
        );
        let cases: &[(&str, &str, &str)] = &[
            ("ListStateMachines", r#"{"maxResults": 1000, "color": [1]}"#, ""),
            ("ListStateMachines", r#"{"maxResults": null}"#, ""),
            ("CreateStateMachine", &long, &long_told),
            (
                "StopExecution",
                r#"{"cause": "c"}"#,
                "ValidationException: 1 validation error detected: Value null at 'executionArn' failed to satisfy \
                 constraint: Member must not be null",
            ),
            (
                "ListStateMachines",
                r#"{"maxResults": 1001, "nextToken": ""}"#,
                "ValidationException: 2 validation errors detected: Value '1001' at 'maxResults' failed to satisfy \
                 constraint: Member must have value less than or equal to 1000; Value '' at 'nextToken' failed to \
                 satisfy constraint: Member must have length greater than or equal to 1",
            ),
            (
                "CreateActivity",
                r#"{"name": "a", "tags": [{"key": ""}]}"#,
                "ValidationException: 1 validation error detected: Value '' at 'tags.1.member.key' failed to satisfy \
                 constraint: Member must have length greater than or equal to 1",
            ),
            (
                "SendTaskHeartbeat",
                r#"{"taskToken": ""}"#,
                "ValidationException: 1 validation error detected: Value at 'taskToken' failed to satisfy \
                 constraint: Member must have length greater than or equal to 1",
            ),
            (
                "UpdateMapRun",
                r#"{"mapRunArn": "a", "toleratedFailurePercentage": 100.5}"#,
                "ValidationException: 1 validation error detected: Value '100.5' at 'toleratedFailurePercentage' \
                 failed to satisfy constraint: Member must have value less than or equal to 100",
            ),
            (
                "StartExecution",
                r#"{"stateMachineArn": {}}"#,
                "SerializationException: Start of structure or map found where not expected.",
            ),
            (
                "StartExecution",
                r#"{"stateMachineArn": 1.5}"#,
                "SerializationException: DECIMAL_VALUE cannot be converted to String",
            ),
            (
                "GetExecutionHistory",
                r#"{"reverseOrder": "yes"}"#,
                "SerializationException: STRING_VALUE cannot be converted to Boolean",
            ),
        ];
        for (action, request, expected) in cases {
            assert_eq!(
                complaint(action, request, false).unwrap_or_default(),
                *expected,
                "{action} {request}"
            );
        }
    }

    #[test]
    fn aws_bounds_payloads_in_strict_mode_alone() {
        let request = format!(r#"{{"stateMachineArn": "a", "input": "{}"}}"#, "x".repeat(262_145));
        assert_eq!(complaint("StartExecution", &request, false), None);
        let told = complaint("StartExecution", &request, true).unwrap();
        assert!(told.ends_with("Value at 'input' failed to satisfy constraint: Member must have length less than or equal to 262144"));
    }
}
