//! A Redis of the test's own, on a clock that the test moves, or the one that all tests share.

use jiff::SignedDuration;
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::store::redis::Options;
use perdura_idempotency::store::{Pending, Redis};
use std::future::ready;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Where the shared server is.
pub(crate) fn url() -> String {
    std::env::var("PERDURA_REDIS")
        .expect("this test needs Redis, where PERDURA_REDIS says: run it through scripts/with-servers")
}

/// A name that no other test and no other process uses.
pub(crate) fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn options(prefix: &str) -> Options {
    Options { prefix: prefix.into(), timeout_for: Duration::from_secs(30), ..Options::default() }
}

pub(crate) async fn open(url: &str, prefix: &str) -> Redis {
    Redis::connect(url, options(prefix)).await.expect("the store opens")
}

/// Two instances on this server, and its clock.
pub(crate) async fn bench(server: Server) -> Bench {
    let (url, prefix) = (server.url(), fresh_name());
    let (here, there) = tokio::join!(open(&url, &prefix), open(&url, &prefix));
    let step = move |time: SignedDuration| -> Pending<'static, ()> {
        server.step(time.as_secs_f64());
        Box::pin(ready(()))
    };
    Bench::new([Arc::new(here), Arc::new(there)], true, Box::new(step))
}

/// A server in a folder of its own, reached by a socket in that folder. Both are gone with it.
pub(crate) struct Server {
    folder: PathBuf,
    /// What it is told beyond what all are told.
    more: Vec<String>,
    process: Mutex<Child>,
    ahead_micros: Mutex<i64>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(Vec::new())
    }

    pub(crate) fn start_with(more: Vec<String>) -> Self {
        let folder = std::env::temp_dir().join(format!("perdura-{}", fresh_name()));
        std::fs::create_dir(&folder).expect("the folder is new");
        std::fs::write(folder.join("clock"), "+0").expect("the folder can be written");
        let process = Mutex::new(spawn(&folder, &more));
        let server = Self { folder, more, process, ahead_micros: Mutex::new(0) };
        server.await_up();
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// From now on it follows another server, and takes no writes.
    pub(crate) fn demote(&self) {
        let mut up = redis::Client::open(self.url()).and_then(|client| client.get_connection());
        let up = up.as_mut().expect("it is up");
        redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).query::<()>(up).expect("it follows");
    }

    /// Steps the server's clock. It reads the file before each look at the clock.
    pub(crate) fn step(&self, seconds: f64) {
        let mut ahead = self.ahead_micros.lock().expect("no test panics here");
        *ahead = ahead.saturating_add((seconds * 1e6) as i64);
        let new = self.folder.join("clock.new");
        std::fs::write(&new, format!("{:+.6}", *ahead as f64 / 1e6)).expect("the folder can be written");
        std::fs::rename(&new, self.folder.join("clock")).expect("the clock is replaced as a whole");
    }

    /// SIGKILL, and the same data again.
    pub(crate) fn crash_and_restart(&self) {
        self.crash();
        *self.process.lock().expect("no test panics here") = spawn(&self.folder, &self.more);
        self.await_up();
    }

    /// SIGKILL.
    pub(crate) fn crash(&self) {
        let mut process = self.process.lock().expect("no test panics here");
        process.kill().expect("it runs");
        process.wait().expect("it was killed");
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.process.lock().expect("no test panics here").id();
        let sent = Command::new("kill").args(["-s", name, &process.to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    fn await_up(&self) {
        let client = redis::Client::open(self.url()).expect("the address is well-formed");
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer =
                client.get_connection().and_then(|mut up| redis::cmd("PING").query::<String>(&mut up));
            if answer.is_ok() {
                return;
            }
            let ended =
                self.process.lock().expect("no test panics here").try_wait().expect("it can be asked");
            let log =
                || std::fs::read_to_string(self.folder.join("log")).unwrap_or_else(|error| error.to_string());
            assert!(ended.is_none(), "redis-server ended with {ended:?}: {}", log());
            assert!(Instant::now() < deadline, "redis-server does not answer: {answer:?} {}", log());
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(mut process) = self.process.lock() {
            // It may have ended by itself; a folder that stays is in the way of nobody.
            let _ = process.kill().and_then(|()| process.wait());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// libc goes before Redis's own allocator, which asks for the time before faketime can tell it.
fn spawn(folder: &Path, more: &[String]) -> Child {
    let log = std::fs::File::create(folder.join("log")).expect("the folder can be written");
    let settings = "--port 0 --unixsocket socket --save  --appendonly yes --appendfsync always";
    Command::new("redis-server")
        .args(settings.split(' '))
        .args(more)
        .current_dir(folder)
        .env("LD_PRELOAD", format!("{}:libc.so.6", faketime().display()))
        .env("FAKETIME_TIMESTAMP_FILE", folder.join("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is needed here: scripts/test installs it")
}

/// The library that tells another time.
pub(crate) fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("there are libraries");
    let found = folders.flatten().map(|entry| entry.path().join("faketime/libfaketime.so.1"));
    found.into_iter().find(|path| path.exists()).expect("faketime is needed here: scripts/test installs it")
}
