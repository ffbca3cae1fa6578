//! A bucket that is a base URL: a key is put after it and fetched with GET.
//!
//! The first request asks for a range. A server that gives ranges is asked for one after the other, each under the
//! condition that the file is still the same; one that does not sends the whole file, and a connection that breaks
//! then is an error. Redirects are not followed.

use super::ask::{TRIES, ask, pause};
use super::content::{BLOCK_BYTES, Content, Opened, check_encoding};
use super::place::{PlaceError, story};
use bytes::Bytes;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, RANGE,
};
use reqwest::{Client, Method, Request, Response, StatusCode, Url};

/// A base URL.
#[derive(Clone, Debug)]
pub(super) struct Web {
    client: Client,
    base: Url,
}

impl Web {
    /// Files below this address; it should end with a slash.
    pub(super) fn new(client: &Client, base: Url) -> Self {
        Self { client: client.clone(), base }
    }

    /// Opens a file.
    pub(super) async fn open(&self, key: &str) -> Result<Opened, PlaceError> {
        let url = self.address(key)?;
        let first = ask(&self.client, || Ok(ranged(&url, 0, None))).await?;
        let total = content_total(first.headers());
        match first.status() {
            // What a server says to a range of a file without bytes.
            StatusCode::RANGE_NOT_SATISFIABLE if total == Some(0) => {}
            status => check(status)?,
        }
        let encoding =
            first.headers().get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("unreadable"));
        check_encoding(encoding)?;
        let has_ranges = first.status() != StatusCode::OK;
        let size = if has_ranges { total } else { first.content_length() };
        if has_ranges && size.is_none() {
            return Err(PlaceError::Failed("it sends a range without saying of how much".into()));
        }
        let condition = condition(first.headers());
        let tag = condition.as_ref().and_then(|(_, value)| value.to_str().ok());
        let version = match (tag, size) {
            (Some(tag), _) => tag.into(),
            (None, Some(size)) => format!("{size} bytes").into(),
            (None, None) => "unknown".into(),
        };
        let whole = if has_ranges { size } else { None };
        let body = WebBody {
            client: self.client.clone(),
            url,
            condition,
            at: 0,
            whole,
            answer: (first.status() != StatusCode::RANGE_NOT_SATISFIABLE).then_some(first),
            failures: 0,
        };
        Ok(Opened { version, size, content: Content::Web(Box::new(body)) })
    }

    /// The base with the key's parts put after it, each escaped.
    fn address(&self, key: &str) -> Result<Url, PlaceError> {
        if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            let what =
                format!("the key \"{key}\" has an empty part, `.` or `..` in it, which cannot follow a URL");
            return Err(PlaceError::Refused(what));
        }
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut parts) => {
                parts.pop_if_empty().extend(key.split('/'));
            }
            Err(()) => return Err(PlaceError::Refused(format!("nothing can follow the URL {}", self.base))),
        }
        Ok(url)
    }
}

/// A file whose bytes are fetched as they are wanted.
pub(super) struct WebBody {
    client: Client,
    url: Url,
    condition: Option<(HeaderName, HeaderValue)>,
    at: u64,
    /// How much there is, where the server gives ranges.
    whole: Option<u64>,
    answer: Option<Response>,
    /// How often in a row an answer broke off without giving anything.
    failures: u32,
}

impl WebBody {
    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, PlaceError> {
        loop {
            let Some(answer) = &mut self.answer else {
                match self.whole {
                    Some(whole) if self.at < whole => self.answer = Some(self.range().await?),
                    Some(_) | None => return Ok(None),
                }
                continue;
            };
            match answer.chunk().await {
                Ok(Some(piece)) if piece.is_empty() => {}
                Ok(Some(piece)) => {
                    self.at += piece.len() as u64;
                    self.failures = 0;
                    if self.whole.is_some_and(|whole| self.at > whole) {
                        return Err(PlaceError::Changed);
                    }
                    return Ok(Some(piece));
                }
                Ok(None) => self.answer = None,
                Err(_) if self.whole.is_some() && self.failures + 1 < TRIES => {
                    self.failures += 1;
                    pause(self.failures).await;
                    self.answer = None;
                }
                Err(error) => return Err(PlaceError::Failed(story(&error.without_url()))),
            }
        }
    }

    async fn range(&self) -> Result<Response, PlaceError> {
        let answer = ask(&self.client, || Ok(ranged(&self.url, self.at, self.condition.as_ref()))).await?;
        match answer.status() {
            StatusCode::PARTIAL_CONTENT if content_total(answer.headers()) == self.whole => Ok(answer),
            StatusCode::OK
            | StatusCode::PARTIAL_CONTENT
            | StatusCode::PRECONDITION_FAILED
            | StatusCode::RANGE_NOT_SATISFIABLE => Err(PlaceError::Changed),
            status => {
                check(status)?;
                Err(PlaceError::Failed(format!("it answered {status}")))
            }
        }
    }
}

fn ranged(url: &Url, at: u64, condition: Option<&(HeaderName, HeaderValue)>) -> Request {
    let mut request = Request::new(Method::GET, url.clone());
    let range = format!("bytes={at}-{}", at + BLOCK_BYTES - 1);
    let headers = request.headers_mut();
    headers.insert(RANGE, HeaderValue::from_str(&range).expect("digits are a header"));
    if let Some((name, value)) = condition {
        headers.insert(name, value.clone());
    }
    request
}

fn check(status: StatusCode) -> Result<(), PlaceError> {
    match status {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(()),
        StatusCode::NOT_FOUND | StatusCode::GONE => Err(PlaceError::Missing),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(PlaceError::Denied),
        other if other.is_redirection() => Err(PlaceError::Failed(format!(
            "it answered {other}, and redirects are not followed: configure the address that it leads to"
        ))),
        other => Err(PlaceError::Failed(format!("it answered {other}"))),
    }
}

/// What later ranges are asked under: a strong tag, or the time of the last change.
fn condition(headers: &HeaderMap) -> Option<(HeaderName, HeaderValue)> {
    let strong = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    let tag = strong.map(|tag| (IF_MATCH, tag.clone()));
    tag.or_else(|| headers.get(LAST_MODIFIED).map(|time| (IF_UNMODIFIED_SINCE, time.clone())))
}

/// From `Content-Range: bytes 0-9/100`, or `bytes */100`.
fn content_total(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_RANGE)?.to_str().ok()?.rsplit('/').next()?.parse().ok()
}
