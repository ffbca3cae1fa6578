//! The identity and the limits of an execution, fixed at its start.

use crate::id::ExecutionId;
use crate::labels::Labels;
use perdura_asl::json::Payload;
use perdura_asl::machine::{FlowIx, Machine, MachineType};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The identity of an execution, fixed at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Its id, from which all its keys follow.
    pub id: ExecutionId,
    pub arn: Arc<str>,
    pub name: Arc<str>,
    /// Its machine's ARN.
    pub machine_arn: Arc<str>,
    /// Its machine's name.
    pub machine_name: Arc<str>,
    /// Its role on AWS.
    pub role_arn: Arc<str>,
    /// The version of its machine that it was started under, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_arn: Option<Arc<str>>,
    /// The alias that it was started by, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_arn: Option<Arc<str>>,
    /// The trace header of the caller that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_header: Option<Arc<str>>,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The key of the first request: its own, or that of the execution that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_key: Option<Arc<str>>,
    /// Standard or Express.
    pub kind: MachineType,
    /// Where it starts: the machine itself, or the processor of a Distributed Map.
    pub flow: FlowIx,
    pub input: Payload,
    pub limits: Limits,
}

impl Identity {
    /// The version that it was started under.
    pub fn version(&self) -> Option<u32> {
        qualifier(self.version_arn.as_deref()?)?.parse().ok()
    }

    /// The name of the alias that it was started by.
    pub fn alias(&self) -> Option<&str> {
        qualifier(self.alias_arn.as_deref()?)
    }

    /// Whether it is a child of a Map Run, which runs a part of a machine.
    pub fn is_child_of_map_run(&self) -> bool {
        self.flow != Machine::TOP
    }
}

/// The version or the alias that an ARN ends with.
fn qualifier(arn: &str) -> Option<&str> {
    arn.rsplit_once(':').map(|(_, qualifier)| qualifier)
}

/// The limits of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The largest input, output or result.
    pub payload_bytes_max: usize,
    /// All variables together.
    pub variables_bytes_max: usize,
    /// The longest history; `None` for no end.
    pub events_max: Option<u64>,
    /// The longest run; `None` for no limit except the machine's own.
    pub duration_seconds_max: Option<u64>,
    /// How many states one Turn may enter.
    pub turn_states_max: u32,
    /// How many bytes of payload one Turn may record, roughly.
    pub turn_bytes_max: usize,
    /// After how many units of work a Turn takes no further state; see [`TURN_WORK_MAX`].
    #[serde(default = "turn_work_max", skip_serializing_if = "is_turn_work_max")]
    pub turn_work_max: u64,
    /// How many units of work the expressions of one state may take together; see [`STATE_WORK_MAX`].
    #[serde(default = "state_work_max", skip_serializing_if = "is_state_work_max")]
    pub state_work_max: u64,
    /// How many bytes of completed calls are kept for another run of a Parallel or Map; see [`KEPT_BYTES_MAX`].
    #[serde(default = "kept_bytes_max", skip_serializing_if = "is_kept_bytes_max")]
    pub kept_bytes_max: usize,
}

/// A Turn with this many units of work takes no further state. A unit is that of evaluations, see
/// [`Dice::spent`](perdura_asl::scope::Dice::spent); this many are about 20 ms of one core. Counted and not timed, so
/// that the same input always gives the same decision.
pub const TURN_WORK_MAX: u64 = 5_000_000;

/// The work limit of all expressions, paths, rules and calls of one state, in the same units: three of the most
/// expensive expressions, or about half a second. A state has it when it is taken, when it has its result, and when it
/// fails; work that ends with it gets the rest.
pub const STATE_WORK_MAX: u64 = 120_000_000;

/// How many bytes of completed calls, sent and received, an execution keeps for another run of a Parallel or Map.
/// Beyond that it keeps the key and a digest.
pub const KEPT_BYTES_MAX: usize = 16 << 20;

fn kept_bytes_max() -> usize {
    KEPT_BYTES_MAX
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_kept_bytes_max(bytes: &usize) -> bool {
    *bytes == KEPT_BYTES_MAX
}

fn state_work_max() -> u64 {
    STATE_WORK_MAX
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_state_work_max(work: &u64) -> bool {
    *work == STATE_WORK_MAX
}

fn turn_work_max() -> u64 {
    TURN_WORK_MAX
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_turn_work_max(work: &u64) -> bool {
    *work == TURN_WORK_MAX
}

impl Limits {
    /// AWS's own limits, which fail as on AWS: a Standard execution has a year and 25,000 events, an Express one five
    /// minutes and no limit of its history.
    pub const fn strict(kind: MachineType) -> Self {
        let (seconds, events_max) = match kind {
            MachineType::Standard => (31_536_000, Some(25_000)),
            MachineType::Express => (300, None),
        };
        Self {
            payload_bytes_max: 262_144,
            variables_bytes_max: 10 * 1024 * 1024,
            events_max,
            duration_seconds_max: Some(seconds),
            ..Self::GENEROUS
        }
    }

    /// No 256 KiB limit, no limit of the history; limits that only a mistake reaches.
    pub const GENEROUS: Self = Self {
        payload_bytes_max: 64 * 1024 * 1024,
        variables_bytes_max: 256 * 1024 * 1024,
        events_max: None,
        duration_seconds_max: None,
        turn_states_max: 1_000,
        turn_bytes_max: 256 * 1024,
        turn_work_max: TURN_WORK_MAX,
        state_work_max: STATE_WORK_MAX,
        kept_bytes_max: KEPT_BYTES_MAX,
    };
}
