//! A program that embeds perdura, killed again and again at its worst moment: after the effect, before the answer.
//!
//! The program is this very test, run once more as a child. Its steps call a receiver in the parent, which does each
//! thing once by key, and kills the program instead of answering.

mod common;

use common::TempFolder;
use perdura::{Context, Perdura, Retry, Step, StepError, Workflow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

/// How many claims there are.
const CLAIMS: u32 = 5;
/// After which of its calls the program is killed, in each life; then it is left alone.
const DEATHS: [usize; 6] = [1, 2, 3, 4, 1, 5];

/// Where the program finds its data and its receiver. A test process that has them is the program.
const FOLDER: &str = "PERDURA_TEST_FOLDER";
const RECEIVER: &str = "PERDURA_TEST_RECEIVER";

/// What the receiver is told when the program has ended.
const ENDED: &str = "ended\n";

#[derive(Clone, Serialize, Deserialize)]
struct Claim {
    number: u32,
    done: Vec<String>,
}

async fn validate(mut claim: Claim) -> Result<Claim, StepError> {
    claim.done.push("validate".into());
    Ok(claim)
}

/// A step of which only the name differs.
fn notify(whom: &'static str, address: String) -> Step<Claim, Claim> {
    let call = move |context: Context, mut claim: Claim| {
        let address = address.clone();
        async move {
            let mut stream = tokio::net::TcpStream::connect(address).await?;
            let line = format!("{} claim-{}/{whom}\n", context.key(), claim.number);
            stream.write_all(line.as_bytes()).await?;
            let mut receipt = String::new();
            tokio::io::BufReader::new(stream).read_line(&mut receipt).await?;
            if receipt.is_empty() {
                return Err(StepError::uncertain("NoAnswer", "the receiver hung up"));
            }
            claim.done.push(receipt.trim().to_owned());
            Ok(claim)
        }
    };
    Step::new(call).named(whom).retry(Retry::times(3))
}

/// What is killed.
fn be_the_program(folder: &str, address: String) {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let workflow = Workflow::new("claim")
            .step(validate)
            .step(notify("client", address.clone()))
            .step(notify("agent", address.clone()))
            .step(notify("system", address));
        let perdura = Perdura::open(folder).workflow(&workflow).await.unwrap();
        let mut runs = Vec::new();
        for number in 1..=CLAIMS {
            let claim = Claim { number, done: Vec::new() };
            runs.push(perdura.start(&workflow, &format!("claim-{number}"), claim).await.unwrap());
        }
        for (number, run) in (1..).zip(runs) {
            let claim = run.await.unwrap();
            let expected = ["client", "agent", "system"].map(|whom| format!("claim-{number}/{whom}"));
            assert_eq!(claim.done, [&["validate".to_owned()], &expected[..]].concat());
        }
    });
}

/// The program, and a thread that tells the receiver when it has ended.
fn program(folder: &TempFolder, receiver: SocketAddr) -> (Child, JoinHandle<()>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_that_is_killed_loses_nothing_and_does_nothing_twice"])
        .env(FOLDER, folder.path())
        .env(RECEIVER, receiver.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let ended = std::thread::spawn(move || {
        std::io::copy(&mut output, &mut std::io::sink()).unwrap();
        TcpStream::connect(receiver).unwrap().write_all(ENDED.as_bytes()).unwrap();
    });
    (child, ended)
}

/// What the receiver has done, by key, and how often it was asked to.
#[derive(Default)]
struct Receiver {
    done: BTreeMap<String, (String, usize)>,
}

impl Receiver {
    /// Does the thing, unless it was done under this key; what it is.
    fn take(&mut self, line: &str) -> String {
        let (key, what) = line.trim().split_once(' ').unwrap();
        let entry = self.done.entry(key.to_owned()).or_insert_with(|| (what.to_owned(), 0));
        assert_eq!(entry.0, what, "one key stands for one thing");
        entry.1 += 1;
        what.to_owned()
    }
}

/// The next call with its line; `None`: the program has ended. A call that it could not finish is none.
fn next_call(listener: &TcpListener) -> Option<(TcpStream, String)> {
    loop {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        if line == ENDED {
            return None;
        }
        if line.ends_with('\n') {
            return Some((stream, line));
        }
    }
}

#[test]
fn a_program_that_is_killed_loses_nothing_and_does_nothing_twice() {
    if let (Ok(folder), Ok(receiver)) = (std::env::var(FOLDER), std::env::var(RECEIVER)) {
        return be_the_program(&folder, receiver);
    }
    let folder = TempFolder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut receiver = Receiver::default();
    for death in DEATHS {
        let (mut child, ended) = program(&folder, address);
        for call in 1..=death {
            let (mut stream, line) = next_call(&listener).expect("the program lives until it is killed");
            let what = receiver.take(&line);
            if call < death {
                writeln!(stream, "{what}").unwrap();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        ended.join().unwrap();
        // Calls that it had made by then reach the receiver too, and nobody gets the answer.
        while let Some((_, line)) = next_call(&listener) {
            receiver.take(&line);
        }
    }
    let (mut child, ended) = program(&folder, address);
    while let Some((mut stream, line)) = next_call(&listener) {
        let what = receiver.take(&line);
        writeln!(stream, "{what}").unwrap();
    }
    ended.join().unwrap();
    assert!(child.wait().unwrap().success(), "left alone, the program ends well");

    let mut done: Vec<&str> = receiver.done.values().map(|(what, _)| &**what).collect();
    done.sort_unstable();
    let expected = (1..=CLAIMS)
        .flat_map(|number| ["agent", "client", "system"].map(|whom| format!("claim-{number}/{whom}")));
    assert_eq!(done, expected.collect::<Vec<_>>(), "each thing is done, and under one key");
    let asked: usize = receiver.done.values().map(|(_, times)| times).sum();
    assert!(asked >= receiver.done.len() + DEATHS.len(), "each death cost a repetition: {asked}");
}
