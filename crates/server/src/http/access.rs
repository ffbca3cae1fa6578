//! Who may use the API: access keys and their secrets, and the signature that shows that somebody has one.

use crate::sfn::{ApiError, Code};
use axum::http::HeaderMap;
use perdura_sigv4::{Presented, Refusal, SKEW_SECONDS, Scope, Secret, admit, sha256, verify};
use std::collections::BTreeMap;

/// Access keys with their secrets.
#[derive(Clone, Debug, Default)]
pub struct AccessKeys(pub BTreeMap<String, Secret>);

/// What a request must show.
#[derive(Debug)]
pub struct Keyring {
    /// None at all: this machine is trusted, and signatures are not looked at.
    pub keys: AccessKeys,
    /// The region that signatures are made for.
    pub region: String,
}

/// The name that clients of Step Functions sign for.
const SERVICE: &str = "states";

/// A request, as far as its signature goes.
pub(super) struct Shown<'a> {
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    /// Seconds since 1970.
    pub(super) now: u64,
}

impl Keyring {
    /// Whether anybody is asked.
    pub fn asks(&self) -> bool {
        !self.keys.0.is_empty()
    }

    /// Refuses who names none of the keys, before anything large is taken from them.
    pub(super) fn admit(&self, headers: &HeaderMap, now: u64) -> Result<(), ApiError> {
        if !self.asks() {
            return Ok(());
        }
        let find = |id: &str| self.keys.0.get(id).cloned();
        admit(&texts(headers)?, self.scope(), now, SKEW_SECONDS, find).map_err(|refusal| refused(&refusal))
    }

    /// Refuses what is not signed by one of the keys.
    pub(super) fn check(&self, shown: &Shown) -> Result<(), ApiError> {
        if !self.asks() {
            return Ok(());
        }
        let body_sha256 = sha256(shown.body);
        let presented = Presented {
            method: "POST",
            path: shown.path,
            query: shown.query,
            headers: &texts(shown.headers)?,
            body_sha256: &body_sha256,
        };
        let find = |id: &str| self.keys.0.get(id).cloned();
        match verify(&presented, self.scope(), shown.now, SKEW_SECONDS, find) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(refused(&refusal)),
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope { region: &self.region, service: SERVICE }
    }
}

/// Headers as text.
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
