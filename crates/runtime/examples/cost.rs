//! What a step costs, for counting its instructions: the loop on one thread over SQLite, with steps that do nothing.
//!
//! `cost STEPS EXECUTIONS` runs so many executions of so many steps, 128 at a time. Nothing in it depends on time, so
//! `valgrind --tool=callgrind` counts the same in every run; what the beginning costs goes out by taking the difference
//! of two runs.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Arns, Destinations, Limits, Moment, Outcome, Policy, Timestamp};
use perdura_runtime::{
    Bounds, Core, Deed, Event, Librarian, Live, Message, Next, Opening, Reply, Start, Via,
};
use perdura_store::{Catalog, NewMachine, RevisionId, SqliteOptions, SqliteStore};
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

/// How many executions are under way at once.
const AT_ONCE: usize = 128;

struct Anybody;

impl Destinations for Anybody {
    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy::default()
    }
}

/// So many steps, one after the other.
fn in_a_row(steps: usize) -> String {
    let state = |at: usize| {
        let next = if at == steps { "\"End\": true".into() } else { format!("\"Next\": \"Step{}\"", at + 1) };
        format!("\"Step{at}\": {{\"Type\": \"Task\", \"Resource\": \"arn:perdura:step:::noop\", {next}}}")
    };
    let states: Vec<String> = (1..=steps).map(state).collect();
    format!("{{\"StartAt\": \"Step1\", \"States\": {{{}}}}}", states.join(", "))
}

/// The only clock and the only dice.
struct Time(u64);

impl Time {
    fn moment(&mut self) -> Moment {
        self.0 += 1;
        let at = Timestamp(1_000_000 + (self.0 / 64) as i64);
        Moment { now: at, steady: at, entropy: u128::from(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 }
    }
}

fn start(revision: RevisionId, ended: Sender<()>) -> Result<Event, Box<dyn Error>> {
    let start = Start {
        revision,
        name: None,
        input: Payload::from_text("{\"amount\": 1}")?,
        limits: Limits::GENEROUS,
        shares_name: false,
        arns: Arns::default(),
        via: Via::default(),
    };
    // If nobody counts any more, all is over.
    let ending = Reply::new(move |_| {
        let _ = ended.send(());
    });
    let (start, reply) = (Box::new(start), Reply::new(drop));
    Ok(Event::Message(Message::Start { start, reply, ending: Some(ending) }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let &[steps, executions] = &numbers[..] else { return Err("usage: cost STEPS EXECUTIONS".into()) };
    let folder = std::env::temp_dir().join(format!("perdura-cost-{}", std::process::id()));
    let mut store = SqliteStore::open(&folder, SqliteOptions::default())?;
    let machine = NewMachine {
        name: "cost".into(),
        kind: MachineType::Standard,
        definition: in_a_row(steps).into(),
        role_arn: None,
        settings: None,
        at: Timestamp(0),
    };
    let revision = store.deploy(&machine, None)?.revision;
    let (mut core, mut time) = (Core::new(60_000, Live::default()), Time(0));
    let mut librarian: Option<Librarian> = None;
    let (ended, ends) = mpsc::channel();
    let (mut begun, mut over) = (0, 0);
    let mut answers = Vec::new();
    loop {
        match core.next(&mut || time.moment()) {
            Next::Do(Deed::Perform { execution, call }) => {
                let outcome = Outcome::Succeeded { output: call.input.clone() };
                answers.push(Event::Message(Message::Answer { execution, by: call.by(), outcome }));
            }
            Next::Do(_) => {}
            Next::Commit(prepared) => {
                core.take(Event::Committed(prepared.write(&mut store)), &time.moment());
            }
            Next::Read(questions) => {
                for question in questions {
                    let finding = librarian.as_mut().map(|librarian| librarian.answer(question));
                    core.take(Event::Read(finding.ok_or("nobody reads")?), &time.moment());
                }
            }
            Next::See(chore) => core.take(Event::Done(chore.see_to(&mut store)), &time.moment()),
            Next::Pass(pass) => core.take(pass.undelivered(), &time.moment()),
            Next::Open(live, anchor) => {
                let moment = time.moment();
                let opening = Opening {
                    holder: "cost".into(),
                    destinations: Arc::new(Anybody),
                    moment,
                    expires_at: moment.now.after_ms(60_000),
                    store: &mut store,
                    live,
                    performs: true,
                    bounds: Bounds::default(),
                    anchor,
                };
                let opened = opening.open()?;
                librarian = Some(opened.librarian);
                core.take(Event::Opened(Ok(Box::new((opened.node, opened.committer)))), &moment);
            }
            Next::Sleep(_) => {
                over += ends.try_iter().count();
                if over == executions {
                    core.take(Event::Close { grace_ms: 0 }, &time.moment());
                }
                while begun < executions && begun - over < AT_ONCE {
                    core.take(start(revision, ended.clone())?, &time.moment());
                    begun += 1;
                }
                for answer in answers.drain(..) {
                    core.take(answer, &time.moment());
                }
            }
            Next::Closed(_) => break,
        }
    }
    println!("{over} executions of {steps} steps");
    drop((core, librarian, store));
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
