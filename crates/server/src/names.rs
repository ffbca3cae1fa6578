//! Which names machines, executions, activities and connections may have.

use crate::Refusal;
use perdura_engine::{NAME_MAX, is_allowed_in_name};
use std::sync::Arc;
use uuid::Uuid;

/// Refuses names that Step Functions refuses, and those that clients leave out of a path as steps of it.
pub fn check(whose: &str, name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.chars().count() > NAME_MAX {
        return Err(Refusal::invalid(format!("the name of {whose} has 1 to {NAME_MAX} characters")));
    }
    if matches!(name, "." | "..") {
        return Err(Refusal::invalid(format!("the name of {whose} cannot be {name:?}")));
    }
    match name.chars().find(|char| !is_allowed_in_name(*char)) {
        Some(char) => Err(Refusal::invalid(format!("the name of {whose} cannot have {char:?} in it"))),
        None => Ok(()),
    }
}

/// The longest key of a client.
const KEY_BYTES_MAX: usize = 255;

/// The key that a client has for its request, bare or in the quotes of a structured-field String, as in the header
/// `Idempotency-Key`. A UUID is one key however it is written.
pub fn root_key(text: &str) -> Result<Arc<str>, Refusal> {
    let wrong = |what: &str| {
        Refusal::invalid(format!("the idempotency key {what}"))
            .but(format!("send 1 to {KEY_BYTES_MAX} characters of ASCII, bare or in quotes"))
    };
    let text = text.trim();
    let bare = match text.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').ok_or_else(|| wrong("has quotes that do not match"))?,
        None => text,
    };
    if bare.is_empty() || bare.len() > KEY_BYTES_MAX {
        return Err(wrong("is empty or too long"));
    }
    if !bare.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        return Err(wrong("has a character that it cannot have"));
    }
    let uuid = Uuid::parse_str(bare).ok().filter(|_| bare.len() == 36);
    Ok(uuid.map_or_else(|| bare.into(), |uuid| uuid.to_string().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_key_is_one_however_it_is_written() {
        let uuid = "0F0E0D0C-0b0a-4908-8706-050403020100";
        for (text, key) in [
            ("order-17", "order-17"),
            (" \"order 17\" ", "order 17"),
            (uuid, "0f0e0d0c-0b0a-4908-8706-050403020100"),
            (&format!("\"{uuid}\""), "0f0e0d0c-0b0a-4908-8706-050403020100"),
        ] {
            assert_eq!(root_key(text).ok().as_deref(), Some(key), "{text}");
        }
        for bad in ["", "\"\"", "\"a", "a\"b", "a\\b", "é", "a\u{7}", &"k".repeat(256)] {
            assert!(root_key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_those_that_aws_takes_and_a_path_can_have() {
        for good in ["a", "order-17_b.c", "...", "é", &"x".repeat(80)] {
            assert!(check("an execution", good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "a:b", "a*", "a\u{7}", &"x".repeat(81)] {
            assert!(check("an execution", bad).is_err(), "{bad}");
        }
    }
}
