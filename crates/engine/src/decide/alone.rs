//! One state in a trial: it is taken, and the results of its task, branches or iterations are given.

use super::{Decision, Turning};
use crate::event::{EventKind, Fault};
use crate::execution::Execution;
use crate::id::{Moment, StrandId};
use crate::input::{By, Outcome};
use crate::map_run::MapRunOutcome;
use crate::strand::Standing;
use crate::trial::Trial;
use perdura_asl::json::Payload;
use perdura_asl::machine::{After, Kind, State};

/// The input of the trial.
pub(crate) enum Alone<'a> {
    /// Run it as far as it goes without an answer.
    Take,
    /// It has waited long enough.
    Wake,
    /// The outcome of its task, its branches or its iterations.
    Answer(&'a Outcome),
}

/// Decides on an execution that is a trial of its current state.
pub(crate) fn decide_alone(
    execution: &Execution,
    what: &Alone<'_>,
    moment: &Moment,
    trial: &Trial,
) -> Decision {
    let mut turning = Turning::new(execution, moment, Some(trial));
    match what {
        Alone::Take => turning.run(),
        Alone::Wake => turning.wake(),
        Alone::Answer(outcome) => turning.answer_alone(outcome),
    }
    turning.decision()
}

impl Turning<'_> {
    fn answer_alone(&mut self, outcome: &Outcome) {
        let strand = StrandId::TOP;
        match self.step(strand).standing {
            Standing::Calling { .. } => self.answer(strand, outcome),
            Standing::Fanning(_) => self.answer_fan(strand, outcome),
            Standing::MapRunning { over: false, .. } => {
                let by = By::Key { strand, key: self.key(strand), attempt: None };
                let outcome = match outcome_of_many(outcome) {
                    Ok(output) => MapRunOutcome::Succeeded { output },
                    Err(fault) => MapRunOutcome::Failed { fault },
                };
                self.map_run_ended(&by, &outcome);
            }
            Standing::Ready
            | Standing::Resting { .. }
            | Standing::Held { .. }
            | Standing::MapRunning { over: true, .. } => self.ignore("nobody waits for an answer"),
        }
    }

    fn answer_fan(&mut self, strand: StrandId, outcome: &Outcome) {
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let result = match outcome_of_many(outcome) {
            Ok(result) => result,
            Err(fault) => return self.step_failed(strand, fault),
        };
        let Some(after) = after_of(state) else { return };
        self.emit(strand, EventKind::StateSucceeded { state_type: (&state.kind).into() });
        if let Err(failure) = self.finish(strand, state, after, result) {
            self.evaluation_failed(strand, failure);
        }
    }
}

/// How Task, Parallel and Map handle their result or error.
pub(super) fn after_of(state: &State) -> Option<&After> {
    match &state.kind {
        Kind::Task(task) => Some(&task.after),
        Kind::Parallel(parallel) => Some(&parallel.after),
        Kind::Map(map) => Some(&map.after),
        Kind::Pass(_) | Kind::Choice(_) | Kind::Wait(_) | Kind::Succeed | Kind::Fail(_) => None,
    }
}

/// Branches and iterations give a result or an error; every other outcome becomes one of the two.
fn outcome_of_many(outcome: &Outcome) -> Result<Payload, Fault> {
    match outcome {
        Outcome::Succeeded { output } | Outcome::Submitted { output } => Ok(output.clone()),
        Outcome::Failed { fault, .. }
        | Outcome::NotStarted { fault, .. }
        | Outcome::SubmitFailed { fault, .. } => Err(fault.clone()),
    }
}
