//! The JSON protocols: everything in the body, the action in a header.

use super::outcome::Refusal;
use super::request::Request;
use super::service::Operation;
use crate::client::Incoming;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use perdura_engine::asl::json::{Map, Value, parse, without_mark};

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");
/// The error's name before the service had a JSON protocol: `CODE;Sender`.
const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");

/// Builds the request; arguments are spelled as on the wire.
pub(super) fn request(operation: &Operation<'_>, version: &str, target: &str, arguments: Map) -> Request {
    let header =
        |text: String| HeaderValue::try_from(text).expect("a service's table and an action are plain text");
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, header(format!("application/x-amz-json-{version}")));
    headers.insert(TARGET, header(format!("{target}.{}", operation.wire_action())));
    Request {
        method: http::Method::POST,
        path: "/".to_owned(),
        query: String::new(),
        headers,
        body: Bytes::from(Value::from(arguments).to_string()),
    }
}

/// The body of an answer; an empty one is an empty object.
pub(super) fn read(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not UTF-8 text")?;
    if text.trim().is_empty() {
        return Ok(Value::empty_object());
    }
    parse(without_mark(text)).map_err(|error| format!("the answer is no JSON: {error}, at byte {}", error.at))
}

/// The error in an answer. A type may come with a namespace in front or an address behind.
pub(super) fn refusal(answer: &Incoming) -> Refusal {
    let header = |name: &HeaderName| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let body = read(&answer.body).unwrap_or_default();
    let member = |names: &[&str]| names.iter().find_map(|name| body.get(name)?.as_str()).map(str::to_owned);
    let kind = header(&ERROR_TYPE).map(str::to_owned).or_else(|| member(&["__type", "code", "Code"]));
    let code = kind.as_deref().map(|kind| {
        let kind = kind.split(':').next().unwrap_or(kind);
        kind.rsplit('#').next().unwrap_or(kind).to_owned()
    });
    let old_code = header(&QUERY_ERROR).and_then(|text| text.split(';').next()).map(str::to_owned);
    Refusal { code, old_code, message: member(&["message", "Message", "errorMessage"]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::service::operation;
    use perdura_engine::asl::resource::Resource;

    #[test]
    fn the_action_is_a_header_and_the_arguments_are_the_body() {
        let resource = Resource::parse("arn:aws:states:::aws-sdk:sqs:getQueueUrl").unwrap();
        let arguments = Map::from_iter([("QueueName", "q")]);
        let request = request(&operation(&resource).unwrap(), "1.0", "AmazonSQS", arguments);
        assert_eq!((request.method.as_str(), &*request.path, &*request.query), ("POST", "/", ""));
        assert_eq!(request.headers[CONTENT_TYPE], "application/x-amz-json-1.0");
        assert_eq!(request.headers[TARGET], "AmazonSQS.GetQueueUrl");
        assert_eq!(&request.body[..], br#"{"QueueName":"q"}"#);
    }

    #[test]
    fn an_answer_is_json_or_nothing() {
        for (body, expected) in [
            (&b""[..], Ok("{}")),
            (b"{\"a\": 1}", Ok(r#"{"a":1}"#)),
            (b"<html>", Err("is no JSON")),
            (b"\xff", Err("not UTF-8")),
        ] {
            match (read(body).map(|value| value.to_string()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn an_error_is_named_in_a_header_or_in_the_body() {
        for (headers, body, code, old_code, message) in [
            (
                vec![],
                r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"no"}"#,
                Some("ResourceNotFoundException"),
                None,
                Some("no"),
            ),
            (vec![], r#"{"__type":"InvalidArn","Message":"bad"}"#, Some("InvalidArn"), None, Some("bad")),
            (
                vec![(ERROR_TYPE, "TooManyRequestsException:http://internal.amazon.com/coral/")],
                "{}",
                Some("TooManyRequestsException"),
                None,
                None,
            ),
            (
                vec![(QUERY_ERROR, "AWS.SimpleQueueService.NonExistentQueue;Sender")],
                r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"gone"}"#,
                Some("QueueDoesNotExist"),
                Some("AWS.SimpleQueueService.NonExistentQueue"),
                Some("gone"),
            ),
            (vec![], "<html>", None, None, None),
        ] {
            let headers = headers.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value)));
            let answer = Incoming { status: 400, headers: headers.collect(), body: Bytes::from(body) };
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let expected = Refusal { code: owned(code), old_code: owned(old_code), message: owned(message) };
            assert_eq!(refusal(&answer), expected, "{body}");
        }
    }
}
