//! Bearer tokens: their text, their record, and whether one counts.
//!
//! The text is `pdr_`, the id, 256 bits of chance and a checksum, all in lower-case hexadecimal: 88 characters. The checksum
//! tells a typo from a wrong token, and lets scanners of source code recognise one for sure. On record is the SHA-256 of the
//! secret; the secret is random, so nothing slower is needed. A caller outside is told nothing but 401; the reason is for
//! the log.

use super::{Caller, Role};
use axum::http::{HeaderMap, header};
use perdura_engine::Timestamp;
use perdura_engine::asl::hex;
use perdura_sigv4::{Secret, sha256};
use perdura_store::Registered;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// What every token begins with.
pub const PREFIX: &str = "pdr_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;
/// The last use is kept to the minute, so that requests cost no write each.
const USED_AGAIN_MS: u64 = 60_000;
/// The length of a token.
const TEXT_LENGTH: usize = PREFIX.len() + 2 * (ID_BYTES + SECRET_BYTES + CHECKSUM_BYTES);

/// A token on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Token {
    pub id: String,
    /// For people.
    pub name: String,
    pub role: Role,
    pub tenant: String,
    pub principal: String,
    /// Only machines whose names begin so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<String>,
    #[serde(with = "crate::control::iso")]
    pub created_at: Timestamp,
    #[serde(default, with = "crate::control::iso::maybe", skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    #[serde(default, with = "crate::control::iso::maybe", skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// About when it was used last.
    #[serde(default, with = "crate::control::iso::maybe", skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// The SHA-256 of the secret, in hexadecimal.
    pub hash: String,
}

/// A token that was made just now: the id, the hash for the record, and the text for its holder.
pub struct Made {
    pub id: String,
    pub hash: String,
    pub text: Secret,
}

/// Makes a token of chance.
pub fn make(id: [u8; ID_BYTES], secret: &[u8; SECRET_BYTES]) -> Made {
    let id = hex::encode(&id);
    let body = format!("{PREFIX}{id}{}", hex::encode(secret));
    let text = Secret::new(format!("{body}{}", checksum(&body)));
    Made { id, hash: hex::encode(&sha256(secret)), text }
}

/// Whether a text is an id as [`make`] makes them.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 2 * ID_BYTES && text.bytes().all(is_digit)
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn checksum(body: &str) -> String {
    hex::encode(&sha256(body.as_bytes())[..CHECKSUM_BYTES])
}

/// Why a request counts as nobody's. Outside, each is the same 401.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("there is no Authorization header")]
    Missing,
    #[error("there is more than one Authorization header")]
    Several,
    #[error("the Authorization header is not of the form `Bearer TOKEN`")]
    Malformed,
    #[error("the token does not fit its checksum: it was cut off or mistyped")]
    Misspelt,
    /// Of another installation, or removed long ago.
    #[error("there is no token {0} here")]
    Unknown(String),
    #[error("the secret is not that of token {0}")]
    Foreign(String),
    #[error("token {0} was revoked")]
    Revoked(String),
    #[error("token {0} has expired")]
    Expired(String),
}

/// The token that a request shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    id: String,
    hash: [u8; 32],
}

impl Shown {
    fn of(headers: &HeaderMap) -> Result<Self, Denied> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let value = values.next().ok_or(Denied::Missing)?;
        if values.next().is_some() {
            return Err(Denied::Several);
        }
        let value = value.to_str().map_err(|_| Denied::Malformed)?;
        let (scheme, text) = value.split_once(' ').ok_or(Denied::Malformed)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Denied::Malformed);
        }
        Self::read(text)
    }

    fn read(text: &str) -> Result<Self, Denied> {
        let rest = text.strip_prefix(PREFIX).filter(|rest| rest.bytes().all(is_digit));
        let rest = rest.ok_or(Denied::Malformed)?;
        if text.len() != TEXT_LENGTH {
            return Err(Denied::Misspelt);
        }
        let (body, sum) = text.split_at(TEXT_LENGTH - 2 * CHECKSUM_BYTES);
        if checksum(body) != sum {
            return Err(Denied::Misspelt);
        }
        let (id, secret) = rest.split_at(2 * ID_BYTES);
        let secret = hex::decode(&secret[..2 * SECRET_BYTES]).ok_or(Denied::Malformed)?;
        Ok(Self { id: id.to_owned(), hash: sha256(&secret) })
    }
}

/// Whether two hashes are the same, in the same time wherever they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

impl Token {
    /// When it stopped to count, or will.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.revoked_at.into_iter().chain(self.ends_at).min()
    }

    /// Whether it counts at this time.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.check(now).is_ok()
    }

    fn check(&self, now: Timestamp) -> Result<(), Denied> {
        if self.revoked_at.is_some() {
            return Err(Denied::Revoked(self.id.clone()));
        }
        if self.ends_at.is_some_and(|end| now >= end) {
            return Err(Denied::Expired(self.id.clone()));
        }
        Ok(())
    }

    fn caller(&self) -> Caller {
        Caller {
            tenant: self.tenant.clone(),
            principal: self.principal.clone(),
            role: self.role,
            machines: self.machines.clone(),
        }
    }
}

/// Reads tokens from the store. One that cannot be read counts for nobody, and is told.
pub fn read(kept: Vec<Registered>) -> Vec<Token> {
    let token = |entry: Registered| match serde_json::from_slice(&entry.body) {
        Ok(token) => Some(token),
        Err(error) => {
            tracing::error!(token = %entry.name, %error, "a token cannot be read and does not count");
            None
        }
    };
    kept.into_iter().filter_map(token).collect()
}

/// All tokens on record, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(BTreeMap<String, Token>);

impl FromIterator<Token> for Tokens {
    fn from_iter<I: IntoIterator<Item = Token>>(tokens: I) -> Self {
        Self(tokens.into_iter().map(|token| (token.id.clone(), token)).collect())
    }
}

impl Tokens {
    /// Whether there is none, not even one that was revoked or has expired: the end of the last token opens no door.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether somebody could come in with a token.
    pub fn has_live(&self, now: Timestamp) -> bool {
        self.0.values().any(|token| token.is_live(now))
    }
}

/// The tokens that a running server goes by: those of the store, read again after each change.
#[derive(Debug, Default)]
pub struct Known {
    tokens: RwLock<Arc<Tokens>>,
    replaced: Notify,
    uses: Mutex<Uses>,
    used: Notify,
}

/// When tokens were used, as far as that is told.
#[derive(Debug, Default)]
struct Uses {
    /// The last use that was told, by id.
    told: BTreeMap<String, Timestamp>,
    /// Those to be written.
    due: BTreeMap<String, Timestamp>,
}

impl Known {
    pub fn replace(&self, kept: Vec<Registered>) {
        let tokens = Arc::new(read(kept).into_iter().collect());
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens;
        self.replaced.notify_waiters();
    }

    pub fn get(&self) -> Arc<Tokens> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Decides who sends a request with these headers, and notes that its token was used.
    pub fn admit(&self, headers: &HeaderMap, now: Timestamp) -> Result<Caller, Denied> {
        let tokens = self.get();
        let token = find(headers, &tokens, now)?;
        self.note(token, now);
        Ok(token.caller())
    }

    /// Waits until what these headers show does not count any more. Without tokens nobody needs one.
    pub(crate) async fn ended(&self, headers: &HeaderMap, now: impl Fn() -> Timestamp) -> Denied {
        loop {
            let (replaced, tokens, now) = (self.replaced.notified(), self.get(), now());
            let ends_at = match find(headers, &tokens, now) {
                _ if tokens.is_empty() => None,
                Ok(token) => token.ends_at,
                Err(denied) => return denied,
            };
            let ends = async {
                match ends_at {
                    Some(at) => sleep(Duration::from_millis(at.0.abs_diff(now.0))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = replaced => {}
                () = ends => {}
            }
        }
    }

    /// A use within a minute after another is not written.
    fn note(&self, token: &Token, now: Timestamp) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let last = uses.told.get(&token.id).copied().max(token.last_used_at);
        // A clock that was set back tells as well.
        if last.is_some_and(|last| now.0.abs_diff(last.0) < USED_AGAIN_MS) {
            return;
        }
        uses.told.insert(token.id.clone(), now);
        uses.due.insert(token.id.clone(), now);
        self.used.notify_one();
    }

    /// Waits for uses that are to be written.
    pub(super) async fn uses(&self) -> BTreeMap<String, Timestamp> {
        loop {
            let used = self.used.notified();
            let due = std::mem::take(&mut self.uses.lock().unwrap_or_else(PoisonError::into_inner).due);
            if !due.is_empty() {
                return due;
            }
            used.await;
        }
    }
}

/// Decides who sends a request with these headers. The secret is compared before anything is told of the token, so that
/// an id alone brings no reason into the log but [`Denied::Foreign`].
fn find<'t>(headers: &HeaderMap, tokens: &'t Tokens, now: Timestamp) -> Result<&'t Token, Denied> {
    let shown = Shown::of(headers)?;
    let token = tokens.0.get(&shown.id).ok_or_else(|| Denied::Unknown(shown.id.clone()))?;
    let hash = hex::decode(&token.hash).unwrap_or_default();
    if !same(&hash, &shown.hash) {
        return Err(Denied::Foreign(shown.id));
    }
    token.check(now)?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn token(made: &Made) -> Token {
        Token {
            id: made.id.clone(),
            name: "ci".into(),
            role: Role::Run,
            tenant: "default".into(),
            principal: "ci".into(),
            machines: Some("pay-".into()),
            created_at: Timestamp(0),
            ends_at: None,
            revoked_at: None,
            last_used_at: None,
            hash: made.hash.clone(),
        }
    }

    fn headers(values: &[&str]) -> HeaderMap {
        let value = |value: &&str| (header::AUTHORIZATION, HeaderValue::from_str(value).expect("a header"));
        let mut headers = HeaderMap::new();
        for (name, value) in values.iter().map(value) {
            headers.append(name, value);
        }
        headers
    }

    fn ask(tokens: &Tokens, values: &[&str]) -> Result<Caller, Denied> {
        find(&headers(values), tokens, NOW).map(Token::caller)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_with_a_token_hears_when_it_ends() {
        let began = tokio::time::Instant::now();
        let now = || NOW.after_ms(i64::try_from(began.elapsed().as_millis()).expect("a short time"));
        let made = make([1; 6], &[7; 32]);
        let keep = |ends_at| {
            let token = Token { ends_at, ..token(&made) };
            let body = serde_json::to_vec(&token).expect("a token is JSON");
            let (kind, name) = (perdura_store::Registry::Token, token.id.into());
            vec![Registered { kind, name, created_at: token.created_at, body }]
        };
        let headers = headers(&[&format!("Bearer {}", made.text.reveal())]);
        let known = Known::default();
        let hour = Duration::from_hours(1);
        assert!(tokio::time::timeout(hour, known.ended(&headers, now)).await.is_err(), "nobody needs one");
        known.replace(keep(Some(now().after_ms(5_000))));
        let from = tokio::time::Instant::now();
        assert_eq!(known.ended(&headers, now).await, Denied::Expired(made.id.clone()));
        assert_eq!(from.elapsed().as_secs(), 5);
        known.replace(keep(None));
        let mut ended = std::pin::pin!(known.ended(&headers, now));
        assert!(tokio::time::timeout(hour, ended.as_mut()).await.is_err(), "it has no end");
        known.replace(Vec::new());
        assert!(tokio::time::timeout(hour, ended.as_mut()).await.is_err(), "nobody needs one again");
        known.replace(keep(Some(now())));
        assert_eq!(ended.await, Denied::Expired(made.id.clone()));
    }

    #[test]
    fn a_token_makes_its_holder_who_the_record_says() {
        let made = make([1; 6], &[7; 32]);
        let tokens: Tokens = [token(&made)].into_iter().collect();
        let text = made.text.reveal();
        assert_eq!((text.len(), &text[..16]), (TEXT_LENGTH, "pdr_010101010101"));
        let caller = ask(&tokens, &[&format!("Bearer {text}")]).expect("it counts");
        assert_eq!((&*caller.tenant, &*caller.principal, caller.role), ("default", "ci", Role::Run));
        assert_eq!(caller.machines.as_deref(), Some("pay-"));
        assert!(ask(&tokens, &[&format!("bearer {text}")]).is_ok(), "schemes have no case");
        assert!(!format!("{tokens:?}").contains(&text[16..40]), "the record has no secret");
    }

    #[test]
    fn whatever_is_wrong_has_its_reason() {
        let (made, other) = (make([1; 6], &[7; 32]), make([1; 6], &[8; 32]));
        let (unknown, revoked, expired) =
            (make([2; 6], &[7; 32]), make([3; 6], &[7; 32]), make([4; 6], &[7; 32]));
        let tokens: Tokens = [
            token(&made),
            Token { revoked_at: Some(Timestamp(5)), ..token(&revoked) },
            Token { ends_at: Some(NOW), ..token(&expired) },
        ]
        .into_iter()
        .collect();
        let bearer = |made: &Made| format!("Bearer {}", made.text.reveal());
        let good = bearer(&made);
        let cut = &good[..good.len() - 1];
        let typed = good.replacen("0707", "0708", 1);
        let long = format!("{good}{}", "0".repeat(60_000));
        for (values, expected) in [
            (vec![], Denied::Missing),
            (vec![&*good, &*good], Denied::Several),
            (vec!["Basic YTpi", &*good], Denied::Several),
            (vec!["Basic YTpi"], Denied::Malformed),
            (vec!["Bearer"], Denied::Malformed),
            (vec!["Bearer "], Denied::Malformed),
            (vec!["Bearer pdr_XY"], Denied::Malformed),
            (vec![&*good.to_uppercase()], Denied::Malformed),
            (vec![&*format!("{good} x")], Denied::Malformed),
            (vec![&*good.replace("Bearer ", "Bearer  ")], Denied::Malformed),
            (vec![cut], Denied::Misspelt),
            (vec![&*typed], Denied::Misspelt),
            (vec![&*long], Denied::Misspelt),
            (vec![&*bearer(&unknown)], Denied::Unknown(unknown.id.clone())),
            (vec![&*bearer(&other)], Denied::Foreign(made.id.clone())),
            (vec![&*bearer(&revoked)], Denied::Revoked(revoked.id.clone())),
            (vec![&*bearer(&expired)], Denied::Expired(expired.id.clone())),
        ] {
            assert_eq!(ask(&tokens, &values), Err(expected), "{values:?}");
        }
    }

    #[test]
    fn a_token_counts_until_its_end() {
        let made = make([1; 6], &[7; 32]);
        let ends = Token { ends_at: Some(Timestamp(NOW.0 + 1)), ..token(&made) };
        assert!(ends.is_live(NOW) && !ends.is_live(Timestamp(NOW.0 + 1)));
        let dead: Tokens = [Token { revoked_at: Some(NOW), ..ends }].into_iter().collect();
        assert!(!dead.has_live(NOW) && !dead.is_empty(), "the end of the last token opens no door");
    }

    #[test]
    fn the_record_is_read_as_it_is_written() {
        let made = make([1; 6], &[7; 32]);
        let token = Token { ends_at: Some(NOW), machines: None, ..token(&made) };
        let text = serde_json::to_string(&token).expect("it is JSON");
        assert_eq!(serde_json::from_str::<Token>(&text).expect("it is a token"), token);
    }
}
