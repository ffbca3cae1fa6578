//! The command line.

mod activity;
mod audit;
mod connection;
mod data;
mod follow;
mod pause;
mod proxy;
mod reach;
mod setting;
mod template;
mod token;

pub(crate) use activity::{
    ActivityArguments, ActivityCommand, ActivityListArguments, FailArguments, HeartbeatArguments,
    PollArguments, SucceedArguments, WorkArguments,
};
pub(crate) use audit::AuditArguments;
pub(crate) use connection::{
    ConnectionArguments, ConnectionCommand, ConnectionDeleteArguments, ConnectionListArguments,
    ConnectionPutArguments, ConnectionShowArguments, KeyArguments,
};
pub(crate) use data::{
    BackupArguments, CheckArguments, CleanupArguments, CompactArguments, DeployArguments, EraseArguments,
    GiveUpArguments, HistoryArguments, LedgerArguments, LedgerCommand, LogFormat, PsArguments,
    RedriveArguments, ResolveArguments, RestoreArguments, ServeArguments, ShowArguments, SortArgument,
    StartArguments, StatsArguments, StatusArgument, StopArguments,
};

pub(crate) use follow::{TraceArguments, WatchArguments};
pub(crate) use pause::{DrainArguments, MeantArguments, PauseArguments, ResumeArguments};
pub(crate) use proxy::{Caller, ProxyArguments, Uncertain};
pub(crate) use reach::ReachArguments;
pub(crate) use setting::{ConfigArguments, SettingArguments};
pub(crate) use template::TemplateArguments;
pub(crate) use token::{
    TokenArguments, TokenCommand, TokenCreateArguments, TokenListArguments, TokenRevokeArguments,
};

use crate::settings::{self, Flags};
use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use perdura_asl::machine::MachineType;
use std::path::PathBuf;
use url::Url;

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
    Bench(perdura_bench::Arguments),
    Serve(ServeArguments),
    Deploy(DeployArguments),
    Start(StartArguments),
    Ps(PsArguments),
    Show(ShowArguments),
    History(HistoryArguments),
    Watch(WatchArguments),
    Trace(TraceArguments),
    Ledger(LedgerArguments),
    Stats(StatsArguments),
    Pause(PauseArguments),
    Resume(ResumeArguments),
    Drain(DrainArguments),
    Stop(StopArguments),
    Redrive(RedriveArguments),
    Erase(EraseArguments),
    GiveUp(GiveUpArguments),
    Cleanup(CleanupArguments),
    Compact(CompactArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
    Check(CheckArguments),
    Audit(AuditArguments),
    Activity(ActivityArguments),
    Connection(ConnectionArguments),
    Proxy(ProxyArguments),
    Token(TokenArguments),
    Config(ConfigArguments),
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
/// Files are JSON or YAML, by their names; - reads from stdin. Of a CloudFormation template all state machines are
/// checked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura validate order.asl.json
  perdura validate workflows/*.asl.yaml --strict
  perdura validate cdk.out/Orders.template.json
  jq -r .definition described.json | perdura validate -
  perdura validate *.asl.json --json | jq -r 'select(.result == \"FAIL\") | .file'

Exit codes:
  0  no errors; there may be warnings
  1  at least one error
  2  the command line is wrong, or a file cannot be read")]
pub(crate) struct ValidateArguments {
    /// Definitions or templates to check; - is stdin.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print one line of JSON for each file to stdout instead.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) template: TemplateArguments,
    #[command(flatten)]
    pub(crate) calls: CallArguments,
    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
}

/// Run a machine to its end in this process, and print its output.
///
/// Functions are configured in perdura.toml; what cannot be called from here is answered by a mock file.
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
  perdura run order.asl.json --input @order.json --json | jq -r .status

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
    #[command(flatten)]
    pub(crate) calls: CallArguments,
    /// Another definition that a task may start as a child, under the name of its file.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Vec<PathBuf>,
    /// Answers for tasks and for items that are read; a test case of Step Functions Local's format may be named.
    #[arg(long, short, value_name = "FILE[#CASE]")]
    pub(crate) mock: Option<String>,
    /// Let waits, pauses between tries and timeouts pass at once.
    #[arg(long)]
    pub(crate) skip_time: bool,
    /// The execution's name [default: a random one].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Keep everything in this directory, and go on with what is there.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Tell nothing while it runs.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print one line of JSON at the end: id, status, output or error and cause, and how long it took.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
}

/// What is called, and where that is said.
#[derive(Clone, Debug, Args)]
pub(crate) struct CallArguments {
    /// Where functions and destinations are configured [default: perdura.toml beside the definition, or here].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A Lambda-compatible service; it is asked for every function that is not configured otherwise.
    #[arg(long, value_name = "URL", value_parser = perdura_tasks::settings::endpoint_url)]
    pub(crate) lambda_endpoint: Option<Url>,
}

impl CallArguments {
    /// What was given.
    pub(crate) fn flags(&self) -> Flags {
        let file = self.config.as_ref().map(|file| (&settings::CONFIG, file.display().to_string()));
        let endpoint = self.lambda_endpoint.as_ref();
        let endpoint = endpoint.map(|endpoint| (&settings::LAMBDA_ENDPOINT, endpoint.to_string()));
        file.into_iter().chain(endpoint).collect()
    }
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

impl ReadingArguments {
    /// With what environment and file say, where the flag says nothing.
    pub(crate) fn settled(self) -> Result<Self> {
        Ok(Self { strict: settings::strict(self.strict)?, ..self })
    }
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

    /// Commands without `--json`, and why.
    const WITHOUT_JSON: &[(&str, &str)] =
        &[("perdura completions", "prints a script for a shell, and nothing else")];

    /// A command and all those below it, with their full names.
    fn all(command: &clap::Command, around: &str) -> Vec<(String, clap::Command)> {
        let name = format!("{around}{}", command.get_name());
        let below = command.get_subcommands().flat_map(|below| all(below, &format!("{name} ")));
        std::iter::once((name.clone(), command.clone())).chain(below.collect::<Vec<_>>()).collect()
    }

    fn whole() -> Vec<(String, clap::Command)> {
        let mut command = Arguments::command();
        command.build();
        command.clone().debug_assert();
        let is_own =
            |(name, command): &(String, clap::Command)| !name.contains(" help") && !command.is_hide_set();
        all(&command, "").into_iter().filter(is_own).collect()
    }

    #[test]
    fn every_command_has_an_example_that_begins_with_its_name() {
        for (name, command) in whole() {
            let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = shown.split("Examples:").nth(1).and_then(|rest| rest.split("\n\n").next());
            let examples = examples.unwrap_or_else(|| panic!("{name} has no examples"));
            assert!(examples.lines().any(|line| line.contains(&name)), "{name}: {examples}");
        }
    }

    #[test]
    fn every_command_that_does_something_has_json() {
        for (name, command) in whole() {
            let has_json = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
            let only_groups = command.is_subcommand_required_set();
            let is_excepted = WITHOUT_JSON.iter().any(|(excepted, _)| *excepted == name);
            assert!(has_json != (only_groups || is_excepted), "{name}");
        }
    }

    #[test]
    fn the_docs_tell_of_every_command() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        let docs = std::fs::read_to_string(path).unwrap();
        for (name, _) in whole().into_iter().filter(|(name, _)| name != "perdura") {
            assert!(docs.contains(&format!("`{name}")), "docs/commands.md does not tell of {name}");
        }
    }

    #[test]
    fn every_argument_is_explained() {
        for (name, command) in whole() {
            assert!(command.get_about().is_some(), "{name}");
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{name} {}", argument.get_id());
            }
        }
    }
}
