//! Settings of the Step Functions API: whose ARNs, how many of what, and who may ask.

use super::table::{
    ACCESS_KEY_FILE, ACCESS_KEYS, ACCOUNT, HOSTS, PARTITION, QUOTA_ACTIVITIES, QUOTA_ALIASES,
    QUOTA_EXECUTIONS, QUOTA_MACHINES, QUOTA_POLLERS, QUOTA_VERSIONS, REGION, REVEAL_SECRETS,
};
use super::{Origin, Setting, Settings};
use anyhow::{Context, Result, anyhow, bail};
use perdura_engine::Arns;
use perdura_server::http::{AccessKeys, Hosts};
use perdura_server::sfn::Quotas;
use perdura_sigv4::Secret;
use std::collections::BTreeMap;
use std::fs;
use std::str::FromStr;

impl Settings {
    /// The partition, region and account of all ARNs.
    pub(crate) fn arns(&self) -> Result<Arns> {
        let is_word = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let word = |setting, like: &'static str| {
            self.parsed(setting, |text| {
                if is_word(text) { Ok(text.to_owned()) } else { Err(anyhow!("a word like {like}")) }
            })
        };
        let account = self.parsed(&ACCOUNT, |text| {
            let is_account = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
            if is_account { Ok(text.to_owned()) } else { Err(anyhow!("12 digits")) }
        })?;
        Ok(Arns { partition: word(&PARTITION, "aws")?, region: word(&REGION, "eu-west-1")?, account })
    }

    /// How many there may be of what.
    pub(crate) fn quotas(&self) -> Result<Quotas> {
        Ok(Quotas {
            state_machines: self.count(&QUOTA_MACHINES)?,
            activities: self.count(&QUOTA_ACTIVITIES)?,
            executions: match self.decide(&QUOTA_EXECUTIONS).value {
                Some(_) => self.count(&QUOTA_EXECUTIONS)?,
                None => u64::MAX,
            },
            pollers: self.count(&QUOTA_POLLERS)?,
            versions: self.count(&QUOTA_VERSIONS)?,
            aliases: self.count(&QUOTA_ALIASES)?,
        })
    }

    /// Under which names the server is asked, beside those of this machine.
    pub(crate) fn hosts(&self) -> Result<Hosts> {
        let is_name = |name: &str| {
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !name.is_empty() && name.bytes().all(is_good)
        };
        if self.decide(&HOSTS).value.is_none() {
            return Ok(Hosts::default());
        }
        self.parsed(&HOSTS, |text| {
            let names: Vec<&str> = text.split(',').map(str::trim).collect();
            if names.iter().all(|name| is_name(name)) {
                return Ok(Hosts::new(names.into_iter().map(str::to_owned)));
            }
            Err(anyhow!("names without a port, with commas between, such as perdura.internal"))
        })
    }

    /// Whether secrets are shown to whoever tries a state out.
    pub(crate) fn reveals_secrets(&self) -> Result<bool> {
        self.parsed(&REVEAL_SECRETS, |text| text.parse().map_err(|_| anyhow!("true or false")))
    }

    fn count<T: FromStr>(&self, setting: &'static Setting) -> Result<T> {
        self.parsed(setting, |text| text.parse().map_err(|_| anyhow!("a whole number")))
    }

    /// Who may use the API; none at all: everybody on this machine. A file that a flag or a variable names counts
    /// before keys in the environment, and those before a file that the configuration names.
    pub(crate) fn access_keys(&self) -> Result<AccessKeys> {
        let file = self.decide(&ACCESS_KEY_FILE);
        let keys = self.decide(&ACCESS_KEYS).value;
        match (file.value, file.origin, keys) {
            (Some(file), Origin::Flag(_) | Origin::Variable(_), _) | (Some(file), _, None) => {
                let text = fs::read_to_string(&file).with_context(|| format!("the access keys in {file}"))?;
                let lines =
                    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                read(lines, char::is_whitespace).with_context(|| format!("the access keys in {file}"))
            }
            (_, _, Some(keys)) => {
                read(keys.split(','), |char| char == ':').context("PERDURA_ACCESS_KEYS is wrong")
            }
            (None, _, None) => Ok(AccessKeys::default()),
        }
    }
}

/// Keys, each an id and a secret. What is wrong is told without repeating either.
fn read<'a>(pairs: impl Iterator<Item = &'a str>, between: fn(char) -> bool) -> Result<AccessKeys> {
    let mut keys = BTreeMap::new();
    for (at, pair) in pairs.enumerate() {
        match pair.split_once(between) {
            Some((id, secret)) if !id.is_empty() && !secret.trim().is_empty() => {
                keys.insert(id.to_owned(), Secret::new(secret.trim()));
            }
            _ => bail!("key {}: an id is wanted, then its secret", at + 1),
        }
    }
    if keys.is_empty() {
        bail!("there are none in it: write an id and a secret");
    }
    Ok(AccessKeys(keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_without_ports() {
        let with = |hosts: &str| {
            let text = format!("[serve]\nhosts = {hosts:?}");
            let file = super::super::File::read(std::path::Path::new("perdura.toml"), &text).unwrap();
            Settings { flags: Vec::new(), environment: Box::new(|_| None), file: Some(file) }.hosts()
        };
        assert!(with("perdura.internal, flow_1.example").is_ok());
        for bad in ["perdura.internal:8083", "http://perdura", "a,,b", "*"] {
            let error = with(bad).unwrap_err().to_string();
            assert!(error.contains("names without a port"), "{bad}: {error}");
        }
    }

    #[test]
    fn keys_are_an_id_and_a_secret() {
        let keys = read(["AKIA1 abc", "AKIA2\tx/y+z"].into_iter(), char::is_whitespace).unwrap();
        assert_eq!(keys.0.keys().collect::<Vec<_>>(), ["AKIA1", "AKIA2"]);
        assert_eq!(keys.0["AKIA2"].reveal(), "x/y+z");
        for bad in [vec![], vec!["AKIA1"], vec!["AKIA1 abc", " "], vec![" secret"]] {
            let error = read(bad.clone().into_iter(), char::is_whitespace).unwrap_err().to_string();
            assert!(
                !error.contains("secret") || error.contains("a secret") || error.contains("its secret"),
                "{error}"
            );
        }
    }
}
