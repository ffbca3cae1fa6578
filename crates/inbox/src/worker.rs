//! A worker: claims rows, has each worked behind its lease, and ends it.
//!
//! Beside that it renews the leases of all its rows in one statement, takes rows away from workers that are gone, tells of rows that
//! are stuck, and sweeps. All workers do that for all, so nobody has to be the one who does.

use crate::inbox::Inbox;
use crate::lease::{Fence, Fenced, Leases};
use crate::log;
use crate::row::{Ending, Held, Holding, Message, Name, ROWS_MAX};
use crate::rule;
use crate::store::{Store, StoreError};
use crate::work::{Handler, Worked};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

/// How often rows are taken away from workers that are gone.
const LAPSE_EVERY: Duration = Duration::from_millis(500);
/// How often what is stuck is told, and what has ended for long is swept.
const TIDY_EVERY: Duration = Duration::from_mins(1);
/// A sweep removes so many rows per commit: whoever else writes comes in between.
const SWEEP_SLICE: u32 = 100;
/// Before an end is offered again that the store did not take, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// A worker of an inbox. Dropped, it claims no more; what it works is worked to its end.
pub struct Worker {
    owner: Name,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Worker {
    pub(crate) fn start<S: Store + ?Sized>(inbox: Inbox<S>, handler: impl Handler<S>) -> Self {
        let owner = fresh_owner();
        let (stop, stopped) = watch::channel(false);
        let leases = Leases::new(inbox.settings().lease_for);
        let run = Run { inbox, handler: Arc::new(handler), owner: owner.clone(), leases };
        Self { owner, stop, task: tokio::spawn(run.run(stopped)) }
    }

    /// The owner of the rows that it works.
    pub fn owner(&self) -> &Name {
        &self.owner
    }

    /// Claims no more, and waits for what it works.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // It panics with nobody's work: those panics are caught and counted.
        drop(self.task.await);
    }
}

/// No other worker's name: an abandoned attempt cannot be taken for its successor's.
fn fresh_owner() -> Name {
    let chance = getrandom::u64().unwrap_or_default();
    Name::new(&format!("{}-{chance:016x}", std::process::id())).expect("digits and a dash are a name")
}

struct Run<S: ?Sized, H> {
    inbox: Inbox<S>,
    handler: Arc<H>,
    owner: Name,
    leases: Leases,
}

impl<S: Store + ?Sized, H: Handler<S>> Run<S, H> {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut upkeep = JoinSet::new();
        upkeep.spawn(beat(self.inbox.clone(), self.leases.clone()));
        upkeep.spawn(lapse(self.inbox.clone()));
        upkeep.spawn(tidy(self.inbox.clone()));
        let mut working = JoinSet::new();
        self.claim_and_work(&mut working, &mut stopped).await;
        while working.join_next().await.is_some() {}
    }

    async fn claim_and_work(&self, working: &mut JoinSet<()>, stopped: &mut watch::Receiver<bool>) {
        let bell = self.inbox.store().bell();
        let rows_max = self.inbox.settings().rows_max.max(1) as usize;
        let mut after = None;
        loop {
            let mut heard = std::pin::pin!(bell.notified());
            heard.as_mut().enable();
            let places = rows_max - working.len();
            let claimed = if places > 0 { self.claim(places, &mut after, working).await } else { 0 };
            if *stopped.borrow() {
                return;
            }
            if claimed > 0 && working.len() < rows_max {
                continue;
            }
            let is_full = working.len() >= rows_max;
            tokio::select! {
                biased;
                _ = stopped.changed() => return,
                Some(_) = working.join_next() => {}
                () = heard, if !is_full => {}
                () = tokio::time::sleep(self.inbox.settings().poll_for), if !is_full => {}
            }
            while working.try_join_next().is_some() {}
        }
    }

    /// Claims for the places that are free, and begins.
    async fn claim(&self, places: usize, after: &mut Option<Name>, working: &mut JoinSet<()>) -> usize {
        let limit = u32::try_from(places).unwrap_or(ROWS_MAX);
        let claim = crate::row::Claim { after: after.clone(), ..self.inbox.wish(&self.owner, limit) };
        let asked_at = Instant::now();
        let claimed = match self.inbox.claim(&claim).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(inbox = %self.inbox.name(), %error, "nothing could be claimed");
                Vec::new()
            }
        };
        *after = rule::served_last(after.as_ref(), claimed.iter().map(|message| &message.row.address.tenant));
        let count = claimed.len();
        for message in claimed {
            let Some(held) = message.held() else { continue };
            let fence = self.leases.enter(held.clone(), asked_at);
            working.spawn(one(self.inbox.clone(), self.handler.clone(), message, held, fence));
        }
        count
    }
}

/// One attempt at one row.
async fn one<S: Store + ?Sized, H: Handler<S>>(
    inbox: Inbox<S>,
    handler: Arc<H>,
    message: Message,
    held: Held,
    fence: Fence,
) {
    let attempts = message.row.attempts;
    let work = async { handler.work(&**inbox.store(), message, &held).await };
    let ending = match fence.around(work).await {
        Fenced::ToItsEnd(Ok(Worked::Done)) => Ending::Done,
        Fenced::ToItsEnd(Ok(Worked::Ended(Holding::Held))) => return log::done(&held),
        Fenced::ToItsEnd(Ok(Worked::Ended(Holding::Lost))) | Fenced::Stopped => return log::lost(&held),
        Fenced::ToItsEnd(Ok(Worked::Failed(failed))) if failed.for_good => {
            Ending::Dead { error: failed.error }
        }
        Fenced::ToItsEnd(Ok(Worked::Failed(failed))) => inbox.after(attempts, &failed.error),
        Fenced::Panicked => inbox.after(attempts, "the handler panicked"),
        // What came of the work is not known, so nothing is said about it. The lease runs out.
        Fenced::ToItsEnd(Err(error)) => {
            let crate::row::Address { inbox, tenant, id } = &held.address;
            tracing::warn!(%inbox, %tenant, %id, %error, "it is not known whether the work was committed");
            return;
        }
    };
    if fence.around(end(&inbox, &held, &ending)).await == Fenced::Stopped {
        log::lost(&held);
    }
}

/// Offers the end until the store takes it. The fence ends that: then the lease does.
async fn end<S: Store + ?Sized>(inbox: &Inbox<S>, held: &Held, ending: &Ending) {
    let [mut pause, longest] = PAUSES;
    while let Err(error) = inbox.end(held, ending).await {
        tracing::warn!(%error, "an end is offered again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Renews all leases of the worker, three times in each.
async fn beat<S: Store + ?Sized>(inbox: Inbox<S>, leases: Leases) {
    let every = (inbox.settings().lease_for / 3).max(Duration::from_millis(1));
    let mut ticks = ticks(every);
    loop {
        ticks.tick().await;
        let held = leases.held();
        let asked_at = Instant::now();
        for held in held.chunks(ROWS_MAX as usize) {
            match tokio::time::timeout(every, inbox.beat(held)).await {
                Ok(Ok(still)) => leases.renewed(held, &still, asked_at),
                Ok(Err(error)) => tracing::warn!(inbox = %inbox.name(), %error, "leases were not renewed"),
                Err(_) => tracing::warn!(inbox = %inbox.name(), "leases were not renewed in time"),
            }
        }
    }
}

async fn lapse<S: Store + ?Sized>(inbox: Inbox<S>) {
    let mut ticks = ticks(LAPSE_EVERY);
    loop {
        ticks.tick().await;
        if let Err(error) = inbox.lapse().await {
            tracing::warn!(inbox = %inbox.name(), %error, "leases that ran out were not looked for");
        }
    }
}

async fn tidy<S: Store + ?Sized>(inbox: Inbox<S>) {
    let mut ticks = ticks(TIDY_EVERY);
    loop {
        ticks.tick().await;
        if let Err(error) = tidy_once(&inbox).await {
            tracing::warn!(inbox = %inbox.name(), %error, "what was stuck or kept for long was not looked for");
        }
    }
}

async fn tidy_once<S: Store + ?Sized>(inbox: &Inbox<S>) -> Result<(), StoreError> {
    inbox.stuck().await?.iter().for_each(log::stuck);
    while inbox.sweep(SWEEP_SLICE).await? == u64::from(SWEEP_SLICE) {}
    Ok(())
}

/// The first after so long: what begins now needs none of it yet.
fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
