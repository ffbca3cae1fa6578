//! The table `[items]` of `perdura.toml`: the stores, and the meaning of bucket names.
//!
//! It reads nothing from the environment. The process may pass the usual AWS variables as values, by
//! [`ItemSettings::or_credentials`].

use perdura_sigv4::Secret;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The default for the largest file to read: 100 GB.
const FILE_BYTES_MAX: u64 = 100_000_000_000;

/// AWS's limit for a file: 10 GB.
const STRICT_FILE_BYTES_MAX: u64 = 10_000_000_000;

/// The default for the largest file of results: 1 GB.
const RESULT_FILE_BYTES_MAX: u64 = 1_000_000_000;

/// Where items come from and results go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ItemSettings {
    /// The address of the default store, which must have S3's API: `https://s3.example.org`. Without it, and with a
    /// region, the store is Amazon's own.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: Option<String>,
    /// The public half of the credentials.
    pub access_key_id: Option<String>,
    /// The secret half.
    pub secret_access_key: Option<Secret>,
    /// For credentials that expire.
    pub session_token: Option<Secret>,
    /// Whether the bucket's name is in the path of the address, as most stores want it, or in its host. Default: the
    /// path if an endpoint is given, the host at Amazon's own.
    pub path_style: Option<bool>,
    /// Whether an endpoint or a URL may be plain `http`, which shows all data to the network.
    pub allow_http: bool,
    /// The folder for local files; files outside it are not read or written.
    pub local: Option<PathBuf>,
    /// The largest file to read, in bytes as it is stored.
    pub file_bytes_max: u64,
    /// Results are split into files of at most so many bytes.
    pub result_file_bytes_max: u64,
    /// The meaning of particular bucket names.
    pub buckets: BTreeMap<String, BucketSettings>,
}

/// One bucket: one of `folder`, `url`, or a store of its own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BucketSettings {
    /// A folder on this machine, below `local`.
    pub folder: Option<PathBuf>,
    /// A base URL; a key is appended to it. It can only be read, not listed.
    pub url: Option<String>,
    /// The address of the store that has this bucket.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// The bucket's name in that store, if it differs.
    pub bucket: Option<String>,
    /// The public half of the credentials there.
    pub access_key_id: Option<String>,
    /// The secret half.
    pub secret_access_key: Option<Secret>,
    /// For credentials that expire.
    pub session_token: Option<Secret>,
    /// As for the default store.
    pub path_style: Option<bool>,
}

impl Default for ItemSettings {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
            path_style: None,
            allow_http: false,
            local: None,
            file_bytes_max: FILE_BYTES_MAX,
            result_file_bytes_max: RESULT_FILE_BYTES_MAX,
            buckets: BTreeMap::new(),
        }
    }
}

impl ItemSettings {
    /// Makes relative paths absolute: `local` below this folder, folders of buckets below `local`.
    pub(crate) fn local_from(&mut self, base: &Path) {
        if let Some(local) = &mut self.local {
            *local = base.join(&*local);
        }
    }

    /// Uses these credentials for the default store if none are configured; meant for the values of
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`. All or none: an id and a secret from
    /// different sources do not belong together.
    pub fn or_credentials(
        mut self,
        access_key_id: Option<String>,
        secret_access_key: Option<Secret>,
        session_token: Option<Secret>,
    ) -> Self {
        if self.access_key_id.is_none() && self.secret_access_key.is_none() {
            self.access_key_id = access_key_id;
            self.secret_access_key = secret_access_key;
            self.session_token = session_token;
        }
        self
    }

    /// With AWS's limits.
    pub fn strict(mut self) -> Self {
        self.file_bytes_max = self.file_bytes_max.min(STRICT_FILE_BYTES_MAX);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let settings = ItemSettings::default().or_credentials(
            Some("AKIDEXAMPLE".into()),
            Some(Secret::new("hidden")),
            Some(Secret::new("hidden too")),
        );
        let shown = format!("{settings:?}");
        assert!(shown.contains("AKIDEXAMPLE") && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn configured_credentials_are_not_mixed_with_others() {
        let configured = ItemSettings { access_key_id: Some("ours".into()), ..ItemSettings::default() };
        let settings = configured.or_credentials(Some("theirs".into()), Some(Secret::new("theirs")), None);
        assert_eq!(settings.access_key_id.as_deref(), Some("ours"));
        assert_eq!(settings.secret_access_key, None);
    }

    #[test]
    fn unknown_settings_are_refused() {
        for text in [r#"{"endpiont": "https://s3.example.org"}"#, r#"{"buckets": {"a": {"floder": "b"}}}"#] {
            assert!(serde_json::from_str::<ItemSettings>(text).is_err(), "{text}");
        }
    }
}
