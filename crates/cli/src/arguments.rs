//! The command line.

mod data;

pub(crate) use data::{
    BackupArguments, CheckArguments, CleanupArguments, DeployArguments, HistoryArguments, LedgerArguments,
    LedgerCommand, LogFormat, PsArguments, RedriveArguments, ResolveArguments, RestoreArguments,
    ServeArguments, ShowArguments, StartArguments, StatsArguments, StatusArgument, StopArguments,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use perdura_asl::machine::MachineType;
use std::path::PathBuf;

/// Run workflows written in Amazon States Language, the language of AWS Step Functions.
#[derive(Debug, Parser)]
#[command(name = "perdura", version, propagate_version = true, subcommand_required = true)]
#[command(after_help = "\
Examples:
  perdura validate order.asl.json
  perdura run order.asl.json --input @order.json
  perdura run order.asl.json --input @order.json --data ./perdura-data --name A-1042
  perdura serve --data ./perdura-data

Run `perdura COMMAND --help` for more examples of a command.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Validate(ValidateArguments),
    Run(RunArguments),
    Bench(BenchArguments),
    Serve(ServeArguments),
    Deploy(DeployArguments),
    Start(StartArguments),
    Ps(PsArguments),
    Show(ShowArguments),
    History(HistoryArguments),
    Ledger(LedgerArguments),
    Stats(StatsArguments),
    Stop(StopArguments),
    Redrive(RedriveArguments),
    Cleanup(CleanupArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
    Check(CheckArguments),
    /// Print a script that completes perdura's commands and options in a shell.
    #[command(after_help = "\
Examples:
  perdura completions bash > ~/.local/share/bash-completion/completions/perdura
  perdura completions zsh > ~/.zfunc/_perdura
  perdura completions fish > ~/.config/fish/completions/perdura.fish")]
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

/// Show everything that is wrong with definitions, each mistake with its line.
///
/// Files are JSON or YAML, by their names; - reads from stdin.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura validate order.asl.json
  perdura validate workflows/*.asl.yaml --strict
  jq -r .definition described.json | perdura validate -
  perdura validate *.asl.json --json | jq -r 'select(.result == \"FAIL\") | .file'

Exit codes:
  0  no errors; there may be warnings
  1  at least one error
  2  the command line is wrong, or a file cannot be read")]
pub(crate) struct ValidateArguments {
    /// Definitions to check; - is stdin.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print one line of JSON for each file to stdout instead.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
}

/// Run a machine to its end in this process, and print its output.
///
/// Functions are local commands, configured in perdura.toml; what else a task calls is answered by a mock file.
/// Without --data nothing is kept: the execution lives and ends with the process. With it, everything is on disk before
/// it counts, and the same command with the same --name goes on where the last one was killed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura run order.asl.json --input @order.json
  perdura run order.asl.json --input '{\"order\": {\"id\": \"A-1042\"}}'
  jq .order event.json | perdura run order.asl.json --input @-
  perdura run approval.asl.yaml --mock approval.mock.json --skip-time
  perdura run order.asl.json --mock MockConfigFile.json#HappyPath
  perdura run order.asl.json --input @order.json --data ./perdura-data --name A-1042

Exit codes:
  0  succeeded
  1  failed
  2  nothing was started: the command line, the definition, the input or a configuration is wrong
  3  timed out
  4  stopped by an interrupt (Ctrl-C); with --data it is only left, and goes on with the next run")]
pub(crate) struct RunArguments {
    /// The definition, JSON or YAML by its name; - is stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The input as JSON, or the name of a JSON or YAML file after an @; @- is stdin.
    #[arg(long, short, value_name = "JSON|@FILE", default_value = "{}")]
    pub(crate) input: String,
    /// Where functions are configured [default: perdura.toml beside FILE, or here].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answers for tasks; a test case of Step Functions Local's format may be named.
    #[arg(long, short, value_name = "FILE[#CASE]")]
    pub(crate) mock: Option<String>,
    /// Let waits, pauses between tries and timeouts pass at once.
    #[arg(long)]
    pub(crate) skip_time: bool,
    /// The execution's name [default: a random one].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Keep everything in this directory, and go on with what is there.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["mock", "skip_time"])]
    pub(crate) data: Option<PathBuf>,
    /// Tell nothing while it runs.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
}

/// Measure this machine: steps, starts, sleepers, Distributed Maps, recovery, and the plain disk beside them.
///
/// Everything is written to --data, which should be on the disk that is to be measured, and is left there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura bench floor --data /var/lib/perdura-bench
  perdura bench steps --concurrency 128 --seconds 8 --data /var/lib/perdura-bench --json
  perdura bench steps --concurrency 128 --rate 30000 --seconds 8
  perdura bench sleepers --count 1000000
  perdura bench map --count 1000000
  perdura bench recovery --rounds 50

Exit codes:
  0  measured
  1  something was lost or done twice
  2  the command line is wrong, or nothing could be measured")]
pub(crate) struct BenchArguments {
    /// What to measure.
    #[arg(value_enum)]
    pub(crate) workload: Workload,
    /// How many callers at once, each waiting for its own execution.
    #[arg(long, short, default_value_t = 128, value_name = "N")]
    pub(crate) concurrency: usize,
    /// For how long.
    #[arg(long, short, default_value_t = 8.0, value_name = "S")]
    pub(crate) seconds: f64,
    /// Where to write.
    #[arg(long, default_value = "./perdura-bench", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Steps or starts per second; without it, as many as go.
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// How many sleepers [default: 1000000], or children of a Map [default: 100000].
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// How often the process is killed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) rounds: u32,
    /// Before each kill, stop the process for so long and let it go on.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub(crate) pause_ms: u64,
    /// Print one line of JSON for each measurement.
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(long, hide = true)]
    pub(crate) receiver: Option<std::net::SocketAddr>,
    #[arg(long, hide = true)]
    pub(crate) what: Option<String>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Executions of ten steps that do nothing.
    Steps,
    /// Executions of one step.
    Starts,
    /// Executions that wait for an hour, and a restart with all of them.
    Sleepers,
    /// A Distributed Map of children that do nothing.
    Map,
    /// A process killed under load, and the one that goes on.
    Recovery,
    /// The plain disk: appends in groups of 1, 16, 128 and 1,024, each group synced.
    Floor,
    #[value(hide = true)]
    Child,
    #[value(hide = true)]
    Reopen,
}

/// How definitions are read, wherever they are.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ReadingArguments {
    /// Hold to AWS's limits, such as 256 KiB for a payload and 25,000 events.
    #[arg(long)]
    pub(crate) strict: bool,
    /// What the machine is to be on AWS; an Express one has no callbacks, jobs or activities.
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = Type::Standard)]
    pub(crate) machine_type: Type,
}

/// The types of machines.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Type {
    Standard,
    Express,
}

impl From<Type> for MachineType {
    fn from(kind: Type) -> Self {
        match kind {
            Type::Standard => Self::Standard,
            Type::Express => Self::Express,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        let mut command = Arguments::command();
        command.build();
        command.clone().debug_assert();
        for part in std::iter::once(&command).chain(command.get_subcommands()) {
            let shown = part.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(part.get_name() == "help" || shown.contains("Examples:"), "{}", part.get_name());
        }
    }
}
