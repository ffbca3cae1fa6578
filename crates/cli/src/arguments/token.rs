//! The commands for tokens.

use super::data::DataArguments;
use crate::duration;
use clap::{Args, Subcommand};
use std::time::Duration;

/// Make, list and revoke the tokens that clients show.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  perdura token create prometheus --role read
  perdura token list
  perdura token revoke 5f0c2a9b41d7")]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// What can be done to tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    Create(TokenCreateArguments),
    List(TokenListArguments),
    Revoke(TokenRevokeArguments),
}

/// Make a token and print it, this once.
///
/// Only a hash of it is kept. A server that runs takes it at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura token create prometheus --role read > /etc/prometheus/perdura.token
  perdura token create checkout --role run --machines checkout- --ends 90d
  perdura token create ci --role admin --json | jq -r .token

Exit codes:
  0  made
  1  the name is wrong or taken, or the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct TokenCreateArguments {
    /// Who will use it.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What it may do; each role may also do what those before it may.
    #[arg(long, value_name = "ROLE", value_parser = ["read", "run", "operate", "admin"])]
    pub(crate) role: String,
    /// Only machines whose names begin so [default: all].
    #[arg(long, value_name = "PREFIX")]
    pub(crate) machines: Option<String>,
    /// The tenant that it acts for.
    #[arg(long, value_name = "TENANT", default_value = "default")]
    pub(crate) tenant: String,
    /// How long it counts, such as 90d [default: until it is revoked].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ends: Option<Duration>,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// List tokens, those that were revoked or have expired too; never their secrets.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura token list
  perdura token list --json | jq -r '.[] | select(.role == \"admin\").name'

Exit codes:
  0  listed
  1  the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct TokenListArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Revoke a token. A server that runs refuses it at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura token revoke 5f0c2a9b41d7

Exit codes:
  0  revoked, now or before
  1  there is no such token, or the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct TokenRevokeArguments {
    /// Its id, as `perdura token list` shows it.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}
