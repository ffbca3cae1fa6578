//! The memory of one process, gone with it: for tests and for development.
//!
//! One lock around one map, held for a verb and never across an await. Beside the rows stand the orders that the databases have as
//! partial indexes: what is ready by tenant and time, and what waits by ordering key.

use super::clock::{self, Clock};
use super::{Pending, Store, StoreError, check_size};
use crate::row::{
    Address, Claim, Counts, Ending, Epoch, Held, Holding, Keep, List, Message, Name, Named, Put, ROWS_MAX,
    Receipt, Redriven, Row, Status,
};
use crate::rule;
use bytes::Bytes;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Rows in this process. A clone is another handle on the same rows.
#[derive(Clone)]
pub struct Memory {
    shelf: Arc<Mutex<Shelf>>,
    bell: Arc<Notify>,
    clock: Clock,
}

type Line = (Name, Name, Name);

#[derive(Default)]
struct Shelf {
    rows: BTreeMap<Address, Message>,
    /// Inbox, tenant, not_before, number: PENDING heads.
    ready: BTreeMap<(Name, Name, Timestamp, u64), Name>,
    /// Inbox, tenant, ordering key: the rows that wait behind a head.
    waiting: BTreeMap<Line, BTreeMap<u64, Name>>,
    /// Inbox, tenant, ordering key: those that have a head.
    headed: BTreeSet<Line>,
    /// The newest number and epoch.
    number: u64,
}

fn line(row: &Row) -> Option<Line> {
    let Address { inbox, tenant, .. } = &row.address;
    row.ordering_key.as_ref().map(|key| (inbox.clone(), tenant.clone(), key.clone()))
}

impl Shelf {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Leaves the row so, and every order with it.
    fn write(&mut self, row: Row) {
        self.unlist(&row.address.clone());
        self.list(&row);
        let message = self.rows.get_mut(&row.address).expect("only rows that are there are rewritten");
        message.row = row;
    }

    fn list(&mut self, row: &Row) {
        let Address { inbox, tenant, id } = row.address.clone();
        if row.status == Status::Pending && row.head {
            self.ready.insert((inbox, tenant, row.not_before, row.number), id.clone());
        }
        let Some(line) = line(row) else { return };
        if row.head {
            self.headed.insert(line);
        } else if row.status == Status::Pending {
            self.waiting.entry(line).or_default().insert(row.number, id);
        }
    }

    fn unlist(&mut self, address: &Address) {
        let Some(Message { row, .. }) = self.rows.get(address) else { return };
        let (inbox, tenant) = (address.inbox.clone(), address.tenant.clone());
        self.ready.remove(&(inbox, tenant, row.not_before, row.number));
        let Some(line) = line(row) else { return };
        if row.head {
            self.headed.remove(&line);
        } else if let Some(waiting) = self.waiting.get_mut(&line) {
            waiting.remove(&row.number);
            if waiting.is_empty() {
                self.waiting.remove(&line);
            }
        }
    }

    fn has_head(&self, line: Option<&Line>) -> bool {
        line.is_some_and(|line| self.headed.contains(line))
    }

    /// Leaves the row so; where it was the head of its key and ended, the next one is.
    fn end(&mut self, row: Row) {
        let line = line(&row);
        let ended = !row.head;
        self.write(row);
        let Some(line) = line.filter(|_| ended) else { return };
        let next = self.waiting.get(&line).and_then(|waiting| waiting.values().next().cloned());
        if let Some(id) = next {
            let address = Address { inbox: line.0, tenant: line.1, id };
            let row = Row { head: true, ..self.rows[&address].row.clone() };
            self.write(row);
        }
    }

    /// The first tenant after this one that has something to claim.
    fn tenant(&self, inbox: &Name, after: &Name, now: Timestamp) -> Option<Name> {
        let mut after = after.clone();
        loop {
            let end_of_tenant = (inbox.clone(), after, Timestamp::MAX, u64::MAX);
            let mut later = self.ready.range((Bound::Excluded(end_of_tenant), Bound::Unbounded));
            let ((_, tenant, not_before, _), _) = later.next().filter(|((of, ..), _)| of == inbox)?;
            if *not_before <= now {
                return Some(tenant.clone());
            }
            after = tenant.clone();
        }
    }

    /// The tenants that share a claim.
    fn tenants(&self, claim: &Claim, now: Timestamp) -> Vec<Name> {
        let limit = claim.limit.min(ROWS_MAX) as usize;
        let mut tenants = Vec::new();
        let served = claim.after.clone().unwrap_or_else(Name::least);
        for (first, last) in [(served.clone(), None), (Name::least(), Some(served))] {
            let mut after = first;
            while tenants.len() < limit {
                let Some(tenant) = self.tenant(&claim.inbox, &after, now) else { break };
                if last.as_ref().is_some_and(|last| tenant > *last) {
                    break;
                }
                tenants.push(tenant.clone());
                after = tenant;
            }
        }
        tenants
    }

    fn take(&mut self, address: &Address, claim: &Claim, now: Timestamp) -> Message {
        let epoch = Epoch(self.next());
        let row = rule::claim(&self.rows[address].row, claim, epoch, now);
        self.write(row);
        self.rows[address].clone()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty memory on this machine's clock.
    pub fn new() -> Self {
        Self::with_clock(clock::system())
    }

    /// An empty memory on this clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self { shelf: Arc::default(), bell: Arc::default(), clock }
    }

    fn on_shelf<T: Send>(&self, work: impl FnOnce(&mut Shelf, Timestamp) -> T + Send) -> T {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        work(&mut shelf, now)
    }

    /// The verbs act when they are awaited, not when they are asked for, as with every other store.
    fn verb<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut Shelf, Timestamp) -> T + Send + 'a,
    ) -> Pending<'a, Result<T, StoreError>> {
        Box::pin(async move { Ok(self.on_shelf(work)) })
    }

    /// One that may make something claimable.
    fn ringing<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut Shelf, Timestamp) -> T + Send + 'a,
    ) -> Pending<'a, Result<T, StoreError>> {
        Box::pin(async move {
            let done = self.on_shelf(work);
            self.bell.notify_waiters();
            Ok(done)
        })
    }
}

impl Store for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn put<'a>(&'a self, put: &'a Put) -> Pending<'a, Result<Receipt, StoreError>> {
        if let Err(error) = check_size(put) {
            return Box::pin(std::future::ready(Err(error)));
        }
        self.ringing(|shelf, now| {
            if let Some(message) = shelf.rows.get(&put.address) {
                return rule::found(message.row.clone(), put);
            }
            let number = shelf.next();
            let mut row = rule::accept(put, number, true, now);
            row.head = !shelf.has_head(line(&row).as_ref());
            shelf.list(&row);
            let message = Message { row: row.clone(), payload: Bytes::clone(&put.payload) };
            shelf.rows.insert(put.address.clone(), message);
            Receipt::Accepted(row)
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Vec<Message>, StoreError>> {
        self.verb(|shelf, now| {
            let tenants = shelf.tenants(claim, now);
            let share = rule::share(claim.limit, tenants.len()) as usize;
            let mut claimed = Vec::new();
            for tenant in tenants {
                let of_tenant = |at| (claim.inbox.clone(), tenant.clone(), at, 0);
                let ready = shelf.ready.range(of_tenant(Timestamp::MIN)..of_tenant(Timestamp::MAX));
                let ready = ready.take_while(|((.., at, _), _)| *at <= now).take(share);
                let ids: Vec<Name> = ready.map(|(_, id)| id.clone()).collect();
                for id in ids {
                    let address = Address { inbox: claim.inbox.clone(), tenant: tenant.clone(), id };
                    claimed.push(shelf.take(&address, claim, now));
                }
            }
            claimed
        })
    }

    fn claim_named<'a>(
        &'a self,
        address: &'a Address,
        claim: &'a Claim,
    ) -> Pending<'a, Result<Named, StoreError>> {
        self.verb(|shelf, now| match shelf.rows.get(address).map(|message| &message.row) {
            None => Named::Missing,
            Some(row) if row.status != Status::Pending => Named::Taken(row.status),
            Some(row) if !rule::is_ready(row, now) => Named::NotYet,
            Some(_) => Named::Claimed(shelf.take(address, claim, now)),
        })
    }

    fn beat<'a>(
        &'a self,
        held: &'a [Held],
        lease_for: Duration,
    ) -> Pending<'a, Result<Vec<Epoch>, StoreError>> {
        self.verb(move |shelf, now| {
            let mut still = Vec::new();
            for held in held {
                let row = shelf.rows.get(&held.address).map(|message| &message.row);
                if let Some(row) = row.and_then(|row| rule::beat(row, held, lease_for, now)) {
                    still.push(row.epoch);
                    shelf.write(row);
                }
            }
            still
        })
    }

    fn end<'a>(&'a self, held: &'a Held, ending: &'a Ending) -> Pending<'a, Result<Holding, StoreError>> {
        self.ringing(move |shelf, now| {
            let Some(message) = shelf.rows.get(&held.address) else { return Holding::Lost };
            let (holding, row) = rule::end(&message.row, held, ending, now);
            if let Some(row) = row {
                shelf.end(row);
            }
            holding
        })
    }

    fn lapse<'a>(
        &'a self,
        inbox: &'a Name,
        attempts_max: u32,
        rows_max: u32,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        self.ringing(move |shelf, now| {
            let rows = shelf.rows.values().filter(|message| message.row.address.inbox == *inbox);
            let lapsed: Vec<Row> = rows
                .filter_map(|message| rule::lapse(&message.row, attempts_max, now))
                .take(rows_max.min(ROWS_MAX) as usize)
                .collect();
            for row in &lapsed {
                shelf.end(row.clone());
            }
            lapsed
        })
    }

    fn look<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Option<Message>, StoreError>> {
        self.verb(|shelf, _| shelf.rows.get(address).cloned())
    }

    fn list<'a>(&'a self, list: &'a List) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        self.verb(|shelf, _| {
            let wanted = |row: &&Row| {
                row.address.inbox == list.inbox && row.status == list.status && row.number > list.after
            };
            let mut rows: Vec<&Row> =
                shelf.rows.values().map(|message| &message.row).filter(wanted).collect();
            rows.sort_by_key(|row| row.number);
            rows.into_iter().take(list.limit.min(ROWS_MAX) as usize).cloned().collect()
        })
    }

    fn stuck<'a>(
        &'a self,
        inbox: &'a Name,
        doing_for: Duration,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        self.verb(move |shelf, now| {
            let since = |row: &Row| row.claimed_at.filter(|_| row.status == Status::Doing);
            let is_stuck =
                |row: &&Row| since(row).is_some_and(|claimed_at| rule::later(claimed_at, doing_for) <= now);
            let rows = shelf.rows.values().map(|message| &message.row);
            let mut rows: Vec<&Row> =
                rows.filter(|row| row.address.inbox == *inbox).filter(is_stuck).collect();
            rows.sort_by_key(|row| (row.claimed_at, row.number));
            rows.into_iter().take(ROWS_MAX as usize).cloned().collect()
        })
    }

    fn counts<'a>(&'a self, inbox: &'a Name) -> Pending<'a, Result<Counts, StoreError>> {
        self.verb(|shelf, _| {
            let mut counts = Counts::default();
            for message in shelf.rows.values().filter(|message| message.row.address.inbox == *inbox) {
                counts.add(message.row.status, 1);
            }
            counts
        })
    }

    fn redrive<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Redriven, StoreError>> {
        self.ringing(|shelf, now| {
            let Some(Message { row, .. }) = shelf.rows.get(address).cloned() else {
                return Redriven::Missing;
            };
            let head = !shelf.has_head(line(&row).as_ref());
            let number = shelf.next();
            let Some(redriven) = rule::redrive(&row, number, head, now) else {
                return Redriven::NotDead(row.status);
            };
            shelf.write(redriven.clone());
            Redriven::Pending(redriven)
        })
    }

    fn sweep<'a>(
        &'a self,
        inbox: &'a Name,
        keep: Keep,
        rows_max: u32,
    ) -> Pending<'a, Result<u64, StoreError>> {
        self.verb(move |shelf, now| {
            let rows = shelf.rows.values().map(|message| &message.row);
            let rows = rows.filter(|row| row.address.inbox == *inbox && rule::is_expired(row, keep, now));
            let expired: Vec<Address> = rows.take(rows_max as usize).map(|row| row.address.clone()).collect();
            for address in &expired {
                shelf.unlist(address);
                shelf.rows.remove(address);
            }
            expired.len() as u64
        })
    }

    fn bell(&self) -> Arc<Notify> {
        self.bell.clone()
    }
}
