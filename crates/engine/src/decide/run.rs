//! Takes strands that are ready: each state by its kind, until all wait or the Turn is full.

use super::{Seen, Turning};
use crate::event::EventKind;
use crate::execution::Status;
use crate::id::{StrandId, Timestamp};
use crate::identity::Limits;
use crate::trial::Stage;
use crate::turn::Note;
use perdura_asl::evaluate::{runtime, unexpected_type};
use perdura_asl::json::Payload;
use perdura_asl::machine::{Fail, Kind, MapMode, Pass, QueryLanguage, Scalar, State, Wait};
use perdura_asl::scope::{Failure, Scope};
use perdura_asl::timestamp;

/// The work of entering and leaving a state besides its expressions.
const STATE_WORK: u64 = 500;
/// So many bytes of payload count as one unit, for copying and writing.
const BYTES_PER_UNIT: u64 = 16;

/// The longest wait in the language.
const SECONDS_MAX: i64 = 99_999_999;

impl Turning<'_> {
    pub(super) fn start(&mut self) {
        let input = self.draft.base.identity.input.clone();
        self.emit(StrandId::TOP, EventKind::ExecutionStarted { input });
    }

    pub(super) fn run(&mut self) {
        let Limits { turn_states_max, turn_bytes_max, .. } = self.draft.base.identity.limits;
        while self.draft.changes.core.status == Status::Running {
            if self.is_history_full() {
                return self.history_is_full();
            }
            let mut ready = self.draft.changes.core.ready.iter().copied();
            let Some(strand) = ready.find(|strand| self.may_take(*strand)) else { return };
            if self.states >= turn_states_max || self.bytes >= turn_bytes_max || self.is_worked_out() {
                return;
            }
            self.take(strand);
        }
    }

    /// Whether this process may take the strand's next step.
    fn may_take(&self, strand: StrandId) -> bool {
        let state = || Some(self.draft.base.machine.state(self.strand(strand).step.as_ref()?.state));
        self.begins_calls || !state().is_some_and(|state| begins_a_call(&state.kind))
    }

    /// The work of this Turn so far.
    pub(super) fn work(&self) -> u64 {
        let around = u64::from(self.states) * STATE_WORK + self.bytes as u64 / BYTES_PER_UNIT;
        self.dice.spent().saturating_add(around)
    }

    /// Whether this Turn has reached its work limit, so that the next one goes on.
    pub(super) fn is_worked_out(&self) -> bool {
        self.work() >= self.draft.base.identity.limits.turn_work_max
    }

    /// Allows the work of one state's expressions from here on.
    pub(super) fn allow(&self) {
        self.dice.allow(self.allowance);
    }

    /// Continues one ready strand.
    fn take(&mut self, strand: StrandId) {
        self.allow();
        let machine = self.machine();
        let Some(step) = &self.strand(strand).step else {
            let (flow, input) = (self.strand(strand).flow, self.strand(strand).input.clone());
            return self.enter(strand, machine.flow(flow).start_at, input);
        };
        let state = machine.state(step.state);
        let outcome = match &state.kind {
            Kind::Pass(pass) => self.pass(strand, state, pass),
            Kind::Succeed => self.succeed(strand, state),
            Kind::Fail(fail) => self.fail_state(strand, state, fail),
            Kind::Choice(choice) => self.choose(strand, state, choice),
            Kind::Wait(wait) => self.wait(strand, state, wait),
            Kind::Task(task) => self.call(strand, state, task),
            Kind::Parallel(parallel) => self.start_branches(strand, state, parallel),
            Kind::Map(map) => self.start_map(strand, state, map),
        };
        if let Err(failure) = outcome {
            self.evaluation_failed(strand, failure);
        }
    }

    /// The input after `InputPath`.
    pub(super) fn effective_input(&self, strand: StrandId, state: &State) -> Result<Payload, Failure> {
        let raw = self.step(strand).input.clone();
        let input = match &state.input_path {
            perdura_asl::machine::Selection::Whole => raw,
            path => self.with_scope(strand, &Seen::input(raw.value()), |scope| path.select(&raw, scope))?,
        };
        self.see(Stage::InputPath, &input);
        Ok(input)
    }

    fn pass(&mut self, strand: StrandId, state: &State, pass: &Pass) -> Result<(), Failure> {
        let raw = self.step(strand).input.clone();
        if state.language == QueryLanguage::Jsonata {
            return self.finish_jsonata(strand, state, &raw, None);
        }
        let input = self.effective_input(strand, state)?;
        // A Pass is a task with its `Result`, or else its input, as the result.
        let received = match &pass.parameters {
            Some(parameters) => self
                .with_scope(strand, &Seen::input(input.value()), |scope| {
                    parameters.evaluate(scope, "Parameters")
                })?
                .into(),
            None => input,
        };
        self.see(Stage::Arguments, &received);
        let result = match &pass.result {
            Some(result) => {
                let result = result.clone().into();
                self.see(Stage::Result, &result);
                result
            }
            None => received,
        };
        self.see(Stage::ResultSelector, &result);
        self.finish_jsonpath(strand, state, result, &pass.result_path)
    }

    fn succeed(&mut self, strand: StrandId, state: &State) -> Result<(), Failure> {
        let raw = self.step(strand).input.clone();
        if state.language == QueryLanguage::Jsonata {
            return self.finish_jsonata(strand, state, &raw, None);
        }
        let input = self.effective_input(strand, state)?;
        self.finish_jsonpath(strand, state, input, &perdura_asl::machine::Placement::Replace)
    }

    fn fail_state(&mut self, strand: StrandId, state: &State, fail: &Fail) -> Result<(), Failure> {
        let raw = self.step(strand).input.clone();
        self.see(Stage::InputPath, &raw);
        let (error, cause) = self.with_scope(strand, &Seen::input(raw.value()), |scope| {
            let error = fail.error.as_ref().map(|error| error.string(scope, "Error")).transpose()?;
            let cause = fail.cause.as_ref().map(|cause| cause.string(scope, "Cause")).transpose()?;
            Ok((error, cause))
        })?;
        debug_assert!(matches!(state.kind, Kind::Fail(_)));
        self.step_failed(strand, crate::event::Fault { error, cause });
        Ok(())
    }

    fn wait(&mut self, strand: StrandId, state: &State, wait: &Wait) -> Result<(), Failure> {
        let input = self.effective_input(strand, state)?;
        let step = self.step(strand);
        let entered = step.entered_steady.unwrap_or(step.entered_at);
        let until = self.with_scope(strand, &Seen::input(input.value()), |scope| match wait {
            Wait::Seconds(seconds) => {
                wait_seconds(seconds, scope).map(|seconds| entered.after_seconds(seconds))
            }
            Wait::Timestamp(until) => wait_until(until, scope),
        })?;
        let (wall, now) = match wait {
            Wait::Seconds(_) => (false, self.moment.steady),
            Wait::Timestamp(_) => (true, self.moment.now),
        };
        if until <= now {
            return self.waited(strand);
        }
        self.note(Note::Resting { strand, until, retry: None, wall });
        Ok(())
    }

    /// A Wait is over.
    pub(super) fn waited(&mut self, strand: StrandId) -> Result<(), Failure> {
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let raw = self.step(strand).input.clone();
        if state.language == QueryLanguage::Jsonata {
            return self.finish_jsonata(strand, state, &raw, None);
        }
        let input = self.effective_input(strand, state)?;
        self.finish_jsonpath(strand, state, input, &perdura_asl::machine::Placement::Replace)
    }
}

fn begins_a_call(kind: &Kind) -> bool {
    match kind {
        Kind::Task(_) => true,
        Kind::Map(map) => matches!(map.mode, MapMode::Distributed { .. }),
        Kind::Pass(_)
        | Kind::Succeed
        | Kind::Fail(_)
        | Kind::Choice(_)
        | Kind::Wait(_)
        | Kind::Parallel(_) => false,
    }
}

fn wait_seconds(seconds: &Scalar, scope: &Scope<'_>) -> Result<u64, Failure> {
    if let Scalar::Path(path) = seconds {
        let value = path.look(scope)?.ok_or_else(|| {
            runtime(format!("The SecondsPath parameter does not reference an input value: {}", path.text()))
        })?;
        let why = match value.as_i64() {
            None => Some("cannot be parsed as a long value"),
            Some(seconds) if seconds < 0 => Some("references a negative value"),
            Some(_) => None,
        };
        if let Some(why) = why {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            return Err(runtime(format!("The SecondsPath parameter {why}: {} == {shown}", path.text())));
        }
    }
    seconds.integer(scope, "Seconds", (0, SECONDS_MAX)).map(i64::unsigned_abs)
}

fn wait_until(until: &Scalar, scope: &Scope<'_>) -> Result<Timestamp, Failure> {
    let value = match until {
        Scalar::Path(path) => path.look(scope)?.ok_or_else(|| {
            runtime(format!("The TimestampPath parameter does not reference an input value: {}", path.text()))
        })?,
        _ => until.evaluate(scope, "Timestamp")?,
    };
    value.as_str().and_then(timestamp::parse_ms).map(Timestamp).ok_or_else(|| match until {
        Scalar::Path(path) => runtime(format!(
            "The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format \
             string: {} == {}",
            path.text(),
            value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        )),
        Scalar::Jsonata(expression) if value.as_str().is_none() => {
            unexpected_type(expression, "Timestamp", "string", &value)
        }
        Scalar::Jsonata(_) => perdura_asl::evaluate::query(
            "Timestamp",
            format!(
                "The Timestamp field cannot be parsed as an ISO-8601 extended offset date-time format string: {}",
                value.as_str().unwrap_or_default()
            ),
        ),
        Scalar::Literal(_) | Scalar::Intrinsic(_) => {
            runtime(format!("The Timestamp is not a valid ISO-8601 extended offset date-time format string: {value}"))
        }
    })
}
