//! The words that stand in tables, and their order in counts.

use crate::machine::Registry;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{LedgerStatus, Status};

/// What an execution with a row can be. One that has not begun counts as running, as the API has it.
pub(crate) const STATUSES: [Status; 5] =
    [Status::Running, Status::Succeeded, Status::Failed, Status::Aborted, Status::TimedOut];

/// What an attempt can be.
pub(crate) const LEDGER_STATUSES: [LedgerStatus; 4] =
    [LedgerStatus::Pending, LedgerStatus::Completed, LedgerStatus::Failed, LedgerStatus::Uncertain];
/// The status of that name.
pub(crate) fn status(name: &str) -> Option<Status> {
    STATUSES.into_iter().find(|status| status.name() == name)
}

/// As it is stored and shown.
pub(crate) fn ledger_name(status: LedgerStatus) -> &'static str {
    match status {
        LedgerStatus::Pending => "pending",
        LedgerStatus::Completed => "completed",
        LedgerStatus::Failed => "failed",
        LedgerStatus::Uncertain => "uncertain",
    }
}

/// The status of that name.
pub(crate) fn ledger_status(name: &str) -> Option<LedgerStatus> {
    LEDGER_STATUSES.into_iter().find(|status| ledger_name(*status) == name)
}

/// As it is stored.
pub(crate) fn registry_name(kind: Registry) -> &'static str {
    match kind {
        Registry::Connection => "connection",
        Registry::Activity => "activity",
        Registry::DeletedActivity => "deleted activity",
        Registry::Token => "token",
        Registry::Pause => "pause",
    }
}

/// As it is stored and shown.
pub(crate) fn kind_name(kind: MachineType) -> &'static str {
    match kind {
        MachineType::Standard => "STANDARD",
        MachineType::Express => "EXPRESS",
    }
}

/// The kind of that name.
pub(crate) fn kind(name: &str) -> Option<MachineType> {
    [MachineType::Standard, MachineType::Express].into_iter().find(|kind| kind_name(*kind) == name)
}
