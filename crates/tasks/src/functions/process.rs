//! Runs one command: text in, bytes out, with a limit on everything.
//!
//! A command leads a process group of its own, so that it can be killed with all processes that it started, and so that
//! a Ctrl-C at the terminal reaches only us. Processes left in the group when its leader ends are killed too.

use super::Environment;
use crate::lack::is_lack;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How much of a command's stderr is kept: its end, as long as a cause may be on AWS.
const STDERR_KEPT: usize = 32 * 1024;
/// How long a pipe may stay open after its command ended: a process that left the group may hold it.
const PIPE_GRACE: Duration = Duration::from_secs(1);

/// A program with its arguments, and the folder it runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The program: a path, or a name that is looked up in PATH.
    pub path: PathBuf,
    pub arguments: Vec<String>,
    pub folder: PathBuf,
    /// Its environment, besides the key.
    pub environment: Environment,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It exited, with these bytes on stdout and stderr.
    Exited { code: i32, stdout: Vec<u8>, stderr: String },
    /// A signal killed it that was not ours.
    Killed { signal: i32, stderr: String },
    /// Its output was too large, and it was killed.
    Flooded,
    /// It was started, but could not be read or waited for, and was killed. It may have acted before.
    Unattended { reason: String },
    /// It could not be started.
    NotStarted { reason: String },
    /// It could not be started for the moment: this machine lacks processes, files or memory.
    NotNow { reason: String },
}

/// The process group of a command.
#[derive(Clone, Debug, Default)]
pub struct Group(Arc<Mutex<Life>>);

#[derive(Debug, Default)]
enum Life {
    #[default]
    Before,
    /// Led by this process, which has not been waited for, so its number cannot be reused yet.
    Running(Pid),
    Over,
}

impl Group {
    fn lock(&self) -> std::sync::MutexGuard<'_, Life> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the whole group. A command that has not begun will not begin.
    pub fn kill(&self) {
        self.end();
    }

    /// Kills the group; returns whether it had begun.
    pub(super) fn end(&self) -> bool {
        let mut life = self.lock();
        match *life {
            Life::Running(leader) => {
                end(leader);
                true
            }
            Life::Before => {
                *life = Life::Over;
                false
            }
            Life::Over => true,
        }
    }

    /// Starts the command, unless it was killed before.
    fn spawn(&self, command: &mut Command) -> io::Result<Option<Child>> {
        let mut life = self.lock();
        if matches!(*life, Life::Over) {
            return Ok(None);
        }
        let child = command.spawn()?;
        *life = Life::Running(Pid::from_child(&child));
        Ok(Some(child))
    }

    /// The leader has ended and was not waited for yet: kills the rest of the group.
    fn close(&self) {
        let mut life = self.lock();
        if let Life::Running(leader) = *life {
            end(leader);
        }
        *life = Life::Over;
    }
}

fn end(leader: Pid) {
    // An error means that the group is gone already.
    let _ = kill_process_group(leader, Signal::KILL);
}

/// Runs a command to its end. `group` can kill it from elsewhere. The threads and pipes are ready before the command
/// begins, so that a started command never has to be given up.
pub(crate) fn run(
    program: &Program,
    variables: &[(&str, &str)],
    input: Arc<str>,
    bytes_max: usize,
    group: &Group,
) -> Ended {
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .current_dir(&program.folder)
        .env_clear()
        .envs(program.environment.of(std::env::vars_os()))
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let started = Attendance::prepare(input, bytes_max, group)
        .and_then(|attendance| Ok(group.spawn(&mut command)?.map(|child| (attendance, child))));
    match started {
        Ok(Some((attendance, mut child))) => attendance.attend(&mut child, group).unwrap_or_else(|error| {
            group.close();
            // It was just killed; waiting for it removes it from the system's process table.
            let _ = child.wait();
            Ended::Unattended { reason: error.to_string() }
        }),
        Ok(None) => Ended::NotStarted { reason: "nobody waits for it any more".into() },
        Err(error) => {
            let (path, folder) = (program.path.display(), program.folder.display());
            let reason = format!("cannot start {path} in {folder}: {error}");
            if is_lack(&error) { Ended::NotNow { reason } } else { Ended::NotStarted { reason } }
        }
    }
}

/// The threads that write a command's stdin and read its output. They wait for its pipes, and end if there will be
/// none.
struct Attendance {
    stdin: SyncSender<ChildStdin>,
    stdout: (SyncSender<ChildStdout>, Heard),
    stderr: (SyncSender<ChildStderr>, Heard),
}

impl Attendance {
    fn prepare(input: Arc<str>, bytes_max: usize, group: &Group) -> io::Result<Self> {
        let (stdin, given) = mpsc::sync_channel::<ChildStdin>(1);
        apart("stdin", move || {
            // A command need not read its input.
            let _ = given.recv().map(|mut stdin| stdin.write_all(input.as_bytes()));
        })?;
        let stdout = Heard::listen("stdout", Keep::All { bytes_max }, group.clone())?;
        let stderr = Heard::listen("stderr", Keep::End, group.clone())?;
        Ok(Self { stdin, stdout, stderr })
    }

    /// Serves a command's pipes, and waits for its end.
    fn attend(self, child: &mut Child, group: &Group) -> io::Result<Ended> {
        hand(&self.stdin, child.stdin.take());
        hand(&self.stdout.0, child.stdout.take());
        hand(&self.stderr.0, child.stderr.take());
        attend(child, self.stdout.1, self.stderr.1, group)
    }
}

/// Passes a pipe to the thread that waits for it.
fn hand<Pipe>(to: &SyncSender<Pipe>, pipe: Option<Pipe>) {
    // Each thread waits until it has its pipe.
    let _ = pipe.map(|pipe| to.send(pipe));
}

/// Waits for a command whose pipes are served.
fn attend(child: &mut Child, stdout: Heard, stderr: Heard, group: &Group) -> io::Result<Ended> {
    // Do not reap it yet: until then no other process can get its number.
    while let Err(rustix::io::Errno::INTR) =
        waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
    group.close();
    let status = child.wait()?;
    let Some(stdout) = stdout.all() else { return Ok(Ended::Flooded) };
    let stderr = String::from_utf8_lossy(&stderr.all().unwrap_or_default()).trim().to_owned();
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited { code, stdout, stderr },
        (None, signal) => Ended::Killed { signal: signal.unwrap_or_default(), stderr },
    })
}

/// Runs work in a thread of its own; its result can be waited for.
fn apart<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new().name(name.into()).spawn(move || {
        // The receiver may be gone.
        let _ = sender.send(work());
    })?;
    Ok(receiver)
}

/// The output of a command on a pipe so far.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Whether it was too much, sent once the pipe has closed.
    closed: Receiver<bool>,
}

/// How much of the output to keep.
#[derive(Clone, Copy)]
enum Keep {
    /// All; more than this is too much.
    All { bytes_max: usize },
    /// The last [`STDERR_KEPT`] bytes.
    End,
}

impl Heard {
    /// Reads the pipe that it will be given.
    fn listen<Pipe: Read + Send + 'static>(
        name: &str,
        keep: Keep,
        group: Group,
    ) -> io::Result<(SyncSender<Pipe>, Self)> {
        let (pipe, given) = mpsc::sync_channel::<Pipe>(1);
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = bytes.clone();
        let closed = apart(name, move || {
            let is_too_much = given.recv().is_ok_and(|pipe| hear(pipe, keep, &shared));
            if is_too_much {
                group.kill();
            }
            is_too_much
        })?;
        Ok((pipe, Self { bytes, closed }))
    }

    /// All of the output; `None` if it was too much. Call it when the command has ended.
    fn all(self) -> Option<Vec<u8>> {
        let too_much = self.closed.recv_timeout(PIPE_GRACE).unwrap_or(false);
        (!too_much).then(|| std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Reads until the pipe closes, or until the output is too large.
fn hear(mut pipe: impl Read, keep: Keep, kept: &Mutex<Vec<u8>>) -> bool {
    let mut chunk = [0; 8192];
    loop {
        let count = match pipe.read(&mut chunk) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Keep the bytes that were read before.
            Err(_) => return false,
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&chunk[..count]);
        match keep {
            Keep::All { bytes_max } if kept.len() > bytes_max => return true,
            Keep::End if kept.len() > STDERR_KEPT => {
                let surplus = kept.len() - STDERR_KEPT;
                kept.drain(..surplus);
            }
            Keep::All { .. } | Keep::End => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_is_bounded() {
        let heard = |text: &[u8], keep| {
            let kept = Mutex::new(Vec::new());
            let too_much = hear(text, keep, &kept);
            (too_much, String::from_utf8(kept.into_inner().unwrap()).unwrap())
        };
        assert_eq!(heard(b"12345", Keep::All { bytes_max: 5 }), (false, "12345".into()));
        assert!(heard(b"123456", Keep::All { bytes_max: 5 }).0);
        let long = "x".repeat(5 * STDERR_KEPT) + "the end";
        let (too_much, kept) = heard(long.as_bytes(), Keep::End);
        assert!(!too_much && kept.len() == STDERR_KEPT && kept.ends_with("the end"));
    }

    #[test]
    fn what_was_ended_before_it_began_never_begins() {
        let group = Group::default();
        group.kill();
        let program = Program { path: "true".into(), folder: "/".into(), ..Program::default() };
        let ended = run(&program, &[], "{}".into(), 10, &group);
        assert!(matches!(ended, Ended::NotStarted { .. }), "{ended:?}");
    }
}
