//! Calls of every kind to receivers that fail in every way, by a server that is killed again and again.
//!
//! Receivers act, redirect, hang up, die and come back; commands end with exit codes; workers answer late.
//! One receiver honours keys: there everything is done once, whatever is repeated. The other does not: there nothing is
//! sent twice, what is uncertain is held, and a person who asks the receiver brings all of it to its end. The receivers
//! and the workers live in the test, the server is the real binary.

mod books;
#[path = "../common/mod.rs"]
mod common;
mod door;
mod kinds;
mod play;
mod receiver;
mod workers;

use books::Memory;
use door::Caller;
use kinds::{To, Wanted};
use perdura_engine::{LedgerStatus, Status};
use perdura_server::control::{Answer, LedgerEntry, LedgerQuestion, Request, Shown};
use play::{THREADS, World, answer};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

/// How many resolutions are made by the command; the others go the same way without a process for each.
const BY_COMMAND: usize = 4;
/// How long nothing may come to its end before the test gives up.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often the server is killed: a few times in each run of the tests, more often where asked for.
fn kills() -> usize {
    std::env::var("PERDURA_KILLS").map_or(5, |kills| kills.parse().expect("PERDURA_KILLS is a number"))
}

/// What waits for a person, by deed. Also a child has its deed in its input.
fn held(caller: &mut Caller<'_>) -> BTreeMap<String, LedgerEntry> {
    let status = Some(LedgerStatus::Uncertain);
    let question = LedgerQuestion { status, most: 10_000, ..LedgerQuestion::default() };
    let Answer::Ledger(page) = caller.ask(&Request::Ledger(question)) else { panic!("no ledger") };
    let with_deed = page.items.into_iter().map(|entry| {
        let shown = show(caller, &entry.execution.to_string());
        (receiver::deed(shown.input.text()), entry)
    });
    with_deed.collect()
}

fn show(caller: &mut Caller<'_>, execution: &str) -> Box<Shown> {
    match caller.ask(&Request::Show { execution: execution.to_owned() }) {
        Answer::Execution(shown) => shown,
        other => panic!("{execution} is shown as {other:?}"),
    }
}

/// Whether it has ended, and then as it should: with the answer to each of its deeds.
fn has_ended(caller: &mut Caller<'_>, wanted: &Wanted) -> bool {
    let shown = show(caller, &wanted.path());
    if shown.status == Status::Running {
        return false;
    }
    let output = shown.output.as_ref().map(|output| output.text().replace(' ', "")).unwrap_or_default();
    let has_answer = |deed: &String| output.contains(&answer(deed));
    let is_right = shown.status == Status::Succeeded && wanted.deeds.iter().all(has_answer);
    assert!(is_right, "{wanted:?} ended as {shown:?}");
    true
}

/// Takes out what has ended, until what is left is as it should be. Gives up when nothing comes to its end.
fn end(
    caller: &mut Caller<'_>,
    open: &mut Vec<&Wanted>,
    mut is_right: impl FnMut(&mut Caller<'_>, &[&Wanted]) -> bool,
) {
    let mut moved = Instant::now();
    while !is_right(caller, open) {
        let before = open.len();
        open.retain(|wanted| !has_ended(caller, wanted));
        if open.len() < before {
            moved = Instant::now();
        }
        let named: Vec<&str> = open.iter().take(10).map(|wanted| &*wanted.name).collect();
        assert!(moved.elapsed() < PATIENCE, "{} executions are stuck: {named:?}", open.len());
        thread::yield_now();
    }
}

fn deeds(wanted: &[Wanted], to: To) -> Vec<String> {
    wanted.iter().filter(|wanted| wanted.to == to).flat_map(|wanted| wanted.deeds.clone()).collect()
}

#[test]
fn what_is_done_under_a_key_is_done_once_and_what_may_not_be_repeated_is_held() {
    let began = Instant::now();
    let kills = kills();
    let world = &World::new("world-kills", Memory::Keys);
    let (a, b) = (&world.a, &world.b);
    let all = thread::scope(|scope| {
        let _closing = world.door.closing();
        let mut server = Some(world.serve());
        world.deploy();
        for to in [To::A, To::B] {
            for _ in 0..THREADS {
                scope.spawn(move || world.work(to));
            }
        }
        let all = world.kill_and_start(&mut server, kills);
        eprintln!("{} executions, {kills} kills, {:?}", all.len(), began.elapsed());
        let caller = &mut world.door.caller();

        let wanted_of_a = deeds(&all, To::A);
        a.until(|books| books.done() >= wanted_of_a.len());
        let mut open: Vec<&Wanted> = all.iter().filter(|wanted| wanted.to == To::A).collect();
        end(caller, &mut open, |_, open| open.is_empty());
        eprintln!("A: {} deeds, {}, {:?}", wanted_of_a.len(), a.books().told(), began.elapsed());

        let mut open: Vec<&Wanted> = all.iter().filter(|wanted| wanted.to == To::B).collect();
        end(caller, &mut open, |caller, open| {
            let held = held(caller);
            open.iter().all(|wanted| wanted.deeds.iter().any(|deed| held.contains_key(deed)))
        });
        let held_first = held(caller);
        let unseen = held_first.values().filter(|entry| !b.books().has_seen(&entry.wire_key)).count();
        eprintln!("B: {} held, {unseen} of them never left, {:?}", held_first.len(), began.elapsed());
        assert!(!held_first.is_empty(), "nothing was uncertain");
        assert_eq!(b.books().repeated(), [""; 0]);
        let listed = world.scene.json(&["ledger", "--uncertain", "--limit", "10000"]);
        let mut resolved = BTreeSet::new();
        for (deed, entry) in held_first.iter().filter(|(deed, _)| deed.starts_with("http")).take(BY_COMMAND) {
            assert!(listed.iter().any(|listed| listed["key"] == *entry.key), "{listed:?}");
            world.resolve_by_command(deed, entry);
            resolved.insert(entry.key.clone());
        }
        let mut is_killed = false;
        end(caller, &mut open, |caller, open| {
            for (at, (deed, entry)) in held(caller).into_iter().enumerate() {
                if resolved.insert(entry.key.clone()) {
                    world.resolve(caller, &deed, &entry);
                }
                if at == held_first.len() / 2 && !is_killed {
                    is_killed = true;
                    world.kill(&mut server);
                }
            }
            open.is_empty()
        });
        eprintln!("B: {}, {} resolved, {:?}", b.books().told(), resolved.len(), began.elapsed());
        let totals = world.scene.one(&["stats"])["totals"].take();
        eprintln!("{totals}");
        assert!(totals["steps_repeated"].as_u64() > Some(0), "no kill hit a call: {totals}");
        all
    });
    let late = [To::A, To::B].map(|to| world.workers(to).late());
    eprintln!("late answers: {late:?}; deaths: {}, {}", a.deaths(), b.deaths());
    assert!(late[0].successes > 0 && late[0].failures > 0, "nobody was late: {late:?}");
    assert!(a.deaths() > 0 && b.deaths() > 0, "no receiver died");
    assert_eq!(a.books().complaints(&deeds(&all, To::A)), [""; 0]);
    assert_eq!(b.books().complaints(&deeds(&all, To::B)), [""; 0]);
    assert_eq!(b.books().repeated(), [""; 0]);
    assert!(!a.books().repeated().is_empty(), "nothing was repeated");
    assert_eq!(world.scene.json(&["ledger", "--uncertain"]), [0; 0]);
    assert_eq!(world.scene.one(&["check"])["findings"], serde_json::json!([]));
}

#[test]
fn a_receiver_that_forgets_its_keys_is_seen_to_do_things_twice() {
    let world = &World::new("world-forgets", Memory::None);
    let mut server = Some(world.serve());
    world.deploy();
    let all = world.kill_and_start(&mut server, 1);
    let is_called_by_server =
        |wanted: &&Wanted| wanted.to == To::A && !wanted.machine.starts_with("activity");
    let all: Vec<Wanted> = all.iter().filter(is_called_by_server).cloned().collect();
    let wanted = deeds(&all, To::A);
    world.a.until(|books| books.done() >= wanted.len());
    let complaints = world.a.books().complaints(&wanted);
    let doubles = complaints.iter().filter(|complaint| complaint.contains(" was done ")).count();
    assert!(doubles > 0 && doubles == complaints.len(), "{complaints:?}");
    assert!(!world.a.books().repeated().is_empty(), "what is not held is repeated");
}
