//! AWS Signature Version 4, both sides: signing a request, and verifying one that was signed.
//!
//! Stands alone: it knows no HTTP library, reads no clock and opens nothing. The caller gives a request as its parts,
//! the time as seconds since 1970, and the secrets. Signatures in the query (presigned addresses) and bodies that are
//! signed in chunks are not supported.

mod canonical;
mod moment;
mod secret;
mod sign;
mod verify;

pub use canonical::escaped;
pub use secret::{Credentials, Secret};
pub use sign::{Signable, sha256, sign};
pub use verify::{Presented, Principal, Refusal, SKEW_SECONDS, admit, verify};

/// The region and service of a signature: it is invalid in another region or at another service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// The region, such as `us-east-1`.
    pub region: &'a str,
    /// The name that a service signs under, such as `states` or `s3`.
    pub service: &'a str,
}
