//! What can be measured, each with what can be said about it.

use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Measure this machine: steps, starts, sleepers, Distributed Maps, recovery, and the plain disk beside them.
///
/// Everything is written to --data, which should be on the disk that is to be measured, and is left there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura bench floor
  perdura bench steps --seconds 60
  perdura bench starts --via aws

Exit codes:
  0  measured
  1  something was lost or done twice
  2  the command line is wrong, or nothing could be measured")]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) workload: Workload,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Executions of ten steps that do nothing.
    #[command(
        after_help = "Examples:\n  perdura bench steps --concurrency 128 --seconds 8 --data /var/lib/perdura-bench --json\n  perdura bench steps --concurrency 128 --rate 30000\n  perdura bench steps --steps http"
    )]
    Steps(LoadArguments),
    /// Executions of one step, or starts through the API.
    #[command(
        after_help = "Examples:\n  perdura bench starts\n  perdura bench starts --via aws --concurrency 64 --seconds 8\n  perdura bench starts --via v1"
    )]
    Starts(StartsArguments),
    /// Executions that wait for an hour, and a restart with all of them.
    #[command(after_help = "Examples:\n  perdura bench sleepers --count 1000000")]
    Sleepers(SleepersArguments),
    /// A Distributed Map of children that do nothing.
    #[command(after_help = "Examples:\n  perdura bench map --count 1000000")]
    Map(MapArguments),
    /// Workers that wait for a task of an activity; the memory is what they added.
    #[command(after_help = "Examples:\n  perdura bench polls")]
    Polls(PollsArguments),
    /// A process killed under load, and the one that goes on.
    #[command(after_help = "Examples:\n  perdura bench recovery --rounds 50")]
    Recovery(RecoveryArguments),
    /// The plain disk: appends in groups of 1, 16, 128 and 1,024, each group synced.
    #[command(after_help = "Examples:\n  perdura bench floor --data /var/lib/perdura-bench")]
    Floor(FloorArguments),
    #[command(hide = true)]
    Child(ChildArguments),
    #[command(hide = true)]
    Reopen(Site),
    #[command(hide = true)]
    Worker,
}

/// Where it is written, and how it is told.
#[derive(Debug, Args)]
pub(crate) struct Site {
    /// Where to write.
    #[arg(long, default_value = "./perdura-bench", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Print one line of JSON for each measurement.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    #[command(flatten)]
    pub(crate) site: Site,
    /// How many callers at once, each waiting for its own execution [default: 128; over the API 64].
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    pub(crate) concurrency: Option<usize>,
    /// For how long.
    #[arg(long, short, default_value_t = 8.0, value_name = "S")]
    pub(crate) seconds: f64,
    /// Steps or starts per second; without it, as many as go.
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// Where the steps run.
    #[arg(long, value_enum, default_value = "here", value_name = "WHERE")]
    pub(crate) steps: StepsIn,
}

#[derive(Debug, Args)]
pub(crate) struct StartsArguments {
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// How executions are started.
    #[arg(long, value_enum, default_value = "library", value_name = "WAY", conflicts_with = "steps")]
    pub(crate) via: Via,
}

#[derive(Debug, Args)]
pub(crate) struct SleepersArguments {
    #[command(flatten)]
    pub(crate) site: Site,
    /// How many callers at once start them.
    #[arg(long, short, default_value = "128", value_name = "N", value_parser = at_least_one)]
    pub(crate) concurrency: usize,
    /// How many sleepers.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) count: u64,
}

#[derive(Debug, Args)]
pub(crate) struct MapArguments {
    #[command(flatten)]
    pub(crate) site: Site,
    /// How many children.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub(crate) count: u64,
}

#[derive(Debug, Args)]
pub(crate) struct PollsArguments {
    #[command(flatten)]
    pub(crate) site: Site,
    /// How many workers wait.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub(crate) count: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RecoveryArguments {
    #[command(flatten)]
    pub(crate) site: Site,
    /// How many callers at once, each waiting for its own execution.
    #[arg(long, short, default_value = "128", value_name = "N", value_parser = at_least_one)]
    pub(crate) concurrency: usize,
    /// How often the process is killed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) rounds: u32,
    /// Before each kill, stop the process for so long and let it go on.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub(crate) pause_ms: u64,
}

#[derive(Debug, Args)]
pub(crate) struct FloorArguments {
    #[command(flatten)]
    pub(crate) site: Site,
    /// For how long, all groups together.
    #[arg(long, short, default_value_t = 8.0, value_name = "S")]
    pub(crate) seconds: f64,
}

/// The process that is killed, or the one that finishes.
#[derive(Debug, Args)]
pub(crate) struct ChildArguments {
    #[command(flatten)]
    pub(crate) site: Site,
    #[arg(long)]
    pub(crate) receiver: SocketAddr,
    #[arg(long)]
    pub(crate) concurrency: usize,
    /// It only finishes what is there.
    #[arg(long)]
    pub(crate) drain: bool,
}

/// Where the steps of a measurement run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StepsIn {
    /// In this process, as functions of the program.
    Here,
    /// In another process, as functions that are called over HTTP.
    Http,
}

/// How executions are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// In this process, as a program in Rust would.
    Library,
    /// Through the Step Functions API of a server in another process, as an SDK would.
    Aws,
    /// Through `/v1` of a server in another process, each start under an `Idempotency-Key` of its own.
    V1,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it is to be 1 or more".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}
