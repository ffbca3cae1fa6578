//! Distributed Maps: children as executions of their own, in the same loop.

use super::{Driver, ExecutionNo};
use perdura_engine::asl::error::{ITEM_READER, RESULT_WRITER};
use perdura_engine::asl::json::Payload;
use perdura_engine::{
    By, EffectKey, Execution, Fault, Input, MapRun, MapRunOrder, MapRunOutcome, Next, StrandId,
};
use std::collections::{BTreeMap, BTreeSet};

/// A Map Run with its children under way, and what those gave that have ended.
pub(super) struct Spread {
    run: MapRun,
    children: BTreeMap<u32, ExecutionNo>,
    results: BTreeMap<u32, Payload>,
}

/// Whose child an execution is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildOf {
    parent: ExecutionNo,
    strand: StrandId,
    index: u32,
}

impl Driver {
    pub(super) fn start_map_run(&mut self, number: ExecutionNo, order: MapRunOrder) {
        let strand = order.strand;
        if let Some(fault) = unsupported(&order) {
            return self.map_run_ended(number, strand, order.key, MapRunOutcome::Failed { fault });
        }
        let execution = &self.executions[&number].execution;
        let (machine, limits) = (execution.machine().clone(), execution.identity().limits);
        let run = MapRun::new(machine, order, limits.payload_bytes_max);
        let spread = Spread { run, children: BTreeMap::new(), results: BTreeMap::new() };
        self.map_runs.insert((number, strand), spread);
        self.start_children(number, strand);
    }

    fn start_children(&mut self, parent: ExecutionNo, strand: StrandId) {
        let identity = self.executions[&parent].execution.identity().clone();
        while let Some(spread) = self.map_runs.get_mut(&(parent, strand)) {
            let child = match spread.run.advance() {
                Next::Start(child) => child,
                Next::Looking => continue,
                Next::NotNow => return,
                Next::Over(over) => return self.end_map_run(parent, strand, over),
            };
            let (index, items) = (child.index, child.items);
            let of_child = spread.run.order().child_identity(&identity, child);
            let execution = Execution::new(spread.run.machine().clone(), of_child);
            let number = self.begin(execution, Some(ChildOf { parent, strand, index }));
            self.progress.begin_child(number, (parent, strand), index, items);
            if let Some(spread) = self.map_runs.get_mut(&(parent, strand)) {
                spread.children.insert(index, number);
            }
        }
    }

    /// An execution has ended; if it is a child, its Map Run goes on.
    pub(super) fn child_ended(&mut self, number: ExecutionNo) {
        let Some(ChildOf { parent, strand, index }) =
            self.executions.get(&number).and_then(|running| running.child_of)
        else {
            return;
        };
        let Some(ended) = self.executions.remove(&number).map(|running| running.execution) else { return };
        let Some(spread) = self.map_runs.get_mut(&(parent, strand)) else { return };
        spread.children.remove(&index);
        let result = ended.output().cloned().unwrap_or_else(|| ended.fault().to_value().into());
        spread.results.insert(index, result);
        spread.run.child_ended(index, ended.status());
        self.start_children(parent, strand);
    }

    fn end_map_run(&mut self, parent: ExecutionNo, strand: StrandId, over: Result<(), Fault>) {
        let Some(spread) = self.map_runs.get_mut(&(parent, strand)) else { return };
        let order = spread.run.order();
        let key = order.key.clone();
        let outcome = match over {
            Ok(()) => {
                let results: Vec<Payload> = std::mem::take(&mut spread.results).into_values().collect();
                MapRunOutcome::Succeeded { output: order.gathered(&results) }
            }
            Err(fault) => MapRunOutcome::Failed { fault },
        };
        self.drop_map_run(parent, strand);
        self.map_run_ended(parent, strand, key, outcome);
    }

    fn map_run_ended(
        &mut self,
        parent: ExecutionNo,
        strand: StrandId,
        key: EffectKey,
        outcome: MapRunOutcome,
    ) {
        let by = By::Key { strand, key, attempt: None };
        self.ready.push_back((parent, Input::ChildOutcome { by, outcome }));
    }

    /// A Map Run is over: its children are gone, with all that they have under way.
    pub(super) fn drop_map_run(&mut self, parent: ExecutionNo, strand: StrandId) {
        let mut open: Vec<Spread> = self.map_runs.remove(&(parent, strand)).into_iter().collect();
        let mut gone = BTreeSet::new();
        while let Some(spread) = open.pop() {
            for number in spread.children.into_values() {
                gone.insert(number);
                self.set_timer(number, None);
                self.executions.remove(&number);
                self.progress.drop_child(number);
                let inner = (number, StrandId(0))..=(number, StrandId(u32::MAX));
                open.extend(self.map_runs.extract_if(inner, |_, _| true).map(|(_, spread)| spread));
            }
        }
        self.outside.cancel_all(&gone);
    }
}

/// What a Map Run may ask for that needs more than this process.
fn unsupported(order: &MapRunOrder) -> Option<Fault> {
    if let Some(reader) = &order.reader {
        let cause = format!("`perdura run` reads items by {} only with --data DIR", reader.resource.arn);
        return Some(Fault::new(ITEM_READER, cause));
    }
    let writer = order.writer.as_ref().and_then(|writer| writer.resource.as_ref())?;
    let cause = format!("`perdura run` writes results by {} only with --data DIR", writer.arn);
    Some(Fault::new(RESULT_WRITER, cause))
}
