//! The configured stores, and which of them a bucket's name means.

use super::folder::Folder;
use super::place::{Place, PlaceError};
use super::s3::{Account, S3};
use super::settings::{BucketSettings, ItemSettings, Secret};
use super::web::Web;
use object_store::aws::AwsCredential;
use reqwest::{Client, Url};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// All configured stores. Cheap to clone.
#[derive(Clone)]
pub struct ItemStores(Arc<Inner>);

struct Inner {
    client: Client,
    default: Option<Arc<Account>>,
    buckets: BTreeMap<String, Place>,
    file_bytes_max: u64,
    result_file_bytes_max: u64,
}

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// An address that is none, or of a kind that is not spoken.
    #[error("{at}: \"{text}\" is not an http or https address without a name and password in it")]
    Address {
        /// Which setting.
        at: String,
        /// What it says.
        text: String,
    },
    /// Plain HTTP where it is not allowed.
    #[error(
        "{at}: \"{text}\" would send data and credentials in the clear; use https, or set items.allow_http = true"
    )]
    PlainHttp {
        /// Which setting.
        at: String,
        /// What it says.
        text: String,
    },
    /// Half of the credentials.
    #[error("{at}: access_key_id and secret_access_key belong together; set both or none")]
    Credentials {
        /// Of which table.
        at: String,
    },
    /// A folder that cannot be used.
    #[error("{at}: the folder {folder} cannot be used: {error}")]
    Folder {
        /// Which setting.
        at: String,
        /// Which folder.
        folder: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A folder that is not below the one that is allowed.
    #[error(
        "{at}: the folder {folder} must be below items.local, which names the one folder for local files"
    )]
    Outside {
        /// Which setting.
        at: String,
        /// Which folder.
        folder: PathBuf,
    },
    /// Not one of the three kinds.
    #[error("{at}: a bucket has one of `folder`, `url`, or `endpoint` or `region` of an S3 store")]
    Kind {
        /// Which bucket.
        at: String,
    },
    /// A bucket that cannot be.
    #[error("{at}: {why}")]
    Bucket {
        /// Which bucket.
        at: String,
        /// Why.
        why: String,
    },
}

/// What of a table says where a store is.
struct AccountSettings<'s> {
    at: String,
    endpoint: Option<&'s String>,
    region: Option<&'s String>,
    access_key_id: Option<&'s String>,
    secret_access_key: Option<&'s Secret>,
    session_token: Option<&'s Secret>,
    path_style: Option<bool>,
    allow_http: bool,
}

impl ItemStores {
    /// Those of these settings. All requests go through the client, which decides what addresses may be reached; it
    /// should have no timeout for whole answers, since a file may take long.
    pub fn new(settings: &ItemSettings, client: Client) -> Result<Self, SettingsError> {
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
            allow_http: settings.allow_http,
        })?;
        let buckets = settings.buckets.iter().map(|(name, bucket)| {
            let place = place(name, bucket, &client, local.as_ref(), settings.allow_http)?;
            Ok((name.clone(), place))
        });
        let buckets = buckets.collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Inner {
            client,
            default,
            buckets,
            file_bytes_max: settings.file_bytes_max,
            result_file_bytes_max: settings.result_file_bytes_max,
        })))
    }

    /// What a bucket's name means.
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

    /// The largest file that is read.
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
    allow_http: bool,
) -> Result<Place, SettingsError> {
    let at = format!("items.buckets.\"{name}\"");
    let has_store = settings.endpoint.is_some() || settings.region.is_some();
    match (&settings.folder, &settings.url, has_store) {
        (Some(folder), None, false) => folder_below(&at, folder, local).map(Place::Folder),
        (None, Some(url), false) => {
            let base = address(&format!("{at}.url"), url, allow_http)?;
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
                allow_http,
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
fn account(settings: &AccountSettings<'_>) -> Result<Option<Arc<Account>>, SettingsError> {
    let region = settings.region.cloned().unwrap_or_else(|| "us-east-1".into());
    let endpoint = match (settings.endpoint, settings.region) {
        (None, None) => return Ok(None),
        (Some(endpoint), _) => endpoint.clone(),
        (None, Some(region)) => format!("https://s3.{region}.amazonaws.com"),
    };
    let credential = match (settings.access_key_id, settings.secret_access_key) {
        (Some(id), Some(secret)) => Some(Arc::new(AwsCredential {
            key_id: id.clone(),
            secret_key: secret.reveal().to_owned(),
            token: settings.session_token.map(|token| token.reveal().to_owned()),
        })),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(SettingsError::Credentials { at: settings.at.clone() });
        }
    };
    let endpoint = address(&format!("{}.endpoint", settings.at), &endpoint, settings.allow_http)?;
    let is_path_style = settings.path_style.unwrap_or(settings.endpoint.is_some());
    Ok(Some(Arc::new(Account { endpoint, region, credential, is_path_style })))
}

fn address(at: &str, text: &str, allow_http: bool) -> Result<Url, SettingsError> {
    let (at, shown) = (at.to_owned(), text.to_owned());
    match Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err(SettingsError::Address { at, text: "(an address with a password)".into() })
        }
        Ok(url) if url.scheme() == "https" || url.scheme() == "http" && allow_http => Ok(url),
        Ok(url) if url.scheme() == "http" => Err(SettingsError::PlainHttp { at, text: shown }),
        Ok(_) | Err(_) => Err(SettingsError::Address { at, text: shown }),
    }
}
