//! The handle: start, find, list, close.

use crate::errors::{AskError, SetupError, StartError};
use crate::look;
use crate::open::{Opening, Storage, machine};
use crate::run::Run;
use crate::threads;
use crate::views::{Entry, Listed, Query};
use crate::workflow::{Body, Workflow, bad_name};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::{Arns, ExecutionId, LedgerStatus, Limits, Timestamp};
use perdura_runtime::{Door, RealClock, Runtime, Start, StartError as Refused, Via};
use perdura_store::{CommitError, Filter, LedgerFilter, MachineId, NewMachine, Retention, RevisionId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The longest list.
const ROWS_MAX: u32 = 1_000;
/// How many executions one sweep deletes at once.
const SLICE: u32 = 64;

/// An engine that runs in this program, with its data.
///
/// Clones are handles on the same engine. When the last is dropped it is closed, without waiting for steps;
/// [`close`](Perdura::close) is better. Either way nothing is lost: executions under way continue when the folder is
/// opened again.
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
/// let run = perdura.start(&workflow, "twenty-one", 21).await?;
/// assert_eq!(run.await?, 42);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Perdura {
    inner: Arc<Inner>,
}

struct Inner {
    door: Door,
    taken_up: usize,
    /// `None` once it is closed.
    runtime: Mutex<Option<Runtime>>,
    known: Mutex<BTreeMap<Arc<str>, Known>>,
    steps: BTreeSet<Arc<str>>,
    closed: watch::Sender<bool>,
}

/// A deployed workflow.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) definition: Arc<str>,
    machine: MachineId,
    revision: RevisionId,
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(lock(&self.runtime).take());
        self.closed.send_replace(true);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn payload(value: &impl Serialize, bytes_max: usize) -> Result<Payload, String> {
    let text = serde_json::to_string(value).map_err(|error| error.to_string())?;
    if text.len() > bytes_max {
        return Err(format!("it has {} bytes, and the most is {bytes_max}", text.len()));
    }
    Payload::from_text(text).map_err(|error| error.to_string())
}

/// Stores a definition. It waits for the disk.
pub(crate) fn deploy(
    door: &Door,
    name: Arc<str>,
    definition: Arc<str>,
    machine: Machine,
) -> Result<Known, CommitError> {
    let at = RealClock::default().moment().now;
    let new = NewMachine {
        name,
        kind: MachineType::Standard,
        definition: definition.clone(),
        role_arn: None,
        settings: None,
        at,
    };
    let record = door.deploy(&new, Arc::new(machine))?;
    Ok(Known { definition, machine: record.machine, revision: record.revision })
}

impl Perdura {
    /// Opens the data in this folder, and creates the folder if it does not exist. One process at a time can have it
    /// open.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let folder = std::env::temp_dir().join(format!("perdura-doc-{}", std::process::id()));
    /// let workflow = Workflow::new("double").step(double);
    /// let perdura = Perdura::open(&folder).workflow(&workflow).await?;
    /// assert_eq!(perdura.start(&workflow, "first", 1).await?.await?, 2);
    /// perdura.close(std::time::Duration::ZERO).await;
    ///
    /// // What has ended is there in the next process too, and is not done again.
    /// let perdura = Perdura::open(&folder).workflow(&workflow).await?;
    /// assert_eq!(perdura.start(&workflow, "first", 1).await?.await?, 2);
    /// # drop(perdura);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn open(folder: impl AsRef<Path>) -> Opening {
        Opening::at(Storage::Folder(folder.as_ref().to_owned()))
    }

    /// The same engine with its data in memory, for tests of workflows. It keeps nothing.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::Perdura;
    /// let perdura = Perdura::in_memory().await.unwrap();
    /// assert_eq!(perdura.taken_up(), 0);
    /// # });
    /// ```
    pub fn in_memory() -> Opening {
        Opening::at(Storage::Memory)
    }

    pub(crate) fn new(
        runtime: Runtime,
        known: BTreeMap<Arc<str>, Known>,
        steps: BTreeSet<Arc<str>>,
        closed: watch::Sender<bool>,
    ) -> Self {
        let inner = Inner {
            door: runtime.door().clone(),
            taken_up: runtime.taken_up(),
            runtime: Mutex::new(Some(runtime)),
            known: Mutex::new(known),
            steps,
            closed,
        };
        Self { inner: Arc::new(inner) }
    }

    /// How many executions were under way when the data was opened, and continue.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let perdura = perdura::Perdura::in_memory().await.unwrap();
    /// println!("{} executions go on", perdura.taken_up());
    /// # });
    /// ```
    pub fn taken_up(&self) -> usize {
        self.inner.taken_up
    }

    /// Why nothing can be written at the moment, a full disk for instance; `None`: all is well. The engine retries by
    /// itself.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let perdura = perdura::Perdura::in_memory().await.unwrap();
    /// assert_eq!(perdura.trouble(), None);
    /// # });
    /// ```
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.inner.door.trouble()
    }

    /// Deploys a workflow after opening. Its steps must have been registered at opening.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Workflow};
    /// let perdura = Perdura::in_memory().await?;
    /// let waiting = Workflow::<u32, u32>::from_definition(
    ///     "waiting",
    ///     r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 0, "End": true}}}"#,
    /// );
    /// perdura.deploy(&waiting).await?;
    /// assert_eq!(perdura.start(&waiting, "first", 7).await?.await?, 7);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn deploy<I, O>(&self, workflow: &Workflow<I, O>) -> Result<(), SetupError> {
        let Workflow { name, body, .. } = workflow;
        let problems = body.problems(name);
        if !problems.is_empty() {
            return Err(SetupError::Program(problems.join("\n")));
        }
        let definition = body.definition(name);
        let machine = machine(name, &definition, |step| self.inner.steps.contains(step))
            .map_err(SetupError::Program)?;
        let (door, name) = (self.inner.door.clone(), name.clone());
        let deployed = {
            let name = name.clone();
            threads::run(move || deploy(&door, name, definition, machine)).await?
        };
        lock(&self.inner.known).insert(name, deployed);
        Ok(())
    }

    /// Starts an execution under a name. When it returns, the start is on disk.
    ///
    /// The name makes it safe to start twice: with the same input it is the same execution, even if that ended long
    /// ago; with another input the start is refused. So name an execution after its subject, such as the number of the
    /// claim, and start it again whenever in doubt.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let workflow = Workflow::new("double").step(double);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await?;
    /// let first = perdura.start(&workflow, "claim-17", 1).await?;
    /// let again = perdura.start(&workflow, "claim-17", 1).await?;
    /// assert_eq!(first.id(), again.id());
    /// assert!(first.is_new() && !again.is_new());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn start<I: Serialize, O>(
        &self,
        workflow: &Workflow<I, O>,
        name: &str,
        input: I,
    ) -> Result<Run<O>, StartError> {
        if let Some(why) = bad_name("execution", name) {
            return Err(StartError::Name(why));
        }
        let limits = Limits::GENEROUS;
        let input = payload(&input, limits.payload_bytes_max).map_err(StartError::Input)?;
        let start = Start {
            revision: self.known(workflow)?.revision,
            name: Some(name.into()),
            input: input.clone(),
            limits,
            shares_name: false,
            arns: Arns::default(),
            via: Via::default(),
        };
        let door = &self.inner.door;
        match door.begin(start).await {
            Ok((started, ending)) => {
                let run = Run::new(door.clone(), started.execution, started.fresh);
                Ok(run.awaiting(Box::pin(ending)))
            }
            Err(Refused::Exists(execution)) => self.same(execution, input).await,
            Err(Refused::NoMachine) => Err(StartError::NotDeployed(format!(
                "the definition of {:?} cannot be read any more",
                workflow.name
            ))),
            Err(error @ (Refused::Unavailable(_) | Refused::TooMany(_) | Refused::Paused)) => {
                Err(StartError::Unavailable(error.to_string()))
            }
        }
    }

    /// The name is taken: by the same start, if that execution had the same input.
    async fn same<O>(&self, execution: ExecutionId, input: Payload) -> Result<Run<O>, StartError> {
        let door = self.inner.door.clone();
        let identity = threads::run(move || door.read(|reader| Ok(look::identity(reader, execution)))).await;
        let identity = identity.map_err(AskError::from).and_then(|identity| identity);
        match identity {
            Ok(identity) if identity.input == input => {
                Ok(Run::new(self.inner.door.clone(), execution, false))
            }
            Ok(_) => Err(StartError::Taken { execution }),
            Err(error) => Err(StartError::Unavailable(error.to_string())),
        }
    }

    fn known<I, O>(&self, workflow: &Workflow<I, O>) -> Result<Known, StartError> {
        let name = &workflow.name;
        let Some(known) = lock(&self.inner.known).get(name).cloned() else {
            return Err(StartError::NotDeployed(format!(
                "the workflow {name:?} is not deployed: give it to `Perdura::open(…).workflow(…)`"
            )));
        };
        if matches!(workflow.body, Body::Mixed) || !known.is(&workflow.definition()) {
            return Err(StartError::NotDeployed(format!(
                "the workflow {name:?} that is deployed has other steps than this one"
            )));
        }
        Ok(known)
    }

    /// The execution with this name, if there is one.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let workflow = Workflow::new("double").step(double);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await?;
    /// assert!(perdura.find(&workflow, "claim-17").await?.is_none());
    /// perdura.start(&workflow, "claim-17", 4).await?;
    /// let run = perdura.find(&workflow, "claim-17").await?.expect("it was started");
    /// assert_eq!(run.await?, 8);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn find<I, O>(
        &self,
        workflow: &Workflow<I, O>,
        name: &str,
    ) -> Result<Option<Run<O>>, AskError> {
        let Some(machine) = lock(&self.inner.known).get(&workflow.name).map(|known| known.machine) else {
            return Ok(None);
        };
        let door = &self.inner.door;
        let found = door.named(machine, name.into()).await?;
        Ok(found.map(|id| Run::new(door.clone(), id, false)))
    }

    /// The execution with this id, from a list or a log.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let workflow = Workflow::new("double").step(double);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await?;
    /// # let id = perdura.start(&workflow, "claim-17", 4).await?.id();
    /// assert_eq!(perdura.execution(id).await?, serde_json::json!(8));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn execution(&self, id: ExecutionId) -> Run<serde_json::Value> {
        Run::new(self.inner.door.clone(), id, false)
    }

    /// Executions, the newest first.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Query, Status, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let workflow = Workflow::new("double").step(double);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await?;
    /// perdura.start(&workflow, "claim-17", 4).await?.await?;
    /// let done = perdura.list(Query { status: Some(Status::Succeeded), ..Query::default() }).await?;
    /// assert_eq!((&*done[0].workflow, &*done[0].name), ("double", "claim-17"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn list(&self, query: Query) -> Result<Vec<Listed>, AskError> {
        let mut filter = Filter { status: query.status, ..Filter::default() };
        if let Some(wanted) = query.workflow.clone() {
            let door = self.inner.door.clone();
            match threads::run(move || door.read(|reader| reader.head(&wanted))).await? {
                Some(head) => filter.machine = Some(head.machine),
                None => return Ok(Vec::new()),
            }
        }
        let after = query.after.as_ref().map(|last| (last.started_at, last.execution));
        let rows = self.inner.door.list(&filter, after, query.most.clamp(1, ROWS_MAX)).await?.rows;
        let door = self.inner.door.clone();
        let listed = threads::run(move || {
            door.read(|reader| {
                let mut names: BTreeMap<MachineId, Arc<str>> = BTreeMap::new();
                for row in &rows {
                    if !names.contains_key(&row.machine) {
                        names.extend(reader.machine_name(row.machine)?.map(|name| (row.machine, name)));
                    }
                }
                Ok(rows.into_iter().map(|row| Listed::of(row, &names)).collect())
            })
        });
        Ok(listed.await?)
    }

    /// Calls with an unknown outcome, the oldest first: held calls, and calls that were given up in doubt; at most
    /// 1,000. [`Run::resolve`] ends a hold.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let perdura = perdura::Perdura::in_memory().await.unwrap();
    /// for entry in perdura.uncertain().await.unwrap() {
    ///     println!("{} of {} is in doubt", entry.step, entry.execution);
    /// }
    /// # });
    /// ```
    pub async fn uncertain(&self) -> Result<Vec<Entry>, AskError> {
        let door = self.inner.door.clone();
        let filter = LedgerFilter { status: Some(LedgerStatus::Uncertain), ..LedgerFilter::default() };
        let rows = threads::run(move || door.read(|reader| reader.ledger(&filter, ROWS_MAX))).await?;
        Ok(rows.into_iter().map(Entry::from).collect())
    }

    /// Deletes executions that ended longer ago than this, with histories and names; returns how many. Nothing is
    /// deleted automatically, and the very last execution stays until something is written after it.
    ///
    /// A deleted name starts a new execution with new keys. So keep ended executions for as long as the same start may
    /// come again.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let perdura = perdura::Perdura::in_memory().await.unwrap();
    /// let gone = perdura.clean_up(std::time::Duration::from_secs(90 * 24 * 60 * 60)).await.unwrap();
    /// # assert_eq!(gone, 0);
    /// # });
    /// ```
    pub async fn clean_up(&self, ended_for: Duration) -> Result<u64, AskError> {
        let ms = i64::try_from(ended_for.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp(RealClock::default().moment().now.0.saturating_sub(ms));
        let retention = Retention { ended_before: before, ledger_before: before, bytes_max: None };
        let (mut gone, mut place) = (0, None);
        loop {
            let swept = self.inner.door.sweep(&retention, &mut place, SLICE).await?;
            gone += swept.executions;
            if !swept.more {
                return Ok(gone);
            }
        }
    }

    /// Accepts nothing new, begins no step, waits this long for steps under way, records their results, and ends. Steps
    /// that take longer are dropped, and called again under the same key when the data is opened next.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let perdura = perdura::Perdura::in_memory().await.unwrap();
    /// perdura.close(std::time::Duration::from_secs(10)).await;
    /// # });
    /// ```
    pub async fn close(self, grace: Duration) {
        let runtime = lock(&self.inner.runtime).take();
        if let Some(runtime) = runtime {
            threads::run(move || runtime.close(grace)).await;
        }
        self.inner.closed.send_replace(true);
    }
}

impl fmt::Debug for Perdura {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Perdura").field("steps", &self.inner.steps).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_input_that_cannot_be_taken_is_told_why() {
        assert_eq!(payload(&"four", 6).map(|payload| payload.text().to_string()), Ok("\"four\"".into()));
        assert_eq!(payload(&"five5", 6), Err("it has 7 bytes, and the most is 6".into()));
        let no_json = BTreeMap::from([((1, 2), 3)]);
        assert!(payload(&no_json, 100).unwrap_err().contains("key must be a string"));
    }
}
