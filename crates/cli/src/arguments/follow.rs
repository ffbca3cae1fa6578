//! The commands that follow what happens, and what has happened.

use super::data::DataArguments;
use super::reach::ReachArguments;
use clap::Args;

/// Watch an execution to its end, or all that run.
///
/// Of one execution all its steps are told, those from before too. Without one, executions that begin, move or end are
/// told, until an interrupt. On a terminal there is a picture of what is under way; elsewhere there are plain lines. It
/// goes on over a restart of the server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura watch A-1042
  perdura watch order/A-1042 --json | jq -r .type
  perdura watch --machine order
  perdura watch | tee executions.log

Exit codes, of one execution:
  0  succeeded; its output is on stdout
  1  failed, or there is no such execution
  2  the command line is wrong, or the data cannot be reached
  3  timed out
  4  stopped")]
pub(crate) struct WatchArguments {
    /// By id, ARN, machine/name, or a name that only one has; without it, all that run.
    #[arg(value_name = "EXECUTION", conflicts_with = "machine")]
    pub(crate) execution: Option<String>,
    /// All of this machine.
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    #[command(flatten)]
    pub(crate) data: ReachArguments,
}

/// Tell the whole story of a key: whose it is, what was sent under it and when, what came, and what came late.
///
/// A key is known in any form: as the client's key of a start, as people read it, as it went over the wire in
/// `Idempotency-Key`, as a task token or as a `traceparent`; an execution's id, name or ARN shows all its calls. A client's
/// key shows all that began with its request. It needs no server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura trace '2f9d3c1e-5b0a-4f7e-9c53-0a5d6f1b7c11:ChargeCard#1:1'
  perdura trace 8c1f6d1e-6f0e-5d5c-9a57-5f4f0f8f2f61
  perdura trace A-1042
  perdura trace 00-2f9d3c1e5b0a4f7e9c530a5d6f1b7c11-8c1f6d1e6f0e5d5c-01 --json | jq '.steps[].events'

Exit codes:
  0  told
  1  nothing is known of that key or execution
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct TraceArguments {
    /// A client's key, a key, a token, a traceparent, or an execution.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}
