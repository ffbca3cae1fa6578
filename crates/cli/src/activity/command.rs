//! One command for one task: input in, result or error out, and the end of all that it started.

use perdura_asl::json::Payload;
use perdura_server::control::Task;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// How much of what a command writes to stderr is kept: its end.
const STDERR_KEPT: usize = 32 * 1024;
/// How much a command reads or writes at once.
const PIECE: usize = 8 * 1024;

/// What came of a task.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Done(Payload),
    Failed {
        error: String,
        cause: String,
        /// It may have been done all the same.
        uncertain: bool,
    },
}

/// The processes of a command, for as long as it has not been waited for.
#[derive(Clone, Default)]
pub(super) struct Group(Arc<Mutex<Option<Pid>>>);

impl Group {
    /// Ends all of them.
    pub(super) fn kill(&self) {
        if let Some(leader) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // A group that is gone already is as good as one that was ended.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    fn set(&self, leader: Option<Pid>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = leader;
    }
}

/// Runs a command to its end. `group` can end it from elsewhere.
pub(super) fn run(command: &[OsString], task: &Task, bytes_max: usize, group: &Group) -> Verdict {
    let Some((program, arguments)) = command.split_first() else {
        return not_started("there is no command");
    };
    let spawned = Command::new(program)
        .args(arguments)
        .env("PERDURA_IDEMPOTENCY_KEY", &task.wire_key)
        .env("PERDURA_TASK_TOKEN", &task.token)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    match spawned {
        Ok(mut child) => {
            group.set(Some(Pid::from_child(&child)));
            let ended = attend(&mut child, task, bytes_max, group);
            group.set(None);
            match ended {
                Ok((status, stdout, stderr)) => verdict(status, stdout, &stderr, bytes_max),
                Err(error) => not_started(&error.to_string()),
            }
        }
        Err(error) => not_started(&format!("cannot start {}: {error}", program.display())),
    }
}

fn not_started(why: &str) -> Verdict {
    Verdict::Failed { error: "Runtime.InvalidEntrypoint".into(), cause: why.into(), uncertain: false }
}

fn attend(
    child: &mut Child,
    task: &Task,
    bytes_max: usize,
    group: &Group,
) -> std::io::Result<(ExitStatus, Vec<u8>, String)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = task.input.text().clone();
    let writer = thread::spawn(move || {
        // A command need not read its input.
        stdin.map(|mut stdin| stdin.write_all(input.as_bytes()).is_ok());
    });
    let flooded = group.clone();
    let reader: JoinHandle<Vec<u8>> = thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read is missing from the answer, which is judged as it is.
        let _ = stdout.map(|stdout| stdout.take(bytes_max as u64 + 1).read_to_end(&mut bytes));
        if bytes.len() > bytes_max {
            flooded.kill();
        }
        bytes
    });
    let complaints = thread::spawn(move || stderr.map(tail).unwrap_or_default());
    let stdout = reader.join().unwrap_or_default();
    let status = child.wait()?;
    // What is left of the group goes with its leader.
    group.kill();
    let stderr = complaints.join().unwrap_or_default();
    // It ends as soon as nobody is left to read.
    let _ = writer.join();
    Ok((status, stdout, stderr))
}

/// The end of what is read.
fn tail(mut reader: impl Read) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; PIECE]);
    while let Ok(read @ 1..) = reader.read(&mut piece) {
        kept.extend_from_slice(&piece[..read]);
        let over = kept.len().saturating_sub(STDERR_KEPT);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).trim_end().to_owned()
}

/// As functions are judged: see docs/running.md.
fn verdict(status: ExitStatus, stdout: Vec<u8>, stderr: &str, bytes_max: usize) -> Verdict {
    let failed =
        |error: &str, cause: String, uncertain| Verdict::Failed { error: error.into(), cause, uncertain };
    if stdout.len() > bytes_max {
        return failed(
            "States.DataLimitExceeded",
            format!("The result has more than {bytes_max} bytes."),
            true,
        );
    }
    let said = String::from_utf8(stdout).ok();
    let text = said.as_deref().map(str::trim).map(|text| if text.is_empty() { "null" } else { text });
    let value = text.and_then(|text| Payload::from_text(text).ok());
    match status.code() {
        Some(0) => match value {
            Some(output) => Verdict::Done(output),
            None => failed("Runtime.MarshalError", "stdout is not one JSON value".into(), true),
        },
        Some(code) => {
            let named = value.as_ref().and_then(|value| value.value().get("errorType")?.as_str());
            match (named, &value) {
                (Some(error), Some(value)) => failed(error, value.to_string(), false),
                (_, _) if stderr.is_empty() => {
                    failed("Runtime.ExitError", format!("exit code {code}"), false)
                }
                (_, _) => failed("Runtime.ExitError", stderr.to_owned(), false),
            }
        }
        None => {
            let signal = status.signal().unwrap_or_default();
            failed("Runtime.ExitError", format!("ended by signal {signal}\n{stderr}").trim_end().into(), true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(script: &str) -> Verdict {
        let task = Task {
            token: "t".into(),
            key: "k".into(),
            wire_key: "w".into(),
            input: Payload::from_text(r#"{"a": 1}"#).unwrap(),
        };
        let command = ["sh", "-c", script].map(OsString::from);
        run(&command, &task, 64, &Group::default())
    }

    fn failed(error: &str, cause: &str, uncertain: bool) -> Verdict {
        Verdict::Failed { error: error.into(), cause: cause.into(), uncertain }
    }

    #[test]
    fn what_a_command_says_is_its_answer() {
        let done = |text: &str| Verdict::Done(Payload::from_text(text).unwrap());
        let limit = "The result has more than 64 bytes.";
        for (script, expected) in [
            ("cat", done(r#"{"a": 1}"#)),
            ("exit 0", done("null")),
            ("echo \"\\\"$PERDURA_IDEMPOTENCY_KEY $PERDURA_TASK_TOKEN\\\"\"", done("\"w t\"")),
            ("echo nonsense", failed("Runtime.MarshalError", "stdout is not one JSON value", true)),
            ("echo why >&2; exit 3", failed("Runtime.ExitError", "why", false)),
            ("exit 3", failed("Runtime.ExitError", "exit code 3", false)),
            ("echo '{\"errorType\":\"No\"}'; exit 1", failed("No", "{\"errorType\":\"No\"}", false)),
            ("kill -9 $$", failed("Runtime.ExitError", "ended by signal 9", true)),
            ("yes", failed("States.DataLimitExceeded", limit, true)),
        ] {
            assert_eq!(ran(script), expected, "{script}");
        }
    }

    #[test]
    fn what_cannot_be_started_was_not_done() {
        let task = Task {
            token: "t".into(),
            key: "k".into(),
            wire_key: "w".into(),
            input: Payload::from_text("1").unwrap(),
        };
        let verdict = run(&["/no/such/program".into()], &task, 64, &Group::default());
        let Verdict::Failed { error, uncertain, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!((&*error, uncertain), ("Runtime.InvalidEntrypoint", false));
    }
}
