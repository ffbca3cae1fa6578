//! The commands that work on a data directory.

use super::reach::ServerArguments;
use super::{CallArguments, ReachArguments, ReadingArguments, SettingArguments, TemplateArguments};
use crate::data::{Data, Whom};
use crate::{duration, settings};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use perdura_engine::Timestamp;
use perdura_engine::asl::timestamp::parse_ms;
use std::path::PathBuf;
use std::time::Duration;

/// Who answers, and how answers are printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct DataArguments {
    /// The data directory [default: ./perdura-data].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// Print JSON, one document on a line, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

impl DataArguments {
    /// Who is meant: by flag, environment, file or default.
    pub(crate) fn whom(&self) -> Result<Whom> {
        self.server.whom(self.data.as_deref())
    }

    pub(crate) fn reach(&self) -> Result<Data> {
        Data::of(&self.whom()?)
    }
}

/// Where the files are, and how answers are printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct FolderArguments {
    /// The data directory [default: ./perdura-data].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    /// Print JSON, one document on a line, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

impl FolderArguments {
    /// The data directory that is meant: by flag, environment, file or default.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        settings::data_folder(self.data.as_deref())
    }
}

/// Hold a data directory: go on with what runs there, answer commands, and watch over it.
///
/// It listens on this machine only: /healthz says that it lives, /readyz whether it can work, /metrics its numbers.
/// The other commands find it by themselves. SIGTERM or Ctrl-C ends it; what is under way then is called again after
/// the next start, under the same key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura serve
  perdura serve --data /var/lib/perdura --config /etc/perdura.toml --log-format json
  perdura serve --listen 127.0.0.1:9000 --grace 30s --log perdura_runtime=debug
  PERDURA_DATA=/var/lib/perdura perdura serve --json

Exit codes:
  0    ended by a signal
  1    the data cannot be used: another process holds it, or it cannot be written
  2    the command line or the configuration is wrong, or the address cannot be had
  130  ended by a second signal")]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    pub(crate) settings: SettingArguments,
    /// Say in JSON that it is ready.
    #[arg(long)]
    pub(crate) json: bool,
}

/// For whom logs are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Keep a definition in the data directory, under the name of its file or another, or all machines of a template.
///
/// The same definition again changes nothing. A changed one is what starts after it use; what runs goes on under the
/// one that it began with. Of a CloudFormation template, such as `cdk synth` writes, all state machines and activities
/// are kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura deploy order.asl.json
  perdura deploy order.asl.yaml --name orders --data /var/lib/perdura
  perdura deploy cdk.out/Orders.template.json --parameter Stage=test
  perdura deploy order.asl.json --endpoint https://states.eu-west-1.amazonaws.com --role arn:aws:iam::111122223333:role/orders

Exit codes:
  0  done
  1  the definition is wrong, or the data cannot be used
  2  the command line is wrong, or a file cannot be read")]
pub(crate) struct DeployArguments {
    /// The definition or template, JSON or YAML by its name; - is stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The machine's name [default: that of the file, or in a template its own].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The role that a machine on AWS runs under; perdura does not look at it.
    #[arg(long, value_name = "ARN")]
    pub(crate) role: Option<String>,
    #[command(flatten)]
    pub(crate) template: TemplateArguments,
    #[command(flatten)]
    pub(crate) calls: CallArguments,
    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
    #[command(flatten)]
    pub(crate) data: ReachArguments,
}

/// Start an execution of a machine that was deployed.
///
/// It is on disk when this returns. The same name with the same input again is the same execution as long as it runs.
/// Without a server it is recorded, and runs when one is started.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura start order --input @order.json
  perdura start order --name A-1042 --input '{\"order\": {\"id\": \"A-1042\"}}'
  perdura start order --label order=A-1042 --label tenant=acme
  perdura start order --key 7c4f3b1e-8a52-4a06-9d3f-1f0a3f3f9d11
  perdura start order --json | jq -r .id
  perdura start order --endpoint http://127.0.0.1:8083

Exit codes:
  0  it runs, or is recorded
  1  refused: no such machine, or the name is taken
  2  the command line or the input is wrong, or the data cannot be reached")]
pub(crate) struct StartArguments {
    /// The machine, or a version or an alias of it (order, order:3, order:live), by name or ARN.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: String,
    /// The input as JSON, or the name of a JSON or YAML file after an @; @- is stdin.
    #[arg(long, short, value_name = "JSON|@FILE", default_value = "{}")]
    pub(crate) input: String,
    /// The execution's name [default: its id].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A label that it is found by, such as order=A-1042; up to 16.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Your own key for this request, as the Idempotency-Key of HTTP: `perdura trace KEY` tells all that followed.
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub(crate) key: Option<String>,
    /// Hold to AWS's limits.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) data: ReachArguments,
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "write key and value with =, such as order=A-1042".to_owned())
}

fn key(text: &str) -> Result<String, String> {
    perdura_server::names::root_key(text).map(|key| key.to_string()).map_err(|refusal| refusal.to_string())
}

/// An instant, or how long ago it was.
pub(super) fn instant(text: &str) -> Result<Timestamp, String> {
    if let Some(at) = parse_ms(text) {
        return Ok(Timestamp(at));
    }
    let wrong =
        |_| "write an instant, such as 2026-01-31T08:00:00Z, or how long ago it was, such as 24h".to_owned();
    let ago = duration::parse(text).map_err(wrong)?;
    Ok(perdura_runtime::RealClock::default().moment().now.after_ms(-(ago.as_millis() as i64)))
}

/// List executions, the newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura ps
  perdura ps --status RUNNING --json
  perdura ps --status failed --limit 100
  perdura ps --label order=A-1042
  perdura ps --status failed --sort end --since 24h
  perdura ps --name-prefix nightly- --until 2026-01-31T08:00:00Z
  perdura ps --machine order --json | jq -r '.[].id'

Exit codes:
  0  listed
  1  there is no such machine, or the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct PsArguments {
    /// Of this machine only.
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// With this status only.
    #[arg(long, value_name = "STATUS", value_enum, ignore_case = true)]
    pub(crate) status: Option<StatusArgument>,
    /// With this label only.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Option<(String, String)>,
    /// Whose given name begins so.
    #[arg(long, value_name = "TEXT")]
    pub(crate) name_prefix: Option<String>,
    /// That ended with an error of this name only.
    #[arg(long, value_name = "NAME")]
    pub(crate) error: Option<String>,
    /// Started, or with --sort end ended, at this instant or later; 24h is a day ago.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(crate) since: Option<Timestamp>,
    /// Started, or with --sort end ended, before this instant.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(crate) until: Option<Timestamp>,
    /// By the start, or by the end of those that have ended.
    #[arg(long, value_name = "ORDER", value_enum, default_value = "start")]
    pub(crate) sort: SortArgument,
    /// So many at most.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) data: ReachArguments,
}

/// What a list is sorted by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SortArgument {
    Start,
    End,
}

/// What an execution can be.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StatusArgument {
    Running,
    Succeeded,
    Failed,
    Aborted,
    #[value(alias = "timed_out")]
    TimedOut,
}

/// Show one execution: how it stands, its input and output, and the keys of its calls.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura show A-1042
  perdura show order/A-1042
  perdura show 2f9d3c1e-5b0a-4f7e-9c53-0a5d6f1b7c11 --json | jq -r .output

Exit codes:
  0  shown
  1  there is no such execution, or several have this name
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct ShowArguments {
    /// By id, ARN, machine/name, or a name that only one has.
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: String,
    #[command(flatten)]
    pub(crate) data: ReachArguments,
}

/// Print the events of an execution, as AWS Step Functions would have written them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura history A-1042
  perdura history order/A-1042 --json | jq -r .type

Exit codes:
  0  printed
  1  there is no such execution, or several have this name
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct HistoryArguments {
    /// By id, ARN, machine/name, or a name that only one has.
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: String,
    #[command(flatten)]
    pub(crate) data: ReachArguments,
}

/// Show what was sent under which key: what is pending, failed or uncertain; of one execution also what is done.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  perdura ledger
  perdura ledger --stuck
  perdura ledger --execution A-1042
  perdura ledger '2f9d3c1e-5b0a-4f7e-9c53-0a5d6f1b7c11:ChargeCard#1:1'
  perdura ledger resolve '2f9d3c1e-5b0a-4f7e-9c53-0a5d6f1b7c11:ChargeCard#1:1' --completed '{\"paid\": true}' --reason 'seen in the bank statement'

Exit codes:
  0  shown
  1  nothing is known of that key or execution, or the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct LedgerArguments {
    #[command(subcommand)]
    pub(crate) command: Option<LedgerCommand>,
    /// Only the one with this key, as people read it or as it went over the wire.
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Only what has no answer yet.
    #[arg(long, group = "which")]
    pub(crate) pending: bool,
    /// Only what was sent more than five minutes ago and nobody tries.
    #[arg(long, group = "which", conflicts_with_all = ["execution", "key"])]
    pub(crate) stuck: bool,
    /// Only that of which nobody knows whether it was done.
    #[arg(long, group = "which")]
    pub(crate) uncertain: bool,
    /// Of this execution, also what is done.
    #[arg(long, value_name = "EXECUTION")]
    pub(crate) execution: Option<String>,
    /// So many at most.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 1000)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// What can be done to the ledger.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    Resolve(ResolveArguments),
}

/// Say how a call went of which nobody knows: the execution goes on from there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura ledger resolve 'ID:ChargeCard#1:1' --completed '{\"paid\": true}' --reason 'seen in the bank statement'
  perdura ledger resolve 'ID:ChargeCard#1:1' --failed CardDeclined --cause 'never arrived' --reason 'the bank says so'
  perdura ledger resolve 'ID:ChargeCard#1:1' --again --reason 'the bank remembers the key'

Exit codes:
  0  taken
  1  nobody waits for a call under this key
  2  the command line is wrong, or the data cannot be reached")]
#[command(group = clap::ArgGroup::new("how").required(true).args(["completed", "failed", "again"]))]
pub(crate) struct ResolveArguments {
    /// The key, as people read it.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// It was done, with this result.
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) completed: Option<String>,
    /// It was certainly not done: Retry and Catch see this error.
    #[arg(long, value_name = "ERROR")]
    pub(crate) failed: Option<String>,
    /// Why it was not done.
    #[arg(long, value_name = "TEXT", requires = "failed")]
    pub(crate) cause: Option<String>,
    /// Call it again, under the same key.
    #[arg(long)]
    pub(crate) again: bool,
    /// How you know; it stays on record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Show how much there is: executions by status, the ledger, totals, tables with rows and bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura stats
  perdura stats --json | jq .executions

Exit codes:
  0  shown
  1  the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct StatsArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// End an execution; what it has under way is called off.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura stop A-1042
  perdura stop order/A-1042 --error Cancelled --cause 'the customer called'

Exit codes:
  0  it is stopped
  1  there is no such execution, or it has ended already
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct StopArguments {
    /// By id, ARN, machine/name, or a name that only one has.
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: String,
    /// Why, as a name.
    #[arg(long, value_name = "NAME")]
    pub(crate) error: Option<String>,
    /// Why, as a sentence.
    #[arg(long, value_name = "TEXT")]
    pub(crate) cause: Option<String>,
    #[command(flatten)]
    pub(crate) data: ReachArguments,
}

/// Run the unsuccessful part of an execution again; what was done stays done.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura redrive A-1042
  perdura ps --status failed --json | jq -r '.[].id' | xargs -n 1 perdura redrive

Exit codes:
  0  it runs again
  1  there is no such execution, or it cannot be redriven
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct RedriveArguments {
    /// By id, ARN, machine/name, or a name that only one has.
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: String,
    #[command(flatten)]
    pub(crate) data: ReachArguments,
}

/// Erase the data of an execution that has ended: inputs, outputs, results, causes, variables and labels.
///
/// With it go all executions that it started. Ids, names, times, states and keys stay, so that it can still be shown and
/// its history read. It cannot be undone, and it is not redriven any more. Backups that were made before still have it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura erase order/A-1042
  perdura erase --key 0f0e0d0c-0b0a-4908-8706-050403020100 --yes

Exit codes:
  0  no file of the data directory has it any more; where files are too large to be written anew beside a server, it
     says what may be left, and what to do
  1  there is no such execution, or one of them has not ended
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct EraseArguments {
    /// By id, ARN, machine/name, or a name that only one has.
    #[arg(value_name = "EXECUTION", required_unless_present = "key", conflicts_with = "key")]
    pub(crate) execution: Option<String>,
    /// All that began with this key of a client's request, at first or second hand.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Give up an execution that cannot be read: nothing of it is kept.
///
/// What is left of it is kept until then, because a newer perdura may read it, and a person may want to know how far it
/// came. `perdura check` tells of such executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura give-up 0198c0de-7a11-7000-8000-000000000001 --save left.jsonl

Exit codes:
  0  nothing of it is kept
  1  there is no such execution, it can be read, or the file cannot be written
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct GiveUpArguments {
    /// By id, ARN, machine/name, or a name that only one has.
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: String,
    /// Write what is left of it to this new file first, one Turn on each line.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Take away what is too old: executions that ended long ago, and what the ledger kept of them.
///
/// A server does so by itself, as its configuration says; see its section "retention" in perdura.toml.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura cleanup --older-than 90d --dry-run
  perdura cleanup --older-than 24h
  perdura cleanup --older-than 90d --bytes-max 10000000000

Exit codes:
  0  done
  1  the data cannot be used
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct CleanupArguments {
    /// Executions that ended longer ago than this go, such as 24h or 90d.
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = duration::parse)]
    pub(crate) older_than: Duration,
    /// What the ledger kept of executions that ended longer ago than this goes [default: 24h, or --older-than if that is less].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ledger_older_than: Option<Duration>,
    /// If the data is larger than this, those that ended first go.
    #[arg(long, value_name = "BYTES")]
    pub(crate) bytes_max: Option<u64>,
    /// Only count.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Give the free room inside the data back to the disk.
///
/// A server does so by itself, but for a tenth that will soon be used. While one runs, pages go back in small slices beside
/// its commits. Where none runs the files are written anew, which an earlier version's file needs once, and large files after
/// an erasure: no erased byte is in them then.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura compact
  perdura compact --data /var/lib/perdura --json

Exit codes:
  0  done
  1  the data cannot be used, or was made by an earlier version and is in use
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct CompactArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
}

/// Copy the data to a new file, one moment of it, while everything goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura backup perdura-2026-01-31.db
  perdura backup /backup/perdura.db --data /var/lib/perdura

Exit codes:
  0  the file is complete and on disk
  1  it cannot be written, or is there already
  2  the command line is wrong")]
pub(crate) struct BackupArguments {
    /// The new file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) data: FolderArguments,
}

/// Make a data directory from a backup. What was under way in it is held, and listed.
///
/// Since the backup was made the same calls may have been answered, and others may have been made. So nothing that was
/// pending is called again before a person has said how it went; see `perdura ledger resolve --help`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura restore perdura-2026-01-31.db --data ./restored
  perdura restore /backup/perdura.db --data /var/lib/perdura --json

Exit codes:
  0  restored
  1  there is data already, or the backup cannot be used
  2  the command line is wrong, or the file cannot be read")]
pub(crate) struct RestoreArguments {
    /// The backup.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) data: FolderArguments,
}

/// Read everything, and say what does not fit together: journal, rows and histories.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura check
  perdura check --data /var/lib/perdura --json

Exit codes:
  0  everything agrees
  1  something does not, or the data cannot be read
  2  the command line is wrong, or the data cannot be reached")]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) data: FolderArguments,
}
