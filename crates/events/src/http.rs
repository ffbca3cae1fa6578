//! CloudEvents in HTTP headers: one header for each attribute, `ce-` before its name, its value percent-encoded.

use crate::decode::DecodeError;
use crate::event::Event;
use std::fmt::Write;

/// The headers of a message, as far as they matter.
pub(crate) struct Headers<'a> {
    pub(crate) content_type: Option<&'a str>,
    /// Names without `ce-`, in lower case, and values as they were sent.
    attributes: Vec<(String, &'a [u8])>,
    pub(crate) attribute_bytes: usize,
}

impl<'a> Headers<'a> {
    pub(crate) fn read(headers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<Self, DecodeError> {
        let mut read = Self { content_type: None, attributes: Vec::new(), attribute_bytes: 0 };
        for (name, value) in headers {
            if name.eq_ignore_ascii_case(b"content-type") {
                let value = std::str::from_utf8(value.trim_ascii())
                    .map_err(|_| DecodeError::malformed("the Content-Type is not text"))?;
                if read.content_type.replace(value).is_some() {
                    return Err(DecodeError::malformed("there are two Content-Type headers"));
                }
            } else if name.get(..3).is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"ce-")) {
                read.attribute_bytes = read.attribute_bytes.saturating_add(name.len() + value.len());
                let name = String::from_utf8_lossy(&name[3..]).to_ascii_lowercase();
                read.attributes.push((name, value));
            }
        }
        // Not empty, as an empty Content-Type says nothing.
        read.content_type = read.content_type.filter(|value| !value.is_empty());
        Ok(read)
    }

    /// Whether this is meant to be a CloudEvent in binary mode.
    pub(crate) fn is_cloud_event(&self) -> bool {
        self.attributes
            .iter()
            .any(|(name, _)| matches!(name.as_str(), "specversion" | "type" | "source" | "id"))
    }

    pub(crate) fn event(&self, body: &[u8]) -> Result<Event, DecodeError> {
        let mut values = Vec::with_capacity(self.attributes.len());
        for (name, value) in &self.attributes {
            if name == "datacontenttype" {
                return Err(DecodeError::malformed(
                    "there is a header ce-datacontenttype: in binary mode Content-Type says it",
                ));
            }
            if values.iter().any(|(other, _): &(&String, String)| *other == name) {
                return Err(DecodeError::malformed(format!("there are two headers ce-{}", shown(name))));
            }
            let value = decode_value(value)
                .map_err(|why| DecodeError::malformed(format!("the header ce-{} {why}", shown(name))))?;
            values.push((name, value));
        }
        let required = |wanted: &str| {
            let found = values.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str());
            found.ok_or_else(|| DecodeError::malformed(format!("the header ce-{wanted} is missing")))
        };
        if required("specversion")? != "1.0" {
            return Err(DecodeError::malformed("ce-specversion is not 1.0"));
        }
        required("id")?;
        let mut event = Event::new(required("type")?, required("source")?)?;
        for (name, value) in &values {
            if !matches!(name.as_str(), "specversion" | "type" | "source") {
                event.set(name, value)?;
            }
        }
        if let Some(content_type) = self.content_type {
            event.set("datacontenttype", content_type)?;
        }
        event.set_data(Some(body.to_vec()));
        Ok(event)
    }
}

fn shown(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_default).collect()
}

/// The value of an attribute in a header: quotes and backslashes taken off, then percent-decoded once.
pub(crate) fn decode_value(value: &[u8]) -> Result<String, &'static str> {
    let mut unquoted = Vec::with_capacity(value.len());
    let mut is_quoted = false;
    let mut bytes = value.trim_ascii().iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted => unquoted.push(*bytes.next().ok_or("ends with a backslash")?),
            other => unquoted.push(*other),
        }
    }
    if is_quoted {
        return Err("has a quote that does not end");
    }
    let mut decoded = Vec::with_capacity(unquoted.len());
    let mut rest = unquoted.as_slice();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte == b'%' {
            let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            let digits = digits.ok_or("has a `%` without two hexadecimal digits; `%` itself is %25")?;
            decoded.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
            rest = &rest[2..];
        } else {
            decoded.push(*byte);
        }
    }
    String::from_utf8(decoded).map_err(|_| "is not UTF-8 when it is decoded")
}

/// The value of an attribute for a header.
pub(crate) fn encode_value(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'"' | b'%' => write!(out, "%{byte:02X}").expect("a String takes all"),
            b'!'..=b'~' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("a String takes all"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_unquoted_and_then_decoded_once() {
        for (sent, value) in [
            ("plain", "plain"),
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
            ("Euro%20%e2%82%ac", "Euro €"),
            ("%41%2d%61", "A-a"),
            ("%2525", "%25"),
            ("\"a b\"", "a b"),
            ("\"a \\\"b\\\" \\\\ c\"", "a \"b\" \\ c"),
            ("\"%20\"", " "),
            ("\"\\%41\"", "A"),
            ("a\\b", "a\\b"),
            ("a \"b  c\" d", "a b  c d"),
            ("  padded\t", "padded"),
            ("\"\"", ""),
            ("é", "é"),
        ] {
            assert_eq!(decode_value(sent.as_bytes()).as_deref(), Ok(value), "{sent}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_refused() {
        for (sent, why) in [
            (&b"%C0%A0"[..], "not UTF-8"),
            (b"%ED%A0%80", "not UTF-8"),
            (b"%F5%80%80%80", "not UTF-8"),
            (b"%E2%82", "not UTF-8"),
            (b"\xff", "not UTF-8"),
            (b"100%", "two hexadecimal"),
            (b"%4", "two hexadecimal"),
            (b"%+1", "two hexadecimal"),
            (b"%zz", "two hexadecimal"),
            (b"\"a", "does not end"),
            (b"\"a\\", "backslash"),
        ] {
            let said = decode_value(sent).expect_err("refused");
            assert!(said.contains(why), "{}: {said}", sent.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_again(value in any::<String>()) {
            let encoded = encode_value(&value);
            prop_assert!(encoded.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'"'));
            prop_assert_eq!(decode_value(encoded.as_bytes()), Ok(value));
        }

        #[test]
        fn any_bytes_are_answered(value in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode_value(&value);
        }
    }
}
