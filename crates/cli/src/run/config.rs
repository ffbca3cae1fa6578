//! `perdura.toml`: which command each function is, and for how long things are kept.

use crate::document;
use anyhow::{Context, Result, anyhow, bail};
use perdura_engine::{Policy, Uncertain};
use perdura_server::retention::ms;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "perdura.toml";
const BYTES_MAX: usize = 1024 * 1024;
/// The longest time that a setting may name: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

/// Functions, and where their commands run.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// The file, where there is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) functions: BTreeMap<String, Function>,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    /// The program.
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Where it runs.
    pub(crate) folder: PathBuf,
    pub(crate) timeout: Option<Duration>,
    /// What is to be done when nobody knows whether a call was performed.
    pub(crate) policy: Policy,
}

/// What else stands in the file is held to its names by [`crate::settings`].
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    functions: BTreeMap<String, WrittenFunction>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFunction {
    command: Vec<String>,
    timeout_seconds: Option<f64>,
    uncertain: Option<WrittenUncertain>,
    key_memory_hours: Option<f64>,
}

/// What is done about a call of which nobody knows whether it was performed.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenUncertain {
    Retry,
    Hold,
}

impl Config {
    /// Reads the file that was named, or else the one beside the definition, or else the one here.
    pub(crate) fn find(named: Option<&Path>, definition: &Path) -> Result<Self> {
        if let Some(named) = named {
            return Self::open(named);
        }
        let beside = definition.parent().map(|folder| folder.join(FILE));
        match beside.into_iter().chain([PathBuf::from(FILE)]).find(|file| file.is_file()) {
            Some(file) => Self::open(&file),
            None => Ok(Self::default()),
        }
    }

    fn open(file: &Path) -> Result<Self> {
        let source = document::read_text(file, BYTES_MAX).context("the configuration is wrong")?;
        let full = std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
        let folder = full.parent().unwrap_or(&full);
        let read = read(&source.text, folder).with_context(|| format!("{} is wrong", file.display()))?;
        Ok(Self { file: Some(file.to_owned()), ..read })
    }
}

fn read(text: &str, folder: &Path) -> Result<Config> {
    crate::settings::check_names(text)?;
    let written: Written =
        toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))?;
    let functions = written.functions.into_iter().map(|(name, written)| {
        let function = written.check(folder).with_context(|| format!("functions.{name}"))?;
        Ok((name, function))
    });
    let functions = functions.collect::<Result<_>>()?;
    Ok(Config { file: None, functions })
}

/// A time in the unit of its setting.
fn time(name: &str, count: f64, seconds: f64) -> Result<Duration> {
    if count >= 0.0 && count * seconds <= 100.0 * SECONDS_MAX {
        return Ok(Duration::from_secs_f64(count * seconds));
    }
    bail!("{name} is {count}, and is to be at least 0, at most a hundred years")
}

impl WrittenFunction {
    fn check(self, folder: &Path) -> Result<Function> {
        let mut words = self.command.into_iter();
        let Some(program) = words.next().filter(|program| !program.is_empty()) else {
            bail!("command is empty: the first word is the program, as in [\"python3\", \"charge.py\"]");
        };
        // A bare name is looked up in PATH; with a slash in it, it belongs to the folder.
        let program = if program.contains('/') { folder.join(program) } else { program.into() };
        let timeout = match self.timeout_seconds {
            None => None,
            Some(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => {
                Some(Duration::from_secs_f64(seconds))
            }
            Some(seconds) => bail!("timeout_seconds is {seconds}, and is to be more than 0, at most a year"),
        };
        let usual = Policy::default();
        let uncertain = self.uncertain.map_or(usual.uncertain, |written| match written {
            WrittenUncertain::Retry => Uncertain::Retry,
            WrittenUncertain::Hold => Uncertain::Hold,
        });
        let key_memory_ms = match self.key_memory_hours {
            None => usual.key_memory_ms,
            Some(hours) => ms(time("key_memory_hours", hours, 3_600.0)?),
        };
        let policy = Policy { uncertain, key_memory_ms };
        Ok(Function { program, arguments: words.collect(), folder: folder.to_owned(), timeout, policy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_a_command_in_the_folder_of_the_file() {
        let text = "[functions.charge]\ncommand = ['./charge', '-v']\ntimeout_seconds = 1.5\n\
                    [functions.\"ship it\"]\ncommand = ['python3']";
        let functions = read(text, Path::new("/here")).unwrap().functions;
        assert_eq!(
            functions["charge"],
            Function {
                program: "/here/./charge".into(),
                arguments: vec!["-v".into()],
                folder: "/here".into(),
                timeout: Some(Duration::from_millis(1500)),
                policy: Policy::default(),
            }
        );
        assert_eq!(functions["ship it"].program, Path::new("python3"));
    }

    #[test]
    fn policies_have_their_units() {
        let text = "[functions.pay]\ncommand = ['pay']\nuncertain = 'hold'\nkey_memory_hours = 0.5";
        let config = read(text, Path::new("/")).unwrap();
        let policy = Policy { uncertain: Uncertain::Hold, key_memory_ms: 1_800_000 };
        assert_eq!(config.functions["pay"].policy, policy);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("[function.a]", "line 1: there is no setting \"function\""),
            ("[functions.a]\ncommand = []", "functions.a: command is empty"),
            ("[functions.a]\ncommand = ['']", "functions.a: command is empty"),
            ("[functions.a]\ncommand = 'sh'", "expected a sequence"),
            ("[functions.a]\ncommand = ['sh']\ntimeout = 5", "unknown field `timeout`"),
            ("[functions.a]\ncommand = ['sh']\ntimeout_seconds = 0", "functions.a: timeout_seconds is 0"),
            ("[functions.a]\ncommand = ['sh']\ntimeout_seconds = nan", "timeout_seconds is NaN"),
            ("[functions.a", "TOML parse error at line 1"),
            ("[functions.a]\ncommand = ['sh']\nuncertain = 'guess'", "expected `retry` or `hold`"),
            ("[retention]\nended_hours = 1", "line 2: there is no setting \"retention.ended_hours\""),
        ] {
            let error = format!("{:#}", read(text, Path::new("/")).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
