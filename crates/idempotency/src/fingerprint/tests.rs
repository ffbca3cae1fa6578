use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::Write;

const ASKED: Asked<'static> = Asked {
    params: &[("id", "7"), ("part", "x")],
    query: Some("a=1&b=2"),
    content_type: Some("application/json"),
    content_encoding: None,
    body: b"{\"a\":1,\"b\":[2]}",
    body_bytes_max: 1 << 20,
};

fn of(asked: &Asked<'_>, hashing: Hashing) -> Fingerprint {
    fingerprint(asked, hashing).unwrap_or_else(|fault| panic!("{fault}"))
}

fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

#[test]
fn the_fingerprint_is_pinned_because_it_outlives_the_process() {
    let form = Asked {
        content_type: Some("multipart/form-data; boundary=b"),
        body: b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n",
        ..ASKED
    };
    let nothing = Asked { params: &[], query: None, content_type: None, body: b"", ..ASKED };
    let coded = Asked { content_encoding: Some("br"), ..ASKED };
    let pinned = [
        of(&ASKED, Hashing::Raw),
        of(&ASKED, Hashing::CanonicalJson),
        of(&form, Hashing::Raw),
        of(&coded, Hashing::Raw),
        of(&nothing, Hashing::Raw),
    ];
    assert_eq!(pinned.map(|fingerprint| fingerprint.header()), PINNED);
}

/// Computed separately, with another implementation of SHA-256.
const PINNED: [&str; 5] = [
    "sha-256=:1WQcZu4FGGj70IhhaVOUZup5NCd/Vb1jfYAu75x9oI4=:",
    "sha-256=:8rk1FxTMree3QGLCzAeEgW+nfYjA6q/j8d8wRZHSWjQ=:",
    "sha-256=:C/U6l/AretzddpdjsvmGKiNZRQZYkU884FwcG1/zlbU=:",
    "sha-256=:2YanzjDalsxuOS+8EBcjQ3Q4yvLHwxOeujKXachwbY4=:",
    "sha-256=:ygi0cniXaE0VOHkZP4WUmS+wAGYSaz4oDwiXfZ0jK6k=:",
];

#[test]
fn any_single_change_of_a_part_is_another_fingerprint() {
    let changes = [
        ("nothing", ASKED),
        ("a value", Asked { params: &[("id", "8"), ("part", "x")], ..ASKED }),
        ("a name", Asked { params: &[("ie", "7"), ("part", "x")], ..ASKED }),
        ("fewer", Asked { params: &[("id", "7")], ..ASKED }),
        ("none", Asked { params: &[], ..ASKED }),
        ("another order", Asked { params: &[("part", "x"), ("id", "7")], ..ASKED }),
        ("a byte moved within a parameter", Asked { params: &[("i", "d7"), ("part", "x")], ..ASKED }),
        ("a byte moved between parameters", Asked { params: &[("id", "7p"), ("art", "x")], ..ASKED }),
        (
            "a parameter moved into the query",
            Asked { params: &[("id", "7")], query: Some("partxa=1&b=2"), ..ASKED },
        ),
        ("the query", Asked { query: Some("a=1&b=3"), ..ASKED }),
        ("the order of the query", Asked { query: Some("b=2&a=1"), ..ASKED }),
        ("an empty query", Asked { query: Some(""), ..ASKED }),
        ("no query", Asked { query: None, ..ASKED }),
        ("the type", Asked { content_type: Some("application/problem+json"), ..ASKED }),
        ("no type", Asked { content_type: None, ..ASKED }),
        ("an empty type", Asked { content_type: Some(""), ..ASKED }),
        ("text", Asked { content_type: Some("text/plain"), ..ASKED }),
        ("text in a charset", Asked { content_type: Some("text/plain; charset=utf-8"), ..ASKED }),
        ("text in another charset", Asked { content_type: Some("text/plain; charset=utf-16"), ..ASKED }),
        ("a coding", Asked { content_encoding: Some("br"), ..ASKED }),
        ("another coding", Asked { content_encoding: Some("zstd"), ..ASKED }),
        ("two codings", Asked { content_encoding: Some("br, zstd"), ..ASKED }),
        ("the content", Asked { body: b"{\"a\":1,\"b\":[3]}", ..ASKED }),
        ("no content", Asked { body: b"", ..ASKED }),
        (
            "a byte moved into the query",
            Asked { query: Some("a=1&b=2{"), body: b"\"a\":1,\"b\":[2]}", content_type: None, ..ASKED },
        ),
    ];
    for (at, (what, a)) in changes.iter().enumerate() {
        for (other, b) in &changes[at + 1..] {
            assert_ne!(of(a, Hashing::Raw), of(b, Hashing::Raw), "{what} and {other}");
        }
    }
    // The canonical form of `null` is `n`.
    let (null, letter) = (Asked { body: b"null", ..ASKED }, Asked { body: b"n", ..ASKED });
    assert_ne!(of(&null, Hashing::CanonicalJson), of(&letter, Hashing::Raw));
}

#[test]
fn what_differs_between_attempts_does_not_count() {
    let (fast, best) = (gzip(ASKED.body, 1), gzip(ASKED.body, 9));
    assert_ne!(fast, best);
    let same = [
        (
            "a charset that JSON has anyway",
            Asked { content_type: Some("application/json; charset=UTF-8"), ..ASKED },
        ),
        ("letters of the type", Asked { content_type: Some("Application/JSON"), ..ASKED }),
        ("a byte order mark", Asked { body: b"\xef\xbb\xbf{\"a\":1,\"b\":[2]}", ..ASKED }),
        ("gzip", Asked { content_encoding: Some("gzip"), body: &fast, ..ASKED }),
        ("another gzip", Asked { content_encoding: Some("GZIP"), body: &best, ..ASKED }),
        ("identity", Asked { content_encoding: Some("identity"), ..ASKED }),
        ("the bound", Asked { body_bytes_max: 15, ..ASKED }),
    ];
    for (what, asked) in &same {
        for hashing in [Hashing::Raw, Hashing::CanonicalJson] {
            if asked.body.len() as u64 <= asked.body_bytes_max {
                assert_eq!(of(asked, hashing), of(&ASKED, hashing), "{what}");
            }
        }
    }
}

#[test]
fn json_is_compared_by_its_value_only_where_that_was_chosen() {
    let spelled = Asked { body: b" { \"b\": [2.0], \"a\": 1e0 }", ..ASKED };
    assert_ne!(of(&spelled, Hashing::Raw), of(&ASKED, Hashing::Raw));
    assert_eq!(of(&spelled, Hashing::CanonicalJson), of(&ASKED, Hashing::CanonicalJson));
    let text = Asked { content_type: Some("text/plain"), ..ASKED };
    let spelled_text = Asked { content_type: Some("text/plain"), ..spelled };
    assert_ne!(of(&spelled_text, Hashing::CanonicalJson), of(&text, Hashing::CanonicalJson));
    assert_eq!(of(&text, Hashing::CanonicalJson), of(&text, Hashing::Raw));
}

#[test]
fn faults_are_told_apart() {
    use ContentFault::{Charset, TooLarge};
    let latin = Asked { content_type: Some("application/json; charset=ISO-8859-1"), ..ASKED };
    let broken = Asked { body: b"{", ..ASKED };
    let empty = Asked { body: b"", ..ASKED };
    let large = Asked { body_bytes_max: 14, ..ASKED };
    let fault = |asked: &Asked<'_>, hashing| fingerprint(asked, hashing).err();
    assert_eq!(fault(&latin, Hashing::Raw), Some(Charset));
    assert_eq!(fault(&latin, Hashing::CanonicalJson), Some(Charset));
    assert_eq!(fault(&broken, Hashing::Raw), None);
    assert!(matches!(fault(&broken, Hashing::CanonicalJson), Some(ContentFault::Malformed(_))));
    assert_eq!(fault(&empty, Hashing::CanonicalJson), None);
    assert_eq!(fault(&large, Hashing::Raw), Some(TooLarge));
}

#[test]
fn debug_does_not_show_the_hash() {
    assert_eq!(format!("{:?}", of(&ASKED, Hashing::Raw)), "Fingerprint(..)");
}

proptest! {
    #[test]
    fn fingerprints_are_equal_exactly_when_requests_are(a in request(), b in request()) {
        let fingerprint = |(params, query, kind, body): &Request| {
            let params: Vec<(&str, &str)> = params.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let asked = Asked {
                params: &params,
                query: query.as_deref(),
                content_type: kind.as_deref(),
                content_encoding: None,
                body: body.as_bytes(),
                body_bytes_max: 100,
            };
            of(&asked, Hashing::Raw)
        };
        prop_assert_eq!(fingerprint(&a) == fingerprint(&b), a == b);
    }
}

type Request = (Vec<(String, String)>, Option<String>, Option<String>, String);

/// With so few letters that two requests are often alike except for the position of a letter.
fn request() -> impl Strategy<Value = Request> {
    let text = || "[a]{0,2}";
    (
        prop::collection::vec((text(), text()), 0..2),
        prop::option::of(text()),
        prop::option::of(text()),
        text(),
    )
}
