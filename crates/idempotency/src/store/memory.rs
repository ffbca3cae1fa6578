//! The memory of one process, gone with it: for tests, for development, and for programs whose effects are gone with
//! them too.
//!
//! One lock around one map, held for a look-up and never across an await. What is there grows with the requests and
//! goes with retention: somebody has to sweep, and budgets bound how much one caller stores.

use super::clock::{self, Clock};
use super::wake::Bells;
use super::{Pending, Store, StoreError, Swept, Transaction};
use crate::record::{Claim, Claimed, Completion, Epoch, Grant, Holding, OperationId, Record};
use crate::rule::{self, Row, Write};
use http::Extensions;
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Operations remembered in this process. A clone is another handle on the same memory.
#[derive(Clone)]
pub struct Memory {
    shelf: Arc<Mutex<Shelf>>,
    bells: Bells,
    clock: Clock,
}

#[derive(Default)]
struct Shelf {
    rows: HashMap<OperationId, Row>,
    /// When a sweep has something to do at a row; running rows are not here.
    due: BTreeSet<(Timestamp, OperationId)>,
    /// The newest epoch that was given.
    epoch: u64,
    check: Option<[u8; 16]>,
}

impl Shelf {
    fn write(&mut self, operation: OperationId, write: Write) {
        let before = match write {
            Write::Nothing => return,
            Write::Put(row) => {
                self.due.extend(row.sweep_at().map(|at| (at, operation)));
                let after = row.sweep_at();
                self.rows.insert(operation, row).filter(|before| before.sweep_at() != after)
            }
            Write::Remove => self.rows.remove(&operation),
        };
        if let Some(at) = before.and_then(|before| before.sweep_at()) {
            self.due.remove(&(at, operation));
        }
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
        Self { shelf: Arc::default(), bells: Bells::default(), clock }
    }

    /// Nothing under the lock panics half way: rows are written by one insert each.
    fn on_shelf<T>(&self, work: impl FnOnce(&mut Shelf, Timestamp) -> T) -> T {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        work(&mut shelf, now)
    }

    /// What the holder of an epoch wants of its row; whoever waits hears of it.
    fn held(
        &self,
        operation: OperationId,
        verb: impl FnOnce(Option<&Row>, Timestamp) -> (Holding, Write),
    ) -> Holding {
        let holding = self.on_shelf(|shelf, now| {
            let (holding, write) = verb(shelf.rows.get(&operation), now);
            shelf.write(operation, write);
            holding
        });
        match holding {
            Holding::Held => self.bells.ring(operation),
            Holding::Lost => {}
        }
        holding
    }
}

impl Store for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn agree(&self, check: [u8; 16]) -> Pending<'_, Result<bool, StoreError>> {
        // The verbs act when they are awaited, not when they are asked for, as with every other store.
        Box::pin(async move { Ok(self.on_shelf(|shelf, _| *shelf.check.get_or_insert(check) == check)) })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>> {
        Box::pin(async move {
            let (claimed, lapsed) = self.on_shelf(|shelf, now| {
                let next = Epoch(shelf.epoch + 1);
                let (claimed, write) = rule::claim(shelf.rows.get(&claim.operation), claim, next, now);
                let lapsed = match (&claimed, &write) {
                    (Claimed::Granted(grant), _) => {
                        shelf.epoch = shelf.epoch.max(grant.epoch.0);
                        false
                    }
                    (Claimed::Found(_), write) => *write != Write::Nothing,
                };
                shelf.write(claim.operation, write);
                (claimed, lapsed)
            });
            if lapsed {
                self.bells.ring(claim.operation);
            }
            Ok(claimed)
        })
    }

    fn renew(
        &self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            Ok(self.on_shelf(|shelf, now| {
                let (holding, write) = rule::renew(shelf.rows.get(&operation), epoch, lease_for, now);
                shelf.write(operation, write);
                holding
            }))
        })
    }

    fn complete<'a>(&'a self, completion: &'a Completion) -> Pending<'a, Result<Holding, StoreError>> {
        Box::pin(async move {
            let Completion { operation, epoch, ending, keep } = completion;
            Ok(self.held(*operation, |row, now| rule::complete(row, *epoch, ending, *keep, now)))
        })
    }

    fn release(&self, operation: OperationId, epoch: Epoch) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move { Ok(self.held(operation, |row, now| rule::release(row, epoch, now))) })
    }

    fn look(&self, operation: OperationId) -> Pending<'_, Result<Option<Record>, StoreError>> {
        Box::pin(async move { Ok(self.glance(operation)) })
    }

    fn glance(&self, operation: OperationId) -> Option<Record> {
        self.on_shelf(|shelf, now| {
            shelf.rows.get(&operation).filter(|row| row.is_there(now)).map(|row| row.record(now))
        })
    }

    fn erase(&self, operation: OperationId) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            Ok(self.on_shelf(|shelf, now| {
                let (erased, write) = rule::erase(shelf.rows.get(&operation), now);
                shelf.write(operation, write);
                erased
            }))
        })
    }

    fn sweep(&self, records_max: u32) -> Pending<'_, Result<Swept, StoreError>> {
        Box::pin(async move {
            Ok(self.on_shelf(|shelf, now| {
                let due: Vec<OperationId> = shelf
                    .due
                    .iter()
                    .take_while(|(at, _)| *at <= now)
                    .take(records_max as usize)
                    .map(|(_, operation)| *operation)
                    .collect();
                let mut swept = Swept::default();
                for operation in due {
                    let Some(row) = shelf.rows.get(&operation) else { continue };
                    let write = rule::sweep(row, now);
                    match &write {
                        Write::Nothing => {}
                        Write::Put(_) => swept.answers += 1,
                        Write::Remove => swept.records += 1,
                    }
                    shelf.write(operation, write);
                }
                swept
            }))
        })
    }

    fn changed(&self, operation: OperationId) -> Pending<'static, ()> {
        self.bells.heard(operation)
    }

    fn begin<'a>(
        &'a self,
        _operation: OperationId,
        _grant: Grant,
        _extensions: &'a mut Extensions,
    ) -> Pending<'a, Result<Option<Box<dyn Transaction>>, StoreError>> {
        Box::pin(ready(Ok(None)))
    }

    fn shares_transactions(&self) -> bool {
        false
    }
}
