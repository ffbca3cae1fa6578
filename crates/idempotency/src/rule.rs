//! What a record allows: the rules of the store, without a store.
//!
//! The request is compared before anything else. Whoever asks for something different under the same key learns that
//! it conflicts and nothing more, and changes nothing: a lease that ran out is not taken over by another request.
//!
//! A lease that ran out leaves the outcome unknown, whoever notices it first: a claim that may not take over, or a sweep.
//! A holder whose lease ran out while nobody took it over may still tell the end, also after the outcome was marked
//! unknown: nobody else ran, so what it tells is the truth, late. Once there is a newer grant it may not.
//!
#![doc = include_str!("rule/table.md")]

use crate::record::{
    Claim, Claimed, Ending, Epoch, Grant, Holding, Keep, Record, RequestTag, ScopeTag, Standing, Takeover,
};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use uuid::Uuid;

/// A record as it is stored: with the instants that the rules compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose it is.
    pub scope: ScopeTag,
    /// What was asked.
    pub request: RequestTag,
    /// Who was granted it last.
    pub claimant: Uuid,
    /// The newest grant.
    pub epoch: Epoch,
    /// Whether the newest grant took over what somebody else began.
    pub taken_over: bool,
    /// When it began first.
    pub first_at: Timestamp,
    /// Where it stands.
    pub state: State,
}

/// Where a stored record stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Held until then.
    Running {
        /// When the lease runs out.
        until: Timestamp,
    },
    /// Begun; what came of it is not known.
    Unknown(Kept),
    /// Ended, with the sealed answer, or without it once that was erased or swept.
    Completed(Kept, Option<Bytes>),
}

/// Since when, and until when, an end is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// When it ended.
    pub at: Timestamp,
    /// When the answer is no longer given.
    pub expires_at: Timestamp,
    /// When the record is no longer there.
    pub gone_at: Timestamp,
}

impl Kept {
    /// Kept from `now` on.
    pub fn from(now: Timestamp, keep: Keep) -> Self {
        let expires_at = later(now, keep.answer_for);
        Self { at: now, expires_at, gone_at: later(expires_at, keep.tombstone_for) }
    }
}

/// So much later, or the end of time.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

impl Row {
    /// Whether the record is still there at this moment: nothing expires while it runs.
    pub fn is_there(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Running { .. } => true,
            State::Unknown(kept) | State::Completed(kept, _) => now < kept.gone_at,
        }
    }

    /// When a sweep has something to do here: when the lease runs out, the answer expires, the record is gone.
    pub fn sweep_at(&self) -> Timestamp {
        match &self.state {
            State::Running { until } => *until,
            State::Completed(kept, Some(_)) => kept.expires_at,
            State::Unknown(kept) | State::Completed(kept, None) => kept.gone_at,
        }
    }

    /// Since when its outcome is unknown, where it is.
    pub fn unknown_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::Unknown(kept) => Some(kept.at),
            State::Running { .. } | State::Completed(..) => None,
        }
    }

    /// With an unknown outcome from now on, under the epoch that it has.
    fn lapsed(&self, keep: Keep, now: Timestamp) -> Self {
        Self { state: State::Unknown(Kept::from(now, keep)), ..self.clone() }
    }

    /// The record as it is told at this moment.
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

/// What a verb leaves in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// What was there.
    Nothing,
    /// This row.
    Put(Row),
    /// No row.
    Remove,
}

/// What a claim comes to. `next` is the epoch that a grant would carry; it is used up only if the answer is a grant
/// with that epoch.
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

/// The row of the one who shows this epoch, if it still is the newest.
fn held(row: Option<&Row>, epoch: Epoch, now: Timestamp) -> Option<&Row> {
    row.filter(|row| row.epoch == epoch && row.is_there(now))
}

/// The holder wants its lease to last `lease_for` from now.
pub fn renew(row: Option<&Row>, epoch: Epoch, lease_for: Duration, now: Timestamp) -> (Holding, Write) {
    match held(row, epoch, now) {
        Some(row @ Row { state: State::Running { .. }, .. }) => {
            let renewed = Row { state: State::Running { until: later(now, lease_for) }, ..row.clone() };
            (Holding::Held, Write::Put(renewed))
        }
        Some(_) | None => (Holding::Lost, Write::Nothing),
    }
}

/// The holder tells the end. Told again, the first counts.
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

/// The holder says that nothing was done.
pub fn release(row: Option<&Row>, epoch: Epoch, now: Timestamp) -> (Holding, Write) {
    match held(row, epoch, now).map(|row| &row.state) {
        Some(State::Running { .. } | State::Unknown(_)) => (Holding::Held, Write::Remove),
        Some(State::Completed(..)) | None => (Holding::Lost, Write::Nothing),
    }
}

/// Somebody wants the answer gone. Whether there was one is told as if a sweep had just been here; what a sweep left
/// lying goes too.
pub fn erase(row: Option<&Row>, now: Timestamp) -> (bool, Write) {
    match row {
        Some(row @ Row { state: State::Completed(kept, Some(_)), .. }) => {
            let erased = Row { state: State::Completed(*kept, None), ..row.clone() };
            (now < kept.expires_at, Write::Put(erased))
        }
        Some(_) | None => (false, Write::Nothing),
    }
}

/// What expired goes: the whole record, or the answer where a tombstone stays. A lease that ran out leaves the outcome
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
