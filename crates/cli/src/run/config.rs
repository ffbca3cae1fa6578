//! `perdura.toml`: the configuration of calls. For its other settings see [`crate::settings`].

use crate::arguments::CallArguments;
use crate::document;
use crate::settings::{self, check_names};
use anyhow::{Context, Result, anyhow};
use perdura_server::sfn::{KeyState, Keys};
use perdura_sigv4::Secret;
use perdura_tasks::aws::AwsTable;
use perdura_tasks::connection::Connections;
use perdura_tasks::destination::DestinationTable;
use perdura_tasks::items::ItemSettings;
use perdura_tasks::settings::{CommandsTable, FunctionTable, HttpTable, LambdaTable, Tables};
use perdura_tasks::{Settings, Tasks};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use url::Url;

const FILE: &str = "perdura.toml";
const BYTES_MAX: usize = 1024 * 1024;

/// The configuration of calls.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// The file, if there is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) settings: Settings,
    /// `[kms]`: keys that machines may name.
    pub(crate) keys: Keys,
}

/// [`crate::settings`] checks the other names in the file.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    functions: BTreeMap<String, FunctionTable>,
    destinations: Vec<DestinationTable>,
    lambda: LambdaTable,
    commands: CommandsTable,
    http: HttpTable,
    items: ItemSettings,
    aws: AwsTable,
    kms: BTreeMap<String, String>,
}

impl Config {
    /// The configuration of a command with these flags. The file may be beside the definition.
    pub(crate) fn find(arguments: &CallArguments, definition: &Path) -> Result<Self> {
        Self::of(&settings::Settings::load(arguments.flags(), Some(definition))?)
    }

    /// Reads the file of these settings, if there is one.
    pub(crate) fn of(settings: &settings::Settings) -> Result<Self> {
        let given = Given { endpoint: settings.lambda_endpoint()?, region: Some(settings.arns()?.region) };
        match settings.file() {
            Some(file) => Self::open(&file.name, &given),
            None => read("", Path::new(""), &given),
        }
    }

    fn open(file: &Path, given: &Given) -> Result<Self> {
        let source = document::read_text(file, BYTES_MAX).context("the configuration is wrong")?;
        let full = std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
        let folder = full.parent().unwrap_or(&full);
        let read =
            read(&source.text, folder, given).with_context(|| format!("{} is wrong", file.display()))?;
        Ok(Self { file: Some(file.to_owned()), ..read })
    }

    /// The name of the file, for messages.
    pub(crate) fn file_name(&self) -> String {
        self.file.as_ref().map_or_else(|| FILE.into(), |file| file.display().to_string())
    }

    /// The performer for the calls of this configuration.
    pub(crate) fn tasks(&self, strict: bool, connections: Arc<Connections>, handle: Handle) -> Result<Tasks> {
        Ok(Tasks::new(self.with_credentials(strict)?, connections, handle)?)
    }

    /// The settings of calls, with the credentials of the environment.
    pub(crate) fn with_credentials(&self, strict: bool) -> Result<Settings> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let secret = |name: &str| variable(name).map(Secret::new);
        let items = self.settings.items.clone().or_credentials(
            variable("AWS_ACCESS_KEY_ID"),
            secret("AWS_SECRET_ACCESS_KEY"),
            secret("AWS_SESSION_TOKEN"),
        );
        let aws = self.settings.aws.clone().with_credentials(
            variable("AWS_ACCESS_KEY_ID"),
            secret("AWS_SECRET_ACCESS_KEY"),
            secret("AWS_SESSION_TOKEN"),
        )?;
        Ok(Settings { strict, items, aws, ..self.settings.clone() })
    }
}

/// Values from flags and environment, which override the file.
#[derive(Default)]
struct Given {
    endpoint: Option<Url>,
    region: Option<String>,
}

/// Parses the file.
fn read(text: &str, folder: &Path, given: &Given) -> Result<Config> {
    check_names(text)?;
    let written: Written =
        toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))?;
    let Written { functions, destinations, mut lambda, commands, http, items, mut aws, kms } = written;
    aws.region = given.region.clone().or(aws.region);
    lambda.endpoint = given.endpoint.as_ref().map(Url::to_string).or(lambda.endpoint);
    let tables = Tables { functions, destinations, lambda, commands, http, items, aws };
    let settings = Settings::check(tables, folder)?;
    Ok(Config { file: None, settings, keys: keys(kms)? })
}

/// `[kms]`: keys with their states.
fn keys(written: BTreeMap<String, String>) -> Result<Keys> {
    if written.is_empty() {
        return Ok(Keys::default());
    }
    let read = written.into_iter().map(|(key, word)| match KeyState::read(&word) {
        Some(state) => Ok((key, state)),
        None => Err(anyhow!("kms: {key:?} is {word:?}, and is to be one of {}", KeyState::WORDS.join(", "))),
    });
    Ok(Keys { known: Some(read.collect::<Result<_>>()?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::Payload;
    use perdura_engine::asl::resource::Resource;
    use perdura_engine::{Policy, Uncertain};
    use perdura_tasks::functions::Program;
    use perdura_tasks::settings::{Function, Means};
    use std::time::Duration;

    fn read_file(text: &str, folder: &str) -> Result<Config> {
        read(text, Path::new(folder), &Given::default())
    }

    #[test]
    fn a_function_is_a_command_in_the_folder_of_the_file() {
        let text = "[functions.charge]\ncommand = ['./charge', '-v']\ntimeout_seconds = 1.5";
        let program = Program {
            path: "/here/./charge".into(),
            arguments: vec!["-v".into()],
            folder: "/here".into(),
            ..Program::default()
        };
        let expected =
            Function { means: Means::Command(program.into()), timeout: Some(Duration::from_millis(1500)) };
        assert_eq!(read_file(text, "/here").unwrap().settings.functions["charge"], expected);
    }

    #[test]
    fn policies_have_their_units() {
        let text = "[functions.pay]\ncommand = ['pay']\nuncertain = 'hold'\nkey_memory = '30m'";
        let config = read_file(text, "/").unwrap();
        let pay = Resource::parse("arn:aws:lambda:us-east-1:123456789012:function:pay").unwrap();
        let policy = Policy { uncertain: Uncertain::Hold, key_memory_ms: 1_800_000, ..Policy::default() };
        assert_eq!(config.settings.destinations.find(&pay, &Payload::default()).policy, policy);
    }

    #[test]
    fn an_endpoint_on_the_command_line_counts_before_that_of_the_file() {
        let text = "[lambda]\nendpoint = 'http://127.0.0.1:1/'\n[functions.f]\nlambda = 'g'";
        let flag = Url::parse("http://127.0.0.1:2/").unwrap();
        let endpoint = |flag: Option<&Url>| {
            let given = Given { endpoint: flag.cloned(), region: None };
            read(text, Path::new("/"), &given).unwrap().settings.lambda_endpoint.unwrap()
        };
        assert_eq!(endpoint(None).as_str(), "http://127.0.0.1:1/");
        assert_eq!(endpoint(Some(&flag)), flag);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("[function.a]", "line 1: there is no setting \"function\""),
            ("[functions.a]\ncommand = []", "functions.a: command is empty"),
            ("[functions.a]\ncommand = 'sh'", "expected a sequence"),
            ("[functions.a]\ncommand = ['sh']\ntimeout_seconds = 0", "functions.a: timeout_seconds is 0"),
            ("[functions.a", "TOML parse error at line 1"),
            ("[[destinations]]\npath = '/'", "destinations, number 1 in the file: path needs a host"),
            ("[retention]\nended_hours = 1", "line 2: there is no setting \"retention.ended_hours\""),
        ] {
            let error = format!("{:#}", read_file(text, "/").unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
