use super::*;
use proptest::prelude::*;

#[test]
fn plain_bytes_end_at_the_first_special_one() {
    for length in 0..40 {
        let mut text = vec![0x80 | b'a'; length];
        assert_eq!(plain_bytes(&text), length);
        for at in 0..length {
            for special in [b'"', b'\\', 0, 0x1f] {
                text.fill(b' ');
                text[at..].fill(special);
                assert_eq!(plain_bytes(&text), at);
                let mut copied = b"before".to_vec();
                assert_eq!(copy_plain_bytes(&text, &mut copied), at);
                assert_eq!(copied, [b"before", &text[..at]].concat());
                text[at + 1..].fill(0x21);
                assert_eq!(plain_bytes(&text), at);
            }
        }
    }
}

fn skipped(text: &[u8]) -> Result<&[u8], Fault> {
    let mut scan = Scanner::new(text)?;
    let value = scan.skip()?;
    scan.finish().map(|()| value)
}

#[test]
fn a_value_is_passed_as_the_text_it_is() {
    for text in
        ["1", "-1.50E+2", "\"a\\u00e9\\\"\"", "[1, [ ], {\"a\" : null }]", "{\"a\":[true],\"a\":false}"]
    {
        let spaced = format!(" \n{text}\t ");
        assert_eq!(skipped(spaced.as_bytes()), Ok(text.as_bytes()), "{text}");
    }
}

#[test]
fn depth_counts_what_stands_around() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let below =
        |text: &str| Scanner::new(text.as_bytes()).and_then(|scan| scan.below(2).skip().map(<[u8]>::len));
    assert!(skipped(nested(DEPTH_MAX).as_bytes()).is_ok());
    assert!(skipped(nested(DEPTH_MAX + 1).as_bytes()).is_err());
    assert!(below(&nested(DEPTH_MAX - 2)).is_ok());
    assert!(below(&nested(DEPTH_MAX - 1)).is_err());
    assert!(skipped("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn half_a_surrogate_pair_is_replaced_or_refused() {
    for (text, replaced) in [
        ("\"\\ud800\"", "\u{fffd}"),
        ("\"a\\udc00b\"", "a\u{fffd}b"),
        ("\"\\ud800\\u0041\"", "\u{fffd}A"),
        ("\"\\ud800\\ud83d\\ude00\"", "\u{fffd}\u{1f600}"),
        ("\"\\ud83d\\ude00\"", "\u{1f600}"),
    ] {
        let scan = || Scanner::new(text.as_bytes()).expect(text);
        assert_eq!(scan().string().as_deref(), Ok(replaced.as_bytes()), "{text}");
        assert_eq!(scan().text().is_ok(), !replaced.contains('\u{fffd}'), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_passed_is_what_serde_json_passes(text in "[\\[\\]{},:\"\\\\u0-1.eE+d8 tn-]{0,12}|[\\[{]{0,3}\"[ab\\\\]{0,3}\"[:,1\\]}]{0,5}") {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(skipped(text.as_bytes()).is_ok(), theirs, "{}", text);
    }

    #[test]
    fn any_bytes_are_answered(text in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = skipped(&text);
    }
}
