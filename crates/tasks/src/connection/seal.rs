//! Stored connections: encrypted, and bound to their name.
//!
//! AES-256-GCM under one key of the installation, with a random nonce for each encryption. The name is authenticated
//! along with the content, so that encrypted bytes that were moved to another name cannot be decrypted there. The first
//! byte is the version of the format.

use super::Connection;
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use perdura_engine::asl::hex;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const VERSION: u8 = 1;
const NONCE_BYTES: usize = 12;
const KEY_BYTES: usize = 32;

/// The key that encrypts connections.
#[derive(Clone)]
pub struct SealingKey(Zeroizing<[u8; KEY_BYTES]>);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SealingKey(…)")
    }
}

/// Why there is no sealing key.
#[derive(Debug, thiserror::Error)]
pub enum SealingKeyError {
    /// Neither base64 nor hex of 32 bytes. The error does not show the text: it may be nearly right.
    #[error("the sealing key is not 32 bytes in base64 or hex; make one with `openssl rand -base64 32`")]
    Malformed,
    /// The file cannot be read.
    #[error(
        "the sealing key in {0} cannot be read: {source}; make one with `openssl rand -base64 32 > {0}`",
        path.display()
    )]
    Unreadable {
        /// The key file.
        path: PathBuf,
        source: std::io::Error,
    },
}

impl SealingKey {
    /// Parses 32 bytes in base64 or hex; surrounding space is ignored.
    pub fn from_text(text: &str) -> Result<Self, SealingKeyError> {
        let text = text.trim();
        let bytes = Zeroizing::new(if text.len() == 2 * KEY_BYTES {
            hex::decode(text).ok_or(SealingKeyError::Malformed)?
        } else {
            STANDARD.decode(text).map_err(|_| SealingKeyError::Malformed)?
        });
        bytes
            .as_slice()
            .try_into()
            .map(|key| Self(Zeroizing::new(key)))
            .map_err(|_| SealingKeyError::Malformed)
    }

    pub fn from_file(path: &Path) -> Result<Self, SealingKeyError> {
        let unreadable = |source| SealingKeyError::Unreadable { path: path.into(), source };
        Self::from_text(&Zeroizing::new(std::fs::read_to_string(path).map_err(unreadable)?))
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(&(*self.0).into())
    }
}

/// Why stored bytes cannot be decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another key, another name, or changed bytes: the cipher cannot tell which.
    #[error(
        "connection `{name}` does not open: it was sealed under another key or was changed; give the key it was \
         sealed with, or put it again with `perdura connection put {name} --file connection.json`"
    )]
    NotOurs { name: Box<str> },
    /// Written by a later version.
    #[error("connection `{name}` has format {version}, which this version does not read; update perdura")]
    Unknown { name: Box<str>, version: u8 },
    /// The decrypted bytes are not a connection.
    #[error(
        "connection `{name}` holds no valid connection; put it again with `perdura connection put {name} --file \
         connection.json`"
    )]
    Invalid { name: Box<str> },
}

/// Encrypts a connection under its name.
///
/// # Panics
/// If the system has no random numbers: nothing can be encrypted safely then.
pub fn seal(key: &SealingKey, name: &str, connection: &Connection) -> Vec<u8> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).expect("the system has random numbers to give");
    let content = connection.revealed();
    let message = Payload { msg: &content, aad: &bound_to(name) };
    let sealed = key.cipher().encrypt(&nonce.into(), message);
    let sealed = sealed.expect("a connection is far smaller than what the cipher takes");
    [&[VERSION][..], &nonce, &sealed].concat()
}

/// Decrypts the bytes that were encrypted under this name.
pub fn open(key: &SealingKey, name: &str, sealed: &[u8]) -> Result<Connection, OpenError> {
    let not_ours = || OpenError::NotOurs { name: name.into() };
    let (&version, rest) = sealed.split_first().ok_or_else(not_ours)?;
    if version != VERSION {
        return Err(OpenError::Unknown { name: name.into(), version });
    }
    let (nonce, content) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(not_ours)?;
    let message = Payload { msg: content, aad: &bound_to(name) };
    let content = Zeroizing::new(key.cipher().decrypt(&(*nonce).into(), message).map_err(|_| not_ours())?);
    let invalid = || OpenError::Invalid { name: name.into() };
    let text = std::str::from_utf8(&content).map_err(|_| invalid())?;
    Connection::from_kept(text).map_err(|_| invalid())
}

fn bound_to(name: &str) -> Vec<u8> {
    [b"perdura connection ", &[VERSION][..], name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn connection() -> Connection {
        let text =
            r#"{"basic": {"user": "anna", "password": "marker-secret"}, "headers": {"x-tenant": "42"}}"#;
        Connection::from_kept(text).expect("valid")
    }

    #[test]
    fn a_key_is_read_in_either_form_and_a_mistake_says_how_to_make_one() {
        let (hex, base64) = (SealingKey::from_text(HEX), SealingKey::from_text(&format!(" {BASE64}\n")));
        assert_eq!(hex.expect("hex").0, base64.expect("base64").0);
        for wrong in ["", "short", &HEX[1..], &BASE64[1..], &format!("{HEX}00"), &HEX.replace('0', "x")] {
            let error = SealingKey::from_text(wrong).expect_err(wrong).to_string();
            assert!(error.contains("openssl rand -base64 32"), "{error}");
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
        let missing = SealingKey::from_file(Path::new("/no/such/key")).expect_err("missing").to_string();
        assert!(missing.contains("/no/such/key") && missing.contains("openssl"), "{missing}");
    }

    #[test]
    fn what_is_sealed_opens_under_its_name_and_key_only() {
        let key = SealingKey::from_text(HEX).expect("valid");
        let sealed = seal(&key, "Stripe", &connection());
        assert_eq!(open(&key, "Stripe", &sealed), Ok(connection()));
        assert!(!sealed.windows(6).any(|window| window == b"marker"));
        assert_ne!(sealed, seal(&key, "Stripe", &connection()), "each sealing draws its nonce");

        let not_ours = |name: &str| Err(OpenError::NotOurs { name: name.into() });
        assert_eq!(open(&key, "Other", &sealed), not_ours("Other"));
        let other = SealingKey::from_text(&HEX.replace("1f", "1e")).expect("valid");
        assert_eq!(open(&other, "Stripe", &sealed), not_ours("Stripe"));
        for at in 1..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(&key, "Stripe", &changed), not_ours("Stripe"), "byte {at}");
        }
        for length in 0..sealed.len() {
            assert!(open(&key, "Stripe", &sealed[..length]).is_err(), "{length} bytes");
        }
        let mut later = sealed;
        later[0] = 2;
        assert_eq!(
            open(&key, "Stripe", &later),
            Err(OpenError::Unknown { name: "Stripe".into(), version: 2 })
        );
    }
}
