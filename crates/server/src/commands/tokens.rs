//! Tokens: made, listed, revoked. The secret stays with the command line; what comes here is its hash.

use crate::control::{Answer, NewToken};
use crate::data::Data;
use crate::who::namesake;
use crate::who::token::{Token, is_id, read};
use crate::{Refusal, names};
use perdura_engine::Timestamp;
use perdura_engine::asl::hex;
use perdura_store::{Registered, Registry};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of a SHA-256.
const HASH_BYTES: usize = 32;
/// The most tokens, revoked ones included.
const TOKENS_MAX: usize = 10_000;
/// A token that was revoked or expired so long ago makes room for a new one.
const FORGOTTEN_AFTER_MS: i64 = 30 * 86_400_000;

pub(super) fn all<D: Data>(data: &mut D) -> Result<Vec<Token>, Refusal> {
    Ok(read(data.read(|reader| reader.registered(Registry::Token, None, u32::MAX))?))
}

fn keep<D: Data>(data: &mut D, token: &Token) -> Result<(), Refusal> {
    let body = serde_json::to_vec(token).expect("a token is JSON");
    let entry = Registered {
        kind: Registry::Token,
        name: token.id.as_str().into(),
        created_at: token.created_at,
        body,
    };
    data.register(&entry)
}

/// Held while tokens are read and written: otherwise a note of a use could undo a revocation.
static CHANGING: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    CHANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn create<D: Data>(data: &mut D, new: NewToken) -> Result<Answer, Refusal> {
    let _alone = alone();
    names::check("a token", &new.name)?;
    names::check("a tenant", &new.tenant)?;
    for (whose, name) in [("a token", &new.name), ("a tenant", &new.tenant)] {
        if let Some(char) = name.chars().find(|char| !is_visible(*char)) {
            let what = format!("the name of {whose} cannot have {} in it", char.escape_unicode());
            return Err(Refusal::invalid(what).but("use letters, digits and visible signs of ASCII"));
        }
    }
    if let Some(whose) = namesake(&new.name) {
        let what = format!("{:?} is the name of {whose}, and a token would be taken for it", new.name);
        return Err(Refusal::invalid(what).but("use another name"));
    }
    if !is_id(&new.id) {
        return Err(Refusal::invalid("the id of a token has 12 hexadecimal digits, in lower case"));
    }
    if new.ends_in_ms.is_some_and(|ms| ms <= 0) {
        return Err(Refusal::invalid("a token cannot end before it begins"));
    }
    if hex::decode(&new.hash).is_none_or(|hash| hash.len() != HASH_BYTES) {
        return Err(Refusal::invalid("the hash of a token is a SHA-256 in hexadecimal"));
    }
    if let Some(prefix) = &new.machines {
        names::check("the machines of a token", prefix)?;
    }
    let now = data.moment().now;
    let tokens = all(data)?;
    // One that cannot be read is not among them.
    if data.read(|reader| reader.registered_one(Registry::Token, &new.id))?.is_some() {
        return match tokens.into_iter().find(|token| is_of(token, &new)) {
            Some(token) => Ok(Answer::Token(Box::new(token))),
            None => Err(Refusal::conflict(format!("there is another token with the id {:?}", new.id))
                .but("make the token with another id, by chance")),
        };
    }
    if tokens.iter().any(|token| token.name == new.name && token.is_live(now)) {
        return Err(Refusal::conflict(format!("there is a token {:?} already", new.name))
            .but("revoke it with `perdura token revoke`, or use another name"));
    }
    let forgotten =
        |token: &Token| token.ended_at().is_some_and(|end| end.after_ms(FORGOTTEN_AFTER_MS) <= now);
    let (gone, kept): (Vec<Token>, Vec<Token>) = tokens.into_iter().partition(forgotten);
    if kept.len() >= TOKENS_MAX {
        return Err(Refusal::conflict(format!("there are too many tokens: the most is {TOKENS_MAX}")));
    }
    let token = Token {
        id: new.id,
        principal: new.name.clone(),
        name: new.name,
        role: new.role,
        tenant: new.tenant,
        machines: new.machines,
        created_at: now,
        ends_at: new.ends_in_ms.map(|ms| now.after_ms(ms)),
        revoked_at: None,
        last_used_at: None,
        hash: new.hash,
    };
    // The new one first: between the two there is never a moment without tokens, in which nobody would be asked.
    keep(data, &token)?;
    for token in gone {
        data.unregister(Registry::Token, &token.id)?;
    }
    tracing::info!(token = token.id, name = token.name, role = token.role.name(), "created");
    Ok(Answer::Token(Box::new(token)))
}

/// Whether this request made this token; it may have been revoked since.
fn is_of(token: &Token, new: &NewToken) -> bool {
    let ends_at = new.ends_in_ms.map(|ms| token.created_at.after_ms(ms));
    token.id == new.id
        && token.hash == new.hash
        && token.name == new.name
        && token.role == new.role
        && token.tenant == new.tenant
        && token.machines == new.machines
        && token.ends_at == ends_at
}

/// A name stands in lists that people decide by, and must not look like another one, or like nothing.
fn is_visible(char: char) -> bool {
    char.is_alphanumeric() || char.is_ascii_graphic()
}

pub(super) fn list<D: Data>(data: &mut D) -> Result<Answer, Refusal> {
    Ok(Answer::Tokens(all(data)?))
}

/// A token that was revoked stays on record, so that its use is told from that of an unknown one.
pub(super) fn revoke<D: Data>(data: &mut D, id: &str) -> Result<Answer, Refusal> {
    let _alone = alone();
    let Some(mut token) = all(data)?.into_iter().find(|token| token.id == id) else {
        return Err(
            Refusal::not_found(format!("there is no token {id:?}")).but("`perdura token list` lists them")
        );
    };
    if token.revoked_at.is_none() {
        token.revoked_at = Some(data.moment().now);
        keep(data, &token)?;
        tracing::info!(token = id, name = token.name, "revoked");
    }
    Ok(Answer::Token(Box::new(token)))
}

/// Writes when tokens were used.
pub(crate) fn used<D: Data>(data: &mut D, uses: &BTreeMap<String, Timestamp>) -> Result<(), Refusal> {
    let _alone = alone();
    for mut token in all(data)? {
        let Some(at) = uses.get(&token.id) else { continue };
        token.last_used_at = Some(*at);
        keep(data, &token)?;
    }
    Ok(())
}
