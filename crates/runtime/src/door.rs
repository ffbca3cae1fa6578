//! The way in: the verbs that a server, a command or a program calls. Each is answered after its commit.

mod activities;

use crate::audit::{self, Asking, Witnessed};
use crate::core::Event;
use crate::follow::Follower;
use crate::message::{
    ActivityTask, AdjustError, Ending, InputError, MapRunChange, Message, Reply, Slice, StartError, Started,
    Taken, TokenError, Unavailable, Underway, View, Young,
};
use crate::naming::Start;
use crate::pause::Pause;
use crate::runtime::Shared;
use crate::seldom::Seldom;
use crate::watch::Reading;
pub use activities::Activities;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{Answered, By, ExecutionId, Input, Outcome, TaskToken, Timestamp};
use perdura_store::audit::{DoorKind, Entry, Origin, Subject, Verb};
use perdura_store::record::TurnBody;
use perdura_store::{
    After, Catalog, CommitError, Erased, Failure, FailureKind, Filter, Listing, MachineChange, MachineId,
    MachineRecord, MapRunRow, NewMachine, Reader, Registered, Registry, Retention, Revised, Room, Summary,
    SweepPlace, Swept, complete_list, complete_name,
};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use uuid::Uuid;

/// How many readers are kept open.
const READERS_MAX: usize = 8;
/// How many workers wait at once; further ones wait for a place.
const POLLS_MAX: usize = 100_000;
/// How much of a history is read at once.
const PAGE_BYTES: usize = 1 << 20;

/// Cloning shares.
#[derive(Clone)]
pub struct Door {
    events: Sender<Event>,
    shared: Arc<Shared>,
    /// Starts may have to wait for room in memory; what ends an execution and makes room must not wait behind them.
    starts: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// Workers wait for long, and nobody waits for them.
    polls: Arc<Semaphore>,
    readers: Arc<Mutex<Vec<Box<dyn Reader>>>>,
    /// Who asks; `None`: nobody whom the audit tells of.
    by: Option<Arc<Origin>>,
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
        let polls = Arc::new(Semaphore::new(POLLS_MAX));
        Self { events, shared, starts: room(), others: room(), polls, readers, by: None }
    }

    /// The same door for one who asks: what is changed through it is on the audit.
    #[must_use]
    pub fn by(&self, origin: Arc<Origin>) -> Self {
        Self { by: Some(origin), ..self.clone() }
    }

    /// Who asks.
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.by.as_ref()
    }

    /// Puts an entry on the audit by itself. It is on disk when this returns.
    pub async fn witness(&self, entry: Entry) -> Result<(), Unavailable> {
        let entry = Box::new(entry);
        self.ask(&self.others, |reply| Message::Witness(Witnessed { entry, reply }))
            .await
            .unwrap_or(Err(Unavailable::Closing))
    }

    /// Stored data of this execution is about to be given to the caller. A read that cannot be put on the audit is refused,
    /// except on the control socket: its caller owns the file, and can read it without a server as well.
    pub async fn gives_out(&self, subject: Subject) -> Result<(), Unavailable> {
        static LINE: Seldom = Seldom::new();
        let Some(by) = self.by.as_ref().filter(|_| self.shared.audits_reads) else { return Ok(()) };
        let told = self.witness(Entry::done(by, Verb::Read, subject)).await;
        match told {
            Err(Unavailable::Store(why)) if by.door == DoorKind::Socket => {
                if let Some(left_out) = LINE.turn() {
                    tracing::warn!(%why, left_out, "a read on the control socket is not on the audit");
                }
                Ok(())
            }
            told => told,
        }
    }

    /// What came to no Turn is on the audit before whoever asked is told.
    async fn told(&self, entry: Option<Entry>) -> Result<(), Unavailable> {
        match entry {
            Some(entry) => self.witness(entry).await,
            None => Ok(()),
        }
    }

    async fn told_of_start(&self, told: Result<Started, StartError>) -> Result<Started, StartError> {
        let entry = self.by.as_ref().and_then(|by| audit::of_start(by, &told));
        self.told(entry).await.map_err(StartError::Unavailable)?;
        told
    }

    /// Keeps a definition that was read already. It waits for the disk: not for an async thread.
    pub fn deploy(&self, new: &NewMachine, machine: Arc<Machine>) -> Result<MachineRecord, CommitError> {
        let record = self.changing(|store| store.deploy(new, self.by.as_ref()))?;
        self.send(Message::Deployed { record: record.clone(), machine });
        Ok(record)
    }

    /// Changes a machine on what was seen of it; `machine` is the definition that comes with it, read. It waits for the
    /// disk: not for an async thread.
    pub fn revise(
        &self,
        change: &MachineChange<'_>,
        machine: Option<Arc<Machine>>,
    ) -> Result<Revised, CommitError> {
        let revised = self.changing(|store| store.revise(change, self.by.as_ref()))?;
        if let (Revised::Stands(head), Some(machine), Some(new)) = (&revised, machine, &change.revision) {
            self.send(Message::Deployed { record: new.record(head), machine });
        }
        Ok(revised)
    }

    /// Starts an execution.
    pub async fn start(&self, start: Start) -> Result<Started, StartError> {
        let closing = || Err(StartError::Unavailable(Unavailable::Closing));
        let message = |reply| Message::Start { start: Box::new(start), reply, ending: None };
        let told = self.ask(&self.starts, message).await.unwrap_or_else(closing);
        self.told_of_start(told).await
    }

    /// Starts an execution and waits for its end.
    pub async fn run(&self, start: Start) -> Result<(Started, Result<Ending, InputError>), StartError> {
        let (started, ending) = self.begin(start).await?;
        Ok((started, ending.await))
    }

    /// Starts an execution; its end can be waited for apart from that.
    pub async fn begin(
        &self,
        start: Start,
    ) -> Result<(Started, impl Future<Output = Result<Ending, InputError>> + Send + use<>), StartError> {
        let closing = || Err(StartError::Unavailable(Unavailable::Closing));
        let (sender, ended) = oneshot::channel();
        let wanted = Arc::new(());
        let ending = Some(Reply::while_wanted(&wanted, move |ending| drop(sender.send(ending))));
        let message = |reply| Message::Start { start: Box::new(start), reply, ending };
        let told = self.ask(&self.starts, message).await.unwrap_or_else(closing);
        let started = self.told_of_start(told).await?;
        let ending = async move {
            let closed = Err(InputError::Unavailable(Unavailable::Closing));
            let ending = ended.await.unwrap_or(closed);
            drop(wanted);
            ending
        };
        Ok((started, ending))
    }

    /// Gives an execution something: a stop, a redrive, a callback's answer, a resolution.
    pub async fn input(&self, execution: ExecutionId, input: Input) -> Result<Taken, InputError> {
        let closing = || Err(InputError::Unavailable(Unavailable::Closing));
        let asking = Asking::of(&input, self.by.as_ref());
        let message = |reply| Message::Input { execution, input, reply };
        let told = self.ask(&self.others, message).await.unwrap_or_else(closing);
        self.told(audit::of_input(asking, execution, &told)).await.map_err(InputError::Unavailable)?;
        told
    }

    /// Waits for a task of an activity, for as long as it is polled.
    pub async fn poll(
        &self,
        activity: Arc<str>,
        worker: Option<Arc<str>>,
    ) -> Result<ActivityTask, Unavailable> {
        let _room = self.polls.acquire().await.map_err(|_| Unavailable::Closing)?;
        let (sender, task) = oneshot::channel();
        let wanted = Arc::new(());
        let reply = Reply::while_wanted(&wanted, move |task| drop(sender.send(task)));
        self.send(Message::Poll { activity, worker, reply });
        let task = task.await.unwrap_or(Err(Unavailable::Closing));
        drop(wanted);
        task
    }

    /// Takes the answer of whoever holds a token. The same answer again is a success.
    pub async fn answer(&self, token: TaskToken, outcome: Outcome) -> Result<(), TokenError> {
        let input = Input::TaskOutcome { by: By::Token(token), outcome: outcome.clone() };
        match self.input(token.execution, input).await {
            Ok(Taken { late: None, ignored: None, .. }) => Ok(()),
            Ok(_) => match self.answered(token).await? {
                Answered::Never => Err(TokenError::Unknown),
                known if known.is(&outcome) => Ok(()),
                Answered::Open | Answered::Succeeded(_) | Answered::Failed { .. } => {
                    Err(TokenError::TimedOut)
                }
            },
            Err(InputError::Unknown) => Err(TokenError::Unknown),
            Err(error) => Err(TokenError::NotTaken(error)),
        }
    }

    /// Takes a sign of life of whoever holds a token.
    pub async fn heartbeat(&self, token: TaskToken) -> Result<(), TokenError> {
        match self.input(token.execution, Input::Heartbeat { by: By::Token(token) }).await {
            Ok(Taken { ignored: None, .. }) => Ok(()),
            Ok(_) => match self.answered(token).await? {
                Answered::Never => Err(TokenError::Unknown),
                Answered::Open | Answered::Succeeded(_) | Answered::Failed { .. } => {
                    Err(TokenError::TimedOut)
                }
            },
            Err(InputError::Unknown) => Err(TokenError::Unknown),
            Err(error) => Err(TokenError::NotTaken(error)),
        }
    }

    /// What the record says of the task with this token.
    async fn answered(&self, token: TaskToken) -> Result<Answered, TokenError> {
        let door = self.clone();
        let found = tokio::task::spawn_blocking(move || {
            door.read(|reader| {
                let mut known = Answered::Never;
                let mut next = 1;
                loop {
                    let page = reader.turns(token.execution, next, PAGE_BYTES)?;
                    let Some(last) = page.last() else { return Ok(known) };
                    next = last.number + 1;
                    for turn in page {
                        let body = TurnBody::read(&turn.body).map_err(|damage| Failure {
                            what: format!("reading Turn {} of {}", turn.number, token.execution),
                            why: damage.to_string(),
                            kind: FailureKind::Corrupt,
                        })?;
                        known = known.and_then(&token, &body.turn);
                    }
                }
            })
        });
        let unread =
            |why: String| TokenError::NotTaken(InputError::Unavailable(Unavailable::Store(why.into())));
        match found.await {
            Ok(found) => found.map_err(|failure| unread(failure.to_string())),
            Err(panic) => Err(unread(panic.to_string())),
        }
    }

    /// Alone with the activities: until this is dropped nobody else makes, changes or deletes one.
    pub fn activities(&self) -> Activities<'_> {
        let count = self.shared.activities.lock().unwrap_or_else(PoisonError::into_inner);
        Activities { door: self, count }
    }

    /// Alone with making machines: until this is dropped nobody else makes one, so that two do not both take the last
    /// place.
    pub fn making(&self) -> MutexGuard<'_, ()> {
        self.shared.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps something by name. It waits for the disk: not for an async thread.
    pub fn register(&self, entry: &Registered) -> Result<(), CommitError> {
        self.with_store(|store| store.register(entry, self.by.as_ref()))
    }

    /// Forgets it; `false`: there was nothing of that name. It waits for the disk.
    pub fn unregister(&self, kind: Registry, name: &str) -> Result<bool, CommitError> {
        self.with_store(|store| store.unregister(kind, name, self.by.as_ref()))
    }

    /// Pauses a machine, or all of them. Nothing of it moves further than it may once this returns. It waits for the
    /// disk: not for an async thread.
    pub fn pause(&self, entry: &Registered) -> Result<(), CommitError> {
        let _alone = self.shared.pacing.lock().unwrap_or_else(PoisonError::into_inner);
        self.register(entry)?;
        let pause = Pause::read(entry).unwrap_or(Pause { machine: None, now: true });
        self.pace(pause.machine, Some(pause));
        Ok(())
    }

    /// Lets it go on; `false`: it was not paused. It waits for the disk: not for an async thread.
    pub fn resume(&self, name: &str) -> Result<bool, CommitError> {
        let _alone = self.shared.pacing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = self.read(|reader| reader.registered_one(Registry::Pause, name))? else {
            return Ok(false);
        };
        self.unregister(Registry::Pause, name)?;
        // What cannot be read held all machines.
        self.pace(Pause::read(&entry).map_or(None, |pause| pause.machine), None);
        Ok(true)
    }

    /// Tells the node, and waits until it knows. One that is gone reads it when it is there again.
    fn pace(&self, machine: Option<MachineId>, pause: Option<Pause>) {
        let (sender, told) = std::sync::mpsc::channel();
        let reply = Reply::new(move |()| sender.send(()).unwrap_or_default());
        self.send(Message::Pace { machine, pause, reply });
        told.recv().unwrap_or_default();
    }

    /// What is under way, with so many calls shown; `None`: nobody is there to ask.
    pub async fn underway(&self, most: usize) -> Option<Underway> {
        self.ask(&self.others, |reply| Message::Underway { most, reply }).await
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

    /// Follows an execution. Whoever reads it after this misses no Turn.
    pub fn follow(&self, execution: ExecutionId) -> Follower {
        Follower::new(self.shared.followed.clone(), Some(execution))
    }

    /// Follows all executions.
    pub fn follow_all(&self) -> Follower {
        Follower::new(self.shared.followed.clone(), None)
    }

    /// An execution that is in memory, as it was last committed.
    pub async fn view(&self, execution: ExecutionId) -> Option<Box<View>> {
        self.ask(&self.others, |reply| Message::Show { execution, reply }).await.flatten()
    }

    /// The execution that has this name. One that has only begun is in memory, and one that is no longer there has a row;
    /// where nobody is there to ask, the journal has those that have none.
    pub async fn named(&self, machine: MachineId, name: Arc<str>) -> Result<Option<ExecutionId>, Failure> {
        let asked = name.clone();
        let here = self.ask(&self.others, |reply| Message::Named { machine, name: asked, reply }).await;
        match here {
            Some(Some(id)) => Ok(Some(id)),
            Some(None) => self.reading(move |reader| reader.named(machine, &name)).await,
            None => self.reading(move |reader| complete_name(reader, machine, &name)).await,
        }
    }

    /// How often a machine was changed through this door, or may have been: what was read of machines is out of date
    /// when this is no longer the same.
    pub fn machine_changes(&self) -> u64 {
        self.shared.machine_changes.load(Ordering::Acquire)
    }

    /// The executions of a list that no row shows yet, as they stand, the first of them, so that one that was just started
    /// is seen at once.
    pub async fn young(&self, filter: &Filter, after: After, most: u32) -> Result<Vec<Summary>, Failure> {
        let asked = filter.clone();
        let message = |reply| Message::Young { filter: asked, after, most: most as usize, reply };
        let Young { mut seen, busy } = self.ask(&self.others, message).await.ok_or_else(|| self.gone())?;
        for execution in busy {
            let view = self.view(execution).await;
            seen.extend(view.and_then(|view| view.young));
        }
        Ok(filter.complete(Listing::default(), seen, after, most).rows)
    }

    /// A page of executions, with those that no row shows yet.
    pub async fn list(&self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure> {
        let asked = filter.clone();
        // Where nobody is there to ask, the journal has them.
        let Ok(young) = self.young(filter, after, most).await else {
            return self.reading(move |reader| complete_list(reader, &asked, after, most)).await;
        };
        let rows = self.reading(move |reader| reader.list(&asked, after, most)).await?;
        Ok(filter.complete(rows, young, after, most))
    }

    /// How many executions run that no row shows yet, children of Map Runs included.
    pub async fn unlisted(&self) -> Result<u64, Failure> {
        match self.ask(&self.others, |reply| Message::Unlisted { reply }).await {
            Some(unlisted) => Ok(unlisted),
            None => self.reading(|reader| Ok(reader.unlisted()?.len() as u64)).await,
        }
    }

    /// The Map Runs of an execution, in the order of their start.
    pub async fn map_runs(&self, execution: ExecutionId) -> Result<Vec<MapRunRow>, Failure> {
        let here = self.ask(&self.others, |reply| Message::MapRuns { execution, reply }).await;
        let mut runs = self.reading(move |reader| reader.map_runs(execution)).await?;
        let here = here.unwrap_or_default();
        runs.retain(|run| here.iter().all(|here| here.id != run.id));
        runs.extend(here);
        runs.sort_by_key(|run| (run.started_at, run.id));
        Ok(runs)
    }

    /// Reads on a thread that may wait.
    async fn reading<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let door = self.clone();
        let read = tokio::task::spawn_blocking(move || door.read(ask)).await;
        read.unwrap_or_else(|panic| {
            Err(Failure { what: "reading".into(), why: panic.to_string(), kind: FailureKind::Io })
        })
    }

    /// A Map Run as it stands now, or as it ended.
    pub async fn map_run(&self, run: Uuid) -> Result<Option<MapRunRow>, Failure> {
        if let Some(row) = self.ask(&self.others, |reply| Message::MapRun { run, reply }).await.flatten() {
            return Ok(Some(*row));
        }
        self.reading(move |reader| reader.map_run(run)).await
    }

    /// Changes the bounds of a Map Run that is under way. It counts at once, and also after a restart.
    pub async fn adjust_map_run(&self, run: Uuid, change: MapRunChange) -> Result<(), AdjustError> {
        let unknown = || Unavailable::Store("nobody can say whether it was written: ask again".into());
        let told = self.ask(&self.others, |reply| Message::Adjust { run, change, reply }).await;
        let told = told.unwrap_or_else(|| Err(AdjustError::Unavailable(unknown())));
        let entry = self.by.as_ref().and_then(|by| audit::of_adjusting(by, run, &told));
        self.told(entry).await.map_err(AdjustError::Unavailable)?;
        told
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

    /// A person gives an execution up that was set aside; `false`: it was not, and stays.
    pub async fn give_up(&self, execution: ExecutionId) -> Result<bool, InputError> {
        let closing = || Err(InputError::Unavailable(Unavailable::Closing));
        self.ask(&self.others, |reply| Message::GiveUp { execution, reply }).await.unwrap_or_else(closing)
    }

    /// Erases the data of executions, each with the end that was seen of it: all of them, or none where one has moved since.
    pub async fn erase(&self, ended: Vec<(ExecutionId, Timestamp)>) -> Result<Erased, InputError> {
        let closing = || Err(InputError::Unavailable(Unavailable::Closing));
        self.ask(&self.others, |reply| Message::Erase { ended, reply }).await.unwrap_or_else(closing)
    }

    /// Writes the data anew where it has so many bytes at most: nothing is left in the unused parts of pages then. `false`: it
    /// has more. It waits for the disk, and commits wait for it.
    pub fn rewrite_small(&self, bytes_max: u64) -> Result<bool, CommitError> {
        self.with_store(|store| store.rewrite_small(bytes_max))
    }

    /// Takes what was deleted or erased out of every file; `false`: a reader still looks at it. It waits for the disk.
    pub fn scrub(&self) -> Result<bool, CommitError> {
        self.with_store(|store| store.scrub())
    }

    /// Takes a slice of what is too old, from this place on, which moves on with it. What is old is looked for beside the
    /// commits, and goes between two of them. Nothing goes before everybody who waits was asked for whom: a child that
    /// ended long ago may not have been heard of by its parent.
    pub async fn sweep(
        &self,
        retention: &Retention,
        place: &mut Option<SweepPlace>,
        most: u32,
    ) -> Result<Swept, Failure> {
        if self.shared.gauges.is_resuming() {
            return Ok(Swept::default());
        }
        let (retention, after) = (*retention, *place);
        let found = self.reading(move |reader| reader.sweepable(&retention, after, most)).await?;
        let failed = |why: String| Failure { what: "sweeping".into(), why, kind: FailureKind::Io };
        let Retention { ledger_before, .. } = retention;
        let slice = Slice { going: found.going, ledger_before, ledger_most: most };
        let swept = self.ask(&self.others, |reply| Message::Sweep { slice, reply }).await;
        let swept = swept.unwrap_or(Err(Unavailable::Closing)).map_err(|why| failed(why.to_string()))?;
        *place = found.next;
        Ok(Swept { more: swept.more || found.next.is_some(), ..swept })
    }

    /// Takes away the oldest rows of the audit, at most so many, that have nothing as new as this. It waits for the disk.
    pub fn cut_audit(&self, before: Timestamp, most: u32, by: &Arc<Origin>) -> Result<u64, CommitError> {
        self.with_store(|store| store.cut_audit(before, most, by))
    }

    /// Gives a slice of free room back to the disk. It waits for the disk.
    pub fn give_back(&self, pages: u32, reserves: bool) -> Result<Room, CommitError> {
        self.with_store(|store| store.give_back(pages, reserves))
    }

    /// What can be seen of the node.
    pub fn gauges(&self) -> Reading {
        self.shared.gauges.read()
    }

    /// For how long work has waited without the node looking at it: a Turn or a commit takes that long. Zero: it moves,
    /// or has nothing to do. It never waits.
    pub fn stalled_for(&self) -> Duration {
        self.shared.pulse.stalled_for()
    }

    /// Why nothing can be written at the moment; `None`: all is well.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes a machine. It counts as changed also where nobody knows whether it was.
    fn changing<T>(
        &self,
        work: impl FnOnce(&mut dyn Catalog) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let changed = self.with_store(work);
        self.shared.machine_changes.fetch_add(1, Ordering::AcqRel);
        changed
    }

    fn with_store<T>(
        &self,
        work: impl FnOnce(&mut dyn Catalog) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let mut guard = self.shared.store();
        match guard.as_deref_mut() {
            Some(store) => work(store),
            None => Err(CommitError::Lost(self.gone())),
        }
    }

    /// Why nobody is there to answer.
    fn gone(&self) -> Failure {
        Failure {
            what: "the store".into(),
            why: self.trouble().map_or_else(|| "it is closed".into(), |why| why.to_string()),
            kind: FailureKind::Io,
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
        let tell = move |value| {
            drop(permit);
            drop(sender.send(value));
        };
        let reply = Reply::new(tell).by(self.by.clone());
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
            Failure { what: "the store".into(), why: error.to_string(), kind: FailureKind::Io }
        }
    }
}
