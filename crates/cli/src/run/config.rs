//! `perdura.toml`: what is called and how, and for how long things are kept.

use crate::arguments::CallArguments;
use crate::document;
use anyhow::{Context, Result, anyhow, bail};
use perdura_server::retention::Keep;
use perdura_tasks::connection::Connections;
use perdura_tasks::destination::DestinationTable;
use perdura_tasks::settings::{CommandsTable, FunctionTable, HttpTable, LambdaTable, Tables};
use perdura_tasks::{Settings, Tasks};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use url::Url;

const FILE: &str = "perdura.toml";
const BYTES_MAX: usize = 1024 * 1024;
/// The longest time that a setting may name: a hundred years.
const SECONDS_MAX: f64 = 100.0 * 366.0 * 86_400.0;

/// What is called and how, and for how long things are kept.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// The file, where there is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) settings: Settings,
    pub(crate) keep: Keep,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    functions: BTreeMap<String, FunctionTable>,
    destinations: Vec<DestinationTable>,
    lambda: LambdaTable,
    commands: CommandsTable,
    http: HttpTable,
    retention: WrittenRetention,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRetention {
    ended_days: Option<f64>,
    ledger_hours: Option<f64>,
    bytes_max: Option<u64>,
}

impl Config {
    /// Reads the file that was named, or else the one beside the definition, or else the one here.
    pub(crate) fn find(arguments: &CallArguments, definition: &Path) -> Result<Self> {
        let endpoint = arguments.lambda_endpoint.as_ref();
        if let Some(named) = &arguments.config {
            return Self::open(named, endpoint);
        }
        let beside = definition.parent().map(|folder| folder.join(FILE));
        match beside.into_iter().chain([PathBuf::from(FILE)]).find(|file| file.is_file()) {
            Some(file) => Self::open(&file, endpoint),
            None => read("", Path::new(""), endpoint),
        }
    }

    fn open(file: &Path, endpoint: Option<&Url>) -> Result<Self> {
        let source = document::read_text(file, BYTES_MAX).context("the configuration is wrong")?;
        let full = std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
        let folder = full.parent().unwrap_or(&full);
        let read =
            read(&source.text, folder, endpoint).with_context(|| format!("{} is wrong", file.display()))?;
        Ok(Self { file: Some(file.to_owned()), ..read })
    }

    /// Where functions are configured, for a sentence.
    pub(crate) fn file_name(&self) -> String {
        self.file.as_ref().map_or_else(|| FILE.into(), |file| file.display().to_string())
    }

    /// Whoever makes the calls of this configuration.
    pub(crate) fn tasks(&self, strict: bool, handle: Handle) -> Result<Tasks> {
        let settings = Settings { strict, ..self.settings.clone() };
        Tasks::new(settings, Arc::<Connections>::default(), handle).context("cannot prepare calls over TLS")
    }
}

/// What a file says; an endpoint that was named elsewhere counts before its own.
fn read(text: &str, folder: &Path, endpoint: Option<&Url>) -> Result<Config> {
    let written: Written =
        toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))?;
    let Written { functions, destinations, mut lambda, commands, http, retention } = written;
    lambda.endpoint = endpoint.map(Url::to_string).or(lambda.endpoint);
    let tables = Tables { functions, destinations, lambda, commands, http };
    let settings = Settings::check(tables, folder)?;
    let keep = retention.check().context("retention")?;
    Ok(Config { file: None, settings, keep })
}

impl WrittenRetention {
    fn check(self) -> Result<Keep> {
        let usual = Keep::default();
        let ended_for = self.ended_days.map(|days| time("ended_days", days, 86_400.0));
        let ledger_for = self.ledger_hours.map(|hours| time("ledger_hours", hours, 3_600.0));
        Ok(Keep {
            ended_for: ended_for.transpose()?.unwrap_or(usual.ended_for),
            ledger_for: ledger_for.transpose()?.unwrap_or(usual.ledger_for),
            bytes_max: self.bytes_max,
        })
    }
}

/// A time in the unit of its setting.
fn time(name: &str, count: f64, seconds: f64) -> Result<Duration> {
    if count >= 0.0 && count * seconds <= SECONDS_MAX {
        return Ok(Duration::from_secs_f64(count * seconds));
    }
    bail!("{name} is {count}, and is to be at least 0, at most a hundred years")
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::Payload;
    use perdura_engine::asl::resource::Resource;
    use perdura_engine::{Policy, Uncertain};
    use perdura_tasks::functions::Program;
    use perdura_tasks::settings::{Function, Means};

    fn read_file(text: &str, folder: &str) -> Result<Config> {
        read(text, Path::new(folder), None)
    }

    #[test]
    fn a_function_is_a_command_in_the_folder_of_the_file() {
        let text = "[functions.charge]\ncommand = ['./charge', '-v']\ntimeout_seconds = 1.5";
        let program =
            Program { path: "/here/./charge".into(), arguments: vec!["-v".into()], folder: "/here".into() };
        let expected =
            Function { means: Means::Command(program.into()), timeout: Some(Duration::from_millis(1500)) };
        assert_eq!(read_file(text, "/here").unwrap().settings.functions["charge"], expected);
    }

    #[test]
    fn policies_and_retention_have_their_units() {
        let text = "[functions.pay]\ncommand = ['pay']\nuncertain = 'hold'\nkey_memory = '30m'\n\
                    [retention]\nended_days = 7\nbytes_max = 1000";
        let config = read_file(text, "/").unwrap();
        let pay = Resource::parse("arn:aws:lambda:us-east-1:123456789012:function:pay").unwrap();
        let policy = Policy { uncertain: Uncertain::Hold, key_memory_ms: 1_800_000 };
        assert_eq!(config.settings.destinations.find(&pay, &Payload::default()).policy, policy);
        let keep = Keep { ended_for: Duration::from_hours(7 * 24), bytes_max: Some(1000), ..Keep::default() };
        assert_eq!(config.keep, keep);
    }

    #[test]
    fn an_endpoint_on_the_command_line_counts_before_that_of_the_file() {
        let text = "[lambda]\nendpoint = 'http://127.0.0.1:1/'\n[functions.f]\nlambda = 'g'";
        let flag = Url::parse("http://127.0.0.1:2/").unwrap();
        let endpoint = |flag| read(text, Path::new("/"), flag).unwrap().settings.lambda_endpoint.unwrap();
        assert_eq!(endpoint(None).as_str(), "http://127.0.0.1:1/");
        assert_eq!(endpoint(Some(&flag)), flag);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("[function.a]", "unknown field `function`"),
            ("[functions.a]\ncommand = []", "functions.a: command is empty"),
            ("[functions.a]\ncommand = 'sh'", "expected a sequence"),
            ("[functions.a]\ncommand = ['sh']\ntimeout_seconds = 0", "functions.a: timeout_seconds is 0"),
            ("[functions.a", "TOML parse error at line 1"),
            ("[[destinations]]\npath = '/'", "destinations, number 1 in the file: path needs a host"),
            ("[retention]\nended_days = -1", "retention: ended_days is -1"),
            ("[retention]\nended_hours = 1", "unknown field `ended_hours`"),
        ] {
            let error = format!("{:#}", read_file(text, "/").unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
