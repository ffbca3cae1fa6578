//! The configured stores, and the lookup of a bucket's name.

use super::folder::Folder;
use super::place::{Place, PlaceError};
use super::s3::{Account, S3};
use super::settings::{BucketSettings, ItemSettings};
use super::web::Web;
use crate::aws::{Signer, credentials};
use crate::client::Client;
use crate::guard::{Guard, Reason};
use perdura_sigv4::Secret;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use url::Url;

/// All configured stores. Cheap to clone.
#[derive(Clone)]
pub struct ItemStores(Arc<Inner>);

struct Inner {
    client: Client,
    default: Option<Account>,
    buckets: BTreeMap<String, Place>,
    file_bytes_max: u64,
    result_file_bytes_max: u64,
}

/// A mistake in the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// An invalid address, or one with an unsupported scheme.
    #[error("{at}: \"{text}\" is not an http or https address without a name and password in it")]
    Address {
        /// Which setting.
        at: String,
        /// Its value.
        text: String,
    },
    /// An address that must not be called.
    #[error("{at}: \"{text}\" is not called: {reason}; if it is meant, allow it under [http]")]
    Forbidden {
        /// Which setting.
        at: String,
        /// Its value.
        text: String,
        reason: Reason,
    },
    /// Plain HTTP without `allow_http`.
    #[error(
        "{at}: \"{text}\" would send data and credentials in the clear; use https, or set items.allow_http = true"
    )]
    PlainHttp {
        /// Which setting.
        at: String,
        /// Its value.
        text: String,
    },
    /// A text that is invalid in a header.
    #[error(
        "{at}: the region, the access key id or the session token holds a space, a line end or no plain text"
    )]
    Unsendable { at: String },
    /// Half of the credentials.
    #[error("{at}: access_key_id and secret_access_key belong together; set both or none")]
    Credentials { at: String },
    /// A folder that cannot be used.
    #[error("{at}: the folder {folder} cannot be used: {error}")]
    Folder {
        /// Which setting.
        at: String,
        folder: PathBuf,
        error: io::Error,
    },
    /// A folder outside of the allowed one.
    #[error(
        "{at}: the folder {folder} must be below items.local, which names the one folder for local files"
    )]
    Outside {
        /// Which setting.
        at: String,
        folder: PathBuf,
    },
    /// Not exactly one of the three kinds.
    #[error("{at}: a bucket has one of `folder`, `url`, or `endpoint` or `region` of an S3 store")]
    Kind {
        /// Which bucket.
        at: String,
    },
    /// An invalid bucket.
    #[error("{at}: {why}")]
    Bucket {
        /// Which bucket.
        at: String,
        why: String,
    },
}

/// The rules for addresses.
#[derive(Clone, Copy)]
struct Rules<'s> {
    guard: &'s Guard,
    allow_http: bool,
}

/// The settings of a table that describe a store.
struct AccountSettings<'s> {
    at: String,
    endpoint: Option<&'s String>,
    region: Option<&'s String>,
    access_key_id: Option<&'s String>,
    secret_access_key: Option<&'s Secret>,
    session_token: Option<&'s Secret>,
    path_style: Option<bool>,
    rules: Rules<'s>,
}

impl ItemStores {
    /// The stores of these settings, reached with this client.
    pub fn new(settings: &ItemSettings, client: &Client) -> Result<Self, SettingsError> {
        let rules = Rules { guard: client.guard(), allow_http: settings.allow_http };
        let local = match &settings.local {
            None => None,
            Some(folder) => Some(Folder::new(folder).map_err(|error| SettingsError::Folder {
                at: "items.local".into(),
                folder: folder.clone(),
                error,
            })?),
        };
        let default = account(&AccountSettings {
            at: "items".into(),
            endpoint: settings.endpoint.as_ref(),
            region: settings.region.as_ref(),
            access_key_id: settings.access_key_id.as_ref(),
            secret_access_key: settings.secret_access_key.as_ref(),
            session_token: settings.session_token.as_ref(),
            path_style: settings.path_style,
            rules,
        })?;
        let buckets = settings.buckets.iter().map(|(name, bucket)| {
            let place = place(name, bucket, client, local.as_ref(), rules)?;
            Ok((name.clone(), place))
        });
        let buckets = buckets.collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Inner {
            client: client.clone(),
            default,
            buckets,
            file_bytes_max: settings.file_bytes_max,
            result_file_bytes_max: settings.result_file_bytes_max,
        })))
    }

    /// The place of a bucket's name.
    pub(super) fn place(&self, bucket: &str) -> Result<Place, PlaceError> {
        if let Some(place) = self.0.buckets.get(bucket) {
            return Ok(place.clone());
        }
        match &self.0.default {
            Some(account) => Ok(Place::S3(S3::new(&self.0.client, account, bucket)?)),
            None => Err(PlaceError::Refused(format!(
                "no store is configured for it: in perdura.toml, set `endpoint` or `region` of an S3 store in [items], \
                 or `folder` or `url` in [items.buckets.\"{bucket}\"]"
            ))),
        }
    }

    /// The largest file to read.
    pub(super) fn file_bytes_max(&self) -> u64 {
        self.0.file_bytes_max
    }

    /// The largest file of results.
    pub(super) fn result_file_bytes_max(&self) -> u64 {
        self.0.result_file_bytes_max
    }
}

fn place(
    name: &str,
    settings: &BucketSettings,
    client: &Client,
    local: Option<&Folder>,
    rules: Rules<'_>,
) -> Result<Place, SettingsError> {
    let at = format!("items.buckets.\"{name}\"");
    let has_store = settings.endpoint.is_some() || settings.region.is_some();
    match (&settings.folder, &settings.url, has_store) {
        (Some(folder), None, false) => folder_below(&at, folder, local).map(Place::Folder),
        (None, Some(url), false) => {
            let base = address(&format!("{at}.url"), url, rules)?;
            Ok(Place::Web(Web::new(client, base)))
        }
        (None, None, true) => {
            let account = account(&AccountSettings {
                at: at.clone(),
                endpoint: settings.endpoint.as_ref(),
                region: settings.region.as_ref(),
                access_key_id: settings.access_key_id.as_ref(),
                secret_access_key: settings.secret_access_key.as_ref(),
                session_token: settings.session_token.as_ref(),
                path_style: settings.path_style,
                rules,
            })?;
            let account = account.ok_or_else(|| SettingsError::Kind { at: at.clone() })?;
            let there = settings.bucket.as_deref().unwrap_or(name);
            let s3 = S3::new(client, &account, there)
                .map_err(|error| SettingsError::Bucket { at, why: error.to_string() })?;
            Ok(Place::S3(s3))
        }
        _ => Err(SettingsError::Kind { at }),
    }
}

fn folder_below(at: &str, folder: &PathBuf, local: Option<&Folder>) -> Result<Folder, SettingsError> {
    let at = format!("{at}.folder");
    let Some(local) = local else {
        return Err(SettingsError::Outside { at, folder: folder.clone() });
    };
    let found = Folder::new(&local.root().join(folder)).map_err(|error| SettingsError::Folder {
        at: at.clone(),
        folder: folder.clone(),
        error,
    })?;
    if !found.root().starts_with(local.root()) {
        return Err(SettingsError::Outside { at, folder: folder.clone() });
    }
    Ok(found)
}

/// The store of a table; `None` if it names none.
fn account(settings: &AccountSettings<'_>) -> Result<Option<Account>, SettingsError> {
    let unsendable = || SettingsError::Unsendable { at: settings.at.clone() };
    let region = settings.region.cloned().unwrap_or_else(|| "us-east-1".into());
    if !region.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unsendable());
    }
    let endpoint = match (settings.endpoint, settings.region) {
        (None, None) => return Ok(None),
        (Some(endpoint), _) => endpoint.clone(),
        (None, Some(region)) => format!("https://s3.{region}.amazonaws.com"),
    };
    let credentials = match (settings.access_key_id, settings.secret_access_key) {
        (Some(id), Some(secret)) => Some(
            credentials(id.clone(), secret.clone(), settings.session_token.cloned())
                .ok_or_else(unsendable)?,
        ),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(SettingsError::Credentials { at: settings.at.clone() });
        }
    };
    let endpoint = address(&format!("{}.endpoint", settings.at), &endpoint, settings.rules)?;
    let is_path_style = settings.path_style.unwrap_or(settings.endpoint.is_some());
    let signer = Arc::new(Signer { region, credentials });
    Ok(Some(Account { endpoint, signer, is_path_style }))
}

fn address(at: &str, text: &str, rules: Rules<'_>) -> Result<Url, SettingsError> {
    let (at, shown) = (at.to_owned(), text.to_owned());
    let url = match Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            return Err(SettingsError::Address { at, text: "(an address with a password)".into() });
        }
        Ok(url) if url.scheme() == "https" || url.scheme() == "http" && rules.allow_http => url,
        Ok(url) if url.scheme() == "http" => return Err(SettingsError::PlainHttp { at, text: shown }),
        Ok(_) | Err(_) => return Err(SettingsError::Address { at, text: shown }),
    };
    let literal = url.host_str().and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
    match literal.map_or(Ok(()), |address| rules.guard.judge(address)) {
        Ok(()) => Ok(url),
        Err(reason) => Err(SettingsError::Forbidden { at, text: shown, reason }),
    }
}
