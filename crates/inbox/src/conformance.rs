//! The promises of every [`Store`]: one suite, run on our stores and on those of others.
//!
//! [`CHECKS`] lists all of them, and [`store_conformance!`](crate::store_conformance) makes a test of each for one kind of store. A store under
//! test needs a [`Bench`]. Nothing here waits on a real clock: time goes on where the bench lets it, and a store whose clock goes
//! on by itself may be slower than the suite by many seconds before an answer changes.

pub mod claiming;
pub mod ending;
pub mod keeping;
pub mod ordering;
pub mod putting;
pub mod random;

use crate::row::{
    Address, Claim, Ending, Epoch, Held, Holding, Message, Name, Named, Put, Receipt, Redriven, Row, Status,
};
use crate::store::{Pending, Store};
use jiff::SignedDuration;
use std::sync::Arc;
use std::time::Duration;

/// A store under test: empty when it is made, and nobody else's.
pub struct Bench {
    here: Arc<dyn Store>,
    there: Arc<dyn Store>,
    step: Step,
}

/// Makes the store's clock go on by this much. What the bench needs for as long as it lasts, a folder or a server, is kept in here.
pub type Step = Box<dyn Fn(SignedDuration) -> Pending<'static, ()> + Send + Sync>;

impl Bench {
    /// Two instances on the same data, as two processes would open it.
    pub fn new([here, there]: [Arc<dyn Store>; 2], step: Step) -> Self {
        Self { here, there, step }
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.here.clone()
    }

    /// The second instance.
    pub fn another(&self) -> Arc<dyn Store> {
        self.there.clone()
    }

    /// Lets the store's clock go on by this much.
    pub async fn pass(&self, time: Duration) {
        (self.step)(SignedDuration::try_from(time).expect("checks pass less than a lifetime")).await;
    }
}

/// One promise.
pub type Check = for<'a> fn(&'a Bench) -> Pending<'a, ()>;

/// Every promise, under its name.
pub const CHECKS: &[(&str, Check)] = crate::store_conformance!(@names list);

/// Makes one test of each promise. The argument is a function that makes a [`Bench`], as a future. Whoever calls it depends on
/// tokio with `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! store_conformance {
    (@names $($then:tt)+) => {
        $crate::store_conformance! { @$($then)+ =>
            putting: a_message_is_taken_in_once, another_message_under_its_id_is_a_conflict,
                ids_belong_to_an_inbox_and_a_tenant, many_copies_at_once_are_one_row, payloads_come_back_as_they_were;
            claiming: rows_are_claimed_oldest_first, a_row_is_claimed_once_among_many, a_claim_is_made_by_name,
                a_claim_by_name_is_made_once_among_many, a_delayed_message_waits, tenants_share_a_claim,
                a_noisy_tenant_does_not_hold_up_a_quiet_one, epochs_grow_and_never_repeat;
            ending: a_failed_row_comes_back_after_its_delay, a_done_row_is_never_claimed_again,
                done_told_twice_is_done_once, a_stale_claim_changes_nothing, another_owner_changes_nothing,
                a_lease_that_runs_out_returns_the_row, a_renewed_lease_holds_from_then_on,
                leases_are_renewed_together_and_the_lost_are_told, a_message_that_kills_its_workers_dies,
                a_late_end_counts_while_nobody_took_the_row, a_lapse_is_bounded;
            ordering: one_row_of_an_ordering_key_at_a_time, a_failing_head_blocks_its_key_alone,
                a_dead_head_makes_way, a_lapsed_head_stays_the_head, a_redriven_row_comes_last_of_its_key,
                keys_of_two_tenants_are_two_keys, puts_and_ends_of_one_key_leave_nobody_waiting;
            keeping: rows_are_listed_in_pages_and_counted, what_is_doing_for_long_is_stuck,
                only_a_dead_row_is_redriven, a_sweep_is_bounded_and_leaves_what_is_open,
                an_id_is_known_until_its_row_is_swept;
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

/// The lease of every claim here.
pub const LEASE_FOR: Duration = Duration::from_mins(10);
/// A boundary is looked at from this far on either side: a store's own clock may go on meanwhile.
const NEAR: Duration = Duration::from_mins(1);
/// How often a row is tried here.
const ATTEMPTS_MAX: u32 = 3;

/// A name.
pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// A row of the default tenant here.
pub fn address(id: &str) -> Address {
    of_tenant("t", id)
}

fn of_tenant(tenant: &str, id: &str) -> Address {
    Address { inbox: name("in"), tenant: name(tenant), id: name(id) }
}

/// A message of this id.
pub fn put(id: &str) -> Put {
    Put::new(address(id), id.to_owned())
}

/// One of this ordering key.
pub fn keyed(id: &str, key: &str) -> Put {
    Put { ordering_key: Some(name(key)), ..put(id) }
}

/// A worker wants so many rows.
pub fn wish(owner: &str, limit: u32) -> Claim {
    Claim { inbox: name("in"), owner: name(owner), limit, lease_for: LEASE_FOR, after: None }
}

fn again(delay_for: Duration) -> Ending {
    Ending::Again { error: "it failed".into(), delay_for }
}

fn dead() -> Ending {
    Ending::Dead { error: "it is no use".into() }
}

/// The ids of rows, in order.
fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.row.address.id.as_str()).collect()
}

fn held(message: &Message) -> Held {
    message.held().expect("it was claimed")
}

/// A store that is there, as its user sees it: an error fails the check.
struct Desk(Arc<dyn Store>);

impl Desk {
    fn of(bench: &Bench) -> Self {
        Self(bench.store())
    }

    async fn put(&self, put: &Put) -> Receipt {
        self.0.put(put).await.expect("putting")
    }

    async fn accepted(&self, put: &Put) -> Row {
        match self.put(put).await {
            Receipt::Accepted(row) => row,
            Receipt::Duplicate(row) | Receipt::Conflict(row) => panic!("should be new, was found: {row:?}"),
        }
    }

    /// Messages of these ids, in this order; time passes in between.
    async fn accept_all(&self, ids: &[&str]) {
        for id in ids {
            self.accepted(&put(id)).await;
        }
    }

    async fn claim(&self, claim: &Claim) -> Vec<Message> {
        self.0.claim(claim).await.expect("claiming")
    }

    /// The one row that a claim of many gets.
    async fn only(&self, owner: &str) -> Message {
        let mut claimed = self.claim(&wish(owner, 10)).await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        claimed.remove(0)
    }

    async fn named(&self, address: &Address, owner: &str) -> Named {
        self.0.claim_named(address, &wish(owner, 1)).await.expect("claiming")
    }

    async fn beat(&self, held: &[Held]) -> Vec<Epoch> {
        self.0.beat(held, LEASE_FOR).await.expect("renewing")
    }

    async fn end(&self, held: &Held, ending: &Ending) -> Holding {
        self.0.end(held, ending).await.expect("ending")
    }

    /// It holds the row, and ends it so.
    async fn ended(&self, message: &Message, ending: &Ending) {
        assert_eq!(self.end(&held(message), ending).await, Holding::Held, "{message:?}");
    }

    async fn lapse(&self) -> Vec<Row> {
        self.0.lapse(&name("in"), ATTEMPTS_MAX, 100).await.expect("looking for lapsed leases")
    }

    async fn row(&self, address: &Address) -> Row {
        self.0.look(address).await.expect("looking").expect("it is there").row
    }

    async fn status(&self, id: &str) -> Status {
        self.row(&address(id)).await.status
    }

    async fn redrive(&self, address: &Address) -> Redriven {
        self.0.redrive(address).await.expect("redriving")
    }
}
