//! One running instance of the example program, and what can be done to it.

use crate::redis_server;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};

/// Nothing that is waited for takes longer, on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The lease of all instances: short, because most stories wait for its end.
pub(crate) const LEASE: Duration = Duration::from_millis(400);
pub(crate) const API_KEY: &str = "the-key-of-a-test";

/// How an instance is started.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) store: String,
    pub(crate) lease: Duration,
    /// The file by which its wall clock goes; its steady clock is left alone.
    pub(crate) clock: Option<PathBuf>,
    pub(crate) work_ms: u64,
    pub(crate) sweep_ms: u64,
    pub(crate) halt_at: Option<String>,
}

pub(crate) struct Instance {
    child: Child,
    address: String,
    /// Held open, because the program says when it has ended.
    _said: BufReader<ChildStdout>,
    errors: PathBuf,
}

impl Instance {
    /// Starts one, and waits until it takes requests.
    pub(crate) async fn start(setup: &Setup) -> Self {
        let setup = setup.clone();
        tokio::task::spawn_blocking(move || Self::start_now(&setup)).await.expect("it starts")
    }

    fn start_now(setup: &Setup) -> Self {
        let errors = setup.folder.join(format!("{}.log", setup.name));
        let mut command = Command::new(program());
        command
            .args(["--store", &setup.store, "--listen", "127.0.0.1:0"])
            .args(["--lease-ms", &setup.lease.as_millis().to_string()])
            .args(["--work-ms", &setup.work_ms.to_string(), "--sweep-ms", &setup.sweep_ms.to_string()])
            .args(setup.halt_at.iter().flat_map(|point| ["--halt-at", point]))
            .arg("--ledger")
            .arg(setup.folder.join("ledger.jsonl"))
            .env("PAYMENTS_SECRET", "the secret of a test, which is long enough")
            .env("PAYMENTS_API_KEYS", format!("tester={API_KEY}"))
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).expect("a log can be written"));
        if let Some(clock) = &setup.clock {
            command
                .env("LD_PRELOAD", redis_server::faketime())
                .env("FAKETIME_TIMESTAMP_FILE", clock)
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let mut child = command.spawn().expect("the example starts");
        let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
        let address = said
            .by_ref()
            .lines()
            .find_map(|line| line.expect("it speaks UTF-8").strip_prefix("listening on ").map(str::to_owned));
        let Some(address) = address else {
            child.wait().expect("it ended");
            panic!("the example did not start: {}", read(&errors));
        };
        Self { child, address, _said: said, errors }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }

    /// Waits until it is stopped.
    pub(crate) async fn stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        let is_stopped = || {
            let stat = std::fs::read_to_string(&stat).expect("it is there");
            // The name before the state is in brackets, and may hold anything.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        let patience = Patience::until("it stops");
        while !is_stopped() {
            patience.once_more().await;
        }
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let patience = Patience::until("it ends");
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            patience.once_more().await;
        }
    }

    /// Ends it at once.
    pub(crate) async fn kill(mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Ends it as an operator does, and holds it to ending well.
    pub(crate) async fn end(mut self) {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert!(status.success(), "{status}: {}", read(&self.errors));
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::KILL);
            self.child.wait().expect("it ends");
        }
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it was written")
}

/// For asking again and again whether something has come about.
pub(crate) struct Patience {
    what: &'static str,
    until: Instant,
}

impl Patience {
    pub(crate) fn until(what: &'static str) -> Self {
        Self { what, until: Instant::now() + PATIENCE }
    }

    /// It has not yet.
    pub(crate) async fn once_more(&self) {
        assert!(Instant::now() < self.until, "waited in vain until {}", self.what);
        sleep(Duration::from_millis(5)).await;
    }
}

/// The example, which cargo puts beside this test. One that is older than its sources would prove nothing.
fn program() -> PathBuf {
    let remedy = "build it first: cargo build --package perdura-idempotency --example payments";
    let test = std::env::current_exe().expect("a test is a file");
    let program = test.parent().and_then(Path::parent).expect("it is in target").join("examples/payments");
    let changed_at = |path: &Path| std::fs::metadata(path).and_then(|about| about.modified());
    let built_at =
        changed_at(&program).unwrap_or_else(|error| panic!("{}: {error}; {remedy}", program.display()));
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let newest =
        [crate_folder.join("src"), crate_folder.join("examples/payments")].map(|folder| newest_in(&folder));
    assert!(
        newest.iter().all(|at| *at <= built_at),
        "{} is older than its sources; {remedy}",
        program.display()
    );
    program
}

fn newest_in(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).expect("sources can be read");
    let times = entries.map(|entry| {
        let entry = entry.expect("sources can be read");
        let about = entry.metadata().expect("sources can be read");
        if about.is_dir() { newest_in(&entry.path()) } else { about.modified().expect("files have a time") }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
