//! A store in the memory of one process: for tests, for development, and for programs whose effects end with the
//! process too.
//!
//! One lock around one map, held for a lookup and never across an await. The data grows with the requests and shrinks
//! by retention: sweeps are needed, and budgets limit one caller's data.

use super::clock::{self, Clock};
use super::wake::Bells;
use super::{Pending, Store, StoreError, Swept, Transaction};
use crate::record::{Claim, Claimed, Completion, Epoch, Grant, Holding, Keep, OperationId, Record};
use crate::rule::{self, Row, Write};
use http::Extensions;
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A store in memory. A clone is another handle on the same data.
#[derive(Clone)]
pub struct Memory {
    shelf: Arc<Mutex<Shelf>>,
    bells: Bells,
    clock: Clock,
}

#[derive(Default)]
struct Shelf {
    rows: HashMap<OperationId, Row>,
    /// The next sweep time of each row.
    due: BTreeSet<(Timestamp, OperationId)>,
    /// The unknown outcomes, by time.
    unknown: BTreeSet<(Timestamp, OperationId)>,
    epoch: u64,
    check: Option<[u8; 16]>,
}

impl Shelf {
    fn write(&mut self, operation: OperationId, write: Write) {
        let (before, after) = match write {
            Write::Nothing => return,
            Write::Put(row) => {
                let after = (row.sweep_at(), row.unknown_at());
                (self.rows.insert(operation, row), Some(after))
            }
            Write::Remove => (self.rows.remove(&operation), None),
        };
        if let Some(before) = before {
            self.due.remove(&(before.sweep_at(), operation));
            if let Some(at) = before.unknown_at() {
                self.unknown.remove(&(at, operation));
            }
        }
        if let Some((sweep_at, unknown_at)) = after {
            self.due.insert((sweep_at, operation));
            self.unknown.extend(unknown_at.map(|at| (at, operation)));
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

    /// No code under the lock panics half way: each row is written by one insert.
    fn on_shelf<T>(&self, work: impl FnOnce(&mut Shelf, Timestamp) -> T) -> T {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        work(&mut shelf, now)
    }

    /// Runs a holder's verb on its row, and wakes waiters.
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
        // Verbs act when they are awaited, not when they are created, as in every other store.
        Box::pin(async move { Ok(self.on_shelf(|shelf, _| *shelf.check.get_or_insert(check) == check)) })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>> {
        Box::pin(async move {
            let claimed = self.on_shelf(|shelf, now| {
                let next = Epoch(shelf.epoch + 1);
                let (claimed, write) = rule::claim(shelf.rows.get(&claim.operation), claim, next, now);
                if let Claimed::Granted(grant) = &claimed {
                    shelf.epoch = shelf.epoch.max(grant.epoch.0);
                }
                shelf.write(claim.operation, write);
                claimed
            });
            if matches!(claimed, Claimed::Lapsed(_)) {
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

    fn sweep(&self, records_max: u32, keep: Keep) -> Pending<'_, Result<Swept, StoreError>> {
        Box::pin(async move {
            let swept = self.on_shelf(|shelf, now| {
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
                    let write = rule::sweep(row, keep, now);
                    swept.note(operation, &write);
                    shelf.write(operation, write);
                }
                swept
            });
            for operation in &swept.lapsed {
                self.bells.ring(*operation);
            }
            Ok(swept)
        })
    }

    fn unknown(&self, limit: u32) -> Pending<'_, Result<Vec<(OperationId, Record)>, StoreError>> {
        Box::pin(async move {
            Ok(self.on_shelf(|shelf, now| {
                let rows = shelf.unknown.iter().filter_map(|(_, operation)| {
                    let row = shelf.rows.get(operation).filter(|row| row.is_there(now))?;
                    Some((*operation, row.record(now)))
                });
                rows.take(limit as usize).collect()
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

#[cfg(test)]
mod tests {
    use super::Memory;
    use crate::conformance::{claim, operation, take};
    use crate::record::{Claimed, Completion, Ending, Keep};
    use crate::store::Store;
    use jiff::Timestamp;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    const KEEP: Keep = Keep { answer_for: Duration::from_hours(2), tombstone_for: Duration::from_hours(1) };

    /// After every sequence of verbs, both indexes match the rows.
    #[tokio::test]
    async fn nothing_stays_in_the_orders_that_is_not_on_the_shelf() {
        let now = Arc::new(Mutex::new(Timestamp::UNIX_EPOCH));
        let clock = Arc::clone(&now);
        let memory = Memory::with_clock(Arc::new(move || *clock.lock().unwrap()));
        let pass = |hours| *now.lock().unwrap() += Duration::from_hours(hours);
        let kept = || memory.on_shelf(|shelf, _| (shelf.rows.len(), shelf.due.len(), shelf.unknown.len()));
        for n in 0..4 {
            memory.claim(&claim(operation(n), 1)).await.unwrap();
        }
        assert_eq!(kept(), (4, 4, 0));
        pass(1);
        assert_eq!(memory.sweep(10, KEEP).await.unwrap().lapsed.len(), 4);
        assert_eq!(kept(), (4, 4, 4));
        for n in 0..3 {
            let wish = take(operation(n), 2);
            let Claimed::Granted(grant) = memory.claim(&wish).await.unwrap() else { panic!("it lapsed") };
            let (operation, epoch, keep) = (wish.operation, grant.epoch, KEEP);
            let ending = if n == 0 { Ending::Unknown } else { Ending::Answered("done".into()) };
            match n {
                0 | 1 => drop(memory.complete(&Completion { operation, epoch, ending, keep }).await.unwrap()),
                _ => drop(memory.release(operation, epoch).await.unwrap()),
            }
        }
        assert_eq!(kept(), (3, 3, 2));
        pass(4);
        memory.sweep(10, KEEP).await.unwrap();
        assert_eq!(kept(), (0, 0, 0));
    }
}
