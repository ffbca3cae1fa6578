//! What a task calls here: a mock, somebody outside, or nobody that there is.

use super::{Driver, ExecutionNo};
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::StateIx;
use perdura_engine::asl::resource::{Pattern, Target};
use perdura_engine::{Call, Fault, Input, Outcome};
use std::sync::Arc;

impl Driver {
    pub(super) fn call(&mut self, number: ExecutionNo, call: Call) {
        let state = self.state_of(number, &call);
        if let Some(answer) = self.mocks.answer(&state) {
            self.answer_in_turn(number, &call, answer.outcome());
            return;
        }
        if !self.outside.performs(&call.resource) {
            self.answer(number, &call, unreachable_here(&state, &call));
            return;
        }
        if let Some(name) = self.outside.missing_function(&call) {
            self.progress.hint(&format!(
                "{state} calls the function {name}, which is not configured: add [functions.{name}] to {}, or \
                 an answer for {state} to a mock file",
                self.config_file
            ));
        }
        let id = self.executions[&number].execution.identity().id;
        self.outside.call(number, id, call);
    }

    /// The name of the state that calls.
    fn state_of(&self, number: ExecutionNo, call: &Call) -> Arc<str> {
        let execution = &self.executions[&number].execution;
        let state =
            execution.strand(call.strand).and_then(|strand| strand.step.as_ref()).map(|step| step.state);
        execution.machine().state(state.unwrap_or(StateIx(0))).name.clone()
    }

    fn answer(&mut self, number: ExecutionNo, call: &Call, outcome: Outcome) {
        let by = call.by();
        self.settle((number, by, outcome));
    }

    /// A job or a callback is handed over first; its end comes after.
    fn answer_in_turn(&mut self, number: ExecutionNo, call: &Call, outcome: Outcome) {
        match call.resource.target {
            Target::Service { pattern: Pattern::Sync | Pattern::Callback, .. } => {
                self.answer(number, call, Outcome::Submitted { output: Payload::default() });
            }
            Target::Activity { .. } => {
                let by = call.by();
                self.ready.push_back((number, Input::TaskStarted { by, worker: Some("mock".into()) }));
            }
            Target::Function { .. } | Target::Service { .. } | Target::Step { .. } => {}
        }
        self.answer(number, call, outcome);
    }
}

/// Nobody can catch this: a mock that was forgotten must not pass for an error of the service.
fn unreachable_here(state: &str, call: &Call) -> Outcome {
    let cause = format!(
        "The state {state:?} calls {}, which `perdura run` cannot do. Give it an answer in a mock file: \
         {{{state:?}: [{{\"result\": …}}]}}, and run with --mock FILE",
        call.resource.arn
    );
    Outcome::NotStarted { fault: Fault::new(RUNTIME, cause), scheduled: false }
}
