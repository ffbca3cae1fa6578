//! AWS Signature Version 4, both sides: signing a request, and verifying one that was signed.
//!
//! Stands alone: it knows no HTTP library, reads no clock and opens nothing. A request is given as its parts, the time
//! as seconds since 1970, and secrets by whoever keeps them. Signatures in the query (presigned addresses) and bodies
//! that are signed in chunks are not spoken here.

mod canonical;
mod moment;
mod secret;
mod sign;
mod verify;

pub use canonical::escaped;
pub use secret::{Credentials, Secret};
pub use sign::{Signable, sha256, sign};
pub use verify::{Presented, Principal, Refusal, SKEW_SECONDS, admit, verify};

/// Where a signature counts: it is worth nothing in another region or at another service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// The region, such as `us-east-1`.
    pub region: &'a str,
    /// The name that a service signs under, such as `states` or `s3`.
    pub service: &'a str,
}
