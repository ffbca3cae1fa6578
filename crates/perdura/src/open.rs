//! Opening: the program registers its workflows and steps first, then running executions continue.

use crate::errors::SetupError;
use crate::perdura::{Known, Perdura, deploy};
use crate::step::{IntoStep, Parts};
use crate::threads;
use crate::workflow::{Body, Workflow, bad_name, registered};
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::asl::machine::{Kind, Machine, MachineType};
use perdura_engine::asl::read::{BYTES_MAX, ReadOptions, read};
use perdura_engine::asl::resource::Target;
use perdura_engine::asl::source::Source;
use perdura_runtime::{Nowhere, Opener, Options, Performer, RealWorld, Runtime, StepCall, Steps};
use perdura_store::{MemoryStore, SqliteOptions, SqliteStore, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// A [`Perdura`] that is being opened: name workflows and steps first, then `.await` opens it.
///
/// The order matters. Executions that ran when the last process ended continue at once, so their functions must be
/// registered already.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use perdura::{Perdura, StepError, Workflow};
///
/// async fn double(number: u32) -> Result<u32, StepError> {
///     Ok(number * 2)
/// }
///
/// let workflow = Workflow::new("double").step(double);
/// let perdura = Perdura::in_memory().workflow(&workflow).await?;
/// # drop(perdura);
/// # Ok::<_, perdura::SetupError>(())
/// # }).unwrap();
/// ```
#[must_use = "nothing is opened before it is awaited"]
pub struct Opening {
    storage: Storage,
    workflows: Vec<(Arc<str>, Body)>,
    steps: Vec<(String, Parts)>,
    elsewhere: Option<Box<dyn Performer>>,
}

/// Where the data is.
pub(crate) enum Storage {
    Folder(PathBuf),
    Memory,
}

impl Opening {
    pub(crate) fn at(storage: Storage) -> Self {
        Self { storage, workflows: Vec::new(), steps: Vec::new(), elsewhere: None }
    }

    /// Adds this workflow and, if it is a list, its steps.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// let once = Workflow::new("once").step(double);
    /// let twice = Workflow::new("twice").named("first", double).named("second", double);
    /// let perdura = Perdura::in_memory().workflow(&once).workflow(&twice).await.unwrap();
    /// assert_eq!(perdura.start(&twice, "a", 3).await.unwrap().await.unwrap(), 12);
    /// # });
    /// ```
    pub fn workflow<I, O>(mut self, workflow: &Workflow<I, O>) -> Self {
        self.workflows.push((workflow.name.clone(), workflow.body.clone()));
        self
    }

    /// Adds a step for definitions, which call it as `arn:perdura:step:::NAME`; see [`Workflow::from_definition`].
    /// Retries and timeouts are in the definition; the policy for unknown outcomes is set here.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Context, Perdura, Step};
    /// # async fn fax(_: Context, number: String) -> Result<(), std::io::Error> { Ok(()) }
    /// let perdura = Perdura::in_memory().step("fax", Step::new(fax).hold()).await.unwrap();
    /// # drop(perdura);
    /// # });
    /// ```
    pub fn step<I, M>(mut self, name: impl Into<String>, step: impl IntoStep<I, M>) -> Self {
        self.steps.push((name.into(), step.into_step().parts));
        self
    }

    /// Adds a performer for tasks that are not steps of this program: functions, HTTP, activities. Without it, such a
    /// task fails with `States.Runtime`.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::Perdura;
    /// let perdura = Perdura::in_memory().elsewhere(Box::new(perdura_runtime::Nowhere)).await.unwrap();
    /// # drop(perdura);
    /// # });
    /// ```
    pub fn elsewhere(mut self, performer: Box<dyn Performer>) -> Self {
        self.elsewhere = Some(performer);
        self
    }

    async fn open(self) -> Result<Perdura, SetupError> {
        let plan = Plan::of(self.workflows, self.steps)
            .map_err(|problems| SetupError::Program(problems.join("\n")))?;
        let (closed, when_closed) = watch::channel(false);
        let names: BTreeSet<Arc<str>> = plan.steps.keys().map(|name| name.as_str().into()).collect();
        let steps = plan.steps.into_iter().fold(Steps::default(), |steps, (name, parts)| {
            register(steps, &name, parts, when_closed.clone())
        });
        let elsewhere = self.elsewhere.unwrap_or_else(|| Box::new(Nowhere));
        let world = Arc::new(RealWorld::new(steps, elsewhere, Handle::current()));
        let storage = self.storage;
        threads::run(move || {
            let runtime = Runtime::open(opener(storage), world, &Options::default())?;
            let mut known = BTreeMap::new();
            for (name, definition, machine) in plan.machines {
                known.insert(name.clone(), deploy(runtime.door(), name, definition, machine)?);
            }
            Ok(Perdura::new(runtime, known, names, closed))
        })
        .await
    }
}

impl IntoFuture for Opening {
    type Output = Result<Perdura, SetupError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workflows = self.workflows.iter().map(|(name, _)| name);
        formatter.debug_list().entries(workflows).finish()
    }
}

/// Opens the store, also again after it failed. Data in memory is the same each time.
fn opener(storage: Storage) -> Opener {
    match storage {
        Storage::Folder(folder) => Box::new(move || {
            Ok(Box::new(SqliteStore::open(&folder, SqliteOptions::default())?) as Box<dyn Store>)
        }),
        Storage::Memory => {
            let memory = MemoryStore::new(1);
            Box::new(move || Ok(Box::new(memory.clone())))
        }
    }
}

/// A step ends with the [`Perdura`] that called it: once that is closed nobody takes the answer, and the next process
/// makes the call again.
fn register(steps: Steps, name: &str, parts: Parts, closed: watch::Receiver<bool>) -> Steps {
    let Parts { function, policy, has_effect, .. } = parts;
    steps.with(name, policy, move |call: StepCall| {
        let performed = function(call);
        let mut closed = closed.clone();
        async move {
            let result = tokio::select! {
                biased;
                result = performed => result,
                // Closed and dropped mean the same here.
                _ = closed.wait_for(|closed| *closed) => {
                    Err(crate::StepError::uncertain("Perdura.Interrupted", "perdura was closed"))
                }
            };
            result.map_err(|error| error.into_runtime(has_effect))
        }
    })
}

/// All workflows and steps, checked.
pub(crate) struct Plan {
    steps: BTreeMap<String, Parts>,
    machines: Vec<(Arc<str>, Arc<str>, Machine)>,
}

impl Plan {
    /// Returns the plan, or all of its mistakes.
    fn of(workflows: Vec<(Arc<str>, Body)>, named: Vec<(String, Parts)>) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut steps = BTreeMap::new();
        for (name, parts) in named {
            problems.extend(bad_name("step", &name));
            if parts.retry.is_some() || parts.timeout.is_some() {
                problems.push(format!(
                    "the step {name:?} is called by definitions: write its Retry and TimeoutSeconds there"
                ));
            }
            if steps.insert(name.clone(), parts).is_some() {
                problems.push(format!("two steps are registered as {name:?}"));
            }
        }
        let mut names = BTreeSet::new();
        let mut definitions = Vec::new();
        for (name, body) in workflows {
            let found = body.problems(&name);
            let is_sound = found.is_empty();
            problems.extend(found);
            if !names.insert(name.clone()) {
                problems.push(format!("two workflows are called {name:?}"));
            } else if is_sound {
                definitions.push((name.clone(), body.definition(&name)));
            }
            let Body::List(listed) = body else { continue };
            for parts in listed.into_iter().filter(|_| is_sound) {
                let name = registered(&name, &parts);
                if steps.insert(name.clone(), parts).is_some() {
                    problems.push(format!("two steps are registered as {name:?}"));
                }
            }
        }
        let mut machines = Vec::new();
        for (name, definition) in definitions {
            match machine(&name, &definition, |step| steps.contains_key(step)) {
                Ok(machine) => machines.push((name, definition, machine)),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(Self { steps, machines }) } else { Err(problems) }
    }
}

/// Parses a definition, and checks that all of its steps are registered.
pub(crate) fn machine(
    name: &str,
    definition: &Arc<str>,
    is_step: impl Fn(&str) -> bool,
) -> Result<Machine, String> {
    if definition.len() > BYTES_MAX {
        return Err(format!("the definition of {name:?} is too large: the most is {BYTES_MAX} bytes"));
    }
    let source = Source::new(name, definition.clone());
    let reading = read(&source, &ReadOptions { machine_type: MachineType::Standard, strict: false });
    let Some(machine) = reading.machine else {
        let shown = |found: &Diagnostic| found.render(&source, false);
        let errors: String = reading.diagnostics.iter().filter(|found| found.is_error()).map(shown).collect();
        return Err(format!("the definition of {name:?} is wrong:\n{}", errors.trim_end()));
    };
    let missing = machine.states().find_map(|(_, state)| {
        let Kind::Task(task) = &state.kind else { return None };
        let Target::Step { name: step } = &task.resource.target else { return None };
        (!is_step(step)).then(|| {
            format!(
                "the state {:?} of {name:?} calls a step {step:?} that is not there: register it with `.step({step:?}, function)`",
                state.name
            )
        })
    });
    missing.map_or(Ok(machine), Err)
}

impl Known {
    /// Whether this is the definition that was deployed under its name.
    pub(crate) fn is(&self, definition: &str) -> bool {
        &*self.definition == definition
    }
}
