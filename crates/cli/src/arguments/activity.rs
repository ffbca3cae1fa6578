//! The commands for workers.

use super::data::DataArguments;
use crate::duration;
use clap::{Args, Subcommand};
use std::time::Duration;

/// Work on tasks of activities: take them, answer them, or let a command do so.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  perdura activity list
  perdura activity poll approve --worker anna
  perdura activity work resize --at-once 4 -- ./resize.sh")]
pub(crate) struct ActivityArguments {
    #[command(subcommand)]
    pub(crate) command: ActivityCommand,
}

/// What a worker can do.
#[derive(Debug, Subcommand)]
pub(crate) enum ActivityCommand {
    List(ActivityListArguments),
    Poll(PollArguments),
    Succeed(SucceedArguments),
    Fail(FailArguments),
    Heartbeat(HeartbeatArguments),
    Work(WorkArguments),
}

/// List activities, and the machines that ask for them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura activity list
  perdura activity list --json | jq -r '.[].name'

Exit codes:
  0  listed
  1  the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct ActivityListArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Take a task: wait for one for up to a minute, and print its token, key and input.
///
/// Whoever takes a task has to answer it, under the key it comes with.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura activity poll approve --worker anna
  perdura activity poll approve --json | jq -r .token

Exit codes:
  0  there is a task
  1  no server hands out tasks
  2  the command line is wrong, or the data cannot be reached
  5  no task came in time; ask again")]
pub(crate) struct PollArguments {
    /// The activity, by its name or ARN.
    #[arg(value_name = "ACTIVITY")]
    pub(crate) activity: String,
    /// Who takes it, for the history.
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Say that a task is done. The same answer again is a success.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura activity succeed \"$token\" --output '{\"approved\": true}'
  perdura activity succeed \"$token\" --output @result.json

Exit codes:
  0  taken
  1  nobody waits for this task any more, or there is none with this token
  2  the command line or the output is wrong, or the data cannot be reached")]
pub(crate) struct SucceedArguments {
    /// The task's token.
    #[arg(value_name = "TOKEN")]
    pub(crate) token: String,
    /// The result as JSON, or the name of a JSON or YAML file after an @; @- is stdin.
    #[arg(long, short, value_name = "JSON|@FILE", default_value = "{}")]
    pub(crate) output: String,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Say that a task failed. Retry and Catch see the error.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura activity fail \"$token\" --error Rejected --cause 'the amount is too high'
  perdura activity fail \"$token\" --error CardDeclined --refused

Exit codes:
  0  taken
  1  nobody waits for this task any more, or there is none with this token
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct FailArguments {
    /// The task's token.
    #[arg(value_name = "TOKEN")]
    pub(crate) token: String,
    /// Why, as a name.
    #[arg(long, value_name = "NAME")]
    pub(crate) error: Option<String>,
    /// Why, as a sentence.
    #[arg(long, value_name = "TEXT")]
    pub(crate) cause: Option<String>,
    /// Certainly nothing was done: a retry gets a new key. Without this it may have been done, and a retry keeps its key.
    #[arg(long)]
    pub(crate) refused: bool,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Say that a task is still worked on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura activity heartbeat \"$token\"

Exit codes:
  0  taken
  1  nobody waits for this task any more, or there is none with this token
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct HeartbeatArguments {
    /// The task's token.
    #[arg(value_name = "TOKEN")]
    pub(crate) token: String,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Work: run a command for each task, with the input on stdin and the result on stdout.
///
/// The command finds the key in PERDURA_IDEMPOTENCY_KEY, to be handed on to whatever it calls, and the token in
/// PERDURA_TASK_TOKEN. Signs of life are sent meanwhile. Exit code 0 is success; another is an error, with stderr as its
/// cause, or with the name that stands in `errorType` of an object on stdout. A command that was killed may have done
/// its work, so a retry keeps the key. The first interrupt lets tasks under way end; the second does not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura activity work resize -- ./resize.sh
  perdura activity work resize --at-once 4 --worker \"$(hostname)\" -- python3 resize.py --size 100
  perdura activity work resize --most 1 --json -- jq '.width * 2'

Exit codes:
  0    ended by a signal, or after --most tasks
  1    no server hands out tasks
  2    the command line is wrong, or the data cannot be reached
  130  ended by a second signal")]
pub(crate) struct WorkArguments {
    /// The activity, by its name or ARN.
    #[arg(value_name = "ACTIVITY")]
    pub(crate) activity: String,
    /// The command for each task.
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub(crate) command: Vec<String>,
    /// Who takes the tasks, for the history.
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
    /// How many tasks at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) at_once: u16,
    /// End after so many tasks.
    #[arg(long, value_name = "N")]
    pub(crate) most: Option<u64>,
    /// How often a sign of life is sent.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(crate) heartbeat: Duration,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}
