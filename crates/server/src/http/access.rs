//! Who may use the API: access keys with their secrets, and the signatures made with them.
//!
//! The head is checked before the body is read: it names the access key. Where it also has the body's hash,
//! the whole signature is checked then.

use crate::sfn::{ApiError, Code};
use crate::who::{Caller, Role};
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use perdura_engine::asl::hex;
use perdura_sigv4::{Presented, Refusal, SKEW_SECONDS, Scope, Secret, admit, sha256, verify};
use std::collections::BTreeMap;

/// Access keys by their ids.
#[derive(Clone, Debug, Default)]
pub struct AccessKeys(pub BTreeMap<String, AccessKey>);

#[derive(Clone, Debug)]
pub struct AccessKey {
    pub secret: Secret,
    /// What whoever signs with it may do.
    pub role: Role,
}

/// What a request must be signed with.
#[derive(Debug)]
pub struct Keyring {
    /// `None`: this machine is trusted, and signatures are ignored.
    pub keys: AccessKeys,
    /// The region of signatures.
    pub region: String,
}

/// The service name in signatures.
const SERVICE: &str = "states";

/// The parts of a request that its signature covers.
pub(super) struct Shown<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) body_sha256: [u8; 32],
    /// Seconds since 1970.
    pub(super) now: u64,
}

impl Keyring {
    /// Whether a signature is required.
    pub fn asks(&self) -> bool {
        !self.keys.0.is_empty()
    }

    /// Checks the head before the body is read: refuses unknown access keys and, where the head has the
    /// body's hash, wrong signatures.
    pub(super) fn admit(&self, shown: &Shown) -> Result<(), ApiError> {
        if !self.asks() {
            return Ok(());
        }
        let find = |id: &str| self.secret(id);
        admit(&texts(shown.headers)?, self.scope(), shown.now, SKEW_SECONDS, find)
            .map_err(|refusal| refused(&refusal))?;
        match told_hash(shown.headers) {
            Some(body_sha256) => self.check(&Shown { body_sha256, ..*shown }).map(drop),
            None => Ok(()),
        }
    }

    /// Refuses a request that is not signed with one of the keys, and tells whose key that is.
    pub(super) fn check(&self, shown: &Shown) -> Result<Caller, ApiError> {
        if !self.asks() {
            return Ok(Caller::owner());
        }
        let presented = Presented {
            method: shown.method,
            path: shown.path,
            query: shown.query,
            headers: &texts(shown.headers)?,
            body_sha256: &shown.body_sha256,
        };
        let find = |id: &str| self.secret(id);
        match verify(&presented, self.scope(), shown.now, SKEW_SECONDS, find) {
            Ok(principal) => {
                let role = self.keys.0.get(&principal.access_key_id).map_or(Role::Read, |key| key.role);
                Ok(Caller { principal: principal.access_key_id, role, ..Caller::owner() })
            }
            Err(refusal) => Err(refused(&refusal)),
        }
    }

    /// Whether the request has an access key and its secret as Basic credentials, as collectors of metrics send them.
    pub(super) fn has_password(&self, headers: &HeaderMap) -> bool {
        let pair = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let pair = pair.and_then(|value| STANDARD.decode(value.strip_prefix("Basic ")?.trim()).ok());
        let Some((id, password)) = pair.as_deref().and_then(|pair| {
            let at = pair.iter().position(|byte| *byte == b':')?;
            Some((std::str::from_utf8(&pair[..at]).ok()?, &pair[at + 1..]))
        }) else {
            return false;
        };
        // Comparing hashes leaks nothing about the secret.
        self.secret(id).is_some_and(|secret| sha256(secret.reveal().as_bytes()) == sha256(password))
    }

    fn secret(&self, id: &str) -> Option<Secret> {
        self.keys.0.get(id).map(|key| key.secret.clone())
    }

    fn scope(&self) -> Scope<'_> {
        Scope { region: &self.region, service: SERVICE }
    }
}

/// The body's hash in the head.
fn told_hash(headers: &HeaderMap) -> Option<[u8; 32]> {
    let told = headers.get("x-amz-content-sha256")?.to_str().ok()?;
    hex::decode(told)?.try_into().ok()
}

fn texts(headers: &HeaderMap) -> Result<Vec<(&str, &str)>, ApiError> {
    let mut texts = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let Ok(value) = value.to_str() else {
            let what = format!("the header {name} cannot be read");
            return Err(ApiError::new(Code::InvalidSignatureException, what));
        };
        texts.push((name.as_str(), value));
    }
    Ok(texts)
}

fn refused(refusal: &Refusal) -> ApiError {
    let code = match refusal {
        Refusal::Missing => Code::MissingAuthenticationTokenException,
        Refusal::Incomplete(_) => Code::IncompleteSignatureException,
        Refusal::UnknownKey => Code::UnrecognizedClientException,
        Refusal::Skewed { .. }
        | Refusal::WrongScope(_)
        | Refusal::BodyMismatch
        | Refusal::Unsigned(_)
        | Refusal::Mismatch => Code::InvalidSignatureException,
    };
    ApiError::new(code, refusal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_key_and_its_secret_are_a_name_and_a_password() {
        let keys = AccessKeys(
            [("AKIA".to_owned(), AccessKey { secret: Secret::new("a:b"), role: Role::Read })].into(),
        );
        let ring = Keyring { keys, region: "us-east-1".into() };
        for (given, is_right) in
            [("AKIA:a:b", true), ("AKIA:a", false), ("AKIB:a:b", false), ("AKIA", false), ("", false)]
        {
            let value = format!("Basic {}", STANDARD.encode(given));
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&value).expect("a header"));
            assert_eq!(ring.has_password(&headers), is_right, "{given}");
        }
        assert!(!ring.has_password(&HeaderMap::new()));
    }
}
