//! One execution: wait for its output, look at it, steer it.

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

/// An execution that was started, whose output is an `O`.
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
    /// Its end, as it was asked for with the start, until somebody waits for it.
    ending: Mutex<Option<Awaited>>,
    output: PhantomData<fn() -> O>,
}

/// An end that is waited for.
pub(crate) type Awaited = Pin<Box<dyn Future<Output = Result<Ending, InputError>> + Send>>;

impl<O> Run<O> {
    pub(crate) fn new(door: Door, id: ExecutionId, is_new: bool) -> Self {
        Self { door, id, is_new, ending: Mutex::default(), output: PhantomData }
    }

    /// Whoever starts it asks for its end at once: an execution that has ended meanwhile need not be read again.
    pub(crate) fn awaiting(self, ending: Awaited) -> Self {
        Self { ending: Mutex::new(Some(ending)), ..self }
    }

    /// Its id, which finds it again: [`Perdura::execution`](crate::Perdura::execution).
    ///
    /// ```
    /// # fn show<O>(run: &perdura::Run<O>) {
    /// println!("{}", run.id());
    /// # }
    /// ```
    pub fn id(&self) -> ExecutionId {
        self.id
    }

    /// Whether this start began it; otherwise it was there already.
    ///
    /// ```
    /// # fn show<O>(run: &perdura::Run<O>) {
    /// println!("{}", if run.is_new() { "started" } else { "is known already" });
    /// # }
    /// ```
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether it runs, and how it ended.
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

    /// What happened in it, from this Turn on, as Step Functions would tell it: 1 is the beginning, and
    /// [`History::next`] says where to go on.
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

    /// What it did under which key, in the order in which the calls were first made.
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

    /// Ends it. A step under way is dropped; what it has done is done.
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

    /// Goes on with one that failed, from the step that failed. A call that was refused gets a new key, one that is in
    /// doubt keeps it.
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

    /// Says how a call went that is held, by the key for people that [`ledger`](Self::ledger) and
    /// [`uncertain`](crate::Perdura::uncertain) show. The reason is kept with it.
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
    /// Waits for its end; its output, if it ended well. It may be asked again, and by several.
    ///
    /// It waits as long as it takes: a step that is held waits for a person.
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
                // It may have been redriven since: what holds now is asked for again.
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
