//! What AWS services answer, and whether a mocked result could be such an answer.
//!
//! `shapes.txt` lists the services that are known; it explains its own form. What is not listed is not checked, as
//! AWS checks no member that its own model does not have.

use super::mock::Strictness;
use perdura_asl::json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("shapes.txt")));

/// What is wrong with `result` as the answer of `service:action`; `None`: nothing, or the service is not listed.
pub(super) fn complaint(
    service: &str,
    action: &str,
    result: &Value,
    strictness: Strictness,
) -> Option<String> {
    let structure = TABLE.answer(service, action)?;
    let Value::Object(_) = result else { return Some("Mocked result must be a JSON object.".into()) };
    let found = TABLE.check_members(structure, result, strictness)?;
    Some(format!("Mock result schema validation error: {found}"))
}

type Structure = Vec<Member>;

#[derive(Default)]
struct Table {
    aliases: BTreeMap<&'static str, &'static str>,
    answers: BTreeMap<&'static str, Structure>,
    shapes: BTreeMap<&'static str, Structure>,
}

struct Member {
    name: &'static str,
    is_required: bool,
    kind: Shape,
}

enum Shape {
    Text { least: usize, most: Option<usize> },
    Number,
    Boolean,
    Timestamp,
    Any,
    List(Box<Shape>),
    Map(Box<Shape>),
    Structure(&'static str),
}

impl Table {
    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut open: Option<&mut Structure> = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(member) = line.strip_prefix("  ") {
                let structure = open.as_mut().expect("a member belongs to what begins above it");
                structure.push(Member::parse(member));
            } else if let Some(alias) = line.strip_prefix("alias ") {
                let (name, service) = alias.split_once(' ').expect("an alias has two names");
                table.aliases.insert(name, service);
            } else if let Some(name) = line.strip_prefix("shape ") {
                open = Some(table.shapes.entry(name).or_default());
            } else {
                open = Some(table.answers.entry(line).or_default());
            }
        }
        table
    }

    fn answer(&self, service: &str, action: &str) -> Option<&Structure> {
        let service = service.strip_prefix("aws-sdk:").unwrap_or(service);
        let service = self.aliases.get(service).copied().unwrap_or(service);
        self.answers.get(&*format!("{service}:{action}"))
    }

    fn check_members(&self, structure: &Structure, value: &Value, strictness: Strictness) -> Option<String> {
        structure.iter().find_map(|Member { name, is_required, kind }| match value.get(name) {
            Some(value) => self.check(kind, value, name, strictness),
            None if *is_required && strictness == Strictness::Strict => {
                Some(format!("Field '{name}' is required"))
            }
            None => None,
        })
    }

    /// What is wrong with a value; whatever nests in a list or a map is spoken of by the member's name.
    fn check(&self, kind: &Shape, value: &Value, name: &str, strictness: Strictness) -> Option<String> {
        let must_be = |what: &str| Some(format!("Field '{name}' must be {what}"));
        match (kind, value) {
            (Shape::Any, _)
            | (Shape::Number, Value::Number(_))
            | (Shape::Boolean, Value::Bool(_))
            | (Shape::Timestamp, Value::String(_) | Value::Number(_)) => None,
            (Shape::Text { least, most }, Value::String(text)) => {
                let length = text.chars().count();
                if length < *least {
                    Some(format!("Field '{name}' is smaller than the minimum length"))
                } else if most.is_some_and(|most| length > most) {
                    Some(format!("Field '{name}' is larger than the maximum length"))
                } else {
                    None
                }
            }
            (Shape::List(of), Value::Array(items)) => {
                items.iter().find_map(|item| self.check(of, item, name, strictness))
            }
            (Shape::Map(of), Value::Object(members)) => {
                members.values().find_map(|member| self.check(of, member, name, strictness))
            }
            (Shape::Structure(shape), Value::Object(_)) => {
                self.check_members(&self.shapes[shape], value, strictness)
            }
            (Shape::Text { .. } | Shape::Timestamp, _) => must_be("a string"),
            (Shape::Number, _) => must_be("a number"),
            (Shape::Boolean, _) => must_be("a boolean"),
            (Shape::List(_), _) => must_be("an array"),
            (Shape::Map(_) | Shape::Structure(_), _) => must_be("an object"),
        }
    }
}

impl Member {
    fn parse(line: &'static str) -> Self {
        let (name, kind) = line.split_once(' ').expect("a member has a name and a type");
        let plain = name.strip_suffix('!');
        Self { name: plain.unwrap_or(name), is_required: plain.is_some(), kind: Shape::parse(kind) }
    }
}

impl Shape {
    fn parse(text: &'static str) -> Self {
        if let Some(of) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            return Self::List(Box::new(Self::parse(of)));
        }
        if let Some(of) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            return Self::Map(Box::new(Self::parse(of)));
        }
        if let Some(range) = text.strip_prefix("string(").and_then(|text| text.strip_suffix(')')) {
            let (least, most) = range.split_once("..").expect("a length is a range");
            let length = |text: &str| text.parse().expect("a length is a number");
            let least = if least.is_empty() { 0 } else { length(least) };
            return Self::Text { least, most: (!most.is_empty()).then(|| length(most)) };
        }
        match text {
            "string" => Self::Text { least: 0, most: None },
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "timestamp" => Self::Timestamp,
            "any" => Self::Any,
            name => Self::Structure(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_asl::json::parse;

    #[test]
    fn every_shape_that_the_table_refers_to_is_in_it() {
        fn check(table: &Table, kind: &Shape) {
            match kind {
                Shape::List(of) | Shape::Map(of) => check(table, of),
                Shape::Structure(name) => assert!(table.shapes.contains_key(name), "{name}"),
                Shape::Text { .. } | Shape::Number | Shape::Boolean | Shape::Timestamp | Shape::Any => {}
            }
        }
        assert!(TABLE.answers.len() > 50);
        for structure in TABLE.answers.values().chain(TABLE.shapes.values()) {
            for member in structure {
                check(&TABLE, &member.kind);
            }
        }
        for service in TABLE.aliases.values() {
            let prefix = format!("{service}:");
            assert!(TABLE.answers.keys().any(|name| name.starts_with(&prefix)), "{service}");
        }
    }

    #[test]
    fn a_mock_is_measured_by_what_its_service_answers() {
        use Strictness::{Present, Strict};
        let deep = r#"{"Item": {"a": {"L": [{"M": {"b": {"BOOL": "yes"}}}]}}}"#;
        for (service, action, result, strictness, expected) in [
            ("dynamodb", "getItem", deep, Strict, Some("Field 'BOOL' must be a boolean")),
            ("aws-sdk:dynamodb", "getItem", deep, Present, Some("Field 'BOOL' must be a boolean")),
            ("dynamodb", "getItem", r#"{"Item": []}"#, Strict, Some("Field 'Item' must be an object")),
            ("dynamodb", "query", r#"{"Items": {}}"#, Strict, Some("Field 'Items' must be an array")),
            (
                "states",
                "startExecution",
                r#"{"StartDate": 1}"#,
                Strict,
                Some("Field 'ExecutionArn' is required"),
            ),
            ("aws-sdk:sfn", "startExecution", r#"{"StartDate": 1}"#, Present, None),
            (
                "states",
                "startExecution",
                r#"{"StartDate": true}"#,
                Present,
                Some("Field 'StartDate' must be a string"),
            ),
            (
                "aws-sdk:kms",
                "encrypt",
                r#"{"CiphertextBlob": ""}"#,
                Strict,
                Some("Field 'CiphertextBlob' is smaller than the minimum length"),
            ),
            ("lambda", "invoke", r#"{"Payload": [1], "other": {}}"#, Strict, None),
            ("nowhere", "nothing", r#"{"Items": 1}"#, Strict, None),
            ("dynamodb", "getItem", "{}", Strict, None),
        ] {
            let found = complaint(service, action, &parse(result).unwrap(), strictness);
            let expected = expected.map(|text| format!("Mock result schema validation error: {text}"));
            assert_eq!(found, expected, "{service}:{action} {result}");
        }
    }
}
