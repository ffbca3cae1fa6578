//! That a machine is paused, as the catalog keeps it.

use perdura_engine::Timestamp;
use perdura_store::{MachineId, Registered, Registry};
use serde::{Deserialize, Serialize};

/// All machines. No machine is called so.
pub const ALL: &str = "*";

/// A machine is paused, or all of them are: what is started waits before its first state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// `None`: all machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineId>,
    /// What runs stops at its next state; otherwise it goes on.
    pub now: bool,
}

impl Pause {
    /// As it is kept.
    pub fn read(entry: &Registered) -> serde_json::Result<Self> {
        serde_json::from_slice(&entry.body)
    }

    /// To be kept under the name of the machine, or [`ALL`].
    pub fn entry(&self, name: &str, at: Timestamp) -> Registered {
        let body = serde_json::to_vec(self).expect("plain data is JSON");
        Registered { kind: Registry::Pause, name: name.into(), created_at: at, body }
    }
}
