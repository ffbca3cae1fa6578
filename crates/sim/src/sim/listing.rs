//! Lists at any moment: acknowledged executions are in them, and running ones are not shown as ended.

use super::{Happening, Sim};
use crate::clients::{Told, Wish};
use crate::observed::Life;
use crate::sabotage::Sabotage;
use perdura_engine::ExecutionId;
use perdura_runtime::{Message, Reply, Young};
use perdura_store::Filter;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// More than any run has.
const MOST: u32 = 1_000;

/// A requested list.
pub(super) struct Listing {
    /// The executions that must be in it.
    acknowledged: Vec<ExecutionId>,
    /// The process's executions without rows.
    told: Arc<Mutex<Option<Young>>>,
}

impl Sim {
    /// Requests a list soon, with a probability in a thousand.
    pub(super) fn list_soon(&mut self, in_thousand: u32) {
        if self.dice.in_thousand(in_thousand) {
            let soon = self.dice.between(0..=1_500);
            self.after(soon, Happening::List);
        }
    }

    /// Requests a list. With several processes, one may have lost its Shards without knowing it, and cannot know which
    /// executions run.
    pub(super) fn list(&mut self) {
        let is_alone = self.processes.len() == 1 && self.processes[0].serves();
        if !is_alone {
            return;
        }
        let acknowledged = self.requests.iter().filter_map(|request| match (&request.wish, &request.told) {
            (Wish::Start(_), Some(Told::Started(Ok(started)))) => Some(started.execution),
            _ => None,
        });
        let told: Arc<Mutex<Option<Young>>> = Arc::default();
        self.listing = Some(Listing { acknowledged: acknowledged.collect(), told: told.clone() });
        let reply = Reply::new(move |young| {
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(young);
        });
        let (filter, most) = (Filter::default(), MOST as usize);
        let life = Life { process: 0, boot: self.processes[0].boot };
        self.post(life, Message::Young { filter, after: None, most, reply });
    }

    /// Checks the last list once it is complete.
    pub(super) fn hear_list(&mut self) {
        let Some(listing) = &self.listing else { return };
        let young = listing.told.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut young) = young else { return };
        let Some(Listing { acknowledged, .. }) = self.listing.take() else { return };
        self.facts.count("lists");
        if matches!(self.sabotage, Some(Sabotage::ListsOfRows | Sabotage::RedrivesLeaveRows)) {
            young = Young::default();
        }
        let filter = Filter::default();
        let rows = self.home.reader().list(&filter, None, MOST).expect("what was written can be read");
        let listed = filter.complete(rows, young.seen, None, MOST).rows;
        // A list asks again for these when their commit is done.
        let busy: BTreeSet<ExecutionId> = young.busy.into_iter().collect();
        let known: BTreeSet<ExecutionId> =
            listed.iter().map(|summary| summary.execution).chain(busy.iter().copied()).collect();
        for id in acknowledged {
            if !known.contains(&id) && !self.swept.contains_key(&id) {
                self.facts.complaints.push(format!("{id} was acknowledged and is in no list"));
            }
        }
        for summary in listed.iter().filter(|summary| summary.status.is_ended()) {
            let id = summary.execution;
            if !busy.contains(&id) && self.disk().observed.is_running(id) {
                self.facts.complaints.push(format!("a list says that {id} has ended, and it runs"));
            }
        }
    }
}
