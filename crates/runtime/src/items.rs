//! Items of a Distributed Map that are read from elsewhere, and the place where its results go.
//!
//! A run asks for as much as it can use: whoever reads waits until the run has taken what it was given, so that a
//! file of any size passes through a bounded memory.

use crate::message::Reply;
use perdura_engine::asl::error::{ITEM_READER, RESULT_WRITER};
use perdura_engine::asl::json::{Payload, Value};
use perdura_engine::{Fault, ReaderOrder, Status, Timestamp, WriterOrder};
use perdura_store::Failure;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Items to be read.
#[derive(Debug)]
pub struct ReadOrder {
    pub reader: ReaderOrder,
    /// Where they go.
    pub feed: Feed,
}

/// What a reader tells of its items.
#[derive(Clone, Debug, PartialEq)]
pub enum Fed {
    /// Where they come from; told first.
    From(Source),
    /// The next ones, in order.
    Items(Vec<Value>),
    /// There are no more, or they cannot be read.
    End(Result<(), Fault>),
}

/// Where items come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// As the context object has it, in `Map.Item.Source`: `S3://bucket/key`.
    pub name: Arc<str>,
    /// What changes when its content does: an entity tag, or size and time. A run that is taken up again goes on only
    /// with the version that it began with.
    pub version: Arc<str>,
}

/// The way of items into a run. Dropped without an end, it says that they could not be read.
pub struct Feed {
    tell: Option<Box<dyn Fn(Fed) + Send + Sync>>,
    /// One for each batch that the run still takes; closed when nobody wants more.
    room: Arc<Semaphore>,
}

/// Nobody wants these items any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody wants these items any more")]
pub struct Unwanted;

impl Feed {
    /// Into whatever this function does, one batch for each permit.
    pub fn new(room: Arc<Semaphore>, tell: impl Fn(Fed) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Box::new(tell)), room }
    }

    /// Says where the items come from, before the first.
    pub fn begin(&self, source: Source) {
        self.say(Fed::From(source));
    }

    /// Gives the next items, when there is room for them.
    pub async fn give(&self, items: Vec<Value>) -> Result<(), Unwanted> {
        self.room.acquire().await.map_err(|_| Unwanted)?.forget();
        self.say(Fed::Items(items));
        Ok(())
    }

    /// There are no more, or they cannot be read.
    pub fn end(mut self, how: Result<(), Fault>) {
        self.say(Fed::End(how));
        self.tell = None;
    }

    fn say(&self, fed: Fed) {
        if let Some(tell) = &self.tell {
            tell(fed);
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let cause = "The reader of the items ended without a word.";
        self.say(Fed::End(Err(Fault::new(ITEM_READER, cause))));
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Feed")
    }
}

/// Results to be written.
pub struct WriteOrder {
    /// To where.
    pub writer: WriterOrder,
    pub map_run_arn: Arc<str>,
    /// Its children in the order of their items. Each is read from the store when it is asked for: not on an async
    /// thread.
    pub results: Box<dyn Iterator<Item = Result<ChildResult, Failure>> + Send>,
    /// Told the state's result when all is written.
    pub reply: Reply<Result<Payload, Fault>>,
}

impl fmt::Debug for WriteOrder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "results of {}", self.map_run_arn)
    }
}

/// How one child of a Map Run fared.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildResult {
    /// Which child, from 0.
    pub index: u64,
    pub arn: Arc<str>,
    pub name: Arc<str>,
    /// What it runs.
    pub machine_arn: Arc<str>,
    /// How it stands.
    pub status: Status,
    /// What it received.
    pub input: Payload,
    /// What it gave.
    pub output: Option<Payload>,
    /// Error and cause, if it failed.
    pub fault: Fault,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How often it was redriven.
    pub redrives: u32,
}

impl ReadOrder {
    /// Nobody here can read them.
    pub fn refuse(self) {
        let cause = format!("Nothing here reads items by {}.", self.reader.resource.arn);
        self.feed.end(Err(Fault::new(ITEM_READER, cause)));
    }
}

impl WriteOrder {
    /// Nobody here can write them.
    pub fn refuse(self) {
        let arn = self.writer.resource.as_ref().map_or("nothing", |resource| &*resource.arn);
        let cause = format!("Nothing here writes results by {arn}.");
        self.reply.send(Err(Fault::new(RESULT_WRITER, cause)));
    }
}
