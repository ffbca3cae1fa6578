//! Clients that put, claim, end and look at random, and where they meet: one store or two instances of it, a clock that goes on
//! when somebody says so, and a tape.
//!
//! Interleaved, all clients share a thread and a die decides who goes on: a seed is a history. On tasks, they overlap as the
//! machine lets them. No call is under way while the clock jumps.

use crate::bench;
use crate::check::{Entry, is_keyed};
use crate::naive::pause;
use crate::spec::{Call, Ending, Reply, Stand};
use perdura_inbox::conformance::random::Dice;
use perdura_inbox::row::{
    self, Address, Claim, Held, Holding, Keep, Message, Name, Named, Put, Receipt, Redriven, Row, Status,
};
use perdura_inbox::store::Store;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::RwLock;

/// So many rows; the first two have one ordering key, and two pairs have one id and two tenants.
const ROWS: usize = 5;
const CALLS: usize = 10;
const LEASE_FOR: i64 = 600;
const ATTEMPTS_MAX: u32 = 2;
const KEEP_FOR: i64 = 7_200;

pub(crate) struct World {
    instances: [Arc<dyn Store>; 2],
    jump: Box<dyn Fn(i64) + Send + Sync>,
    /// Taken by calls together, and by a jump alone.
    still: RwLock<()>,
    tape: Mutex<(u64, Vec<Entry>)>,
    inbox: Name,
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

impl World {
    pub(crate) fn new(
        instances: [Arc<dyn Store>; 2],
        jump: impl Fn(i64) + Send + Sync + 'static,
        nth: u32,
    ) -> Arc<Self> {
        let inbox = name(&format!("history-{nth}"));
        Arc::new(Self {
            instances,
            jump: Box::new(jump),
            still: RwLock::default(),
            tape: Mutex::default(),
            inbox,
        })
    }

    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.tape.lock().expect("nobody panics here").1)
    }

    fn tick(&self) -> u64 {
        let mut tape = self.tape.lock().expect("nobody panics here");
        tape.0 += 1;
        tape.0
    }

    fn note(&self, row: Option<usize>, call: Call, invoked: u64, returned: u64, reply: Reply) {
        let entry = Entry { row, call, invoked, returned, reply };
        self.tape.lock().expect("nobody panics here").1.push(entry);
    }

    fn address(&self, row: usize) -> Address {
        let tenant = name(if row == 4 { "u" } else { "t" });
        Address { inbox: self.inbox.clone(), tenant, id: name(&format!("{}", row % 4)) }
    }

    fn row_of(&self, address: &Address) -> usize {
        (0..ROWS).find(|row| self.address(*row) == *address).expect("it is one of ours")
    }
}

fn stand(status: Status) -> Stand {
    match status {
        Status::Pending => Stand::Pending,
        Status::Doing => Stand::Doing,
        Status::Done => Stand::Done,
        Status::Dead => Stand::Dead,
    }
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

fn claimed(message: &Message) -> Reply {
    Reply::Claimed { epoch: message.row.epoch.0, attempts: message.row.attempts }
}

/// The life of a client: so many calls, at random.
async fn live(world: Arc<World>, number: u8, mut dice: Dice) {
    let mut held: Vec<Held> = Vec::new();
    for _ in 0..CALLS {
        pause().await;
        if dice.below(8) == 0 {
            let _alone = world.still.write().await;
            let by = [200, 700, 700, 8_000][dice.below(4) as usize];
            let invoked = world.tick();
            (world.jump)(by);
            let returned = world.tick();
            world.note(None, Call::Jump { by }, invoked, returned, Reply::Jumped);
            continue;
        }
        let _together = world.still.read().await;
        call(&world, number, &mut dice, &mut held).await;
    }
}

/// The claim that is told about a row: by the worker itself, or by one of its name.
fn wish(world: &World, owner: u8, limit: u32) -> Claim {
    let inbox = world.inbox.clone();
    Claim { inbox, owner: name(&owner.to_string()), limit, lease_for: seconds(LEASE_FOR), after: None }
}

async fn call(world: &World, number: u8, dice: &mut Dice, held: &mut Vec<Held>) {
    let store = &*world.instances[usize::from(number) % 2];
    let row = dice.below(ROWS as u64) as usize;
    let address = world.address(row);
    // Two clients use one name.
    let owner = number / 2;
    let invoked = world.tick();
    let at_last = async || {
        pause().await;
        world.tick()
    };
    match dice.below(17) {
        0..=2 => {
            let payload = u8::from(dice.below(5) == 0);
            let ordering_key = is_keyed(row).then(|| name("k"));
            let put = Put { ordering_key, ..Put::new(address, vec![payload]) };
            let reply = match store.put(&put).await.expect("putting") {
                Receipt::Accepted(_) => Reply::Accepted,
                Receipt::Duplicate(row) => Reply::Duplicate(stand(row.status)),
                Receipt::Conflict(row) => Reply::Conflict(stand(row.status)),
            };
            world.note(Some(row), Call::Put { payload }, invoked, at_last().await, reply);
        }
        3..=5 => {
            let got = store.claim(&wish(world, owner, 2)).await.expect("claiming");
            let returned = at_last().await;
            for message in &got {
                let call = Call::Claim { owner, lease_for: LEASE_FOR, by_name: false };
                let row = world.row_of(&message.row.address);
                world.note(Some(row), call, invoked, returned, claimed(message));
                held.extend(message.held());
            }
        }
        6 => {
            let told = store.claim_named(&address, &wish(world, owner, 1)).await.expect("claiming");
            let reply = match &told {
                Named::Claimed(message) => {
                    held.extend(message.held());
                    claimed(message)
                }
                Named::Taken(status) => Reply::Taken(stand(*status)),
                Named::NotYet => Reply::NotYet,
                Named::Missing => Reply::Missing,
            };
            let call = Call::Claim { owner, lease_for: LEASE_FOR, by_name: true };
            world.note(Some(row), call, invoked, at_last().await, reply);
        }
        7..=9 => {
            let Some(mine) = held.get(dice.below(held.len().max(1) as u64) as usize).cloned() else { return };
            // Sometimes a claim that is not shown right: another's name.
            let owner = if dice.below(8) == 0 { owner + 1 } else { owner };
            let mine = Held { owner: name(&owner.to_string()), ..mine };
            let (ending, told) = match dice.below(4) {
                0 | 1 => (Ending::Done, row::Ending::Done),
                2 => {
                    let (error, delay_for) = ("e".to_owned(), 100);
                    (Ending::Again { delay_for }, row::Ending::Again { error, delay_for: seconds(delay_for) })
                }
                _ => (Ending::Dead, row::Ending::Dead { error: "e".to_owned() }),
            };
            let holding = store.end(&mine, &told).await.expect("ending");
            let call = Call::End { owner, epoch: mine.epoch.0, ending };
            let row = world.row_of(&mine.address);
            world.note(Some(row), call, invoked, at_last().await, Reply::Held(holding == Holding::Held));
        }
        10 => {
            let Some(mine) = held.first().cloned() else { return };
            let still = store.beat(std::slice::from_ref(&mine), seconds(LEASE_FOR)).await.expect("renewing");
            let call = Call::Beat { owner, epoch: mine.epoch.0, lease_for: LEASE_FOR };
            let row = world.row_of(&mine.address);
            let reply = Reply::Held(still.contains(&mine.epoch));
            world.note(Some(row), call, invoked, at_last().await, reply);
        }
        11 | 12 => {
            let lapsed: Vec<Row> = store.lapse(&world.inbox, ATTEMPTS_MAX, 100).await.expect("looking");
            let returned = at_last().await;
            let lapsed: BTreeMap<usize, Stand> =
                lapsed.iter().map(|row| (world.row_of(&row.address), stand(row.status))).collect();
            for row in 0..ROWS {
                let reply = Reply::Lapsed(lapsed.get(&row).copied());
                world.note(Some(row), Call::Lapse { attempts_max: ATTEMPTS_MAX }, invoked, returned, reply);
            }
        }
        13 => {
            let keep = Keep { done_for: seconds(KEEP_FOR), dead_for: seconds(KEEP_FOR) };
            store.sweep(&world.inbox, keep, 100).await.expect("sweeping");
            let returned = at_last().await;
            for row in 0..ROWS {
                world.note(Some(row), Call::Sweep { keep_for: KEEP_FOR }, invoked, returned, Reply::Swept);
            }
        }
        14 | 15 => {
            let reply = match store.redrive(&address).await.expect("redriving") {
                Redriven::Pending(_) => Reply::Redriven,
                Redriven::NotDead(status) => Reply::Taken(stand(status)),
                Redriven::Missing => Reply::Missing,
            };
            world.note(Some(row), Call::Redrive, invoked, at_last().await, reply);
        }
        _ => look(world, store, row, invoked).await,
    }
}

async fn look(world: &World, store: &dyn Store, row: usize, invoked: u64) {
    let reply = match store.look(&world.address(row)).await.expect("looking") {
        None => Reply::Missing,
        Some(Message { row: Row { status, attempts, epoch, .. }, .. }) => {
            Reply::Seen { stand: stand(status), attempts, epoch: epoch.0 }
        }
    };
    world.note(Some(row), Call::Look, invoked, world.tick(), reply);
}

async fn look_at_all(world: Arc<World>) {
    for row in 0..ROWS {
        look(&world, &*world.instances[0], row, world.tick()).await;
    }
}

/// All clients on this thread, in an order that the seed decides.
pub(crate) fn run_interleaved(world: &Arc<World>, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut clients: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    for number in 0..3 + (seed % 3) as u8 {
        clients.push(Box::pin(live(world.clone(), number, Dice::new(dice.throw()))));
    }
    let mut context = Context::from_waker(Waker::noop());
    while !clients.is_empty() {
        let turn = dice.below(clients.len() as u64) as usize;
        if clients[turn].as_mut().poll(&mut context).is_ready() {
            drop(clients.swap_remove(turn));
        }
    }
    let mut last = Box::pin(look_at_all(world.clone()));
    while last.as_mut().poll(&mut context).is_pending() {}
}

/// Each client on a task of its own.
pub(crate) async fn run_at_once(world: &Arc<World>, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..4 {
        clients.spawn(live(world.clone(), number, Dice::new(dice.throw())));
    }
    clients.join_all().await;
    look_at_all(world.clone()).await;
}

/// A clock of this schema that stands still until it is told to go on. Who tells it cannot wait for an answer as others do, so that is
/// done on a thread of its own.
pub(crate) async fn postgres_clock(schema: &str) -> impl Fn(i64) + Send + Sync + Clone + 'static {
    let make = format!(
        "CREATE TABLE {schema}.clock (ahead interval NOT NULL);
         INSERT INTO {schema}.clock VALUES ('0');
         CREATE OR REPLACE FUNCTION {schema}.inbox_now() RETURNS timestamptz LANGUAGE sql VOLATILE
         AS 'SELECT timestamptz ''2026-01-01 00:00Z'' + (SELECT ahead FROM {schema}.clock)'"
    );
    bench::connection().await.batch_execute(&make).await.expect("the clock can be set");
    let (jumps, told) = mpsc::channel::<(i64, mpsc::Sender<()>)>();
    let go_on = format!("UPDATE {schema}.clock SET ahead = ahead + $1::bigint * interval '1 second'");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(bench::connection());
        while let Ok((by, done)) = told.recv() {
            runtime.block_on(client.execute(&go_on, &[&by])).expect("the clock can be set");
            done.send(()).expect("somebody waits");
        }
    });
    move |by| {
        let (done, is_done) = mpsc::channel();
        jumps.send((by, done)).expect("the clock goes");
        is_done.recv().expect("the clock goes");
    }
}
