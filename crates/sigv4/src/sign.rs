//! Signing: the headers to add to a request.

use crate::canonical::{ALGORITHM, Canonical, headers};
use crate::moment::written;
use crate::{Credentials, Scope, Secret};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use zeroize::Zeroizing;

/// A request to sign.
#[derive(Clone, Copy, Debug)]
pub struct Signable<'a> {
    /// The verb, in upper case.
    pub method: &'a str,
    /// The path as it goes over the wire, escapes included.
    pub path: &'a str,
    /// The text after the question mark, as it goes over the wire.
    pub query: &'a str,
    /// The headers to sign: `host`, and others that nobody on the way may change.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// The headers to add to a request, `authorization` among them, with their names in lower case. `at` is the time, in
/// seconds since 1970. S3 also requires the hash of the body in a header.
pub fn sign(
    request: &Signable<'_>,
    credentials: &Credentials,
    scope: Scope<'_>,
    at: u64,
) -> Vec<(&'static str, String)> {
    let body_sha256 = hex(&sha256(request.body));
    let moment = written(at);
    let mut added = vec![("x-amz-date", moment.clone())];
    if scope.service == "s3" {
        added.push(("x-amz-content-sha256", body_sha256.clone()));
    }
    if let Some(token) = &credentials.session_token {
        added.push(("x-amz-security-token", token.reveal().to_owned()));
    }
    let all =
        request.headers.iter().copied().chain(added.iter().map(|(name, value)| (*name, value.as_str())));
    let headers = headers(all);
    let canonical = Canonical {
        method: request.method,
        path: request.path,
        query: request.query,
        headers: &headers,
        body_sha256: &body_sha256,
        service: scope.service,
    };
    let signature = hex(&signature(&canonical, &credentials.secret_access_key, scope, &moment));
    let authorization = format!(
        "{ALGORITHM} Credential={}/{}, SignedHeaders={}, Signature={signature}",
        credentials.access_key_id,
        scope.written(&moment),
        canonical.signed_headers()
    );
    added.push(("authorization", authorization));
    added
}

/// The SHA-256 of a body.
pub fn sha256(body: &[u8]) -> [u8; 32] {
    Sha256::digest(body).into()
}

impl Scope<'_> {
    fn written(&self, moment: &str) -> String {
        format!("{}/{}/{}/aws4_request", &moment[..8], self.region, self.service)
    }
}

/// The signature of a request at this moment.
pub(crate) fn signature(
    canonical: &Canonical<'_>,
    secret: &Secret,
    scope: Scope<'_>,
    moment: &str,
) -> [u8; 32] {
    let text = format!("{ALGORITHM}\n{moment}\n{}\n{}", scope.written(moment), canonical.sha256());
    let first = Zeroizing::new(format!("AWS4{}", secret.reveal()));
    let mut key = Zeroizing::new(hmac(first.as_bytes(), &moment[..8]));
    for part in [scope.region, scope.service, "aws4_request"] {
        key = Zeroizing::new(hmac(key.as_ref(), part));
    }
    hmac(key.as_ref(), &text)
}

fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of HMAC has any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}
