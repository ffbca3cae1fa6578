//! Texts from files and stdin, and the JSON or YAML in them. Every input has a size limit.

use anyhow::{Context, Result, anyhow, bail};
use perdura_asl::diagnostic::{Diagnostic, code};
use perdura_asl::json::{DEPTH_MAX, Payload, without_mark};
use perdura_asl::node::Node;
use perdura_asl::source::{Format, Source, Span};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The displayed name of -.
pub(crate) const STDIN: &str = "<stdin>";

/// Reads a text file, or stdin if the name is -.
pub(crate) fn read_text(path: &Path, bytes_max: usize) -> Result<Source> {
    if path == Path::new("-") {
        return text(STDIN, io::stdin().lock(), bytes_max);
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    if file.metadata().is_ok_and(|about| about.is_dir()) {
        bail!("cannot read {name}: it is a folder, and a file is wanted");
    }
    text(&name, file, bytes_max)
}

fn text(name: &str, reader: impl Read, bytes_max: usize) -> Result<Source> {
    let mut bytes = Vec::new();
    reader
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {name}"))?;
    if bytes.len() > bytes_max {
        bail!("{name} is too large: the most is {bytes_max} bytes");
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        anyhow!("{name} is not UTF-8 text: byte {good} belongs to no character")
    })?;
    Ok(Source::new(name, without_mark(&text)))
}

/// Parses the JSON document in a text, and keeps its bytes.
pub(crate) fn json(source: &Source) -> Result<Payload> {
    Payload::from_text(source.text.clone()).map_err(|error| {
        let place = Span::new(error.at, error.at + 1);
        refusal(source, &Diagnostic::error(code::INVALID_JSON_DESCRIPTION, error.message).at("", place))
    })
}

/// Parses the document in a text, JSON or YAML.
pub(crate) fn payload(source: &Source) -> Result<Payload> {
    match source.format() {
        Format::Json => json(source),
        Format::Yaml => {
            let node = Node::parse(source).map_err(|diagnostic| refusal(source, &diagnostic))?;
            let read = Payload::from(node.to_value());
            if read.depth() > DEPTH_MAX {
                bail!("{}: nested more than {DEPTH_MAX} deep", source.name);
            }
            Ok(read)
        }
    }
}

/// A mistake in a document that is not a definition, so without code and severity.
pub(crate) fn refusal(source: &Source, diagnostic: &Diagnostic) -> anyhow::Error {
    let place = source.position(diagnostic.span.start);
    let message = &diagnostic.message;
    anyhow!("{}:{}:{}: {message}", source.name, place.line, place.column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_or_no_text_is_refused_by_name() {
        let read = |bytes: &[u8], most| text("a.json", bytes, most).map(|source| source.text.to_string());
        assert_eq!(read(b"{}", 2).unwrap(), "{}");
        assert_eq!(read(b"\xef\xbb\xbf{}", 5).unwrap(), "{}");
        assert_eq!(read(b"{ }", 2).unwrap_err().to_string(), "a.json is too large: the most is 2 bytes");
        let garbage = read(b"ab\xff", 10).unwrap_err().to_string();
        assert_eq!(garbage, "a.json is not UTF-8 text: byte 2 belongs to no character");
    }

    #[test]
    fn a_document_is_json_or_yaml_by_its_name_and_a_mistake_has_a_place() {
        let read = |name: &str, text: &str| payload(&Source::new(name, text)).map(|read| read.to_string());
        assert_eq!(read("a.json", "{ \"a\": 1 }").unwrap(), "{ \"a\": 1 }");
        assert_eq!(read("a.yaml", "a: [1, two]").unwrap(), r#"{"a":[1,"two"]}"#);
        assert!(read("a.json", "{\n \"a\": }").unwrap_err().to_string().starts_with("a.json:2:7: "));
        assert!(read("a.yaml", "a: [").unwrap_err().to_string().starts_with("a.yaml:"));
        let deep = "[".repeat(10_000);
        assert!(read("a.json", &deep).unwrap_err().to_string().contains("deep"));
    }
}
