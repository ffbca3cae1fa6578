//! What whoever serves knows and does beside the data: its settings, and where backups go.

use crate::Refusal;
use serde::Serialize;
use std::sync::Arc;

/// A setting as it counts now; secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingShown {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The flag, the variable or the line of a file that says so, or that nobody did.
    pub from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    pub help: String,
}

/// A backup that is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackedUp {
    /// In the folder for backups.
    pub file: String,
    pub bytes: u64,
}

/// Makes a backup under this name. It waits for the disk.
pub type Backups = Arc<dyn Fn(&str) -> Result<BackedUp, Refusal> + Send + Sync>;

/// What whoever serves brings.
#[derive(Clone, Default)]
pub struct House {
    pub settings: Arc<[SettingShown]>,
    /// `None`: no folder for backups is configured.
    pub backups: Option<Backups>,
}
