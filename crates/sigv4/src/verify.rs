//! Verifying: which access key signed a request, and whether the request is unchanged since.

use crate::canonical::{ALGORITHM, Canonical, headers};
use crate::moment::read;
use crate::sign::{hex, signature};
use crate::{Scope, Secret};
use subtle::ConstantTimeEq;

/// How far a signature's time may differ from ours, as on AWS: 15 minutes.
pub const SKEW_SECONDS: u64 = 15 * 60;

/// A request as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The verb, in upper case.
    pub method: &'a str,
    /// The path as it came over the wire, escapes included.
    pub path: &'a str,
    /// The text after the question mark, as it came over the wire.
    pub query: &'a str,
    /// All headers, names in lower case; a header that came twice is here twice.
    pub headers: &'a [(&'a str, &'a str)],
    /// The SHA-256 of the body as it arrived; see [`crate::sha256`].
    pub body_sha256: &'a [u8; 32],
}

/// The signer of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The public half of the credentials.
    pub access_key_id: String,
}

/// Why a request is refused. The messages go to unauthenticated clients: they contain nothing of a secret and nothing
/// of the correct signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has no signature.
    #[error("Missing Authentication Token")]
    Missing,
    /// A part of the signature is missing, or cannot be parsed.
    #[error("Authorization header requires {0}")]
    Incomplete(&'static str),
    /// The access key is unknown.
    #[error("The security token included in the request is invalid.")]
    UnknownKey,
    /// Its signature is too old, or from the future.
    #[error("Signature {}: {signed} is not within {skew_seconds} seconds of {now}", if *.is_old { "expired" } else { "not yet current" })]
    Skewed {
        /// The time of the signature, as in the request.
        signed: String,
        /// The time of this machine.
        now: String,
        /// The largest difference allowed.
        skew_seconds: u64,
        /// Whether it is too old; otherwise it is from the future.
        is_old: bool,
    },
    /// It was signed for another region or service, or for another day.
    #[error("Credential should be scoped to {0}")]
    WrongScope(String),
    /// The body does not match the hash in the headers.
    #[error("The provided 'x-amz-content-sha256' header does not match what was computed.")]
    BodyMismatch,
    /// A header that could change what the request means is not signed.
    #[error("'{0}' must be a 'SignedHeader' in the AWS Authorization.")]
    Unsigned(String),
    /// The request was changed after signing, or was signed with another secret.
    #[error(
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access \
         Key and signing method. Consult the service documentation for details."
    )]
    Mismatch,
}

impl Refusal {
    /// The code that AWS's services use for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "MissingAuthenticationTokenException",
            Self::Incomplete(_) => "IncompleteSignatureException",
            Self::UnknownKey => "UnrecognizedClientException",
            Self::Skewed { .. }
            | Self::WrongScope(_)
            | Self::BodyMismatch
            | Self::Unsigned(_)
            | Self::Mismatch => "InvalidSignatureException",
        }
    }
}

/// The content of `Authorization`.
struct Claim<'a> {
    access_key_id: &'a str,
    day: &'a str,
    scope: Scope<'a>,
    signed_headers: Vec<&'a str>,
    signature: &'a str,
}

/// The signer of this request, if the request is unchanged since it was signed, for this scope, at about this time.
/// `find_secret` gives the secret of an access key; `skew_seconds` is usually [`SKEW_SECONDS`].
pub fn verify(
    request: &Presented<'_>,
    scope: Scope<'_>,
    now: u64,
    skew_seconds: u64,
    find_secret: impl Fn(&str) -> Option<Secret>,
) -> Result<Principal, Refusal> {
    let (claim, moment, secret) = claimed(request.headers, scope, now, skew_seconds, find_secret)?;
    let body_sha256 = hex(request.body_sha256);
    let told = header(request.headers, "x-amz-content-sha256");
    if told.is_some_and(|told| !same(told.as_bytes(), body_sha256.as_bytes())) {
        return Err(Refusal::BodyMismatch);
    }
    let is_signed = |(name, _): &(&str, &str)| claim.signed_headers.contains(name);
    let headers = headers(request.headers.iter().copied().filter(is_signed));
    let canonical = Canonical {
        method: request.method,
        path: request.path,
        query: request.query,
        headers: &headers,
        body_sha256: &body_sha256,
        service: scope.service,
    };
    let expected = hex(&signature(&canonical, &secret, scope, moment));
    if same(expected.as_bytes(), claim.signature.as_bytes()) {
        Ok(Principal { access_key_id: claim.access_key_id.to_owned() })
    } else {
        Err(Refusal::Mismatch)
    }
}

/// Refuses early, before the body has arrived, a request without one of our access keys. This proves nothing yet;
/// [`verify`] does.
pub fn admit(
    headers: &[(&str, &str)],
    scope: Scope<'_>,
    now: u64,
    skew_seconds: u64,
    find_secret: impl Fn(&str) -> Option<Secret>,
) -> Result<(), Refusal> {
    claimed(headers, scope, now, skew_seconds, find_secret).map(|_| ())
}

/// The claim in the headers, if they say that the request is signed, and the secret that should have signed it.
fn claimed<'a>(
    headers: &[(&'a str, &'a str)],
    scope: Scope<'_>,
    now: u64,
    skew_seconds: u64,
    find_secret: impl Fn(&str) -> Option<Secret>,
) -> Result<(Claim<'a>, &'a str, Secret), Refusal> {
    let claim = Claim::read(header(headers, "authorization").ok_or(Refusal::Missing)?)?;
    let moment = header(headers, "x-amz-date")
        .or_else(|| header(headers, "date"))
        .ok_or(Refusal::Incomplete("existence of either a 'X-Amz-Date' or a 'Date' header"))?;
    let signed_at =
        read(moment).ok_or(Refusal::Incomplete("a date in the form 20260304T050607Z ('X-Amz-Date')"))?;
    let secret = find_secret(claim.access_key_id).ok_or(Refusal::UnknownKey)?;
    claim.check_scope(scope, moment)?;
    if signed_at.abs_diff(now) > skew_seconds {
        let now_written = crate::moment::written(now);
        let is_old = signed_at < now;
        return Err(Refusal::Skewed { signed: moment.to_owned(), now: now_written, skew_seconds, is_old });
    }
    check_signed(headers, &claim.signed_headers)?;
    Ok((claim, moment, secret))
}

/// The first header with this name.
fn header<'a>(headers: &[(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
}

/// Compares in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// `host` and all of Amazon's own headers can change the meaning of a request, and must not be added on the way.
fn check_signed(headers: &[(&str, &str)], signed: &[&str]) -> Result<(), Refusal> {
    let must_be = |name: &str| name == "host" || name.starts_with("x-amz-");
    let unsigned = headers.iter().map(|(name, _)| *name).find(|name| must_be(name) && !signed.contains(name));
    if let Some(name) = unsigned {
        return Err(Refusal::Unsigned(name.to_owned()));
    }
    if !signed.contains(&"host") {
        return Err(Refusal::Unsigned("host".to_owned()));
    }
    // A signed name without a header would sign its absence; nobody does that on purpose.
    let absent = signed.iter().any(|name| headers.iter().all(|(given, _)| given != name));
    if absent { Err(Refusal::Mismatch) } else { Ok(()) }
}

impl<'a> Claim<'a> {
    fn read(authorization: &'a str) -> Result<Self, Refusal> {
        let parts = authorization
            .trim()
            .strip_prefix(ALGORITHM)
            .filter(|rest| rest.starts_with(' '))
            .ok_or(Refusal::Missing)?;
        let part = |name: &str, what: &'static str| {
            parts
                .split(',')
                .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
                .filter(|value| !value.is_empty())
                .ok_or(Refusal::Incomplete(what))
        };
        let credential = part("Credential", "'Credential' parameter.")?;
        let signed_headers = part("SignedHeaders", "'SignedHeaders' parameter.")?;
        let signature = part("Signature", "'Signature' parameter.")?;
        // An access key may contain slashes; the parts after it may not.
        let mut scope = credential.rsplitn(5, '/');
        let mut next = || scope.next().filter(|part| !part.is_empty());
        let (Some("aws4_request"), Some(service), Some(region), Some(day), Some(access_key_id)) =
            (next(), next(), next(), next(), next())
        else {
            return Err(Refusal::Incomplete("'Credential' as KEY/DATE/REGION/SERVICE/aws4_request."));
        };
        Ok(Self {
            access_key_id,
            day,
            scope: Scope { region, service },
            signed_headers: signed_headers.split(';').collect(),
            signature,
        })
    }

    fn check_scope(&self, expected: Scope<'_>, moment: &str) -> Result<(), Refusal> {
        let wrong = |what: String| Err(Refusal::WrongScope(what));
        if self.scope.region != expected.region {
            return wrong(format!("the region '{}', not '{}'.", expected.region, self.scope.region));
        }
        if self.scope.service != expected.service {
            return wrong(format!("correct service: '{}'.", expected.service));
        }
        if Some(self.day) != moment.get(..8) {
            return wrong(format!("the day of its date, not '{}'.", self.day));
        }
        Ok(())
    }
}
