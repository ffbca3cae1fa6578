//! A Distributed Map: children of their own, in a Map Run that the runtime drives.

use super::{Seen, Turning};
use crate::arn;
use crate::effect::{BatcherOrder, Effect, MapRunOrder, ReaderOrder, WriterOrder};
use crate::event::EventKind;
use crate::id::{StrandId, Timestamp};
use crate::input::By;
use crate::map_run::MapRunOutcome;
use crate::strand::{MapRunId, Standing};
use perdura_asl::json::Payload;
use perdura_asl::machine::{Kind, MapMode, MapState, QueryLanguage, State};
use perdura_asl::scope::{Dice, Failure, Scope};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Turning<'_> {
    pub(super) fn start_map_run(
        &mut self,
        strand: StrandId,
        state: &State,
        map: &MapState,
    ) -> Result<(), Failure> {
        if let Some(run) = self.step(strand).map_run.clone() {
            return self.retry_map_run(strand, run);
        }
        let unique = self.draft.base.identity.id.own(self.dice.throw());
        let machine_arn = &self.draft.base.identity.machine_arn;
        let label = match &map.mode {
            MapMode::Distributed { label: Some(label), .. } => label.clone(),
            _ => arn::made_up_label(machine_arn, &state.name).to_string().into(),
        };
        let arn: Arc<str> = arn::map_run(machine_arn, &label, unique).into();
        let order = self.map_run_begins(strand, MapRunId { arn: arn.clone(), began_at: self.now })?;
        self.emit(strand, EventKind::MapRunStarted { arn });
        self.effects.push(Effect::StartMapRun(Box::new(order)));
        Ok(())
    }

    /// A retry continues with the existing children: those in doubt keep their keys, and those that succeeded do not
    /// run again.
    fn retry_map_run(&mut self, strand: StrandId, run: MapRunId) -> Result<(), Failure> {
        let order = self.map_run_begins(strand, run)?;
        self.take_up_map_run(strand, order);
        Ok(())
    }

    /// The state has started once its items are known. Its tolerance is checked after that, as on AWS.
    fn map_run_begins(&mut self, strand: StrandId, run: MapRunId) -> Result<MapRunOrder, Failure> {
        let (order, tolerance) = self.map_run_parts(strand, run)?;
        self.emit(strand, EventKind::MapStateStarted { length: order.items_known() });
        Ok(tolerance?.of(order))
    }

    /// The same Map Run continues with the children that did not succeed.
    pub(super) fn redrive_map_run(&mut self, strand: StrandId) {
        let Some(run) = self.step(strand).map_run.clone() else { return };
        match self.map_run_order(strand, run) {
            Ok(order) => self.take_up_map_run(strand, order),
            Err(failure) => self.evaluation_failed(strand, failure),
        }
    }

    fn take_up_map_run(&mut self, strand: StrandId, mut order: MapRunOrder) {
        self.taken_up_at(strand, &mut order, Some(self.now));
        let redrive_count = order.redrives;
        self.emit(strand, EventKind::MapRunRedriven { arn: order.arn.clone(), redrive_count });
        self.effects.push(Effect::StartMapRun(Box::new(order)));
    }

    /// Sets the time and number of redrives and retries of this run; `None`: it has only begun.
    pub(super) fn taken_up_at(&self, strand: StrandId, order: &mut MapRunOrder, at: Option<Timestamp>) {
        let retries = u32::try_from(self.step(strand).retry_count()).unwrap_or(u32::MAX);
        let redrives = self.draft.changes.core.redrives.saturating_add(retries);
        (order.redriven_at, order.redrives) = (at, if at.is_some() { redrives } else { 0 });
    }

    /// The order of this run: it depends only on the strand's data and on the run itself, so that it can be built
    /// again.
    pub(super) fn map_run_order(&mut self, strand: StrandId, run: MapRunId) -> Result<MapRunOrder, Failure> {
        let (order, tolerance) = self.map_run_parts(strand, run)?;
        Ok(tolerance?.of(order))
    }

    /// The order without a tolerance, and the tolerance.
    fn map_run_parts(&mut self, strand: StrandId, run: MapRunId) -> Result<Parts, Failure> {
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let drawn = Dice::new(run.began_at.0, arn::map_run_bits(&run.arn));
        // Each time the order is built, it has the same work limit.
        drawn.allow(self.draft.base.identity.limits.state_work_max);
        let dice = std::mem::replace(&mut self.dice, drawn);
        let order = match &state.kind {
            Kind::Map(map) => self.evaluate_order(strand, state, map, run),
            _ => unreachable!("only a Map has a Map Run"),
        };
        let drawn = std::mem::replace(&mut self.dice, dice);
        self.dice.spend(drawn.spent());
        order
    }

    fn evaluate_order(
        &self,
        strand: StrandId,
        state: &State,
        map: &MapState,
        run: MapRunId,
    ) -> Result<Parts, Failure> {
        let input = self.effective_input(strand, state)?;
        let items = if map.reader.is_some() { None } else { Some(self.items(strand, state, map, &input)?) };
        let MapMode::Distributed { execution_type, .. } = map.mode else {
            return Err(perdura_asl::evaluate::runtime("The Map is not distributed"));
        };
        let field = |name: &str| match state.language {
            QueryLanguage::JsonPath => format!("{name}/Parameters"),
            QueryLanguage::Jsonata => format!("{name}/Arguments"),
        };
        self.with_scope(strand, &Seen::input(input.value()), |scope| {
            let most = |scalar: Option<&perdura_asl::machine::Scalar>, name: &str| {
                scalar.map(|scalar| scalar.positive(scope, name)).transpose()
            };
            let arguments = |template: Option<&perdura_asl::machine::Template>, name: &str| match template {
                Some(template) => template.evaluate(scope, &field(name)).map(Payload::from),
                None => Ok(Payload::default()),
            };
            let reader = match &map.reader {
                Some(reader) => Some(ReaderOrder {
                    resource: reader.resource.clone(),
                    arguments: arguments(reader.arguments.as_ref(), "ItemReader")?,
                    config: reader.config.clone(),
                    // Mistakes in it are reported when the items are read.
                    max_items: reader
                        .max_items
                        .as_ref()
                        .map(|most| most.integer(scope, "MaxItems", (i64::MIN, i64::MAX)))
                        .transpose()?,
                }),
                None => None,
            };
            let batcher = match &map.batcher {
                Some(batcher) => Some(BatcherOrder {
                    max_items: most(batcher.max_items.as_ref(), "MaxItemsPerBatch")?,
                    max_bytes: most(batcher.max_bytes.as_ref(), "MaxInputBytesPerBatch")?,
                    input: match &batcher.input {
                        Some(input) => Some(input.evaluate(scope, "ItemBatcher/BatchInput")?.into()),
                        None => None,
                    },
                }),
                None => None,
            };
            let writer = match &map.writer {
                Some(writer) => Some(WriterOrder {
                    resource: writer.resource.clone(),
                    arguments: arguments(writer.arguments.as_ref(), "ResultWriter")?,
                    config: writer.config.clone(),
                }),
                None => None,
            };
            let order = MapRunOrder {
                strand,
                key: self.key(strand),
                arn: run.arn,
                began_at: run.began_at,
                redriven_at: None,
                redrives: 0,
                state: self.step(strand).state,
                flow: map.processor,
                execution_type,
                input: input.clone(),
                context: scope.context.whole(),
                variables: self.visible_variables(strand),
                item_work_max: self.draft.base.identity.limits.state_work_max,
                items,
                reader,
                batcher,
                writer,
                max_concurrency: map
                    .max_concurrency
                    .as_ref()
                    .map_or(Ok(0), |most| most.count(scope, "MaxConcurrency"))?,
                tolerated_count: None,
                tolerated_percentage: None,
            };
            Ok((order, Tolerance::of_map(map, scope)))
        })
    }

    fn visible_variables(&self, strand: StrandId) -> BTreeMap<Arc<str>, Payload> {
        let mut visible = BTreeMap::new();
        let mut next = Some(strand);
        while let Some(id) = next {
            let strand = self.strand(id);
            for (name, value) in strand.variables.iter() {
                visible.entry(name.clone()).or_insert_with(|| value.clone());
            }
            next = strand.parent.map(|(parent, _)| parent);
        }
        visible
    }

    pub(super) fn map_run_ended(&mut self, by: &By, outcome: &MapRunOutcome) {
        let strand = by.strand();
        let step = self.addressed(by);
        if step.is_none_or(|step| !matches!(step.standing, Standing::MapRunning { over: false, .. })) {
            return self.ignore("nobody waits for this Map Run");
        }
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let Kind::Map(map) = &state.kind else { return };
        match outcome {
            MapRunOutcome::Succeeded { output } => {
                let succeeded = self.emit(strand, EventKind::MapRunSucceeded);
                let kind = EventKind::StateSucceeded { state_type: (&state.kind).into() };
                self.emit_after(succeeded, strand, kind);
                if let Err(failure) = self.finish(strand, state, &map.after, output.clone()) {
                    self.evaluation_failed(strand, failure);
                }
            }
            MapRunOutcome::Failed { fault } => {
                self.emit(strand, EventKind::MapRunFailed(fault.clone()));
                self.step_failed(strand, fault.clone());
            }
        }
    }
}

/// How many children may fail.
struct Tolerance {
    count: Option<u64>,
    percentage: Option<f64>,
}

/// An order without a tolerance yet, and the tolerance.
type Parts = (MapRunOrder, Result<Tolerance, Failure>);

impl Tolerance {
    fn of_map(map: &MapState, scope: &Scope<'_>) -> Result<Self, Failure> {
        let (count, share) = (map.tolerated_count.as_ref(), map.tolerated_percentage.as_ref());
        let count = count.map(|count| count.count(scope, "ToleratedFailureCount")).transpose()?;
        let percentage = share.map(|share| share.percentage(scope, "ToleratedFailurePercentage"));
        Ok(Self { count, percentage: percentage.transpose()? })
    }

    fn of(self, order: MapRunOrder) -> MapRunOrder {
        MapRunOrder { tolerated_count: self.count, tolerated_percentage: self.percentage, ..order }
    }
}
