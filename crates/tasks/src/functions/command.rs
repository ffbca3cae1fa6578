//! A function that is a local command: one process group for each call.

use super::outcome::{LogResult, failed, of_command, timed_out, with_log};
use super::process::{self, Ended, Group};
use super::{Calling, Functions, Program, Shape, plain_name};
use crate::lack::Pauses;
use perdura_engine::{Certainty, Fault, Outcome};
use std::sync::Arc;
use std::time::Duration;

/// The variable with a command's key.
const KEY: &str = "PERDURA_IDEMPOTENCY_KEY";
/// The variable with the task token of a command that works on an activity.
const TOKEN: &str = "PERDURA_TASK_TOKEN";

/// A task of an activity, for a command.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The activity, for messages.
    pub activity: &'a str,
    /// Its key on the wire.
    pub key: &'a str,
    pub token: &'a str,
    pub input: &'a Arc<str>,
}

/// Runs a command for a task of an activity to its end, and returns its outcome as for a function. `group` can end it
/// from elsewhere. It blocks: do not call it on an async thread.
pub fn work(program: &Program, work: Work<'_>, bytes_max: usize, group: &Group) -> Outcome {
    let variables = [(KEY, work.key), (TOKEN, work.token)];
    let mut pauses = Pauses::default();
    loop {
        let ended = process::run(program, &variables, work.input.clone(), bytes_max, group);
        match ended {
            Ended::NotNow { reason } => {
                tracing::warn!(reason, "the command is put off, for this machine lacks what it needs");
                std::thread::sleep(pauses.next().unwrap_or_default());
            }
            ended => return of_command(&ended, work.activity, Shape::Bare),
        }
    }
}

/// Ends a command when its caller no longer waits.
struct EndOnDrop(Group);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl Functions {
    pub(super) async fn command(
        &self,
        program: &Arc<Program>,
        timeout: Option<Duration>,
        calling: Calling<'_>,
    ) -> Outcome {
        let _held = self.shares.enter(plain_name(&calling.invocation.name)).await;
        let (wire, input) = (calling.call.key.wire().to_string(), calling.invocation.payload.text().clone());
        let (group, bytes_max) = (Group::default(), self.answer_bytes_max);
        let _ending = EndOnDrop(group.clone());
        let running = async {
            let mut pauses = Pauses::default();
            loop {
                let (program, wire, input, group) =
                    (program.clone(), wire.clone(), input.clone(), group.clone());
                let ran = tokio::task::spawn_blocking(move || {
                    process::run(&program, &[(KEY, &wire)], input, bytes_max, &group)
                });
                match ran.await {
                    Ok(Ended::NotNow { reason }) => self.put_off.tell(&reason),
                    ended => break ended,
                }
                tokio::time::sleep(pauses.next().unwrap_or_default()).await;
            }
        };
        let ended = match timeout {
            None => running.await,
            Some(most) => match tokio::time::timeout(most, running).await {
                Ok(ended) => ended,
                Err(_) if group.end() => return timed_out(most, Certainty::Ambiguous),
                Err(_) => return timed_out(most, Certainty::NotSent),
            },
        };
        match ended {
            Ok(ended) => {
                let outcome = of_command(&ended, calling.call.resource.whose(), calling.invocation.shape);
                match &ended {
                    // A command's stderr is its log.
                    Ended::Exited { stderr, .. } if calling.invocation.wants_log => {
                        with_log(outcome, LogResult::Text(stderr.as_bytes()))
                    }
                    _ => outcome,
                }
            }
            // The command may have been running for long.
            Err(error) => {
                let cause = format!("the command could not be attended to: {error}");
                failed(Fault::new("Runtime.ExitError", cause), Certainty::Ambiguous)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::Payload;

    fn worked(path: &str, arguments: &[&str]) -> Outcome {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let program = Program { path: path.into(), arguments, folder: ".".into(), ..Program::default() };
        let task = Work { activity: "pay", key: "k", token: "t", input: &r#"{"a": 1}"#.into() };
        work(&program, task, 64, &Group::default())
    }

    #[test]
    fn a_command_gets_input_key_and_token_and_what_it_says_is_its_answer() {
        use Certainty::Ambiguous;
        let done = |text: &str| Ok(Payload::from_text(text).unwrap());
        let too_large = "The state/task 'pay' returned a result with a size exceeding the maximum number of bytes \
                         service limit.";
        for (script, expected) in [
            ("cat", done(r#"{"a": 1}"#)),
            ("exit 0", done("null")),
            ("echo \"\\\"$PERDURA_IDEMPOTENCY_KEY $PERDURA_TASK_TOKEN\\\"\"", done("\"k t\"")),
            ("echo why >&2; exit 3", Err(("Runtime.ExitError", "why", Ambiguous))),
            ("echo '{\"errorType\":\"No\"}'; exit 1", Err(("No", "{\"errorType\":\"No\"}", Ambiguous))),
            ("kill -9 $$", Err(("Runtime.ExitError", "the command was killed by signal 9.", Ambiguous))),
            ("yes", Err(("States.DataLimitExceeded", too_large, Ambiguous))),
        ] {
            let expected = match expected {
                Ok(output) => Outcome::Succeeded { output },
                Err((error, cause, certainty)) => failed(Fault::new(error, cause), certainty),
            };
            assert_eq!(worked("sh", &["-c", script]), expected, "{script}");
        }
    }

    #[test]
    fn what_cannot_be_started_was_not_done() {
        let outcome = worked("/no/such/program", &[]);
        let Outcome::Failed { fault, certainty } = outcome else { panic!("{outcome:?}") };
        assert_eq!(
            (fault.error.as_deref(), certainty),
            (Some("Runtime.InvalidEntrypoint"), Certainty::NotSent)
        );
    }
}
