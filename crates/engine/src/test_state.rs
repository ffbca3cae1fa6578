//! `TestState`: tests one state, without an execution around it.
//!
//! The state becomes a machine of its own, and the machine an execution that stops after its first state. So the same
//! code as in executions evaluates everything; a [`Trial`] records it. The caller makes a Task's call, between
//! [`TestState::prepare`] and [`Calling::finish`]; a mock replaces the call, and the branches and iterations of
//! Parallel and Map, which never run here.
//!
//! Messages are AWS's where they are known.

mod context;
mod items;
mod mock;
mod request;
mod run;
mod shapes;
mod verdict;

pub use mock::{Mock, Strictness};
pub use verdict::{TestStatus, Variables, Verdict};

use crate::arn::Arns;
use crate::decide::{Alone, decide};
use crate::effect::Call;
use crate::event::Fault;
use crate::execution::Execution;
use crate::id::{Moment, StrandId, Timestamp};
use crate::input::{Certainty, Input, Outcome};
use crate::map_run::{MapRunBounds, tolerance_exceeded};
use crate::trial::Trial;
use crate::validate::invalid_definition;
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::machine::{Machine, MachineType, StateIx};
use perdura_asl::read::{ReadOptions, read, read_state, read_state_of};
use perdura_asl::source::Source;
use run::Run;
use std::sync::Arc;

/// AWS's name for the tested state, whatever its real name is.
const NAME: &str = "StateName";
/// The time limit of a test.
const LONGEST_MS: i64 = 300_000;

/// A request to test a state.
pub struct TestState {
    /// A state, or with `state_name` a machine.
    pub definition: Arc<str>,
    /// The role under which it would run on AWS.
    pub role_arn: Option<Arc<str>>,
    /// The state's input.
    pub input: Payload,
    /// How much to return.
    pub level: InspectionLevel,
    /// Whether the secrets of an HTTP request may be shown.
    pub reveal_secrets: bool,
    /// The state's variables.
    pub variables: Variables,
    /// The state of the machine to test.
    pub state_name: Option<Arc<str>>,
    /// The mocked result.
    pub mock: Option<Mock>,
    /// The context object, unless it is generated.
    pub context: Option<Map>,
    /// The earlier history of the state.
    pub configuration: Configuration,
}

/// `inspectionLevel`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InspectionLevel {
    /// Only the result.
    #[default]
    Info,
    /// Also the intermediate values.
    Debug,
    /// Also the exchange of an HTTP Task.
    Trace,
}

/// `stateConfiguration`: the assumed earlier history of the state.
#[derive(Clone, Default)]
pub struct Configuration {
    /// How often the retrier that matches the error has retried already.
    pub retrier_retry_count: Option<u64>,
    /// Which state inside a Map or Parallel failed. Accepted as on AWS, and without effect.
    pub error_caused_by_state: Option<Arc<str>>,
    /// How many iterations of a Distributed Map failed.
    pub map_iteration_failure_count: Option<u64>,
    /// The data for the `ItemReader`.
    pub map_item_reader_data: Option<Arc<str>>,
}

/// The refusal of a request, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The definition is invalid, or invalid for this.
    #[error("{0}")]
    InvalidDefinition(String),
    /// The request contradicts itself or the definition.
    #[error("{0}")]
    ValidationException(String),
    /// The input is not JSON.
    #[error("{0}")]
    InvalidExecutionInput(String),
    /// The role is not a valid ARN.
    #[error("{0}")]
    InvalidArn(String),
}

impl Refused {
    /// The name of the exception.
    pub fn name(&self) -> &'static str {
        match self {
            Self::InvalidDefinition(_) => "InvalidDefinition",
            Self::ValidationException(_) => "ValidationException",
            Self::InvalidExecutionInput(_) => "InvalidExecutionInput",
            Self::InvalidArn(_) => "InvalidArn",
        }
    }
}

/// The next step of a request.
pub enum Prepared {
    /// None: this is the result.
    Answered {
        verdict: Verdict,
        /// How long AWS would have taken, which is how long a Wait waits: five minutes at most.
        after_ms: i64,
    },
    /// A call is to be made first.
    Call(Box<Calling>),
}

/// The exchange of an HTTP Task, in the form of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// `request`, without secrets unless they may be revealed.
    pub request: Value,
    /// `response`
    pub response: Value,
}

/// A Task whose call is still to be made.
pub struct Calling {
    run: Run,
    call: Call,
}

impl Calling {
    /// The call to make. It may take five minutes at most, or less if it has a limit of its own.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The call was made; `exchange` is that of an HTTP Task.
    pub fn finish(mut self, outcome: &Outcome, exchange: Option<Exchange>, moment: &Moment) -> Verdict {
        self.run.step(&Alone::Answer(outcome), moment);
        self.run.verdict(exchange)
    }
}

impl TestState {
    /// Parses the request of the API action.
    pub fn read(request: &Value) -> Result<Self, Refused> {
        request::read(request)
    }

    /// Runs the state as far as it goes without a call. Generated names and ARNs are of this account and region.
    pub fn prepare(&self, arns: &Arns, moment: &Moment) -> Result<Prepared, Refused> {
        if let Some(role) = self.role_arn.as_deref().filter(|role| !role.starts_with("arn:")) {
            return Err(Refused::InvalidArn(format!("Invalid Role Arn: '{role}'")));
        }
        let (machine, around) = self.machine()?;
        let state = machine.state(StateIx(0));
        mock::admit(state, self.mock.as_ref(), self.role_arn.is_some())?;
        if let Some(context) = &self.context {
            context::check(context, state).map_err(|wrong| {
                Refused::ValidationException(format!("Invalid Context object provided: {wrong}"))
            })?;
        }
        let mut run = self.start(&machine, around.as_ref(), arns, moment);
        run.step(&Alone::Take, moment);
        let mut after_ms = 0;
        if let Some(wait) = run.waits(moment) {
            after_ms = wait.clamp(0, LONGEST_MS);
            let later = |at: Timestamp| at.after_ms(after_ms);
            let moment = Moment { now: later(moment.now), steady: later(moment.steady), ..*moment };
            run.step(&Alone::Wake, &moment);
        }
        if let Some(mock) = &self.mock
            && run.is_waiting_for_an_answer()
        {
            let outcome = self.outcome(mock, &mut run)?;
            run.step(&Alone::Answer(&outcome), moment);
        } else if let Some(call) = run.call.take() {
            return Ok(Prepared::Call(Box::new(Calling { run, call })));
        }
        Ok(Prepared::Answered { verdict: run.verdict(None), after_ms })
    }

    /// The machine with the state, and the Map around the state in the definition.
    fn machine(&self) -> Result<(Arc<Machine>, Option<context::Iteration>), Refused> {
        let source = Source::new("definition", &*self.definition);
        let options = ReadOptions { machine_type: MachineType::Standard, strict: true };
        let mut around = None;
        let reading = match &self.state_name {
            None => read_state(&source, NAME, &options),
            Some(name) => {
                let whole = read(&source, &options);
                let Some(machine) = whole.machine else {
                    return Err(Refused::InvalidDefinition(invalid_definition(&whole.diagnostics, &source)));
                };
                let not_found = || Refused::ValidationException("State not found in definition".into());
                let wanted = machine.find(name).ok_or_else(not_found)?;
                around = context::Iteration::around(&machine, wanted);
                read_state_of(&source, name, NAME, &options).ok_or_else(not_found)?
            }
        };
        match reading.machine {
            Some(machine) => Ok((Arc::new(machine), around)),
            None => Err(Refused::InvalidDefinition(invalid_definition(&reading.diagnostics, &source))),
        }
    }

    /// An execution that has entered the state.
    fn start(
        &self,
        machine: &Arc<Machine>,
        around: Option<&context::Iteration>,
        arns: &Arns,
        moment: &Moment,
    ) -> Run {
        let state = machine.state(StateIx(0));
        let identity = context::identity(self, arns, moment);
        let context = match &self.context {
            Some(context) => context.clone(),
            None => context::made_up(self, &identity, state, around, moment),
        };
        let mut execution = Execution::new(machine.clone(), identity);
        let entered = decide(&execution, &Input::Start, moment);
        execution.commit(entered);
        if let Some(strand) = execution.strands.get_mut(&StrandId::TOP) {
            strand.variables = Arc::new(self.variables.clone());
        }
        Run {
            execution,
            trial: Trial::new(context, self.retries()),
            turns: Vec::new(),
            input: self.input.clone(),
            variables: self.variables.clone(),
            level: self.level,
            call: None,
            order: None,
            items: items::Seen::default(),
            in_machine: self.state_name.is_some(),
        }
    }

    /// How often the retrier that matches the error has retried already. AWS reads it from a context object, too.
    fn retries(&self) -> Option<u64> {
        let in_context = || self.context.as_ref()?.get("State")?.get("RetryCount")?.as_i64()?.try_into().ok();
        self.configuration.retrier_retry_count.or_else(in_context)
    }

    /// The mock's outcome, unless more iterations failed than are tolerated.
    fn outcome(&self, mock: &Mock, run: &mut Run) -> Result<Outcome, Refused> {
        let failed = |fault: Fault| Outcome::Failed { fault, certainty: Certainty::Refused };
        let failures = self.configuration.map_iteration_failure_count.unwrap_or(0);
        let Some(order) = &run.order else {
            check_failures(failures, run.iterations())?;
            return Ok(mock.outcome());
        };
        let data = self.configuration.map_item_reader_data.as_deref();
        run.items = items::see(&run.execution.machine, order, data)?;
        if let Some(fault) = &run.items.fault {
            return Ok(failed(fault.clone()));
        }
        check_failures(failures, run.items.total)?;
        let bounds = MapRunBounds {
            max_concurrency: order.max_concurrency,
            tolerated_count: order.tolerated_count,
            tolerated_percentage: order.tolerated_percentage,
        };
        let is_exceeded = bounds.are_exceeded(failures, run.items.total);
        Ok(if is_exceeded { failed(tolerance_exceeded()) } else { mock.outcome() })
    }
}

/// Not more iterations can have failed than there are.
fn check_failures(failures: u64, items: Option<u64>) -> Result<(), Refused> {
    if items.is_some_and(|items| failures > items) {
        return Err(Refused::ValidationException(
            "mapIterationFailureCount cannot exceed the number of items in the Map state input".into(),
        ));
    }
    Ok(())
}
