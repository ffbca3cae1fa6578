//! A file in a store or on a web server, fetched with GET as needed.
//!
//! A server that supports ranges gets one range request after the other, each under the condition that the file is
//! still the same. If an answer breaks off, reading continues from there. A server without ranges sends the whole file,
//! and a broken connection is an error.

use super::ask::{SILENT_FOR_MAX, TRIES, accepted, ask, pause, trouble};
use super::content::BLOCK_BYTES;
use super::place::PlaceError;
use crate::aws::Signer;
use crate::client::{Arriving, Client, Outgoing};
use bytes::Bytes;
use http::header::{
    CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
    RANGE,
};
use http::{Method, StatusCode};
use std::sync::Arc;
use url::Url;

/// The server and the file.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) client: Client,
    pub(super) url: Url,
    /// The signer, for a store.
    pub(super) signer: Option<Arc<Signer>>,
}

/// The condition for later ranges.
pub(super) type Condition = Option<(HeaderName, HeaderValue)>;

/// A file whose bytes are fetched as needed.
pub(super) struct Remote {
    source: Source,
    condition: Condition,
    at: u64,
    /// Its size, if the server supports ranges.
    whole: Option<u64>,
    answer: Option<Arriving>,
    /// How many answers were begun since the last byte came.
    begun: u32,
}

impl Source {
    /// Requests a block from this position.
    pub(super) async fn ask(&self, at: u64, condition: &Condition) -> Result<Arriving, PlaceError> {
        ask(&self.client, || self.ranged(at, condition)).await
    }

    fn ranged(&self, at: u64, condition: &Condition) -> Outgoing {
        let range = format!("bytes={at}-{}", at + BLOCK_BYTES - 1);
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_str(&range).expect("digits are a header"));
        headers.extend(condition.clone());
        let mut outgoing = Outgoing {
            method: Method::GET,
            url: self.url.clone(),
            headers,
            body: Bytes::new(),
            timeout: SILENT_FOR_MAX,
            answer_bytes_max: usize::MAX,
        };
        if let Some(signer) = &self.signer {
            signer.sign(&mut outgoing, "s3");
        }
        outgoing
    }
}

impl Remote {
    /// A file of this size, in ranges.
    pub(super) fn in_ranges(source: Source, condition: Condition, whole: u64) -> Self {
        Self { source, condition, at: 0, whole: Some(whole), answer: None, begun: 0 }
    }

    /// A file whose bytes come with this answer, and with further ones if its size is known.
    pub(super) fn begun(source: Source, condition: Condition, whole: Option<u64>, first: Arriving) -> Self {
        Self { source, condition, at: 0, whole, answer: Some(first), begun: 1 }
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, PlaceError> {
        loop {
            let Some(answer) = &mut self.answer else {
                match self.whole {
                    Some(whole) if self.at < whole && self.begun == TRIES => {
                        let what = format!("nothing came after byte {} of {whole}", self.at);
                        return Err(PlaceError::Failed(what));
                    }
                    Some(whole) if self.at < whole => {
                        self.begun += 1;
                        self.answer = Some(self.range().await?);
                    }
                    Some(_) | None => return Ok(None),
                }
                continue;
            };
            match answer.next().await {
                Ok(Some(piece)) => {
                    self.at += piece.len() as u64;
                    self.begun = 0;
                    if self.whole.is_some_and(|whole| self.at > whole) {
                        return Err(PlaceError::Changed);
                    }
                    return Ok(Some(piece));
                }
                Ok(None) => self.answer = None,
                Err(_) if self.whole.is_some() && self.begun < TRIES => {
                    self.answer = None;
                    pause(self.begun).await;
                }
                Err(error) => return Err(trouble(&error)),
            }
        }
    }

    async fn range(&self) -> Result<Arriving, PlaceError> {
        let answer = self.source.ask(self.at, &self.condition).await?;
        let is_other = self.condition.as_ref().is_some_and(|(name, wanted)| {
            *name == IF_MATCH && answer.headers.get(ETAG).is_some_and(|tag| tag != wanted)
        });
        match answer.status {
            StatusCode::PARTIAL_CONTENT if content_total(&answer.headers) == self.whole && !is_other => {
                Ok(answer)
            }
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                Err(PlaceError::Changed)
            }
            status => {
                accepted(answer).await?;
                Err(PlaceError::Failed(format!("it answered {status}")))
            }
        }
    }
}

/// The condition for later ranges: a strong tag, or the time of the last change.
pub(super) fn condition(headers: &HeaderMap) -> Condition {
    let strong = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    let tag = strong.map(|tag| (IF_MATCH, tag.clone()));
    tag.or_else(|| headers.get(LAST_MODIFIED).map(|time| (IF_UNMODIFIED_SINCE, time.clone())))
}

/// From `Content-Range: bytes 0-9/100`, or `bytes */100`.
pub(super) fn content_total(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_RANGE)?.to_str().ok()?.rsplit('/').next()?.parse().ok()
}
