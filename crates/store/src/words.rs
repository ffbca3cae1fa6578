//! The words in the tables, and their order in counts.

use crate::machine::Registry;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{LedgerStatus, Status};

/// The statuses of executions with a row. One that has not begun counts as running, as in the API.
pub(crate) const STATUSES: [Status; 5] =
    [Status::Running, Status::Succeeded, Status::Failed, Status::Aborted, Status::TimedOut];

/// The statuses of attempts.
pub(crate) const LEDGER_STATUSES: [LedgerStatus; 4] =
    [LedgerStatus::Pending, LedgerStatus::Completed, LedgerStatus::Failed, LedgerStatus::Uncertain];
/// The status with that name.
pub(crate) fn status(name: &str) -> Option<Status> {
    STATUSES.into_iter().find(|status| status.name() == name)
}

/// The name in the tables and in answers.
pub(crate) fn ledger_name(status: LedgerStatus) -> &'static str {
    match status {
        LedgerStatus::Pending => "pending",
        LedgerStatus::Completed => "completed",
        LedgerStatus::Failed => "failed",
        LedgerStatus::Uncertain => "uncertain",
    }
}

/// The status with that name.
pub(crate) fn ledger_status(name: &str) -> Option<LedgerStatus> {
    LEDGER_STATUSES.into_iter().find(|status| ledger_name(*status) == name)
}

/// The name in the tables.
pub(crate) fn registry_name(kind: Registry) -> &'static str {
    match kind {
        Registry::Connection => "connection",
        Registry::Activity => "activity",
        Registry::DeletedActivity => "deleted activity",
        Registry::Token => "token",
        Registry::Pause => "pause",
    }
}

/// The name in the tables and in answers.
pub(crate) fn kind_name(kind: MachineType) -> &'static str {
    match kind {
        MachineType::Standard => "STANDARD",
        MachineType::Express => "EXPRESS",
    }
}

/// The kind with that name.
pub(crate) fn kind(name: &str) -> Option<MachineType> {
    [MachineType::Standard, MachineType::Express].into_iter().find(|kind| kind_name(*kind) == name)
}
