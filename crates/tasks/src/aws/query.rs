//! The query protocol: a form that is answered with XML. SNS and STS use it.

use super::outcome::Refusal;
use super::request::{Request, push_pair};
use super::service::Operation;
use super::xml::{self, Element};
use crate::client::Incoming;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use perdura_engine::asl::json::{Map, Value};

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");

/// Members that are maps with chosen names, and the names of their keys and values in the form.
const MAPS: &[(&str, &str, &str)] =
    &[("MessageAttributes", "Name", "Value"), ("Attributes", "key", "value"), ("attributes", "key", "value")];
/// Actions of SNS that begin their members in lower case.
const LOWER: &[&str] = &[
    "checkIfPhoneNumberIsOptedOut",
    "getSMSAttributes",
    "listPhoneNumbersOptedOut",
    "optInPhoneNumber",
    "setSMSAttributes",
];
/// Lists that must be told from text when they are empty.
const LISTS: &[&str] = &[
    "Endpoints",
    "Failed",
    "PhoneNumbers",
    "PlatformApplications",
    "Subscriptions",
    "Successful",
    "Tags",
    "Topics",
];
const TRUTHS: &[&str] = &["IsOptedOut", "SenderFault"];
const NUMBERS: &[&str] = &["PackedPolicySize"];

/// Builds the request; arguments are spelled as on the wire.
pub(super) fn request(operation: &Operation<'_>, version: &str, arguments: &Map) -> Request {
    let mut form = String::new();
    push_pair(&mut form, "Action", &operation.wire_action());
    push_pair(&mut form, "Version", version);
    for (name, value) in arguments.iter() {
        let name = if LOWER.contains(&operation.action) { with_lower(name) } else { name.to_string() };
        push(&mut form, &name, &name, value);
    }
    Request {
        method: http::Method::POST,
        path: "/".to_owned(),
        query: String::new(),
        headers: HeaderMap::from_iter([(CONTENT_TYPE, FORM)]),
        body: Bytes::from(form),
    }
}

fn with_lower(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + letters.as_str())
}

fn push(form: &mut String, path: &str, name: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => push_pair(form, path, &value.to_string()),
        Value::String(text) => push_pair(form, path, text),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                push(form, &format!("{path}.member.{}", at + 1), "", item);
            }
        }
        Value::Object(members) => match MAPS.iter().find(|(map, _, _)| *map == name) {
            Some((_, key, entry)) => {
                for (at, (name, value)) in members.iter().enumerate() {
                    let path = format!("{path}.entry.{}", at + 1);
                    push_pair(form, &format!("{path}.{key}"), name);
                    push(form, &format!("{path}.{entry}"), "", value);
                }
            }
            None => {
                for (name, value) in members.iter() {
                    push(form, &format!("{path}.{name}"), name, value);
                }
            }
        },
    }
}

/// The result in an answer, and the id of the request.
pub(super) fn read(body: &[u8]) -> Result<(Value, Option<String>), String> {
    let root = xml::read(body)?;
    let result = root.children.iter().find(|child| child.name.ends_with("Result"));
    let request_id = root.child("ResponseMetadata").and_then(|metadata| metadata.text_of("RequestId"));
    Ok((result.map_or_else(Value::empty_object, structure), request_id.map(str::to_owned)))
}

/// The error in an answer.
pub(super) fn refusal(answer: &Incoming) -> Refusal {
    let root = xml::read(&answer.body).unwrap_or_default();
    let error = root.child("Error").cloned().unwrap_or_default();
    let text = |name| error.text_of(name).map(str::to_owned);
    Refusal { code: text("Code"), old_code: None, message: text("Message") }
}

fn structure(element: &Element) -> Value {
    let members = element.children.iter().map(|child| {
        let mut letters = child.name.chars();
        let name = letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str());
        let name = name.unwrap_or_default();
        let value = value(&name, child);
        (name, value)
    });
    members.collect::<Map>().into()
}

fn value(name: &str, element: &Element) -> Value {
    let text = element.text.as_str();
    match element.children.first().map(|child| child.name.as_str()) {
        None if LISTS.contains(&name) => Value::Array(std::sync::Arc::default()),
        None if TRUTHS.contains(&name) => (text == "true").into(),
        None if NUMBERS.contains(&name) => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
        None => text.into(),
        Some("member") => element.children.iter().map(|member| value("", member)).collect(),
        Some("entry") => {
            let entries = element.children.iter().filter_map(|entry| match entry.children.as_slice() {
                [key, entry] => Some((key.text.clone(), value("", entry))),
                _ => None,
            });
            entries.collect::<Map>().into()
        }
        Some(_) => structure(element),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::service::operation;
    use perdura_engine::asl::json::parse;
    use perdura_engine::asl::resource::Resource;

    #[test]
    fn arguments_become_a_form() {
        for (action, arguments, expected) in [
            (
                "publish",
                r#"{"TopicArn":"arn:t","Message":"a & b"}"#,
                "Action=Publish&Version=2010-03-31&TopicArn=arn%3At&Message=a%20%26%20b",
            ),
            (
                "publish",
                r#"{"MessageAttributes":{"color":{"DataType":"String","StringValue":"red"}}}"#,
                "Action=Publish&Version=2010-03-31&MessageAttributes.entry.1.Name=color\
                 &MessageAttributes.entry.1.Value.DataType=String&MessageAttributes.entry.1.Value.StringValue=red",
            ),
            (
                "createTopic",
                r#"{"Name":"t","Attributes":{"FifoTopic":"true"},"Tags":[{"Key":"k","Value":"v"}]}"#,
                "Action=CreateTopic&Version=2010-03-31&Name=t&Attributes.entry.1.key=FifoTopic\
                 &Attributes.entry.1.value=true&Tags.member.1.Key=k&Tags.member.1.Value=v",
            ),
            (
                "publishBatch",
                r#"{"PublishBatchRequestEntries":[{"Id":"1","Message":"m"},{"Id":"2","Message":5}]}"#,
                "Action=PublishBatch&Version=2010-03-31&PublishBatchRequestEntries.member.1.Id=1\
                 &PublishBatchRequestEntries.member.1.Message=m&PublishBatchRequestEntries.member.2.Id=2\
                 &PublishBatchRequestEntries.member.2.Message=5",
            ),
            (
                "checkIfPhoneNumberIsOptedOut",
                r#"{"PhoneNumber":"+1"}"#,
                "Action=CheckIfPhoneNumberIsOptedOut&Version=2010-03-31&phoneNumber=%2B1",
            ),
        ] {
            let resource = Resource::parse(&format!("arn:aws:states:::aws-sdk:sns:{action}")).unwrap();
            let arguments = parse(arguments).unwrap();
            let request =
                request(&operation(&resource).unwrap(), "2010-03-31", arguments.as_object().unwrap());
            assert_eq!(std::str::from_utf8(&request.body).unwrap(), expected);
        }
    }

    #[test]
    fn a_result_is_read_from_xml() {
        for (xml, expected) in [
            (
                "<PublishResponse xmlns='http://sns.amazonaws.com/doc/2010-03-31/'><PublishResult>\
                 <MessageId>m</MessageId></PublishResult><ResponseMetadata><RequestId>r</RequestId>\
                 </ResponseMetadata></PublishResponse>",
                (r#"{"MessageId":"m"}"#, Some("r")),
            ),
            (
                "<R><ListTopicsResult><Topics><member><TopicArn>a</TopicArn></member><member><TopicArn>b\
                 </TopicArn></member></Topics></ListTopicsResult></R>",
                (r#"{"Topics":[{"TopicArn":"a"},{"TopicArn":"b"}]}"#, None),
            ),
            ("<R><ListTopicsResult><Topics/></ListTopicsResult></R>", (r#"{"Topics":[]}"#, None)),
            (
                "<R><GetTopicAttributesResult><Attributes><entry><key>Owner</key><value>1</value></entry>\
                 </Attributes></GetTopicAttributesResult></R>",
                (r#"{"Attributes":{"Owner":"1"}}"#, None),
            ),
            ("<R><XResult><isOptedOut>false</isOptedOut></XResult></R>", (r#"{"IsOptedOut":false}"#, None)),
            ("<DeleteTopicResponse><ResponseMetadata/></DeleteTopicResponse>", ("{}", None)),
        ] {
            let (found, id) = read(xml.as_bytes()).unwrap();
            assert_eq!((found.to_string().as_str(), id.as_deref()), expected, "{xml}");
        }
        assert!(read(b"{}").is_err());
    }

    #[test]
    fn an_error_is_read_from_xml() {
        let body = "<ErrorResponse><Error><Type>Sender</Type><Code>NotFound</Code><Message>no topic</Message>\
                    </Error><RequestId>r</RequestId></ErrorResponse>";
        let answer = Incoming { status: 404, headers: HeaderMap::new(), body: Bytes::from(body) };
        let expected =
            Refusal { code: Some("NotFound".into()), old_code: None, message: Some("no topic".into()) };
        assert_eq!(refusal(&answer), expected);
        let answer = Incoming { status: 500, headers: HeaderMap::new(), body: Bytes::from("oops") };
        assert_eq!(refusal(&answer), Refusal::default());
    }
}
