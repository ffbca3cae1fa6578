//! The fetches of Map Runs: children, items and results, each a little later.

use super::{Happening, Sim};
use crate::observed::Life;
use perdura_engine::asl::json::{Value, parse};
use perdura_runtime::{Fed, Fetch, FetchKind, Fetched, Message, Source, Ticket, WriteOrder};
use perdura_store::Catalog;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, TryAcquireError};

/// The most items of a run.
const ITEMS_MAX: u64 = 20;
/// The size of a batch.
const BATCH: u64 = 4;

/// A reader of items.
pub(super) struct Reading {
    ticket: Ticket,
    room: Arc<Semaphore>,
    next: u64,
    count: u64,
}

impl Sim {
    pub(super) fn fetch(&mut self, life: Life, fetch: Fetch) {
        self.facts.count("fetches for Map Runs");
        let Fetch { ticket, kind } = fetch;
        let message = match kind {
            FetchKind::Items { reader, room, .. } => {
                let key = reader.arguments.value().get("Key").and_then(Value::as_str).map(str::to_owned);
                let count = key.and_then(|key| key.parse::<u64>().ok()).unwrap_or(0) % (ITEMS_MAX + 1);
                let reading = Reading { ticket, room, next: 0, count };
                self.after(1, Happening::Read(life, Box::new(reading)));
                let source = Source { name: "S3://items".into(), version: "1".into() };
                ticket.tell(Fetched::Items(Fed::From(source)))
            }
            kind @ (FetchKind::Children | FetchKind::Results { .. }) => {
                let told: Arc<Mutex<Option<Message>>> = Arc::default();
                let hears = told.clone();
                let hear = move |message| {
                    *hears.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
                };
                Fetch { ticket, kind }.bring(self.handle(life).reader(), WriteOrder::refuse, hear);
                let told = told.lock().unwrap_or_else(PoisonError::into_inner).take();
                told.expect("what was read is told at once")
            }
        };
        let takes = if self.is_rough() { self.dice.between(0..=200) } else { 0 };
        self.after(takes, Happening::Tell(life, message));
    }

    /// Gives the next items, when there is room for them.
    pub(super) fn read(&mut self, life: Life, mut reading: Reading) {
        match reading.room.clone().try_acquire() {
            Ok(permit) => permit.forget(),
            Err(TryAcquireError::Closed) => return,
            Err(TryAcquireError::NoPermits) => {
                return self.after(50, Happening::Read(life, Box::new(reading)));
            }
        }
        let until = reading.count.min(reading.next + BATCH);
        let is_over = reading.next >= reading.count;
        let fed = if is_over {
            Fed::End(Ok(()))
        } else {
            let item = |n: u64| parse(&format!(r#"{{"n":{n}}}"#)).expect("it is JSON");
            Fed::Items((reading.next..until).map(item).collect())
        };
        let ticket = reading.ticket;
        reading.next = until;
        self.after(1, Happening::Tell(life, ticket.tell(Fetched::Items(fed))));
        if !is_over {
            let takes = self.dice.between(2..=40);
            self.after(takes, Happening::Read(life, Box::new(reading)));
        }
    }
}
