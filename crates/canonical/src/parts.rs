//! A hash over parts, each with its length before it, so that "ab" and "c" are not "a" and "bc".

use sha2::{Digest, Sha256};

/// SHA-256 over parts. A length is eight bytes, the highest first.
pub struct Parts(Sha256);

impl Parts {
    /// Begins with a version: it changes whenever the same parts would mean something else than before.
    pub fn new(version: &[u8]) -> Self {
        let mut parts = Self(Sha256::new());
        parts.add(version);
        parts
    }

    /// A number that says how many parts follow.
    pub fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    /// One part.
    pub fn add(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.update(part);
    }

    /// Nothing and the empty part are two.
    pub fn add_option(&mut self, part: Option<&[u8]>) {
        match part {
            Some(part) => {
                self.count(1);
                self.add(part);
            }
            None => self.count(0),
        }
    }

    /// The hash of all of them.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
