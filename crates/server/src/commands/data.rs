//! The data, as whoever can reach it may be asked.
//!
//! A server has it open and performs what executions ask for ([`Served`]). A command without a server opens it for a
//! moment and leaves an input ([`Deposit`]), or looks at it beside everybody else ([`Beside`]).

mod beside;
mod deposit;
mod served;

pub use beside::Beside;
pub use deposit::Deposit;
pub use served::{Doubts, Served};

use crate::Refusal;
use crate::sfn::Quotas;
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{Arns, ExecutionId, Input, Moment, Outcome, TaskToken};
use perdura_runtime::{Start, Started, Taken, View};
use perdura_store::{
    After, Failure, Filter, MachineId, MachineRecord, NewMachine, Reader, Registered, Registry, Retention,
    Room, Summary, SweepPlace, Swept,
};
use std::sync::Arc;

/// What can be asked of the data. Every answer is given after the commit. Calls wait for the disk.
pub trait Data {
    /// Now.
    fn moment(&self) -> Moment;

    /// The partition, region and account of all ARNs.
    fn arns(&self) -> &Arns;

    /// Whether executions move on by themselves while this is open.
    fn performs(&self) -> bool;

    /// Reads.
    fn read<T>(&mut self, ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure>) -> Result<T, Failure>;

    /// An execution that is in memory, with the calls that are under way.
    fn view(&mut self, execution: ExecutionId) -> Option<Box<View>>;

    /// A page of executions, with those that no row shows yet.
    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Vec<Summary>, Failure>;

    /// How many executions run that no row shows yet.
    fn unlisted(&mut self) -> Result<u64, Failure>;

    /// The execution that has this name, whether a row shows it yet or not.
    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Refusal>;

    /// What of a machine cannot be run here. `None`: nobody performs here, so nobody knows.
    fn doubts(&self, _machine: &Machine) -> Option<Vec<Diagnostic>> {
        None
    }

    /// Keeps a definition that was read already.
    fn deploy(&mut self, new: &NewMachine, machine: Arc<Machine>) -> Result<MachineRecord, Refusal>;

    /// Starts an execution.
    fn start(&mut self, start: Start) -> Result<Started, Refusal>;

    /// Gives an execution something.
    fn input(&mut self, execution: ExecutionId, input: Input) -> Result<Taken, Refusal>;

    /// Takes the answer of whoever holds a token.
    fn answer(&mut self, token: TaskToken, outcome: Outcome) -> Result<(), Refusal>;

    /// Takes a sign of life of whoever holds a token.
    fn heartbeat(&mut self, token: TaskToken) -> Result<(), Refusal>;

    /// Keeps something by name.
    fn register(&mut self, entry: &Registered) -> Result<(), Refusal>;

    /// Forgets it; `false`: there was nothing of that name.
    fn unregister(&mut self, kind: Registry, name: &str) -> Result<bool, Refusal>;

    /// A person gives an execution up that was set aside; `false`: it was not, and stays.
    fn give_up(&mut self, execution: ExecutionId) -> Result<bool, Refusal>;

    /// Gives free room back to the disk: a slice of it, or all of it where nobody else works.
    fn give_back(&mut self, pages: u32, reserves: bool) -> Result<Room, Refusal>;

    /// Takes a slice of what is too old, from this place on, which moves on with it.
    fn sweep(
        &mut self,
        retention: &Retention,
        place: &mut Option<SweepPlace>,
        most: u32,
    ) -> Result<Swept, Refusal>;
}

/// Whether the quota has room for a machine of this name: one that is there takes no further place.
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
