//! What a client does: claims, works, ends well or badly, comes late, asks again; and now and then time goes on.

use crate::tape::{Call, Kept, Place, Reply, Seen};
use crate::world::{World, pause};
use perdura_idempotency::conformance::random::Dice;
use perdura_idempotency::record::{
    Claim, Claimed, Completion, Ending, Epoch, Holding, Keep, OperationId, Record, RequestTag, ScopeTag,
    Standing, Takeover,
};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use uuid::Uuid;

/// The keys; nobody may take over the first, anybody the second.
pub(crate) const KEYS: usize = 2;

/// What clients of a history do.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    pub(crate) calls: u32,
    pub(crate) sweeps: bool,
    pub(crate) clock_goes_back: bool,
    /// Whether they sometimes go on without waiting for the answer.
    pub(crate) impatient: bool,
}

pub(crate) fn operation(nth: u32, key: usize) -> OperationId {
    OperationId::parse(&format!("{nth:08x}-0000-8000-8000-00000000000{key}")).expect("an id of ours")
}

struct Client {
    world: Arc<World>,
    number: u64,
    dice: Dice,
    /// Claims that it made, by key, and grants that it was given: it may come back to them late.
    claimants: Vec<(usize, u64)>,
    grants: Vec<(usize, u64)>,
    next: u64,
    impatient: bool,
}

/// A client from its first call to its last.
pub(crate) async fn live(world: Arc<World>, number: u64, dice: Dice, habits: Habits) {
    let mut client = Client::new(world, number, dice, habits.impatient);
    for _ in 0..habits.calls {
        client.call(habits).await;
    }
}

/// Somebody who comes last and sees how everything stands.
pub(crate) async fn look_at_all(world: Arc<World>) {
    let mut client = Client::new(world, 0, Dice::new(0), false);
    for key in 0..KEYS {
        client.make(key, Call::Look).await;
    }
}

impl Client {
    fn new(world: Arc<World>, number: u64, dice: Dice, impatient: bool) -> Self {
        Self { world, number, dice, claimants: Vec::new(), grants: Vec::new(), next: 0, impatient }
    }

    async fn call(&mut self, habits: Habits) {
        let key = self.dice.below(KEYS as u64) as usize;
        let what = self.dice.below(18);
        match what {
            0..=5 => self.claim(key).await,
            6..=11 => self.follow_up(what).await,
            12 | 13 => {
                let call = if what == 12 { Call::Look } else { Call::Erase };
                self.make(key, call).await;
            }
            14 if habits.sweeps => self.sweep().await,
            _ => {
                let by = self.dice.pick(&[5, 20, 40, 40, 60, 130, 200]);
                let by = if habits.clock_goes_back && self.dice.below(3) == 0 { -by / 2 } else { by };
                self.world.tape.jump(by, || (self.world.jump)(by));
            }
        }
    }

    /// One call on all keys, of which each is told whether it was found to have lapsed.
    async fn sweep(&mut self) {
        let (records_max, kept) = (self.dice.pick(&[1, 10]), self.kept());
        let entries: Vec<usize> =
            (0..KEYS).map(|key| self.world.tape.invoke(Some(key), Call::Sweep { kept })).collect();
        for _ in 0..self.dice.below(3) {
            pause().await;
        }
        let store = &self.world.instances[self.number as usize % 2];
        let swept = store.sweep(records_max, keep(kept)).await.expect("sweeping");
        for (key, entry) in entries.into_iter().enumerate() {
            self.world
                .tape
                .returned(entry, Reply::Lapsed(swept.lapsed.contains(&operation(self.world.nth, key))));
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.number * 1_000 + self.next
    }

    fn kept(&mut self) -> Kept {
        Kept { answer_for: self.dice.pick(&[50, 100]), tombstone_for: self.dice.pick(&[0, 0, 70]) }
    }

    /// Mostly a new claim, sometimes one whose answer may have been lost.
    async fn claim(&mut self, key: usize) {
        let earlier: Vec<u64> =
            self.claimants.iter().filter(|(of, _)| *of == key).map(|(_, by)| *by).collect();
        let claimant = match earlier.last() {
            Some(claimant) if self.dice.below(4) == 0 => *claimant,
            Some(_) | None => self.number(),
        };
        self.claimants.push((key, claimant));
        let request = self.dice.pick(&[1, 1, 1, 1, 1, 2]);
        let (takes_over, kept) = (key == 1, self.kept());
        let call = Call::Claim { claimant, request, takes_over, lease_for: 30, kept };
        if let Some(Reply::Granted { epoch, .. }) = self.make(key, call).await {
            self.grants.push((key, epoch));
        }
    }

    /// Goes on with a grant: the newest or an old one. Those that are never gone on with vanished.
    async fn follow_up(&mut self, what: u64) {
        let Some((key, epoch)) = self.grants.last().copied() else { return };
        let (key, epoch) = if self.dice.below(3) == 0 { self.dice.pick(&self.grants) } else { (key, epoch) };
        let call = match what {
            6 => Call::Renew { epoch, lease_for: 30 },
            7 => Call::Release { epoch },
            8 => Call::Complete { epoch, answer: None, kept: self.kept() },
            _ => Call::Complete { epoch, answer: Some(self.number() as u32), kept: self.kept() },
        };
        self.make(key, call).await;
    }

    /// Makes a call and writes it down; others go on before and after it takes effect. `None`: it did not wait for it.
    async fn make(&mut self, key: usize, call: Call) -> Option<Reply> {
        let entry = self.world.tape.invoke(Some(key), call.clone());
        for _ in 0..self.dice.below(3) {
            pause().await;
        }
        let gives_up = self.impatient && self.dice.below(12) == 0;
        let reply = {
            let mut reply = pin!(self.reply(operation(self.world.nth, key), call));
            if gives_up {
                match poll_fn(|context| Poll::Ready(reply.as_mut().poll(context))).await {
                    Poll::Ready(reply) => reply,
                    Poll::Pending => return None,
                }
            } else {
                reply.await
            }
        };
        for _ in 0..self.dice.below(3) {
            pause().await;
        }
        self.world.tape.returned(entry, reply.clone());
        Some(reply)
    }

    async fn reply(&self, operation: OperationId, call: Call) -> Reply {
        let store = &self.world.instances[self.number as usize % 2];
        match call {
            Call::Claim { claimant, request, takes_over, lease_for, kept } => {
                let takeover = if takes_over { Takeover::Allowed } else { Takeover::Never };
                let claim = Claim {
                    operation,
                    scope: ScopeTag([0; 16]),
                    request: RequestTag([request; 32]),
                    claimant: Uuid::from_u128(u128::from(claimant)),
                    lease_for: seconds(lease_for),
                    takeover,
                    keep: keep(kept),
                };
                match store.claim(&claim).await.expect("claiming") {
                    Claimed::Granted(grant) => {
                        Reply::Granted { epoch: grant.epoch.0, taken_over: grant.taken_over }
                    }
                    Claimed::Found(record) | Claimed::Lapsed(record) => Reply::Found(Some(seen(&record))),
                }
            }
            Call::Renew { epoch, lease_for } => {
                held(store.renew(operation, Epoch(epoch), seconds(lease_for)).await)
            }
            Call::Complete { epoch, answer, kept } => {
                let ending = answer
                    .map_or(Ending::Unknown, |answer| Ending::Answered(answer.to_be_bytes().to_vec().into()));
                let completion = Completion { operation, epoch: Epoch(epoch), ending, keep: keep(kept) };
                held(store.complete(&completion).await)
            }
            Call::Release { epoch } => held(store.release(operation, Epoch(epoch)).await),
            Call::Look => {
                Reply::Found(store.look(operation).await.expect("looking").map(|record| seen(&record)))
            }
            Call::Erase => Reply::Erased(store.erase(operation).await.expect("erasing")),
            Call::Sweep { .. } => unreachable!("a sweep is of all keys"),
            Call::Jump { .. } => unreachable!("the clock is nobody's key"),
        }
    }
}

fn held(holding: Result<Holding, perdura_idempotency::store::StoreError>) -> Reply {
    Reply::Held(holding.expect("the store answers") == Holding::Held)
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

fn keep(kept: Kept) -> Keep {
    Keep { answer_for: seconds(kept.answer_for), tombstone_for: seconds(kept.tombstone_for) }
}

fn seen(record: &Record) -> Seen {
    let place = match &record.standing {
        Standing::Running { lease_left } => Place::Running { lapsed: lease_left.is_zero() },
        Standing::Unknown { .. } => Place::Unknown,
        Standing::Completed { answer, .. } => {
            Place::Answered(u32::from_be_bytes(answer.as_ref().try_into().expect("an answer of ours")))
        }
        Standing::Expired { .. } => Place::Expired,
    };
    Seen { request: record.request.0[0], epoch: record.epoch.0, place }
}
