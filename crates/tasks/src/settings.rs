//! The tables of `perdura.toml` for calls, as written and parsed.
//!
//! [`Tables`] is the written form, which refuses unknown members. [`Settings::check`] turns it into the parsed form for
//! the rest of this room, or into a message that names the table and what to write instead.

mod duration;
mod function;

pub use duration::duration;
pub use function::{Function, FunctionTable, Means, Qualified};

use crate::aws::{AwsSettings, AwsTable};
use crate::destination::{DestinationTable, Destinations};
use crate::functions::{Environment, WrittenEnvironment};
use crate::guard::Guard;
use crate::items::ItemSettings;
use crate::shares::Share;
use perdura_engine::Uncertain;
use perdura_sigv4::Secret;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use url::Url;

/// The default for commands at once; further calls wait for a place.
const COMMANDS_AT_ONCE: usize = 32;
/// The limit for commands at once: each has four threads and a process.
const COMMANDS_AT_ONCE_MAX: usize = 256;
/// The default for calls over HTTP at once.
const CALLS_AT_ONCE: usize = 4_096;
/// The limit for calls over HTTP at once: each may have a connection, and so a file.
const CALLS_AT_ONCE_MAX: usize = 65_536;

/// The tables, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tables {
    /// `[functions.NAME]`
    pub functions: BTreeMap<String, FunctionTable>,
    /// `[[destinations]]`
    pub destinations: Vec<DestinationTable>,
    /// `[lambda]`
    pub lambda: LambdaTable,
    /// `[commands]`
    pub commands: CommandsTable,
    /// `[http]`
    pub http: HttpTable,
    /// `[items]`
    pub items: ItemSettings,
    /// `[aws]`
    pub aws: AwsTable,
}

/// `[http]`: settings for all calls over HTTP.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpTable {
    /// Hosts, addresses and networks that may be called although they are refused by default.
    pub allow: Vec<String>,
    /// How many calls may be under way at once.
    pub at_once: Option<usize>,
    /// How many of them to one receiver.
    pub at_once_each: Option<usize>,
}

/// `[lambda]`: the endpoint for functions without a table of their own.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LambdaTable {
    /// The address of a service that has Lambda's Invoke.
    pub endpoint: Option<String>,
}

/// `[commands]`: functions that are local commands.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommandsTable {
    /// How many may run at once.
    pub at_once: Option<usize>,
    /// How many of one function.
    pub at_once_each: Option<usize>,
    /// Variables of this process that commands get besides the default ones.
    pub env_pass: Vec<String>,
    /// Variables that are set for commands.
    pub env: BTreeMap<String, Secret>,
}

/// `uncertain`: what to do about a call with an unknown outcome.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UncertainWord {
    /// Repeat it under its key.
    Retry,
    /// Hold it for a person.
    Hold,
}

impl From<UncertainWord> for Uncertain {
    fn from(word: UncertainWord) -> Self {
        match word {
            UncertainWord::Retry => Self::Retry,
            UncertainWord::Hold => Self::Hold,
        }
    }
}

/// The tables, parsed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Functions by their bare names.
    pub functions: BTreeMap<String, Function>,
    /// Receivers and their policies.
    pub destinations: Destinations,
    /// The endpoint for functions without a table of their own.
    pub lambda_endpoint: Option<Url>,
    /// How many commands may run at once.
    pub commands: Share,
    /// How many calls over HTTP may be under way at once.
    pub calls: Share,
    /// Which addresses may be called.
    pub guard: Guard,
    /// The sources of items of Distributed Maps, and the places for their results.
    pub items: ItemSettings,
    /// The addresses of services of AWS, and the signer.
    pub aws: AwsSettings,
    /// Whether AWS's limits apply.
    pub strict: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            functions: BTreeMap::new(),
            destinations: Destinations::default(),
            lambda_endpoint: None,
            commands: Share::of(COMMANDS_AT_ONCE),
            calls: Share::of(CALLS_AT_ONCE),
            guard: Guard::default(),
            items: ItemSettings::default(),
            aws: AwsSettings::default(),
            strict: false,
        }
    }
}

/// A mistake in a table, and what to write instead.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table}: {what}")]
pub struct Mistake {
    pub table: String,
    /// The mistake, and the remedy.
    pub what: String,
}

impl Mistake {
    pub(crate) fn new(table: impl Into<String>, what: impl Display) -> Self {
        Self { table: table.into(), what: what.to_string() }
    }
}

impl Settings {
    /// Parses the tables. Commands run in `folder`, and their programs are looked up from there.
    pub fn check(tables: Tables, folder: &Path) -> Result<Self, Mistake> {
        let Tables { functions: written, destinations, lambda, commands, http, mut items, aws } = tables;
        items.local_from(folder);
        let aws = AwsSettings::check(aws)?;
        let lambda_endpoint = match lambda.endpoint {
            None => aws.endpoint("lambda").cloned(),
            Some(endpoint) => Some(endpoint_url(&endpoint).map_err(|what| Mistake::new("lambda", what))?),
        };
        let written_environment = WrittenEnvironment { pass: commands.env_pass, set: commands.env };
        let environment = Environment::default()
            .with(written_environment)
            .map_err(|what| Mistake::new("commands", what))?;
        let mut functions = BTreeMap::new();
        let mut short_forms = BTreeMap::new();
        for (name, table) in written {
            let place = || format!("functions.{name}");
            let short_form = table.short_form().map_err(|what| Mistake::new(place(), what))?;
            let function = table.check(folder, &environment).map_err(|what| Mistake::new(place(), what))?;
            if matches!(function.means, Means::Lambda(_)) && lambda_endpoint.is_none() {
                let what = "lambda needs an endpoint: write [lambda] or [aws] with endpoint = \"http://…\", or serve \
                            with --lambda-endpoint URL";
                return Err(Mistake::new(place(), what));
            }
            short_forms.insert(name.clone(), short_form);
            functions.insert(name, function);
        }
        let destinations = Destinations::check(destinations, &functions, short_forms)?;
        let at_once = (commands.at_once, COMMANDS_AT_ONCE, COMMANDS_AT_ONCE_MAX);
        let of_commands =
            share(at_once, commands.at_once_each).map_err(|what| Mistake::new("commands", what))?;
        let at_once = (http.at_once, CALLS_AT_ONCE, CALLS_AT_ONCE_MAX);
        let calls = share(at_once, http.at_once_each).map_err(|what| Mistake::new("http", what))?;
        let guard =
            Guard::new(http.allow).map_err(|error| Mistake::new("http", format!("allow: {error}")))?;
        let strict = false;
        Ok(Self {
            functions,
            destinations,
            lambda_endpoint,
            commands: of_commands,
            calls,
            guard,
            items,
            aws,
            strict,
        })
    }

    /// Whether a function with this name, bare or as an ARN, can be called at all.
    pub fn has_function(&self, name: &str) -> bool {
        self.lambda_endpoint.is_some() || self.functions.contains_key(crate::functions::plain_name(name))
    }
}

/// The share from `at_once` (with its default and its limit) and `at_once_each`.
fn share((roof, usual, most): (Option<usize>, usize, usize), each: Option<usize>) -> Result<Share, String> {
    let roof = roof.unwrap_or(usual);
    if !(1..=most).contains(&roof) {
        return Err(format!("at_once is {roof}, and is to be 1 to {most}"));
    }
    match each {
        None => Ok(Share::of(roof)),
        Some(each) if (1..=roof).contains(&each) => Ok(Share { roof, each }),
        Some(each) => Err(format!("at_once_each is {each}, and is to be 1 to {roof}, which is at_once")),
    }
}

/// The address of a service.
pub fn endpoint_url(text: &str) -> Result<Url, String> {
    web_address(text).map_err(|what| format!("endpoint {what}"))
}

/// An address that can be called; an error continues the text `url "…"`.
fn web_address(text: &str) -> Result<Url, String> {
    let example = "write a whole address, as in \"http://127.0.0.1:8080/charge\"";
    let url = Url::parse(text).map_err(|error| format!("{text:?} is no URL ({error}): {example}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(format!("{text:?} is no address of http or https: {example}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let host = url.host_str().unwrap_or_default();
        return Err(format!(
            "at {host} has a user or a password in it, which would show up in logs: take it out"
        ));
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
