//! One execution: wait for its output, read it, change it.

use crate::errors::{AskError, RunError};
use crate::json;
use crate::look;
use crate::threads;
use crate::views::{Entry, History, Verdict};
use perdura_engine::asl::json::Payload;
use perdura_engine::{ExecutionId, Fault, Input, Resolution, Status};
use perdura_runtime::{Door, Ending, InputError};
use perdura_store::Reader;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

/// A started execution with an output of type `O`.
///
/// `.await` waits for its output. Dropping it changes nothing: the execution goes on.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # use perdura::{Perdura, Status, Workflow};
/// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
/// # let workflow = Workflow::new("double").step(double);
/// # let perdura = Perdura::in_memory().workflow(&workflow).await?;
/// let run = perdura.start(&workflow, "first", 4).await?;
/// assert_eq!(run.output().await?, 8);
/// assert_eq!(run.status().await?, Status::Succeeded);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "await it for its output, or drop it and let it go on"]
pub struct Run<O> {
    door: Door,
    id: ExecutionId,
    is_new: bool,
    /// The end that was requested with the start, until somebody awaits it.
    ending: Mutex<Option<Awaited>>,
    output: PhantomData<fn() -> O>,
}

/// A future of the end.
pub(crate) type Awaited = Pin<Box<dyn Future<Output = Result<Ending, InputError>> + Send>>;

impl<O> Run<O> {
    pub(crate) fn new(door: Door, id: ExecutionId, is_new: bool) -> Self {
        Self { door, id, is_new, ending: Mutex::default(), output: PhantomData }
    }

    /// The start requests the end at once, so that the end of an execution that ended meanwhile need not be read again.
    pub(crate) fn awaiting(self, ending: Awaited) -> Self {
        Self { ending: Mutex::new(Some(ending)), ..self }
    }

    /// The execution's id, which finds it again: [`Perdura::execution`](crate::Perdura::execution).
    ///
    /// ```
    /// # fn show<O>(run: &perdura::Run<O>) {
    /// println!("{}", run.id());
    /// # }
    /// ```
    pub fn id(&self) -> ExecutionId {
        self.id
    }

    /// Whether this start began the execution; otherwise it existed already.
    ///
    /// ```
    /// # fn show<O>(run: &perdura::Run<O>) {
    /// println!("{}", if run.is_new() { "started" } else { "is known already" });
    /// # }
    /// ```
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The execution's status.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Status, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let workflow = Workflow::new("double").step(double);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    /// # let run = perdura.start(&workflow, "first", 4).await.unwrap();
    /// # run.output().await.unwrap();
    /// assert_eq!(run.status().await, Ok(Status::Succeeded));
    /// # });
    /// ```
    pub async fn status(&self) -> Result<Status, AskError> {
        if let Some(view) = self.door.view(self.id).await {
            return match view.parked {
                Some(why) => Err(AskError::Broken(why.to_string())),
                None => Ok(view.execution.status()),
            };
        }
        let id = self.id;
        let row = self.read(move |reader| Ok(reader.row(id)?.ok_or(AskError::Unknown)?.0)).await?;
        Ok(row.status)
    }

    /// The events of the execution from this Turn on, in the form of Step Functions: 1 is the beginning, and
    /// [`History::next`] says where to continue.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let workflow = Workflow::new("double").step(double);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    /// # let run = perdura.start(&workflow, "first", 4).await.unwrap();
    /// # run.output().await.unwrap();
    /// let history = run.history(1).await.unwrap();
    /// assert_eq!(history.events[0]["type"], "ExecutionStarted");
    /// # });
    /// ```
    pub async fn history(&self, from: u64) -> Result<History, AskError> {
        let id = self.id;
        self.read(move |reader| look::history(reader, id, from)).await
    }

    /// The calls of the execution with their keys, in the order in which they were first made.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{LedgerStatus, Perdura, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let workflow = Workflow::new("double").step(double);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    /// # let run = perdura.start(&workflow, "first", 4).await.unwrap();
    /// # run.output().await.unwrap();
    /// let ledger = run.ledger().await.unwrap();
    /// assert_eq!((&*ledger[0].step, ledger[0].status), ("double#1", LedgerStatus::Completed));
    /// # });
    /// ```
    pub async fn ledger(&self) -> Result<Vec<Entry>, AskError> {
        let id = self.id;
        self.read(move |reader| look::ledger(reader, id)).await
    }

    /// Stops the execution. A step under way is dropped; its effect is not undone.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, RunError, Workflow};
    /// # async fn never(number: u32) -> Result<u32, std::io::Error> { std::future::pending().await }
    /// # let workflow = Workflow::new("never").step(never);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    /// # let run = perdura.start(&workflow, "first", 4).await.unwrap();
    /// run.stop("Withdrawn", "the client called").await.unwrap();
    /// assert!(matches!(run.await, Err(RunError::Stopped { .. })));
    /// # });
    /// ```
    pub async fn stop(&self, error: &str, cause: &str) -> Result<(), AskError> {
        self.give(Input::Stop { fault: Fault::new(error, cause) }).await
    }

    /// Continues a failed execution from the step that failed. A refused call gets a new key, a call in doubt keeps its
    /// key.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, StepError, Workflow};
    /// # use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
    /// # let is_up = Arc::new(AtomicBool::new(false));
    /// # let service = is_up.clone();
    /// # let call = move |number: u32| {
    /// #     let is_up = service.load(Ordering::SeqCst);
    /// #     async move { if is_up { Ok(number) } else { Err(StepError::refused("Down", "not now")) } }
    /// # };
    /// # let workflow = Workflow::new("call").named("Call", call);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    /// let run = perdura.start(&workflow, "first", 4).await.unwrap();
    /// assert!(run.output().await.is_err());
    /// is_up.store(true, Ordering::SeqCst);
    /// run.redrive().await.unwrap();
    /// assert_eq!(run.await.unwrap(), 4);
    /// # });
    /// ```
    pub async fn redrive(&self) -> Result<(), AskError> {
        self.give(Input::Redrive).await
    }

    /// Says how a held call went, by the readable key that [`ledger`](Self::ledger) and
    /// [`uncertain`](crate::Perdura::uncertain) show. The reason is recorded with it.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use perdura::{Context, Perdura, Step, StepError, Verdict, Workflow};
    ///
    /// async fn fax(_: Context, number: String) -> Result<u32, StepError> {
    ///     Err(StepError::uncertain("LineDropped", "after the last page"))
    /// }
    ///
    /// let workflow = Workflow::new("fax").step(Step::new(fax).hold());
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    /// # let run = perdura.start(&workflow, "first", "555".into()).await.unwrap();
    /// # let held = loop {
    /// #     let ledger = run.ledger().await.unwrap();
    /// #     let held = ledger.into_iter().find(|entry| entry.status == perdura::LedgerStatus::Uncertain);
    /// #     if let Some(held) = held { break held; }
    /// #     tokio::task::yield_now().await;
    /// # };
    /// // Somebody called the office: three pages have arrived.
    /// run.resolve(&held.key, Verdict::Completed(3.into()), "Ana asked them").await.unwrap();
    /// assert_eq!(run.await.unwrap(), 3);
    /// # });
    /// ```
    pub async fn resolve(&self, key: &str, verdict: Verdict, reason: &str) -> Result<(), AskError> {
        let resolution = match verdict {
            Verdict::Completed(output) => {
                let output = Payload::from_text(output.to_string())
                    .map_err(|error| AskError::Ignored(format!("the output nests too deep: {error}")))?;
                Resolution::Completed { output }
            }
            Verdict::Failed { error, cause } => Resolution::Failed { fault: Fault::new(error, cause) },
            Verdict::Again => Resolution::Again,
        };
        let (id, key) = (self.id, key.to_owned());
        let by = self.read(move |reader| look::caller(reader, id, &key)).await?;
        self.give(Input::Resolve { by, resolution, reason: reason.into() }).await
    }

    async fn give(&self, input: Input) -> Result<(), AskError> {
        let taken = self.door.input(self.id, input).await?;
        taken.ignored.map_or(Ok(()), |why| Err(AskError::Ignored(why.to_string())))
    }

    async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Reader) -> Result<T, AskError> + Send + 'static,
    ) -> Result<T, AskError> {
        let door = self.door.clone();
        threads::run(move || door.read(|reader| Ok(ask(reader)))).await?
    }
}

impl<O: DeserializeOwned> Run<O> {
    /// Waits for the end, and returns the output if the execution succeeded. Several callers may ask, any number of
    /// times.
    ///
    /// It waits as long as it takes: a held step waits for a person.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use perdura::{Perdura, Workflow};
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # let workflow = Workflow::new("double").step(double);
    /// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    /// let run = perdura.start(&workflow, "first", 4).await.unwrap();
    /// assert_eq!(run.output().await.unwrap(), run.output().await.unwrap());
    /// # });
    /// ```
    pub async fn output(&self) -> Result<O, RunError> {
        let asked = self.ending.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ending = match asked {
            Some(asked) => match asked.await {
                Ok(ending) if ending.status == Status::Succeeded => Ok(ending),
                // It may have been redriven since: ask for the current end.
                Ok(_) | Err(_) => self.door.ending(self.id).await,
            },
            None => self.door.ending(self.id).await,
        };
        output(ending.map_err(AskError::from)?)
    }
}

fn output<O: DeserializeOwned>(ending: Ending) -> Result<O, RunError> {
    let said = |text: Option<std::sync::Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    let Fault { error, cause } = ending.fault;
    match ending.status {
        Status::Succeeded => {
            let output = ending.output.unwrap_or_default();
            json::read(output.text()).map_err(|error| RunError::Output(error.to_string()))
        }
        Status::Failed => Err(RunError::Failed { error: said(error), cause: said(cause) }),
        Status::Aborted => Err(RunError::Stopped { error: said(error), cause: said(cause) }),
        Status::TimedOut => Err(RunError::TimedOut),
        Status::Created | Status::Running => unreachable!("only what has ended has an ending"),
    }
}

impl<O: DeserializeOwned + 'static> IntoFuture for Run<O> {
    type Output = Result<O, RunError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.output().await })
    }
}

impl<O> fmt::Debug for Run<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Run({})", self.id)
    }
}
