//! A bucket that is a base URL: a key is appended to it and fetched with GET.
//!
//! The first request asks for a range, and the answer shows whether the server supports ranges. Redirects are not
//! followed.

use super::ask::accepted;
use super::content::{Content, Opened, check_encoding, content_length};
use super::place::{PlaceError, is_plain_path};
use super::remote::{Remote, Source, condition, content_total};
use crate::client::Client;
use http::StatusCode;
use url::Url;

/// A base URL.
#[derive(Clone)]
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
        let source = Source { client: self.client.clone(), url: self.address(key)?, signer: None };
        let first = source.ask(0, &None).await?;
        let total = content_total(&first.headers);
        // The answer to a range of an empty file.
        let is_empty = first.status == StatusCode::RANGE_NOT_SATISFIABLE && total == Some(0);
        let first = if is_empty { first } else { accepted(first).await? };
        check_encoding(&first.headers)?;
        let has_ranges = first.status != StatusCode::OK;
        let size = if has_ranges { total } else { content_length(&first.headers) };
        if has_ranges && size.is_none() {
            return Err(PlaceError::Failed("it sends a range without saying of how much".into()));
        }
        let condition = condition(&first.headers);
        let tag = condition.as_ref().and_then(|(_, value)| value.to_str().ok());
        let version = match (tag, size) {
            (Some(tag), _) => tag.into(),
            (None, Some(size)) => format!("{size} bytes").into(),
            (None, None) => "unknown".into(),
        };
        let remote = match size.filter(|_| has_ranges) {
            Some(0) => Remote::in_ranges(source, condition, 0),
            whole => Remote::begun(source, condition, whole, first),
        };
        Ok(Opened { version, size, content: Content::Remote(Box::new(remote)) })
    }

    /// The base with the key's parts appended, each escaped.
    fn address(&self, key: &str) -> Result<Url, PlaceError> {
        if !is_plain_path(key) {
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
