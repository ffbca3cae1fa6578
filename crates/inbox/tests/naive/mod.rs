//! A store written apart from the others, in the plainest way, which can break one promise on purpose. Unbroken, it keeps all
//! of them, so what a test objects to is the one safeguard that was taken out.

use perdura_inbox::row::{
    Address, Claim, Counts, Ending, Epoch, Held, Holding, Keep, List, Message, Name, Named, Put, ROWS_MAX,
    Receipt, Redriven, Row, Status,
};
use perdura_inbox::store::{Clock, Pending, Store, StoreError};
use perdura_inbox::{row::PAYLOAD_BYTES_MAX, rule};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;

/// The safeguard that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    EndsWithoutEpoch,
    EndsWithoutOwner,
    BeatsWithoutEpoch,
    ClaimsInTwoSteps,
    ClaimsByNameInTwoSteps,
    PutsInTwoSteps,
    IgnoresOrderingKeys,
    LeavesNobodyAfterADeadHead,
    ClaimsDoneRowsAgain,
    BuriesDoneRows,
    LapsesWhatWasRenewed,
    LapsesWhatIsHeld,
    CountsNoCrashes,
    ForgetsTenants,
    TakesConflictsForDuplicates,
    ForgetsIdsEarly,
    AcknowledgesAndDrops,
    RepeatsEpochs,
    ServesTheFirstTenantFirst,
}

impl How {
    pub(crate) const ALL: [Self; 19] = [
        Self::EndsWithoutEpoch,
        Self::EndsWithoutOwner,
        Self::BeatsWithoutEpoch,
        Self::ClaimsInTwoSteps,
        Self::ClaimsByNameInTwoSteps,
        Self::PutsInTwoSteps,
        Self::IgnoresOrderingKeys,
        Self::LeavesNobodyAfterADeadHead,
        Self::ClaimsDoneRowsAgain,
        Self::BuriesDoneRows,
        Self::LapsesWhatWasRenewed,
        Self::LapsesWhatIsHeld,
        Self::CountsNoCrashes,
        Self::ForgetsTenants,
        Self::TakesConflictsForDuplicates,
        Self::ForgetsIdsEarly,
        Self::AcknowledgesAndDrops,
        Self::RepeatsEpochs,
        Self::ServesTheFirstTenantFirst,
    ];
}

#[derive(Default)]
struct Table {
    rows: BTreeMap<Address, Message>,
    number: u64,
}

pub(crate) struct Naive {
    table: Mutex<Table>,
    clock: Clock,
    broken: Option<How>,
}

/// Lets the others go on.
pub(crate) async fn pause() {
    tokio::task::yield_now().await;
}

impl Naive {
    pub(crate) fn new(clock: Clock, broken: Option<How>) -> Self {
        Self { table: Mutex::default(), clock, broken }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("nobody panics here")
    }

    fn now(&self) -> jiff::Timestamp {
        (self.clock)()
    }

    fn is(&self, how: How) -> bool {
        self.broken == Some(how)
    }

    /// Under which address a row is found.
    fn found_by(&self, address: &Address) -> Address {
        let mut address = address.clone();
        if self.is(How::ForgetsTenants) {
            address.tenant = Name::new("all").expect("a name");
        }
        address
    }

    /// Makes the first of each ordering key the head, where there is none.
    fn promote(&self, table: &mut Table) {
        let mut rows: Vec<&mut Row> = table.rows.values_mut().map(|message| &mut message.row).collect();
        rows.sort_by_key(|row| row.number);
        let mut headed: Vec<_> = rows.iter().filter(|row| row.head).map(|row| line(row)).collect();
        for row in rows.iter_mut().filter(|row| row.status == Status::Pending && !row.head) {
            if !headed.contains(&line(row)) || row.ordering_key.is_none() || self.is(How::IgnoresOrderingKeys)
            {
                row.head = true;
                headed.push(line(row));
            }
        }
    }

    fn take(&self, table: &mut Table, address: &Address, claim: &Claim) -> Message {
        table.number += 1;
        let number = table.number;
        let message = table.rows.get_mut(address).expect("it was seen");
        let epoch = if self.is(How::RepeatsEpochs) { message.row.epoch.0 + 1 } else { number };
        let attempts = message.row.attempts;
        message.row = rule::claim(&message.row, claim, Epoch(epoch), self.now());
        if self.is(How::CountsNoCrashes) {
            message.row.attempts = attempts;
        }
        message.clone()
    }

    /// The claim as it is compared with a row.
    fn shown(&self, row: &Row, held: &Held) -> Held {
        let mut held = held.clone();
        if self.is(How::EndsWithoutEpoch) {
            held.epoch = row.epoch;
        }
        if self.is(How::EndsWithoutOwner) {
            held.owner = row.owner.clone().unwrap_or(held.owner);
        }
        held
    }
}

fn line(row: &Row) -> (Name, Name, Option<Name>) {
    (row.address.inbox.clone(), row.address.tenant.clone(), row.ordering_key.clone())
}

fn verb<'a, T: Send + 'a>(work: impl FnOnce() -> T + Send + 'a) -> Pending<'a, Result<T, StoreError>> {
    Box::pin(async move { Ok(work()) })
}

impl Store for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn put<'a>(&'a self, put: &'a Put) -> Pending<'a, Result<Receipt, StoreError>> {
        Box::pin(async move {
            if put.payload.len() > PAYLOAD_BYTES_MAX {
                return Err(StoreError::TooLarge(put.payload.len()));
            }
            let address = self.found_by(&put.address);
            let found = self.table().rows.get(&address).map(|message| message.row.clone());
            if self.is(How::PutsInTwoSteps) {
                pause().await;
            }
            let mut table = self.table();
            if let Some(row) = found.filter(|_| self.is(How::PutsInTwoSteps)).or_else(|| {
                let message = table.rows.get(&address).filter(|_| !self.is(How::PutsInTwoSteps));
                message.map(|message| message.row.clone())
            }) {
                let receipt = rule::found(row, put);
                return Ok(match receipt {
                    Receipt::Conflict(row) if self.is(How::TakesConflictsForDuplicates) => {
                        Receipt::Duplicate(row)
                    }
                    receipt => receipt,
                });
            }
            table.number += 1;
            let row = rule::accept(put, table.number, false, self.now());
            table.rows.insert(address.clone(), Message { row, payload: put.payload.clone() });
            self.promote(&mut table);
            Ok(Receipt::Accepted(table.rows[&address].row.clone()))
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Vec<Message>, StoreError>> {
        Box::pin(async move {
            let now = self.now();
            let ready: Vec<(Address, Row)> = {
                let table = self.table();
                let ready = table.rows.iter().filter(|(_, message)| rule::is_ready(&message.row, now));
                let ready = ready.filter(|(_, message)| message.row.address.inbox == claim.inbox);
                ready.map(|(found_by, message)| (found_by.clone(), message.row.clone())).collect()
            };
            if self.is(How::ClaimsInTwoSteps) {
                pause().await;
            }
            let after = claim.after.as_ref().filter(|_| !self.is(How::ServesTheFirstTenantFirst));
            let mut tenants: Vec<&Name> = ready.iter().map(|(_, row)| &row.address.tenant).collect();
            tenants.sort_by_key(|tenant| (after.is_some_and(|after| *tenant <= after), *tenant));
            tenants.dedup();
            tenants.truncate(claim.limit.min(ROWS_MAX) as usize);
            let share = rule::share(claim.limit, tenants.len()) as usize;
            let mut table = self.table();
            let mut claimed = Vec::new();
            for tenant in tenants {
                let mut of_tenant: Vec<_> =
                    ready.iter().filter(|(_, row)| row.address.tenant == *tenant).collect();
                of_tenant.sort_by_key(|(_, row)| (row.not_before, row.number));
                for (found_by, _) in of_tenant.into_iter().take(share) {
                    let is_ready = rule::is_ready(&table.rows[found_by].row, now);
                    if is_ready || self.is(How::ClaimsInTwoSteps) {
                        claimed.push(self.take(&mut table, found_by, claim));
                    }
                }
            }
            Ok(claimed)
        })
    }

    fn claim_named<'a>(
        &'a self,
        address: &'a Address,
        claim: &'a Claim,
    ) -> Pending<'a, Result<Named, StoreError>> {
        Box::pin(async move {
            let address = self.found_by(address);
            let Some(row) = self.table().rows.get(&address).map(|message| message.row.clone()) else {
                return Ok(Named::Missing);
            };
            if self.is(How::ClaimsByNameInTwoSteps) {
                pause().await;
            }
            let mut table = self.table();
            let row = match table.rows.get(&address) {
                Some(message) if !self.is(How::ClaimsByNameInTwoSteps) => message.row.clone(),
                Some(_) | None => row,
            };
            Ok(match row.status {
                Status::Pending if rule::is_ready(&row, self.now()) => {
                    Named::Claimed(self.take(&mut table, &address, claim))
                }
                Status::Pending => Named::NotYet,
                status @ (Status::Doing | Status::Done | Status::Dead) => Named::Taken(status),
            })
        })
    }

    fn beat<'a>(
        &'a self,
        held: &'a [Held],
        lease_for: Duration,
    ) -> Pending<'a, Result<Vec<Epoch>, StoreError>> {
        verb(move || {
            let mut table = self.table();
            let mut still = Vec::new();
            for held in held {
                let Some(message) = table.rows.get_mut(&self.found_by(&held.address)) else { continue };
                let mut shown = held.clone();
                if self.is(How::BeatsWithoutEpoch) {
                    shown.epoch = message.row.epoch;
                }
                if let Some(row) = rule::beat(&message.row, &shown, lease_for, self.now()) {
                    message.row = row;
                    still.push(held.epoch);
                }
            }
            still
        })
    }

    fn end<'a>(&'a self, held: &'a Held, ending: &'a Ending) -> Pending<'a, Result<Holding, StoreError>> {
        verb(move || {
            let mut table = self.table();
            let Some(message) = table.rows.get_mut(&self.found_by(&held.address)) else {
                return Holding::Lost;
            };
            let shown = self.shown(&message.row, held);
            let mut before = message.row.clone();
            if self.is(How::BuriesDoneRows) && before.status == Status::Done && *ending != Ending::Done {
                before.status = Status::Doing;
            }
            let (holding, row) = rule::end(&before, &shown, ending, self.now());
            if let Some(mut row) = row.filter(|_| !self.is(How::AcknowledgesAndDrops)) {
                if self.is(How::CountsNoCrashes) {
                    row.attempts += 1;
                }
                let stays = row.status == Status::Dead && self.is(How::LeavesNobodyAfterADeadHead);
                message.row = row;
                if !stays {
                    self.promote(&mut table);
                }
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
        verb(move || {
            let now = self.now();
            let mut table = self.table();
            let mut lapsed = Vec::new();
            for message in table.rows.values_mut().filter(|message| message.row.address.inbox == *inbox) {
                let mut before = message.row.clone();
                if self.is(How::ClaimsDoneRowsAgain) && before.status == Status::Done {
                    before =
                        Row { status: Status::Doing, head: true, lease_until: before.claimed_at, ..before };
                }
                if self.is(How::LapsesWhatWasRenewed) {
                    // As if the lease were that of the claim.
                    let of_claim = |at| rule::later(at, Duration::from_mins(10));
                    before.lease_until = before.lease_until.and(before.claimed_at.map(of_claim));
                }
                if self.is(How::LapsesWhatIsHeld) {
                    before.lease_until = before.lease_until.map(|_| now);
                }
                let row = rule::lapse(&before, attempts_max, now);
                if let Some(row) = row.filter(|_| lapsed.len() < rows_max.min(ROWS_MAX) as usize) {
                    message.row = row.clone();
                    lapsed.push(row);
                }
            }
            self.promote(&mut table);
            lapsed
        })
    }

    fn look<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Option<Message>, StoreError>> {
        verb(|| self.table().rows.get(&self.found_by(address)).cloned())
    }

    fn list<'a>(&'a self, list: &'a List) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        verb(|| {
            let of = |row: &Row| row.address.inbox == list.inbox && row.status == list.status;
            let mut rows = self.rows(|row| of(row) && row.number > list.after);
            rows.sort_by_key(|row| row.number);
            rows.truncate(list.limit as usize);
            rows
        })
    }

    fn stuck<'a>(
        &'a self,
        inbox: &'a Name,
        doing_for: Duration,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        verb(move || {
            let now = self.now();
            let since = |at| rule::later(at, doing_for) <= now;
            let mut rows = self.rows(|row| {
                row.address.inbox == *inbox
                    && row.status == Status::Doing
                    && row.claimed_at.is_some_and(since)
            });
            rows.sort_by_key(|row| (row.claimed_at, row.number));
            rows
        })
    }

    fn counts<'a>(&'a self, inbox: &'a Name) -> Pending<'a, Result<Counts, StoreError>> {
        verb(move || {
            let count =
                |status| self.rows(|row| row.address.inbox == *inbox && row.status == status).len() as u64;
            let [pending, doing, done, dead] = Status::ALL.map(count);
            Counts { pending, doing, done, dead }
        })
    }

    fn redrive<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Redriven, StoreError>> {
        verb(move || {
            let address = self.found_by(address);
            let mut table = self.table();
            table.number += 1;
            let number = table.number;
            let Some(message) = table.rows.get_mut(&address) else { return Redriven::Missing };
            let Some(row) = rule::redrive(&message.row, number, false, self.now()) else {
                return Redriven::NotDead(message.row.status);
            };
            message.row = row;
            self.promote(&mut table);
            Redriven::Pending(table.rows[&address].row.clone())
        })
    }

    fn sweep<'a>(
        &'a self,
        inbox: &'a Name,
        keep: Keep,
        rows_max: u32,
    ) -> Pending<'a, Result<u64, StoreError>> {
        verb(move || {
            let now = self.now();
            let mut left = rows_max;
            let mut table = self.table();
            let before = table.rows.len();
            table.rows.retain(|_, Message { row, .. }| {
                let mut keep = keep;
                if self.is(How::ForgetsIdsEarly) {
                    keep = Keep { done_for: Duration::ZERO, dead_for: Duration::ZERO };
                }
                let goes = row.address.inbox == *inbox && rule::is_expired(row, keep, now) && left > 0;
                left -= u32::from(goes);
                !goes
            });
            (before - table.rows.len()) as u64
        })
    }

    fn bell(&self) -> Arc<Notify> {
        Arc::default()
    }
}

impl Naive {
    fn rows(&self, wanted: impl Fn(&Row) -> bool) -> Vec<Row> {
        let table = self.table();
        table.rows.values().map(|message| &message.row).filter(|row| wanted(row)).cloned().collect()
    }
}
