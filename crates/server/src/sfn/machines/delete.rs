//! Deleting a machine, which takes as long as its executions take to end.

use crate::sfn::Api;
use crate::sfn::card::Card;
use crate::sfn::catalog::Change;
use crate::sfn::error::ApiError;
use crate::sfn::locate::MachineArn;
use crate::sfn::requested::Requested;
use perdura_engine::asl::json::Value;
use perdura_engine::{Fault, Input, Status};
use perdura_store::Filter;
use std::sync::Arc;

/// How many executions are stopped between two looks at a list.
const STOPPED_AT_ONCE: u32 = 100;
/// How many of those that lists do not show yet are asked for.
const YOUNG_MAX: usize = 100_000;
/// How many machines are looked at at once.
const HEADS_AT_ONCE: u32 = 1_000;

/// Deletes a machine: it takes no more executions, those that run are ended, and then it goes. One that is not there
/// is gone already.
pub(in crate::sfn) async fn delete(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("stateMachineArn");
    let name: Arc<str> = MachineArn::plain(arn)?.into();
    let marked = name.clone();
    let entry = api
        .blocking(move |api| {
            api.change(&marked, |seen| {
                let Some(entry) = seen.filter(|entry| !entry.card.deleting) else { return Ok(None) };
                Ok(Some(Change::card(Card { deleting: true, ..entry.card.clone() })))
            })
        })
        .await?;
    if entry.is_some() {
        let api = api.clone();
        tokio::spawn(async move {
            if let Err(error) = api.end_machine(name.clone()).await {
                tracing::warn!(machine = %name, %error, "not deleted yet; it is tried again at the next start");
            }
        });
    }
    Ok(Value::empty_object())
}

impl Api {
    /// Goes on with what was being deleted when the process ended.
    pub async fn go_on_deleting(&self) -> Result<(), ApiError> {
        let mut after: Option<Arc<str>> = None;
        loop {
            let from = after.clone();
            let heads = self.read(move |reader| reader.heads(from.as_deref(), HEADS_AT_ONCE)).await?;
            let Some(last) = heads.last() else { return Ok(()) };
            after = Some(last.name.clone());
            for head in heads {
                let is_deleting = serde_json::from_str(&head.card).is_ok_and(|card: Card| card.deleting);
                if is_deleting {
                    self.end_machine(head.name).await?;
                }
            }
        }
    }

    /// Ends what runs of a machine that is being deleted, and then the machine.
    async fn end_machine(&self, name: Arc<str>) -> Result<(), ApiError> {
        let Some(entry) = self.machine(&name).await? else { return Ok(()) };
        let machine = entry.head.machine;
        let mut after = None;
        loop {
            let filter =
                Filter { machine: Some(machine), status: Some(Status::Running), ..Filter::default() };
            let mut running = self.read(move |reader| reader.list(&filter, after, STOPPED_AT_ONCE)).await?;
            if after.is_none() {
                running.extend(self.0.door.young(machine, YOUNG_MAX).await);
            }
            let Some(last) = running.last() else { break };
            after = Some((last.started_at, last.execution));
            for summary in running {
                let taken =
                    self.0.door.input(summary.execution, Input::Stop { fault: Fault::default() }).await;
                if let Err(error) = taken {
                    // A parked one does not move any more; the others are ended all the same.
                    tracing::warn!(execution = %summary.execution, %error, "not stopped");
                }
            }
        }
        self.blocking(move |api| {
            api.change(&name, |seen| {
                let is_deleting = seen.is_some_and(|entry| entry.card.deleting);
                Ok(is_deleting.then(|| Change { revision: None, card: Box::new(|_| None) }))
            })
        })
        .await?;
        Ok(())
    }
}
