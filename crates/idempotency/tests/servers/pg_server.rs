//! A PostgreSQL of the test's own, to be killed, and one that follows it.

use crate::redis_server::fresh_name;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A server in a folder of its own, reached by a socket in that folder. Both are gone with it.
pub(crate) struct Server {
    folder: PathBuf,
    process: Mutex<Child>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = fresh_folder();
        let mut initdb = program("initdb", &folder);
        run(initdb.args(["--pgdata=data", "--username=perdura", "--auth=trust", "--no-locale"]).args([
            "--encoding=UTF8",
            "--no-sync",
            "--no-instructions",
        ]));
        Self::up(folder)
    }

    /// One that is given all that the other commits.
    pub(crate) fn following(primary: &Self) -> Self {
        let folder = fresh_folder();
        let mut copy = program("pg_basebackup", &folder);
        copy.arg("--host").arg(&primary.folder).args(["--username=perdura", "--pgdata=data"]);
        run(copy.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]));
        Self::up(folder)
    }

    fn up(folder: PathBuf) -> Self {
        let server = Self { process: Mutex::new(spawn(&folder)), folder };
        server.await_up();
        server
    }

    /// How to connect to it.
    pub(crate) fn config(&self) -> String {
        format!("host={} user=perdura dbname=postgres", self.folder.display())
    }

    /// How to connect to whichever of the two takes writes.
    pub(crate) fn config_with(&self, other: &Self) -> String {
        let (here, there) = (self.folder.display(), other.folder.display());
        format!("host={here},{there} user=perdura dbname=postgres target_session_attrs=read-write")
    }

    /// SIGKILL to it and to all processes that it has started.
    pub(crate) fn crash(&self) {
        let mut process = self.process.lock().expect("no test panics here");
        let all = [vec![process.id()], children(process.id())].concat();
        let killed = Command::new("kill")
            .args(["-s", "KILL"])
            .args(all.iter().map(u32::to_string))
            // One that has ended by itself meanwhile is as good.
            .stderr(Stdio::null())
            .status();
        killed.expect("kill is there");
        process.wait().expect("it was killed");
        // What one of them still holds of the memory that they share is in the way of the next.
        let deadline = Instant::now() + Duration::from_secs(30);
        while all.iter().any(|process| is_alive(*process)) {
            assert!(Instant::now() < deadline, "a process of PostgreSQL does not end");
            std::thread::yield_now();
        }
    }

    /// SIGKILL, and the same data again.
    pub(crate) fn crash_and_restart(&self) {
        self.crash();
        *self.process.lock().expect("no test panics here") = spawn(&self.folder);
        self.await_up();
    }

    /// Makes one that follows take writes itself.
    pub(crate) fn promote(&self) {
        run(program("pg_ctl", &self.folder).args(["promote", "--pgdata=data", "--wait", "--silent"]));
    }

    fn await_up(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let mut ready = program("pg_isready", &self.folder);
            let ready = ready.arg("--quiet").arg("--host").arg(&self.folder).status();
            if ready.expect("pg_isready is there").success() {
                return;
            }
            let ended = self.process.lock().expect("no test panics here").try_wait().expect("it is ours");
            let log =
                || std::fs::read_to_string(self.folder.join("log")).unwrap_or_else(|error| error.to_string());
            assert!(ended.is_none(), "postgres ended with {ended:?}: {}", log());
            assert!(Instant::now() < deadline, "postgres does not answer: {}", log());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.lock().is_ok_and(|mut process| matches!(process.try_wait(), Ok(None))) {
            self.crash();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn fresh_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("perdura-pg-{}", fresh_name()));
    std::fs::create_dir(&folder).expect("the folder is new");
    if let Some((user, group)) = other_user() {
        chown(&folder, Some(user), Some(group)).expect("root may");
    }
    folder
}

/// PostgreSQL does not run as root; its package brings a user.
fn other_user() -> Option<(u32, u32)> {
    let is_root = std::fs::read_to_string("/proc/self/status").is_ok_and(|me| me.contains("\nUid:\t0\t"));
    is_root.then(|| {
        let users = std::fs::read_to_string("/etc/passwd").expect("users can be read");
        let line = users.lines().find(|line| line.starts_with("postgres:"));
        let fields: Vec<_> = line.expect("there is a user postgres").split(':').collect();
        (fields[2].parse().expect("a number"), fields[3].parse().expect("a number"))
    })
}

/// One of PostgreSQL's programs, of the newest version that is installed, in this folder.
fn program(name: &str, folder: &Path) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> =
        versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists()).collect();
    found.sort();
    let mut command = Command::new(found.pop().unwrap_or_else(|| name.into()));
    if let Some((user, group)) = other_user() {
        command.uid(user).gid(group);
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("PostgreSQL is needed here: scripts/test installs it");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn spawn(folder: &Path) -> Child {
    let log = std::fs::File::create(folder.join("log")).expect("the folder can be written");
    program("postgres", folder)
        .args(["-D", "data", "-c", "listen_addresses=", "-c", "shared_buffers=16MB"])
        .arg("-c")
        .arg(format!("unix_socket_directories={}", folder.display()))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("PostgreSQL is needed here: scripts/test installs it")
}

/// The state of a process, and who has started it.
fn about(process: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before them is in brackets, and may hold anything.
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    Some((rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

fn is_alive(process: u32) -> bool {
    about(process).is_some_and(|(state, _)| state != 'Z')
}

fn children(of: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("processes can be listed").flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| about(*process).is_some_and(|(_, parent)| parent == of)).collect()
}
