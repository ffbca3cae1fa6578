//! A dictionary of byte sequences: the part of structured fields (RFC 9651) that RFC 9530 needs, parsed exactly.
//!
//! Values of another type make the field invalid, because RFC 9530 allows none. Parameters are parsed, so that their
//! syntax is checked, and ignored, because none are defined.

use sfv::{BareItem, Dictionary, Item, ListEntry, Parser};

/// Several times the number of algorithms.
const MEMBERS_MAX: usize = 64;

/// The members. Of two with one name the last counts. `None`: it is not such a dictionary, or too large.
pub(super) fn parse(field: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let members: Dictionary = Parser::new(field).parse().ok()?;
    if members.len() > MEMBERS_MAX {
        return None;
    }
    let member = |(name, value): (sfv::Key, ListEntry)| match value {
        ListEntry::Item(Item { bare_item: BareItem::ByteSequence(bytes), .. }) => Some((name.into(), bytes)),
        _ => None,
    };
    members.into_iter().map(member).collect()
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
