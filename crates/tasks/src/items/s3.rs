//! A bucket in a store that speaks S3.
//!
//! Reading and writing objects is `object_store`'s work. Listing is done here, with its signature: its own listing
//! knows no storage class, and takes keys for paths of a file system, which they need not be.

use super::ask::{ask, text};
use super::content::{BLOCK_BYTES, Content, Opened, check_encoding};
use super::listing::{Page, read_error, read_page};
use super::place::{PlaceError, story};
use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder, AwsAuthorizer, AwsCredential};
use object_store::client::{HttpClient, HttpConnector, HttpRequest, HttpRequestBody};
use object_store::path::Path;
use object_store::{Attribute, BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectStore, RetryConfig};
use reqwest::{Client, Method, Request, Url};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The largest page of a listing: a thousand keys of a kilobyte, each byte written as three, and what stands around.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Where a store is, and how to sign for it.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) endpoint: Url,
    pub(super) region: String,
    pub(super) credential: Option<Arc<AwsCredential>>,
    pub(super) is_path_style: bool,
}

/// One bucket of a store.
#[derive(Clone)]
pub(super) struct S3 {
    pub(super) store: Arc<AmazonS3>,
    client: Client,
    /// The address of the bucket itself.
    base: Url,
    account: Arc<Account>,
}

impl fmt::Debug for S3 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "S3({})", self.base)
    }
}

/// The client that everything here goes through.
#[derive(Debug)]
struct Given(Client);

impl HttpConnector for Given {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

impl S3 {
    /// A bucket with this name there.
    pub(super) fn new(client: &Client, account: &Arc<Account>, bucket: &str) -> Result<Self, PlaceError> {
        let is_name = (1..=255).contains(&bucket.len())
            && bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
            && !bucket.starts_with('.');
        if !is_name {
            return Err(PlaceError::Refused(format!("\"{bucket}\" is not the name of a bucket")));
        }
        let base = bucket_address(account, bucket)?;
        let endpoint = if account.is_path_style { &account.endpoint } else { &base };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(&account.region)
            .with_endpoint(endpoint.as_str().trim_end_matches('/'))
            .with_virtual_hosted_style_request(!account.is_path_style)
            .with_allow_http(true)
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: 5,
                retry_timeout: Duration::from_mins(1),
            })
            .with_http_connector(Given(client.clone()));
        builder = match &account.credential {
            Some(credential) => {
                let builder = builder
                    .with_access_key_id(&credential.key_id)
                    .with_secret_access_key(&credential.secret_key);
                match &credential.token {
                    Some(token) => builder.with_token(token),
                    None => builder,
                }
            }
            // Otherwise it would look for credentials at the metadata address of a cloud.
            None => builder.with_skip_signature(true),
        };
        let store = builder.build().map_err(|error| trouble(&error))?;
        Ok(Self { store: Arc::new(store), client: client.clone(), base, account: account.clone() })
    }

    /// Opens an object.
    pub(super) async fn open(&self, key: &str, version_id: Option<&str>) -> Result<Opened, PlaceError> {
        let path = path_of(key)?;
        let head = GetOptions { head: true, version: version_id.map(str::to_owned), ..GetOptions::default() };
        let found = self.store.get_opts(&path, head).await.map_err(|error| trouble(&error))?;
        check_encoding(found.attributes.get(&Attribute::ContentEncoding).map(|value| &**value))?;
        let etag = found.meta.e_tag.clone();
        Ok(Opened {
            version: etag.as_deref().unwrap_or("without a tag").into(),
            size: Some(found.meta.size),
            content: Content::Blocks(Blocks {
                store: self.store.clone(),
                path,
                version_id: version_id.map(str::to_owned),
                etag,
                at: 0,
                size: found.meta.size,
            }),
        })
    }

    /// One page of the keys that begin so.
    pub(super) async fn page(&self, prefix: &str, token: Option<&str>) -> Result<Page, PlaceError> {
        let mut url = self.base.clone();
        url.query_pairs_mut()
            .append_pair("encoding-type", "url")
            .append_pair("list-type", "2")
            .append_pair("max-keys", "1000")
            .append_pair("prefix", prefix);
        if let Some(token) = token {
            url.query_pairs_mut().append_pair("continuation-token", token);
        }
        let response = ask(&self.client, || self.signed(&url)).await?;
        let status = response.status();
        let body = text(response, PAGE_BYTES_MAX).await?;
        if status.is_success() {
            return read_page(&body);
        }
        Err(match (status.as_u16(), read_error(&body)) {
            (404, _) => PlaceError::Missing,
            (401 | 403, _) => PlaceError::Denied,
            (_, Some(said)) => PlaceError::Failed(format!("it answered {status}: {said}")),
            (_, None) => PlaceError::Failed(format!("it answered {status}")),
        })
    }

    fn signed(&self, url: &Url) -> Result<Request, PlaceError> {
        let mut request = Request::new(Method::GET, url.clone());
        if let Some(credential) = &self.account.credential {
            let mut signed = HttpRequest::new(HttpRequestBody::empty());
            *signed.uri_mut() =
                url.as_str().parse().map_err(|_| PlaceError::Failed(format!("{url} is not an address")))?;
            AwsAuthorizer::new(credential, "s3", &self.account.region)
                .try_authorize(&mut signed, None)
                .map_err(|error| trouble(&error))?;
            *request.headers_mut() = signed.headers().clone();
        }
        Ok(request)
    }
}

/// An object whose bytes are fetched as they are wanted.
pub(super) struct Blocks {
    store: Arc<AmazonS3>,
    path: Path,
    version_id: Option<String>,
    etag: Option<String>,
    at: u64,
    size: u64,
}

impl Blocks {
    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, PlaceError> {
        if self.at >= self.size {
            return Ok(None);
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(self.at..self.size.min(self.at + BLOCK_BYTES))),
            if_match: self.etag.clone(),
            version: self.version_id.clone(),
            ..GetOptions::default()
        };
        let got = self.store.get_opts(&self.path, options).await.map_err(|error| trouble(&error))?;
        if got.meta.size != self.size || got.meta.e_tag != self.etag {
            return Err(PlaceError::Changed);
        }
        let block = got.bytes().await.map_err(|error| trouble(&error))?;
        if block.is_empty() {
            return Err(PlaceError::Failed(format!("nothing came after byte {} of {}", self.at, self.size)));
        }
        self.at += block.len() as u64;
        Ok(Some(block))
    }
}

/// A key as the store's client writes it. Some keys it cannot write, and would take for others.
pub(super) fn path_of(key: &str) -> Result<Path, PlaceError> {
    match Path::parse(key) {
        Ok(path) if path.as_ref() == key && !key.is_empty() => Ok(path),
        Ok(_) | Err(_) => Err(PlaceError::Refused(format!(
            "the key \"{key}\" begins or ends with a slash, or has an empty part, `.` or `..` in it, which cannot be \
             read or written here: rename the object"
        ))),
    }
}

/// Sorts what `object_store` says by what a person can do.
pub(super) fn trouble(error: &object_store::Error) -> PlaceError {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => PlaceError::Missing,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => PlaceError::Denied,
        Error::Precondition { .. } => PlaceError::Changed,
        other => PlaceError::Failed(story(other)),
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
