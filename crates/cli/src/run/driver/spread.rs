//! Distributed Maps: children as executions of their own, in the same loop.

use super::{Driver, ExecutionNo, entropy};
use anyhow::Result;
use perdura_engine::asl::error::{ITEM_READER, RESULT_WRITER};
use perdura_engine::asl::scope::Dice;
use perdura_engine::{
    Arns, By, Child, EffectKey, Execution, Fault, Identity, Input, MapRun, MapRunOrder, MapRunOutcome,
    Status, StrandId,
};
use std::collections::{BTreeMap, BTreeSet};

/// A Map Run with its children under way.
pub(super) struct Spread {
    run: MapRun,
    children: BTreeMap<u32, ExecutionNo>,
}

/// Whose child an execution is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildOf {
    parent: ExecutionNo,
    strand: StrandId,
    index: u32,
}

impl Driver {
    pub(super) fn start_map_run(&mut self, number: ExecutionNo, order: MapRunOrder) -> Result<()> {
        let (strand, key) = (order.strand, order.key.clone());
        let started = if let Some(fault) = unsupported(&order) {
            Err(fault)
        } else {
            let machine = self.executions[&number].execution.machine().clone();
            let items = order.items.clone().expect("a Map without a reader has its items");
            let items = items.value().as_array().expect("the engine gives items as a list").to_vec();
            MapRun::new(machine, order, &items, &Dice::new(self.clock.now().0, entropy()?))
        };
        match started {
            Err(fault) => self.map_run_ended(number, strand, key, MapRunOutcome::Failed { fault }),
            Ok(run) => {
                self.map_runs.insert((number, strand), Spread { run, children: BTreeMap::new() });
                self.start_children(number, strand);
            }
        }
        Ok(())
    }

    fn start_children(&mut self, parent: ExecutionNo, strand: StrandId) {
        let identity = self.executions[&parent].execution.identity().clone();
        while let Some(spread) = self.map_runs.get_mut(&(parent, strand)) {
            let Some(child) = spread.run.next_child() else { break };
            let (index, items) = (child.index, child.items);
            let of_child = child_identity(&identity, spread.run.order(), child);
            let execution = Execution::new(spread.run.machine().clone(), of_child);
            let number = self.begin(execution, Some(ChildOf { parent, strand, index }));
            self.progress.begin_child(number, (parent, strand), index, items);
            if let Some(spread) = self.map_runs.get_mut(&(parent, strand)) {
                spread.children.insert(index, number);
            }
        }
        let over = self.map_runs.get(&(parent, strand)).and_then(|spread| spread.run.ended());
        if let Some(outcome) = over {
            self.end_map_run(parent, strand, outcome);
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
        let ending = match ended.status() {
            Status::Succeeded => Ok(ended.output().cloned().expect("what succeeded has an output")),
            Status::Created | Status::Running | Status::Failed | Status::Aborted | Status::TimedOut => {
                Err(ended.fault().clone())
            }
        };
        let Some(spread) = self.map_runs.get_mut(&(parent, strand)) else { return };
        spread.children.remove(&index);
        match spread.run.child_ended(index, ending) {
            Some(outcome) => self.end_map_run(parent, strand, outcome),
            None => self.start_children(parent, strand),
        }
    }

    fn end_map_run(&mut self, parent: ExecutionNo, strand: StrandId, outcome: MapRunOutcome) {
        let Some(spread) = self.map_runs.get(&(parent, strand)) else { return };
        let key = spread.run.order().key.clone();
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
        let by = By::Key { strand, key };
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
        let cause =
            format!("`perdura run` does not read items by {} yet; give them as Items", reader.resource.arn);
        return Some(Fault::new(ITEM_READER, cause));
    }
    let writer = order.writer.as_ref().and_then(|writer| writer.resource.as_ref())?;
    let cause = format!("`perdura run` does not write results by {} yet", writer.arn);
    Some(Fault::new(RESULT_WRITER, cause))
}

/// Who a child is.
fn child_identity(parent: &Identity, order: &MapRunOrder, child: Child) -> Identity {
    let name = child.id.to_string();
    // A Map Run is `…:mapRun:MACHINE/LABEL:UNIQUE`, and its children run `MACHINE/LABEL`.
    let machine = order.arn.split(':').nth(6).unwrap_or(&parent.machine_name);
    let arns = Arns::default();
    Identity {
        id: child.id,
        arn: arns.execution(machine, &name, order.execution_type, &name).into(),
        name: name.into(),
        machine_arn: arns.machine(machine).into(),
        machine_name: machine.into(),
        role_arn: parent.role_arn.clone(),
        kind: order.execution_type,
        flow: order.flow,
        input: child.input,
        limits: parent.limits,
    }
}
