//! Stores that each break one promise, as existing implementations do. The checker objects to every one of them.

use crate::client::{KEYS, operation};
use crate::world::pause;
use bytes::Bytes;
use http::Extensions;
use perdura_idempotency::record::{
    Claim, Claimed, Completion, Ending, Epoch, Grant, Holding, Keep, OperationId, Record, Standing, Takeover,
};
use perdura_idempotency::store::{Memory, Pending, Store, StoreError, Swept, Transaction};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// Which promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Whoever completes is believed, whatever its epoch.
    CompletesWithoutFence,
    /// Whoever releases is believed.
    ReleasesWithoutFence,
    /// Whoever renews is believed.
    RenewsWithoutFence,
    /// Counts grants per record, and begins again after a release.
    RepeatsEpochsAfterRelease,
    /// Looks whether there is a record, and makes one if not.
    FindsThenCreates,
    /// Gives the answer that was stored last, whose ever it is.
    ReplaysAnotherKeysAnswer,
    /// Takes over when the time is up, also where a second run is not allowed.
    TakesOverByTimeAlone,
    /// Says that an answer is stored, and stores every third one not.
    AcknowledgesAndDrops,
    /// Keeps answers for half as long as it was told.
    ForgetsEarly,
    /// Remembers what it saw of a completed record, and tells that from then on.
    TellsWhatItSawOnce,
    /// Does not compare what is asked.
    IgnoresTheRequest,
    /// Looks for leases that ran out, and then sweeps what it saw, whatever came in between.
    SweepsWhatItSaw,
}

impl How {
    pub(crate) const ALL: [Self; 12] = [
        Self::CompletesWithoutFence,
        Self::ReleasesWithoutFence,
        Self::RenewsWithoutFence,
        Self::RepeatsEpochsAfterRelease,
        Self::FindsThenCreates,
        Self::ReplaysAnotherKeysAnswer,
        Self::TakesOverByTimeAlone,
        Self::AcknowledgesAndDrops,
        Self::ForgetsEarly,
        Self::TellsWhatItSawOnce,
        Self::IgnoresTheRequest,
        Self::SweepsWhatItSaw,
    ];
}

/// A memory with one defect.
pub(crate) struct Broken {
    inner: Memory,
    how: How,
    notes: Mutex<Notes>,
}

/// What the defects remember.
#[derive(Default)]
struct Notes {
    last_answer: Option<Bytes>,
    completions: u32,
    seen: HashMap<OperationId, Record>,
    /// The epoch that is told, and the one that it stands for.
    told: HashMap<OperationId, (u64, Epoch)>,
}

impl Broken {
    pub(crate) fn new(inner: Memory, how: How) -> Self {
        Self { inner, how, notes: Mutex::default() }
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().expect("nobody panics here")
    }

    /// The epoch under which the memory is asked.
    async fn epoch(&self, operation: OperationId, shown: Epoch, unfenced: How) -> Result<Epoch, StoreError> {
        if self.how == unfenced {
            let newest = self.inner.look(operation).await?.map(|record| record.epoch);
            return Ok(newest.unwrap_or(shown));
        }
        if self.how == How::RepeatsEpochsAfterRelease {
            let told = self.notes().told.get(&operation).copied();
            return Ok(told.filter(|(told, _)| *told == shown.0).map_or(Epoch(0), |(_, meant)| meant));
        }
        Ok(shown)
    }

    fn told_record(&self, operation: OperationId, mut record: Record) -> Record {
        let mut notes = self.notes();
        match self.how {
            How::RepeatsEpochsAfterRelease => {
                let told = notes.told.get(&operation).map_or(record.epoch.0, |(told, _)| *told);
                record.epoch = Epoch(told);
            }
            How::ReplaysAnotherKeysAnswer => {
                if let (Standing::Completed { answer, .. }, Some(last)) =
                    (&mut record.standing, &notes.last_answer)
                {
                    *answer = last.clone();
                }
            }
            How::TellsWhatItSawOnce if matches!(record.standing, Standing::Completed { .. }) => {
                notes.seen.entry(operation).or_insert_with(|| record.clone());
            }
            _ => {}
        }
        record
    }

    fn told_grant(&self, operation: OperationId, mut grant: Grant) -> Grant {
        if self.how == How::RepeatsEpochsAfterRelease {
            let mut notes = self.notes();
            let (told, meant) = notes.told.entry(operation).or_insert((0, Epoch(0)));
            if *meant != grant.epoch {
                (*told, *meant) = (*told + 1, grant.epoch);
            }
            grant.epoch = Epoch(*told);
        }
        grant
    }

    async fn find_then_create(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        if self.inner.look(claim.operation).await?.is_none() {
            pause().await;
            if let Some(record) = self.inner.look(claim.operation).await? {
                self.inner.release(claim.operation, record.epoch).await?;
            }
        }
        self.inner.claim(claim).await
    }
}

impl Broken {
    async fn sweep_what_it_saw(&self, keep: Keep) -> Result<Swept, StoreError> {
        let mut lapsed = Vec::new();
        for operation in (0..KEYS).map(|key| operation(0, key)) {
            let Some(record) = self.inner.look(operation).await? else { continue };
            if matches!(record.standing, Standing::Running { lease_left: Duration::ZERO }) {
                pause().await;
                let (epoch, ending) = (record.epoch, Ending::Unknown);
                self.inner.complete(&Completion { operation, epoch, ending, keep }).await?;
                lapsed.push(operation);
            }
        }
        Ok(Swept { lapsed, ..Swept::default() })
    }
}

impl Store for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn agree(&self, check: [u8; 16]) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.agree(check)
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>> {
        Box::pin(async move {
            let mut claim = claim.clone();
            match self.how {
                How::TakesOverByTimeAlone => claim.takeover = Takeover::Allowed,
                How::TellsWhatItSawOnce => {
                    if let Some(record) = self.notes().seen.get(&claim.operation) {
                        return Ok(Claimed::Found(record.clone()));
                    }
                }
                How::IgnoresTheRequest => {
                    if let Some(record) = self.inner.look(claim.operation).await? {
                        claim.request = record.request;
                    }
                }
                _ => {}
            }
            let claimed = match self.how {
                How::FindsThenCreates => self.find_then_create(&claim).await?,
                _ => self.inner.claim(&claim).await?,
            };
            Ok(match claimed {
                Claimed::Granted(grant) => Claimed::Granted(self.told_grant(claim.operation, grant)),
                Claimed::Found(record) => Claimed::Found(self.told_record(claim.operation, record)),
                Claimed::Lapsed(record) => Claimed::Lapsed(self.told_record(claim.operation, record)),
            })
        })
    }

    fn renew(
        &self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            let epoch = self.epoch(operation, epoch, How::RenewsWithoutFence).await?;
            self.inner.renew(operation, epoch, lease_for).await
        })
    }

    fn complete<'a>(&'a self, completion: &'a Completion) -> Pending<'a, Result<Holding, StoreError>> {
        Box::pin(async move {
            let mut completion = completion.clone();
            let shown = completion.epoch;
            completion.epoch = self.epoch(completion.operation, shown, How::CompletesWithoutFence).await?;
            if self.how == How::ForgetsEarly {
                let Keep { answer_for, tombstone_for } = completion.keep;
                completion.keep = Keep { answer_for: answer_for / 2, tombstone_for: tombstone_for / 2 };
            }
            let drops = {
                let mut notes = self.notes();
                notes.completions += 1;
                if let Ending::Answered(answer) = &completion.ending {
                    notes.last_answer = Some(answer.clone());
                }
                self.how == How::AcknowledgesAndDrops && notes.completions.is_multiple_of(3)
            };
            if drops {
                return self
                    .inner
                    .renew(completion.operation, completion.epoch, Duration::from_secs(30))
                    .await;
            }
            self.inner.complete(&completion).await
        })
    }

    fn release(&self, operation: OperationId, epoch: Epoch) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            let epoch = self.epoch(operation, epoch, How::ReleasesWithoutFence).await?;
            let holding = self.inner.release(operation, epoch).await?;
            if holding == Holding::Held {
                self.notes().told.remove(&operation);
            }
            Ok(holding)
        })
    }

    fn look(&self, operation: OperationId) -> Pending<'_, Result<Option<Record>, StoreError>> {
        Box::pin(async move {
            let record = self.inner.look(operation).await?;
            Ok(record.map(|record| self.told_record(operation, record)))
        })
    }

    fn erase(&self, operation: OperationId) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.erase(operation)
    }

    fn sweep(&self, records_max: u32, keep: Keep) -> Pending<'_, Result<Swept, StoreError>> {
        Box::pin(async move {
            match self.how {
                How::SweepsWhatItSaw => self.sweep_what_it_saw(keep).await,
                _ => self.inner.sweep(records_max, keep).await,
            }
        })
    }

    fn unknown(&self, limit: u32) -> Pending<'_, Result<Vec<(OperationId, Record)>, StoreError>> {
        self.inner.unknown(limit)
    }

    fn changed(&self, operation: OperationId) -> Pending<'static, ()> {
        self.inner.changed(operation)
    }

    fn begin<'a>(
        &'a self,
        operation: OperationId,
        grant: Grant,
        extensions: &'a mut Extensions,
    ) -> Pending<'a, Result<Option<Box<dyn Transaction>>, StoreError>> {
        self.inner.begin(operation, grant, extensions)
    }

    fn shares_transactions(&self) -> bool {
        false
    }
}
