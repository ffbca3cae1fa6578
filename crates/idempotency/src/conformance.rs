//! The conformance suite: promises that every [`Store`] must keep, ours and those of other crates.
//!
//! One table has the result of each verb in each state; [`table`] tests it cell by cell. Promises that the table cannot
//! express have functions of their own: concurrency, two instances, limits. [`CHECKS`] lists all of them, and
//! [`store_conformance!`](crate::store_conformance) makes a test of each for one kind of store. A store under test
//! needs a [`Bench`]. No check waits on a real clock: the bench moves the time, and a store whose clock runs by itself
//! may be slower than the suite by seconds before an answer changes.

pub mod ending;
pub mod granting;
pub mod keeping;
pub mod random;
pub mod serving;
pub mod sweeping;
pub mod table;

use crate::record::{
    Claim, Claimed, Completion, Ending, Epoch, Grant, Holding, Keep, OperationId, Record, RequestTag,
    ScopeTag, Standing, Takeover,
};
use crate::store::{Pending, Store, Swept};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A store under test: empty at first, and not shared.
pub struct Bench {
    here: Arc<dyn Store>,
    there: Arc<dyn Store>,
    hears_others: bool,
    step: Step,
}

/// Moves the store's clock by this much, forwards or back. The closure also owns resources of the bench, such as a
/// folder or a server.
pub type Step = Box<dyn Fn(SignedDuration) -> Pending<'static, ()> + Send + Sync>;

impl Bench {
    /// Two instances on the same data, as two processes would open it. `hears_others`: whether one of them is notified
    /// of the other's changes, or must poll.
    pub fn new([here, there]: [Arc<dyn Store>; 2], hears_others: bool, step: Step) -> Self {
        Self { here, there, hears_others, step }
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.here.clone()
    }

    /// The second instance.
    pub fn another(&self) -> Arc<dyn Store> {
        self.there.clone()
    }

    /// Moves the store's clock forwards by this much.
    pub async fn pass(&self, time: Duration) {
        (self.step)(SignedDuration::try_from(time).expect("checks pass less than a lifetime")).await;
    }
}

/// One promise.
pub type Check = for<'a> fn(&'a Bench) -> Pending<'a, ()>;

/// Every promise, under its name.
pub const CHECKS: &[(&str, Check)] = crate::store_conformance!(@names list);

/// Makes one test of each promise. The argument is a function that makes a [`Bench`], as a future. The calling crate
/// needs tokio with `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! store_conformance {
    (@names $($then:tt)+) => {
        $crate::store_conformance! { @$($then)+ =>
            table: the_table_is_followed;
            granting: a_claim_is_granted_once_among_many, the_same_claim_at_once_is_granted_once,
                epochs_grow_and_never_repeat, operations_do_not_mix, a_renewed_lease_holds_from_then_on,
                a_stepped_clock_makes_no_second_holder;
            ending: answers_of_any_size_come_back, another_instance_sees_what_was_done,
                many_ends_at_once_are_one_end;
            keeping: nothing_expires_while_it_runs, retention_counts_from_the_end,
                an_answer_is_never_given_after_it_expired, a_tombstone_goes_too,
                unknown_outcomes_have_tombstones_too, an_erased_answer_is_gone_and_the_rest_stays,
                a_sweep_is_bounded, a_sweep_leaves_what_is_kept, retention_without_end_is_kept;
            serving: one_secret_is_agreed_on, what_is_not_there_is_not_found, an_end_wakes_who_waits,
                an_end_elsewhere_is_heard_or_found, a_transaction_is_given_where_it_is_promised;
            sweeping: a_sweep_and_a_claim_find_a_lapse_once, a_renewal_at_the_same_time_wins_or_loses,
                a_sweep_wakes_who_waits, what_lapsed_is_kept_as_long_as_the_sweep_said,
                a_sweep_bounds_lapses_and_the_rest_together, unknown_outcomes_are_listed_in_order,
                only_what_is_unknown_is_listed, after_everything_ended_nothing_is_left;
            random: random_sequences_follow_the_rules;
        }
    };
    (@list => $($module:ident: $($name:ident),+;)+) => {
        &[$($((stringify!($name), |bench| Box::pin($module::$name(bench)))),+),+]
    };
    (@tests $make:expr => $($module:ident: $($name:ident),+;)+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let bench = ($make)().await;
                $crate::conformance::$module::$name(&bench).await;
            }
        )+)+
    };
    ($make:expr) => { $crate::store_conformance! { @names tests $make } };
}

/// The lease of every claim in the suite.
pub const LEASE_FOR: Duration = Duration::from_secs(30);
/// How long answers are kept in the suite.
const ANSWER_FOR: Duration = Duration::from_hours(2);
/// How long tombstones are kept, if there are any.
const TOMBSTONE_FOR: Duration = Duration::from_hours(24);
/// Checks look at a boundary from this far on either side: a store's own clock may run meanwhile.
const NEAR: Duration = Duration::from_secs(10);
/// Keeps answers, and no tombstones.
pub const KEEP: Keep = Keep { answer_for: ANSWER_FOR, tombstone_for: Duration::ZERO };

pub fn operation(n: u64) -> OperationId {
    OperationId::from_hash((u128::from(n) << 64 | u128::from(!n)).to_be_bytes())
}

/// One of several requests.
fn request(n: u8) -> RequestTag {
    RequestTag([n; 32])
}

/// A claim of the n-th claimant that must not take over.
pub fn claim(operation: OperationId, claimant: u64) -> Claim {
    Claim {
        operation,
        scope: ScopeTag([7; 16]),
        request: request(1),
        claimant: Uuid::from_u128(u128::from(claimant)),
        lease_for: LEASE_FOR,
        takeover: Takeover::Never,
        keep: KEEP,
    }
}

/// The same claim, allowed to take over.
pub fn take(operation: OperationId, claimant: u64) -> Claim {
    Claim { takeover: Takeover::Allowed, ..claim(operation, claimant) }
}

/// A completion with this answer.
pub fn answered(operation: OperationId, epoch: Epoch, answer: impl Into<Bytes>) -> Completion {
    Completion { operation, epoch, ending: Ending::Answered(answer.into()), keep: KEEP }
}

fn unknown(operation: OperationId, epoch: Epoch) -> Completion {
    Completion { operation, epoch, ending: Ending::Unknown, keep: KEEP }
}

/// A store as its user sees it: an error fails the check.
struct Desk(Arc<dyn Store>);

impl Desk {
    fn of(bench: &Bench) -> Self {
        Self(bench.store())
    }

    async fn claim(&self, claim: &Claim) -> Claimed {
        self.0.claim(claim).await.expect("claiming")
    }

    async fn granted(&self, claim: &Claim) -> Grant {
        match self.claim(claim).await {
            Claimed::Granted(grant) => grant,
            Claimed::Found(record) | Claimed::Lapsed(record) => {
                panic!("should be granted, was found: {record:?}")
            }
        }
    }

    async fn found(&self, claim: &Claim) -> Record {
        match self.claim(claim).await {
            Claimed::Found(record) | Claimed::Lapsed(record) => record,
            Claimed::Granted(grant) => panic!("should be found, was granted: {grant:?}"),
        }
    }

    /// The record that a claim finds as the first to notice an expired lease.
    async fn lapsed(&self, claim: &Claim) -> Record {
        match self.claim(claim).await {
            Claimed::Lapsed(record) => record,
            other @ (Claimed::Found(_) | Claimed::Granted(_)) => panic!("should have lapsed: {other:?}"),
        }
    }

    /// The answer that a claim finds.
    async fn answer(&self, claim: &Claim) -> Bytes {
        match self.found(claim).await.standing {
            Standing::Completed { answer, .. } => answer,
            other => panic!("should be completed, is {other:?}"),
        }
    }

    async fn complete(&self, completion: &Completion) -> Holding {
        self.0.complete(completion).await.expect("completing")
    }

    async fn release(&self, operation: OperationId, epoch: Epoch) -> Holding {
        self.0.release(operation, epoch).await.expect("releasing")
    }

    async fn renew(&self, operation: OperationId, epoch: Epoch) -> Holding {
        self.0.renew(operation, epoch, LEASE_FOR).await.expect("renewing")
    }

    async fn look(&self, operation: OperationId) -> Option<Record> {
        self.0.look(operation).await.expect("looking")
    }

    async fn standing(&self, operation: OperationId) -> Standing {
        self.look(operation).await.expect("a record is there").standing
    }

    async fn erase(&self, operation: OperationId) -> bool {
        self.0.erase(operation).await.expect("erasing")
    }

    /// One sweep, with the retention of the suite.
    async fn sweep(&self, records_max: u32) -> Swept {
        let swept = self.0.sweep(records_max, KEEP).await.expect("sweeping");
        assert!(swept.count() <= u64::from(records_max), "{swept:?} is more than {records_max}");
        swept
    }

    /// Sweeps until there is nothing left to sweep.
    async fn sweep_all(&self) {
        let mut rounds = 0;
        while self.sweep(1_000).await != Swept::default() {
            rounds += 1;
            assert!(rounds < 1_000, "sweeping comes to an end");
        }
    }

    /// The operations with an unknown outcome, with their records.
    async fn unknown(&self, limit: u32) -> Vec<(OperationId, Record)> {
        self.0.unknown(limit).await.expect("listing")
    }

    /// An operation with this answer.
    async fn completed(&self, operation: OperationId, answer: &'static str, keep: Keep) -> Grant {
        let grant = self.granted(&claim(operation, 1)).await;
        let completion = Completion { keep, ..answered(operation, grant.epoch, answer) };
        assert_eq!(self.complete(&completion).await, Holding::Held);
        grant
    }
}

/// Checks the distance of two times, allowing for the store's running clock.
fn assert_apart(from: Timestamp, to: Timestamp, apart: Duration) {
    let seconds = to.duration_since(from).as_secs_f64() - apart.as_secs_f64();
    assert!(seconds.abs() < NEAR.as_secs_f64(), "{to} is {apart:?} after {from}");
}
