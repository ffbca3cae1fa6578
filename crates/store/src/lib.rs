//! Durable memory.
//!
//! A [`Store`] keeps the commits of a node: one journal row for each group of Turns, and rows for the executions that
//! ended or fell asleep in it. It does not know why a Turn was decided. A node may write on Shards with a [`Lease`],
//! and a commit under an [`Incarnation`] that was ended is refused.

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
