//! Lambda's addresses, for `aws-sdk:lambda:…`.
//!
//! [`crate::functions`] calls a function by `lambda:invoke` or its ARN: there the function may be anything, and its
//! error is the task's. Here the call goes to Lambda itself, and a function's error is only a member of the answer.

use super::json;
use super::request::{Request, push_pair};
use crate::client::Incoming;
use crate::functions::client_context;
use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use perdura_engine::asl::json::{Map, Value};
use perdura_sigv4::escaped;

/// An action: its verb, its path, and the members that go into the query. The rest is the body.
struct Route {
    action: &'static str,
    method: Method,
    path: &'static str,
    query: &'static [&'static str],
}

const fn route(
    action: &'static str,
    method: Method,
    path: &'static str,
    query: &'static [&'static str],
) -> Route {
    Route { action, method, path, query }
}

const FUNCTION: &str = "/2015-03-31/functions/{FunctionName}";

#[rustfmt::skip]
const ROUTES: &[Route] = &[
    route("createAlias", Method::POST, "/2015-03-31/functions/{FunctionName}/aliases", &[]),
    route("createFunction", Method::POST, "/2015-03-31/functions", &[]),
    route("deleteAlias", Method::DELETE, "/2015-03-31/functions/{FunctionName}/aliases/{Name}", &[]),
    route("deleteFunction", Method::DELETE, FUNCTION, &["Qualifier"]),
    route("getAlias", Method::GET, "/2015-03-31/functions/{FunctionName}/aliases/{Name}", &[]),
    route("getFunction", Method::GET, FUNCTION, &["Qualifier"]),
    route("getFunctionConfiguration", Method::GET, "/2015-03-31/functions/{FunctionName}/configuration", &["Qualifier"]),
    route("invoke", Method::POST, "/2015-03-31/functions/{FunctionName}/invocations", &["Qualifier"]),
    route("listAliases", Method::GET, "/2015-03-31/functions/{FunctionName}/aliases", &["FunctionVersion", "Marker", "MaxItems"]),
    route("listFunctions", Method::GET, "/2015-03-31/functions", &["FunctionVersion", "Marker", "MasterRegion", "MaxItems"]),
    route("listVersionsByFunction", Method::GET, "/2015-03-31/functions/{FunctionName}/versions", &["Marker", "MaxItems"]),
    route("publishVersion", Method::POST, "/2015-03-31/functions/{FunctionName}/versions", &[]),
    route("updateAlias", Method::PUT, "/2015-03-31/functions/{FunctionName}/aliases/{Name}", &[]),
    route("updateFunctionCode", Method::PUT, "/2015-03-31/functions/{FunctionName}/code", &[]),
    route("updateFunctionConfiguration", Method::PUT, "/2015-03-31/functions/{FunctionName}/configuration", &[]),
];

/// Members of `invoke` that are headers, in the request and in the answer.
const INVOKE_HEADERS: &[(&str, &str)] =
    &[("InvocationType", "x-amz-invocation-type"), ("LogType", "x-amz-log-type")];
const CLIENT_CONTEXT: HeaderName = HeaderName::from_static("x-amz-client-context");
const ANSWER_HEADERS: &[(&str, &str)] = &[
    ("ExecutedVersion", "x-amz-executed-version"),
    ("FunctionError", "x-amz-function-error"),
    ("LogResult", "x-amz-log-result"),
];
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Whether an action is supported.
pub(super) fn knows(action: &str) -> bool {
    ROUTES.iter().any(|route| route.action == action)
}

/// The request, or the mistake in the arguments. The key of a call goes to the function in the client context.
pub(super) fn request(action: &str, mut arguments: Map, key: &str) -> Result<Request, String> {
    let route = ROUTES.iter().find(|route| route.action == action).ok_or("Lambda has no such action here")?;
    let mut path = String::new();
    for part in route.path.split('/').skip(1) {
        path.push('/');
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            None => path.push_str(part),
            Some(member) => match arguments.remove(member).as_ref().and_then(Value::as_str) {
                Some(text) if !text.is_empty() => path.push_str(&escaped(text, false)),
                Some(_) | None => return Err(format!("The field '{member}' is required but was missing")),
            },
        }
    }
    let mut query = String::new();
    for member in route.query {
        match arguments.remove(member) {
            None => {}
            Some(Value::String(text)) => push_pair(&mut query, member, &text),
            Some(other) => push_pair(&mut query, member, &other.to_string()),
        }
    }
    let mut headers = HeaderMap::new();
    let body = if action == "invoke" {
        invoke(&mut headers, &mut arguments, key)?
    } else if arguments.is_empty() {
        Bytes::new()
    } else {
        Bytes::from(Value::from(std::mem::take(&mut arguments)).to_string())
    };
    if let Some(name) = arguments.keys().next() {
        return Err(format!("The field '{name}' is not supported by Step Functions"));
    }
    if !body.is_empty() {
        headers.insert(CONTENT_TYPE, JSON);
    }
    Ok(Request { method: route.method.clone(), path, query, headers, body })
}

/// Puts members of `invoke` into headers, and returns its body: the payload as JSON.
fn invoke(headers: &mut HeaderMap, arguments: &mut Map, key: &str) -> Result<Bytes, String> {
    for (member, header) in INVOKE_HEADERS {
        if let Some(value) = arguments.remove(member) {
            let text = value
                .as_str()
                .ok_or_else(|| format!("The value for the field '{member}' must be a STRING"))?;
            let value = HeaderValue::try_from(text).map_err(|_| format!("'{member}' is not plain text"))?;
            headers.insert(HeaderName::from_static(header), value);
        }
    }
    let written = arguments.remove("ClientContext");
    headers.insert(CLIENT_CONTEXT, client_context(written.as_ref().and_then(Value::as_str), key)?);
    Ok(arguments.remove("Payload").map_or_else(Bytes::new, |payload| Bytes::from(payload.to_string())))
}

/// The content of an answer.
pub(super) fn read(action: &str, answer: &Incoming) -> Result<Value, String> {
    if action != "invoke" {
        return json::read(&answer.body);
    }
    let mut members = Map::new();
    for (member, header) in ANSWER_HEADERS {
        if let Some(value) = answer.headers.get(*header) {
            members.insert(*member, String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
    }
    let payload = std::str::from_utf8(&answer.body).map_err(|_| "the answer is not UTF-8 text")?;
    members.insert("Payload", payload);
    members.insert("StatusCode", i64::from(answer.status));
    Ok(members.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::parse;

    fn asked(action: &str, arguments: &str) -> Result<Request, String> {
        request(action, parse(arguments).unwrap().as_object().unwrap().clone(), "K")
    }

    #[test]
    fn members_go_into_path_query_headers_and_body() {
        for (action, arguments, line, body) in [
            (
                "getFunction",
                r#"{"FunctionName":"a:b","Qualifier":"$LATEST"}"#,
                "GET /2015-03-31/functions/a%3Ab?Qualifier=%24LATEST",
                "",
            ),
            ("listFunctions", r#"{"MaxItems":5}"#, "GET /2015-03-31/functions?MaxItems=5", ""),
            (
                "updateAlias",
                r#"{"FunctionName":"f","Name":"live","FunctionVersion":"7"}"#,
                "PUT /2015-03-31/functions/f/aliases/live?",
                r#"{"FunctionVersion":"7"}"#,
            ),
            (
                "invoke",
                r#"{"FunctionName":"f","Payload":{"a":1},"InvocationType":"Event"}"#,
                "POST /2015-03-31/functions/f/invocations?",
                r#"{"a":1}"#,
            ),
            (
                "invoke",
                r#"{"FunctionName":"f","Payload":"text"}"#,
                "POST /2015-03-31/functions/f/invocations?",
                r#""text""#,
            ),
        ] {
            let request = asked(action, arguments).unwrap();
            let found = format!("{} {}?{}", request.method, request.path, request.query);
            assert_eq!(
                (found.trim_end_matches('?'), &request.body[..]),
                (line.trim_end_matches('?'), body.as_bytes())
            );
            assert_eq!(request.headers.contains_key(CONTENT_TYPE), !body.is_empty(), "{action}");
        }
        let request = asked("invoke", r#"{"FunctionName":"f","InvocationType":"Event"}"#).unwrap();
        assert_eq!(request.headers["x-amz-invocation-type"], "Event");
        assert!(request.headers.contains_key(CLIENT_CONTEXT));
        for (action, arguments, expected) in [
            ("getFunction", "{}", "'FunctionName' is required"),
            ("getAlias", r#"{"FunctionName":"f","Name":5}"#, "'Name' is required"),
            ("invoke", r#"{"FunctionName":"f","LogType":5}"#, "'LogType' must be a STRING"),
            ("invoke", r#"{"FunctionName":"f","Nonsense":5}"#, "'Nonsense' is not supported"),
            ("invoke", r#"{"FunctionName":"f","ClientContext":"%"}"#, "base64"),
        ] {
            let error = asked(action, arguments).expect_err(arguments);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_function_that_fails_is_an_answer_like_any_other() {
        let headers = [
            (HeaderName::from_static("x-amz-executed-version"), HeaderValue::from_static("$LATEST")),
            (HeaderName::from_static("x-amz-function-error"), HeaderValue::from_static("Unhandled")),
        ];
        let answer = Incoming {
            status: 200,
            headers: headers.into_iter().collect(),
            body: Bytes::from_static(br#"{"errorType":"No"}"#),
        };
        assert_eq!(
            read("invoke", &answer).unwrap().to_string(),
            r#"{"ExecutedVersion":"$LATEST","FunctionError":"Unhandled","Payload":"{\"errorType\":\"No\"}","StatusCode":200}"#
        );
        let answer =
            Incoming { status: 200, headers: HeaderMap::new(), body: Bytes::from_static(b"{\"a\":1}") };
        assert_eq!(read("getFunction", &answer).unwrap().to_string(), r#"{"a":1}"#);
    }
}
