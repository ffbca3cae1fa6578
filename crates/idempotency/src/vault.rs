//! Hashes and encryption: keyed hashes in place of keys and fingerprints, encrypted bytes in place of answers.
//!
//! One secret keys the hashes, by realm; without it neither a key can be found in an operation's id nor a guessed body
//! in a request's tag. Each use of the secret has a label of its own, and all parts are length-prefixed, so that no two
//! uses and no two splits of the same bytes give one hash.
//!
//! Answers are encrypted with AES-256-GCM when data keys are configured. The key of a record is derived from its
//! tenant's data key, its operation and its epoch, so one key encrypts one answer. Scope, request and grant are bound
//! to it, so a row that is copied to another record does not decrypt. Without data keys the answer stays readable, and
//! is bound in the same way by a keyed hash. Such an answer still opens after encryption was switched on: nobody
//! without the secret can forge one.

mod keys;

use crate::fingerprint::Fingerprint;
use crate::record::{Epoch, OperationId, RequestTag, ScopeTag};
use crate::scope::Scope;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use bytes::Bytes;
use hmac::{Hmac, Mac};
use http::Method;
pub use keys::{DataKey, DataKeys, DerivedKeys, KeyId, Secret, SecretTooShort};
use sha2::Sha256;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use uuid::Uuid;

const PLAIN: u8 = 0;
const SEALED: u8 = 1;

/// The milliseconds at the beginning of a UUID of version 7.
const MINTED_BYTES: usize = 6;
const BINDING_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const KEY_ID_BYTES: usize = 8;

/// Why an answer could not be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The tenant has no data key: it was erased. Store only that there was an answer; see `Vault::bind`.
    #[error("the tenant has no data key, so its answer cannot be kept")]
    NoKey,
    /// The program's [`DataKeys`] panicked.
    #[error("what brings the data keys panicked, so the answer cannot be kept")]
    Panicked,
    /// The system gave no random bytes.
    #[error("no random bytes for a nonce")]
    Random(#[source] getrandom::Error),
}

/// Why an encrypted answer could not be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
    /// Its data key is missing: no keys are configured, the key was retired, or the tenant was erased.
    #[error("the data key of the stored answer is not there: it was retired, erased or is not configured")]
    NoKey,
    /// The program's [`DataKeys`] panicked. The answer still exists.
    #[error("what brings the data keys panicked, so the stored answer cannot be opened now")]
    Panicked,
    /// It was not encrypted by us for this record, or was damaged.
    #[error("the stored answer is damaged or belongs to another record")]
    Damaged,
}

/// The identity of an answer. It decrypts with the same identity only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealing<'a> {
    /// The tenant of the data key.
    pub(crate) tenant: &'a str,
    pub(crate) scope: ScopeTag,
    pub(crate) operation: OperationId,
    pub(crate) request: RequestTag,
    /// The grant that made it.
    pub(crate) epoch: Epoch,
}

impl Sealing<'_> {
    /// Length-prefixed, so that no other identity has the same bytes.
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.tenant.len() + 16 + 16 + 32 + 8);
        out.extend((self.tenant.len() as u64).to_be_bytes());
        out.extend(self.tenant.as_bytes());
        out.extend(self.scope.0);
        out.extend(self.operation.as_bytes());
        out.extend(self.request.0);
        out.extend(self.epoch.0.to_be_bytes());
        out
    }

    /// The cipher of this record alone.
    fn cipher(&self, key: &DataKey) -> Aes256Gcm {
        let epoch = self.epoch.0.to_be_bytes();
        let record_key =
            DataKey::new(keyed(key.as_bytes(), "record key", &[self.operation.as_bytes(), &epoch]));
        Aes256Gcm::new(record_key.as_bytes().into())
    }
}

/// The secret and the data keys of a layer, and their use.
pub(crate) struct Vault {
    /// Keyed with the secret of the realm, to be cloned.
    mac: Hmac<Sha256>,
    /// Equal for equal secrets, in every realm.
    check: [u8; 16],
    keys: Option<Arc<dyn DataKeys>>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("is_encrypting", &self.keys.is_some()).finish_non_exhaustive()
    }
}

impl Vault {
    /// Each realm has a secret of its own, derived from the shared one: hashes of one realm mean nothing in another.
    /// Without a realm it is the shared secret itself.
    pub(crate) fn new(secret: &Secret, realm: &str, keys: Option<Arc<dyn DataKeys>>) -> Self {
        let shared = mac(secret.as_bytes());
        let check = half(finish(shared.clone(), "check", &[]));
        let mac = match realm {
            "" => shared,
            realm => mac(&finish(shared, "realm", &[realm.as_bytes()])),
        };
        Self { mac, check, keys }
    }

    /// The operation of this key, for this caller on this route.
    ///
    /// A key of version 7 contributes its time, which is no secret: operations claimed at the same time are then close
    /// together in a store's index, and a claim costs no more because more is stored. Of the rest, 74 bits are hash.
    pub(crate) fn operation(&self, scope: &Scope, method: &Method, template: &str, key: Uuid) -> OperationId {
        let parts: [&[u8]; 5] = [
            scope.tenant.as_bytes(),
            scope.principal.as_bytes(),
            method.as_str().as_bytes(),
            template.as_bytes(),
            key.as_bytes(),
        ];
        let mut id = half(self.keyed("operation", &parts));
        if key.get_version_num() == 7 {
            id[..MINTED_BYTES].copy_from_slice(&key.as_bytes()[..MINTED_BYTES]);
        }
        OperationId::from_hash(id)
    }

    /// The caller's tag, which hides its identity.
    pub(crate) fn scope(&self, scope: &Scope) -> ScopeTag {
        ScopeTag(half(self.keyed("scope", &[scope.tenant.as_bytes(), scope.principal.as_bytes()])))
    }

    /// The request's tag, which hides its content. The same request has another tag in another operation.
    pub(crate) fn request(&self, operation: OperationId, fingerprint: &Fingerprint) -> RequestTag {
        RequestTag(self.keyed("request", &[operation.as_bytes(), fingerprint.as_bytes()]))
    }

    /// Equal for equal secrets, and reveals nothing else.
    pub(crate) fn check(&self) -> [u8; 16] {
        self.check
    }

    /// Prepares an answer for storing: encrypted if there are data keys.
    pub(crate) fn seal(&self, sealing: &Sealing<'_>, answer: &[u8]) -> Result<Bytes, SealError> {
        let Some(keys) = &self.keys else { return Ok(self.bind(sealing, answer)) };
        let newest = unless_panicking(|| keys.newest(sealing.tenant)).ok_or(SealError::Panicked)?;
        let (id, key) = newest.ok_or(SealError::NoKey)?;
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(SealError::Random)?;
        let mut out = Vec::with_capacity(1 + KEY_ID_BYTES + NONCE_BYTES + answer.len() + 16);
        out.push(SEALED);
        out.extend(id.0);
        out.extend(nonce);
        let content_at = out.len();
        out.extend(answer);
        let tag = sealing
            .cipher(&key)
            .encrypt_inout_detached(
                &Nonce::from(nonce),
                &associated(id, sealing),
                (&mut out[content_at..]).into(),
            )
            .expect("an answer is far below the 64 GiB that the cipher takes");
        out.extend(tag);
        Ok(out.into())
    }

    /// Readable in the store, but bound to its identity. Also used for an erased tenant, if the answer has none of its
    /// data: only that there was one, and its status.
    pub(crate) fn bind(&self, sealing: &Sealing<'_>, answer: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(1 + BINDING_BYTES + answer.len());
        out.push(PLAIN);
        out.extend(self.binding(sealing, answer));
        out.extend(answer);
        out.into()
    }

    /// The answer that was stored with exactly this identity.
    pub(crate) fn open(&self, sealing: &Sealing<'_>, stored: &Bytes) -> Result<Bytes, OpenError> {
        match stored.first() {
            Some(&PLAIN) => self.open_plain(sealing, stored),
            Some(&SEALED) => self.open_sealed(sealing, &stored[1..]),
            Some(_) | None => Err(OpenError::Damaged),
        }
    }

    fn open_plain(&self, sealing: &Sealing<'_>, stored: &Bytes) -> Result<Bytes, OpenError> {
        let (binding, answer) = stored[1..].split_first_chunk::<BINDING_BYTES>().ok_or(OpenError::Damaged)?;
        if bool::from(self.binding(sealing, answer).ct_eq(binding)) {
            Ok(stored.slice(1 + BINDING_BYTES..))
        } else {
            Err(OpenError::Damaged)
        }
    }

    fn open_sealed(&self, sealing: &Sealing<'_>, stored: &[u8]) -> Result<Bytes, OpenError> {
        let (id, rest) = stored.split_first_chunk::<KEY_ID_BYTES>().ok_or(OpenError::Damaged)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(OpenError::Damaged)?;
        let (content, tag) = rest.split_last_chunk::<16>().ok_or(OpenError::Damaged)?;
        let id = KeyId(*id);
        let keys = self.keys.as_ref().ok_or(OpenError::NoKey)?;
        let known = unless_panicking(|| keys.by_id(sealing.tenant, id)).ok_or(OpenError::Panicked)?;
        let key = known.ok_or(OpenError::NoKey)?;
        let mut answer = content.to_vec();
        sealing
            .cipher(&key)
            .decrypt_inout_detached(
                &Nonce::from(*nonce),
                &associated(id, sealing),
                answer.as_mut_slice().into(),
                &(*tag).into(),
            )
            .map_err(|_| OpenError::Damaged)?;
        Ok(answer.into())
    }

    fn binding(&self, sealing: &Sealing<'_>, answer: &[u8]) -> [u8; BINDING_BYTES] {
        half(self.keyed("plain answer", &[&sealing.bytes(), answer]))
    }

    fn keyed(&self, label: &str, parts: &[&[u8]]) -> [u8; 32] {
        finish(self.mac.clone(), label, parts)
    }
}

/// The result of the program's own code, or `None` if it panicked, which does not affect the operation.
fn unless_panicking<T>(ask: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(ask)).ok()
}

/// The cipher's associated data.
fn associated(id: KeyId, sealing: &Sealing<'_>) -> Vec<u8> {
    let mut out = sealing.bytes();
    out.push(SEALED);
    out.extend(id.0);
    out
}

/// HMAC-SHA256 over label and parts, each with its length before it, so that bytes cannot move between them.
fn keyed(key: &[u8], label: &str, parts: &[&[u8]]) -> [u8; 32] {
    finish(mac(key), label, parts)
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn finish(mut mac: Hmac<Sha256>, label: &str, parts: &[&[u8]]) -> [u8; 32] {
    for part in std::iter::once(&label.as_bytes()).chain(parts) {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn half(hash: [u8; 32]) -> [u8; 16] {
    *hash.first_chunk().expect("16 of 32 bytes")
}

#[cfg(test)]
mod tests;
