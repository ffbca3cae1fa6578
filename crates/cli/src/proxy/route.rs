//! Which requests are protected: an ordered table of methods and paths.
//!
//! One path can be written in many ways. So paths are compared decoded, and a path that a receiver could take for
//! another (`/health/../payments`, `//`, an encoded slash) matches no line of the table: it needs a key.

use http::Method;
use std::str::FromStr;

/// The rule for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// It needs a key, or is refused.
    Required,
    /// With a key it is protected; without one it passes.
    Optional,
    /// It passes unprotected.
    Exempt,
}

/// One line of the table: `POST /orders/{id}=required`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    methods: Vec<Method>,
    segments: Vec<Segment>,
    /// The path may have more segments.
    goes_on: bool,
    demand: Demand,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Exactly(String),
    Any,
}

/// The methods that `*` matches.
const CHANGING: [Method; 4] = [Method::POST, Method::PATCH, Method::PUT, Method::DELETE];

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example =
            "write it like 'POST /search=exempt', 'PUT /orders/{id}=required' or '* /hooks/*=optional'";
        let (target, demand) = text.rsplit_once('=').ok_or_else(|| format!("it has no mode; {example}"))?;
        let (method, path) =
            target.trim().split_once(' ').ok_or_else(|| format!("it has no method; {example}"))?;
        let demand = match demand.trim() {
            "required" => Demand::Required,
            "optional" => Demand::Optional,
            "exempt" => Demand::Exempt,
            other => return Err(format!("`{other}` is no mode: required, optional or exempt")),
        };
        let methods = match method {
            "*" => CHANGING.to_vec(),
            name => vec![method_of(name)?],
        };
        let path = path.trim();
        let (path, goes_on) = match path.strip_suffix("/*") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let is_all = path.is_empty() && goes_on;
        if !path.starts_with('/') && !is_all {
            return Err(format!("its path does not begin with a slash; {example}"));
        }
        let read = segments(path).ok_or_else(|| format!("`{path}` could be taken for another path"))?;
        let segments = read.into_iter().map(segment).collect::<Result<_, _>>()?;
        Ok(Self { methods, segments, goes_on, demand })
    }
}

fn method_of(name: &str) -> Result<Method, String> {
    let method = Method::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no method"))?;
    if method.is_safe() || method == Method::CONNECT {
        return Err(format!("{name} only reads, and always passes; the table is for methods that change"));
    }
    if name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Err(format!("methods are written in capitals: {}", name.to_ascii_uppercase()));
    }
    Ok(method)
}

fn segment(text: String) -> Result<Segment, String> {
    match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        Some(name) if !name.is_empty() && !name.contains(['{', '}', '*']) => Ok(Segment::Any),
        None if !text.contains(['{', '}', '*']) => Ok(Segment::Exactly(text)),
        Some(_) | None => Err(format!("`{text}` is no segment: a name, {{id}}, or * at the end")),
    }
}

impl Rule {
    fn fits(&self, method: &Method, path: &[String]) -> bool {
        let fits = |(segment, text): (&Segment, &String)| match segment {
            Segment::Exactly(wanted) => wanted == text,
            Segment::Any => !text.is_empty(),
        };
        // Many programs treat a path with a slash at its end as the same: so it needs a key too.
        let path = match path {
            [path @ .., last] if self.demand == Demand::Required && !self.goes_on && last.is_empty() => path,
            path => path,
        };
        let long_enough =
            if self.goes_on { path.len() > self.segments.len() } else { path.len() == self.segments.len() };
        self.methods.contains(method) && long_enough && self.segments.iter().zip(path).all(fits)
    }
}

/// The table. The first line that matches counts; without one, POST and PATCH need a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(pub(crate) Vec<Rule>);

impl Rules {
    /// The rule for a request.
    pub(crate) fn demand(&self, method: &Method, path: &str) -> Demand {
        if method.is_safe() {
            return Demand::Exempt;
        }
        let named = |method: &Method| self.0.iter().any(|rule| rule.methods.contains(method));
        let otherwise = match *method {
            Method::POST | Method::PATCH => Demand::Required,
            _ => Demand::Exempt,
        };
        match segments(path) {
            Some(path) => {
                let rule = self.0.iter().find(|rule| rule.fits(method, &path));
                rule.map_or(otherwise, |rule| rule.demand)
            }
            None if named(method) => Demand::Required,
            None => otherwise,
        }
    }

    /// The methods that can be protected.
    pub(crate) fn methods(&self) -> impl Iterator<Item = Method> {
        self.0.iter().flat_map(|rule| rule.methods.clone()).chain([Method::POST, Method::PATCH])
    }
}

/// The decoded segments of a path. `None`: a receiver could take it for another path.
fn segments(path: &str) -> Option<Vec<String>> {
    if path.is_empty() {
        return Some(Vec::new());
    }
    let mut segments = Vec::new();
    let mut left = path.strip_prefix('/')?.split('/').peekable();
    while let Some(text) = left.next() {
        let decoded = decoded(text)?;
        let is_last = left.peek().is_none();
        let is_odd = matches!(&*decoded, "." | "..") || (decoded.is_empty() && !is_last);
        // A receiver may cut a segment off at a semicolon, or at an invisible character.
        let hides = |character: char| matches!(character, '/' | '\\' | '%' | ';') || character.is_control();
        if is_odd || decoded.contains(hides) {
            return None;
        }
        segments.push(decoded);
    }
    Some(segments)
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        if byte == b'%' {
            let mut digit = || char::from(left.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::Demand::{Exempt, Optional, Required};
    use super::*;

    fn rules(lines: &[&str]) -> Rules {
        Rules(lines.iter().map(|line| line.parse().expect(line)).collect())
    }

    #[test]
    fn without_a_table_posts_and_patches_need_a_key() {
        for (method, expected) in [
            ("POST", Required),
            ("PATCH", Required),
            ("PUT", Exempt),
            ("DELETE", Exempt),
            ("PURGE", Exempt),
            ("GET", Exempt),
            ("HEAD", Exempt),
            ("OPTIONS", Exempt),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(rules(&[]).demand(&method, "/any"), expected, "{method}");
        }
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        let rules = rules(&[
            "POST /search=exempt",
            "POST /orders/{id}/notes=optional",
            "* /hooks/*=optional",
            "PUT /orders/{id}=required",
            "DELETE /*=required",
            "POST /hooks/a=required",
        ]);
        for (method, path, expected) in [
            (Method::POST, "/search", Exempt),
            (Method::POST, "/se%61rch", Exempt),
            (Method::POST, "/search/", Required),
            (Method::POST, "/search/deep", Required),
            (Method::POST, "/Search", Required),
            (Method::POST, "/orders/7/notes", Optional),
            (Method::POST, "/orders//notes", Required),
            (Method::POST, "/hooks/a", Optional),
            (Method::POST, "/hooks/a/b", Optional),
            (Method::POST, "/hooks", Required),
            (Method::PUT, "/hooks/a", Optional),
            (Method::PUT, "/orders/7", Required),
            (Method::PUT, "/orders/7/", Required),
            (Method::PUT, "/orders/7/x", Exempt),
            (Method::DELETE, "/", Required),
            (Method::DELETE, "/a/b", Required),
        ] {
            assert_eq!(rules.demand(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_path_that_can_mean_another_one_is_exempt_from_nothing() {
        let rules = rules(&["POST /open/*=exempt", "PUT /orders/{id}=required"]);
        assert_eq!(rules.demand(&Method::POST, "/open/x"), Exempt);
        for path in [
            "/open/../payments",
            "/open/%2e%2E/payments",
            "/open/.%2e/payments",
            "/open/./x",
            "/open//x",
            "//open/x",
            "/open/x%2fy",
            "/open/x%5cy",
            "/open/x\\..\\y",
            "/open/%zz",
            "/open/%ff",
            "/open/..;/payments",
            "/open/%252e%252e/payments",
            "/open/%00",
            "*",
        ] {
            assert_eq!(rules.demand(&Method::POST, path), Required, "{path}");
            assert_eq!(rules.demand(&Method::PUT, path), Required, "{path}");
            assert_eq!(rules.demand(&Method::DELETE, path), Exempt, "{path}: no line is about DELETE");
        }
    }

    #[test]
    fn a_line_that_cannot_be_meant_is_refused_with_its_remedy() {
        for (line, why) in [
            ("POST /x", "it has no mode"),
            ("/x=exempt", "it has no method"),
            ("POST x=exempt", "does not begin with a slash"),
            ("POST /x=never", "`never` is no mode"),
            ("GET /x=required", "only reads"),
            ("post /x=required", "POST"),
            ("POST /a{b}=required", "is no segment"),
            ("POST /*/x=required", "is no segment"),
            ("POST /a/../b=exempt", "another path"),
        ] {
            let fault = line.parse::<Rule>().unwrap_err();
            assert!(fault.contains(why), "{line}: {fault}");
        }
    }
}
