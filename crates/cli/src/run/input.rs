//! The input and the name of an execution.

use crate::document;
use anyhow::{Context, Result, bail};
use perdura_asl::json::Payload;
use perdura_asl::source::Source;
use perdura_engine::{NAME_MAX, is_allowed_in_name};
use std::path::Path;

/// The input: JSON on the command line, or a file after an @.
pub(crate) fn read(argument: &str, bytes_max: usize) -> Result<Payload> {
    if let Some(file) = argument.strip_prefix('@') {
        let source = document::read_text(Path::new(file), bytes_max).context("the input is wrong")?;
        return document::payload(&source).context("the input is wrong");
    }
    if argument.len() > bytes_max {
        bail!("the input is too large: the most is {bytes_max} bytes");
    }
    let read = document::json(&Source::new("--input", argument));
    read.map_err(|error| {
        error.context(if Path::new(argument).is_file() {
            format!("the input is no JSON, but there is a file of that name: write --input @{argument}")
        } else {
            "the input is no JSON; for a file, write an @ before its name".into()
        })
    })
}

/// The machine's name: that of its file, without `.asl.json` or similar, made valid for an ARN.
pub(crate) fn machine_name(file: &Path) -> String {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut stem = name.as_str();
    for ending in [".json", ".yaml", ".yml", ".asl", ".states"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    let fit: String =
        stem.chars().map(|char| if is_allowed_in_name(char) { char } else { '-' }).take(NAME_MAX).collect();
    if fit.is_empty() || fit == "-" { "machine".into() } else { fit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_json_a_file_or_a_clear_complaint() {
        assert_eq!(read("{\"a\": 1}", 100).unwrap().to_string(), "{\"a\": 1}");
        assert_eq!(read("5", 100).unwrap().to_string(), "5");
        for (argument, expected) in [
            ("{a: 1}", "write an @ before its name: --input:1:2: "),
            ("a: 1", "write an @ before its name"),
            ("Cargo.toml", "write --input @Cargo.toml"),
            ("@no-such-file.json", "cannot read no-such-file.json"),
            ("[1,2,3,4,5,6,7,8]", "too large"),
        ] {
            let error = format!("{:#}", read(argument, 16).unwrap_err());
            assert!(error.contains(expected), "{argument}: {error}");
        }
    }

    #[test]
    fn a_machine_is_named_like_its_file() {
        for (file, expected) in [
            ("examples/order.asl.json", "order"),
            ("order.yaml", "order"),
            ("my order.asl.yml", "my-order"),
            ("grades.v2.json", "grades.v2"),
            ("-", "machine"),
            (".json", "machine"),
        ] {
            assert_eq!(machine_name(Path::new(file)), expected, "{file}");
        }
    }
}
