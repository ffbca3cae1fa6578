//! A bucket in a store with S3's API: objects are read in ranges, listed in pages, and written whole or in parts.

use super::ask::{SILENT_FOR_MAX, accepted, ask, whole};
use super::content::{Content, Opened, check_encoding, content_length};
use super::listing::{Page, read_error, read_page};
use super::place::{PlaceError, is_plain_path};
use super::remote::{Remote, Source};
use crate::aws::{Bounds, Request, Signer, push_pair, read_xml};
use crate::client::{Arriving, Client, Outgoing};
use bytes::Bytes;
use http::Method;
use http::header::{ETAG, HeaderMap, IF_MATCH};
use perdura_sigv4::escaped;
use std::fmt::Write as _;
use std::sync::Arc;
use url::Url;

/// The largest page of a listing: a thousand keys of a kilobyte, each byte encoded as three, and the XML around them.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A store's address, and its signer.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) endpoint: Url,
    pub(super) signer: Arc<Signer>,
    pub(super) is_path_style: bool,
}

/// One bucket of a store.
#[derive(Clone)]
pub(super) struct S3 {
    client: Client,
    /// The address of the bucket itself.
    base: Url,
    signer: Arc<Signer>,
}

/// An object that is written in parts.
pub(super) struct Upload {
    id: String,
    /// The tags of the uploaded parts.
    parts: Vec<String>,
}

impl S3 {
    /// A bucket with this name in that store.
    pub(super) fn new(client: &Client, account: &Account, bucket: &str) -> Result<Self, PlaceError> {
        let is_name = (1..=255).contains(&bucket.len())
            && bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
            && !bucket.starts_with('.');
        if !is_name {
            return Err(PlaceError::Refused(format!("\"{bucket}\" is not the name of a bucket")));
        }
        let base = bucket_address(account, bucket)?;
        Ok(Self { client: client.clone(), base, signer: account.signer.clone() })
    }

    /// Opens an object.
    pub(super) async fn open(&self, key: &str, version_id: Option<&str>) -> Result<Opened, PlaceError> {
        let query: Vec<_> = version_id.map(|id| ("versionId", id)).into_iter().collect();
        let found = self.ask(Method::HEAD, Some(key), &query, &Bytes::new()).await?;
        check_encoding(&found.headers)?;
        let size = content_length(&found.headers)
            .ok_or_else(|| PlaceError::Failed("it does not say how large the object is".into()))?;
        let tag = found.headers.get(ETAG);
        let version = tag.and_then(|tag| tag.to_str().ok()).unwrap_or("without a tag").into();
        let condition = tag.map(|tag| (IF_MATCH, tag.clone()));
        let url = self.request(Method::GET, Some(key), &query, &Bytes::new())?.url;
        let source = Source { client: self.client.clone(), url, signer: Some(self.signer.clone()) };
        let content = Content::Remote(Box::new(Remote::in_ranges(source, condition, size)));
        Ok(Opened { version, size: Some(size), content })
    }

    /// One page of the keys with this prefix.
    pub(super) async fn page(&self, prefix: &str, token: Option<&str>) -> Result<Page, PlaceError> {
        let mut query =
            vec![("encoding-type", "url"), ("list-type", "2"), ("max-keys", "1000"), ("prefix", prefix)];
        query.extend(token.map(|token| ("continuation-token", token)));
        let answer = self.ask(Method::GET, None, &query, &Bytes::new()).await?;
        read_page(&whole(answer, ANSWER_BYTES_MAX).await?)
    }

    /// Writes an object with one request.
    pub(super) async fn put(&self, key: &str, content: Vec<u8>) -> Result<(), PlaceError> {
        self.ask(Method::PUT, Some(key), &[], &content.into()).await.map(drop)
    }

    /// Begins to write an object in parts.
    pub(super) async fn begin(&self, key: &str) -> Result<Upload, PlaceError> {
        let answer = self.ask(Method::POST, Some(key), &[("uploads", "")], &Bytes::new()).await?;
        let body = whole(answer, ANSWER_BYTES_MAX).await?;
        let said = read_xml(&body).map_err(PlaceError::Failed)?;
        match said.text_of("UploadId") {
            Some(id) => Ok(Upload { id: id.to_owned(), parts: Vec::new() }),
            None => Err(PlaceError::Failed("it does not say which upload it began".into())),
        }
    }

    /// Writes the next part.
    pub(super) async fn put_part(
        &self,
        key: &str,
        upload: &mut Upload,
        part: Vec<u8>,
    ) -> Result<(), PlaceError> {
        let number = (upload.parts.len() + 1).to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", upload.id.as_str())];
        let answer = self.ask(Method::PUT, Some(key), &query, &part.into()).await?;
        let tag = answer.headers.get(ETAG).and_then(|tag| tag.to_str().ok());
        let tag = tag.ok_or_else(|| PlaceError::Failed("it took a part without giving its tag".into()))?;
        upload.parts.push(tag.to_owned());
        Ok(())
    }

    /// Makes an object of its parts. A store may send a success status before it begins, and an error in the body.
    pub(super) async fn complete(&self, key: &str, upload: &Upload) -> Result<(), PlaceError> {
        let mut xml = "<CompleteMultipartUpload>".to_owned();
        for (tag, number) in upload.parts.iter().zip(1..) {
            let tag = tag.replace('&', "&amp;").replace('<', "&lt;");
            write!(xml, "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
                .expect("a String takes everything");
        }
        xml.push_str("</CompleteMultipartUpload>");
        let answer = self.ask(Method::POST, Some(key), &[("uploadId", &upload.id)], &xml.into()).await?;
        match read_error(&whole(answer, ANSWER_BYTES_MAX).await?) {
            Some(said) => Err(PlaceError::Failed(said)),
            None => Ok(()),
        }
    }

    /// Deletes the parts of an object that will not be completed.
    pub(super) async fn abort(&self, key: &str, upload: &Upload) -> Result<(), PlaceError> {
        self.ask(Method::DELETE, Some(key), &[("uploadId", &upload.id)], &Bytes::new()).await.map(drop)
    }

    async fn ask(
        &self,
        method: Method,
        key: Option<&str>,
        query: &[(&str, &str)],
        body: &Bytes,
    ) -> Result<Arriving, PlaceError> {
        let request = self.request(method, key, query, body)?;
        let signed = || {
            let mut request = request.clone();
            self.signer.sign(&mut request, "s3");
            request
        };
        accepted(ask(&self.client, signed).await?).await
    }

    /// A request for an object, or for the bucket itself.
    fn request(
        &self,
        method: Method,
        key: Option<&str>,
        parameters: &[(&str, &str)],
        body: &Bytes,
    ) -> Result<Outgoing, PlaceError> {
        if let Some(key) = key.filter(|key| !is_plain_path(key)) {
            return Err(PlaceError::Refused(format!(
                "the key \"{key}\" begins or ends with a slash, or has an empty part, `.` or `..` in it, which cannot \
                 be read or written here: rename the object"
            )));
        }
        let path = key.map_or_else(String::new, |key| format!("/{}", escaped(key, true)));
        let mut query = String::new();
        for (name, value) in parameters {
            push_pair(&mut query, name, value);
        }
        let request = Request { method, path, query, headers: HeaderMap::new(), body: body.clone() };
        Ok(request.at(&self.base, Bounds { timeout: SILENT_FOR_MAX, answer_bytes_max: ANSWER_BYTES_MAX }))
    }
}

fn bucket_address(account: &Account, bucket: &str) -> Result<Url, PlaceError> {
    let mut url = account.endpoint.clone();
    if account.is_path_style {
        let path = format!("{}/{bucket}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        return Ok(url);
    }
    let host = format!("{bucket}.{}", url.host_str().unwrap_or_default());
    match url.set_host(Some(&host)) {
        Ok(()) => Ok(url),
        Err(_) => Err(PlaceError::Refused(format!(
            "the bucket's name cannot be a part of the host {host}: set path_style = true in [items]"
        ))),
    }
}
