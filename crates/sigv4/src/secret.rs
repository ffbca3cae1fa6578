//! What is signed with, and never shown.

use serde::{Deserialize, Deserializer};
use std::fmt;
use zeroize::Zeroizing;

/// A text that shows as `…` wherever it is printed, and is wiped from memory when dropped. It can be read from a file,
/// and not be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, for whoever sends it or signs with it.
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

/// Who signs.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The public half.
    pub access_key_id: String,
    /// The other half.
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
