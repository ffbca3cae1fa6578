//! Safeguards that can be taken out on purpose: a checker counts only once it was seen to object.

/// Which safeguard is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The store takes commits of an incarnation that has ended.
    NoFence,
    /// Effects leave before their Turn is on disk; replies wait for it.
    EffectsFirst,
    /// Replies are sent before their Turn is on disk; effects wait for it.
    RepliesFirst,
    /// A call that is made again gets another key.
    NewKeyOnRepeat,
    /// A call that is made again carries other bytes.
    NewBytesOnRepeat,
    /// The journal drops rows that running executions need.
    JournalDropped,
    /// What was under way before a crash is not taken up again.
    ResumeForgotten,
    /// Rows of executions that fall asleep are not written.
    RowsForgotten,
    /// Sleepers are never found.
    SleepersForgotten,
    /// The process's clocks run ahead of what they say later.
    ClockAhead,
    /// Processes are woken long after they asked to be.
    WokenLate,
    /// A call is made once more after its answer was taken.
    CalledAfterwards,
    /// The receiver does not honour keys.
    KeysIgnored,
    /// Changes of the ledger table are not written.
    LedgerForgotten,
    /// A Map Run that is taken up again does not see which children it has.
    ChildrenForgotten,
    /// Map Runs that an earlier process was to end are not found by the next one.
    MapRunsForgotten,
    /// Those who wait for a worker or for a child are not found by the next process.
    WaitingForgotten,
    /// A connection that was never made counts as a refusal by the receiver.
    UnreachableRefuses,
    /// A redirect counts as a refusal.
    RedirectsRefuse,
    /// An exit code counts as a refusal.
    ExitsRefuse,
    /// The failure of an attempt that was given up counts for the one that runs.
    OldFailuresCount,
    /// A Parallel or Map that runs again uses new keys.
    RunsForgetKeys,
    /// A redrive does not change the row, and a sweep takes what is in memory.
    SweepsBlindly,
    /// A list shows rows, and not what has none yet.
    ListsOfRows,
    /// A process takes its steady time from the wall, whatever is on record.
    SteadyForgotten,
    /// A commit whose answer was lost counts as one that never happened.
    LostMeansNever,
    /// Whoever gets a request from another node again does not know it again.
    DoneTwice,
    /// Whoever was seen to hold a Shard is asked for ever.
    OldMapBelieved,
    /// A name that was reserved for an execution that never began is nobody else's.
    ReservedForGood,
    /// A process that cannot read an execution takes it for one that does not exist.
    UnreadIsUnknown,
    /// A redrive does not change the row of its execution, and a list shows rows only.
    RedrivesLeaveRows,
    /// The counts of a Map Run are not written.
    CountsForgotten,
    /// A redrive does not change the row of a Map Run.
    RedrivesLeaveMapRuns,
    /// A jump of the wall is believed at once.
    JumpsBelieved,
    /// What may not be repeated is repeated under its key.
    HoldIgnored,
    /// Commits are written without their entries of the audit.
    AuditForgotten,
    /// Those that were held are not found when their machine is resumed.
    HeldForgotten,
    /// A process that begins does not know what is paused.
    PausesForgotten,
}

impl Sabotage {
    /// All of them.
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
