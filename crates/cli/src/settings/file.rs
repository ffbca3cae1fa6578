//! `perdura.toml` for settings: each name with its value and its line, and no unknown names.

use super::{Kind, Setting, TABLE};
use crate::document;
use anyhow::{Context, Result, anyhow, bail};
use perdura_asl::read::nearest;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The largest file.
const BYTES_MAX: usize = 1024 * 1024;
/// Tables that other modules read and check.
const ELSEWHERE: &[&str] =
    &["functions", "destinations", "commands", "http", "items", "kms", "aws.endpoint", "aws.endpoints"];

/// A parsed configuration file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: PathBuf,
    names: Names,
}

/// Its names, with dots.
#[derive(Debug, Default)]
struct Names {
    settings: BTreeMap<String, (String, usize)>,
    elsewhere: BTreeMap<String, usize>,
}

impl File {
    /// Reads a file, and refuses unknown names.
    pub(crate) fn open(name: &Path) -> Result<Self> {
        let source = document::read_text(name, BYTES_MAX).context("the configuration is wrong")?;
        Self::read(name, &source.text)
    }

    /// The same, of a text.
    pub(super) fn read(name: &Path, text: &str) -> Result<Self> {
        let names = names(text).with_context(|| format!("{} is wrong", name.display()))?;
        Ok(Self { name: name.to_owned(), names })
    }

    /// The value of a setting, and its line.
    pub(crate) fn get(&self, setting: &Setting) -> Option<(String, usize)> {
        let (value, line) = self.names.settings.get(setting.name).filter(|_| setting.in_file)?;
        let value = match setting.kind {
            Kind::Text | Kind::Secret => value.clone(),
            Kind::Path => {
                let folder = self.name.parent().unwrap_or(Path::new(""));
                folder.join(value).display().to_string()
            }
        };
        Some((value, *line))
    }

    /// The other tables, such as functions, each with its line.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = (&str, usize)> {
        self.names.elsewhere.iter().map(|(name, line)| (&**name, *line))
    }
}

/// Refuses unknown names, each with its line and the nearest known name.
pub(crate) fn check_names(text: &str) -> Result<()> {
    names(text).map(drop)
}

fn names(text: &str) -> Result<Names> {
    let table = DeTable::parse(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))?;
    let mut names = Names::default();
    Walk { text, names: &mut names }.table("", table.get_ref())?;
    Ok(names)
}

struct Walk<'a> {
    text: &'a str,
    names: &'a mut Names,
}

impl Walk<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }

    fn table(&mut self, around: &str, table: &DeTable<'_>) -> Result<()> {
        for (key, value) in table {
            let line = self.line(key.span().start);
            let name = if around.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{around}.{key}", key = key.get_ref())
            };
            if ELSEWHERE.contains(&&*name) {
                self.elsewhere(&name, line, value.get_ref());
            } else if is_setting(&name) {
                let scalar = scalar(value.get_ref()).with_context(|| {
                    format!("line {line}: {name} is to be one value, and no table or list")
                })?;
                self.names.settings.insert(name, (scalar, line));
            } else if let (true, DeValue::Table(inner)) = (is_table(&name), value.get_ref()) {
                self.table(&name, inner)?;
            } else {
                bail!("line {line}: there is no setting {name:?}{}", hint(&name));
            }
        }
        Ok(())
    }

    fn elsewhere(&mut self, name: &str, line: usize, value: &DeValue<'_>) {
        match value {
            DeValue::Table(table) => {
                for key in table.keys() {
                    let line = self.line(key.span().start);
                    self.names.elsewhere.insert(format!("{name}.{}", key.get_ref()), line);
                }
            }
            DeValue::Array(list) => {
                for (at, item) in list.iter().enumerate() {
                    let line = self.line(item.span().start);
                    self.names.elsewhere.insert(format!("{name}[{at}]"), line);
                }
            }
            _ => drop(self.names.elsewhere.insert(name.to_owned(), line)),
        }
    }
}

fn in_file() -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter(|setting| setting.in_file).map(|setting| setting.name)
}

fn is_setting(name: &str) -> bool {
    in_file().any(|known| known == name)
}

fn is_table(name: &str) -> bool {
    in_file().filter_map(|known| known.split_once('.')).any(|(table, _)| table == name)
}

/// The nearest name: in the same table, or elsewhere with the same last part.
fn hint(name: &str) -> String {
    let tables = in_file().filter_map(|known| Some(known.split_once('.')?.0));
    let known = in_file().chain(tables).chain(ELSEWHERE.iter().copied());
    let last = name.rsplit('.').next().unwrap_or(name);
    let moved = || in_file().find(|known| known.rsplit('.').next() == Some(last));
    let mut hint = String::new();
    if let Some(near) = nearest(name, known).or_else(moved) {
        write!(hint, "; did you mean {near:?}?").expect("writing to a String cannot fail");
    }
    hint
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(time) => Some(time.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
