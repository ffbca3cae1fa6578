//! The way in: the verbs that a server, a command or a program calls. Each is answered after its commit.

use crate::message::{
    Ending, InputError, Message, Reply, Start, StartError, Started, Taken, Unavailable, View,
};
use crate::runtime::{Event, Shared};
use crate::watch::Reading;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{ExecutionId, Input};
use perdura_store::{
    CommitError, Failure, MachineId, MachineRecord, NewMachine, Reader, Retention, Store, Swept,
};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How many readers are kept open.
const READERS_MAX: usize = 8;

/// Cloning shares.
#[derive(Clone)]
pub struct Door {
    events: Sender<Event>,
    shared: Arc<Shared>,
    /// Starts may have to wait for room in memory; what ends an execution and makes room must not wait behind them.
    starts: Arc<Semaphore>,
    others: Arc<Semaphore>,
    readers: Arc<Mutex<Vec<Box<dyn Reader>>>>,
}

impl Door {
    /// One reader is there from the beginning, so that there is something to read with while nothing can be written.
    pub(crate) fn new(
        events: Sender<Event>,
        shared: Arc<Shared>,
        reader: Box<dyn Reader>,
        arrivals_max: usize,
    ) -> Self {
        let readers = Arc::new(Mutex::new(vec![reader]));
        let room = || Arc::new(Semaphore::new(arrivals_max));
        Self { events, shared, starts: room(), others: room(), readers }
    }

    /// Keeps a definition that was read already. It waits for the disk: not for an async thread.
    pub fn deploy(&self, new: &NewMachine, machine: Arc<Machine>) -> Result<MachineRecord, CommitError> {
        let record = self.with_store(|store| store.deploy(new))?;
        self.send(Message::Deployed { record: record.clone(), machine });
        Ok(record)
    }

    /// Starts an execution.
    pub async fn start(&self, start: Start) -> Result<Started, StartError> {
        let closing = || Err(StartError::Unavailable(Unavailable::Closing));
        let message = |reply| Message::Start { start: Box::new(start), reply, ending: None };
        self.ask(&self.starts, message).await.unwrap_or_else(closing)
    }

    /// Starts an execution and waits for its end.
    pub async fn run(&self, start: Start) -> Result<(Started, Result<Ending, InputError>), StartError> {
        let closing = || Err(StartError::Unavailable(Unavailable::Closing));
        let (sender, ended) = oneshot::channel();
        let wanted = Arc::new(());
        let ending = Some(Reply::while_wanted(&wanted, move |ending| drop(sender.send(ending))));
        let message = |reply| Message::Start { start: Box::new(start), reply, ending };
        let started = self.ask(&self.starts, message).await.unwrap_or_else(closing)?;
        let closed = Err(InputError::Unavailable(Unavailable::Closing));
        let ending = ended.await.unwrap_or(closed);
        drop(wanted);
        Ok((started, ending))
    }

    /// Gives an execution something: a stop, a redrive, a callback's answer, a resolution.
    pub async fn input(&self, execution: ExecutionId, input: Input) -> Result<Taken, InputError> {
        let closing = || Err(InputError::Unavailable(Unavailable::Closing));
        self.ask(&self.others, |reply| Message::Input { execution, input, reply })
            .await
            .unwrap_or_else(closing)
    }

    /// Waits for an execution's end.
    pub async fn ending(&self, execution: ExecutionId) -> Result<Ending, InputError> {
        let (sender, answer) = oneshot::channel();
        let wanted = Arc::new(());
        let reply = Reply::while_wanted(&wanted, move |ending| drop(sender.send(ending)));
        self.send(Message::Watch { execution, reply });
        let ending = answer.await.unwrap_or(Err(InputError::Unavailable(Unavailable::Closing)));
        drop(wanted);
        ending
    }

    /// An execution that is in memory, as it was last committed.
    pub async fn view(&self, execution: ExecutionId) -> Option<Box<View>> {
        self.ask(&self.others, |reply| Message::Show { execution, reply }).await.flatten()
    }

    /// The execution in memory that has this name.
    pub async fn named(&self, machine: MachineId, name: Arc<str>) -> Option<ExecutionId> {
        self.ask(&self.others, |reply| Message::Named { machine, name, reply }).await.flatten()
    }

    /// Reads from the store, beside everything else. It waits for the disk: not for an async thread.
    pub fn read<T>(&self, ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure>) -> Result<T, Failure> {
        let pooled = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut reader = match pooled {
            Some(reader) => reader,
            None => self.with_store(|store| store.reader().map_err(CommitError::Lost)).map_err(failure)?,
        };
        // One that failed is not used again.
        let answer = ask(&mut *reader)?;
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < READERS_MAX {
            readers.push(reader);
        }
        Ok(answer)
    }

    /// Takes a slice of what is too old. It waits for the disk.
    pub fn sweep(&self, retention: &Retention, most: u32, dry_run: bool) -> Result<Swept, CommitError> {
        self.with_store(|store| store.sweep(retention, most, dry_run))
    }

    /// What can be seen of the node.
    pub fn gauges(&self) -> Reading {
        self.shared.gauges.read()
    }

    /// Why nothing can be written at the moment; `None`: all is well.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn with_store<T>(
        &self,
        work: impl FnOnce(&mut dyn Store) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let mut guard = self.shared.store();
        match guard.as_deref_mut() {
            Some(store) => work(store),
            None => Err(CommitError::Lost(Failure {
                what: "the store".into(),
                why: self.trouble().map_or_else(|| "it is closed".into(), |why| why.to_string()),
                kind: perdura_store::FailureKind::Io,
            })),
        }
    }

    /// Sends a message that is answered, once there is room for it. `None`: nobody is there to answer.
    async fn ask<T: Send + 'static>(
        &self,
        room: &Arc<Semaphore>,
        message: impl FnOnce(Reply<T>) -> Message,
    ) -> Option<T> {
        let permit: OwnedSemaphorePermit = room.clone().acquire_owned().await.ok()?;
        let (sender, answer) = oneshot::channel();
        let reply = Reply::new(move |value| {
            drop(permit);
            drop(sender.send(value));
        });
        self.send(message(reply));
        answer.await.ok()
    }

    fn send(&self, message: Message) {
        // If nobody receives it, its reply is dropped, and whoever asked is told that the node is closing.
        let _ = self.events.send(Event::Message(message));
    }
}

fn failure(error: CommitError) -> Failure {
    match error {
        CommitError::Lost(failure) => failure,
        CommitError::Fenced { .. } | CommitError::Busy => {
            Failure { what: "the store".into(), why: error.to_string(), kind: perdura_store::FailureKind::Io }
        }
    }
}
