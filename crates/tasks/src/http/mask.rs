//! Masks credentials in an API's answer, which may repeat its request in another encoding.
//!
//! It searches for a secret letter by letter, each letter plain or as JSON, HTML, URLs or forms encode it, in any
//! mixture. JSON within JSON has backslashes before backslashes, so there may be more of them than in the secret. In
//! doubt it masks too much.
//!
//! A short secret, such as a PIN, would be found inside harmless words and numbers. So it is masked only as a whole
//! word. Each text is scanned once for each secret, whatever its content.

use perdura_engine::asl::json::{Map, Value, parse, without_mark};
use perdura_sigv4::Secret;

/// From this length on a secret is masked anywhere; a shorter one as a whole word.
const ANYWHERE_BYTES_MIN: usize = 6;
/// Shorter values are not masked: an attacker can try them all, and they occur in every answer.
const SECRET_BYTES_MIN: usize = 3;
/// The replacement of a secret.
const MASK: &str = "…";
/// JSON in JSON, six deep, has about so many backslashes before a letter.
const BACKSLASHES_MAX: usize = 64;
/// The longest reference of HTML to one character: `&#1114111;`, with some zeros.
const REFERENCE_BYTES_MAX: usize = 16;

/// The text without secrets, in any encoding. Longer secrets must come first.
pub(super) fn without(text: &str, secrets: &[Secret]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().map(Secret::reveal).filter(|secret| secret.len() >= SECRET_BYTES_MIN) {
        let has_spellings = text.contains(['\\', '&', '%', '+']);
        if (has_spellings || text.contains(secret))
            && let Some(masked) = without_one(&text, secret, has_spellings)
        {
            text = masked;
        }
    }
    text
}

/// A document without secrets; `None`: it is not JSON, or masking might break it. If a number or the name of a member
/// is a secret, a text takes its place, so that the rest stays usable.
pub(super) fn document(text: &str, secrets: &[Secret]) -> Option<Value> {
    let text = without_mark(text);
    let masked = without(text, secrets);
    if let Ok(value) = parse(&masked) {
        return Some(value);
    }
    // A secret with such characters may extend over several values, so that none of them contains all of it.
    let joins = |char: char| "{}[]\",:".contains(char) || char.is_whitespace();
    let reaches_over = |secret: &str| secret.contains(joins) && text.contains(secret);
    if secrets.iter().map(Secret::reveal).any(reaches_over) {
        return None;
    }
    Some(inside(&parse(text).ok()?, secrets))
}

/// Masks each text, name and number in the value. Its depth is bounded, because it was parsed.
fn inside(value: &Value, secrets: &[Secret]) -> Value {
    match value {
        Value::String(text) => without(text, secrets).into(),
        Value::Array(items) => items.iter().map(|item| inside(item, secrets)).collect(),
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, value)| (without(name, secrets), inside(value, secrets)));
            members.collect::<Map>().into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            let printed = value.to_string();
            let masked = without(&printed, secrets);
            if masked == printed { value.clone() } else { masked.into() }
        }
    }
}

/// The text without a secret in any encoding; `None`: the text does not contain it.
fn without_one(text: &str, secret: &str, has_spellings: bool) -> Option<String> {
    let first = secret.chars().next()?;
    let starts: &[char] = if has_spellings { &[first, '\\', '&', '%', '+'] } else { &[first] };
    let may_be_inside = secret.len() >= ANYWHERE_BYTES_MIN;
    let mut masked: Option<String> = None;
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = text[at..].find(starts) {
        at += found;
        // Only the last backslashes of a long run may belong to a letter.
        at += backslashes(&text[at..]).saturating_sub(BACKSLASHES_MAX);
        let length = spelled(&text[at..], secret);
        match length.filter(|length| may_be_inside || is_word(text, at, at + length)) {
            Some(length) => {
                let masked = masked.get_or_insert_default();
                masked.push_str(&text[kept..at]);
                masked.push_str(MASK);
                at += length;
                kept = at;
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    masked.map(|masked| masked + &text[kept..])
}

/// Whether this part is a whole word. An end that is not a letter is always the end of a word.
fn is_word(text: &str, from: usize, to: usize) -> bool {
    let is_letter = |char: char| char.is_alphanumeric() || char == '_';
    let (before, part, after) = (&text[..from], &text[from..to], &text[to..]);
    let goes_on_before =
        part.starts_with(is_letter) && before.ends_with(is_letter) && !ends_in_escape(before);
    let goes_on_after = part.ends_with(is_letter) && after.starts_with(is_letter);
    !goes_on_before && !goes_on_after
}

/// Whether the letters at the end are an escape for another character, as in `\n`, `\u0020` and `%20`.
fn ends_in_escape(text: &str) -> bool {
    let end = &text.as_bytes()[text.len().saturating_sub(6)..];
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match end {
        [.., b'\\', b'b' | b'f' | b'n' | b'r' | b't'] => true,
        [b'\\', b'u', digits @ ..] if digits.len() == 4 => is_hex(digits),
        [.., b'%', one, other] => is_hex(&[*one, *other]),
        _ => false,
    }
}

/// How many bytes at the start of a text encode the whole secret.
fn spelled(text: &str, secret: &str) -> Option<usize> {
    let (mut rest, mut wanted) = (text, secret);
    while let Some(letter) = wanted.chars().next() {
        let escapes = backslashes(rest);
        let after = &rest[escapes..];
        if letter == '\\' && escapes > 0 && escape(after, letter).is_none() {
            let own = backslashes(wanted);
            // Any number of backslashes counts as those of the secret.
            (rest, wanted) =
                if escapes < own { (after, &wanted[escapes..]) } else { (after, &wanted[own..]) };
            // Or they escape the letter after them.
            let Some(next) = wanted.chars().next().filter(|_| escapes > own) else { continue };
            let length = plain(rest, next).or_else(|| escape(rest, next))?;
            (rest, wanted) = (&rest[length..], &wanted[next.len_utf8()..]);
            continue;
        }
        let length =
            plain(after, letter).or_else(|| if escapes > 0 { escape(after, letter) } else { None })?;
        (rest, wanted) = (&after[length..], &wanted[letter.len_utf8()..]);
    }
    Some(text.len() - rest.len())
}

/// A letter without a backslash before it.
fn plain(text: &str, letter: char) -> Option<usize> {
    reference(text, letter).or_else(|| percent(text, letter)).or_else(|| literal(text, letter))
}

fn backslashes(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'\\').count()
}

/// The plain letter; a form has `+` for a space.
fn literal(text: &str, letter: char) -> Option<usize> {
    let is_it = text.starts_with(letter) || letter == ' ' && text.starts_with('+');
    is_it.then_some(if text.starts_with(letter) { letter.len_utf8() } else { 1 })
}

/// The letter's JSON escape after a backslash: `n`, `u00e9`, `ud83d\ude00`.
fn escape(text: &str, letter: char) -> Option<usize> {
    let short = match letter {
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        _ => None,
    };
    if short.is_some_and(|short| text.starts_with(short)) {
        return Some(1);
    }
    let mut rest = text;
    for (at, unit) in letter.encode_utf16(&mut [0; 2]).iter().enumerate() {
        if at > 0 {
            rest = rest.get(backslashes(rest)..)?;
        }
        let digits = rest.strip_prefix('u')?.get(..4)?;
        if u16::from_str_radix(digits, 16).ok()? != *unit {
            return None;
        }
        rest = &rest[5..];
    }
    Some(text.len() - rest.len())
}

/// The letter's HTML reference: `&amp;`, `&#39;`, `&#x27;`.
fn reference(text: &str, letter: char) -> Option<usize> {
    let name = text.strip_prefix('&')?;
    let end = name.bytes().take(REFERENCE_BYTES_MAX).position(|byte| byte == b';')?;
    let name = &name[..end];
    let meant = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    (meant == letter).then_some(end + 2)
}

/// The letter's percent encoding: `%26`, `%C3%a9`.
fn percent(text: &str, letter: char) -> Option<usize> {
    let mut rest = text;
    for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
        let digits = rest.strip_prefix('%')?.get(..2)?;
        if u8::from_str_radix(digits, 16).ok()? != byte {
            return None;
        }
        rest = &rest[3..];
    }
    Some(text.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str, secret: &str) -> String {
        without(text, &[Secret::new(secret)])
    }

    #[test]
    fn a_secret_is_found_in_every_spelling() {
        let table = [
            ("live-secret\"x", r#"live-secret\"x  live-secret\\\"x  live-secret&quot;x  live-secret\u0022x"#),
            ("pass-wörd-é", r"pass-w\u00f6rd-\u00e9  pass-w\u00F6rd-\u00E9  pass-w%C3%B6rd-%c3%a9"),
            ("pass-wörd-é", r"pass-w&#246;rd-&#xE9;  pass-w&#0246;rd-&#Xe9;"),
            ("a&b<c>d'e", "a&amp;b&lt;c&gt;d&#39;e  a&amp;b&lt;c&gt;d&#x27;e  a&#38;b&#X3c;c&gt;d&apos;e"),
            ("a&b<c>d'e", r"a%26b%3Cc%3Ed%27e  a\u0026b\u003cc\u003ed\u0027e"),
            ("https://x y", r"https:\/\/x y  https%3A%2F%2Fx+y  https%3a%2f%2fx%20y  https:\u002f\/x\u0020y"),
            ("back\\slash\\", r"back\\slash\\  back\\\\slash\\\\  back%5Cslash%5c  back\u005cslash&#92;"),
            ("line\nfeed\t1", r"line\nfeed\t1  line\u000afeed\u00091  line\\nfeed\\t1"),
            (
                "smile-😀-!",
                r"smile-\ud83d\ude00-!  smile-\uD83D\uDE00-!  smile-%F0%9F%98%80-!  smile-&#128512;-!",
            ),
        ];
        for (secret, spelled) in table {
            let left = masked(&spelled.replace("  ", "|"), secret);
            assert!(left.split('|').all(|left| left == MASK) && left.contains('|'), "{secret}: {left}");
        }
    }

    #[test]
    fn a_long_run_of_backslashes_is_looked_at_once() {
        let run = "\\".repeat(4_000_000);
        assert_eq!(masked(&run, "secrets"), run);
        assert!(!masked(&format!("{run}secrets"), "secrets").contains("secrets"));
        assert!(!masked(&format!("{run}\\u0073ecrets"), "secrets").contains("ecrets"));
    }

    #[test]
    fn what_is_innocent_stays_as_it_is() {
        for text in [
            r"C:\temp\secre",
            "a & b; 100% + 1 &unknown; &#xffffffff; %zz %",
            r"\u12 \ud800 \",
            "&",
            "secre%74",
        ] {
            assert_eq!(masked(text, "secrets"), text);
        }
        assert_eq!(masked(r#"{"a":"x \"secrets\" y"}"#, "secrets"), r#"{"a":"x \"…\" y"}"#);
    }

    #[test]
    fn a_short_secret_is_a_whole_word() {
        for (text, left) in [
            ("4711", "…"),
            ("pin=4711&x", "pin=…&x"),
            (r#"{"pin":"4711","n":4711}"#, r#"{"pin":"…","n":…}"#),
            ("14711 47110 a4711 4711a _4711 é4711", "14711 47110 a4711 4711a _4711 é4711"),
            (r"a\n4711 \u00204711 %204711 4711%20 \u0034711", r"a\n… \u0020… %20… …%20 …"),
            ("4711-4711.4711", "…-….…"),
            ("14711 4711", "14711 …"),
        ] {
            assert_eq!(masked(text, "4711"), left);
        }
        assert_eq!(masked("xa-a-a a-a", "a-a"), "xa-… …");
        assert_eq!(masked("1#23# 4", "#23#"), "1… 4");
        assert_eq!(masked("12", "12"), "12", "two bytes are no secret");
    }

    #[test]
    fn a_document_stays_one() {
        for (text, secret, left) in [
            (r#"{"pin": 4711, "b": [4711.5, true]}"#, "4711", Some(r#"{"pin":"…","b":["….5",true]}"#)),
            (r#"{"4711": null, "a": 1.0}"#, "4711", Some(r#"{"…":null,"a":1.0}"#)),
            (r#"{"id": 12345678}"#, "12345678", Some(r#"{"id":"…"}"#)),
            (r#"{"ok": true}"#, "true", Some(r#"{"ok":"…"}"#)),
            (r#"{"key": {"private": "x"}, "n": 4711}"#, r#"{"private": "x"}"#, None),
            ("no JSON", "4711", None),
        ] {
            let found = document(text, &[Secret::new(secret)]);
            assert_eq!(found.map(|value| value.to_string()).as_deref(), left, "{text}");
        }
    }

    /// One encoding of a letter, by a number.
    fn spell(letter: char, how: u32) -> String {
        let mut units = [0; 2];
        let units = letter.encode_utf16(&mut units);
        match how % 6 {
            0 => letter.to_string(),
            1 => units.iter().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat(),
            2 => units.iter().map(|unit| format!("\\\\u{unit:04X}")).collect::<Vec<_>>().concat(),
            3 => format!("&#{};", u32::from(letter)),
            4 => format!("&#x{:X};", u32::from(letter)),
            _ => letter.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat(),
        }
    }

    #[test]
    fn however_its_letters_are_spelled_nothing_of_a_secret_is_left() {
        const LETTERS: [char; 16] =
            ['a', 'Z', '0', ' ', '"', '\'', '&', '<', '/', '%', '+', ';', '\n', 'é', '€', '😀'];
        let mut state: u32 = 1;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..20_000 {
            let letters: Vec<(char, u32)> =
                (0..6 + next(8)).map(|_| (LETTERS[next(16) as usize], next(6))).collect();
            let secret: String = letters.iter().map(|(letter, _)| *letter).collect();
            let text: String = letters.iter().map(|(letter, how)| spell(*letter, *how)).collect();
            assert_eq!(masked(&format!("x|{text}|y"), &secret), "x|…|y", "{secret} as {text}");
        }
    }
}
