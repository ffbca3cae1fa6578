//! A dictionary of byte sequences: what RFC 9530 needs of structured fields (RFC 9651), read exactly.
//!
//! Values of another type make the field unreadable, because RFC 9530 allows none. Parameters are read, so that their
//! syntax is held to the standard, and passed over, because none are defined.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The standard asks parsers to take missing padding and stray bits at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// More members than there are algorithms, several times over.
const MEMBERS_MAX: usize = 64;

/// The members. Of two with one name the last counts. `None`: it is no such dictionary, or a very large one.
pub(super) fn parse(field: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut members: Vec<(String, Vec<u8>)> = Vec::new();
    let mut left = Left(field);
    left.skip(b" ");
    while !left.0.is_empty() {
        let name = left.key()?;
        left.expect(b'=')?;
        let value = left.byte_sequence()?;
        left.parameters()?;
        match members.iter().position(|(known, _)| *known == name) {
            Some(at) => members[at].1 = value,
            None if members.len() == MEMBERS_MAX => return None,
            None => members.push((name, value)),
        }
        left.skip(b" \t");
        if left.0.is_empty() {
            return Some(members);
        }
        left.expect(b',')?;
        left.skip(b" \t");
        if left.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// What is not read yet.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|byte| bytes.contains(&byte));
    }

    fn take_while(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !is_wanted(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.next_if(|next| next == byte).map(|_| ())
    }

    fn next_if(&mut self, is_wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let (first, rest) = self.0.split_first().filter(|(first, _)| is_wanted(**first))?;
        self.0 = rest;
        Some(*first)
    }

    fn key(&mut self) -> Option<String> {
        if !matches!(self.0.first(), Some(b'a'..=b'z' | b'*')) {
            return None;
        }
        let key =
            self.take_while(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
        String::from_utf8(key.to_vec()).ok()
    }

    fn byte_sequence(&mut self) -> Option<Vec<u8>> {
        self.expect(b':')?;
        let text = self.take_while(|byte| byte != b':');
        self.expect(b':')?;
        BASE64.decode(text).ok()
    }

    fn parameters(&mut self) -> Option<()> {
        while self.expect(b';').is_some() {
            self.skip(b" ");
            self.key()?;
            if self.expect(b'=').is_some() {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<()> {
        match self.0.first()? {
            b'"' => self.string(),
            b':' => self.byte_sequence().map(|_| ()),
            b'?' => {
                self.expect(b'?')?;
                self.next_if(|byte| matches!(byte, b'0' | b'1')).map(|_| ())
            }
            b'@' => {
                self.expect(b'@')?;
                let is_decimal = self.number()?;
                (!is_decimal).then_some(())
            }
            b'%' => self.display_string(),
            b'-' | b'0'..=b'9' => self.number().map(|_| ()),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
                Some(())
            }
            _ => None,
        }
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
            if self.expect(b'"').is_some() {
                return Some(());
            }
            self.expect(b'\\')?;
            self.next_if(|byte| matches!(byte, b'"' | b'\\'))?;
        }
    }

    fn display_string(&mut self) -> Option<()> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        let mut text = Vec::new();
        loop {
            text.extend(self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'%'));
            if self.expect(b'"').is_some() {
                return String::from_utf8(text).ok().map(|_| ());
            }
            self.expect(b'%')?;
            let mut digit = || self.next_if(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let pair = [digit()?, digit()?];
            text.push(u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?);
        }
    }

    /// An integer of at most 15 digits, or a decimal of at most 12 and 3. Says whether it is a decimal.
    fn number(&mut self) -> Option<bool> {
        self.next_if(|byte| byte == b'-');
        let whole = self.take_while(|byte| byte.is_ascii_digit()).len();
        if self.expect(b'.').is_some() {
            let fraction = self.take_while(|byte| byte.is_ascii_digit()).len();
            ((1..=12).contains(&whole) && (1..=3).contains(&fraction)).then_some(true)
        } else {
            (1..=15).contains(&whole).then_some(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(field: &str) -> Option<Vec<(String, Vec<u8>)>> {
        parse(field.as_bytes())
    }

    #[test]
    fn dictionaries_are_read() {
        let member = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
        let table = [
            ("", vec![]),
            ("   ", vec![]),
            ("a=:YQ==:", vec![member("a", b"a")]),
            ("  a=:YQ==:  ", vec![member("a", b"a")]),
            ("a=:YQ:", vec![member("a", b"a")]),
            ("a=:YR==:", vec![member("a", b"a")]),
            ("a=::", vec![member("a", b"")]),
            ("a=:YQ==: \t,\t b=:Yg==:", vec![member("a", b"a"), member("b", b"b")]),
            ("a=:YQ==:,b=:Yg==:,a=:Yw==:", vec![member("a", b"c"), member("b", b"b")]),
            ("*a-1_.*=:YQ==:", vec![member("*a-1_.*", b"a")]),
            ("a=:YQ==:;x;y=1;  z=-1.5;s=\"a\\\"\\\\;,\"", vec![member("a", b"a")]),
            ("a=:YQ==:;t=*tok/en:1;b=?0;c=:YQ:;d=@-5;e=%\"f%c3%bc\"", vec![member("a", b"a")]),
        ];
        for (field, members) in table {
            assert_eq!(read(field), Some(members), "{field}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for field in [
            "a",
            "a=",
            "a=1",
            "a=?1",
            "a=\"x\"",
            "a=(:YQ==:)",
            "a=:YQ==",
            "a=:Y:",
            "a=:Y Q==:",
            "a=:YQ__:",
            "A=:YQ==:",
            "1=:YQ==:",
            "a =:YQ==:",
            "a= :YQ==:",
            "\ta=:YQ==:",
            "a=:YQ==:,",
            "a=:YQ==:, ",
            ",a=:YQ==:",
            "a=:YQ==:,,b=:YQ==:",
            "a=:YQ==:b=:YQ==:",
            "a=:YQ==:;",
            "a=:YQ==:;A",
            "a=:YQ==: ;x",
            "a=:YQ==:;x=",
            "a=:YQ==:;x=?2",
            "a=:YQ==:;x=@1.5",
            "a=:YQ==:;x=1.",
            "a=:YQ==:;x=1.2345",
            "a=:YQ==:;x=1234567890123456",
            "a=:YQ==:;x=1234567890123.1",
            "a=:YQ==:;x=-",
            "a=:YQ==:;x=\"",
            "a=:YQ==:;x=\"\\a\"",
            "a=:YQ==:;x=%\"%C3%BC\"",
            "a=:YQ==:;x=%\"%ff\"",
            "a=:YQ==:;x=(1)",
            "ä=:YQ==:",
        ] {
            assert_eq!(read(field), None, "{field}");
        }
    }

    #[test]
    fn members_are_counted() {
        let many = |count: usize| (0..count).map(|at| format!("a{at}=::")).collect::<Vec<_>>().join(",");
        assert_eq!(read(&many(MEMBERS_MAX)).map(|members| members.len()), Some(MEMBERS_MAX));
        assert_eq!(read(&many(MEMBERS_MAX + 1)), None);
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_read_or_refused(field in "[a-c=:;, \"\\\\YQ?@%1.()*-]{0,40}") {
            if let Some(members) = read(&field) {
                prop_assert!(members.len() <= field.len());
            }
        }
    }
}
