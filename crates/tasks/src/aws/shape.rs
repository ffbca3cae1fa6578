//! Converts between a definition's spelling and that of the wire.
//!
//! A definition begins every member in upper case, may give JSON where a service wants text, and sees times as ISO
//! 8601. The service's table has its own spelling. Members that are `null` count as absent, and are not sent.

use super::service::{Case, Operation, Protocol, Service, Style};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use perdura_engine::asl::json::{Map, Number, Value};
use perdura_engine::asl::timestamp;

/// Attribute values of DynamoDB whose names differ: on the wire, and in an SDK integration.
const ATTRIBUTES: &[(&str, &str)] =
    &[("BOOL", "Bool"), ("BS", "Bs"), ("NS", "Ns"), ("NULL", "Nul"), ("SS", "Ss")];

/// The arguments in the service's spelling.
pub(super) fn to_wire(operation: &Operation<'_>, arguments: &Map) -> Map {
    members_to_wire(operation, arguments, false)
}

/// `is_map`: users chose the names.
fn members_to_wire(operation: &Operation<'_>, members: &Map, is_map: bool) -> Map {
    let service = operation.service;
    let given = members.iter().filter(|(_, value)| !value.is_null());
    let given = given.map(|(name, value)| {
        if is_map {
            return (name.to_string(), value_to_wire(operation, value, false));
        }
        let wire_name = service.wire_name(name);
        let value = match value {
            Value::String(text) if service.times.contains(&&*wire_name) => {
                seconds(text).map_or_else(|| value.clone(), Value::from)
            }
            Value::String(_) => value.clone(),
            other if service.is_content(name) => other.clone(),
            other if service.texts.contains(&&**name) => other.to_string().into(),
            other if service.blobs.contains(&&**name) => BASE64.encode(other.to_string()).into(),
            other => value_to_wire(operation, other, service.is_map(name)),
        };
        let is_attribute = is_sdk_dynamodb(operation) && members.len() == 1;
        let name = match ATTRIBUTES.iter().find(|(_, written)| is_attribute && **name == **written) {
            Some((wire, _)) if is_attribute_value(&value) => (*wire).to_owned(),
            Some(_) | None => wire_name,
        };
        (name, value)
    });
    given.collect()
}

fn value_to_wire(operation: &Operation<'_>, value: &Value, is_map: bool) -> Value {
    match value {
        Value::Object(members) => members_to_wire(operation, members, is_map).into(),
        Value::Array(items) => items.iter().map(|item| value_to_wire(operation, item, is_map)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// An answer in the spelling of results.
pub(super) fn from_wire(operation: &Operation<'_>, answer: &Value) -> Value {
    match operation.style {
        Style::Sdk => value_from_wire(operation, answer, false),
        Style::Optimized(_) => answer.clone(),
    }
}

fn value_from_wire(operation: &Operation<'_>, value: &Value, is_map: bool) -> Value {
    let service = operation.service;
    match value {
        Value::Object(members) => {
            let is_attribute = is_sdk_dynamodb(operation) && members.len() == 1;
            let shown = members.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                if is_map {
                    return (name.to_string(), value_from_wire(operation, value, false));
                }
                if let Some((_, shown)) = ATTRIBUTES.iter().find(|(wire, _)| is_attribute && **name == **wire)
                    && is_attribute_value(value)
                {
                    return ((*shown).to_owned(), value.clone());
                }
                let shown = service.shown_name(name);
                let value = match value {
                    Value::Number(seconds) if service.times.contains(&&**name) => {
                        time(seconds.as_f64()).into()
                    }
                    other => value_from_wire(operation, other, service.is_map(&shown)),
                };
                (shown, value)
            });
            shown.collect::<Map>().into()
        }
        Value::Array(items) => items.iter().map(|item| value_from_wire(operation, item, is_map)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn is_sdk_dynamodb(operation: &Operation<'_>) -> bool {
    operation.service.name == "dynamodb" && operation.style == Style::Sdk
}

/// Distinguishes it from a plain attribute with that name, whose value is always an object.
fn is_attribute_value(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Array(items) => items.iter().all(|item| item.as_str().is_some()),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Object(_) => false,
    }
}

impl Service {
    fn case(&self) -> Case {
        match self.protocol {
            Protocol::Json { case, .. } => case,
            Protocol::Query { .. } | Protocol::Lambda | Protocol::S3 => Case::Upper,
        }
    }

    /// Whether the member is sent unchanged: the content of an object, or the payload of a function.
    fn is_content(&self, name: &str) -> bool {
        match self.protocol {
            Protocol::Lambda | Protocol::S3 => matches!(name, "Body" | "Payload"),
            Protocol::Json { .. } | Protocol::Query { .. } => false,
        }
    }

    /// Whether users chose the names below this member.
    fn is_map(&self, name: &str) -> bool {
        match self.case() {
            Case::Upper => false,
            Case::Lower { maps } => maps.contains(&name),
        }
    }

    fn wire_name(&self, name: &str) -> String {
        if let Some((wire, _)) = self.renamed.iter().find(|(_, shown)| *shown == name) {
            return (*wire).to_owned();
        }
        match self.case() {
            Case::Upper => name.to_owned(),
            Case::Lower { .. } => with_first(name, char::to_ascii_lowercase),
        }
    }

    fn shown_name(&self, name: &str) -> String {
        if let Some((_, shown)) = self.renamed.iter().find(|(wire, _)| *wire == name) {
            return (*shown).to_owned();
        }
        match self.case() {
            Case::Upper => name.to_owned(),
            Case::Lower { .. } => with_first(name, char::to_ascii_uppercase),
        }
    }
}

fn with_first(name: &str, change: impl Fn(&char) -> char) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| change(&first).to_string() + letters.as_str())
}

/// The seconds since 1970 of a time in ISO 8601. The service itself refuses anything else.
fn seconds(text: &str) -> Option<Number> {
    let ms = timestamp::parse_nanos(text)?.div_euclid(1_000_000);
    Number::from_computed(ms as f64 / 1_000.0)
}

/// Seconds since 1970 in the form of results: `2026-03-04T05:06:07Z`, with milliseconds only if there are some.
fn time(seconds: f64) -> String {
    let text = timestamp::format_ms((seconds * 1_000.0).round() as i64);
    short(&text)
}

/// A time without zero milliseconds.
pub(super) fn short(time: &str) -> String {
    time.strip_suffix(".000Z").map_or_else(|| time.to_owned(), |start| format!("{start}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::service::operation;
    use perdura_engine::asl::json::parse;
    use perdura_engine::asl::resource::Resource;

    fn check(arn: &str, change: impl Fn(&Operation<'_>, &Value) -> Value, given: &str, expected: &str) {
        let resource = Resource::parse(arn).unwrap();
        let operation = operation(&resource).unwrap();
        assert_eq!(change(&operation, &parse(given).unwrap()).to_string(), expected, "{arn} {given}");
    }

    #[test]
    fn arguments_get_the_spelling_of_the_wire() {
        let sfn = "arn:aws:states:::aws-sdk:sfn:startExecution";
        let dynamodb = "arn:aws:states:::aws-sdk:dynamodb:putItem";
        let own_dynamodb = "arn:aws:states:::dynamodb:putItem";
        for (arn, given, expected) in [
            (
                sfn,
                r#"{"StateMachineArn":"a","Input":{"Key":1}}"#,
                r#"{"stateMachineArn":"a","input":"{\"Key\":1}"}"#,
            ),
            (sfn, r#"{"StateMachineArn":"a","Input":null}"#, r#"{"stateMachineArn":"a"}"#),
            (sfn, r#"{"Input":"{\"a\": 1}"}"#, r#"{"input":"{\"a\": 1}"}"#),
            (
                "arn:aws:states:::aws-sdk:sfn:createStateMachine",
                r#"{"Tags":[{"Key":"A","Value":"B"}],"LoggingConfiguration":{"Level":"ALL"}}"#,
                r#"{"tags":[{"key":"A","value":"B"}],"loggingConfiguration":{"level":"ALL"}}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:ecs:runTask",
                r#"{"Overrides":{"ContainerOverrides":[]},"Labels":{"MyLabel":"Yes"}}"#,
                r#"{"overrides":{"containerOverrides":[]},"labels":{"MyLabel":"Yes"}}"#,
            ),
            (
                "arn:aws:states:::sqs:sendMessage",
                r#"{"QueueUrl":"q","MessageBody":{"a":[1]},"DelaySeconds":null}"#,
                r#"{"QueueUrl":"q","MessageBody":"{\"a\":[1]}"}"#,
            ),
            ("arn:aws:states:::sqs:sendMessage", r#"{"MessageBody":17}"#, r#"{"MessageBody":"17"}"#),
            (
                "arn:aws:states:::events:putEvents",
                r#"{"Entries":[{"Detail":{"a":1},"Source":"s"}]}"#,
                r#"{"Entries":[{"Detail":"{\"a\":1}","Source":"s"}]}"#,
            ),
            (
                "arn:aws:states:::events:putEvents",
                r#"{"Entries":[{"Time":"2026-03-04T05:06:07.5Z"},{"Time":"2026-03-04T06:06:07+01:00"},{"Time":"soon"}]}"#,
                r#"{"Entries":[{"Time":1772600767.5},{"Time":1772600767},{"Time":"soon"}]}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:kinesis:putRecord",
                r#"{"Data":{"a":1},"PartitionKey":"p"}"#,
                r#"{"Data":"eyJhIjoxfQ==","PartitionKey":"p"}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:kms:decrypt",
                r#"{"CiphertextBlob":"AQI="}"#,
                r#"{"CiphertextBlob":"AQI="}"#,
            ),
            (
                dynamodb,
                r#"{"Item":{"id":{"S":"1"},"ok":{"Bool":true},"t":{"Ss":["a"]},"none":{"Nul":true}}}"#,
                r#"{"Item":{"id":{"S":"1"},"ok":{"BOOL":true},"t":{"SS":["a"]},"none":{"NULL":true}}}"#,
            ),
            (dynamodb, r#"{"Item":{"Ss":{"S":"an attribute"}}}"#, r#"{"Item":{"Ss":{"S":"an attribute"}}}"#),
            (own_dynamodb, r#"{"Item":{"ok":{"BOOL":true}}}"#, r#"{"Item":{"ok":{"BOOL":true}}}"#),
            (own_dynamodb, r#"{"TableName":"t","Item":null}"#, r#"{"TableName":"t"}"#),
            (
                "arn:aws:states:::aws-sdk:s3:putObject",
                r#"{"Body":{"a":null},"Metadata":null}"#,
                r#"{"Body":{"a":null}}"#,
            ),
        ] {
            let to_wire = |operation: &Operation<'_>, value: &Value| {
                to_wire(operation, value.as_object().expect("an object")).into()
            };
            check(arn, to_wire, given, expected);
        }
    }

    #[test]
    fn answers_get_the_spelling_of_a_definition() {
        for (arn, given, expected) in [
            (
                "arn:aws:states:::aws-sdk:sfn:startExecution",
                r#"{"executionArn":"e","startDate":1772600767.123}"#,
                r#"{"ExecutionArn":"e","StartDate":"2026-03-04T05:06:07.123Z"}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:sfn:describeExecution",
                r#"{"startDate":1772600767,"output":"{\"a\":1}","stopDate":null}"#,
                r#"{"StartDate":"2026-03-04T05:06:07Z","Output":"{\"a\":1}"}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:cloudwatchlogs:describeLogGroups",
                r#"{"logGroups":[{"creationTime":1772600767123}]}"#,
                r#"{"LogGroups":[{"CreationTime":1772600767123}]}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:cloudwatchlogs:listTagsForResource",
                r#"{"tags":{"myTag":"x"}}"#,
                r#"{"Tags":{"myTag":"x"}}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:secretsmanager:createSecret",
                r#"{"ARN":"a","Name":"n"}"#,
                r#"{"Arn":"a","Name":"n"}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:sqs:sendMessage",
                r#"{"MD5OfMessageBody":"m","MessageId":"i"}"#,
                r#"{"Md5OfMessageBody":"m","MessageId":"i"}"#,
            ),
            (
                "arn:aws:states:::sqs:sendMessage",
                r#"{"MD5OfMessageBody":"m","MessageId":"i"}"#,
                r#"{"MD5OfMessageBody":"m","MessageId":"i"}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:dynamodb:getItem",
                r#"{"Item":{"ok":{"BOOL":false},"l":{"L":[{"NULL":true}]},"SS":{"S":"x"}}}"#,
                r#"{"Item":{"ok":{"Bool":false},"l":{"L":[{"Nul":true}]},"SS":{"S":"x"}}}"#,
            ),
            (
                "arn:aws:states:::dynamodb:getItem",
                r#"{"Item":{"ok":{"BOOL":false}}}"#,
                r#"{"Item":{"ok":{"BOOL":false}}}"#,
            ),
            (
                "arn:aws:states:::aws-sdk:dynamodb:describeTable",
                r#"{"Table":{"CreationDateTime":1.5,"ItemCount":0}}"#,
                r#"{"Table":{"CreationDateTime":"1970-01-01T00:00:01.500Z","ItemCount":0}}"#,
            ),
        ] {
            check(arn, from_wire, given, expected);
        }
    }
}
