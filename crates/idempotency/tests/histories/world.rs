//! Where clients meet: one store or two instances of it, a clock that goes on when somebody says so, and a tape.
//!
//! Interleaved, all clients share a thread and a die decides who goes on, and who is gone in the middle of a call: a
//! seed is a history. On threads and on tasks, they overlap as the machine lets them.

use crate::bench::StandingClock;
use crate::client::{self, Habits};
use crate::tape::Tape;
use perdura_idempotency::conformance::random::Dice;
use perdura_idempotency::store::Store;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub(crate) struct World {
    /// Instances on the same data; a client has one of them.
    pub(crate) instances: [Arc<dyn Store>; 2],
    /// Makes the clock of the data go on by so many seconds.
    pub(crate) jump: Box<dyn Fn(i64) + Send + Sync>,
    pub(crate) tape: Tape,
    /// Which of several histories on the same data: each has keys of its own.
    pub(crate) nth: u32,
}

impl World {
    pub(crate) fn new(store: Arc<dyn Store>, clock: StandingClock) -> Arc<Self> {
        Self::shared([store.clone(), store], move |by| clock.step(by as f64), 0)
    }

    pub(crate) fn shared(
        instances: [Arc<dyn Store>; 2],
        jump: impl Fn(i64) + Send + Sync + 'static,
        nth: u32,
    ) -> Arc<Self> {
        Arc::new(Self { instances, jump: Box::new(jump), tape: Tape::default(), nth })
    }
}

/// Lets the others go on.
pub(crate) async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if paused {
            return Poll::Ready(());
        }
        paused = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How a history is made.
pub(crate) struct Plan {
    seed: u64,
    clients: u64,
    habits: Habits,
}

impl Plan {
    fn interleaved(seed: u64) -> Self {
        // A clock that goes back would find what a sweep has removed, so a history has the one or the other.
        let sweeps = !seed.is_multiple_of(4);
        Self {
            seed,
            clients: 2 + seed % 4,
            habits: Habits { calls: 12, sweeps, clock_goes_back: !sweeps, impatient: false },
        }
    }

    pub(crate) fn at_once(seed: u64) -> Self {
        Self {
            seed,
            clients: 4,
            habits: Habits { calls: 12, sweeps: true, clock_goes_back: false, impatient: true },
        }
    }
}

/// All clients on this thread, in an order that the seed decides.
pub(crate) fn run_interleaved(world: &Arc<World>, seed: u64) {
    /// One in so many steps is a client's last.
    const CRASH: u64 = 80;
    let plan = Plan::interleaved(seed);
    let mut dice = Dice::new(plan.seed);
    let mut clients: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    for number in 0..plan.clients {
        clients.push(Box::pin(client::live(world.clone(), number, Dice::new(dice.throw()), plan.habits)));
    }
    let mut context = Context::from_waker(Waker::noop());
    while !clients.is_empty() {
        let turn = dice.below(clients.len() as u64) as usize;
        let is_gone = dice.below(CRASH) == 0 || clients[turn].as_mut().poll(&mut context).is_ready();
        if is_gone {
            drop(clients.swap_remove(turn));
        }
    }
    let mut last = Box::pin(client::look_at_all(world.clone()));
    while last.as_mut().poll(&mut context).is_pending() {}
}

/// Each client on a thread of its own.
pub(crate) fn run_on_threads(world: &Arc<World>, plan: &Plan) {
    let block_on = |future: Pin<Box<dyn Future<Output = ()> + Send>>| {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future);
    };
    let mut dice = Dice::new(plan.seed);
    std::thread::scope(|scope| {
        for number in 0..plan.clients {
            let client = client::live(world.clone(), number, Dice::new(dice.throw()), plan.habits);
            scope.spawn(move || block_on(Box::pin(client)));
        }
    });
    block_on(Box::pin(client::look_at_all(world.clone())));
}

/// Each client on a task of its own, for stores whose connections belong to a runtime.
pub(crate) async fn run_on_tasks(world: &Arc<World>, plan: &Plan) {
    let mut dice = Dice::new(plan.seed);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..plan.clients {
        clients.spawn(client::live(world.clone(), number, Dice::new(dice.throw()), plan.habits));
    }
    clients.join_all().await;
    client::look_at_all(world.clone()).await;
}
