//! The rule: the result of each verb on a record, without a store.
//!
//! The request is compared before anything else. A different request under the same key learns only that it conflicts,
//! and changes nothing: another request never takes over an expired lease.
//!
//! An expired lease leaves the outcome unknown; the first claim that may not take over, or the first sweep, records
//! that. A holder whose lease expired without a takeover may still complete the operation, even after the outcome was
//! marked unknown: no other process ran, so its late answer is true. Once there is a newer grant it may not.
//!
#![doc = include_str!("rule/table.md")]

use crate::record::{
    Claim, Claimed, Ending, Epoch, Grant, Holding, Keep, Record, RequestTag, ScopeTag, Standing, Takeover,
};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use uuid::Uuid;

/// A stored record, with the instants that the rules compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub scope: ScopeTag,
    pub request: RequestTag,
    /// The claimant of the newest grant.
    pub claimant: Uuid,
    /// The newest grant.
    pub epoch: Epoch,
    /// Whether the newest grant took over an earlier run.
    pub taken_over: bool,
    /// When it began first.
    pub first_at: Timestamp,
    pub state: State,
}

/// The state of a stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Held until `until`.
    Running {
        /// The end of the lease.
        until: Timestamp,
    },
    /// It began; its outcome is unknown.
    Unknown(Kept),
    /// Ended, with the encrypted answer, or without it once it was erased or swept.
    Completed(Kept, Option<Bytes>),
}

/// How long an end is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// When it ended.
    pub at: Timestamp,
    /// When the answer expires.
    pub expires_at: Timestamp,
    /// When the record expires.
    pub gone_at: Timestamp,
}

impl Kept {
    /// The times for an end at `now`.
    pub fn from(now: Timestamp, keep: Keep) -> Self {
        let expires_at = later(now, keep.answer_for);
        Self { at: now, expires_at, gone_at: later(expires_at, keep.tombstone_for) }
    }
}

/// The later instant, at most the end of time.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

impl Row {
    /// Whether the record still exists at this moment: nothing expires while it runs.
    pub fn is_there(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Running { .. } => true,
            State::Unknown(kept) | State::Completed(kept, _) => now < kept.gone_at,
        }
    }

    /// The next time for a sweep: when the lease runs out, the answer expires, or the record expires.
    pub fn sweep_at(&self) -> Timestamp {
        match &self.state {
            State::Running { until } => *until,
            State::Completed(kept, Some(_)) => kept.expires_at,
            State::Unknown(kept) | State::Completed(kept, None) => kept.gone_at,
        }
    }

    /// Since when its outcome is unknown, if it is.
    pub fn unknown_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::Unknown(kept) => Some(kept.at),
            State::Running { .. } | State::Completed(..) => None,
        }
    }

    /// The row with an unknown outcome from now on, under its epoch.
    fn lapsed(&self, keep: Keep, now: Timestamp) -> Self {
        Self { state: State::Unknown(Kept::from(now, keep)), ..self.clone() }
    }

    /// The record at this moment.
    pub fn record(&self, now: Timestamp) -> Record {
        let standing = match &self.state {
            State::Running { until } => Standing::Running {
                lease_left: Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO),
            },
            State::Unknown(kept) => Standing::Unknown { at: kept.at, expires_at: kept.expires_at },
            State::Completed(kept, Some(answer)) if now < kept.expires_at => {
                Standing::Completed { at: kept.at, expires_at: kept.expires_at, answer: answer.clone() }
            }
            State::Completed(kept, _) => Standing::Expired { at: kept.at },
        };
        Record {
            scope: self.scope,
            request: self.request,
            epoch: self.epoch,
            first_at: self.first_at,
            standing,
        }
    }
}

/// The change in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// No change.
    Nothing,
    /// This row.
    Put(Row),
    /// Remove the row.
    Remove,
}

/// The result of a claim. `next` is the epoch of a new grant; it is used up only if the result is a grant with that
/// epoch.
pub fn claim(row: Option<&Row>, claim: &Claim, next: Epoch, now: Timestamp) -> (Claimed, Write) {
    let Some(row) = row.filter(|row| row.is_there(now)) else { return grant(claim, next, false, now, now) };
    if row.request != claim.request {
        return (Claimed::Found(row.record(now)), Write::Nothing);
    }
    match (&row.state, claim.takeover) {
        (State::Running { .. }, _) if row.claimant == claim.claimant => {
            let grant = Grant { epoch: row.epoch, taken_over: row.taken_over, first_at: row.first_at };
            (Claimed::Granted(grant), Write::Nothing)
        }
        (State::Running { until }, _) if now < *until => (Claimed::Found(row.record(now)), Write::Nothing),
        (State::Running { .. } | State::Unknown(_), Takeover::Allowed) => {
            grant(claim, next, true, row.first_at, now)
        }
        (State::Running { .. }, Takeover::Never) => {
            let lapsed = row.lapsed(claim.keep, now);
            (Claimed::Lapsed(lapsed.record(now)), Write::Put(lapsed))
        }
        (State::Unknown(_), Takeover::Never) | (State::Completed(..), _) => {
            (Claimed::Found(row.record(now)), Write::Nothing)
        }
    }
}

fn grant(
    claim: &Claim,
    epoch: Epoch,
    taken_over: bool,
    first_at: Timestamp,
    now: Timestamp,
) -> (Claimed, Write) {
    let row = Row {
        scope: claim.scope,
        request: claim.request,
        claimant: claim.claimant,
        epoch,
        taken_over,
        first_at,
        state: State::Running { until: later(now, claim.lease_for) },
    };
    (Claimed::Granted(Grant { epoch, taken_over, first_at }), Write::Put(row))
}

/// The row, if it exists and its epoch is this one.
fn held(row: Option<&Row>, epoch: Epoch, now: Timestamp) -> Option<&Row> {
    row.filter(|row| row.epoch == epoch && row.is_there(now))
}

/// Renews the lease to last `lease_for` from now.
pub fn renew(row: Option<&Row>, epoch: Epoch, lease_for: Duration, now: Timestamp) -> (Holding, Write) {
    match held(row, epoch, now) {
        Some(row @ Row { state: State::Running { .. }, .. }) => {
            let renewed = Row { state: State::Running { until: later(now, lease_for) }, ..row.clone() };
            (Holding::Held, Write::Put(renewed))
        }
        Some(_) | None => (Holding::Lost, Write::Nothing),
    }
}

/// Completes the operation. If it is completed again, the first end counts.
pub fn complete(
    row: Option<&Row>,
    epoch: Epoch,
    ending: &Ending,
    keep: Keep,
    now: Timestamp,
) -> (Holding, Write) {
    let Some(row) = held(row, epoch, now) else { return (Holding::Lost, Write::Nothing) };
    let kept = Kept::from(now, keep);
    let state = match (&row.state, ending) {
        (State::Completed(..), _) => return (Holding::Held, Write::Nothing),
        (State::Running { .. } | State::Unknown(_), Ending::Answered(answer)) => {
            State::Completed(kept, Some(answer.clone()))
        }
        (State::Running { .. } | State::Unknown(_), Ending::Unknown) => State::Unknown(kept),
    };
    (Holding::Held, Write::Put(Row { state, ..row.clone() }))
}

/// Releases the operation: nothing was done.
pub fn release(row: Option<&Row>, epoch: Epoch, now: Timestamp) -> (Holding, Write) {
    match held(row, epoch, now).map(|row| &row.state) {
        Some(State::Running { .. } | State::Unknown(_)) => (Holding::Held, Write::Remove),
        Some(State::Completed(..)) | None => (Holding::Lost, Write::Nothing),
    }
}

/// Erases the answer. The result is as if a sweep had just run; an expired answer that no sweep has removed yet goes
/// too.
pub fn erase(row: Option<&Row>, now: Timestamp) -> (bool, Write) {
    match row {
        Some(row @ Row { state: State::Completed(kept, Some(_)), .. }) => {
            let erased = Row { state: State::Completed(*kept, None), ..row.clone() };
            (now < kept.expires_at, Write::Put(erased))
        }
        Some(_) | None => (false, Write::Nothing),
    }
}

/// Removes expired data: the whole record, or the answer if a tombstone stays. An expired lease leaves the outcome
/// unknown, `keep` from now on.
pub fn sweep(row: &Row, keep: Keep, now: Timestamp) -> Write {
    match &row.state {
        _ if !row.is_there(now) => Write::Remove,
        State::Running { until } if now >= *until => Write::Put(row.lapsed(keep, now)),
        State::Completed(kept, Some(_)) if now >= kept.expires_at => {
            Write::Put(Row { state: State::Completed(*kept, None), ..row.clone() })
        }
        State::Running { .. } | State::Unknown(_) | State::Completed(..) => Write::Nothing,
    }
}

#[cfg(test)]
mod tests;
