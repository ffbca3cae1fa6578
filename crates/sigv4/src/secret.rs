//! Credentials: secrets that sign requests and are never printed.

use serde::{Deserialize, Deserializer};
use std::fmt;
use zeroize::Zeroizing;

/// A text that prints as `…` everywhere, and is wiped from memory when dropped. It can be deserialised, but not
/// serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, to send it or to sign with it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// An access key with its secret.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The public half of the key pair.
    pub access_key_id: String,
    /// The secret half of the key pair.
    pub secret_access_key: Secret,
    /// For credentials that expire.
    pub session_token: Option<Secret>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_half_is_shown() {
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: Secret::new("hidden"),
            session_token: Some(Secret::new("hidden too")),
        };
        let shown = format!("{credentials:?}");
        assert!(shown.contains("AKIDEXAMPLE") && !shown.contains("hidden"), "{shown}");
    }
}
