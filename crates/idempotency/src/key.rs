//! The `Idempotency-Key` of a request: one UUID in canonical form.
//!
//! The IETF draft makes the field a structured-field String, so its value is in quotes; most clients send it bare. Both
//! are accepted and mean the same key, in upper or lower case. Everything else that a lenient parser would take
//! (braces, `urn:uuid:`, 32 digits without hyphens) is refused, because a proxy or a handler behind us might not read
//! it as the same key. So are parameters after the String: the draft's grammar has none, and an unknown one might
//! change the meaning of the key.
//!
//! For clients of services that accepted any text, that can be allowed too. Such a key counts as it is written, and
//! becomes the name-based UUID of its text.

use http::HeaderMap;
use jiff::Timestamp;
use std::fmt;
use uuid::{Uuid, Variant};

/// The name of the header field.
pub(crate) const FIELD: &str = "idempotency-key";

/// Length of a hyphenated UUID.
const UUID_BYTES: usize = 36;
/// The longest key of another form, as it was sent.
const OPAQUE_BYTES_MAX: usize = 255;
/// The namespace of keys that are not UUIDs.
const OPAQUE: Uuid = Uuid::from_u128(0x8c1d_31c5_94b0_4c5e_9a0d_5b0f_6f3e_2a17);

/// The accepted forms of keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forms {
    pub(crate) versions: Versions,
    /// Whether any text is a key.
    pub(crate) opaque: bool,
}

/// The accepted versions of UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions(u16);

impl Default for Versions {
    /// 4 and 7, which are random, and 5, in which [`IdempotencyContext::derive`] passes a key on to the next service.
    /// Versions 1, 2 and 6 can be guessed; 3 is 5 with a weaker hash, and the meaning of 8 is private.
    ///
    /// [`IdempotencyContext::derive`]: crate::IdempotencyContext::derive
    fn default() -> Self {
        Self((1 << 4) | (1 << 5) | (1 << 7))
    }
}

impl Versions {
    /// These, and one more. Panics unless it is one of the versions 1 to 8 that RFC 9562 defines.
    pub const fn and(self, version: u8) -> Self {
        assert!(1 <= version && version <= 8, "RFC 9562 defines the versions 1 to 8");
        Self(self.0 | (1 << version))
    }

    /// Whether keys of this version are accepted.
    const fn allow(self, version: u8) -> bool {
        1 <= version && version <= 8 && self.0 & (1 << version) != 0
    }

    /// The versions, in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        (1..=8).filter(move |version| self.allow(*version))
    }
}

/// Why there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyFault {
    /// The header is missing.
    #[error("there is no Idempotency-Key")]
    Missing,
    /// The header is not one UUID of an accepted version. The text never quotes the header.
    #[error("the Idempotency-Key is malformed: {0}")]
    Malformed(&'static str),
}

/// The key of one request. A caller with the key may get the answer, so it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct IdempotencyKey(Uuid);

impl IdempotencyKey {
    /// Parses the key of a request.
    pub(crate) fn from_headers(headers: &HeaderMap, forms: Forms) -> Result<Self, KeyFault> {
        let mut lines = headers.get_all(FIELD).iter();
        let received = lines.next().ok_or(KeyFault::Missing)?;
        if lines.next().is_some() {
            return Err(KeyFault::Malformed("the header is there more than once"));
        }
        let received = received.as_bytes();
        let key = if forms.opaque { opaque(received) } else { uuid(received, forms.versions) };
        key.map(Self).map_err(KeyFault::Malformed)
    }

    /// The key. Two spellings of one UUID are one key.
    pub(crate) fn canonical(&self) -> Uuid {
        self.0
    }

    /// The time in a key of version 7. A time past the year 9999 counts as none.
    pub(crate) fn minted_at(&self) -> Option<Timestamp> {
        (self.0.get_version_num() == 7)
            .then(|| (self.0.as_u128() >> 80) as i64)
            .and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok())
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey(..)")
    }
}

/// The key in a field value, of any form: bare, or as a structured-field String (RFC 9651).
fn opaque(value: &[u8]) -> Result<Uuid, &'static str> {
    let value = trim_spaces(value);
    if value.len() > OPAQUE_BYTES_MAX {
        return Err("it is longer than 255 bytes");
    }
    let text = match value {
        [b'"', quoted @ ..] => unquoted(quoted)?,
        bare if bare.contains(&b',') => return Err("it is a list; send one key, in quotes if it has commas"),
        bare if bare.contains(&b'"') => return Err("its quotes do not match"),
        bare if bare.iter().all(u8::is_ascii_graphic) => bare.to_vec(),
        _ => return Err("it holds spaces without quotes, or characters beyond ASCII"),
    };
    if text.is_empty() {
        return Err("it is empty");
    }
    if !is_hyphenated(&text) {
        return Ok(Uuid::new_v5(&OPAQUE, &text));
    }
    let uuid = Uuid::try_parse_ascii(&text).map_err(|_| "it is not a hyphenated UUID")?;
    if uuid.is_nil() || uuid.is_max() { Err("the Nil and the Max UUID are no keys") } else { Ok(uuid) }
}

/// The content of a structured-field String, after its first quote.
fn unquoted(quoted: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut text = Vec::with_capacity(quoted.len());
    let mut left = quoted.iter();
    loop {
        match left.next() {
            None => return Err("its quotes do not match"),
            Some(b'"') if left.len() == 0 => return Ok(text),
            Some(b'"') => return Err("something follows its quotes; send the key alone"),
            Some(b'\\') => match left.next() {
                Some(escaped @ (b'"' | b'\\')) => text.push(*escaped),
                Some(_) | None => return Err("its quotes hold a backslash before something else"),
            },
            Some(byte @ b' '..=b'~') => text.push(*byte),
            Some(_) => return Err("it holds characters beyond ASCII"),
        }
    }
}

/// The UUID in a field value, bare or as a structured-field String.
fn uuid(value: &[u8], versions: Versions) -> Result<Uuid, &'static str> {
    let value = trim_spaces(value);
    if value.is_empty() {
        return Err("it is empty");
    }
    if !value.is_ascii() {
        return Err("it holds characters beyond ASCII");
    }
    let bare = match value {
        [b'"', inner @ .., b'"'] => inner,
        [b'"', ..] if value.contains(&b',') => return Err("it is a list; send one key"),
        [b'"', ..] if value.contains(&b';') => return Err("it has parameters; send the key alone"),
        [b'"', ..] => return Err("its quotes do not match"),
        bare => bare,
    };
    if bare.contains(&b',') {
        return Err("it is a list; send one key");
    }
    if bare.len() > UUID_BYTES {
        return Err("it is longer than a hyphenated UUID");
    }
    if !is_hyphenated(bare) {
        return Err("it is not a hyphenated UUID");
    }
    let uuid = Uuid::try_parse_ascii(bare).map_err(|_| "it is not a hyphenated UUID")?;
    if uuid.is_nil() || uuid.is_max() {
        return Err("the Nil and the Max UUID are no keys");
    }
    if uuid.get_variant() != Variant::RFC4122 {
        return Err("its variant is not that of RFC 9562");
    }
    if !versions.allow(uuid.get_version_num() as u8) {
        return Err("its UUID version is not accepted here");
    }
    Ok(uuid)
}

/// Trims the spaces that may surround a structured field.
fn trim_spaces(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// 8-4-4-4-12 hexadecimal digits.
fn is_hyphenated(text: &[u8]) -> bool {
    text.len() == UUID_BYTES
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const V4: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    const V7: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

    fn read(lines: &[&[u8]]) -> Result<IdempotencyKey, KeyFault> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FIELD, HeaderValue::from_bytes(line).expect("a field value"));
        }
        IdempotencyKey::from_headers(&headers, Forms::default())
    }

    fn malformed(lines: &[&[u8]]) -> &'static str {
        match read(lines) {
            Err(KeyFault::Malformed(why)) => why,
            other => panic!("{lines:?} gave {other:?}"),
        }
    }

    #[test]
    fn bare_and_quoted_in_either_case_are_one_key() {
        for sent in [
            V4.to_owned(),
            format!("\"{V4}\""),
            V4.to_uppercase(),
            format!("\"{}\"", V4.to_uppercase()),
            format!("  \"{V4}\" "),
        ] {
            let key = read(&[sent.as_bytes()]).unwrap_or_else(|fault| panic!("{sent}: {fault}"));
            assert_eq!(key.canonical().to_string(), V4, "{sent}");
        }
    }

    #[test]
    fn everything_else_is_malformed_and_says_why() {
        let quoted = format!("\"{V4}\"");
        let table: &[(&str, &str)] = &[
            ("", "empty"),
            ("   ", "empty"),
            ("\"\"", "not a hyphenated"),
            ("\"", "quotes"),
            (&quoted[..37], "quotes"),
            (&quoted[1..], "longer"),
            (&format!("'{V4}'"), "longer"),
            (&format!("{quoted};a=1"), "parameters"),
            (&format!("{V4};a=1"), "longer"),
            (&format!("{V4}, {V4}"), "list"),
            (&format!("{quoted}, {quoted}"), "list"),
            (&format!("{V4},"), "list"),
            (&format!("\" {V4}\""), "longer"),
            (&format!("{{{V4}}}"), "longer"),
            (&format!("urn:uuid:{V4}"), "longer"),
            (&V4.replace('-', ""), "not a hyphenated"),
            (&V4[..35], "not a hyphenated"),
            ("8e03978e-40d5-43e8-bc93-6894a57f932g", "not a hyphenated"),
            ("8e03978e040d5-43e8-bc93-6894a57f9324", "not a hyphenated"),
            ("order-17", "not a hyphenated"),
            (&"a".repeat(300), "longer"),
            ("8e03978e-40d5-43e8-bc93-6894a57f93é", "ASCII"),
            ("00000000-0000-0000-0000-000000000000", "Nil"),
            ("ffffffff-ffff-ffff-ffff-ffffffffffff", "Max"),
            ("8e03978e-40d5-43e8-7c93-6894a57f9324", "variant"),
            ("8e03978e-40d5-43e8-cc93-6894a57f9324", "variant"),
            ("8e03978e-40d5-43e8-ec93-6894a57f9324", "variant"),
            ("c232ab00-9414-11ec-b3c8-9f6bdeced846", "version"),
            ("5df41881-3aed-3515-88a7-2f4a814cf09e", "version"),
            ("1ec9414c-232a-6b00-b3c8-9f6bdeced846", "version"),
            ("2489e9ad-2ee2-8e00-8ec9-32d5f69181c0", "version"),
            ("8e03978e-40d5-03e8-bc93-6894a57f9324", "version"),
            ("8e03978e-40d5-f3e8-bc93-6894a57f9324", "version"),
        ];
        for (sent, why) in table {
            let said = malformed(&[sent.as_bytes()]);
            assert!(said.contains(why), "{sent}: {said}");
        }
    }

    #[test]
    fn exactly_one_line_is_a_key() {
        assert_eq!(read(&[]), Err(KeyFault::Missing));
        assert!(malformed(&[V4.as_bytes(), V4.as_bytes()]).contains("more than once"));
        assert!(malformed(&[b"", V4.as_bytes()]).contains("more than once"));
        assert!(malformed(&[b"\xff"]).contains("ASCII"));
    }

    #[test]
    fn versions_are_a_choice() {
        let mut headers = HeaderMap::new();
        headers.insert(FIELD, HeaderValue::from_static("1ec9414c-232a-6b00-b3c8-9f6bdeced846"));
        assert!(IdempotencyKey::from_headers(&headers, Forms::default()).is_err());
        let with_six = Forms { versions: Versions::default().and(6), opaque: false };
        assert!(IdempotencyKey::from_headers(&headers, with_six).is_ok());
        assert_eq!(Versions::default().iter().collect::<Vec<_>>(), [4, 5, 7]);
        assert_eq!(Versions::default().and(1).and(8).iter().collect::<Vec<_>>(), [1, 4, 5, 7, 8]);
        assert!((0..=255).filter(|version| Versions(u16::MAX).allow(*version)).eq(1..=8));
    }

    #[test]
    #[should_panic(expected = "1 to 8")]
    fn a_version_that_does_not_exist_is_refused_at_start() {
        let _never = Versions::default().and(9);
    }

    /// Pinned: another UUID would be another key, and records under the first would not be found.
    #[test]
    fn a_key_of_another_form_is_the_uuid_of_its_text() {
        let key = |sent: &str| opaque(sent.as_bytes()).map(|key| key.to_string());
        assert_eq!(key("order-17"), Ok("7a487089-2fb9-59e1-b17f-ddff92094a3c".to_owned()));
        assert_eq!(key("\"order-17\""), key("order-17"));
        assert_eq!(key(r#""a\"b\\c""#), Ok(Uuid::new_v5(&OPAQUE, br#"a"b\c"#).to_string()));
        assert_ne!(key("Order-17"), key("order-17"));
        assert_eq!(key(&V4.to_uppercase()), Ok(V4.to_owned()));
        assert_eq!(
            key("8e03978e-40d5-43e8-7c93-6894a57f9324"),
            Ok("8e03978e-40d5-43e8-7c93-6894a57f9324".to_owned())
        );
        for (sent, why) in [
            ("", "empty"),
            ("\"\"", "empty"),
            ("a b", "spaces"),
            ("é", "beyond"),
            ("\"é\"", "beyond"),
            ("a, b", "list"),
            ("a\"", "quotes"),
            ("\"a", "quotes"),
            ("\"a\";b=1", "follows"),
            ("\"a\\n\"", "backslash"),
            ("\"a\\", "backslash"),
            ("ffffffff-ffff-ffff-ffff-ffffffffffff", "Max"),
            (&"k".repeat(256), "255"),
        ] {
            assert!(key(sent).is_err_and(|said| said.contains(why)), "{sent}: {:?}", key(sent));
        }
    }

    #[test]
    fn only_version_7_says_when_it_was_made() {
        let at = read(&[V7.as_bytes()]).expect("a key").minted_at();
        assert_eq!(at, Some("2022-02-22T19:22:22Z".parse().expect("a time")));
        assert_eq!(read(&[V4.as_bytes()]).expect("a key").minted_at(), None);
        let far = read(&[b"ffffffff-ffff-7cc3-98c4-dc0c0c07398f"]).expect("a key");
        assert_eq!(far.minted_at(), None);
    }

    #[test]
    fn debug_shows_no_key() {
        let shown = format!("{:?}", read(&[V4.as_bytes()]));
        assert!(!shown.contains("8e03") && shown.contains("IdempotencyKey"), "{shown}");
    }
}
