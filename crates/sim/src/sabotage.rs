//! Safeguards that a test can remove: a checker counts only after it was seen to object.

/// The safeguard that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The store takes commits of an incarnation that has ended.
    NoFence,
    /// Effects leave before their Turn is on disk; replies wait for the Turn.
    EffectsFirst,
    /// Replies are sent before their Turn is on disk; effects wait for the Turn.
    RepliesFirst,
    /// A repeated call gets another key.
    NewKeyOnRepeat,
    /// A repeated call has other bytes.
    NewBytesOnRepeat,
    /// The journal drops rows that running executions need.
    JournalDropped,
    /// Executions that were under way before a crash are not resumed.
    ResumeForgotten,
    /// Rows of executions that fall asleep are not written.
    RowsForgotten,
    /// Sleepers are never found.
    SleepersForgotten,
    /// A process's clocks run ahead of their later readings.
    ClockAhead,
    /// Processes are woken much later than they asked for.
    WokenLate,
    /// A call is made once more after its answer was taken.
    CalledAfterwards,
    /// The receiver does not honour keys.
    KeysIgnored,
    /// Changes of the ledger table are not written.
    LedgerForgotten,
    /// A Map Run that is taken up again does not read its children.
    ChildrenForgotten,
    /// Map Runs that an earlier process was to end are not found by the next one.
    MapRunsForgotten,
    /// The next process does not find executions that wait for a worker or for a child.
    WaitingForgotten,
    /// A refused connection counts as a refusal by the receiver.
    UnreachableRefuses,
    /// A redirect counts as a refusal.
    RedirectsRefuse,
    /// An exit code counts as a refusal.
    ExitsRefuse,
    /// The failure of an attempt that was given up counts for the running one.
    OldFailuresCount,
    /// A Parallel or Map that runs again uses new keys.
    RunsForgetKeys,
    /// A redrive does not change the row, and a sweep deletes executions in memory.
    SweepsBlindly,
    /// A list shows only rows, and no executions without one.
    ListsOfRows,
    /// A process takes its steady time from the wall clock, whatever is on record.
    SteadyForgotten,
    /// A commit whose answer was lost counts as one that never happened.
    LostMeansNever,
    /// A repeated request from another node is performed again.
    DoneTwice,
    /// A node asks the first known holder of a Shard for ever.
    OldMapBelieved,
    /// A name that was reserved for an execution that never began stays taken.
    ReservedForGood,
    /// A process that cannot read an execution takes it for one that does not exist.
    UnreadIsUnknown,
    /// A redrive does not change the row of its execution, and a list shows only rows.
    RedrivesLeaveRows,
    /// The counts of a Map Run are not written.
    CountsForgotten,
    /// A redrive does not change the row of a Map Run.
    RedrivesLeaveMapRuns,
    /// A jump of the wall clock is accepted at once.
    JumpsBelieved,
    /// A call that may not be repeated is repeated under its key.
    HoldIgnored,
    /// Commits are written without their entries of the audit.
    AuditForgotten,
    /// Held executions are not found when their machine is resumed.
    HeldForgotten,
    /// A process that begins does not know what is paused.
    PausesForgotten,
}

impl Sabotage {
    pub const ALL: [Self; 38] = [
        Self::NoFence,
        Self::EffectsFirst,
        Self::RepliesFirst,
        Self::NewKeyOnRepeat,
        Self::NewBytesOnRepeat,
        Self::JournalDropped,
        Self::ResumeForgotten,
        Self::RowsForgotten,
        Self::SleepersForgotten,
        Self::ClockAhead,
        Self::WokenLate,
        Self::CalledAfterwards,
        Self::KeysIgnored,
        Self::LedgerForgotten,
        Self::ChildrenForgotten,
        Self::MapRunsForgotten,
        Self::WaitingForgotten,
        Self::UnreachableRefuses,
        Self::RedirectsRefuse,
        Self::ExitsRefuse,
        Self::OldFailuresCount,
        Self::RunsForgetKeys,
        Self::SweepsBlindly,
        Self::ListsOfRows,
        Self::SteadyForgotten,
        Self::LostMeansNever,
        Self::DoneTwice,
        Self::OldMapBelieved,
        Self::ReservedForGood,
        Self::UnreadIsUnknown,
        Self::RedrivesLeaveRows,
        Self::CountsForgotten,
        Self::RedrivesLeaveMapRuns,
        Self::JumpsBelieved,
        Self::HoldIgnored,
        Self::AuditForgotten,
        Self::HeldForgotten,
        Self::PausesForgotten,
    ];
}

impl std::str::FromStr for Sabotage {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|one| format!("{one:?}") == name).ok_or(())
    }
}
