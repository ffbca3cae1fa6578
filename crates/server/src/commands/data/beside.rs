//! The data on disk, read without a lock: writers go on, and nothing is written here.

use super::Data;
use crate::Refusal;
use crate::commands::activities::no_server;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{Arns, ExecutionId, Input, Moment, Outcome, TaskToken, Timestamp};
use perdura_idempotency::Scope;
use perdura_idempotency::store::Scrubbed;
use perdura_runtime::{RealClock, Start, Started, Taken, View};
use perdura_store::{
    After, Erased, Failure, Filter, Listing, MachineChange, MachineId, Reader, Registered, Registry,
    Retention, Revised, Room, SweepPlace, Swept, complete_list, complete_name,
};
use std::sync::Arc;

/// A reader without a lock.
pub struct Beside {
    reader: Box<dyn Reader>,
    clock: RealClock,
    arns: Arns,
}

impl Beside {
    pub fn new(reader: Box<dyn Reader>) -> Self {
        Self { reader, clock: RealClock::default(), arns: Arns::default() }
    }
}

fn only_reads<T>() -> Result<T, Refusal> {
    Err(Refusal::invalid("the data is open for reading only"))
}

impl Data for Beside {
    fn moment(&self) -> Moment {
        self.clock.moment()
    }

    fn arns(&self) -> &Arns {
        &self.arns
    }

    fn performs(&self) -> bool {
        false
    }

    fn read<T>(&mut self, ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure>) -> Result<T, Failure> {
        ask(&mut *self.reader)
    }

    fn view(&mut self, _: ExecutionId) -> Option<Box<View>> {
        None
    }

    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure> {
        complete_list(&mut *self.reader, filter, after, most)
    }

    fn unlisted(&mut self) -> Result<u64, Failure> {
        Ok(self.reader.unlisted()?.len() as u64)
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Refusal> {
        Ok(complete_name(&mut *self.reader, machine, name)?)
    }

    fn revise(&mut self, _: &MachineChange<'_>, _: Arc<Machine>) -> Result<Revised, Refusal> {
        only_reads()
    }

    fn start(&mut self, _: Start) -> Result<Started, Refusal> {
        only_reads()
    }

    fn input(&mut self, _: ExecutionId, _: Input) -> Result<Taken, Refusal> {
        only_reads()
    }

    fn answer(&mut self, _: TaskToken, _: Outcome) -> Result<(), Refusal> {
        only_reads()
    }

    fn heartbeat(&mut self, _: TaskToken) -> Result<(), Refusal> {
        Err(no_server())
    }

    fn register(&mut self, _: &Registered) -> Result<(), Refusal> {
        only_reads()
    }

    fn unregister(&mut self, _: Registry, _: &str) -> Result<bool, Refusal> {
        only_reads()
    }

    fn give_up(&mut self, _: ExecutionId) -> Result<bool, Refusal> {
        only_reads()
    }

    fn erase(&mut self, _: Vec<(ExecutionId, Timestamp)>) -> Result<Erased, Refusal> {
        only_reads()
    }

    fn erase_answers(&mut self, _: &[Scope], _: &str) -> Result<u64, Refusal> {
        only_reads()
    }

    fn scrub_answers(&mut self, _: u64) -> Result<Scrubbed, Refusal> {
        only_reads()
    }

    fn rewrite_small(&mut self, _: u64) -> Result<bool, Refusal> {
        only_reads()
    }

    fn scrub(&mut self) -> Result<bool, Refusal> {
        only_reads()
    }

    fn give_back(&mut self, _: u32, _: bool) -> Result<Room, Refusal> {
        only_reads()
    }

    fn sweep(&mut self, _: &Retention, _: &mut Option<SweepPlace>, _: u32) -> Result<Swept, Refusal> {
        only_reads()
    }
}
