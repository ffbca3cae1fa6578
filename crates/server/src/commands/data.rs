//! The data of an installation, and the three ways to reach it.
//!
//! A server has it open and performs what executions ask for ([`Served`]). A command without a server locks it for a
//! moment and leaves an input ([`Deposit`]), or reads it without a lock ([`Beside`]).

mod beside;
mod deposit;
mod served;

pub use beside::Beside;
pub use deposit::{Deposit, KeptAnswers};
pub use served::{Doubts, Served};

use crate::Refusal;
use crate::sfn::Quotas;
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{Arns, ExecutionId, Input, Moment, Outcome, TaskToken, Timestamp};
use perdura_idempotency::Scope;
use perdura_idempotency::store::Scrubbed;
use perdura_runtime::{Start, Started, Taken, Underway, View};
use perdura_store::audit::Subject;
use perdura_store::{
    After, Erased, Failure, Filter, Listing, MachineChange, MachineId, Reader, Registered, Registry,
    Retention, Revised, Room, SweepPlace, Swept,
};
use std::sync::Arc;

/// The verbs of the data. Each answers after its commit, and blocks until then.
pub trait Data {
    fn moment(&self) -> Moment;

    fn arns(&self) -> &Arns;

    /// Whether this process performs calls, so that executions move on.
    fn performs(&self) -> bool;

    fn read<T>(&mut self, ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure>) -> Result<T, Failure>;

    /// An execution that is in memory, with its calls under way.
    fn view(&mut self, execution: ExecutionId) -> Option<Box<View>>;

    /// A page of executions, including those that have no row yet.
    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure>;

    /// How many running executions have no row yet.
    fn unlisted(&mut self) -> Result<u64, Failure>;

    /// The execution with this name, also if it has no row yet.
    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Refusal>;

    /// What of a machine this process cannot run. `None`: it performs nothing, so it does not know.
    fn doubts(&self, _machine: &Machine) -> Option<Vec<Diagnostic>> {
        None
    }

    /// Changes a machine on what was seen of it; `machine` is the definition that comes with it, parsed.
    fn revise(&mut self, change: &MachineChange<'_>, machine: Arc<Machine>) -> Result<Revised, Refusal>;

    fn start(&mut self, start: Start) -> Result<Started, Refusal>;

    fn input(&mut self, execution: ExecutionId, input: Input) -> Result<Taken, Refusal>;

    /// Takes the answer to the task of a token.
    fn answer(&mut self, token: TaskToken, outcome: Outcome) -> Result<(), Refusal>;

    /// Takes a heartbeat for the task of a token.
    fn heartbeat(&mut self, token: TaskToken) -> Result<(), Refusal>;

    /// Stores an activity or a connection.
    fn register(&mut self, entry: &Registered) -> Result<(), Refusal>;

    /// Deletes it; `false`: there was nothing of that name.
    fn unregister(&mut self, kind: Registry, name: &str) -> Result<bool, Refusal>;

    /// What is under way, with so many calls shown. Without a server nothing is.
    fn underway(&mut self, _most: usize) -> Result<Underway, Refusal> {
        Ok(Underway::default())
    }

    /// Deletes an execution that cannot be read; `false`: it can be read, and stays.
    fn give_up(&mut self, execution: ExecutionId) -> Result<bool, Refusal>;

    /// What is stored of this is about to be told to whoever asks. Without a server nobody is there to write that down.
    fn gives_out(&mut self, _subject: Subject) -> Result<(), Refusal> {
        Ok(())
    }
    /// Erases the data of executions, each with the end that was seen of it: all of them, or none where one has moved.
    fn erase(&mut self, ended: Vec<(ExecutionId, Timestamp)>) -> Result<Erased, Refusal>;

    /// Erases the stored answers to requests that these callers sent with this key; how many there were.
    fn erase_answers(&mut self, scopes: &[Scope], key: &str) -> Result<u64, Refusal>;

    /// Takes what was erased of stored answers out of their file, where it has so many bytes at most.
    fn scrub_answers(&mut self, bytes_max: u64) -> Result<Scrubbed, Refusal>;

    /// Writes the data anew where it has so many bytes at most; `false`: it has more.
    fn rewrite_small(&mut self, bytes_max: u64) -> Result<bool, Refusal>;

    /// Takes what was overwritten or deleted out of the files; `false`: a reader still looks at it.
    fn scrub(&mut self) -> Result<bool, Refusal>;

    /// Gives free pages back to the disk: some of them, or all where no server runs.
    fn give_back(&mut self, pages: u32, reserves: bool) -> Result<Room, Refusal>;

    /// Deletes a slice of what is too old, beginning at `place`, and moves `place` on.
    fn sweep(
        &mut self,
        retention: &Retention,
        place: &mut Option<SweepPlace>,
        most: u32,
    ) -> Result<Swept, Refusal>;
}

/// Refuses a new machine over the quota. One that exists may always be deployed again.
fn check_machines(reader: &mut dyn Reader, name: &str, quotas: &Quotas) -> Result<(), Refusal> {
    let most = quotas.state_machines;
    if reader.head(name)?.is_some() || reader.machine_count()? < most {
        return Ok(());
    }
    Err(Refusal::conflict(format!("the quota of {most} machines is used up"))
        .but("delete one that nobody starts, or raise quotas.state_machines"))
}

fn too_many_activities(quotas: &Quotas) -> Refusal {
    Refusal::conflict(format!("the quota of {} activities is used up", quotas.activities))
        .but("delete one that nobody works on, or raise quotas.activities")
}
