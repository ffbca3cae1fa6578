//! Somebody lists executions at any moment: what was acknowledged is there, and what runs is not said to have ended.

use super::{Happening, Sim};
use crate::clients::{Told, Wish};
use crate::observed::Life;
use crate::sabotage::Sabotage;
use perdura_engine::ExecutionId;
use perdura_runtime::{Message, Reply, Young};
use perdura_store::Filter;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// More than there are.
const MOST: u32 = 1_000;

/// A list that was asked for.
pub(super) struct Listing {
    /// What has to be in it.
    acknowledged: Vec<ExecutionId>,
    /// What the process knows beside the rows.
    told: Arc<Mutex<Option<Young>>>,
}

impl Sim {
    /// Somebody asks for a list soon, so many times in a thousand.
    pub(super) fn list_soon(&mut self, in_thousand: u32) {
        if self.dice.in_thousand(in_thousand) {
            let soon = self.dice.between(0..=1_500);
            self.after(soon, Happening::List);
        }
    }

    /// Somebody asks for a list. Of several processes one may have lost its Shards without knowing it; it cannot know
    /// what runs.
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

    /// Whether the last list is complete, once it is told.
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
        // Of these a list asks once more, when their commit is done.
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
