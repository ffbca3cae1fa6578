//! The arguments of an HTTP Task, parsed once and strictly.

use http::{HeaderName, HeaderValue, Method};
use perdura_engine::Fault;
use perdura_engine::asl::json::{Map, Value};
use url::Url;

/// An HTTP Task, as its arguments describe it.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    pub(super) endpoint: Url,
    pub(super) method: Method,
    /// The connection's ARN or name.
    pub(super) connection: Option<&'a str>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<&'a Value>,
    pub(super) encoding: Encoding,
}

/// How a body that is not a string is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Form(ArrayFormat),
}

/// How a form names the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayFormat {
    /// `a[0]=x&a[1]=y`
    Indices,
    /// `a=x&a=y`
    Repeat,
    /// `a=x,y`
    Commas,
    /// `a[]=x&a[]=y`
    Brackets,
}

const MEMBERS: [&str; 8] = [
    "ApiEndpoint",
    "Authentication",
    "Headers",
    "InvocationConfig",
    "Method",
    "QueryParameters",
    "RequestBody",
    "Transform",
];

/// Headers that AWS refuses in a definition. `content-length` is not among them; it follows from the body and is left
/// out.
#[rustfmt::skip]
const FORBIDDEN: [&str; 32] = [
    "a-im", "accept-charset", "accept-datetime", "accept-encoding", "authorization", "cache-control",
    "connection", "content-encoding", "content-md5", "date", "expect", "forwarded", "from", "host",
    "http2-settings", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
    "max-forwards", "origin", "pragma", "proxy-authorization", "referer", "server", "te", "trailer",
    "transfer-encoding", "upgrade", "via", "warning",
];
const FORBIDDEN_PREFIXES: [&str; 3] = ["x-forwarded-", "x-amz-", "x-amzn-"];

/// A mistake in the definition or its data: no call was made, and a retry would not help.
pub(super) fn runtime(cause: impl Into<String>) -> Fault {
    Fault::new("States.Runtime", cause.into())
}

impl<'a> Arguments<'a> {
    pub(super) fn read(value: &'a Value) -> Result<Self, Fault> {
        let members =
            value.as_object().ok_or_else(|| runtime("an HTTP Task takes an object as its arguments"))?;
        if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&&***name)) {
            return Err(runtime(format!(
                "an HTTP Task has no member `{unknown}`; it has {}",
                MEMBERS.join(", ")
            )));
        }
        Ok(Self {
            endpoint: endpoint(members)?,
            method: method(members)?,
            connection: connection(members)?,
            headers: headers(members)?,
            query: query(members)?,
            body: members.get("RequestBody").filter(|body| !body.is_null()),
            encoding: encoding(members)?,
        })
    }
}

fn text<'a>(members: &'a Map, name: &str) -> Result<&'a str, Fault> {
    let value = members.get(name).ok_or_else(|| runtime(format!("`{name}` is missing")))?;
    value.as_str().ok_or_else(|| runtime(format!("`{name}` must be a string, not {}", value.type_name())))
}

fn object<'a>(members: &'a Map, name: &str) -> Result<Option<&'a Map>, Fault> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(other) => Err(runtime(format!("`{name}` must be an object, not {}", other.type_name()))),
    }
}

fn endpoint(members: &Map) -> Result<Url, Fault> {
    let text = text(members, "ApiEndpoint")?;
    let url = Url::parse(text).map_err(|error| runtime(format!("`ApiEndpoint` is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(runtime("`ApiEndpoint` must begin with https:// or http:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(runtime("`ApiEndpoint` carries a user name or a password; put them into a connection"));
    }
    Ok(url)
}

fn method(members: &Map) -> Result<Method, Fault> {
    const METHODS: [Method; 7] = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::OPTIONS,
        Method::HEAD,
    ];
    let text = text(members, "Method")?;
    let known = METHODS.into_iter().find(|method| method.as_str() == text);
    known.ok_or_else(|| {
        runtime(format!("`Method` is `{text}`; it must be GET, POST, PUT, DELETE, PATCH, OPTIONS or HEAD"))
    })
}

fn connection(members: &Map) -> Result<Option<&str>, Fault> {
    let one = |name| -> Result<Option<&str>, Fault> {
        object(members, name)?.map(|inside| text(inside, "ConnectionArn")).transpose()
    };
    match (one("Authentication")?, one("InvocationConfig")?) {
        (Some(_), Some(_)) => {
            Err(runtime("only one of `Authentication` and `InvocationConfig` can be given"))
        }
        (one, other) => Ok(one.or(other)),
    }
}

fn headers(members: &Map) -> Result<Vec<(HeaderName, HeaderValue)>, Fault> {
    let mut headers = Vec::new();
    for (name, value) in object(members, "Headers")?.into_iter().flat_map(Map::iter) {
        let parsed: HeaderName =
            name.parse().map_err(|_| runtime(format!("`{name}` in `Headers` is no name of a header")))?;
        if is_forbidden(parsed.as_str()) {
            return Err(runtime(format!("the header `{name}` cannot be set in an HTTP Task")));
        }
        if parsed == http::header::CONTENT_LENGTH {
            continue;
        }
        for text in texts(value).ok_or_else(|| not_text("Headers", name))? {
            let value = HeaderValue::from_str(&text).map_err(|_| {
                runtime(format!("the value of `{name}` in `Headers` has characters that no header can carry"))
            })?;
            headers.push((parsed.clone(), value));
        }
    }
    Ok(headers)
}

pub(super) fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.contains(&name) || FORBIDDEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn query(members: &Map) -> Result<Vec<(String, String)>, Fault> {
    let mut query = Vec::new();
    match members.get("QueryParameters") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => query.extend(url::form_urlencoded::parse(text.as_bytes()).into_owned()),
        Some(Value::Object(pairs)) => {
            for (name, value) in pairs.iter() {
                let values = texts(value).ok_or_else(|| not_text("QueryParameters", name))?;
                query.extend(values.into_iter().map(|text| (name.to_string(), text)));
            }
        }
        Some(other) => {
            return Err(runtime(format!(
                "`QueryParameters` must be an object or a string, not {}",
                other.type_name()
            )));
        }
    }
    Ok(query)
}

fn not_text(member: &str, name: &str) -> Fault {
    runtime(format!("`{name}` in `{member}` must be a string, a number, a boolean or an array of these"))
}

fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(scalar).collect(),
        single => Some(vec![scalar(single)?]),
    }
}

/// The value as text, if it is a scalar.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn encoding(members: &Map) -> Result<Encoding, Fault> {
    let Some(transform) = object(members, "Transform")? else { return Ok(Encoding::Json) };
    let format =
        match object(transform, "RequestEncodingOptions")?.and_then(|options| options.get("ArrayFormat")) {
            None => ArrayFormat::Indices,
            Some(format) => match format.as_str() {
                Some("INDICES") => ArrayFormat::Indices,
                Some("REPEAT") => ArrayFormat::Repeat,
                Some("COMMAS") => ArrayFormat::Commas,
                Some("BRACKETS") => ArrayFormat::Brackets,
                Some(_) | None => {
                    return Err(runtime("`ArrayFormat` must be INDICES, REPEAT, COMMAS or BRACKETS"));
                }
            },
        };
    match transform.get("RequestBodyEncoding").map(Value::as_str) {
        None | Some(Some("NONE")) => Ok(Encoding::Json),
        Some(Some("URL_ENCODED")) => Ok(Encoding::Form(format)),
        Some(_) => Err(runtime("`RequestBodyEncoding` must be NONE or URL_ENCODED")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::parse;

    /// The parsed arguments of a GET with these additional members.
    fn read(more: &str) -> Result<String, String> {
        let text = format!(r#"{{"ApiEndpoint": "https://a.test/p", "Method": "GET"{more}}}"#);
        let value = parse(&text).expect(&text);
        let read = Arguments::read(&value).map(|arguments| format!("{arguments:?}"));
        read.map_err(|fault| {
            assert_eq!(fault.error.as_deref(), Some("States.Runtime"));
            fault.cause.expect("a cause").to_string()
        })
    }

    #[test]
    fn a_mistake_is_named() {
        let table = [
            (r#", "ApiEndpoint": 1"#, "`ApiEndpoint` must be a string, not number"),
            (r#", "ApiEndpoint": "a.test""#, "`ApiEndpoint` is no URL"),
            (r#", "ApiEndpoint": "ftp://a.test""#, "`ApiEndpoint` must begin with https:// or http://"),
            (r#", "ApiEndpoint": "https://u:p@a.test""#, "put them into a connection"),
            (r#", "Method": "get""#, "`Method` is `get`"),
            (r#", "Method": "TRACE""#, "`Method` is `TRACE`"),
            (r#", "Retries": 3"#, "an HTTP Task has no member `Retries`"),
            (r#", "InvocationConfig": {}"#, "`ConnectionArn` is missing"),
            (r#", "InvocationConfig": "a""#, "`InvocationConfig` must be an object, not string"),
            (
                r#", "InvocationConfig": {"ConnectionArn": "a"}, "Authentication": {"ConnectionArn": "a"}"#,
                "only one of",
            ),
            (r#", "Headers": {"a b": "c"}"#, "`a b` in `Headers` is no name of a header"),
            (r#", "Headers": {"a": {}}"#, "`a` in `Headers` must be a string, a number"),
            (r#", "Headers": {"a": "b\nc"}"#, "the value of `a` in `Headers` has characters"),
            (r#", "QueryParameters": {"a": null}"#, "`a` in `QueryParameters` must be a string"),
            (r#", "QueryParameters": 1"#, "`QueryParameters` must be an object or a string, not number"),
            (r#", "Transform": {"RequestBodyEncoding": "GZIP"}"#, "`RequestBodyEncoding` must be NONE"),
            (
                r#", "Transform": {"RequestEncodingOptions": {"ArrayFormat": "x"}}"#,
                "`ArrayFormat` must be INDICES",
            ),
        ];
        for (more, expected) in table {
            let cause = read(more).expect_err(more);
            assert!(cause.contains(expected), "{more}: {cause}");
        }
    }

    #[test]
    fn headers_that_aws_refuses_are_refused_in_any_case() {
        let prefixed = ["X-Forwarded-For", "x-amz-date", "X-AMZN-Trace-Id"];
        for name in FORBIDDEN.into_iter().chain(prefixed) {
            for name in [name.to_owned(), name.to_uppercase()] {
                let cause = read(&format!(r#", "Headers": {{"{name}": "x"}}"#)).expect_err(&name);
                assert_eq!(cause, format!("the header `{name}` cannot be set in an HTTP Task"));
            }
        }
        for name in ["Range", "User-Agent", "Content-Type", "Accept", "Idempotency-Key", "X-Amount", "Cookie"]
        {
            read(&format!(r#", "Headers": {{"{name}": "x"}}"#)).expect(name);
        }
    }

    #[test]
    fn parameters_may_be_written_as_text() {
        let read =
            read(r#", "QueryParameters": "a=1%202&b=", "Headers": {"n": 1, "t": true}"#).expect("valid");
        assert!(read.contains(r#"query: [("a", "1 2"), ("b", "")]"#), "{read}");
        assert!(read.contains(r#"headers: [("n", "1"), ("t", "true")]"#), "{read}");
    }
}
