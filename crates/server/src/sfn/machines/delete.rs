//! Deleting a machine, which takes as long as its executions take to end.

use crate::sfn::Api;
use crate::sfn::catalog::Change;
use crate::sfn::error::ApiError;
use crate::sfn::locate::MachineArn;
use crate::sfn::requested::Requested;
use perdura_engine::asl::json::Value;
use perdura_engine::{ExecutionId, Fault, Input, Status};
use perdura_runtime::InputError;
use perdura_runtime::card::{Card, is_deleting};
use perdura_store::{Filter, Head, MachineId};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use tokio::task::JoinSet;

/// How many executions are stopped between two reads of the list.
const STOPPED_AT_ONCE: u32 = 100;
/// How many executions without a row are asked for.
const YOUNG_MAX: u32 = 100_000;
/// How many machines are read at once. Their cards can be large.
const HEADS_AT_ONCE: u32 = 100;

/// Deletes a machine: it takes no more starts, its running executions are stopped, and then it goes. Deleting one that
/// does not exist is no error.
pub(in crate::sfn) async fn delete(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("stateMachineArn");
    let name: Arc<str> = MachineArn::plain(&api.0.arns, arn)?.into();
    let Ok(()) = api.delete_machine(name, |_| Ok::<(), Infallible>(())).await?;
    Ok(Value::empty_object())
}

/// A machine that one task is deleting. A second task could go on after the first is done, and stop executions of a
/// machine that was created with the same name since.
struct Ending<'a> {
    api: &'a Api,
    name: Arc<str>,
}

impl<'a> Ending<'a> {
    /// `None`: another task is deleting it.
    fn take(api: &'a Api, name: &Arc<str>) -> Option<Self> {
        let mut ending = api.0.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.insert(name.clone()).then(|| Self { api, name: name.clone() })
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.api.0.ending.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

impl Api {
    /// Deletes a machine, unless the check of what it is then refuses that.
    pub(crate) async fn delete_machine<E: Send + 'static>(
        &self,
        name: Arc<str>,
        check: impl Fn(Option<&Head>) -> Result<(), E> + Send + 'static,
    ) -> Result<Result<(), E>, ApiError> {
        let marked = name.clone();
        let checked = self.changing(move |api| {
            let refused = Cell::new(None);
            let entry = api.change(&marked, |seen| {
                if let Err(error) = check(seen.map(|entry| &entry.head)) {
                    refused.set(Some(error));
                    return Ok(None);
                }
                let Some(entry) = seen.filter(|entry| !entry.card.deleting) else { return Ok(None) };
                Ok(Some(Change::card(Card { deleting: true, ..entry.card.clone() })))
            })?;
            Ok(refused.into_inner().map_or(Ok(entry.is_some()), Err))
        });
        let is_marked = match checked.await? {
            Ok(is_marked) => is_marked,
            Err(error) => return Ok(Err(error)),
        };
        if is_marked {
            let api = self.clone();
            tokio::spawn(async move {
                if let Err(error) = api.end_machine(name.clone()).await {
                    tracing::warn!(machine = %name, %error, "not deleted yet; it is tried again at the next start");
                }
            });
        }
        Ok(Ok(()))
    }

    /// Goes on with deletions that an earlier process did not finish.
    pub async fn go_on_deleting(&self) -> Result<(), ApiError> {
        let mut after: Option<Arc<str>> = None;
        loop {
            let from = after.clone();
            let heads = self.read(move |reader| reader.heads(from.as_deref(), HEADS_AT_ONCE)).await?;
            let Some(last) = heads.last() else { return Ok(()) };
            after = Some(last.name.clone());
            for head in heads {
                if is_deleting(&head) {
                    // The others are still deleted.
                    if let Err(error) = self.end_machine(head.name.clone()).await {
                        tracing::warn!(machine = %head.name, %error, "still being deleted");
                    }
                }
            }
        }
    }

    /// Stops the executions of a machine that is being deleted, and then deletes it.
    async fn end_machine(&self, name: Arc<str>) -> Result<(), ApiError> {
        let Some(_ending) = Ending::take(self, &name) else { return Ok(()) };
        let Some(entry) = self.machine(&name).await?.filter(|entry| entry.card.deleting) else {
            return Ok(());
        };
        let mut stuck = BTreeSet::new();
        // An execution that falls asleep or wakes between two reads may be in neither: read again until none is left.
        while self.stop_all(entry.head.machine, &mut stuck).await? > 0 {}
        self.changing(move |api| {
            api.change(&name, |seen| {
                let is_deleting = seen.is_some_and(|entry| entry.card.deleting);
                Ok(is_deleting.then(|| Change { revision: None, card: Box::new(|_| None) }))
            })?;
            // Another machine of this name is not paused.
            api.door().resume(&name)?;
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Stops the running executions of a machine that it finds, and returns how many. Those that cannot be stopped are
    /// added to `stuck`, and not tried again.
    async fn stop_all(
        &self,
        machine: MachineId,
        stuck: &mut BTreeSet<ExecutionId>,
    ) -> Result<usize, ApiError> {
        let mut stopped = 0;
        let filter = Filter { machine: Some(machine), status: Some(Status::Running), ..Filter::default() };
        let mut found = self.door().young(&filter, None, YOUNG_MAX).await?;
        let mut after = None;
        loop {
            let filter = filter.clone();
            let page = self.read(move |reader| reader.list(&filter, after, STOPPED_AT_ONCE)).await?;
            after = page.next;
            found.extend(page.rows);
            // Together, so that they share their commits.
            let mut stopping = JoinSet::new();
            for execution in found.drain(..).map(|summary| summary.execution) {
                if !stuck.contains(&execution) {
                    let door = self.door().clone();
                    let stop = Input::Stop { fault: Fault::default() };
                    stopping.spawn(async move { (execution, door.input(execution, stop).await) });
                }
            }
            for (execution, taken) in stopping.join_all().await {
                match taken {
                    Ok(taken) => stopped += usize::from(taken.ignored.is_none()),
                    Err(error @ (InputError::Parked(_) | InputError::Unknown)) => {
                        // It is parked or gone; the others are still stopped.
                        tracing::warn!(%execution, %error, "not stopped");
                        stuck.insert(execution);
                    }
                    Err(error @ (InputError::Unavailable(_) | InputError::TooMany(_))) => {
                        return Err(error.into());
                    }
                }
            }
            if after.is_none() {
                return Ok(stopped);
            }
        }
    }
}
