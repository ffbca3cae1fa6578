//! The answers of AWS services, to check a mocked result.
//!
//! `shapes.txt` lists the known services; it explains its own format, and `scripts/mock-shapes` writes it. Other
//! services are not checked, just as AWS checks no member outside of its own model.

use super::mock::Strictness;
use perdura_asl::json::Value;
use perdura_asl::jsonata::Matching;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("shapes.txt")));

/// The mistake in `result` as the answer of `service:action`; `None`: none, or the service is not listed.
pub(super) fn complaint(
    service: &str,
    action: &str,
    result: &Value,
    strictness: Strictness,
) -> Option<String> {
    let structure = TABLE.answer(service, action)?;
    let Value::Object(_) = result else { return Some("Mocked result must be a JSON object.".into()) };
    let found =
        Check { table: &TABLE, strictness, matching: Matching::default() }.members(structure, result)?;
    Some(format!("Mock result schema validation error: {found}"))
}

type Structure = Vec<Member>;

#[derive(Default)]
struct Table {
    aliases: BTreeMap<&'static str, &'static str>,
    answers: BTreeMap<&'static str, Structure>,
    shapes: BTreeMap<&'static str, Structure>,
    enums: BTreeMap<&'static str, &'static str>,
}

struct Member {
    name: &'static str,
    is_required: bool,
    kind: Shape,
}

enum Shape {
    Text {
        least: usize,
        most: Option<usize>,
        pattern: Option<&'static str>,
    },
    Number {
        least: Option<f64>,
        most: Option<f64>,
    },
    Boolean,
    Timestamp,
    Any,
    List(Box<Shape>),
    Map(Box<Shape>),
    /// A structure, or a set of values.
    Named(&'static str),
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
            } else if let Some(set) = line.strip_prefix("enum ") {
                let (name, values) = set.split_once(' ').expect("a set has a name and values");
                table.enums.insert(name, values);
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
}

/// One mock under the eyes of the table.
struct Check<'t> {
    table: &'t Table,
    strictness: Strictness,
    matching: Matching,
}

impl Check<'_> {
    /// Only the first mistake is reported: first missing members, then present ones, in the order of the mock.
    fn members(&self, structure: &Structure, value: &Value) -> Option<String> {
        let mut wanted =
            structure.iter().filter(|member| member.is_required && self.strictness == Strictness::Strict);
        if let Some(missing) = wanted.find(|member| value.get(member.name).is_none()) {
            return Some(format!("Required field '{}' is missing", missing.name));
        }
        value.as_object()?.iter().find_map(|(name, value)| {
            let member = structure.iter().find(|member| *member.name == **name)?;
            self.value(&member.kind, value, name)
        })
    }

    /// The mistake in a value; values nested in a list or a map are reported under the member's name.
    fn value(&self, kind: &Shape, value: &Value, name: &str) -> Option<String> {
        let must_be = |what: &str| Some(format!("Field '{name}' must be {what}"));
        match (kind, value) {
            (Shape::Any, _) | (Shape::Boolean, Value::Bool(_)) | (Shape::Timestamp, Value::String(_)) => None,
            (Shape::Number { least, most }, Value::Number(number)) => {
                let number = number.as_f64();
                if least.is_some_and(|least| number < least) {
                    Some(format!("Field '{name}' is less than the minimum value"))
                } else if most.is_some_and(|most| number > most) {
                    Some(format!("Field '{name}' exceeds the maximum value"))
                } else {
                    None
                }
            }
            (Shape::Text { least, most, pattern }, Value::String(text)) => {
                let length = text.chars().count();
                if length < *least {
                    Some(format!("Field '{name}' is smaller than the minimum length"))
                } else if most.is_some_and(|most| length > most) {
                    Some(format!("Field '{name}' exceeds the maximum length"))
                } else if pattern.is_some_and(|pattern| self.matching.whole(pattern, text) == Some(false)) {
                    Some(format!("Field '{name}' does not match the expected pattern"))
                } else {
                    None
                }
            }
            (Shape::List(of), Value::Array(items)) => {
                items.iter().find_map(|item| self.value(of, item, name))
            }
            (Shape::Map(of), Value::Object(members)) => {
                members.values().find_map(|member| self.value(of, member, name))
            }
            (Shape::Named(shape), _) => match (self.table.enums.get(shape), value) {
                (Some(values), Value::String(text)) => {
                    let is_one = values.split('|').any(|value| value == &**text);
                    (!is_one).then(|| format!("Field '{name}' is not an expected value"))
                }
                (Some(_), _) => must_be("a string"),
                (None, Value::Object(_)) => self.members(&self.table.shapes[shape], value),
                (None, _) => must_be("an object"),
            },
            (Shape::Text { .. } | Shape::Timestamp, _) => must_be("a string"),
            (Shape::Number { .. }, _) => must_be("a number"),
            (Shape::Boolean, _) => must_be("a boolean"),
            (Shape::List(_), _) => must_be("an array"),
            (Shape::Map(_), _) => must_be("an object"),
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
        let (text, pattern) =
            text.split_once('~').map_or((text, None), |(text, pattern)| (text, Some(pattern)));
        if let Some((least, most)) = bounds(text, "string(") {
            return Self::Text { least: least.unwrap_or(0), most, pattern };
        }
        if let Some((least, most)) = bounds(text, "number(") {
            return Self::Number { least, most };
        }
        match text {
            "string" => Self::Text { least: 0, most: None, pattern },
            "number" => Self::Number { least: None, most: None },
            "boolean" => Self::Boolean,
            "timestamp" => Self::Timestamp,
            "any" => Self::Any,
            name => Self::Named(name),
        }
    }
}

/// The two ends of a range, of which one may be missing.
fn bounds<T: FromStr>(text: &str, kind: &str) -> Option<(Option<T>, Option<T>)> {
    let range = text.strip_prefix(kind)?.strip_suffix(')').expect("a range ends");
    let (least, most) = range.split_once("..").expect("a range has two ends");
    let end = |text: &str| {
        let read = |text: &str| text.parse().ok().expect("an end is a number");
        (!text.is_empty()).then(|| read(text))
    };
    Some((end(least), end(most)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_asl::json::parse;

    #[test]
    fn every_shape_that_the_table_refers_to_is_in_it_and_every_pattern_can_be_read() {
        fn check(table: &Table, kind: &Shape) {
            match kind {
                Shape::List(of) | Shape::Map(of) => check(table, of),
                Shape::Named(name) => {
                    assert!(table.shapes.contains_key(name) != table.enums.contains_key(name), "{name}");
                }
                Shape::Text { pattern: Some(pattern), .. } => {
                    assert!(Matching::default().whole(pattern, "").is_some(), "{pattern}");
                }
                Shape::Text { pattern: None, .. }
                | Shape::Number { .. }
                | Shape::Boolean
                | Shape::Timestamp
                | Shape::Any => {}
            }
        }
        assert!(TABLE.answers.len() > 500);
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
                Some("Required field 'ExecutionArn' is missing"),
            ),
            ("aws-sdk:sfn", "startExecution", r#"{"StartDate": "soon"}"#, Present, None),
            (
                "aws-sdk:sfn",
                "startExecution",
                r#"{"StartDate": 1764103483}"#,
                Present,
                Some("Field 'StartDate' must be a string"),
            ),
            (
                "aws-sdk:lambda",
                "getFunctionConfiguration",
                r#"{"Timeout": 0}"#,
                Strict,
                Some("Field 'Timeout' is less than the minimum value"),
            ),
            ("aws-sdk:lambda", "getFunctionConfiguration", r#"{"Timeout": 1}"#, Strict, None),
            (
                "aws-sdk:sqs",
                "listQueues",
                r#"{"QueueUrls": ["a", 1]}"#,
                Strict,
                Some("Field 'QueueUrls' must be a string"),
            ),
            (
                "aws-sdk:sfn",
                "describeExecution",
                r#"{"Status": "ASLEEP"}"#,
                Present,
                Some("Field 'Status' is not an expected value"),
            ),
            (
                "aws-sdk:sfn",
                "describeExecution",
                r#"{"Status": 1}"#,
                Present,
                Some("Field 'Status' must be a string"),
            ),
            ("aws-sdk:sfn", "describeExecution", r#"{"Status": "RUNNING"}"#, Present, None),
            (
                "aws-sdk:dynamodb",
                "getItem",
                r#"{"Item": {"a": {"Bool": 1}}}"#,
                Strict,
                Some("Field 'Bool' must be a boolean"),
            ),
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
            (
                "lambda",
                "invoke",
                r#"{"ExecutedVersion": "live"}"#,
                Strict,
                Some("Field 'ExecutedVersion' does not match the expected pattern"),
            ),
            ("lambda", "invoke", r#"{"ExecutedVersion": "$LATEST"}"#, Strict, None),
            (
                "aws-sdk:scheduler",
                "getSchedule",
                r#"{"ScheduleExpressionTimezone": "Europe/A town whose name is longer than any other one in it"}"#,
                Present,
                Some("Field 'ScheduleExpressionTimezone' exceeds the maximum length"),
            ),
            (
                "aws-sdk:dynamodb",
                "listTables",
                r#"{"TableNames": ["orders", "two words"]}"#,
                Present,
                Some("Field 'TableNames' does not match the expected pattern"),
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
