//! The words that stand in tables, and their order in counts.

use perdura_engine::{LedgerStatus, Status};

/// What an execution with a row can be. One that has not begun counts as running, as the API has it.
pub(crate) const STATUSES: [Status; 5] =
    [Status::Running, Status::Succeeded, Status::Failed, Status::Aborted, Status::TimedOut];

/// What an attempt can be.
pub(crate) const LEDGER_STATUSES: [LedgerStatus; 4] =
    [LedgerStatus::Pending, LedgerStatus::Completed, LedgerStatus::Failed, LedgerStatus::Uncertain];
