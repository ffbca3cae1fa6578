//! Parallel and inline Map: starting branches and iterations, their ends, and gathering the results.

use super::task::arguments_field;
use super::{Seen, Turning};
use crate::apply::waits;
use crate::context::MapItem;
use crate::event::{EventKind, Iteration};
use crate::execution::Status;
use crate::id::{Seq, StrandId};
use crate::strand::Standing;
use crate::trial::{ITEMS_MAX, Stage};
use crate::turn::Note;
use perdura_asl::error::QUERY_EVALUATION;
use perdura_asl::evaluate::{runtime, unexpected_type};
use perdura_asl::json::{Payload, Value};
use perdura_asl::machine::{
    Items, Kind, MapMode, MapState, Parallel, QueryLanguage, Selection, State, Template,
};
use perdura_asl::scope::Failure;
use std::cmp::min;

/// How many iterations of an inline Map run at once, as on AWS.
const INLINE_AT_ONCE: u32 = 40;

impl Turning<'_> {
    pub(super) fn start_branches(
        &mut self,
        strand: StrandId,
        state: &State,
        parallel: &Parallel,
    ) -> Result<(), Failure> {
        let input = self.effective_input(strand, state)?;
        let items = match &parallel.arguments {
            Some(arguments) => self
                .with_scope(strand, &Seen::input(input.value()), |scope| {
                    arguments.evaluate(scope, arguments_field(state))
                })?
                .into(),
            None => input,
        };
        self.see(Stage::Arguments, &items);
        self.check_size(&state.name, &items)?;
        self.emit(strand, EventKind::ParallelStateStarted);
        let total = parallel.branches.len() as u32;
        self.note(Note::FanStarted { strand, total, at_once: total, items });
        self.start_first(strand)
    }

    pub(super) fn start_map(
        &mut self,
        strand: StrandId,
        state: &State,
        map: &MapState,
    ) -> Result<(), Failure> {
        if let MapMode::Distributed { .. } = map.mode {
            return self.start_map_run(strand, state, map);
        }
        let input = self.effective_input(strand, state)?;
        let at_once = self.with_scope(strand, &Seen::input(input.value()), |scope| {
            map.max_concurrency.as_ref().map_or(Ok(0), |most| most.count(scope, "MaxConcurrency"))
        })?;
        if self.trial.is_some() {
            self.see(Stage::MaxConcurrency, &Value::from(at_once).into());
        }
        let at_once = u32::try_from(at_once).unwrap_or(INLINE_AT_ONCE);
        let at_once = if at_once == 0 { INLINE_AT_ONCE } else { min(at_once, INLINE_AT_ONCE) };
        let items = self.items(strand, state, map, &input)?;
        self.check_size(&state.name, &items)?;
        let length = items.value().as_array().map_or(0, <[Value]>::len);
        self.emit(strand, EventKind::MapStateStarted { length: length as u64 });
        let total = u32::try_from(length).map_err(|_| runtime("A Map cannot have this many items"))?;
        if self.trial.is_some() {
            self.see_iterations(strand, state, map, &items)?;
        }
        self.note(Note::FanStarted { strand, total, at_once, items });
        self.start_first(strand)
    }

    /// Starts the first branches or iterations; in a trial they are answered, not run.
    fn start_first(&mut self, strand: StrandId) -> Result<(), Failure> {
        if self.trial.is_some() {
            return Ok(());
        }
        let after = self.strand(strand).last;
        self.start_more(strand, after)
    }

    fn see_iterations(
        &self,
        strand: StrandId,
        state: &State,
        map: &MapState,
        items: &Payload,
    ) -> Result<(), Failure> {
        let count = items.value().as_array().map_or(0, <[Value]>::len).min(ITEMS_MAX) as u32;
        let inputs: Result<Vec<Payload>, Failure> =
            (0..count).map(|index| self.iteration_input(strand, state, map, items, index)).collect();
        self.see(Stage::Selected, &Payload::array_of(&inputs?));
        Ok(())
    }

    /// The items of a Map, which must be an array, or in a Distributed Map an object.
    pub(super) fn items(
        &self,
        strand: StrandId,
        state: &State,
        map: &MapState,
        input: &Payload,
    ) -> Result<Payload, Failure> {
        let items = match &map.items {
            Items::Path(Selection::Whole) => input.clone(),
            Items::Path(selection) => {
                self.with_scope(strand, &Seen::input(input.value()), |scope| selection.select(input, scope))?
            }
            Items::Template(template) => {
                let seen = Seen::input(input.value());
                self.with_scope(strand, &seen, |scope| template.evaluate(scope, "Items"))?.into()
            }
        };
        self.see(Stage::Items, &items);
        if items.value().as_array().is_some() {
            return Ok(items);
        }
        let distributed = matches!(map.mode, MapMode::Distributed { .. });
        if distributed && items.value().as_object().is_some() {
            return Ok(items);
        }
        Err(match (&map.items, state.language) {
            (Items::Template(Template::Jsonata(expression)), _) => {
                unexpected_type(expression, "Items", "array", items.value())
            }
            (Items::Path(Selection::Path(path)), _) => {
                runtime(format!("Reference path \"{}\" must point to array.", path.text()))
            }
            (_, QueryLanguage::Jsonata) => {
                Failure::new(QUERY_EVALUATION, format!("Map state input must be an array but was: {items}"))
            }
            (_, QueryLanguage::JsonPath) => runtime("Reference path \"$\" must point to array."),
        })
    }

    /// If a Turn reached its work limit, it may have started too few iterations: starts the others.
    pub(super) fn start_the_rest(&mut self) {
        let base = self.draft.base;
        let has_room = |standing: &Standing| match standing {
            Standing::Fanning(run) => run.next < run.total && (run.live.len() as u32) < run.at_once,
            _ => false,
        };
        let fans = base
            .strands()
            .filter(|(_, strand)| strand.step.as_ref().is_some_and(|step| has_room(&step.standing)));
        let fans: Vec<(StrandId, Seq)> = fans.map(|(id, strand)| (id, strand.last)).collect();
        for (strand, after) in fans {
            let is_there = self.draft.peek(strand).is_some_and(|strand| strand.step.is_some());
            if !is_there || self.is_worked_out() || self.draft.changes.core.status != Status::Running {
                return;
            }
            // A failed state that waits for held calls in it will run again as a whole, and starts nothing before.
            if waits(&self.draft, strand).is_some() {
                continue;
            }
            if let Err(failure) = self.start_more(strand, after) {
                self.evaluation_failed(strand, failure);
            }
        }
    }

    /// Starts as many branches or iterations as may run, each following from `after`. Once the Turn has reached its
    /// work limit, one running is enough.
    pub(super) fn start_more(&mut self, parent: StrandId, after: Seq) -> Result<(), Failure> {
        let machine = self.machine();
        let state = self.state(&machine, parent);
        loop {
            let Standing::Fanning(run) = &self.step(parent).standing else { return Ok(()) };
            if run.done == run.total {
                return self.gathered(parent);
            }
            if run.next == run.total || run.live.len() as u32 >= run.at_once {
                return Ok(());
            }
            if !run.live.is_empty() && self.is_worked_out() {
                return Ok(());
            }
            let index = run.next;
            self.allow();
            let input = match &state.kind {
                Kind::Map(map) => Some(self.iteration_input(parent, state, map, &run.items, index)?),
                _ => None,
            };
            let strand = StrandId(self.draft.changes.core.next_strand);
            self.note(Note::StrandStarted { strand, parent, index, after, input });
            if matches!(state.kind, Kind::Map(_)) {
                let iteration = Iteration { name: state.name.clone(), index };
                self.emit(strand, EventKind::MapIterationStarted(iteration));
            }
        }
    }

    /// The input of an iteration: its item, or the result of `ItemSelector`.
    fn iteration_input(
        &self,
        strand: StrandId,
        state: &State,
        map: &MapState,
        items: &Payload,
        index: u32,
    ) -> Result<Payload, Failure> {
        let items = items.value().as_array().expect("the items of a Map are a list");
        let value = items[index as usize].clone();
        let Some(selector) = &map.selector else { return Ok(value.into()) };
        let input = self.effective_input(strand, state)?;
        let mut seen = Seen::input(input.value());
        seen.item = Some(MapItem { index: u64::from(index), value });
        let selected =
            self.with_scope(strand, &seen, |scope| selector.evaluate(scope, "ItemSelector"))?.into();
        self.check_size(&state.name, &selected)?;
        Ok(selected)
    }

    /// A branch or iteration of `parent` succeeded; its last event was `last`.
    pub(super) fn branch_ended(&mut self, parent: StrandId, index: u32, last: Seq) {
        let machine = self.machine();
        let state = self.state(&machine, parent);
        if matches!(state.kind, Kind::Map(_)) {
            let iteration = Iteration { name: state.name.clone(), index };
            self.emit(parent, EventKind::MapIterationSucceeded(iteration));
        }
        if let Err(failure) = self.start_more(parent, last) {
            self.evaluation_failed(parent, failure);
        }
    }

    /// All branches or iterations succeeded.
    fn gathered(&mut self, strand: StrandId) -> Result<(), Failure> {
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let result = Payload::array_of(&self.draft.results(strand));
        let after = match &state.kind {
            Kind::Parallel(parallel) => &parallel.after,
            Kind::Map(map) => &map.after,
            _ => return Ok(()),
        };
        self.check_size(&state.name, &result)?;
        self.emit(strand, EventKind::StateSucceeded { state_type: (&state.kind).into() });
        self.finish(strand, state, after, result)
    }
}
