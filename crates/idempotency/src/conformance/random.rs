//! Random sequences of verbs, compared with the pure rules.
//!
//! Time moves in steps of ten seconds, and everything expires between two steps, so that a store whose own clock runs
//! on by a second or two gives the same answers. The store chooses epochs; the rules are given its choice, as long as
//! it grows.

use super::{Bench, NEAR, operation, request};
use crate::record::{
    Claim, Claimed, Completion, Ending, Epoch, Holding, Keep, OperationId, Record, ScopeTag, Standing,
    Takeover,
};
use crate::rule::{self, Row, State, Write};
use crate::store::{Store, Swept};
use bytes::Bytes;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The number of sequences, and the length of each.
const SEQUENCES: u64 = 30;
const STEPS: usize = 80;
/// Operations within a sequence: few, so that each is used again and again.
const OPERATIONS: u64 = 3;

/// A seeded random generator.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Throws by this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of the SplitMix64 sequence.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`, which is not zero.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.throw() % sides
    }

    /// One of these, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// The rules, applied to a map, with a clock that stands still.
struct Model {
    rows: BTreeMap<OperationId, Row>,
    now: Timestamp,
    newest: Epoch,
}

impl Model {
    fn write(&mut self, operation: OperationId, write: Write) {
        match write {
            Write::Nothing => {}
            Write::Put(row) => drop(self.rows.insert(operation, row)),
            Write::Remove => drop(self.rows.remove(&operation)),
        }
    }

    /// The expected result of the claim, with the epoch that the store chose.
    fn claim(&mut self, claim: &Claim, told: &Claimed) -> Claimed {
        let next = match told {
            Claimed::Granted(grant) if grant.epoch > self.newest => grant.epoch,
            Claimed::Granted(_) | Claimed::Found(_) | Claimed::Lapsed(_) => Epoch(self.newest.0 + 1),
        };
        let (claimed, write) = rule::claim(self.rows.get(&claim.operation), claim, next, self.now);
        self.write(claim.operation, write);
        if let Claimed::Granted(grant) = claimed {
            self.newest = self.newest.max(grant.epoch);
        }
        claimed
    }

    fn holding(&mut self, operation: OperationId, (holding, write): (Holding, Write)) -> Holding {
        self.write(operation, write);
        holding
    }

    /// The expected effect of a sweep on the records that the store took: all that lapsed, unless its limit stopped it
    /// before.
    fn sweep(&mut self, swept: &Swept, records_max: u32, keep: Keep) {
        let is_due = |row: &Row| matches!(row.state, State::Running { until } if until <= self.now);
        let due: Vec<_> = self.rows.iter().filter(|(_, row)| is_due(row)).map(|(id, _)| *id).collect();
        for operation in &due {
            if swept.lapsed.contains(operation) {
                let write = rule::sweep(&self.rows[operation], keep, self.now);
                self.write(*operation, write);
            } else {
                assert!(swept.count() == u64::from(records_max), "{operation} lapsed: {swept:?}");
            }
        }
        let ours = swept.lapsed.iter().filter(|operation| self.rows.contains_key(operation));
        assert_eq!(ours.filter(|operation| !due.contains(operation)).count(), 0, "{swept:?} has not lapsed");
    }

    /// The unknown outcomes, in no order.
    fn unknown(&self) -> BTreeMap<OperationId, Record> {
        let is_unknown = |row: &&Row| row.is_there(self.now) && matches!(row.state, State::Unknown(_));
        let unknown = self.rows.iter().filter(|(_, row)| is_unknown(row));
        unknown.map(|(operation, row)| (*operation, row.record(self.now))).collect()
    }

    fn look(&self, operation: OperationId) -> Option<Record> {
        self.rows.get(&operation).filter(|row| row.is_there(self.now)).map(|row| row.record(self.now))
    }
}

/// A result, with instants and leases as whole tens of seconds since the sequence began.
#[derive(Debug, PartialEq)]
struct Told {
    epoch: Epoch,
    first_at: i64,
    granted: Option<bool>,
    asked: Option<(ScopeTag, [u8; 32])>,
    standing: Option<(&'static str, [i64; 2], Option<Bytes>)>,
    lapsed: bool,
}

/// Instants of a store, relative to the beginning of the sequence on its clock.
#[derive(Clone, Copy)]
struct Since(Timestamp);

impl Since {
    /// Ends are half way between two steps, so a small delay falls into the same ten.
    fn tens(self, at: Timestamp) -> i64 {
        at.duration_since(self.0).as_secs().div_euclid(10)
    }

    fn record(self, record: &Record) -> Told {
        let standing = match &record.standing {
            // The rest shrinks as the clock runs: rounded up to the five seconds that every lease ends with.
            Standing::Running { lease_left } => {
                ("running", [lease_left.as_secs().div_ceil(10) as i64, 0], None)
            }
            Standing::Unknown { at, expires_at } => {
                ("unknown", [self.tens(*at), self.tens(*expires_at)], None)
            }
            Standing::Completed { at, expires_at, answer } => {
                ("completed", [self.tens(*at), self.tens(*expires_at)], Some(answer.clone()))
            }
            Standing::Expired { at } => ("expired", [self.tens(*at), 0], None),
        };
        Told {
            epoch: record.epoch,
            first_at: self.tens(record.first_at),
            granted: None,
            asked: Some((record.scope, record.request.0)),
            standing: Some(standing),
            lapsed: false,
        }
    }

    fn claimed(self, claimed: &Claimed) -> Told {
        match claimed {
            Claimed::Granted(grant) => Told {
                epoch: grant.epoch,
                first_at: self.tens(grant.first_at),
                granted: Some(grant.taken_over),
                asked: None,
                standing: None,
                lapsed: false,
            },
            Claimed::Found(record) => self.record(record),
            Claimed::Lapsed(record) => Told { lapsed: true, ..self.record(record) },
        }
    }
}

/// The same verbs, in the same order, at the same moments, give the results of the rules.
pub async fn random_sequences_follow_the_rules(bench: &Bench) {
    for seed in 0..SEQUENCES {
        sequence(bench, seed).await;
    }
}

/// A duration that ends between two steps.
fn ending_in(tens: u64) -> Duration {
    Duration::from_secs(tens * 10 + 5)
}

async fn sequence(bench: &Bench, seed: u64) {
    let mut dice = Dice::new(seed);
    let stores = [bench.store(), bench.another()];
    let begun = begin(&stores[0], operation(u64::MAX - seed)).await;
    let start = Timestamp::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let (real, modelled) = (Since(begun), Since(start));
    let ours: Vec<_> = (0..OPERATIONS).map(|n| operation(seed * OPERATIONS + n)).collect();
    let mut model = Model { rows: BTreeMap::new(), now: start, newest: Epoch(0) };
    for step in 0..STEPS {
        let at = format!("seed {seed}, step {step}");
        let store = &stores[dice.below(2) as usize];
        let operation = dice.pick(&ours);
        // Mostly the newest epoch of the operation, sometimes an older one.
        let newest = model.rows.get(&operation).map_or(model.newest, |row| row.epoch);
        let epoch = if dice.below(4) == 0 { Epoch(newest.0.saturating_sub(dice.below(3))) } else { newest };
        let keep = Keep {
            answer_for: ending_in(dice.pick(&[1, 6, 30])),
            tombstone_for: Duration::from_secs(10 * dice.pick(&[0, 0, 5, 40])),
        };
        match dice.below(14) {
            0..=3 => {
                let claim = Claim {
                    operation,
                    scope: ScopeTag([seed as u8; 16]),
                    request: request(dice.pick(&[1, 1, 1, 2])),
                    claimant: Uuid::from_u128(u128::from(dice.below(3))),
                    lease_for: ending_in(dice.pick(&[0, 1, 4])),
                    takeover: dice.pick(&[Takeover::Never, Takeover::Allowed]),
                    keep,
                };
                let told = store.claim(&claim).await.expect("claiming");
                let expected = model.claim(&claim, &told);
                assert_eq!(real.claimed(&told), modelled.claimed(&expected), "{at}: {claim:?}");
            }
            4 => {
                let lease_for = ending_in(dice.pick(&[0, 1, 4]));
                let told = store.renew(operation, epoch, lease_for).await.expect("renewing");
                let rule = rule::renew(model.rows.get(&operation), epoch, lease_for, model.now);
                assert_eq!(told, model.holding(operation, rule), "{at}: renewing {operation} under {epoch}");
            }
            5 | 6 => {
                let answer = Ending::Answered(Bytes::from(at.clone()));
                let ending = if dice.below(3) == 0 { Ending::Unknown } else { answer };
                let completion = Completion { operation, epoch, ending, keep };
                let told = store.complete(&completion).await.expect("completing");
                let row = model.rows.get(&operation);
                let rule = rule::complete(row, epoch, &completion.ending, keep, model.now);
                assert_eq!(told, model.holding(operation, rule), "{at}: {completion:?}");
            }
            7 => {
                let told = store.release(operation, epoch).await.expect("releasing");
                let rule = rule::release(model.rows.get(&operation), epoch, model.now);
                assert_eq!(told, model.holding(operation, rule), "{at}: releasing {operation} under {epoch}");
            }
            8 => {
                let told = store.erase(operation).await.expect("erasing");
                let (expected, write) = rule::erase(model.rows.get(&operation), model.now);
                model.write(operation, write);
                assert_eq!(told, expected, "{at}: erasing {operation}");
            }
            9 => {
                let records_max = dice.pick(&[1, 1_000]);
                let swept = store.sweep(records_max, keep).await.expect("sweeping");
                model.sweep(&swept, records_max, keep);
            }
            10 => {
                let listed = store.unknown(u32::MAX).await.expect("listing");
                assert!(listed.is_sorted_by_key(|(_, record)| unknown_at(record)), "{at}: {listed:?}");
                let told = listed.iter().filter(|(operation, _)| ours.contains(operation));
                let told: BTreeMap<_, _> = told.map(|(id, record)| (*id, real.record(record))).collect();
                let expected = model.unknown();
                let expected = expected.iter().map(|(id, record)| (*id, modelled.record(record))).collect();
                assert_eq!(told, expected, "{at}: what is unknown");
            }
            _ => {
                let time = NEAR * dice.pick(&[1, 1, 2, 5, 12, 40]);
                bench.pass(time).await;
                model.now += time;
            }
        }
        let told = store.look(operation).await.expect("looking");
        let expected = model.look(operation);
        assert_eq!(
            told.as_ref().map(|record| real.record(record)),
            expected.as_ref().map(|record| modelled.record(record)),
            "{at}: looking at {operation}"
        );
    }
}

/// When the sequence begins, on the store's clock.
async fn begin(store: &Arc<dyn Store>, operation: OperationId) -> Timestamp {
    match store.claim(&super::claim(operation, 1)).await.expect("claiming") {
        Claimed::Granted(grant) => grant.first_at,
        Claimed::Found(record) | Claimed::Lapsed(record) => panic!("nobody had {operation}: {record:?}"),
    }
}

/// Since when it is unknown.
fn unknown_at(record: &Record) -> Timestamp {
    match record.standing {
        Standing::Unknown { at, .. } => at,
        Standing::Running { .. } | Standing::Completed { .. } | Standing::Expired { .. } => {
            panic!("only what is unknown is listed: {record:?}")
        }
    }
}
