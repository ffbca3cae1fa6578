//! The parts of a JSON text as they are written.
//!
//! What is given as an input or an answer can be read back byte for byte, so a document inside a body is cut out of it,
//! and not printed again. The text was found to be JSON before.

/// A member with its name, or an element without one, and its text.
pub(super) type Part<'t> = (Option<String>, &'t str);

/// The members of an object, or the elements of a list.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let (bytes, mut parts) = (text.as_bytes(), Vec::new());
    let is_object = text.trim_start().starts_with('{');
    let mut at = text.len() - text.trim_start().len() + 1;
    loop {
        at = skip(bytes, at, |byte| byte.is_ascii_whitespace() || byte == b',');
        if at >= bytes.len() || matches!(bytes[at], b'}' | b']') {
            return parts;
        }
        let mut name = None;
        if is_object {
            let end = value_end(bytes, at);
            name = serde_json::from_str(text[at..end].trim_end()).ok();
            at = skip(bytes, end, |byte| byte.is_ascii_whitespace() || byte == b':');
        }
        let end = value_end(bytes, at);
        parts.push((name, text[at..end].trim_end()));
        at = end;
    }
}

/// The text of a member. Of several with one name the last counts.
pub(super) fn member<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    parts(text).into_iter().rfind(|(known, _)| known.as_deref() == Some(name)).map(|(_, text)| text)
}

fn skip(bytes: &[u8], mut at: usize, over: impl Fn(u8) -> bool) -> usize {
    while at < bytes.len() && over(bytes[at]) {
        at += 1;
    }
    at
}

/// Where the value ends that begins here: at a sign that belongs to whatever it is part of.
fn value_end(bytes: &[u8], mut at: usize) -> usize {
    let (mut depth, mut in_text) = (0_usize, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b':' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_as_it_is_written() {
        let text = r#" {"a" : {"x": [1, "},]:"]} , "b\"":"\\", "c":1.0e2,"a": [ ] } "#;
        let named = |name: &str| Some(name.to_owned());
        let all = [
            (named("a"), r#"{"x": [1, "},]:"]}"#),
            (named("b\""), r#""\\""#),
            (named("c"), "1.0e2"),
            (named("a"), "[ ]"),
        ];
        assert_eq!(parts(text), all);
        assert_eq!(member(text, "a"), Some("[ ]"));
        assert_eq!(parts(r#"[ {"a": 1},2 , "x"]"#), [(None, r#"{"a": 1}"#), (None, "2"), (None, r#""x""#)]);
        assert_eq!((parts("{}"), parts("[]")), (vec![], vec![]));
    }
}
