//! One run: a queue of events by time, processed one after the other.
//!
//! The runtime's loop is the real one. This drives it as the threads of the runtime do, with simulated time, processes,
//! disks and receivers; so a process can die between any two lines.

mod asking;
mod faults;
mod holding;
mod listing;
mod map_runs;
mod moving;
mod network;
mod process;
mod sweeping;
mod workers;

use crate::clients::{Ears, Request, RequestId, Wish};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::facts::Facts;
use crate::history::History;
use crate::home::Home;
use crate::observed::Life;
use crate::plan::{Fault, HELD, Held, Plan, Trouble};
use crate::receiver::{DECLINED, Receiver};
use crate::sabotage::Sabotage;
use crate::store::{Disk, SharedDisk, SimStore};
use listing::Listing;
use map_runs::Reading;
pub(crate) use network::Ways;
use network::{Answers, Carried};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::{Resource, Target};
use perdura_engine::{By, Call, Destinations, ExecutionId, Outcome, Policy, StrandId, TaskToken, Uncertain};
use perdura_runtime::{Deed, Finding, Message, PassNumber, Question, Response, Slice};
use perdura_store::{RevisionId, Shard};
use process::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use workers::Worker;

/// After the faults end, this much time is enough for everything to end.
const PATIENCE_MS: i64 = 8 * 3_600_000;
/// A run with more events is stuck.
const HAPPENINGS_MAX: u64 = 400_000;
/// How often to check whether everything has ended.
pub(crate) const LOOK_EVERY_MS: i64 = 20_000;

/// An event of the simulation.
enum Happening {
    /// A process continues.
    Step(Life),
    /// A message for a process.
    Tell(Life, Message),
    /// A reader reads items for a Map Run.
    Read(Life, Box<Reading>),
    /// A worker asks for a task, unless it asked again meanwhile.
    Poll(usize, u64),
    /// A process's reader reads.
    LookUp(Life, Question),
    /// The reader reports its result.
    Found(Life, Box<Finding>),
    /// A process's writer writes.
    Commit(Life),
    /// The writer reports that it is done.
    Report(Life),
    /// A process performs the effects of a committed Turn.
    Perform(Life, Deed),
    /// A promised commit is written (only with a safeguard missing).
    Keep(Life),
    /// A call reaches its receiver.
    Deliver(Box<Letter>),
    /// The receiver's answer reaches the calling process.
    Answer(Life, ExecutionId, By, Outcome),
    /// A client sends a request, or repeats it.
    Ask(RequestId),
    /// A process begins.
    Boot(usize),
    Fault(Fault),
    /// A person looks for held calls, and resolves them.
    Resolve,
    /// A client asks for a list.
    List,
    /// Executions that were found to be old are swept.
    Sweep(Life, Slice),
    /// A request of one node reaches another.
    Carry(Box<Carried>),
    /// The answer reaches the requesting node.
    Respond(Life, PassNumber, Box<Response>),
    /// A connection is closed.
    HangUp(Arc<()>),
    /// Checks for Shards without a holder.
    Balance,
    /// A machine that was paused goes on.
    LetGo(Held, usize),
    /// Checks whether the run is over.
    Look,
}

/// A call under way.
struct Letter {
    by: Life,
    execution: ExecutionId,
    call: Call,
}

/// A run.
pub struct Sim {
    pub(crate) plan: Plan,
    pub(crate) clock: Clock,
    pub(crate) disk: SharedDisk,
    pub(crate) home: Home,
    pub(crate) receiver: Receiver,
    pub(crate) facts: Facts,
    pub(crate) requests: Vec<Request>,
    pub(crate) revisions: Vec<RevisionId>,
    /// Swept executions, as they were before.
    pub(crate) swept: BTreeMap<ExecutionId, History>,
    sabotage: Option<Sabotage>,
    queue: BTreeMap<(i64, u64), Happening>,
    queued: u64,
    processes: Vec<Process>,
    ears: Ears,
    dice: Dice,
    /// Held calls that were resolved, or are about to be.
    resolved: BTreeSet<(String, u64)>,
    /// Keys of calls that left, with their first line of control; for the sabotage of repeated calls.
    called: BTreeMap<String, StrandId>,
    workers: Vec<Worker>,
    listing: Option<Listing>,
    /// The task that was last handed to a worker, for the sabotage of old failures.
    newest: BTreeMap<(ExecutionId, StrandId), TaskToken>,
    /// Answers between nodes.
    answers: Answers,
    /// Shards without a holder at the last check.
    unserved: BTreeSet<Shard>,
    over: bool,
}

/// The destinations: calls may be repeated, except under the policy `hold`.
struct Everybody {
    /// The policy `hold` applies.
    holds: bool,
}

/// Whether a call in doubt may not be repeated there.
fn is_held(resource: &Resource) -> bool {
    matches!(&resource.target, Target::Step { name } if HELD.contains(&&**name))
}

impl Destinations for Everybody {
    fn policy(&self, resource: &Resource, _: &Payload) -> Policy {
        let uncertain = if self.holds && is_held(resource) { Uncertain::Hold } else { Uncertain::Retry };
        Policy { uncertain, refused: Arc::from([DECLINED.into()]), ..Policy::default() }
    }
}

/// The settings of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    /// Which safeguard is missing.
    pub sabotage: Option<Sabotage>,
    /// There are no faults.
    pub without_faults: bool,
    /// A trace for people is kept.
    pub traces: bool,
    /// Trouble in addition to the usual.
    pub trouble: Option<Trouble>,
}

impl Sim {
    /// A run from a seed.
    pub fn from_seed(seed: u64, setting: Setting) -> Self {
        let mut plan = Plan::of(seed, setting.trouble);
        if setting.without_faults {
            plan = plan.without_faults();
        }
        let disk: SharedDisk = Arc::new(Mutex::new(Disk::new(seed, setting.sabotage)));
        let home = Home::new(plan.shards, plan.on_disk);
        let mut sim = Self {
            receiver: Receiver::new(seed, setting.sabotage),
            clock: Clock::new(seed),
            facts: Facts::new(setting.traces),
            requests: Vec::new(),
            revisions: Vec::new(),
            swept: BTreeMap::new(),
            sabotage: setting.sabotage,
            queue: BTreeMap::new(),
            queued: 0,
            processes: Vec::new(),
            ears: Ears::default(),
            dice: Dice::new(seed, "chance"),
            resolved: BTreeSet::new(),
            called: BTreeMap::new(),
            workers: Vec::new(),
            listing: None,
            newest: BTreeMap::new(),
            answers: Answers::default(),
            unserved: BTreeSet::new(),
            over: false,
            plan,
            disk,
            home,
        };
        sim.prepare();
        sim
    }

    pub fn is_heavy(seed: u64) -> bool {
        Plan::is_heavy(seed)
    }

    fn prepare(&mut self) {
        self.facts.walls.push((0, 0));
        for script in &self.plan.scripts {
            self.revisions.push(self.home.deploy(script.name, &script.definition));
        }
        {
            let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
            disk.rates = self.plan.weather.disk;
            disk.fails = true;
        }
        self.receiver.manners = self.plan.weather.manners;
        self.receiver.misbehaves = true;
        for number in 0..self.plan.processes {
            let holder: Arc<str> = format!("node-{number}").into();
            self.processes.push(Process::new(holder));
            self.after(number as i64 * 50, Happening::Boot(number));
        }
        for about in 0..self.plan.starts.len() {
            let request = self.request(Wish::Start(about), about, None);
            self.at(self.plan.starts[about].at, Happening::Ask(request));
        }
        for (at, fault) in self.plan.faults.clone() {
            self.at(at, Happening::Fault(fault));
        }
        if self.plan.has_activities() {
            self.hire();
        }
        if self.plan.is_cluster {
            self.after(moving::LOOK_EVERY_MS, Happening::Balance);
        }
        if self.plan.is_careful() {
            self.after(LOOK_EVERY_MS, Happening::Resolve);
        }
        self.at(self.plan.calm_from + LOOK_EVERY_MS, Happening::Look);
    }

    /// Runs until everything has ended, or for so long that something must be lost.
    pub fn run(&mut self) {
        let mut happenings = 0;
        while !self.over
            && happenings < HAPPENINGS_MAX
            && let Some(((at, _), happening)) = self.queue.pop_first()
        {
            happenings += 1;
            self.clock.advance_to(at);
            if self.clock.now() > self.plan.calm_from + PATIENCE_MS {
                break;
            }
            self.become_calm();
            self.disk().now = self.clock.now();
            self.receiver.now = self.clock.now();
            self.happen(happening);
            self.hear();
            self.hear_workers();
            self.hear_list();
            self.hear_nodes();
        }
        self.close();
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Step(life) => self.step(life),
            Happening::Tell(life, message) => self.post(life, message),
            Happening::Read(life, reading) => self.read(life, *reading),
            Happening::Poll(worker, asked) => self.poll(worker, asked),
            Happening::LookUp(life, question) => self.look_up(life, question),
            Happening::Found(life, finding) => self.found(life, *finding),
            Happening::Commit(life) => self.commit(life),
            Happening::Report(life) => self.report(life),
            Happening::Perform(life, deed) => self.perform(life, deed),
            Happening::Keep(life) => self.keep_promises(life),
            Happening::Deliver(letter) => self.deliver(*letter),
            Happening::Answer(life, execution, by, outcome) => {
                self.post(life, Message::Answer { execution, by, outcome });
            }
            Happening::Ask(request) => self.ask(request),
            Happening::Boot(process) => self.boot(process),
            Happening::Fault(fault) => self.strike(fault),
            Happening::Resolve => self.resolve(),
            Happening::List => self.list(),
            Happening::Sweep(life, slice) => self.sweep(life, slice),
            Happening::Look => self.look(),
            Happening::Carry(carried) => self.arrive(*carried),
            Happening::Respond(life, number, response) => self.respond(life, number, *response),
            Happening::HangUp(wanted) => drop(wanted),
            Happening::Balance => self.balance(),
            Happening::LetGo(held, number) => self.let_go(held, number),
        }
    }

    /// Whether faults may occur now.
    fn is_rough(&self) -> bool {
        self.clock.now() < self.plan.calm_from
    }

    fn become_calm(&mut self) {
        if !self.is_rough() {
            self.receiver.misbehaves = false;
            self.disk().fails = false;
        }
    }

    /// Ends the run when every execution that began has ended, and every request was answered.
    fn look(&mut self) {
        self.facts.restless = self.who_is_restless();
        if self.facts.restless.is_empty() {
            self.facts.is_quiet = true;
            self.over = true;
        } else {
            self.after(LOOK_EVERY_MS, Happening::Look);
        }
    }

    fn who_is_restless(&mut self) -> Vec<String> {
        let mut restless = Vec::new();
        let mut reader = self.home.reader();
        let executions = self.disk().observed.executions();
        for id in executions.into_iter().filter(|id| !self.swept.contains_key(id)) {
            match reader.row(id).expect("what was written can be read") {
                Some((row, _)) if row.ended_at.is_some() => {
                    let runs = reader.map_runs(id).expect("what was written can be read");
                    for run in runs.into_iter().filter(|run| run.ended_at.is_none()) {
                        restless.push(format!("{id} has ended, and its Map Run {} has not", run.id));
                    }
                }
                Some((row, _)) => {
                    restless.push(format!(
                        "{id} has not ended: {:?}, awake {}, {:?}",
                        row.status, row.awake, row.wake
                    ));
                }
                None => restless.push(format!("{id} has not ended and has no row")),
            }
        }
        for (number, request) in self.requests.iter().enumerate() {
            if request.told.is_none() && !self.is_given_up(request) {
                restless.push(format!("request {number} was never answered: {:?}", request.wish));
            }
        }
        restless
    }

    /// Kills the last process, and begins one more to see what it finds.
    fn close(&mut self) {
        for number in 0..self.processes.len() {
            self.facts.say(self.clock.now(), || format!("process {number} ends with the simulation"));
            self.processes[number].lose();
        }
        self.home.reopen();
        self.disk().full_until = 0;
        self.disk().fails = false;
        self.open_at_last();
    }

    /// How often each kind of event and fault happened.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let disk = self.disk();
        let mut counts = self.facts.counts.clone();
        counts.extend(disk.faults.iter().map(|(what, times)| (*what, *times)));
        counts.insert("commits", disk.observed.commits);
        counts.insert("runs in a file", u64::from(self.plan.on_disk));
        let is_pair = self.plan.processes > 1 && !self.plan.is_cluster;
        counts.insert("runs of two processes", u64::from(is_pair));
        counts.insert("runs of several nodes", u64::from(self.plan.is_cluster));
        counts.insert("Parallels and Maps that were dropped", disk.observed.fans_dropped);
        counts.insert("segments", disk.observed.segments);
        counts.insert("snapshots", disk.observed.snapshots);
        counts.insert("sleepers", disk.observed.sleepers);
        counts.insert("runners taken down", disk.observed.taken_down);
        counts.insert("Turns", disk.observed.turns.len() as u64);
        counts.insert("executions", disk.observed.executions().len() as u64);
        counts
    }

    fn destinations(&self) -> Everybody {
        Everybody { holds: self.sabotage != Some(Sabotage::HoldIgnored) }
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, life: Life) -> SimStore {
        let most = self.processes.get(life.process).map_or(u16::MAX, |process| process.most);
        SimStore::new(self.home.handle(), self.disk.clone(), life, most)
    }

    fn at(&mut self, at: i64, happening: Happening) {
        self.queued += 1;
        self.queue.insert((at.max(self.clock.now()), self.queued), happening);
    }

    fn after(&mut self, ms: i64, happening: Happening) {
        self.at(self.clock.now() + ms, happening);
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        self.facts.say(self.clock.now(), line);
    }
}
