//! The result of a test, and its intermediate values.

use super::items;
use crate::effect::MapRunOrder;
use crate::event::{EventKind, Fault};
use crate::id::StrandId;
use crate::trial::{Handler, Stage, Trial};
use crate::turn::{Record, Turn};
use perdura_asl::error::TIMEOUT;
use perdura_asl::json::{Map, Number, Payload, Value};
use perdura_asl::machine::{
    Items, Kind, MapState, Pass, Placement, QueryLanguage, Selection, State, Transition,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Variables and their values.
pub type Variables = BTreeMap<Arc<str>, Payload>;

/// The end of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestStatus {
    /// The state has its output.
    Succeeded,
    /// Its error was not handled.
    Failed,
    /// It would be retried.
    Retriable,
    /// A catcher took its error.
    CaughtError,
}

impl TestStatus {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Retriable => "RETRIABLE",
            Self::CaughtError => "CAUGHT_ERROR",
        }
    }
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub status: TestStatus,
    /// The input of the next state.
    pub output: Option<Payload>,
    /// Error and cause, handled or not.
    pub fault: Fault,
    /// The next state of the execution.
    pub next_state: Option<Arc<str>>,
    /// All variables after the state.
    pub variables: Variables,
    /// `inspectionData`, unless the level is INFO.
    pub inspection: Option<Map>,
}

impl Verdict {
    /// The answer of the API action.
    pub fn to_api(&self) -> Value {
        let mut answer = Map::new();
        if let Some(output) = &self.output {
            answer.insert("output", output.text().clone());
        }
        for (name, text) in [("error", &self.fault.error), ("cause", &self.fault.cause)] {
            if let Some(text) = text {
                answer.insert(name, text.clone());
            }
        }
        if let Some(inspection) = &self.inspection {
            answer.insert("inspectionData", inspection.clone());
        }
        if let Some(next) = &self.next_state {
            answer.insert("nextState", next.clone());
        }
        answer.insert("status", self.status.name());
        answer.into()
    }

    /// From the records of the Turns.
    pub(super) fn of(turns: &[Turn], trial: &Trial, variables: Variables) -> Self {
        let handled = trial.handled();
        let mut verdict = Self {
            status: match handled.as_ref().map(|handled| handled.by) {
                Some(Handler::Retrier { .. }) => TestStatus::Retriable,
                Some(Handler::Catcher { .. }) => TestStatus::CaughtError,
                None => TestStatus::Succeeded,
            },
            output: None,
            fault: handled.map(|handled| handled.fault).unwrap_or_default(),
            next_state: None,
            variables,
            inspection: None,
        };
        let events = turns.iter().flat_map(|turn| &turn.records).filter_map(|record| match record {
            Record::Event(event) if event.strand == StrandId::TOP => Some(&event.kind),
            Record::Event(_) | Record::Note(_) => None,
        });
        for event in events {
            if let EventKind::StateExited { output, assigned, .. } = event {
                verdict.output = Some(output.clone());
                verdict.variables.extend(assigned.iter().cloned());
            } else if let EventKind::StateEntered { name, .. } = event {
                verdict.next_state = Some(name.clone());
            } else if let EventKind::ExecutionFailed(fault) = event {
                verdict.status = TestStatus::Failed;
                verdict.fault = fault.clone();
            } else if let EventKind::ExecutionTimedOut(_) = event {
                verdict.status = TestStatus::Failed;
                verdict.fault = Fault::named(TIMEOUT);
            }
        }
        verdict
    }
}

/// The sources of `inspectionData`.
pub(super) struct Inspected<'a> {
    pub(super) state: &'a State,
    pub(super) trial: &'a Trial,
    pub(super) input: &'a Payload,
    pub(super) order: Option<&'a MapRunOrder>,
    pub(super) items: &'a items::Seen,
    pub(super) variables: &'a Variables,
    /// The state was selected from a machine.
    pub(super) in_machine: bool,
}

impl Inspected<'_> {
    /// `inspectionData` as far as the state came. Its members depend on the state's kind and language.
    pub(super) fn data(&self) -> Map {
        let mut data = Map::new();
        data.insert("input", self.input.text().clone());
        let is_jsonata = self.state.language == QueryLanguage::Jsonata;
        match (&self.state.kind, is_jsonata) {
            (Kind::Pass(pass), false) if self.in_machine && self.state.next != Transition::End => {
                self.declared(&mut data, pass);
            }
            (Kind::Pass(pass), false) if pass.result.is_some() => {
                // Its result does not depend on its input.
                self.stages(&mut data, &[Stage::Result, Stage::ResultSelector, Stage::ResultPath]);
            }
            (Kind::Pass(_) | Kind::Task(_), false) => {
                self.stages(&mut data, &[Stage::InputPath, Stage::Arguments, Stage::Result]);
                self.stages(&mut data, &[Stage::ResultSelector, Stage::ResultPath]);
            }
            (Kind::Task(_), true) => self.stages(&mut data, &[Stage::Arguments, Stage::Result]),
            (Kind::Parallel(parallel), _) => {
                // Unlike the others, a Parallel shows the input of its branches only if it has `Arguments`.
                if parallel.arguments.is_some() {
                    self.stages(&mut data, &[Stage::Arguments]);
                }
                if !is_jsonata {
                    self.stages(&mut data, &[Stage::ResultSelector, Stage::ResultPath]);
                }
            }
            (Kind::Map(map), _) => self.map(&mut data, map, is_jsonata),
            (Kind::Choice(_) | Kind::Wait(_) | Kind::Succeed | Kind::Fail(_), false) => {
                if !self.in_machine || self.has_input_path() {
                    self.stages(&mut data, &[Stage::InputPath]);
                }
            }
            (Kind::Pass(_) | Kind::Choice(_) | Kind::Wait(_) | Kind::Succeed | Kind::Fail(_), true) => {}
        }
        if !self.variables.is_empty() {
            let all = self.variables.iter().map(|(name, value)| (name.clone(), value.value().clone()));
            data.insert("variables", Value::from(all.collect::<Map>()).to_string());
        }
        let details = error_details(self.trial.handled().map(|handled| handled.by), self.trial.exhausted());
        if !details.is_empty() {
            data.insert("errorDetails", details);
        }
        data
    }

    fn has_input_path(&self) -> bool {
        !matches!(self.state.input_path, Selection::Whole)
    }

    /// A Pass state selected from a machine shows only the filters that it has.
    fn declared(&self, data: &mut Map, pass: &Pass) {
        let declared = [
            (self.has_input_path(), Stage::InputPath),
            (pass.parameters.is_some(), Stage::Arguments),
            (pass.result.is_some(), Stage::Result),
            (!matches!(pass.result_path, Placement::Replace), Stage::ResultPath),
        ];
        for (_, stage) in declared.into_iter().filter(|(is_there, _)| *is_there) {
            self.stages(data, &[stage]);
        }
    }

    fn stages(&self, data: &mut Map, stages: &[Stage]) {
        for stage in stages {
            let name = match (stage, self.state.language) {
                (Stage::InputPath, _) => "afterInputPath",
                (Stage::Arguments, QueryLanguage::JsonPath) => "afterParameters",
                (Stage::Arguments, QueryLanguage::Jsonata) => "afterArguments",
                (Stage::Result, _) => "result",
                (Stage::ResultSelector, _) => "afterResultSelector",
                (Stage::ResultPath, _) => "afterResultPath",
                (Stage::Items, _) => "afterItemsPath",
                (Stage::Selected, _) => "afterItemSelector",
                (Stage::MaxConcurrency, _) => "maxConcurrency",
            };
            put(data, name, self.trial.at(*stage).as_ref());
        }
    }

    fn map(&self, data: &mut Map, map: &MapState, is_jsonata: bool) {
        if !is_jsonata {
            self.stages(data, &[Stage::InputPath]);
        }
        if matches!(map.items, Items::Path(Selection::Path(_))) {
            self.stages(data, &[Stage::Items]);
        }
        put(data, "afterItemsPointer", self.items.pointed.as_ref());
        if map.selector.is_some() {
            let selected = self.items.selected.clone().or_else(|| self.trial.at(Stage::Selected));
            put(data, "afterItemSelector", selected.as_ref());
        }
        put(data, "afterItemBatcher", self.items.batched.as_ref());
        if !is_jsonata {
            self.stages(data, &[Stage::ResultSelector, Stage::ResultPath]);
        }
        if let Some(order) = self.order {
            if let Some(count) = order.tolerated_count {
                data.insert("toleratedFailureCount", count);
            }
            if let Some(share) = order.tolerated_percentage.and_then(Number::from_computed) {
                data.insert("toleratedFailurePercentage", share);
            }
            data.insert("maxConcurrency", order.max_concurrency);
        } else if let Some(most) = self.trial.at(Stage::MaxConcurrency) {
            data.insert("maxConcurrency", most.value().clone());
        }
    }
}

fn put(data: &mut Map, name: &str, value: Option<&Payload>) {
    if let Some(value) = value {
        data.insert(name, value.text().clone());
    }
}

fn error_details(by: Option<Handler>, exhausted: Option<u32>) -> Map {
    let mut details = Map::new();
    if let Some(at) = exhausted {
        details.insert("retryIndex", at);
    }
    match by {
        None => {}
        Some(Handler::Catcher { at }) => {
            details.insert("catchIndex", at);
        }
        Some(Handler::Retrier { at, delay_ms }) => {
            details.insert("retryIndex", at);
            details.insert("retryBackoffIntervalSeconds", delay_ms / 1000);
        }
    }
    details
}
