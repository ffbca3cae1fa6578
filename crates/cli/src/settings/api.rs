//! Settings of the Step Functions API: ARNs, quotas, and access.

use super::table::{
    ACCESS_KEY_FILE, ACCESS_KEYS, ACCOUNT, AUDIT_READS, HOSTS, PARTITION, QUOTA_ACTIVITIES, QUOTA_ALIASES,
    QUOTA_EXECUTIONS, QUOTA_MACHINES, QUOTA_POLLERS, QUOTA_VERSIONS, REGION, REVEAL_SECRETS,
    TLS_CERTIFICATE_FILE, TLS_KEY_FILE,
};
use super::{Origin, Setting, Settings};
use anyhow::{Context, Result, anyhow, bail};
use perdura_engine::Arns;
use perdura_server::http::{AccessKey, AccessKeys, Hosts, Tls};
use perdura_server::sfn::Quotas;
use perdura_server::who::{Role, namesake};
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

    /// The quotas.
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

    /// The names of the server, in addition to those of this machine.
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

    /// The certificate for clients; without one connections are plain.
    pub(crate) fn tls(&self) -> Result<Option<Tls>> {
        match (self.decide(&TLS_CERTIFICATE_FILE).value, self.decide(&TLS_KEY_FILE).value) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Ok(Some(Tls::open(certificate.as_ref(), key.as_ref()).context("TLS is not possible")?))
            }
            (Some(_), None) => {
                bail!("there is a certificate, and its key is missing: set serve.tls_key_file")
            }
            (None, Some(_)) => {
                bail!("there is a key, and its certificate is missing: set serve.tls_certificate_file")
            }
        }
    }

    /// Whether tests of a state show secrets.
    pub(crate) fn reveals_secrets(&self) -> Result<bool> {
        self.parsed(&REVEAL_SECRETS, |text| text.parse().map_err(|_| anyhow!("true or false")))
    }

    /// Whether reads of stored results are on the audit.
    pub(crate) fn audits_reads(&self) -> Result<bool> {
        self.parsed(&AUDIT_READS, |text| text.parse().map_err(|_| anyhow!("true or false")))
    }

    fn count<T: FromStr>(&self, setting: &'static Setting) -> Result<T> {
        self.parsed(setting, |text| text.parse().map_err(|_| anyhow!("a whole number")))
    }

    /// The access keys; without any, everybody on this machine has access. A file from a flag or a variable counts
    /// before keys in the environment, and those before a file from the configuration.
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

/// The role of a key without one: every action of the Step Functions API.
const USUAL: Role = Role::Operate;

/// Parses keys, each an id and a secret, and perhaps a role. Errors repeat neither.
fn read<'a>(pairs: impl Iterator<Item = &'a str>, between: fn(char) -> bool) -> Result<AccessKeys> {
    let mut keys = BTreeMap::new();
    for (at, pair) in pairs.enumerate() {
        match pair.split_once(between) {
            Some((id, rest)) if !id.is_empty() && !rest.trim().is_empty() => {
                if let Some(whose) = namesake(id) {
                    bail!("key {}: its id is the name of {whose}: use another id", at + 1);
                }
                let (secret, role) = match rest.trim().split_once(between) {
                    Some((secret, role)) => (secret, role.trim()),
                    None => (rest.trim(), USUAL.name()),
                };
                let Some(role) = Role::read(role) else {
                    bail!("key {}: its role is to be read, run, operate or admin", at + 1);
                };
                keys.insert(id.to_owned(), AccessKey { secret: Secret::new(secret), role });
            }
            _ => bail!("key {}: an id is wanted, then its secret, and perhaps a role", at + 1),
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
        let lines = ["AKIA1 abc", "AKIA2\tx/y+z", "AKIA3 def  read"];
        let keys = read(lines.into_iter(), char::is_whitespace).unwrap();
        let found: Vec<_> = keys.0.iter().map(|(id, key)| (&**id, key.secret.reveal(), key.role)).collect();
        let expected = [
            ("AKIA1", "abc", Role::Operate),
            ("AKIA2", "x/y+z", Role::Operate),
            ("AKIA3", "def", Role::Read),
        ];
        assert_eq!(found, expected);
        for bad in [vec![], vec!["AKIA1"], vec!["AKIA1 abc", " "], vec![" secret"], vec!["AKIA1 secret root"]]
        {
            let error = read(bad.clone().into_iter(), char::is_whitespace).unwrap_err().to_string();
            assert!(
                !error.contains("secret") || error.contains("a secret") || error.contains("its secret"),
                "{error}"
            );
        }
    }
}
