//! Secrets, and the data keys of tenants. `Debug` shows none of them, and all are wiped when dropped.

use super::keyed;
use std::fmt;
use zeroize::Zeroizing;

/// Bytes that only the instances of one service know; at least 32 of them, drawn at random.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// The secret is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret needs at least {} random bytes, and these are {given}", Secret::BYTES_MIN)]
pub struct SecretTooShort {
    /// Its length.
    pub given: usize,
}

impl Secret {
    /// The least number of bytes.
    const BYTES_MIN: usize = 32;

    /// Takes the bytes, which are wiped when the secret is dropped, even if they are too few.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, SecretTooShort> {
        let bytes = Zeroizing::new(bytes.into());
        if bytes.len() < Self::BYTES_MIN {
            return Err(SecretTooShort { given: bytes.len() });
        }
        Ok(Self(bytes))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The name of a data key, stored in plain text beside the encrypted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 8]);

/// A key that encrypts the answers of one tenant.
#[derive(Clone)]
pub struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    /// From 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(..)")
    }
}

/// The data keys of tenants. It is called for each stored or replayed answer, on the thread that serves the request:
/// keep the keys in memory.
pub trait DataKeys: Send + Sync {
    /// The key that encrypts this tenant's answers from now on. `None`: the tenant was erased, and none of its answers
    /// are stored.
    fn newest(&self, tenant: &str) -> Option<(KeyId, DataKey)>;

    /// The key with this name. `None`: it was retired, or the tenant was erased; answers encrypted with it cannot be
    /// decrypted any more.
    fn by_id(&self, tenant: &str, id: KeyId) -> Option<DataKey>;
}

/// Data keys derived from master keys, one for each tenant. To rotate, put a new master key in front and drop the
/// oldest once no answer encrypted with it is kept any more.
///
/// A tenant's key can be derived again as long as the master key exists, so this cannot erase a tenant. To erase
/// tenants, store a random key for each, behind a [`DataKeys`] of your own.
#[derive(Clone)]
pub struct DerivedKeys {
    newest: (KeyId, Secret),
    older: Vec<(KeyId, Secret)>,
}

impl DerivedKeys {
    /// With one master key.
    pub fn new(master: Secret) -> Self {
        Self { newest: (id_of(&master), master), older: Vec::new() }
    }

    /// Also decrypts with this key, but never encrypts with it.
    pub fn and_older(mut self, master: Secret) -> Self {
        self.older.push((id_of(&master), master));
        self
    }
}

impl DataKeys for DerivedKeys {
    fn newest(&self, tenant: &str) -> Option<(KeyId, DataKey)> {
        let (id, master) = &self.newest;
        Some((*id, tenant_key(master, tenant)))
    }

    fn by_id(&self, tenant: &str, id: KeyId) -> Option<DataKey> {
        std::iter::once(&self.newest)
            .chain(&self.older)
            .find(|(known, _)| *known == id)
            .map(|(_, master)| tenant_key(master, tenant))
    }
}

impl fmt::Debug for DerivedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let older: Vec<_> = self.older.iter().map(|(id, _)| id).collect();
        f.debug_struct("DerivedKeys").field("newest", &self.newest.0).field("older", &older).finish()
    }
}

fn id_of(master: &Secret) -> KeyId {
    let hash = keyed(master.as_bytes(), "key id", &[]);
    KeyId(*hash.first_chunk().expect("8 of 32 bytes"))
}

fn tenant_key(master: &Secret, tenant: &str) -> DataKey {
    DataKey::new(keyed(master.as_bytes(), "data key", &[tenant.as_bytes()]))
}
