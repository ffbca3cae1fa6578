//! A state with a result: shapes the output, sets the variables, goes on.

use super::{Seen, Turning};
use crate::event::EventKind;
use crate::id::StrandId;
use crate::trial::Stage;
use crate::turn::Note;
use perdura_asl::error::DATA_LIMIT_EXCEEDED;
use perdura_asl::evaluate::assign;
use perdura_asl::json::{DEPTH_MAX, Payload};
use perdura_asl::machine::{After, Placement, QueryLanguage, Selection, State, Transition};
use perdura_asl::scope::Failure;
use std::sync::Arc;

impl Turning<'_> {
    /// The result of a Task, Parallel or Map.
    pub(super) fn finish(
        &mut self,
        strand: StrandId,
        state: &State,
        after: &After,
        result: Payload,
    ) -> Result<(), Failure> {
        if state.language == QueryLanguage::Jsonata {
            let raw = self.step(strand).input.clone();
            return self.finish_jsonata(strand, state, &raw, Some(&result));
        }
        let selected = match &after.result_selector {
            Some(selector) => {
                let seen = Seen::input(result.value());
                self.with_scope(strand, &seen, |scope| selector.evaluate(scope, "ResultSelector"))?.into()
            }
            None => result,
        };
        self.see(Stage::ResultSelector, &selected);
        self.finish_jsonpath(strand, state, selected, &after.result_path)
    }

    pub(super) fn finish_jsonpath(
        &mut self,
        strand: StrandId,
        state: &State,
        result: Payload,
        place: &Placement,
    ) -> Result<(), Failure> {
        let raw = self.step(strand).input.clone();
        let assigned = if state.assign.is_empty() {
            Vec::new()
        } else {
            self.with_scope(strand, &Seen::input(result.value()), |scope| {
                assign(&state.assign, scope, "Assign")
            })?
        };
        let placed = place.place(&raw, result)?;
        self.see(Stage::ResultPath, &placed);
        let output = match &state.output_path {
            Selection::Whole => placed,
            selection => self
                .with_scope(strand, &Seen::input(placed.value()), |scope| selection.select(&placed, scope))?,
        };
        self.leave(strand, state, output, assigned, state.next)
    }

    pub(super) fn finish_jsonata(
        &mut self,
        strand: StrandId,
        state: &State,
        raw: &Payload,
        result: Option<&Payload>,
    ) -> Result<(), Failure> {
        let plain = result.unwrap_or(raw);
        if state.output.is_none() && state.assign.is_empty() {
            return self.leave(strand, state, plain.clone(), Vec::new(), state.next);
        }
        let seen = match result {
            Some(result) => Seen::result(raw.value(), result.value()),
            None => Seen::input(raw.value()),
        };
        let (output, assigned) = self.with_scope(strand, &seen, |scope| {
            let output = match &state.output {
                Some(output) => output.evaluate(scope, "Output")?.into(),
                None => plain.clone(),
            };
            Ok((output, assign(&state.assign, scope, "Assign")?))
        })?;
        self.leave(strand, state, output, assigned, state.next)
    }

    /// Leaves the state for the next one, or ends its flow.
    pub(super) fn leave(
        &mut self,
        strand: StrandId,
        state: &State,
        output: Payload,
        assigned: Vec<(Arc<str>, Payload)>,
        next: Transition,
    ) -> Result<(), Failure> {
        self.check_size(&state.name, &output)?;
        self.check_variables(strand, &assigned)?;
        self.bytes += output.len();
        let exited = EventKind::StateExited {
            state_type: (&state.kind).into(),
            name: state.name.clone(),
            output: output.clone(),
            assigned,
        };
        self.emit(strand, exited);
        match next {
            Transition::Next(_) if self.is_history_full() => self.history_is_full(),
            Transition::Next(next) => self.enter(strand, next, output),
            Transition::End => self.flow_ended(strand, output),
        }
        Ok(())
    }

    /// A strand reached the end of its flow.
    fn flow_ended(&mut self, strand: StrandId, output: Payload) {
        match self.strand(strand).parent {
            None => {
                self.emit(strand, EventKind::ExecutionSucceeded { output });
            }
            Some((parent, index)) => {
                let last = self.strand(strand).last;
                self.note(Note::StrandEnded { strand, output });
                self.branch_ended(parent, index, last);
            }
        }
    }

    /// Checks that a payload is not larger than the limit.
    pub(super) fn check_size(&self, whose: &str, payload: &Payload) -> Result<(), Failure> {
        if payload.depth() > DEPTH_MAX {
            let cause = format!("The result of '{whose}' nests more than {DEPTH_MAX} deep.");
            return Err(Failure::new(DATA_LIMIT_EXCEEDED, cause));
        }
        if payload.len() <= self.draft.base.identity.limits.payload_bytes_max {
            return Ok(());
        }
        Err(Failure::new(
            DATA_LIMIT_EXCEEDED,
            format!(
                "The state/task '{whose}' returned a result with a size exceeding the maximum number of bytes \
                 service limit."
            ),
        ))
    }

    fn check_variables(&self, strand: StrandId, assigned: &[(Arc<str>, Payload)]) -> Result<(), Failure> {
        if assigned.is_empty() {
            return Ok(());
        }
        let limits = self.draft.base.identity.limits;
        if let Some((name, _)) = assigned.iter().find(|(_, value)| value.depth() > DEPTH_MAX) {
            let cause = format!("The variable '{name}' nests more than {DEPTH_MAX} deep.");
            return Err(Failure::new(DATA_LIMIT_EXCEEDED, cause));
        }
        let new: usize = assigned.iter().map(|(name, value)| name.len() + value.len()).sum();
        if assigned.iter().any(|(_, value)| value.len() > limits.payload_bytes_max)
            || new > limits.payload_bytes_max
        {
            return Err(Failure::new(
                DATA_LIMIT_EXCEEDED,
                "The variables that this state assigns exceed the maximum number of bytes service limit.",
            ));
        }
        let kept: usize = self
            .strand(strand)
            .variables
            .iter()
            .filter(|(name, _)| !assigned.iter().any(|(set, _)| set == *name))
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if kept + new > limits.variables_bytes_max {
            return Err(Failure::new(
                DATA_LIMIT_EXCEEDED,
                "The variables of this execution exceed the maximum number of bytes service limit.",
            ));
        }
        Ok(())
    }
}
