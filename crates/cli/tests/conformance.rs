//! What AWS itself answered, compared with what our server answers, through the wire.
//!
//! The recorded cases are not part of the project: they are read from `../shared/conformance` beside the checkout,
//! or from `PERDURA_CONFORMANCE`, and passed over where there are none. The real binary is asked what AWS was
//! asked, in the same order, many cases at once; outcome and whole answers are compared by the rules that the
//! engine's own test has. Cases wait as long as their definitions say: the longest a quarter of a minute, beside
//! all others.
//!
//! `conformance/not-yet.txt` names the cases that do not pass, with the reason; a case that fails and is not
//! named, or is named and passes, fails the test. `PERDURA_CASE` picks cases by a part of their file's name.

#[path = "conformance/client.rs"]
mod client;
mod common;
#[path = "../../engine/tests/conformance/compare.rs"]
mod compare;
#[path = "conformance/functions.rs"]
mod functions;
#[path = "conformance/judge.rs"]
mod judge;
#[path = "conformance/left_out.rs"]
mod left_out;
#[path = "../../engine/tests/conformance/mask.rs"]
mod mask;
#[path = "conformance/recording.rs"]
mod recording;
#[path = "conformance/replay.rs"]
mod replay;
#[path = "conformance/services.rs"]
mod services;

use client::Client;
use common::Scene;
use common::server::Server;
use judge::Verdict;
use perdura_engine::asl::json::{Value, parse};
use recording::{Case, text};
use services::Moto;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

/// How many cases are under way at once. Most of them wait most of the time.
const AT_ONCE: usize = 24;

/// The account and the region of the recordings, and AWS's limits.
const SETTINGS: &str =
    "strict = true\n[aws]\naccount = '000000000000'\nregion = 'us-east-1'\npartition = 'aws'\n";

/// The recorded cases, if they are here.
fn folder() -> Option<PathBuf> {
    let given = std::env::var_os("PERDURA_CONFORMANCE").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    given.into_iter().chain([beside]).find(|folder| folder.join("index.json").is_file())
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn cases(folder: &Path) -> Vec<Case> {
    let only = std::env::var("PERDURA_CASE").unwrap_or_default();
    let index = read(&folder.join("index.json"));
    let entries = index.as_array().expect("the index is a list").iter();
    let chosen = entries.filter(|entry| text(entry, "file").contains(&only));
    let case = |entry: &Value| Case {
        file: text(entry, "file").to_owned(),
        tier: text(entry, "tier").to_owned(),
        category: text(entry, "category").to_owned(),
        value: read(&folder.join(text(entry, "file"))),
    };
    chosen.map(case).collect()
}

/// One case against a server: what it is asked, and what is wrong with its answers.
fn try_case(case: &Case, address: &str) -> Verdict {
    let tried = catch_unwind(AssertUnwindSafe(|| {
        let replay = replay::play(case, &mut Client::new(address));
        judge::judge(case, &replay)
    }));
    tried.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map_or("the connection broke", String::as_str);
        Verdict { outcome: vec![words.to_owned()], history: vec![words.to_owned()] }
    })
}

/// The binary, with credentials that moto does not look at.
fn start(scene: &Scene) -> Server {
    let by = ["env", "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=hidden-secret"];
    Server::start_by(scene, &by, &[])
}

/// All cases against one server, but those that count everything: these have one each.
fn try_all(cases: &[Case], settings: &str) -> BTreeMap<String, Verdict> {
    let shared = Scene::new("conformance").file("perdura.toml", settings);
    let shared = start(&shared);
    let waiting = Mutex::new(cases.iter());
    let verdicts = Mutex::new(BTreeMap::new());
    thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                loop {
                    let Some(case) = waiting.lock().expect("nobody panics here").next() else { return };
                    let verdict = if case.counts_all() {
                        let own = Scene::new(&case.file.replace('/', "-")).file("perdura.toml", settings);
                        try_case(case, &start(&own).address)
                    } else {
                        try_case(case, &shared.address)
                    };
                    verdicts.lock().expect("nobody panics here").insert(case.file.clone(), verdict);
                }
            });
        }
    });
    verdicts.into_inner().expect("nobody panicked")
}

#[test]
fn recorded_cases_are_answered_as_aws_answered_them() {
    let Some(folder) = folder() else {
        println!("skipped: no recorded cases in ../shared/conformance or PERDURA_CONFORMANCE");
        return;
    };
    let moto = Moto::start();
    let cases: Vec<Case> = cases(&folder).into_iter().map(|case| moto.furnish(case)).collect();
    let functions = functions::tables(cases.iter().map(|case| &case.value), &functions::start());
    let verdicts = try_all(&cases, &format!("{SETTINGS}{}{functions}", moto.settings()));
    let known: BTreeMap<&str, &str> = include_str!("conformance/not-yet.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .collect();
    let mut table: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in &cases {
        let verdict = &verdicts[&case.file];
        for row in [format!("{}/{}", case.tier, case.category), format!("{} in all", case.tier)] {
            let row = table.entry(row).or_default();
            row[0] += usize::from(verdict.outcome.is_empty());
            row[1] += usize::from(verdict.history.is_empty());
            row[2] += 1;
        }
        match (verdict.passed(), known.contains_key(case.file.as_str())) {
            (true, false) | (false, true) => {}
            (true, true) => wrong.push(format!("{}\n    is named as not passing, but passes", case.file)),
            (false, false) => {
                let mut found = [verdict.outcome.clone(), verdict.history.clone()].concat();
                found.dedup();
                wrong.push(format!("{}\n    {}", case.file, found.join("\n    ")));
            }
        }
    }
    println!("{:<36} {:>12} {:>12}", "category", "outcome", "history");
    for (row, [outcome, history, cases]) in &table {
        println!("{row:<36} {:>12} {:>12}", format!("{outcome}/{cases}"), format!("{history}/{cases}"));
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
