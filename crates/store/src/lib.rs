//! Durable memory.
//!
//! A [`Store`] keeps what a node commits: one journal row for each group of Turns, and rows for the executions that
//! ended or fell asleep in it. It knows nothing of why a Turn was decided. A node may write on the Shards that it
//! holds a [`Lease`] for, and a commit under an [`Incarnation`] that somebody ended is refused.

pub mod audit;
pub mod conformance;
mod gather;
mod group;
mod lease;
mod machine;
mod memory;
pub mod record;
pub mod sqlite;
mod store;
mod words;

pub use group::{
    ChildOf, Content, Group, LedgerChange, LedgerRow, MachineId, MapRunRow, Nesting, RevisionId, Row,
    Segment, Snapshot, Totals,
};
pub use lease::{Claim, Incarnation, Lease, Position, Renewal, Shard};
pub use machine::{
    BLANK, Head, MachineChange, MachineRecord, NewMachine, NewRevision, Registered, Registry, Revised,
};
pub use memory::MemoryStore;
pub use sqlite::{SqliteOptions, SqliteReader, SqliteStore};
pub use store::{
    After, Aside, Catalog, ChildStatus, Clock, CommitError, Due, Erased, Failure, FailureKind, Filter,
    LedgerFilter, Left, Listing, Order, Reader, Recovered, Recovery, Retention, Room, Stats, Store,
    StoredTurn, Summary, SweepPlace, Sweepable, Swept, Unlisted, complete_list, complete_name, error_in_rows,
};
