//! `[[destinations]]`: the tables as written, and their parsed form.

use super::place::Hosts;
use super::{Destination, Refusals, RefusedWord, Who};
use crate::http::Verdict;
use crate::settings::{UncertainWord, duration};
use http::HeaderName;
use perdura_engine::{Policy, Uncertain};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// One entry of `[[destinations]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DestinationTable {
    /// A host, or with `*.` in front all subdomains.
    pub host: Option<String>,
    /// The beginning of the path.
    pub path: Option<String>,
    /// A resource's ARN, or a function's name.
    pub resource: Option<String>,
    /// What to do about an unknown outcome.
    pub uncertain: Option<UncertainWord>,
    /// How long keys are remembered there, such as `24h`.
    pub key_memory: Option<String>,
    /// The header that carries the key.
    pub header: Option<String>,
    /// Statuses and names of errors that say: certainly not done.
    pub refused: Vec<RefusedWord>,
    /// Statuses that say: done.
    pub done: Vec<u16>,
    /// Statuses that leave it open.
    pub ambiguous: Vec<u16>,
}

/// A policy at a function itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortForm {
    /// What to do about an unknown outcome.
    pub uncertain: Option<Uncertain>,
    /// How long it remembers a key.
    pub key_memory: Option<Duration>,
    /// The refusals of the function.
    pub(crate) refused: Refusals,
}

impl ShortForm {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A destination overridden by this policy. Its refusals are added to those of the destination.
    pub(super) fn over(self, mut destination: Destination) -> Destination {
        let Policy { uncertain, key_memory_ms, refused } = &mut destination.policy;
        *uncertain = self.uncertain.unwrap_or(*uncertain);
        *key_memory_ms = self.key_memory.map_or(*key_memory_ms, ms);
        *refused = refused.iter().cloned().chain(self.refused.names).collect();
        let statuses = self.refused.statuses.into_iter().map(|status| (status, Verdict::Refused));
        destination.statuses.extend(statuses);
        destination
    }
}

impl DestinationTable {
    pub(super) fn check(self) -> Result<(Who, Destination), String> {
        let who = match (self.host, self.path, self.resource) {
            (Some(host), path, None) => {
                let path = path.unwrap_or_else(|| "/".to_owned());
                if !path.starts_with('/') {
                    return Err(format!("path is {path:?}, and is to begin with a slash, as in \"/v1/\""));
                }
                Who::At { hosts: Hosts::read(&host)?, path }
            }
            (None, None, Some(resource)) if !resource.is_empty() => Who::Resource(resource),
            (None, None, Some(_)) => {
                return Err("resource is empty: write an ARN or a function's name".into());
            }
            (None, Some(_), None) => {
                return Err("path needs a host: write host = \"api.bank.example\"".into());
            }
            (None, None, None) => {
                return Err("nobody is named: write host = \"api.bank.example\" or resource = \"…\"".into());
            }
            (Some(_), _, Some(_)) | (None, Some(_), Some(_)) => {
                return Err("resource goes without host and path: make two destinations of it".into());
            }
        };
        let usual = Destination::default();
        let header = match self.header {
            None => usual.header,
            Some(name) => HeaderName::try_from(&name)
                .map_err(|_| format!("header {name:?} is no name of a header, as in \"Idempotency-Key\""))?,
        };
        let key_memory = self.key_memory.as_deref().map(duration).transpose();
        let refused = Refusals::read(self.refused)?;
        let statuses = statuses(&[
            (&refused.statuses, Verdict::Refused),
            (&self.done, Verdict::Done),
            (&self.ambiguous, Verdict::Ambiguous),
        ])?;
        let short_form = ShortForm {
            uncertain: self.uncertain.map(Into::into),
            key_memory: key_memory.map_err(|what| format!("key_memory: {what}"))?,
            refused,
        };
        Ok((who, short_form.over(Destination { header, statuses, ..usual })))
    }
}

/// Parses lists of statuses. Those of a function are checked like those of a destination.
pub(crate) fn statuses(lists: &[(&[u16], Verdict)]) -> Result<BTreeMap<u16, Verdict>, String> {
    let mut statuses = BTreeMap::new();
    for (list, verdict) in lists {
        for status in *list {
            if !(300..600).contains(status) {
                return Err(format!(
                    "{status} cannot be given a meaning: 300 to 599 can, and 2xx is always done"
                ));
            }
            if statuses.insert(*status, *verdict).is_some_and(|before| before != *verdict) {
                return Err(format!("{status} is in two of refused, done and ambiguous: keep one"));
            }
        }
    }
    Ok(statuses)
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
