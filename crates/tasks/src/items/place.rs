//! The place of a bucket: a store with S3's API, a folder, or a base URL.

use super::content::Opened;
use super::folder::Folder;
use super::listing::Lister;
use super::outlet::Outlet;
use super::reading::Location;
use super::s3::S3;
use super::web::Web;

/// One bucket.
#[derive(Clone)]
pub(super) enum Place {
    S3(S3),
    Folder(Folder),
    Web(Web),
}

/// Why a place does not read or write, by the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlaceError {
    /// It does not exist.
    #[error("it does not exist, or its bucket does not: check the names in the definition")]
    Missing,
    /// Check the permissions.
    #[error("access was denied: check the credentials in [items] of perdura.toml and what they may do")]
    Denied,
    /// It changed: begin again.
    #[error("it changed while it was read: start the run again")]
    Changed,
    /// Change the definition or the configuration.
    #[error("{0}")]
    Refused(String),
    /// Check the store, or wait.
    #[error("the store did not do it: {0}")]
    Failed(String),
}

impl Place {
    /// Opens a file for reading.
    pub(super) async fn open(&self, at: &Location) -> Result<Opened, PlaceError> {
        match self {
            Self::S3(s3) => s3.open(&at.key, at.version_id.as_deref()).await,
            Self::Folder(_) | Self::Web(_) if at.version_id.is_some() => Err(PlaceError::Refused(
                "this bucket is a folder or a URL and keeps no versions: leave `VersionId` out".into(),
            )),
            Self::Folder(folder) => folder.open(&at.key).await,
            Self::Web(web) => web.open(&at.key).await,
        }
    }

    /// Begins to list the objects whose keys begin with this prefix.
    pub(super) fn list(&self, prefix: &str) -> Result<Lister, PlaceError> {
        match self {
            Self::S3(s3) => Ok(Lister::of_s3(s3.clone(), prefix)),
            Self::Folder(folder) => Lister::of_folder(folder, prefix),
            Self::Web(_) => Err(PlaceError::Refused(
                "this bucket is a URL, which cannot be listed: use s3:getObject, or a folder or an S3 store"
                    .into(),
            )),
        }
    }

    /// Begins a file.
    pub(super) async fn create(&self, key: &str) -> Result<Outlet, PlaceError> {
        match self {
            Self::S3(s3) => Ok(Outlet::of_s3(s3, key)),
            Self::Folder(folder) => Outlet::of_folder(folder, key).await,
            Self::Web(_) => Err(PlaceError::Refused(
                "this bucket is a URL, which can only be read: write to a folder or an S3 store".into(),
            )),
        }
    }
}

/// Whether a key is a path without empty parts, `.` and `..`, which URLs would normalise.
pub(super) fn is_plain_path(key: &str) -> bool {
    !key.split('/').any(|part| matches!(part, "" | "." | ".."))
}
