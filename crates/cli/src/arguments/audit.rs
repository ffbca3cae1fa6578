//! The command that shows who did what.

use super::data::{DataArguments, instant};
use clap::Args;
use perdura_engine::Timestamp;
use perdura_store::audit::{Chain, Hash, Verb, read_hex};

/// Show who did what, the newest first, or verify that nothing of it was changed.
///
/// With --json it is an export: all of it, the oldest first, an entry on each line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura audit
  perdura audit --who deployer --since 24h
  perdura audit --verb stop --machine order
  perdura audit --json > audit.jsonl
  perdura audit --verify
  perdura audit --verify --head shard-0:9b1c5f3a2e7d4086b7f01c9d8e3a5b6470f1e2d3c4b5a69788796a5b4c3d2e1f

Exit codes:
  0  shown; with --verify: nothing was changed
  1  something was changed, or the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct AuditArguments {
    /// Follow every chain from its first entry to its last, and say how each ends.
    #[arg(long, conflicts_with_all = ["since", "until", "who", "verb", "execution", "machine", "key", "limit"])]
    pub(crate) verify: bool,
    /// A hash that was noted: it must still be in its chain. It may be given several times.
    #[arg(long, value_name = "CHAIN:HASH", requires = "verify", value_parser = head)]
    pub(crate) head: Vec<(Chain, Hash)>,
    /// Not before this: an instant, or how long ago.
    #[arg(long, value_name = "WHEN", value_parser = instant)]
    pub(crate) since: Option<Timestamp>,
    /// Not after this.
    #[arg(long, value_name = "WHEN", value_parser = instant)]
    pub(crate) until: Option<Timestamp>,
    /// Only what this one did: a token's name, an access key's id, owner, or perdura for the server itself.
    #[arg(long, value_name = "PRINCIPAL")]
    pub(crate) who: Option<String>,
    /// Only this.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Verb::ALL.map(Verb::name)))]
    pub(crate) verb: Option<String>,
    /// Only what was done to this execution.
    #[arg(long, value_name = "EXECUTION")]
    pub(crate) execution: Option<String>,
    /// Only what was done to this machine, or to executions of it.
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// Only what was asked for under this key.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// So many at most [default: 100; all of them with --json].
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

fn head(text: &str) -> Result<(Chain, Hash), String> {
    let wrong = || "write it as verify prints it: shard-0:HASH, or catalog:HASH".to_owned();
    let (chain, hash) = text.split_once(':').ok_or_else(wrong)?;
    Chain::read(chain).zip(read_hex(hash)).ok_or_else(wrong)
}
