//! Defects that existing implementations have: each breaks one promise, and the checkers object to every one of them.

use bytes::Bytes;
use perdura_idempotency::record::{
    Claim, Claimed, Completion, Ending, Epoch, Grant, Holding, Keep, OperationId, Record, Standing, Takeover,
};
use perdura_idempotency::store::{Store, StoreError, Swept};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::task::yield_now;

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

/// One of them, or none, between a store and whoever asks it.
#[derive(Default)]
pub(crate) struct Defect {
    how: Option<How>,
    notes: Mutex<Notes>,
}

/// What the defects remember.
#[derive(Default)]
struct Notes {
    last_answer: Option<Bytes>,
    completions: u32,
    claimed: BTreeSet<OperationId>,
    seen: HashMap<OperationId, Record>,
    /// The epoch that is told, and the one that it stands for.
    told: HashMap<OperationId, (u64, Epoch)>,
}

impl Defect {
    pub(crate) fn new(how: How) -> Self {
        Self { how: Some(how), notes: Mutex::default() }
    }

    pub(crate) fn is_one(&self) -> bool {
        self.how.is_some()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("nobody panics here")
    }

    /// The epoch under which the store is asked.
    async fn epoch(
        &self,
        store: &dyn Store,
        operation: OperationId,
        shown: Epoch,
        unfenced: How,
    ) -> Result<Epoch, StoreError> {
        if self.how == Some(unfenced) {
            let newest = store.look(operation).await?.map(|record| record.epoch);
            return Ok(newest.unwrap_or(shown));
        }
        if self.how == Some(How::RepeatsEpochsAfterRelease) {
            let told = self.notes().told.get(&operation).copied();
            return Ok(told.filter(|(told, _)| *told == shown.0).map_or(Epoch(0), |(_, meant)| meant));
        }
        Ok(shown)
    }

    fn told_record(&self, operation: OperationId, mut record: Record) -> Record {
        let mut notes = self.notes();
        match self.how {
            Some(How::RepeatsEpochsAfterRelease) => {
                let told = notes.told.get(&operation).map_or(record.epoch.0, |(told, _)| *told);
                record.epoch = Epoch(told);
            }
            Some(How::ReplaysAnotherKeysAnswer) => {
                if let (Standing::Completed { answer, .. }, Some(last)) =
                    (&mut record.standing, &notes.last_answer)
                {
                    *answer = last.clone();
                }
            }
            Some(How::TellsWhatItSawOnce) if matches!(record.standing, Standing::Completed { .. }) => {
                notes.seen.entry(operation).or_insert_with(|| record.clone());
            }
            _ => {}
        }
        record
    }

    fn told_grant(&self, operation: OperationId, mut grant: Grant) -> Grant {
        if self.how == Some(How::RepeatsEpochsAfterRelease) {
            let mut notes = self.notes();
            let (told, meant) = notes.told.entry(operation).or_insert((0, Epoch(0)));
            if *meant != grant.epoch {
                (*told, *meant) = (*told + 1, grant.epoch);
            }
            grant.epoch = Epoch(*told);
        }
        grant
    }

    async fn find_then_create(&self, store: &dyn Store, claim: &Claim) -> Result<Claimed, StoreError> {
        if store.look(claim.operation).await?.is_none() {
            yield_now().await;
            if let Some(record) = store.look(claim.operation).await? {
                store.release(claim.operation, record.epoch).await?;
            }
        }
        store.claim(claim).await
    }

    async fn sweep_what_it_saw(&self, store: &dyn Store, keep: Keep) -> Result<Swept, StoreError> {
        let mut lapsed = Vec::new();
        let claimed = self.notes().claimed.clone();
        for operation in claimed {
            let Some(record) = store.look(operation).await? else { continue };
            if matches!(record.standing, Standing::Running { lease_left: Duration::ZERO }) {
                yield_now().await;
                let (epoch, ending) = (record.epoch, Ending::Unknown);
                store.complete(&Completion { operation, epoch, ending, keep }).await?;
                lapsed.push(operation);
            }
        }
        Ok(Swept { lapsed, ..Swept::default() })
    }

    pub(crate) async fn claim(&self, store: &dyn Store, claim: &Claim) -> Result<Claimed, StoreError> {
        self.notes().claimed.insert(claim.operation);
        let mut claim = claim.clone();
        match self.how {
            Some(How::TakesOverByTimeAlone) => claim.takeover = Takeover::Allowed,
            Some(How::TellsWhatItSawOnce) => {
                if let Some(record) = self.notes().seen.get(&claim.operation) {
                    return Ok(Claimed::Found(record.clone()));
                }
            }
            Some(How::IgnoresTheRequest) => {
                if let Some(record) = store.look(claim.operation).await? {
                    claim.request = record.request;
                }
            }
            _ => {}
        }
        let claimed = match self.how {
            Some(How::FindsThenCreates) => self.find_then_create(store, &claim).await?,
            _ => store.claim(&claim).await?,
        };
        Ok(match claimed {
            Claimed::Granted(grant) => Claimed::Granted(self.told_grant(claim.operation, grant)),
            Claimed::Found(record) => Claimed::Found(self.told_record(claim.operation, record)),
            Claimed::Lapsed(record) => Claimed::Lapsed(self.told_record(claim.operation, record)),
        })
    }

    pub(crate) async fn renew(
        &self,
        store: &dyn Store,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Result<Holding, StoreError> {
        let epoch = self.epoch(store, operation, epoch, How::RenewsWithoutFence).await?;
        store.renew(operation, epoch, lease_for).await
    }

    pub(crate) async fn complete(
        &self,
        store: &dyn Store,
        completion: &Completion,
    ) -> Result<Holding, StoreError> {
        let mut completion = completion.clone();
        let shown = completion.epoch;
        completion.epoch = self.epoch(store, completion.operation, shown, How::CompletesWithoutFence).await?;
        if self.how == Some(How::ForgetsEarly) {
            let Keep { answer_for, tombstone_for } = completion.keep;
            completion.keep = Keep { answer_for: answer_for / 2, tombstone_for: tombstone_for / 2 };
        }
        let drops = {
            let mut notes = self.notes();
            notes.completions += 1;
            if let Ending::Answered(answer) = &completion.ending {
                notes.last_answer = Some(answer.clone());
            }
            self.how == Some(How::AcknowledgesAndDrops) && notes.completions.is_multiple_of(3)
        };
        if drops {
            return store.renew(completion.operation, completion.epoch, Duration::from_secs(30)).await;
        }
        store.complete(&completion).await
    }

    pub(crate) async fn release(
        &self,
        store: &dyn Store,
        operation: OperationId,
        epoch: Epoch,
    ) -> Result<Holding, StoreError> {
        let epoch = self.epoch(store, operation, epoch, How::ReleasesWithoutFence).await?;
        let holding = store.release(operation, epoch).await?;
        if holding == Holding::Held {
            self.notes().told.remove(&operation);
        }
        Ok(holding)
    }

    pub(crate) async fn look(
        &self,
        store: &dyn Store,
        operation: OperationId,
    ) -> Result<Option<Record>, StoreError> {
        let record = store.look(operation).await?;
        Ok(record.map(|record| self.told_record(operation, record)))
    }

    pub(crate) async fn sweep(
        &self,
        store: &dyn Store,
        records_max: u32,
        keep: Keep,
    ) -> Result<Swept, StoreError> {
        match self.how {
            Some(How::SweepsWhatItSaw) => self.sweep_what_it_saw(store, keep).await,
            _ => store.sweep(records_max, keep).await,
        }
    }
}
