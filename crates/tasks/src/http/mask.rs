//! Credentials in what an API says: it may repeat what it was sent, and spell it in a way of its own.
//!
//! A secret is looked for letter by letter, each as it is or as JSON, HTML, an address or a form spells it, mixed as they
//! come. JSON within JSON has backslashes before backslashes, so there may be more of them than the secret has. Where in
//! doubt, rather too much is masked.

use perdura_sigv4::Secret;

/// Shorter secrets are no secrets, and would tear holes into innocent answers.
const SECRET_BYTES_MIN: usize = 6;
/// What stands in place of a secret.
const MASK: &str = "…";
/// JSON in JSON, six deep, has about so many backslashes before a letter.
const BACKSLASHES_MAX: usize = 64;
/// The longest reference of HTML to one character: `&#1114111;`, with some zeros.
const REFERENCE_BYTES_MAX: usize = 16;

/// The text without secrets, however they are spelled. Longer ones are to come first.
pub(super) fn without(text: &str, secrets: &[Secret]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().map(Secret::reveal).filter(|secret| secret.len() >= SECRET_BYTES_MIN) {
        if text.contains(secret) {
            text = text.replace(secret, MASK);
        }
        if text.contains(['\\', '&', '%', '+'])
            && let Some(masked) = without_spelled(&text, secret)
        {
            text = masked;
        }
    }
    text
}

/// The text without any spelling of a secret; `None`: there is none in it.
fn without_spelled(text: &str, secret: &str) -> Option<String> {
    let first = secret.chars().next()?;
    let mut masked: Option<String> = None;
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = text[at..].find([first, '\\', '&', '%', '+']) {
        at += found;
        // Only the last ones of a long run may belong to a letter.
        at += backslashes(&text[at..]).saturating_sub(BACKSLASHES_MAX);
        match spelled(&text[at..], secret) {
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

/// How many bytes at the start of a text spell the whole secret.
fn spelled(text: &str, secret: &str) -> Option<usize> {
    let (mut rest, mut wanted) = (text, secret);
    while let Some(letter) = wanted.chars().next() {
        let escapes = backslashes(rest);
        let after = &rest[escapes..];
        if letter == '\\' && escapes > 0 && escape(after, letter).is_none() {
            let own = backslashes(wanted);
            // However many there are, they stand for those of the secret.
            (rest, wanted) =
                if escapes < own { (after, &wanted[escapes..]) } else { (after, &wanted[own..]) };
            // What they may have been for besides: the letter after them.
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

/// As it is; a form has `+` for a space.
fn literal(text: &str, letter: char) -> Option<usize> {
    let is_it = text.starts_with(letter) || letter == ' ' && text.starts_with('+');
    is_it.then_some(if text.starts_with(letter) { letter.len_utf8() } else { 1 })
}

/// As JSON has it after a backslash: `n`, `u00e9`, `ud83d\ude00`.
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

/// As HTML has it: `&amp;`, `&#39;`, `&#x27;`.
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

/// As an address has it: `%26`, `%C3%a9`.
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
        assert_eq!(masked("short", "short"), "short", "what has less than 6 bytes is left alone");
    }

    /// One way to spell a letter, by a number.
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
