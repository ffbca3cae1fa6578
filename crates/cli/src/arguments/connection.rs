//! The commands for connections.

use super::data::DataArguments;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Keep credentials for those who are called, sealed, and never show them.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  perdura connection put stripe --file stripe.json
  perdura connection list
  perdura connection show stripe")]
pub(crate) struct ConnectionArguments {
    #[command(subcommand)]
    pub(crate) command: ConnectionCommand,
}

/// What can be done to connections.
#[derive(Debug, Subcommand)]
pub(crate) enum ConnectionCommand {
    Put(ConnectionPutArguments),
    List(ConnectionListArguments),
    Show(ConnectionShowArguments),
    Delete(ConnectionDeleteArguments),
}

/// With which key connections are sealed.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyArguments {
    /// The file with the key that connections are sealed with [default: PERDURA_CONNECTION_KEY_FILE or PERDURA_CONNECTION_KEY].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) connection_key_file: Option<String>,
}

/// Keep a connection, in the place of one of this name.
///
/// It is sealed before it leaves this process. A definition names it by its ARN or by its name alone. It is sent only to
/// the hosts that it names itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura connection put stripe --file stripe.json
  echo '{\"hosts\": [\"api.stripe.com\"], \"api_key\": {\"header\": \"X-Api-Key\", \"value\": \"…\"}}' |
    perdura connection put stripe --file -
  perdura connection put bank --file bank.json --connection-key-file /etc/perdura/key

Exit codes:
  0  kept
  1  the name is wrong, or the data cannot be used
  2  the command line, the connection or the key is wrong")]
pub(crate) struct ConnectionPutArguments {
    /// Its name.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What it says, as JSON; - is stdin.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// List connections; with the key also what kind each is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura connection list
  perdura connection list --json | jq -r '.[].name'

Exit codes:
  0  listed
  1  the data cannot be used
  2  the command line or the key is wrong, or the data cannot be reached")]
pub(crate) struct ConnectionListArguments {
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Show a connection: its kind and names, never a secret.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura connection show stripe
  perdura connection show stripe --json | jq -r .kind

Exit codes:
  0  shown
  1  there is no such connection
  2  the command line or the key is wrong, or the data cannot be reached")]
pub(crate) struct ConnectionShowArguments {
    /// Its name.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Forget a connection. A call that names it fails from then on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura connection delete stripe

Exit codes:
  0  forgotten
  1  there is no such connection, or the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct ConnectionDeleteArguments {
    /// Its name.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}
