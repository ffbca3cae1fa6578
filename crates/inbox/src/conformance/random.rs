//! Random sequences of verbs, done by a store and by the memory, which calls the rules: whatever the memory tells, the store tells.
//!
//! Time goes on by a minute with each verb, on both clocks, and leases and delays end half a minute off, so that a clock that
//! goes on by itself meanwhile changes no answer.

use super::{ATTEMPTS_MAX, Bench, name, of_tenant};
use crate::row::{Claim, Ending, Held, Keep, Message, Named, Put, Receipt, Redriven, Row};
use crate::store::{Memory, Store};
use jiff::{SignedDuration, Timestamp};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const STEPS: usize = 250;
const MINUTE: Duration = Duration::from_mins(1);

/// Numbers that look like chance, the same for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next of all numbers.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below this one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.throw() % end
    }
}

/// One that is so many minutes and a half from now on.
fn off(minutes: u64) -> Duration {
    MINUTE * u32::try_from(minutes).expect("few") + MINUTE / 2
}

#[derive(Debug)]
enum Verb {
    Put(Put),
    Claim(Claim),
    Named(u64, Claim),
    Beat(Vec<usize>),
    End(usize, Ending),
    Lapse,
    Redrive(u64),
    Sweep,
}

/// What is told of a row, but for instants and epochs, which differ from store to store.
fn told_of(row: &Row) -> String {
    let Row { address, status, attempts, ordering_key, head, owner, last_error, .. } = row;
    let instants = [row.claimed_at.is_some(), row.processed_at.is_some(), row.lease_until.is_some()];
    format!("{address} {status} {attempts} {ordering_key:?} {head} {owner:?} {last_error:?} {instants:?}")
}

struct Player {
    store: Arc<dyn Store>,
    /// Every claim that was ever made.
    held: Vec<Held>,
}

impl Player {
    fn took(&mut self, message: &Message) -> String {
        self.held.push(message.held().expect("it was claimed"));
        format!("{} {:?}", told_of(&message.row), message.payload)
    }

    async fn play(&mut self, verb: &Verb) -> String {
        let store = self.store.clone();
        match verb {
            Verb::Put(put) => match store.put(put).await.expect("putting") {
                Receipt::Accepted(row) => format!("accepted {}", told_of(&row)),
                Receipt::Duplicate(row) => format!("duplicate {}", told_of(&row)),
                Receipt::Conflict(row) => format!("conflict {}", told_of(&row)),
            },
            Verb::Claim(claim) => {
                let mut claimed = store.claim(claim).await.expect("claiming");
                // Which of them comes first is told apart from who gets the later epoch.
                claimed.sort_by(|a, b| a.row.address.cmp(&b.row.address));
                claimed.iter().map(|message| self.took(message)).collect::<Vec<_>>().join("; ")
            }
            Verb::Named(id, claim) => match store.claim_named(&row_of(*id), claim).await.expect("claiming") {
                Named::Claimed(message) => self.took(&message),
                other @ (Named::Taken(_) | Named::NotYet | Named::Missing) => format!("{other:?}"),
            },
            Verb::Beat(which) => {
                let asked: Vec<Held> = which.iter().filter_map(|n| self.held.get(*n).cloned()).collect();
                let still = store.beat(&asked, off(10)).await.expect("renewing");
                format!("{:?}", asked.iter().map(|held| still.contains(&held.epoch)).collect::<Vec<_>>())
            }
            Verb::End(which, ending) => match self.held.get(*which) {
                Some(held) => format!("{:?}", store.end(held, ending).await.expect("ending")),
                None => String::new(),
            },
            Verb::Lapse => {
                let lapsed = store.lapse(&name("in"), ATTEMPTS_MAX, 100).await.expect("looking");
                let mut lapsed: Vec<String> = lapsed.iter().map(told_of).collect();
                lapsed.sort();
                lapsed.join("; ")
            }
            Verb::Redrive(id) => match store.redrive(&row_of(*id)).await.expect("redriving") {
                Redriven::Pending(row) => told_of(&row),
                other @ (Redriven::NotDead(_) | Redriven::Missing) => format!("{other:?}"),
            },
            Verb::Sweep => {
                let keep = Keep { done_for: off(60), dead_for: off(90) };
                store.sweep(&name("in"), keep, 100).await.expect("sweeping").to_string()
            }
        }
    }
}

/// Some ids, of two tenants.
fn row_of(id: u64) -> crate::row::Address {
    of_tenant(if id.is_multiple_of(3) { "u" } else { "t" }, &id.to_string())
}

fn next(dice: &mut Dice, held: usize) -> Verb {
    let id = dice.below(24);
    let claim = Claim {
        inbox: name("in"),
        owner: name(if dice.below(2) == 0 { "a" } else { "b" }),
        limit: 1 + dice.below(4) as u32,
        lease_for: off(10),
        after: [None, Some(name("t")), Some(name("u"))][dice.below(3) as usize].clone(),
    };
    // Mostly the newest claims, which may still hold.
    let which = held.saturating_sub(1 + dice.below(6) as usize);
    match dice.below(16) {
        0..=3 => {
            let payload = if dice.below(8) == 0 { "another" } else { "the same" };
            let key = [None, Some(name("k")), Some(name("l"))][id as usize % 3].clone();
            let delay_for = if dice.below(4) == 0 { off(3) } else { Duration::ZERO };
            Verb::Put(Put { ordering_key: key, delay_for, ..Put::new(row_of(id), payload) })
        }
        4..=6 => Verb::Claim(claim),
        7 => Verb::Named(id, claim),
        8 => Verb::Beat((which..held).collect()),
        9 | 10 => Verb::End(which, Ending::Done),
        11 => Verb::End(which, Ending::Again { error: "again".into(), delay_for: off(5) }),
        12 => Verb::End(which, Ending::Dead { error: "dead".into() }),
        13 => Verb::Lapse,
        14 => Verb::Redrive(id),
        _ => Verb::Sweep,
    }
}

pub async fn random_sequences_follow_the_rules(bench: &Bench) {
    let mut dice = Dice::new(317);
    let now = Arc::new(Mutex::new(Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000)));
    let clock = now.clone();
    let memory = Memory::with_clock(Arc::new(move || *clock.lock().unwrap_or_else(PoisonError::into_inner)));
    let mut model = Player { store: Arc::new(memory), held: Vec::new() };
    let mut player = Player { store: bench.store(), held: Vec::new() };
    for step in 0..STEPS {
        let verb = next(&mut dice, model.held.len());
        let (expected, told) = (model.play(&verb).await, player.play(&verb).await);
        assert_eq!(told, expected, "step {step}: {verb:?}");
        for id in 0..24 {
            let of = async |player: &Player| {
                let found = player.store.look(&row_of(id)).await.expect("looking");
                found.map(|message| (told_of(&message.row), message.payload))
            };
            assert_eq!(of(&player).await, of(&model).await, "row {id} after step {step}: {verb:?}");
        }
        bench.pass(MINUTE).await;
        *now.lock().unwrap_or_else(PoisonError::into_inner) += MINUTE;
    }
}
