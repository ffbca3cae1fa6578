//! A running test: the execution that stops after its first state, and the recorded values.

use super::verdict::Inspected;
use super::{Exchange, InspectionLevel, Variables, Verdict, items};
use crate::decide::{Alone, decide_alone};
use crate::effect::{Call, Effect, MapRunOrder};
use crate::execution::Execution;
use crate::id::{Moment, StrandId};
use crate::strand::Standing;
use crate::trial::Trial;
use crate::turn::Turn;
use perdura_asl::json::Payload;
use perdura_asl::machine::{Kind, StateIx};

/// A trial under way.
pub(super) struct Run {
    pub(super) execution: Execution,
    pub(super) trial: Trial,
    pub(super) turns: Vec<Turn>,
    pub(super) input: Payload,
    pub(super) variables: Variables,
    pub(super) level: InspectionLevel,
    pub(super) call: Option<Call>,
    pub(super) order: Option<MapRunOrder>,
    pub(super) items: items::Seen,
    /// The state was selected from a machine.
    pub(super) in_machine: bool,
}

impl Run {
    pub(super) fn step(&mut self, what: &Alone<'_>, moment: &Moment) {
        let decision = decide_alone(&self.execution, what, moment, &self.trial);
        self.turns.push(decision.turn.clone());
        for effect in self.execution.commit(decision) {
            match effect {
                Effect::CallTask(call) => self.call = Some(call),
                Effect::StartMapRun(order) => self.order = Some(*order),
                Effect::AwaitTask(_)
                | Effect::CancelTask { .. }
                | Effect::SetTimer { .. }
                | Effect::StopMapRun { .. }
                | Effect::Continue
                | Effect::Publish { .. } => {}
            }
        }
    }

    fn standing(&self) -> Option<&Standing> {
        Some(&self.execution.strand(StrandId::TOP)?.step.as_ref()?.standing)
    }

    pub(super) fn is_waiting_for_an_answer(&self) -> bool {
        matches!(
            self.standing(),
            Some(Standing::Calling { .. } | Standing::Fanning(_) | Standing::MapRunning { .. })
        )
    }

    /// How many iterations an inline Map would run.
    pub(super) fn iterations(&self) -> Option<u64> {
        match (&self.execution.machine.state(StateIx(0)).kind, self.standing()?) {
            (Kind::Map(_), Standing::Fanning(fan)) => Some(u64::from(fan.total)),
            _ => None,
        }
    }

    /// How long a Wait waits from now on.
    pub(super) fn waits(&self, moment: &Moment) -> Option<i64> {
        match self.standing()? {
            Standing::Resting { until, retry: false, wall } => {
                let now = if *wall { moment.now } else { moment.steady };
                Some(until.0.saturating_sub(now.0))
            }
            _ => None,
        }
    }

    pub(super) fn verdict(self, exchange: Option<Exchange>) -> Verdict {
        let mut verdict = Verdict::of(&self.turns, &self.trial, self.variables);
        if self.level == InspectionLevel::Info {
            return verdict;
        }
        let state = self.execution.machine.state(StateIx(0));
        let inspected = Inspected {
            state,
            trial: &self.trial,
            input: &self.input,
            order: self.order.as_ref(),
            items: &self.items,
            variables: &verdict.variables,
            in_machine: self.in_machine,
        };
        let mut data = inspected.data();
        if let (InspectionLevel::Trace, Kind::Task(_), Some(exchange)) = (self.level, &state.kind, exchange) {
            data.insert("request", exchange.request);
            data.insert("response", exchange.response);
        }
        verdict.inspection = Some(data);
        verdict
    }
}
