//! The one store that fails: where a test wants it to, by an error, by silence, or by breaking a promise. It remembers
//! what it was asked.

mod defect;

pub(crate) use defect::How;

use bytes::Bytes;
use defect::Defect;
use http::Extensions;
use perdura_idempotency::record::{
    Claim, Claimed, Completion, Ending, Epoch, Grant, Holding, Keep, OperationId, Record, Standing,
};
use perdura_idempotency::store::{Pending, Store, StoreError, Swept, Transaction};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// What can be asked of a store, as far as a test breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Agree,
    Claim,
    Renew,
    Complete,
    Release,
    Look,
    Begin,
    Commit,
}

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does nothing, and says that it cannot be reached.
    Down,
    /// It does what it was asked, and the answer is lost.
    Mute,
    /// It never answers, and does nothing.
    Stuck,
    /// The record turns out to be damaged.
    Damaged,
}

/// What is wrong by now, and what was asked so far.
#[derive(Default)]
struct Notes {
    /// How each fails, and how often still.
    faults: HashMap<Verb, (Fault, usize)>,
    asked: Vec<(Verb, Option<OperationId>)>,
    given: Vec<u8>,
    served: Option<Bytes>,
}

/// The store with its faults.
pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    notes: Arc<Mutex<Notes>>,
    defect: Defect,
    /// What happens between a look and whatever follows from it.
    looked: OnceLock<Box<dyn Fn() -> Pending<'static, ()> + Send + Sync>>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::with(inner, Defect::default())
    }

    /// It breaks this promise.
    pub(crate) fn defective(inner: Arc<dyn Store>, how: How) -> Arc<Self> {
        Self::with(inner, Defect::new(how))
    }

    fn with(inner: Arc<dyn Store>, defect: Defect) -> Arc<Self> {
        Arc::new(Self { inner, notes: Arc::default(), defect, looked: OnceLock::new() })
    }

    /// After each look at it, something happens.
    pub(crate) fn after_looks(&self, happens: impl Fn() -> Pending<'static, ()> + Send + Sync + 'static) {
        assert!(self.looked.set(Box::new(happens)).is_ok(), "only one thing happens");
    }

    /// From now on, this verb fails so.
    pub(crate) fn fail(&self, verb: Verb, fault: Fault) {
        self.notes.lock().unwrap().faults.insert(verb, (fault, usize::MAX));
    }

    /// The next time, this verb fails so.
    pub(crate) fn fail_once(&self, verb: Verb, fault: Fault) {
        self.notes.lock().unwrap().faults.insert(verb, (fault, 1));
    }

    /// From now on, nothing answers.
    pub(crate) fn go_down(&self) {
        for verb in
            [Verb::Claim, Verb::Renew, Verb::Complete, Verb::Release, Verb::Look, Verb::Begin, Verb::Commit]
        {
            self.fail(verb, Fault::Down);
        }
    }

    /// From now on, all is well.
    pub(crate) fn mend(&self) {
        self.notes.lock().unwrap().faults.clear();
    }

    /// How often this was asked.
    pub(crate) fn asked(&self, verb: Verb) -> usize {
        self.verbs().into_iter().filter(|asked| *asked == verb).count()
    }

    /// All that was asked, in order.
    pub(crate) fn verbs(&self) -> Vec<Verb> {
        self.notes.lock().unwrap().asked.iter().map(|(verb, _)| *verb).collect()
    }

    /// The operations that it was asked for since this was called last.
    pub(crate) fn take_asked_for(&self) -> BTreeSet<OperationId> {
        let asked = std::mem::take(&mut self.notes.lock().unwrap().asked);
        asked.into_iter().filter_map(|(_, operation)| operation).collect()
    }

    /// Every byte that it was given to keep.
    pub(crate) fn given(&self) -> Vec<u8> {
        self.notes.lock().unwrap().given.clone()
    }

    /// The operation that was claimed last.
    pub(crate) fn operation(&self) -> OperationId {
        let notes = self.notes.lock().unwrap();
        let mut claims = notes.asked.iter().filter(|(verb, _)| *verb == Verb::Claim);
        claims.next_back().and_then(|(_, operation)| *operation).expect("something was claimed")
    }

    /// From now on, claims find this answer in place of the one that is kept.
    pub(crate) fn serve(&self, answer: Option<Bytes>) {
        self.notes.lock().unwrap().served = answer;
    }
}

fn take_note(notes: &Mutex<Notes>, completion: &Completion) {
    let mut notes = notes.lock().unwrap();
    notes.given.extend(format!("{completion:?}").into_bytes());
    match &completion.ending {
        Ending::Answered(answer) => notes.given.extend(Bytes::clone(answer)),
        Ending::Unknown => {}
    }
}

/// Does it, unless this verb fails.
async fn unless_broken<T>(
    notes: Arc<Mutex<Notes>>,
    verb: Verb,
    operation: Option<OperationId>,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let fault = {
        let mut notes = notes.lock().unwrap();
        notes.asked.push((verb, operation));
        let failing = notes.faults.get_mut(&verb).filter(|(_, left)| *left > 0);
        failing.map(|(fault, left)| {
            *left -= 1;
            *fault
        })
    };
    match (fault, operation) {
        (None, _) => work.await,
        (Some(Fault::Stuck), _) => std::future::pending().await,
        (Some(Fault::Mute), _) => {
            work.await?;
            Err(StoreError::Unavailable("the answer was lost on purpose".into()))
        }
        (Some(Fault::Damaged), Some(operation)) => {
            Err(StoreError::Corrupt { operation, what: "on purpose".into() })
        }
        (Some(Fault::Down | Fault::Damaged), _) => Err(StoreError::Unavailable("down on purpose".into())),
    }
}

impl Store for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn agree(&self, check: [u8; 16]) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(unless_broken(self.notes.clone(), Verb::Agree, None, self.inner.agree(check)))
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>> {
        self.notes.lock().unwrap().given.extend(format!("{claim:?}").into_bytes());
        let claimed = self.defect.claim(&*self.inner, claim);
        let claimed = unless_broken(self.notes.clone(), Verb::Claim, Some(claim.operation), claimed);
        Box::pin(async move {
            let mut claimed = claimed.await?;
            if let Claimed::Found(Record { standing: Standing::Completed { answer, .. }, .. }) = &mut claimed
                && let Some(served) = self.notes.lock().unwrap().served.clone()
            {
                *answer = served;
            }
            Ok(claimed)
        })
    }

    fn renew(
        &self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Pending<'_, Result<Holding, StoreError>> {
        let renewal = self.defect.renew(&*self.inner, operation, epoch, lease_for);
        Box::pin(unless_broken(self.notes.clone(), Verb::Renew, Some(operation), renewal))
    }

    fn complete<'a>(&'a self, completion: &'a Completion) -> Pending<'a, Result<Holding, StoreError>> {
        take_note(&self.notes, completion);
        let completed = self.defect.complete(&*self.inner, completion);
        let operation = Some(completion.operation);
        Box::pin(unless_broken(self.notes.clone(), Verb::Complete, operation, completed))
    }

    fn release(&self, operation: OperationId, epoch: Epoch) -> Pending<'_, Result<Holding, StoreError>> {
        let released = self.defect.release(&*self.inner, operation, epoch);
        Box::pin(unless_broken(self.notes.clone(), Verb::Release, Some(operation), released))
    }

    fn look(&self, operation: OperationId) -> Pending<'_, Result<Option<Record>, StoreError>> {
        let looked = async move {
            let found = self.defect.look(&*self.inner, operation).await;
            if let Some(happens) = self.looked.get() {
                happens().await;
            }
            found
        };
        Box::pin(unless_broken(self.notes.clone(), Verb::Look, Some(operation), looked))
    }

    fn glance(&self, operation: OperationId) -> Option<Record> {
        let notes = self.notes.lock().unwrap();
        if self.defect.is_one()
            || self.looked.get().is_some()
            || [Verb::Look, Verb::Claim].iter().any(|verb| notes.faults.contains_key(verb))
        {
            return None;
        }
        let mut record = self.inner.glance(operation)?;
        if let (Standing::Completed { answer, .. }, Some(served)) = (&mut record.standing, &notes.served) {
            *answer = served.clone();
        }
        Some(record)
    }

    fn erase(&self, operation: OperationId) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.erase(operation)
    }

    fn sweep(&self, records_max: u32, keep: Keep) -> Pending<'_, Result<Swept, StoreError>> {
        Box::pin(self.defect.sweep(&*self.inner, records_max, keep))
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
        let begun = self.inner.begin(operation, grant, extensions);
        let begun = unless_broken(self.notes.clone(), Verb::Begin, Some(operation), begun);
        Box::pin(async move {
            let transaction = begun.await?;
            let notes = self.notes.clone();
            Ok(transaction.map(|inner| Box::new(FaultyTransaction { inner, notes }) as Box<dyn Transaction>))
        })
    }

    fn shares_transactions(&self) -> bool {
        self.inner.shares_transactions()
    }
}

struct FaultyTransaction {
    inner: Box<dyn Transaction>,
    notes: Arc<Mutex<Notes>>,
}

impl Transaction for FaultyTransaction {
    fn complete(self: Box<Self>, completion: Completion) -> Pending<'static, Result<Holding, StoreError>> {
        take_note(&self.notes, &completion);
        let operation = Some(completion.operation);
        Box::pin(unless_broken(self.notes, Verb::Commit, operation, self.inner.complete(completion)))
    }

    fn roll_back(self: Box<Self>) -> Pending<'static, Result<(), StoreError>> {
        self.inner.roll_back()
    }
}
