//! The commands that hold machines.

use super::data::DataArguments;
use crate::duration;
use clap::Args;
use std::time::Duration;

/// Which machine is meant.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct MeantArguments {
    /// The machine's name.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// All machines.
    #[arg(long)]
    pub(crate) all: bool,
}

/// Hold a machine: what is started is taken, and waits before its first state.
///
/// What runs goes on; with --now it stops at its next state. Calls under way go on to their end either way, and their
/// answers are recorded. A pause is on disk: it outlives the server, until `perdura resume`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura pause order
  perdura pause order --now
  perdura pause --all
  perdura pause order --server https://perdura.example:8083 --token-file token

Exit codes:
  0  it is paused
  1  there is no such machine
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct PauseArguments {
    #[command(flatten)]
    pub(crate) meant: MeantArguments,
    /// What runs stops at its next state.
    #[arg(long)]
    pub(crate) now: bool,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Let a machine go on that was paused, with all that waited.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura resume order
  perdura resume --all

Exit codes:
  0  it goes on
  1  it was not paused
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct ResumeArguments {
    #[command(flatten)]
    pub(crate) meant: MeantArguments,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Pause everything, and wait until nothing is under way: then a server can be ended without cutting a call off.
///
/// What sleeps, waits for a worker or waits for its time stays as it is, on disk. While it waits it says for what. Starts are
/// taken all the time, and wait. `perdura resume --all` lets everything go on, after an upgrade too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura drain
  perdura drain --timeout 10m && systemctl restart perdura && perdura resume --all

Exit codes:
  0  nothing is under way
  1  something still was when the time was up; everything stays paused
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct DrainArguments {
    /// How long to wait at most [default: as long as it takes].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}
