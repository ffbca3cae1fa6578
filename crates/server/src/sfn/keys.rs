//! KMS keys that machines and activities name for the encryption of their data.
//!
//! Data is not encrypted with them: the configuration is stored and returned, so that a machine can move here and back.
//! Where the configuration lists keys, only those may be named, and a key that is configured as disabled or denied
//! fails as KMS would, so that a program's handling of it can be tested.

use super::error::{ApiError, Code};
use std::collections::BTreeMap;

/// The KMS keys that may be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// By id, ARN or alias; `None`: every key may be named.
    pub known: Option<BTreeMap<String, KeyState>>,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    Enabled,
    /// Unusable, and `kmsKeyState` says why.
    Unusable(&'static str),
    /// The caller may not use it.
    Denied,
    /// KMS throttles.
    Throttled,
}

impl KeyState {
    /// Parses the word of the configuration.
    pub fn read(word: &str) -> Option<Self> {
        Some(match word {
            "enabled" => Self::Enabled,
            "disabled" => Self::Unusable("DISABLED"),
            "pending-deletion" => Self::Unusable("PENDING_DELETION"),
            "pending-import" => Self::Unusable("PENDING_IMPORT"),
            "unavailable" => Self::Unusable("UNAVAILABLE"),
            "creating" => Self::Unusable("CREATING"),
            "denied" => Self::Denied,
            "throttled" => Self::Throttled,
            _ => return None,
        })
    }

    /// The words of the configuration.
    pub const WORDS: [&'static str; 8] = [
        "enabled",
        "disabled",
        "pending-deletion",
        "pending-import",
        "unavailable",
        "creating",
        "denied",
        "throttled",
    ];
}

impl Keys {
    /// Refuses a key that cannot be used. `None` is AWS's own key, which always works.
    pub(super) fn check(&self, key: Option<&str>) -> Result<(), ApiError> {
        let (Some(known), Some(key)) = (&self.known, key) else { return Ok(()) };
        match known.get(key).unwrap_or(&KeyState::Denied) {
            KeyState::Enabled => Ok(()),
            KeyState::Unusable(state) => Err(ApiError::new(
                Code::KmsInvalidStateException,
                format!("The KMS key {key} is in the state {state}"),
            )
            .with("kmsKeyState", *state)),
            KeyState::Denied => Err(ApiError::new(
                Code::KmsAccessDeniedException,
                format!("The KMS key {key} does not exist, or it may not be used"),
            )),
            KeyState::Throttled => Err(ApiError::new(
                Code::KmsThrottlingException,
                format!("KMS is asked too often for the key {key}"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        assert!(KeyState::WORDS.iter().all(|word| KeyState::read(word).is_some()));
        assert_eq!(KeyState::read("on"), None);
    }

    #[test]
    fn keys_are_answered_for_as_they_are_configured() {
        let known = [("a", "enabled"), ("b", "disabled"), ("c", "throttled"), ("d", "denied")];
        let known = known.map(|(key, word)| (key.to_owned(), KeyState::read(word).expect("it is a word")));
        let keys = Keys { known: Some(known.into()) };
        let code = |key: &str| keys.check(Some(key)).map_err(|error| error.code);
        assert_eq!(code("a"), Ok(()));
        assert_eq!(code("b"), Err(Code::KmsInvalidStateException));
        assert_eq!(code("c"), Err(Code::KmsThrottlingException));
        assert_eq!(code("d"), Err(Code::KmsAccessDeniedException));
        assert_eq!(code("unheard-of"), Err(Code::KmsAccessDeniedException));
        assert_eq!(keys.check(None), Ok(()));
        assert_eq!(Keys::default().check(Some("any")), Ok(()));
    }
}
