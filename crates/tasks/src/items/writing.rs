//! The request of a `ResultWriter`, parsed once from its evaluated fields. Pure.

use perdura_engine::WriterOrder;
use perdura_engine::asl::json::Value;
use std::sync::Arc;

/// The folder and format of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Writing {
    pub(super) bucket: Arc<str>,
    /// The prefix of all keys of this run, with a slash at its end.
    pub(super) folder: String,
    pub(super) output: Output,
    pub(super) transformation: Transformation,
}

/// `OutputType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// A file is one array.
    Json,
    /// A file has an entry on each line.
    JsonLines,
}

/// `Transformation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transformation {
    /// Everything about each child.
    None,
    /// Only outputs.
    Compact,
    /// Only outputs, with arrays of them joined.
    Flatten,
}

impl Writing {
    /// Parses the order; the error says what is wrong with it.
    pub(super) fn of(order: &WriterOrder, map_run_arn: &str) -> Result<Self, String> {
        let argument = |name: &str| match order.arguments.value().get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            None => Ok("".into()),
            Some(other) => Err(format!("`{name}` must be a text, and is {other}")),
        };
        let bucket = argument("Bucket")?;
        if bucket.is_empty() {
            return Err("`Bucket` is missing: name the bucket to write to".into());
        }
        let word = |name| order.config.get(name).and_then(Value::as_str);
        let output = match word("OutputType") {
            None | Some("JSON") => Output::Json,
            Some("JSONL") => Output::JsonLines,
            Some(other) => return Err(format!("OutputType {other} is not known: use JSON or JSONL")),
        };
        let transformation = match word("Transformation") {
            None | Some("NONE") => Transformation::None,
            Some("COMPACT") => Transformation::Compact,
            Some("FLATTEN") => Transformation::Flatten,
            Some(other) => {
                return Err(format!("Transformation {other} is not known: use NONE, COMPACT or FLATTEN"));
            }
        };
        let prefix = argument("Prefix")?;
        let run = map_run_arn.rsplit(':').next().unwrap_or_default();
        let folder = match prefix.trim_end_matches('/') {
            "" => format!("{run}/"),
            prefix => format!("{prefix}/{run}/"),
        };
        Ok(Self { bucket, folder, output, transformation })
    }
}
