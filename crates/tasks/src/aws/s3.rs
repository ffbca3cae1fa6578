//! S3's addresses: a bucket and a key in the path, members in headers and in the query, XML in between.
//!
//! The bucket is always in the path, because every store with S3's API accepts that.

mod table;

use super::outcome::Refusal;
use super::request::{Request, push_pair};
use super::shape::short;
use super::xml::{self, Element};
use crate::client::Incoming;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use perdura_engine::asl::json::{Map, Value};
use perdura_sigv4::escaped;
use table::{Answer, HEADERS, KINDS, Kind, LISTS, OF_CONTENT, Place, QUERY, ROUTES, Route, SHOWN, WRAPPED};

const METADATA: &str = "x-amz-meta-";
const CRC32: HeaderName = HeaderName::from_static("x-amz-checksum-crc32");
const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-sdk-checksum-algorithm");

/// The content type that AWS's own client sets for every text.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=UTF-8");

/// Whether an action is supported.
pub(super) fn knows(action: &str) -> bool {
    route_of(action).is_some()
}

fn route_of(action: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.action == action)
}

/// The request, or the mistake in the arguments. `region` is where a bucket is created.
pub(super) fn request(action: &str, mut arguments: Map, region: &str) -> Result<Request, String> {
    let route = route_of(action).ok_or("S3 has no such action here")?;
    let path = path(route.place, &mut arguments)?;
    let mut query = route.query.to_owned();
    let mut headers = HeaderMap::new();
    let mut body = Bytes::new();
    for (name, value) in arguments.iter() {
        if let Some((_, parameter)) = QUERY.iter().find(|(member, _)| *member == &**name) {
            push_pair(&mut query, parameter, &plain(name, value)?);
        } else if let Some((_, header)) = HEADERS.iter().find(|(member, _)| *member == &**name) {
            headers.insert(HeaderName::from_static(header), header_value(name, &plain(name, value)?)?);
        } else if &**name == "Metadata" {
            put_metadata(&mut headers, value)?;
        } else if &**name == "Body" && action == "putObject" {
            body = Bytes::from(value.to_string());
            headers.entry(CONTENT_TYPE).or_insert(TEXT);
        } else if &**name == "CreateBucketConfiguration" && action == "createBucket" {
            body = location(value.get("LocationConstraint").and_then(Value::as_str));
        } else {
            return Err(format!("The field '{name}' is not supported by Step Functions"));
        }
    }
    if action == "createBucket" && body.is_empty() && region != "us-east-1" {
        body = location(Some(region));
    }
    let is_checked = headers.keys().any(|name| name.as_str().starts_with("x-amz-checksum-"));
    if action == "putObject" && !is_checked {
        headers.insert(CRC32, header_value("ChecksumCRC32", &crc32(&body))?);
        headers.insert(CHECKSUM, HeaderValue::from_static("CRC32"));
    }
    Ok(Request { method: route.method.clone(), path, query, headers, body })
}

/// The path of a bucket or an object; removes its members from the arguments.
fn path(place: Place, arguments: &mut Map) -> Result<String, String> {
    let mut path = String::new();
    let members: &[&str] = match place {
        Place::Account => &[],
        Place::Bucket => &["Bucket"],
        Place::Object => &["Bucket", "Key"],
    };
    for member in members {
        let value = arguments.remove(member);
        let text = value.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| format!("The field '{member}' is required but was missing"))?;
        if text.split('/').any(|part| matches!(part, "." | ".."))
            || (*member == "Bucket" && text.contains('/'))
        {
            return Err(format!("'{member}' is {text:?}, which cannot stand in an address"));
        }
        path.push('/');
        path.push_str(&escaped(text, true));
    }
    Ok(if path.is_empty() { "/".to_owned() } else { path })
}

fn plain(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(format!("The value for the field '{name}' must be a STRING"))
        }
    }
}

fn header_value(name: &str, text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|_| format!("'{name}' holds what no header can: write plain text"))
}

fn put_metadata(headers: &mut HeaderMap, metadata: &Value) -> Result<(), String> {
    let members = metadata.as_object().ok_or("The value for the field 'Metadata' must be an OBJECT")?;
    for (name, value) in members.iter() {
        let header = HeaderName::try_from(format!("{METADATA}{name}"))
            .map_err(|_| format!("'{name}' in 'Metadata' cannot be the name of a header"))?;
        headers.insert(header, header_value(name, &plain(name, value)?)?);
    }
    Ok(())
}

fn location(region: Option<&str>) -> Bytes {
    let region = region.unwrap_or_default().replace('&', "&amp;").replace('<', "&lt;");
    let xml = format!(
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LocationConstraint>{region}\
         </LocationConstraint></CreateBucketConfiguration>"
    );
    Bytes::from(xml)
}

/// A checksum by which the store verifies the body.
fn crc32(body: &[u8]) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(body);
    BASE64.encode(crc.sum().to_be_bytes())
}

/// The content of an answer.
pub(super) fn read(action: &str, answer: &Incoming) -> Result<Value, String> {
    let route = route_of(action).ok_or("S3 has no such action here")?;
    let mut members = Map::new();
    let of_content: &[_] = match route.answer {
        Answer::Content | Answer::Metadata => OF_CONTENT,
        Answer::Nothing | Answer::Members | Answer::Member(_) => &[],
    };
    for (member, header, kind) in SHOWN.iter().chain(of_content) {
        if let Some(text) = answer.headers.get(*header).and_then(|value| value.to_str().ok()) {
            members.insert(*member, shown(*kind, text));
        }
    }
    match route.answer {
        Answer::Nothing => {}
        Answer::Metadata => {
            members.insert("Metadata", metadata(&answer.headers));
        }
        Answer::Content => {
            members.insert("Metadata", metadata(&answer.headers));
            let content = std::str::from_utf8(&answer.body)
                .map_err(|_| "the object is not UTF-8 text, and cannot be shown in a result")?;
            members.insert("Body", content);
        }
        Answer::Members => {
            for (name, value) in elements(&xml::read(&answer.body)?).iter() {
                members.insert(name.clone(), value.clone());
            }
        }
        Answer::Member(name) => {
            members.insert(name, elements(&xml::read(&answer.body)?));
        }
    }
    Ok(members.into())
}

fn metadata(headers: &HeaderMap) -> Map {
    let own = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(METADATA)?;
        Some((name, String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    own.collect()
}

fn elements(element: &Element) -> Map {
    let mut members = Map::new();
    for child in &element.children {
        let name = child.name.as_str();
        if LISTS.contains(&name) {
            let before = members.get(name).and_then(Value::as_array).unwrap_or_default();
            let all: Value = before.iter().cloned().chain([value(child)]).collect();
            members.insert(name, all);
        } else if WRAPPED.contains(&name) {
            members.insert(name, child.children.iter().map(value).collect::<Value>());
        } else {
            members.insert(name, value(child));
        }
    }
    members
}

fn value(element: &Element) -> Value {
    if !element.children.is_empty() {
        return elements(element).into();
    }
    let kind = KINDS.iter().find(|(name, _)| *name == element.name).map_or(Kind::Text, |(_, kind)| *kind);
    shown(kind, &element.text)
}

fn shown(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Text => text.into(),
        Kind::Number => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
        Kind::Truth => text.eq_ignore_ascii_case("true").into(),
        Kind::Time => http_date(text).unwrap_or_else(|| short(text)).into(),
    }
}

/// `2015-10-21T07:28:00Z`, of `Wed, 21 Oct 2015 07:28:00 GMT`.
fn http_date(text: &str) -> Option<String> {
    jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp().to_string())
}

/// The error in an answer. The answer to a HEAD has no body, so its status is the error.
pub(super) fn refusal(action: &str, answer: &Incoming) -> Refusal {
    let error = xml::read(&answer.body).unwrap_or_default();
    let text = |name| error.text_of(name).map(str::to_owned);
    let missing = match (answer.status, action) {
        (404, "headObject") => Some("NoSuchKey"),
        (404, "headBucket") => Some("NoSuchBucket"),
        _ => None,
    };
    let code = text("Code").or_else(|| missing.map(str::to_owned));
    Refusal { code, old_code: None, message: text("Message") }
}

#[cfg(test)]
mod tests;
