//! What Map Runs bring from the store and from the world, beside the node's thread.
//!
//! A run has no log of its own. Which children it has, how they stand and what they gave is read from their rows: when
//! a run is taken up, and when all of them have ended. Both may be a million rows, so nobody waits for them on the
//! thread that decides.
//!
//! What is read in one go is a question to the [`Librarian`](crate::Librarian), which answers one after the other. A fetch takes
//! as long as a million rows, a file or a service outside takes, and is told in parts; it belongs to one run, which may be gone
//! when it is told.

use crate::items::{ChildResult, Fed, Feed, WriteOrder};
use crate::message::{Message, Reply};
use perdura_engine::asl::error::DATA_LIMIT_EXCEEDED;
use perdura_engine::asl::json::Payload;
use perdura_engine::{
    EffectKey, EventKind, ExecutionId, Fault, MapRunFigures, MapRunOrder, MapRunRecalled, ReaderOrder,
    Record, Status,
};
use perdura_store::record::{Damage, TurnBody, read_history};
use perdura_store::{Failure, FailureKind, Filter, MapRunRow, Reader, Row, StoredTurn};
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// How many statuses are read at once.
const STATUSES_AT_ONCE: u32 = 16_384;
/// How many children are read at once.
const CHILDREN_AT_ONCE: u32 = 256;

/// Which taking up of which run is meant: what was asked by one that is gone is of no use to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub run: Uuid,
    /// Which time it was taken up by this node.
    pub number: u128,
}

/// Something that a Map Run asks for.
#[derive(Debug)]
pub struct Fetch {
    /// Who asks.
    pub ticket: Ticket,
    /// What for.
    pub kind: FetchKind,
}

/// What a Map Run may ask for.
pub enum FetchKind {
    /// Which children it has.
    Children,
    /// Its items.
    Items {
        /// The name of the machine that has the Map, and the Map's key.
        machine: Arc<str>,
        key: EffectKey,
        reader: ReaderOrder,
        /// One permit for each batch that it takes.
        room: Arc<Semaphore>,
    },
    /// What its children gave, gathered or written.
    Results {
        order: Box<MapRunOrder>,
        /// The most bytes that the state's result may have.
        bytes_max: usize,
    },
}

impl fmt::Debug for FetchKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Children => "Children",
            Self::Items { .. } => "Items",
            Self::Results { .. } => "Results",
        })
    }
}

impl FetchKind {
    /// Whoever brings it says by itself that nothing could be read.
    pub(crate) fn tells_of_failure(&self) -> bool {
        match self {
            Self::Items { .. } | Self::Results { .. } => true,
            Self::Children => false,
        }
    }
}

/// What a Map Run is told.
#[derive(Debug)]
pub enum Fetched {
    /// Its children and its own row.
    Children(Result<Box<MapRunRecalled>, Failure>),
    /// Items, or something about them.
    Items(Fed),
    /// The state's result.
    Results(Result<Result<Payload, Fault>, Failure>),
}

impl Fetch {
    /// Reads what is in the store. Results that are to be written elsewhere go to `write`; `send` is told in the end.
    pub fn bring(
        self,
        reader: Result<Box<dyn Reader>, Failure>,
        write: impl FnOnce(WriteOrder),
        send: impl FnOnce(Message) + Send + 'static,
    ) {
        let Self { ticket, kind } = self;
        match (kind, reader) {
            (FetchKind::Children, reader) => {
                let found = reader.and_then(|mut reader| recall(&mut *reader, ticket.run));
                send(ticket.tell(Fetched::Children(found)));
            }
            (FetchKind::Results { order, bytes_max }, Ok(reader)) => {
                bring_results(ticket, reader, (&order, bytes_max), write, send);
            }
            (FetchKind::Results { .. }, Err(failure)) => send(ticket.tell(Fetched::Results(Err(failure)))),
            (FetchKind::Items { .. }, _) => unreachable!("items are read by the world"),
        }
    }
}

impl Ticket {
    /// The message that tells its run of this.
    pub fn tell(self, fetched: Fetched) -> Message {
        Message::Fetched { ticket: self, fetched: Box::new(fetched) }
    }

    /// The way of items into its run.
    pub fn feed(self, room: Arc<Semaphore>, send: impl Fn(Message) + Send + Sync + 'static) -> Feed {
        Feed::new(room, move |fed| send(self.tell(Fetched::Items(fed))))
    }
}

/// Which children a run has, and what its row says.
pub fn recall(reader: &mut dyn Reader, run: Uuid) -> Result<Box<MapRunRecalled>, Failure> {
    let mut recalled = Box::<MapRunRecalled>::default();
    let mut from = 0;
    loop {
        let page = reader.child_statuses(run, from, STATUSES_AT_ONCE)?;
        let Some(last) = page.last() else { break };
        from = last.index + 1;
        for child in page {
            recalled.known.set(child.index, child.status);
            recalled.counts.add(child.status, child.items);
        }
    }
    recalled.running = running(reader, run)?;
    recalled.row = reader.map_run(run)?.map(|row| (row.status, figures(&row)));
    Ok(recalled)
}

/// What a row says of a run, beside who it is.
pub(crate) fn figures(row: &MapRunRow) -> MapRunFigures {
    MapRunFigures {
        bounds: row.bounds,
        source_version: row.source_version.clone(),
        counts: row.counts,
        results_written: row.results_written,
    }
}

/// The children of a run whose rows say that they run: no more than may run at once.
fn running(reader: &mut dyn Reader, run: Uuid) -> Result<Vec<ExecutionId>, Failure> {
    let mut filter = Filter { map_run: Some(run), status: Some(Status::Running), ..Filter::default() };
    let mut running = Vec::new();
    loop {
        let page = reader.list(&filter, None, CHILDREN_AT_ONCE)?.rows;
        let Some(last) = page.last() else { return Ok(running) };
        filter.before_child = last.child;
        running.extend(page.iter().map(|child| child.execution));
    }
}

/// Reads the results of a run, and gathers them, or hands them to whoever writes them. `send` is told in the end.
pub fn bring_results(
    ticket: Ticket,
    reader: Box<dyn Reader>,
    (order, bytes_max): (&MapRunOrder, usize),
    write: impl FnOnce(WriteOrder),
    send: impl FnOnce(Message) + Send + 'static,
) {
    let mut told = Telling { ticket, send: Some(send) };
    let results = Results { reader, run: ticket.run, from: 0, page: Vec::new().into_iter() };
    let writer = order.writer.as_ref().filter(|writer| writer.resource.is_some());
    match writer {
        Some(writer) => write(WriteOrder {
            writer: writer.clone(),
            map_run_arn: order.arn.clone(),
            results: Box::new(results),
            reply: Reply::new(move |written| told.tell(Ok(written))),
        }),
        None => told.tell(gather(order, results, bytes_max)),
    }
}

/// The word that a run waits for. Dropped without one, by a writer that panicked or was cut short, it says that the
/// results have to be brought again.
struct Telling<Send: FnOnce(Message)> {
    ticket: Ticket,
    send: Option<Send>,
}

impl<Send: FnOnce(Message)> Telling<Send> {
    fn tell(&mut self, results: Result<Result<Payload, Fault>, Failure>) {
        if let Some(send) = self.send.take() {
            send(self.ticket.tell(Fetched::Results(results)));
        }
    }
}

impl<Send: FnOnce(Message)> Drop for Telling<Send> {
    fn drop(&mut self) {
        let (what, why) = ("bringing the results".into(), "whoever did it ended without a word".into());
        self.tell(Err(Failure { what, why, kind: FailureKind::Io }));
    }
}

fn gather(
    order: &MapRunOrder,
    results: Results,
    bytes_max: usize,
) -> Result<Result<Payload, Fault>, Failure> {
    let mut gathered = Vec::new();
    let mut bytes = 2;
    for child in results {
        let child = child?;
        let result = child.output.unwrap_or_else(|| child.fault.to_value().into());
        bytes += result.len() + 1;
        if bytes > bytes_max {
            let cause = format!(
                "The results of the Map Run have more than {bytes_max} bytes: have its children return less, or write \
                 the results with a ResultWriter."
            );
            return Ok(Err(Fault::new(DATA_LIMIT_EXCEEDED, cause)));
        }
        gathered.push(result);
    }
    Ok(Ok(order.gathered(&gathered)))
}

/// The children of a run, page by page.
struct Results {
    reader: Box<dyn Reader>,
    run: Uuid,
    from: u32,
    page: std::vec::IntoIter<Row>,
}

impl Iterator for Results {
    type Item = Result<ChildResult, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.len() == 0 {
            match self.reader.children(self.run, self.from, CHILDREN_AT_ONCE) {
                Ok(page) => self.page = page.into_iter(),
                Err(failure) => return Some(Err(failure)),
            }
        }
        let row = self.page.next()?;
        self.from = row.child.map_or(u32::MAX, |child| child.index + 1);
        Some(result_of(&row, &mut *self.reader))
    }
}

fn result_of(row: &Row, reader: &mut dyn Reader) -> Result<ChildResult, Failure> {
    let damaged = |why: String| Failure {
        what: format!("reading the child {}", row.execution),
        why,
        kind: FailureKind::Corrupt,
    };
    let content = row.content.as_ref().ok_or_else(|| damaged("it has not ended".into()))?;
    let tail = read_history(&content.tail, content.tail_from).map_err(|damage| damaged(damage.0))?;
    let first = match content.tail_from {
        1 => None,
        _ => reader.turns(row.execution, 1, 1)?.into_iter().next(),
    };
    let first = first.as_ref().or(tail.first()).ok_or_else(|| damaged("it has no Turns".into()))?;
    let begun = TurnBody::read(&first.body).map_err(|damage| damaged(damage.0))?.begun;
    let begun = begun.ok_or_else(|| damaged("its first Turn does not say who it is".into()))?;
    let mut ending = last_event(&tail).map_err(|damage| damaged(damage.0))?;
    // Large Turns do not stand in the tail.
    let mut before = content.tail_from;
    while ending.is_none() && before > 1 {
        before -= 1;
        let turns = reader.turns(row.execution, before, 1)?;
        ending = last_event(&turns).map_err(|damage| damaged(damage.0))?;
    }
    let ending = ending.ok_or_else(|| damaged("none of its Turns has an event".into()))?;
    let (output, fault) = match ending {
        EventKind::ExecutionSucceeded { output } => (Some(output), Fault::default()),
        EventKind::ExecutionFailed(fault)
        | EventKind::ExecutionAborted(fault)
        | EventKind::ExecutionTimedOut(fault) => (None, fault),
        _ => return Err(damaged("its last event is not the end of an execution".into())),
    };
    Ok(ChildResult {
        index: row.child.map_or(0, |child| u64::from(child.index)),
        arn: begun.identity.arn,
        name: begun.identity.name,
        machine_arn: begun.identity.machine_arn,
        status: row.status,
        input: begun.identity.input,
        output,
        fault,
        started_at: row.started_at,
        ended_at: row.ended_at,
        redrives: row.redrives,
    })
}

/// The last event of these Turns: what comes after an end is only noted.
fn last_event(turns: &[StoredTurn]) -> Result<Option<EventKind>, Damage> {
    for turn in turns.iter().rev() {
        let records = TurnBody::read(&turn.body)?.turn.records;
        let event = records.into_iter().rev().find_map(|record| match record {
            Record::Event(event) => Some(event.kind),
            Record::Note(_) => None,
        });
        if event.is_some() {
            return Ok(event);
        }
    }
    Ok(None)
}
