//! `[functions.NAME]`: the definition of a function.

use super::{UncertainWord, duration, web_address};
use crate::destination::{Refusals, RefusedWord, ShortForm, statuses};
use crate::functions::{Environment, Program, WrittenEnvironment, plain_name, written_qualifier};
use crate::http::Verdict;
use perdura_sigv4::Secret;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The longest timeout of a function: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

/// `[functions.NAME]`, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FunctionTable {
    /// A local command: the program and its arguments.
    pub command: Option<Vec<String>>,
    /// An address that the payload is posted to.
    pub url: Option<String>,
    /// A function's name at the Lambda endpoint.
    pub lambda: Option<String>,
    pub timeout_seconds: Option<f64>,
    /// What to do about an unknown outcome.
    pub uncertain: Option<UncertainWord>,
    /// How long it remembers a key, such as `24h`.
    pub key_memory: Option<String>,
    /// Statuses and names of errors that say: certainly not done.
    pub refused: Vec<RefusedWord>,
    /// Variables of this process that its command gets besides the default ones.
    pub env_pass: Vec<String>,
    /// Variables that are set for its command.
    pub env: BTreeMap<String, Secret>,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub means: Means,
    pub timeout: Option<Duration>,
}

/// The kinds of functions.
#[derive(Clone, Debug, PartialEq)]
pub enum Means {
    /// A local command.
    Command(Arc<Program>),
    /// An address that the payload is posted to.
    Url(Url),
    /// A function at the Lambda endpoint.
    Lambda(Qualified),
}

/// A function at a Lambda endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qualified {
    /// Its bare name.
    pub name: Arc<str>,
    /// Its version or alias, if one is written.
    pub qualifier: Option<Arc<str>>,
}

impl FunctionTable {
    pub(super) fn short_form(&self) -> Result<ShortForm, String> {
        let key_memory = self.key_memory.as_deref().map(duration).transpose();
        let refused = Refusals::read(self.refused.clone())?;
        statuses(&[(&refused.statuses, Verdict::Refused)])?;
        if let (Some(status), true) = (refused.statuses.first(), self.command.is_some()) {
            return Err(format!(
                "refused has {status}, and a command has no statuses: list names of errors, as in [\"CardDeclined\"]"
            ));
        }
        Ok(ShortForm {
            refused,
            uncertain: self.uncertain.map(Into::into),
            key_memory: key_memory.map_err(|what| format!("key_memory: {what}"))?,
        })
    }

    pub(super) fn check(self, folder: &Path, environment: &Environment) -> Result<Function, String> {
        if self.command.is_none() && !(self.env_pass.is_empty() && self.env.is_empty()) {
            return Err("env and env_pass are for commands: keep them where command = […] is".to_owned());
        }
        let means = match (self.command, self.url, self.lambda) {
            (Some(command), None, None) => {
                let written = WrittenEnvironment { pass: self.env_pass, set: self.env };
                let environment = environment.clone().with(written)?;
                Means::Command(Arc::new(program(command, folder, environment)?))
            }
            (None, Some(url), None) => Means::Url(web_address(&url).map_err(|what| format!("url {what}"))?),
            (None, None, Some(name)) if !plain_name(&name).is_empty() => Means::Lambda(Qualified {
                name: plain_name(&name).into(),
                qualifier: written_qualifier(&name),
            }),
            (None, None, Some(_)) => return Err("lambda is empty: write the function's name".to_owned()),
            (None, None, None) => {
                return Err(
                    "it is nothing yet: write command = […], url = \"…\" or lambda = \"…\"".to_owned()
                );
            }
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                return Err("command, url and lambda exclude each other: keep one of them".to_owned());
            }
        };
        let timeout = match self.timeout_seconds {
            None => None,
            Some(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => {
                Some(Duration::from_secs_f64(seconds))
            }
            Some(seconds) => {
                return Err(format!(
                    "timeout_seconds is {seconds}, and is to be more than 0, at most a year"
                ));
            }
        };
        Ok(Function { means, timeout })
    }
}

fn program(command: Vec<String>, folder: &Path, environment: Environment) -> Result<Program, String> {
    let mut words = command.into_iter();
    let Some(program) = words.next().filter(|program| !program.is_empty()) else {
        let example = "the first word is the program, as in [\"python3\", \"charge.py\"]";
        return Err(format!("command is empty: {example}"));
    };
    // A bare name is looked up in PATH; a name with a slash is relative to the folder.
    let path = if program.contains('/') { folder.join(program) } else { program.into() };
    Ok(Program { path, arguments: words.collect(), folder: folder.to_owned(), environment })
}
