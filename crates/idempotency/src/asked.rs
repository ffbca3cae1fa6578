//! Reads and checks a request: its caller is known, its key is valid, and its content matches its digests.
//!
//! The order matters. Refusals that do not need the content come before it is read, so that a client that waits for
//! `100 Continue` does not send it; and a caller without the right to make the request learns nothing about stored
//! answers.

use crate::content::{Gathered, Whole};
use crate::digest::{self, DigestFault};
use crate::door::Door;
use crate::fingerprint::{Asked as Content, ContentFault, Fingerprint, fingerprint};
use crate::key::{IdempotencyKey, KeyFault};
use crate::problem::{Next, Problem, Reason};
use crate::record::{OperationId, RequestTag, ScopeTag};
use crate::route::{NO_TEMPLATE, Route};
use crate::scope::{Denied, Scope};
use axum::RequestPartsExt;
use axum::body::Body;
use axum::extract::{NestedPath, RawPathParams};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use http_body_util::BodyExt;
use std::borrow::Cow;
use std::sync::Arc;

pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(crate::key::FIELD);
/// The header of an answer with the request's fingerprint.
pub const IDEMPOTENCY_FINGERPRINT: HeaderName = HeaderName::from_static("idempotency-fingerprint");
/// The header of an answer that was stored.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The header with a digest of the content (RFC 9530).
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static(digest::CONTENT_DIGEST);
/// The headers that a page of another origin may read, for `CorsLayer::expose_headers`.
pub const EXPOSED_HEADERS: [HeaderName; 6] = [
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_FINGERPRINT,
    IDEMPOTENCY_REPLAYED,
    CONTENT_DIGEST,
    header::LAST_MODIFIED,
    header::RETRY_AFTER,
];
/// A header longer than this is not echoed.
const ECHO_BYTES_MAX: usize = 255;

/// The headers about the request in every answer to it.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    pub(crate) key: Option<HeaderValue>,
    pub(crate) fingerprint: Option<HeaderValue>,
}

impl Echo {
    /// The key as it was received, if there is one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
        let key = lines.next().filter(|key| lines.next().is_none() && key.len() <= ECHO_BYTES_MAX);
        Self { key: key.cloned(), fingerprint: None }
    }

    pub(crate) fn put(self, headers: &mut HeaderMap) {
        if let Some(key) = self.key {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        if let Some(fingerprint) = self.fingerprint {
            headers.insert(IDEMPOTENCY_FINGERPRINT, fingerprint);
        }
    }
}

/// A request that may be claimed.
pub(crate) struct Asked {
    pub(crate) route: Arc<Route>,
    pub(crate) scope: Scope,
    pub(crate) scope_tag: ScopeTag,
    pub(crate) key: IdempotencyKey,
    pub(crate) operation: OperationId,
    pub(crate) request: RequestTag,
    /// How long the caller wants to wait for an earlier request, in seconds (RFC 7240).
    pub(crate) prefers_wait: Option<u64>,
}

/// Why a request is not run.
pub(crate) enum Refusal {
    Problem(Problem),
    Answer(Box<Response<Body>>),
    /// The request ran, and its failure was reported to the observers.
    Failed(Problem),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl Asked {
    /// Reads a request to its end, or refuses it.
    pub(crate) async fn read(
        door: &Door,
        route: Arc<Route>,
        parts: &mut Parts,
        body: Body,
        echo: &mut Echo,
    ) -> Result<(Self, Whole), Refusal> {
        let scope = (door.scope_of)(parts).ok_or_else(|| Problem::new(Reason::ScopeMissing))?;
        let key = IdempotencyKey::from_headers(&parts.headers, door.keys).map_err(key_problem)?;
        authorise(door, parts, &scope).await?;
        let bytes_max = route.policy.body_bytes_max;
        let content = read_content(&parts.headers, body, bytes_max).await?;
        digest::verify(&parts.headers, &content.trailers, &content.bytes).map_err(digest_problem)?;
        let fingerprint = self::fingerprint_of(&route, parts, &content.bytes).await?;
        echo.fingerprint = Some(fingerprint.header());

        let scope_tag = door.vault.scope(&scope);
        let operation = door.vault.operation(&scope, &parts.method, route.template(), key.canonical());
        let request = door.vault.request(operation, &fingerprint);
        let prefers_wait = prefers_wait(&parts.headers);
        Ok((Self { route, scope, scope_tag, key, operation, request, prefers_wait }, content))
    }
}

/// Checks that the caller may make this request now.
pub(crate) async fn authorise(door: &Door, parts: &Parts, scope: &Scope) -> Result<(), Refusal> {
    let Some(authorise) = &door.authorise else { return Ok(()) };
    authorise.authorise(parts, scope).await.map_err(|denied| match denied {
        Denied::Forbidden => Problem::new(Reason::NotAuthorised).into(),
        Denied::Answer(answer) => Refusal::Answer(answer),
    })
}

async fn fingerprint_of(route: &Route, parts: &mut Parts, content: &[u8]) -> Result<Fingerprint, Refusal> {
    let raw;
    let path = parts.uri.path().to_owned();
    let mut params: Vec<(&str, &str)> = Vec::new();
    if route.template() == NO_TEMPLATE {
        let nested = parts.extensions.get::<NestedPath>().map_or("", NestedPath::as_str);
        params.extend([("*", nested), ("*", path.as_str())]);
    } else {
        raw = parts.extract::<RawPathParams>().await.map_err(|fault| {
            Problem::new(Reason::ContentMalformed).detail(format!("The path cannot be read: {fault}"))
        })?;
        params.extend(raw.iter());
        // Parameters are decoded here, and in one that takes the rest of the path a slash and an encoded slash differ.
        if path.as_bytes().windows(3).any(|code| code.eq_ignore_ascii_case(b"%2F")) {
            params.push(("/", path.as_str()));
        }
    }
    let content_type = joined(&parts.headers, &header::CONTENT_TYPE)?;
    let content_encoding = joined(&parts.headers, &header::CONTENT_ENCODING)?;
    let asked = Content {
        params: &params,
        query: parts.uri.query(),
        content_type: content_type.as_deref(),
        content_encoding: content_encoding.as_deref(),
        body: content,
        body_bytes_max: route.policy.body_bytes_max as u64,
    };
    Ok(fingerprint(&asked, route.policy.hashing).map_err(|fault| content_problem(fault, route))?)
}

/// Joins all lines of a header, as in RFC 9110.
fn joined<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<Cow<'a, str>>, Problem> {
    let unreadable =
        |_| Problem::new(Reason::ContentMalformed).detail(format!("The header {name} is not ASCII"));
    let mut lines = headers.get_all(name).iter().map(|line| line.to_str().map_err(unreadable));
    let Some(first) = lines.next().transpose()? else { return Ok(None) };
    let mut text = Cow::Borrowed(first);
    for line in lines {
        text = Cow::Owned(format!("{text}, {}", line?));
    }
    Ok(Some(text))
}

/// Reads all of the content and its trailers, or refuses as soon as it is known to be too large.
async fn read_content(headers: &HeaderMap, mut body: Body, bytes_max: usize) -> Result<Whole, Problem> {
    let too_large =
        || Problem::new(Reason::ContentTooLarge).detail(format!("This route takes up to {bytes_max} bytes"));
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > bytes_max as u64) {
        return Err(too_large());
    }
    let (mut content, mut trailers) = (Gathered::default(), HeaderMap::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            tracing::debug!(%error, "a request broke off");
            Problem::new(Reason::ContentMalformed)
                .with_next(Next::SameKey)
                .detail("The content broke off; send all of it with the same key")
        })?;
        match frame.into_data() {
            Ok(data) if content.len() + data.len() > bytes_max => return Err(too_large()),
            Ok(data) => content.add(data),
            Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
    Ok(Whole { bytes: content.whole(), trailers })
}

fn key_problem(fault: KeyFault) -> Problem {
    match fault {
        KeyFault::Missing => {
            Problem::new(Reason::KeyRequired).detail("Send a UUID of your own, the same in each retry")
        }
        KeyFault::Malformed(why) => Problem::new(Reason::KeyMalformed).detail(why),
    }
}

fn digest_problem(fault: DigestFault) -> Problem {
    Problem::new(match fault {
        DigestFault::Invalid => Reason::DigestInvalid,
        DigestFault::Mismatched => Reason::DigestMismatched,
        DigestFault::Unsupported => Reason::DigestUnsupported,
    })
}

fn content_problem(fault: ContentFault, route: &Route) -> Problem {
    match fault {
        ContentFault::Malformed(why) => Problem::new(Reason::ContentMalformed).detail(why),
        ContentFault::Charset => Problem::new(Reason::CharsetUnsupported),
        ContentFault::TooLarge => Problem::new(Reason::ContentTooLarge).detail(format!(
            "Decoded, it has more than the {} bytes of this route",
            route.policy.body_bytes_max
        )),
    }
}

/// Random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system draws random bytes");
    bytes
}

/// The seconds of `Prefer: wait=…` (RFC 7240), the first if there are several.
fn prefers_wait(headers: &HeaderMap) -> Option<u64> {
    let lines = headers.get_all("prefer").iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then(|| value.trim().trim_matches('"').parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wish_to_wait_is_read_as_rfc_7240_says() {
        for (line, expected) in [
            ("wait=10", Some(10)),
            ("respond-async, wait=10", Some(10)),
            ("WAIT = 3", Some(3)),
            ("wait=\"5\"; foo=bar", Some(5)),
            ("wait", None),
            ("wait=soon", None),
            ("waiting=10", None),
            ("return=minimal", None),
        ] {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static("prefer"), HeaderValue::from_static(line))]);
            assert_eq!(prefers_wait(&headers), expected, "{line}");
        }
    }
}
