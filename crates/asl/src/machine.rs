//! A Machine: a States Language definition that cannot be invalid.
//!
//! States and flows are in one arena each, in the order of the definition (a state before the states inside it), so an
//! index is stable for a given text and may be stored. A *flow* is a `StartAt` with its `States`: the machine itself, a
//! branch of a Parallel, the processor of a Map.

use crate::intrinsic::Intrinsic;
use crate::json::Value;
use crate::jsonata::Expression;
use crate::path::{Path, ReferencePath};
use crate::resource::Resource;
use crate::source::Span;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which state, in the order of the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StateIx(pub u32);

/// Which flow, in the order of the definition; 0 is the machine itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowIx(pub u32);

/// The type of a machine on AWS; here only names, limits and allowed features differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum MachineType {
    /// Up to a year, with a history.
    #[default]
    Standard,
    /// Up to five minutes; no callbacks, jobs or activities.
    Express,
}

/// A validated definition. Only [`crate::read`] makes one.
#[derive(Debug)]
pub struct Machine {
    /// The definition as it was given.
    pub text: Arc<str>,
    /// `Comment`
    pub comment: Option<String>,
    /// `TimeoutSeconds` of the whole machine.
    pub timeout_seconds: Option<u64>,
    /// `QueryLanguage` of the machine.
    pub language: QueryLanguage,
    /// Standard or Express.
    pub machine_type: MachineType,
    /// The length of all of its JSONata expressions.
    pub expression_bytes: usize,
    pub(crate) states: Vec<State>,
    pub(crate) flows: Vec<Flow>,
}

impl Machine {
    /// The flow in which an execution starts.
    pub const TOP: FlowIx = FlowIx(0);

    /// One state.
    pub fn state(&self, ix: StateIx) -> &State {
        &self.states[ix.0 as usize]
    }

    /// One flow.
    pub fn flow(&self, ix: FlowIx) -> &Flow {
        &self.flows[ix.0 as usize]
    }

    /// All states, those inside Parallel and Map included.
    pub fn states(&self) -> impl ExactSizeIterator<Item = (StateIx, &State)> {
        self.states.iter().enumerate().map(|(ix, state)| (StateIx(ix as u32), state))
    }

    /// The first state of this name, in the order of the definition.
    pub fn find(&self, name: &str) -> Option<StateIx> {
        self.states().find(|(_, state)| &*state.name == name).map(|(ix, _)| ix)
    }

    /// The variables that each state's expressions read, for the states that read any: what the API calls
    /// `variableReferences`.
    pub fn variable_references(&self) -> BTreeMap<&Arc<str>, &BTreeSet<Arc<str>>> {
        let reading = self.states.iter().filter(|state| !state.variables.is_empty());
        reading.map(|state| (&state.name, &state.variables)).collect()
    }
}

/// `StartAt` and the states around it.
#[derive(Debug)]
pub struct Flow {
    /// Where it begins.
    pub start_at: StateIx,
    /// The Parallel or Map that contains it.
    pub parent: Option<StateIx>,
}

/// The language of expressions in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryLanguage {
    /// Paths, payload templates and intrinsic functions.
    #[default]
    JsonPath,
    /// `{% … %}`
    Jsonata,
}

/// One state with what all kinds have; absent fields have their defaults.
#[derive(Debug)]
pub struct State {
    pub name: Arc<str>,
    /// Its JSON pointer in the definition, such as `/States/Ship`.
    pub pointer: String,
    /// The flow it stands in.
    pub flow: FlowIx,
    /// `Comment`
    pub comment: Option<String>,
    /// `QueryLanguage`, its own or inherited.
    pub language: QueryLanguage,
    /// `InputPath`
    pub input_path: Selection,
    /// `OutputPath`
    pub output_path: Selection,
    /// `Assign`: variable names and templates, in order.
    pub assign: Assign,
    /// `Output` (JSONata).
    pub output: Option<Template>,
    /// The variables that its expressions read, `$states` not among them.
    pub variables: BTreeSet<Arc<str>>,
    /// `Next` or `End`; a Choice, Succeed and Fail have [`Transition::End`] and do not use it.
    pub next: Transition,
    /// The kind of the state, with its fields.
    pub kind: Kind,
}

/// Where a state leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// `Next`
    Next(StateIx),
    /// `End: true`
    End,
}

/// The eight kinds.
#[derive(Debug)]
pub enum Kind {
    /// Passes its input on, shaped.
    Pass(Pass),
    /// Does something outside.
    Task(Box<Task>),
    /// Branches.
    Choice(Choice),
    /// Waits.
    Wait(Wait),
    /// Ends well.
    Succeed,
    /// Ends badly.
    Fail(Fail),
    /// Runs branches side by side.
    Parallel(Parallel),
    /// Runs a processor for each item.
    Map(Box<MapState>),
}

impl Kind {
    /// Its `Type`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass(_) => "Pass",
            Self::Task(_) => "Task",
            Self::Choice(_) => "Choice",
            Self::Wait(_) => "Wait",
            Self::Succeed => "Succeed",
            Self::Fail(_) => "Fail",
            Self::Parallel(_) => "Parallel",
            Self::Map(_) => "Map",
        }
    }
}

/// `InputPath` and `OutputPath`.
#[derive(Debug, Default)]
pub enum Selection {
    /// Absent or `$`: everything.
    #[default]
    Whole,
    /// `null`: an empty object instead.
    Nothing,
    /// A part, `$$…` or a variable.
    Path(Path),
}

/// `ResultPath`.
#[derive(Debug, Default)]
pub enum Placement {
    /// Absent or `$`: the result replaces the input.
    #[default]
    Replace,
    /// `null`: the input stays, the result goes.
    Discard,
    /// The result goes there in the input.
    At(ReferencePath),
}

/// `Assign`.
pub type Assign = Vec<(Arc<str>, Template)>;

/// A value with expressions in it, compiled.
#[derive(Debug)]
pub enum Template {
    /// Nothing to evaluate.
    Literal(Value),
    /// `"name.$": "$.path"`
    Path(Path),
    /// `"name.$": "States.…(…)"`
    Intrinsic(Intrinsic),
    /// `"{% … %}"`
    Jsonata(Expression),
    /// An array with something to evaluate in it.
    Array(Vec<Template>),
    /// An object with something to evaluate in it; names without `.$`.
    Object(Vec<(Arc<str>, Template)>),
}

/// A single value that may be written or computed: `TimeoutSeconds`, `TimeoutSecondsPath`, `{% … %}`.
#[derive(Debug)]
pub enum Scalar {
    /// Written in the definition.
    Literal(Value),
    /// `…Path` with a path.
    Path(Path),
    /// `ErrorPath` or `CausePath` with an intrinsic function.
    Intrinsic(Intrinsic),
    /// A JSONata expression.
    Jsonata(Expression),
}

/// A Pass state.
#[derive(Debug)]
pub struct Pass {
    /// `Result`
    pub result: Option<Value>,
    /// `Parameters`
    pub parameters: Option<Template>,
    /// `ResultPath`
    pub result_path: Placement,
}

/// A Task state.
#[derive(Debug)]
pub struct Task {
    /// `Resource`
    pub resource: Resource,
    /// The place of `Resource` in the text.
    pub resource_span: Span,
    /// `Parameters` or `Arguments`
    pub arguments: Option<Template>,
    /// `Credentials`
    pub credentials: Option<Template>,
    /// `TimeoutSeconds[Path]`
    pub timeout: Option<Scalar>,
    /// `HeartbeatSeconds[Path]`
    pub heartbeat: Option<Scalar>,
    /// The handling of result and error.
    pub after: After,
}

/// The handling of results and errors in Task, Parallel and Map.
#[derive(Debug, Default)]
pub struct After {
    /// `ResultSelector`
    pub result_selector: Option<Template>,
    /// `ResultPath`
    pub result_path: Placement,
    /// `Retry`
    pub retry: Vec<Retrier>,
    /// `Catch`
    pub catch: Vec<Catcher>,
}

/// One entry of `Retry`.
#[derive(Debug, Clone)]
pub struct Retrier {
    /// `ErrorEquals`
    pub errors: Vec<Arc<str>>,
    /// `IntervalSeconds`
    pub interval_seconds: u64,
    /// `MaxAttempts`
    pub max_attempts: u64,
    /// `BackoffRate`
    pub backoff_rate: f64,
    /// `MaxDelaySeconds`
    pub max_delay_seconds: Option<u64>,
    /// `JitterStrategy: FULL`
    pub full_jitter: bool,
}

/// One entry of `Catch`.
#[derive(Debug)]
pub struct Catcher {
    /// `ErrorEquals`
    pub errors: Vec<Arc<str>>,
    /// `Next`
    pub next: StateIx,
    /// `ResultPath`
    pub result_path: Placement,
    /// `Output` (JSONata)
    pub output: Option<Template>,
    /// `Assign`
    pub assign: Assign,
}

/// A Choice state.
#[derive(Debug)]
pub struct Choice {
    /// `Choices`, tried in order.
    pub rules: Vec<Rule>,
    /// `Default`
    pub default: Option<StateIx>,
}

/// One entry of `Choices`.
#[derive(Debug)]
pub struct Rule {
    /// When it holds …
    pub condition: Condition,
    /// … go there.
    pub next: StateIx,
    /// `Assign` of the rule.
    pub assign: Assign,
    /// `Output` of the rule (JSONata).
    pub output: Option<Template>,
}

/// The condition of a rule.
#[derive(Debug)]
pub enum Condition {
    /// All of them.
    And(Vec<Condition>),
    /// Any of them.
    Or(Vec<Condition>),
    /// Not this.
    Not(Box<Condition>),
    /// One comparison.
    Test {
        /// `Variable`
        variable: Path,
        /// Which comparison.
        operator: Operator,
        operand: Operand,
    },
    /// `Condition` (JSONata): an expression, or a constant truth.
    Jsonata(Scalar),
}

/// The right side of a comparison.
#[derive(Debug)]
pub enum Operand {
    /// Written in the definition, of the operator's type.
    Literal(Value),
    /// The `…Path` form.
    Path(Path),
}

/// The comparisons; each but the `Is…` and `StringMatches` also comes in a `Path` form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `BooleanEquals`
    BooleanEquals,
    /// `Numeric…`
    Numeric(Comparison),
    /// `String…`
    String(Comparison),
    /// `StringMatches`
    StringMatches,
    /// `Timestamp…`
    Timestamp(Comparison),
    /// `IsNull`
    IsNull,
    /// `IsPresent`
    IsPresent,
    /// `IsNumeric`
    IsNumeric,
    /// `IsString`
    IsString,
    /// `IsBoolean`
    IsBoolean,
    /// `IsTimestamp`
    IsTimestamp,
}

/// How two values of one type compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `Equals`
    Equals,
    /// `LessThan`
    LessThan,
    /// `LessThanEquals`
    LessThanEquals,
    /// `GreaterThan`
    GreaterThan,
    /// `GreaterThanEquals`
    GreaterThanEquals,
}

/// A Wait state.
#[derive(Debug)]
pub enum Wait {
    /// `Seconds[Path]`
    Seconds(Scalar),
    /// `Timestamp[Path]`
    Timestamp(Scalar),
}

/// A Fail state.
#[derive(Debug)]
pub struct Fail {
    /// `Error[Path]`
    pub error: Option<Scalar>,
    /// `Cause[Path]`
    pub cause: Option<Scalar>,
}

/// A Parallel state.
#[derive(Debug)]
pub struct Parallel {
    /// `Branches`
    pub branches: Vec<FlowIx>,
    /// `Parameters` or `Arguments`
    pub arguments: Option<Template>,
    /// The handling of result and error.
    pub after: After,
}

/// A Map state.
#[derive(Debug)]
pub struct MapState {
    /// `ItemProcessor` or `Iterator`
    pub processor: FlowIx,
    /// `ProcessorConfig`
    pub mode: MapMode,
    /// Where the items are.
    pub items: Items,
    /// `ItemReader`
    pub reader: Option<Reader>,
    /// `ItemSelector`, or `Parameters` of old
    pub selector: Option<Template>,
    /// `ItemBatcher`
    pub batcher: Option<Batcher>,
    /// `ResultWriter`
    pub writer: Option<Writer>,
    /// `MaxConcurrency[Path]`
    pub max_concurrency: Option<Scalar>,
    /// `ToleratedFailureCount[Path]`
    pub tolerated_count: Option<Scalar>,
    /// `ToleratedFailurePercentage[Path]`
    pub tolerated_percentage: Option<Scalar>,
    /// The handling of result and error.
    pub after: After,
}

/// Where iterations run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapMode {
    /// In the same execution and history.
    Inline,
    /// In child executions of their own.
    Distributed {
        /// `ExecutionType`
        execution_type: MachineType,
        /// `Label`
        label: Option<Arc<str>>,
    },
}

/// Where a Map finds its items.
#[derive(Debug)]
pub enum Items {
    /// `ItemsPath`; absent means the whole input.
    Path(Selection),
    /// `Items` (JSONata): an expression, or an array with expressions.
    Template(Template),
}

/// `ItemReader`.
#[derive(Debug)]
pub struct Reader {
    /// `Resource`
    pub resource: Resource,
    /// `Parameters` or `Arguments`
    pub arguments: Option<Template>,
    /// `ReaderConfig` without `MaxItems` and `MaxItemsPath`, as written.
    pub config: Value,
    /// `ReaderConfig.MaxItems[Path]`
    pub max_items: Option<Scalar>,
}

/// `ItemBatcher`.
#[derive(Debug)]
pub struct Batcher {
    /// `MaxItemsPerBatch[Path]`
    pub max_items: Option<Scalar>,
    /// `MaxInputBytesPerBatch[Path]`
    pub max_bytes: Option<Scalar>,
    /// `BatchInput`
    pub input: Option<Template>,
}

/// `ResultWriter`.
#[derive(Debug)]
pub struct Writer {
    /// `Resource`; without one, results are only transformed.
    pub resource: Option<Resource>,
    /// `Parameters` or `Arguments`
    pub arguments: Option<Template>,
    /// `WriterConfig`, as written.
    pub config: Value,
}
