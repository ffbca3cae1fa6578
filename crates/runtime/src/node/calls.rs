//! The calls of one execution that are under way here.

use super::LiveCall;
use perdura_engine::{Attempt, By, Call, EffectKey, StrandId};
use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct Calls {
    /// Calls that this process makes, until their answer is decided upon: a Turn before that must not repeat them.
    live: BTreeSet<LiveCall>,
    /// Children that are being started, until that is decided upon.
    starting: BTreeSet<(StrandId, EffectKey)>,
}

impl Calls {
    /// Those that an earlier node of this process made.
    pub(super) fn of(live: Vec<LiveCall>) -> Self {
        Self { live: live.into_iter().collect(), starting: BTreeSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.starting.is_empty()
    }

    /// Those whose answers are still to come.
    pub(super) fn live(&self) -> &BTreeSet<LiveCall> {
        &self.live
    }

    /// The same, for the next node of this process.
    pub(super) fn into_live(self) -> Vec<LiveCall> {
        self.live.into_iter().collect()
    }

    /// A call is to be made. `false`: it is under way already, and its answer will come.
    pub(super) fn begin(&mut self, call: &Call) -> bool {
        self.live.insert((call.strand, call.key.clone(), call.attempt))
    }

    /// Its answer has come, and is not on disk.
    pub(super) fn keep(&mut self, by: &By) {
        if let By::Key { strand, key, attempt: Some(attempt) } = by {
            self.live.insert((*strand, key.clone(), *attempt));
        }
    }

    /// A child is to be started.
    pub(super) fn begin_child(&mut self, strand: StrandId, key: EffectKey) {
        self.starting.insert((strand, key));
    }

    /// Whether it still is.
    pub(super) fn begins_child(&self, strand: StrandId, key: &EffectKey) -> bool {
        self.starting.contains(&(strand, key.clone()))
    }

    /// Whether this process makes the call that this answers.
    pub(super) fn is_live(&self, by: &By) -> bool {
        match by {
            By::Key { strand, key, attempt: Some(attempt) } => {
                self.live.contains(&(*strand, key.clone(), *attempt))
            }
            By::Key { attempt: None, .. } | By::Token(_) => false,
        }
    }

    /// A call is not under way any more.
    pub(super) fn answered(&mut self, by: &By) {
        let By::Key { strand, key, attempt } = by else { return };
        // Not all of them are looked at: a Map may have tens of thousands.
        if let Some(attempt) = attempt {
            self.live.remove(&(*strand, key.clone(), *attempt));
        } else {
            let first = (*strand, key.clone(), Attempt(0));
            let is_its = |(of, under, _): &&LiveCall| (of, under) == (strand, key);
            let its: Vec<LiveCall> = self.live.range(first..).take_while(is_its).cloned().collect();
            for call in &its {
                self.live.remove(call);
            }
        }
        if !self.starting.is_empty() {
            self.starting.remove(&(*strand, key.clone()));
        }
    }
}
