//! Page tokens: where a list goes on, signed.
//!
//! A token has a place, the time and one question in it, and is signed with the installation's secret. So
//! it survives a restart, it cannot be forged, and one that was given for another list, or more than a day ago, is
//! refused.

use super::error::ApiError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use perdura_engine::Timestamp;
use sha2::Sha256;

const GOOD_FOR_MS: i64 = 24 * 60 * 60 * 1000;
/// The bytes of the signature that are in a token.
const MAC_BYTES: usize = 16;
/// The bytes of the time in it.
const AT_BYTES: usize = 8;

/// Makes and reads tokens.
#[derive(Clone)]
pub(super) struct Tokens {
    secret: [u8; 32],
}

impl Tokens {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// A token for this place in the answers to this question.
    pub(super) fn seal(&self, question: &str, place: &str, now: Timestamp) -> String {
        let mut bytes = now.0.to_be_bytes().to_vec();
        bytes.extend_from_slice(place.as_bytes());
        let mac = self.mac(question, &bytes).finalize().into_bytes();
        bytes.extend_from_slice(&mac[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place of a token.
    pub(super) fn open(&self, question: &str, token: &str, now: Timestamp) -> Result<String, ApiError> {
        self.read(question, token, now).ok_or_else(ApiError::invalid_token)
    }

    fn read(&self, question: &str, token: &str, now: Timestamp) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (signed, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        self.mac(question, signed).verify_truncated_left(mac).ok()?;
        let (at, place) = signed.split_first_chunk::<AT_BYTES>()?;
        let age_ms = now.0.saturating_sub(i64::from_be_bytes(*at));
        if age_ms > GOOD_FOR_MS {
            return None;
        }
        String::from_utf8(place.to_vec()).ok()
    }

    fn mac(&self, question: &str, signed: &[u8]) -> Hmac<Sha256> {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.secret).expect("any length is a key");
        mac.update(b"perdura page\0");
        mac.update(question.as_bytes());
        mac.update(b"\0");
        mac.update(signed);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    #[test]
    fn a_token_tells_its_place_to_the_question_it_was_made_for() {
        let tokens = Tokens::new([7; 32]);
        let token = tokens.seal("ListExecutions a", "17", NOW);
        let later = Tokens::new([7; 32]);
        assert_eq!(later.open("ListExecutions a", &token, NOW.after_ms(GOOD_FOR_MS)), Ok("17".into()));
    }

    #[test]
    fn what_is_no_token_of_this_question_and_day_is_refused() {
        let tokens = Tokens::new([7; 32]);
        let token = tokens.seal("ListExecutions a", "17", NOW);
        let refused = Err(ApiError::invalid_token());
        assert_eq!(tokens.open("ListExecutions b", &token, NOW), refused, "another list");
        assert_eq!(
            tokens.open("ListExecutions a", &token, NOW.after_ms(GOOD_FOR_MS + 1)),
            refused,
            "too old"
        );
        assert_eq!(
            Tokens::new([8; 32]).open("ListExecutions a", &token, NOW),
            refused,
            "another installation"
        );
        for end in 0..token.len() {
            assert_eq!(tokens.open("ListExecutions a", &token[..end], NOW), refused, "cut at {end}");
        }
        for foreign in ["", "x", "====", "päge", &"A".repeat(1024)] {
            assert_eq!(tokens.open("ListExecutions a", foreign, NOW), refused, "{foreign}");
        }
    }
}
