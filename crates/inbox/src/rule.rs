//! The rules of the inbox: every change that a row may make, without a clock and without a store.
//!
//! ```text
//! put --> PENDING --claim--> DOING --done--> DONE
//!            ^                 |
//!            |-- fail, after a delay
//!            |-- lapse, when the lease ran out
//!            |                 '-- either, with no attempts left --> DEAD
//!            '---------------------- redrive -------------------------'
//! ```
//!
//! A claim counts as an attempt when it is made, so a message that kills its worker still reaches the limit. Everything after
//! the claim shows its owner and its epoch, and changes nothing where they are no longer the row's. The lease decides when
//! a row may be taken away; the epoch decides whether an end counts. So safety never rests on clocks.
//!
//! Memory and SQLite call these functions; PostgreSQL says the same in SQL. The suite in `conformance` holds all three to
//! them.

use crate::row::{
    Claim, Ending, Epoch, Held, Holding, Keep, Name, Put, ROWS_MAX, Receipt, Row, Status, shortened,
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Why a row is returned whose worker did not end it in time.
pub const LAPSED: &str = "the lease ran out: the worker was killed, stopped or cut off";

/// So much later, or the end of time.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// The row of a new message. `head`: no other row of its ordering key is to be worked before it.
pub fn accept(put: &Put, number: u64, head: bool, now: Timestamp) -> Row {
    Row {
        address: put.address.clone(),
        number,
        status: Status::Pending,
        received_at: now,
        claimed_at: None,
        processed_at: None,
        attempts: 0,
        not_before: later(now, put.delay_for),
        ordering_key: put.ordering_key.clone(),
        head,
        lease_until: None,
        owner: None,
        epoch: Epoch::default(),
        fingerprint: put.fingerprint,
        last_error: None,
    }
}

/// The receipt of a message whose id is known.
pub fn found(row: Row, put: &Put) -> Receipt {
    if row.fingerprint == put.fingerprint { Receipt::Duplicate(row) } else { Receipt::Conflict(row) }
}

/// Whether a claim takes it.
pub fn is_ready(row: &Row, now: Timestamp) -> bool {
    row.status == Status::Pending && row.head && row.not_before <= now
}

/// The row once it is claimed. The caller has seen that it is ready.
pub fn claim(row: &Row, claim: &Claim, epoch: Epoch, now: Timestamp) -> Row {
    Row {
        status: Status::Doing,
        claimed_at: Some(now),
        attempts: row.attempts.saturating_add(1),
        lease_until: Some(later(now, claim.lease_for)),
        owner: Some(claim.owner.clone()),
        epoch,
        ..row.clone()
    }
}

/// How many rows each tenant gets of a claim, where so many tenants have some. None of them waits for another to run dry.
pub fn share(limit: u32, tenants: usize) -> u32 {
    let tenants = u32::try_from(tenants).unwrap_or(u32::MAX).max(1);
    (limit.min(ROWS_MAX) / tenants).max(1)
}

/// The tenant that a worker served last, once it has claimed rows of these: the next claim begins after it. None of them:
/// the next begins where this one did.
pub fn served_last<'n>(after: Option<&Name>, claimed: impl Iterator<Item = &'n Name>) -> Option<Name> {
    // Those after the last come before those that the round began anew with.
    let place = |tenant: &&'n Name| (after.is_some_and(|after| *tenant <= after), *tenant);
    claimed.max_by_key(place).or(after).cloned()
}

/// Whether this claim holds the row.
pub fn is_held(row: &Row, held: &Held) -> bool {
    row.status == Status::Doing && is_of(row, &held.owner, held.epoch)
}

fn is_of(row: &Row, owner: &Name, epoch: Epoch) -> bool {
    row.owner.as_ref() == Some(owner) && row.epoch == epoch
}

/// The row with a lease from now on.
pub fn beat(row: &Row, held: &Held, lease_for: Duration, now: Timestamp) -> Option<Row> {
    is_held(row, held).then(|| Row { lease_until: Some(later(now, lease_for)), ..row.clone() })
}

/// The row as its holder ends it; `None`: it stays as it is. Told twice that it is done, a row is done once.
pub fn end(row: &Row, held: &Held, ending: &Ending, now: Timestamp) -> (Holding, Option<Row>) {
    if is_held(row, held) {
        return (Holding::Held, Some(ended(row, ending, now)));
    }
    let again = *ending == Ending::Done && row.status == Status::Done && is_of(row, &held.owner, held.epoch);
    (if again { Holding::Held } else { Holding::Lost }, None)
}

fn ended(row: &Row, ending: &Ending, now: Timestamp) -> Row {
    let row = Row { lease_until: None, ..row.clone() };
    match ending {
        Ending::Done => Row { status: Status::Done, head: false, processed_at: Some(now), ..row },
        Ending::Again { error, delay_for } => Row {
            status: Status::Pending,
            not_before: later(now, *delay_for),
            last_error: Some(shortened(error).to_owned()),
            ..row
        },
        Ending::Dead { error } => Row {
            status: Status::Dead,
            head: false,
            processed_at: Some(now),
            last_error: Some(shortened(error).to_owned()),
            ..row
        },
    }
}

/// The row when its lease ran out: claimable at once, or DEAD where no attempts are left. `None`: it did not.
pub fn lapse(row: &Row, attempts_max: u32, now: Timestamp) -> Option<Row> {
    if row.status != Status::Doing || row.lease_until.is_none_or(|until| now < until) {
        return None;
    }
    let error = LAPSED.to_owned();
    let ending = if row.attempts >= attempts_max {
        Ending::Dead { error }
    } else {
        Ending::Again { error, delay_for: Duration::ZERO }
    };
    Some(ended(row, &ending, now))
}

/// A dead row when a person wants it worked after all. It arrives again, and so comes after those of its ordering key
/// that are there by now.
pub fn redrive(row: &Row, number: u64, head: bool, now: Timestamp) -> Option<Row> {
    (row.status == Status::Dead).then(|| Row {
        number,
        status: Status::Pending,
        processed_at: None,
        attempts: 0,
        not_before: now,
        head,
        ..row.clone()
    })
}

/// Whether it has ended and was kept for as long as it is kept.
pub fn is_expired(row: &Row, keep: Keep, now: Timestamp) -> bool {
    let keep_for = match row.status {
        Status::Pending | Status::Doing => return false,
        Status::Done => keep.done_for,
        Status::Dead => keep.dead_for,
    };
    row.processed_at.is_some_and(|at| later(at, keep_for) <= now)
}

/// How often a message is tried, and how far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// After so many attempts it is DEAD.
    pub attempts_max: u32,
    /// After the first failure, it waits about so long; each time twice as long.
    pub first_for: Duration,
    /// It never waits longer.
    pub longest_for: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts_max: 10, first_for: Duration::from_secs(1), longest_for: Duration::from_mins(5) }
    }
}

impl Retry {
    /// What becomes of a row whose attempt failed, the first being 1. The chance spreads the delay over its second half,
    /// so that what failed together does not come back together.
    pub fn after(&self, attempts: u32, error: String, chance: u64) -> Ending {
        if attempts >= self.attempts_max {
            return Ending::Dead { error };
        }
        let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
        let delay = self.first_for.saturating_mul(doubled).min(self.longest_for);
        let half = u64::try_from(delay.as_micros() / 2).unwrap_or(u64::MAX);
        let spread = Duration::from_micros(chance % half.saturating_add(1));
        Ending::Again { error, delay_for: delay / 2 + spread }
    }
}

#[cfg(test)]
mod tests;
