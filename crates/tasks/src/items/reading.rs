//! The request of an `ItemReader`, parsed once from its evaluated fields. Pure.

use super::json::Pointer;
use perdura_engine::ReaderOrder;
use perdura_engine::asl::json::Value;
use std::fmt;
use std::sync::Arc;

/// The source to read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading {
    /// The items in one file.
    File { at: Location, format: Format },
    /// The objects that an S3 inventory lists.
    Inventory { at: Location },
    /// The items in the files that a manifest of Athena names.
    Athena { at: Location, format: Format },
    /// The objects of a bucket, or the items in them.
    Listing { bucket: Arc<str>, prefix: Arc<str>, load: Option<Format> },
}

/// The location of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) bucket: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) version_id: Option<Arc<str>>,
}

/// The format of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Format {
    /// Fields between delimiters; the names of the columns, or `None` if the first row has them.
    Csv { delimiter: u8, headers: Option<Arc<[Arc<str>]>> },
    /// One document with a list or an object of items somewhere in it.
    Json { pointer: Option<Pointer> },
    /// A document on each line.
    JsonLines,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "S3://{}/{}", self.bucket, self.key)
    }
}

impl Reading {
    /// Parses the order; the error says what is wrong with it.
    pub(super) fn of(order: &ReaderOrder) -> Result<Self, String> {
        let (arguments, config) = (order.arguments.value(), &order.config);
        let bucket =
            argument(arguments, "Bucket")?.ok_or("`Bucket` is missing: name the bucket to read from.")?;
        let manifest = word(config, "ManifestType");
        let action = order.resource.arn.rsplit(':').next().unwrap_or_default();
        match action {
            "listObjectsV2" => {
                let prefix = argument(arguments, "Prefix")?.unwrap_or_default();
                let load = match word(config, "Transformation") {
                    Some("LOAD_AND_FLATTEN") => Some(format(config)?),
                    _ => None,
                };
                Ok(Self::Listing { bucket, prefix, load })
            }
            "getObject" => {
                let key = argument(arguments, "Key")?.ok_or("`Key` is missing: name the file to read.")?;
                let at = Location { bucket, key, version_id: argument(arguments, "VersionId")? };
                match (manifest, word(config, "InputType")) {
                    (Some("ATHENA_DATA"), _) => Ok(Self::Athena { at, format: format(config)? }),
                    (Some("S3_INVENTORY"), None | Some("MANIFEST")) | (None, Some("MANIFEST")) => {
                        match word(config, "Transformation") {
                            Some("LOAD_AND_FLATTEN") => Err(
                                "LOAD_AND_FLATTEN does not apply to an S3 inventory: list the objects with \
                                     s3:listObjectsV2 to load them."
                                    .into(),
                            ),
                            _ => Ok(Self::Inventory { at }),
                        }
                    }
                    (Some("S3_INVENTORY"), Some(other)) => {
                        Err(format!("an S3 inventory has no InputType {other}: leave InputType out."))
                    }
                    (Some(other), _) => Err(format!("ManifestType {other} is not known.")),
                    (None, _) => Ok(Self::File { at, format: format(config)? }),
                }
            }
            other => Err(format!("s3:{other} does not read items: use s3:getObject or s3:listObjectsV2.")),
        }
    }

    /// The source of an item in the context object.
    pub(super) fn source(&self) -> Arc<str> {
        match self {
            Self::File { at, .. } | Self::Inventory { at } | Self::Athena { at, .. } => at.to_string().into(),
            Self::Listing { bucket, .. } => format!("S3://{bucket}").into(),
        }
    }
}

fn argument(arguments: &Value, name: &str) -> Result<Option<Arc<str>>, String> {
    match arguments.get(name) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() || name == "Prefix" => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{name}` must be a text that is not empty, and is {other}.")),
    }
}

fn word<'v>(config: &'v Value, name: &str) -> Option<&'v str> {
    config.get(name).and_then(Value::as_str)
}

fn format(config: &Value) -> Result<Format, String> {
    match word(config, "InputType") {
        Some("CSV") => {
            let delimiter = match word(config, "CSVDelimiter") {
                None | Some("COMMA") => b',',
                Some("PIPE") => b'|',
                Some("SEMICOLON") => b';',
                Some("SPACE") => b' ',
                Some("TAB") => b'\t',
                Some(other) => return Err(format!("CSVDelimiter {other} is not known.")),
            };
            let headers = match word(config, "CSVHeaderLocation") {
                Some("GIVEN") => Some(headers(config)?),
                Some("FIRST_ROW") | None => None,
                Some(other) => return Err(format!("CSVHeaderLocation {other} is not known.")),
            };
            Ok(Format::Csv { delimiter, headers })
        }
        Some("JSON") => {
            let pointer = word(config, "ItemsPointer").map(Pointer::parse).transpose()?;
            Ok(Format::Json { pointer })
        }
        Some("JSONL") => Ok(Format::JsonLines),
        Some("PARQUET") => {
            Err("InputType PARQUET cannot be read here: convert the file to JSONL or CSV.".into())
        }
        Some(other) => Err(format!("InputType {other} cannot be read here: use CSV, JSON or JSONL.")),
        None => Err("`InputType` is missing in ReaderConfig: say CSV, JSON or JSONL.".into()),
    }
}

fn headers(config: &Value) -> Result<Arc<[Arc<str>]>, String> {
    let names = config.get("CSVHeaders").and_then(Value::as_array).unwrap_or_default();
    if names.is_empty() {
        return Err("CSVHeaderLocation is GIVEN, but CSVHeaders has no names.".into());
    }
    names
        .iter()
        .map(|name| match name {
            Value::String(text) => Ok(text.clone()),
            other => Err(format!("CSVHeaders must be texts, and one is {other}.")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::{Payload, parse};
    use perdura_engine::asl::resource::Resource;

    fn order(action: &str, arguments: &str, config: &str) -> ReaderOrder {
        ReaderOrder {
            resource: Resource::parse(&format!("arn:aws:states:::s3:{action}")).expect("an ARN"),
            arguments: Payload::from_text(arguments).expect("JSON"),
            config: parse(config).expect("JSON"),
            max_items: None,
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_a_remedy() {
        let file = r#"{"Bucket": "b", "Key": "k"}"#;
        let table = [
            ("getObject", r#"{"Key": "k"}"#, r#"{"InputType": "JSON"}"#, "`Bucket` is missing"),
            ("getObject", r#"{"Bucket": "b"}"#, r#"{"InputType": "JSON"}"#, "`Key` is missing"),
            ("getObject", r#"{"Bucket": "b", "Key": 7}"#, r#"{"InputType": "JSON"}"#, "`Key` must be a text"),
            (
                "getObject",
                r#"{"Bucket": "", "Key": "k"}"#,
                r#"{"InputType": "JSON"}"#,
                "`Bucket` must be a text",
            ),
            ("getObject", file, "{}", "`InputType` is missing"),
            ("getObject", file, r#"{"InputType": "PARQUET"}"#, "convert the file to JSONL or CSV"),
            ("getObject", file, r#"{"InputType": "CSV", "CSVHeaderLocation": "GIVEN"}"#, "no names"),
            (
                "getObject",
                file,
                r#"{"ManifestType": "S3_INVENTORY", "InputType": "CSV"}"#,
                "leave InputType out",
            ),
            (
                "getObject",
                file,
                r#"{"InputType": "MANIFEST", "Transformation": "LOAD_AND_FLATTEN"}"#,
                "s3:listObjectsV2",
            ),
            ("getObject", file, r#"{"ManifestType": "ATHENA_DATA", "InputType": "PARQUET"}"#, "PARQUET"),
            (
                "listObjectsV2",
                r#"{"Bucket": "b"}"#,
                r#"{"Transformation": "LOAD_AND_FLATTEN"}"#,
                "`InputType` is missing",
            ),
            ("headObject", file, "{}", "does not read items"),
        ];
        for (action, arguments, config, wanted) in table {
            let refused = Reading::of(&order(action, arguments, config)).expect_err(config);
            assert!(refused.contains(wanted), "{config}: {refused}");
        }
    }

    #[test]
    fn an_inventory_may_be_named_in_two_ways() {
        for config in [r#"{"InputType": "MANIFEST"}"#, r#"{"ManifestType": "S3_INVENTORY"}"#] {
            let reading = Reading::of(&order("getObject", r#"{"Bucket": "b", "Key": "k"}"#, config));
            assert!(matches!(reading, Ok(Reading::Inventory { .. })), "{config}: {reading:?}");
        }
    }
}
