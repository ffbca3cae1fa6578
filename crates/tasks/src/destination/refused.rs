//! `refused`: the statuses and error names by which a receiver says that it did nothing.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::sync::Arc;

/// Errors that perdura reports itself for unknown outcomes, or that mean all others: none comes from the receiver.
const NEVER: &[&str] = &[
    "States.ALL",
    "States.TaskFailed",
    "States.Timeout",
    "States.HeartbeatTimeout",
    "States.Http.Socket",
    "States.DataLimitExceeded",
    "Sandbox.Timedout",
    "Runtime.ExitError",
    "Runtime.MarshalError",
    "Runtime.OutOfMemory",
    "Lambda.Unknown",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
];

/// An entry of `refused`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedWord {
    /// A status of HTTP.
    Status(u16),
    /// An error's name.
    Name(Arc<str>),
}

/// The parsed entries of `refused`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    pub(crate) statuses: Vec<u16>,
    pub(crate) names: Vec<Arc<str>>,
}

impl Refusals {
    /// Parses the entries, and rejects names that cannot be a refusal.
    pub(crate) fn read(words: Vec<RefusedWord>) -> Result<Self, String> {
        let mut refusals = Self::default();
        for word in words {
            match word {
                RefusedWord::Status(status) => refusals.statuses.push(status),
                RefusedWord::Name(name) if name.trim().is_empty() || name.trim() != &*name => {
                    return Err(format!(
                        "refused has {name:?}, which is no name of an error, as in \"CardDeclined\""
                    ));
                }
                RefusedWord::Name(name) if NEVER.contains(&&*name) => {
                    return Err(format!(
                        "refused has {name}, which is no refusal: it is also reported when the receiver may have acted. \
                         List errors that the receiver names itself when it did nothing"
                    ));
                }
                RefusedWord::Name(name) => refusals.names.push(name),
            }
        }
        Ok(refusals)
    }
}

impl<'de> Deserialize<'de> for RefusedWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = RefusedWord;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a status or an error's name, as in refused = [402, \"CardDeclined\"]")
            }

            fn visit_i64<E: de::Error>(self, status: i64) -> Result<RefusedWord, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(status), &self);
                u16::try_from(status).map(RefusedWord::Status).map_err(|_| wrong())
            }

            fn visit_u64<E: de::Error>(self, status: u64) -> Result<RefusedWord, E> {
                let wrong = || E::invalid_value(de::Unexpected::Unsigned(status), &self);
                u16::try_from(status).map(RefusedWord::Status).map_err(|_| wrong())
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<RefusedWord, E> {
                Ok(RefusedWord::Name(name.into()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
