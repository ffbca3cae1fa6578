//! What a `Content-Type` says about comparing its content: the type without its parameters, charset and boundary.
//!
//! A type that cannot be read is compared as it stands. To refuse it is the handler's business.

/// A media type, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub struct MediaType {
    /// Type and subtype in lower case, as `application/json`.
    pub essence: String,
    /// In lower case.
    pub charset: Option<String>,
    /// What stands between the parts of a form; none where there are two, because readers do not agree on which counts.
    pub boundary: Option<String>,
}

impl MediaType {
    /// Reads the value of a `Content-Type`.
    pub fn parse(value: &str) -> Self {
        let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
        let mut media = Self { essence: essence.trim().to_ascii_lowercase(), charset: None, boundary: None };
        let mut boundaries = Vec::new();
        for (name, value) in Parameters(parameters) {
            if name.eq_ignore_ascii_case("charset") {
                // The first counts, as in most readers.
                media.charset.get_or_insert_with(|| value.to_ascii_lowercase());
            } else if name.eq_ignore_ascii_case("boundary") {
                boundaries.push(value);
            }
        }
        media.boundary = boundaries.pop().filter(|_| boundaries.is_empty());
        media
    }

    /// Whether its content is JSON.
    pub fn is_json(&self) -> bool {
        matches!(self.essence.as_str(), "application/json" | "text/json") || self.essence.ends_with("+json")
    }

    /// Whether its content is UTF-8, as far as it says.
    pub fn is_utf8(&self) -> bool {
        self.charset.as_deref().is_none_or(|charset| matches!(charset, "utf-8" | "utf8"))
    }
}

/// The `name=value` pairs after a type, with quotes and escapes taken off.
struct Parameters<'a>(&'a str);

impl<'a> Iterator for Parameters<'a> {
    type Item = (&'a str, String);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.0 = self.0.trim_start_matches([';', ' ', '\t']);
            let end = self.0.find(['=', ';'])?;
            let (name, rest) = self.0.split_at(end);
            let Some(rest) = rest.strip_prefix('=') else {
                self.0 = rest;
                continue;
            };
            let Some(quoted) = rest.strip_prefix('"') else {
                let (value, rest) = rest.split_once(';').unwrap_or((rest, ""));
                self.0 = rest;
                return Some((name.trim(), value.trim().to_owned()));
            };
            let mut value = String::new();
            let mut characters = quoted.chars();
            while let Some(character) = characters.next() {
                match character {
                    '"' => break,
                    '\\' => value.extend(characters.next()),
                    other => value.push(other),
                }
            }
            self.0 = characters.as_str();
            return Some((name.trim(), value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_the_table_says() {
        let table: &[(&str, &str, Option<&str>, Option<&str>)] = &[
            ("application/json", "application/json", None, None),
            (" Application/JSON ", "application/json", None, None),
            ("text/plain; Charset=UTF-8", "text/plain", Some("utf-8"), None),
            ("text/plain;charset=\"utf\\-8\" ;x=y", "text/plain", Some("utf-8"), None),
            ("text/plain; charset=a; charset=b", "text/plain", Some("a"), None),
            ("multipart/form-data; boundary=aB", "multipart/form-data", None, Some("aB")),
            (
                "multipart/form-data; boundary=\"a;b =c\"; charset=x",
                "multipart/form-data",
                Some("x"),
                Some("a;b =c"),
            ),
            ("multipart/form-data; x; boundary=a", "multipart/form-data", None, Some("a")),
            ("multipart/form-data; x=\"boundary=no\"; boundary=a", "multipart/form-data", None, Some("a")),
            ("multipart/form-data; boundary=\"a", "multipart/form-data", None, Some("a")),
            ("multipart/form-data; boundary", "multipart/form-data", None, None),
            ("multipart/form-data; boundary=a; Boundary=b", "multipart/form-data", None, None),
            ("", "", None, None),
            (";;;", "", None, None),
            ("nonsense", "nonsense", None, None),
        ];
        for (value, essence, charset, boundary) in table {
            let expected = MediaType {
                essence: (*essence).to_owned(),
                charset: charset.map(str::to_owned),
                boundary: boundary.map(str::to_owned),
            };
            assert_eq!(MediaType::parse(value), expected, "{value}");
        }
    }

    #[test]
    fn json_is_told_from_the_rest() {
        for (value, is_json) in [
            ("application/json", true),
            ("text/json", true),
            ("application/problem+json; charset=x", true),
            ("application/json-seq", false),
            ("application/jsonp", false),
            ("text/plain", false),
            ("", false),
        ] {
            assert_eq!(MediaType::parse(value).is_json(), is_json, "{value}");
        }
    }
}
