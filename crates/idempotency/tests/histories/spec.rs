//! What one key promises, as a register that does one thing after the other.
//!
//! At most one grant holds at a time. An answer that was accepted is given to everybody until it expires. Nothing is
//! accepted under a grant that is not the newest. Where nobody may take over, what began is not granted again while
//! anything of it is remembered. Epochs grow.

use crate::tape::{Call, Kept, Place, Reply, Seen};

/// A key, and the clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Register {
    now: i64,
    /// No grant to come has this epoch or a lower one.
    highest: u64,
    holds: Option<Grant>,
}

/// The newest grant that is remembered, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Grant {
    /// `None`: granted to somebody who never heard of it, and not told to anybody yet.
    epoch: Option<u64>,
    request: u8,
    claimant: u64,
    taken_over: bool,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum End {
    NotYet { until: i64 },
    Unknown { gone_at: i64 },
    Answer { answer: Option<u32>, expires_at: i64, gone_at: i64 },
}

impl Register {
    pub(crate) fn new(now: i64) -> Self {
        Self { now, highest: 0, holds: None }
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// After this call, which looked at the clock when it said this.
    pub(crate) fn after_at(&self, now: i64, call: &Call, reply: Option<&Reply>) -> Option<Self> {
        let next = Self { now, ..self.clone() }.after(call, reply)?;
        Some(Self { now: self.now, ..next })
    }

    /// After this call, if the reply is one that may be given here. A reply that nobody heard may be any.
    pub(crate) fn after(&self, call: &Call, reply: Option<&Reply>) -> Option<Self> {
        let mut next = self.clone();
        next.forget();
        let fits = match (call, reply) {
            (Call::Jump { by }, _) => {
                // Forgetting is not done here: where nothing sweeps, a clock that goes back finds what it left.
                return Some(Self { now: self.now + by, ..self.clone() });
            }
            (Call::Claim { .. }, reply) => next.claim(call, reply),
            (Call::Look, reply) => next.is_told(reply),
            (Call::Erase, reply) => {
                // Also of what is overlooked: erased bytes are gone from the store, not only from its answers.
                next.holds.clone_from(&self.holds);
                let erased = next.erase();
                reply.is_none_or(|reply| *reply == Reply::Erased(erased))
            }
            (Call::Sweep { kept }, reply) => {
                // What it does not find is not due, or beyond its bound.
                let finds = reply == Some(&Reply::Lapsed(true));
                !finds || next.lapse(*kept)
            }
            (Call::Renew { epoch, lease_for }, reply) => {
                let until = self.now + lease_for;
                let held = next.change(*epoch, |end| match end {
                    End::NotYet { .. } => Some(End::NotYet { until }),
                    End::Unknown { .. } | End::Answer { .. } => None,
                });
                reply.is_none_or(|reply| *reply == Reply::Held(held))
            }
            (Call::Complete { epoch, answer, kept }, reply) => {
                let ended = self.ended(*answer, *kept);
                let held = next.change(*epoch, |end| match end {
                    End::NotYet { .. } | End::Unknown { .. } => Some(ended),
                    End::Answer { .. } => Some(end.clone()),
                });
                reply.is_none_or(|reply| *reply == Reply::Held(held))
            }
            (Call::Release { epoch }, reply) => {
                let held = next.holds.as_ref().is_some_and(|grant| {
                    grant.epoch == Some(*epoch) && !matches!(grant.end, End::Answer { .. })
                });
                if held {
                    next.holds = None;
                }
                reply.is_none_or(|reply| *reply == Reply::Held(held))
            }
        };
        if !fits {
            return None;
        }
        // What was only overlooked for this call is still there for a clock that goes back.
        if next.holds.is_none() && self.is_gone() && !matches!(call, Call::Claim { .. }) {
            next.holds.clone_from(&self.holds);
        }
        Some(next)
    }

    fn is_gone(&self) -> bool {
        self.holds.as_ref().is_some_and(|grant| match grant.end {
            End::NotYet { .. } => false,
            End::Unknown { gone_at } | End::Answer { gone_at, .. } => self.now >= gone_at,
        })
    }

    fn forget(&mut self) {
        if self.is_gone() {
            self.holds = None;
        }
    }

    fn ended(&self, answer: Option<u32>, kept: Kept) -> End {
        let expires_at = self.now + kept.answer_for;
        let gone_at = expires_at + kept.tombstone_for;
        match answer {
            Some(_) => End::Answer { answer, expires_at, gone_at },
            None => End::Unknown { gone_at },
        }
    }

    /// Whether there is a lease that ran out; what came of it is unknown from now on.
    fn lapse(&mut self, kept: Kept) -> bool {
        let (now, unknown) = (self.now, self.ended(None, kept));
        match &mut self.holds {
            Some(Grant { end, .. }) if matches!(*end, End::NotYet { until } if until <= now) => {
                *end = unknown;
                true
            }
            Some(_) | None => false,
        }
    }

    fn claim(&mut self, call: &Call, reply: Option<&Reply>) -> bool {
        let Call::Claim { claimant, request, takes_over, lease_for, kept } = call else { return false };
        let until = self.now + lease_for;
        let fresh = |taken_over| Grant {
            epoch: None,
            request: *request,
            claimant: *claimant,
            taken_over,
            end: End::NotYet { until },
        };
        let unknown = self.ended(None, *kept);
        let now = self.now;
        let Some(grant) = &mut self.holds else {
            self.holds = Some(fresh(false));
            return self.is_granted(reply);
        };
        if grant.request != *request {
            return self.is_told(reply);
        }
        match grant.end {
            End::NotYet { .. } if grant.claimant == *claimant => self.is_granted(reply),
            End::NotYet { until } if now < until => self.is_told(reply),
            End::NotYet { .. } | End::Unknown { .. } if *takes_over => {
                self.holds = Some(fresh(true));
                self.is_granted(reply)
            }
            End::NotYet { .. } => {
                grant.end = unknown;
                self.is_told(reply)
            }
            End::Unknown { .. } | End::Answer { .. } => self.is_told(reply),
        }
    }

    /// Whether the epoch may be that of the grant. The first to be told fixes it.
    fn is_epoch(&mut self, epoch: u64) -> bool {
        let Some(grant) = &mut self.holds else { return false };
        match grant.epoch {
            Some(known) => known == epoch,
            None if epoch > self.highest => {
                grant.epoch = Some(epoch);
                self.highest = epoch;
                true
            }
            None => false,
        }
    }

    fn is_granted(&mut self, reply: Option<&Reply>) -> bool {
        match reply {
            None => true,
            Some(Reply::Granted { epoch, taken_over }) => {
                self.holds.as_ref().is_some_and(|grant| grant.taken_over == *taken_over)
                    && self.is_epoch(*epoch)
            }
            Some(Reply::Found(_) | Reply::Held(_) | Reply::Erased(_) | Reply::Lapsed(_) | Reply::Jumped) => {
                false
            }
        }
    }

    fn is_told(&mut self, reply: Option<&Reply>) -> bool {
        match (reply, &self.holds) {
            (None, _) | (Some(Reply::Found(None)), None) => true,
            (Some(Reply::Found(Some(seen))), Some(grant)) => {
                let Seen { request, epoch, place } = seen;
                *request == grant.request && *place == grant.place(self.now) && self.is_epoch(*epoch)
            }
            (Some(_), _) => false,
        }
    }

    fn erase(&mut self) -> bool {
        match &mut self.holds {
            Some(Grant { end: End::Answer { answer, expires_at, .. }, .. }) => {
                let had = answer.take().is_some();
                had && self.now < *expires_at
            }
            Some(_) | None => false,
        }
    }

    /// Under the newest grant, and only there.
    fn change(&mut self, epoch: u64, to: impl FnOnce(&End) -> Option<End>) -> bool {
        let Some(grant) = self.holds.as_mut().filter(|grant| grant.epoch == Some(epoch)) else {
            return false;
        };
        let Some(end) = to(&grant.end) else { return false };
        grant.end = end;
        true
    }
}

impl Grant {
    fn place(&self, now: i64) -> Place {
        match &self.end {
            End::NotYet { until } => Place::Running { lapsed: now >= *until },
            End::Unknown { .. } => Place::Unknown,
            End::Answer { answer: Some(answer), expires_at, .. } if now < *expires_at => {
                Place::Answered(*answer)
            }
            End::Answer { .. } => Place::Expired,
        }
    }
}
