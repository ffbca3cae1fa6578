//! Files that name other files: an S3 inventory's manifest, and a manifest of Athena. Pure.

use super::lines::JsonLines;
use super::reading::{Format, Location};
use serde::Deserialize;
use std::sync::Arc;

/// The largest manifest, unpacked. It has a line for each file, not for each item.
pub(super) const MANIFEST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The files of a manifest.
#[derive(Debug, PartialEq)]
pub(super) struct Manifest {
    pub(super) files: Vec<Location>,
    pub(super) format: Format,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireInventory {
    destination_bucket: String,
    file_format: String,
    file_schema: String,
    files: Vec<WireFile>,
}

#[derive(Deserialize)]
struct WireFile {
    key: Arc<str>,
}

/// Parses the `manifest.json` of an S3 inventory. Its files have no row of names; the manifest has them.
pub(super) fn inventory(text: &[u8]) -> Result<Manifest, String> {
    let wire: WireInventory = serde_json::from_slice(text)
        .map_err(|error| format!("it is not the manifest.json of an S3 inventory: {error}"))?;
    if wire.file_format != "CSV" {
        let format = wire.file_format;
        return Err(format!("the inventory is written as {format}, and only CSV is read: configure it so"));
    }
    // S3 writes an ARN, and a plain name in older manifests.
    let bucket: Arc<str> = wire.destination_bucket.rsplit(':').next().unwrap_or_default().into();
    let headers = wire.file_schema.split(',').map(|name| name.trim().into()).collect();
    let files = wire.files.into_iter();
    let files = files.map(|file| Location { bucket: bucket.clone(), key: file.key, version_id: None });
    let format = Format::Csv { delimiter: b',', headers: Some(headers) };
    Ok(Manifest { files: files.collect(), format })
}

/// Parses a manifest of Athena: on each line the address of a file, `s3://bucket/key`.
pub(super) fn athena(text: &[u8], format: Format) -> Result<Manifest, String> {
    let mut lines = JsonLines::new(text);
    let mut files = Vec::new();
    while let Some(line) = lines.next_line().map_err(|error| error.to_string())? {
        let address = std::str::from_utf8(line).unwrap_or_default().trim_matches('"');
        let place = address.strip_prefix("s3://").and_then(|place| place.split_once('/'));
        match place {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                files.push(Location { bucket: bucket.into(), key: key.into(), version_id: None });
            }
            Some(_) | None => {
                let number = lines.number();
                return Err(format!("line {number} of the manifest is not an address like s3://bucket/key"));
            }
        }
    }
    Ok(Manifest { files, format })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_names_its_files_and_their_columns() {
        let text = br#"{"sourceBucket": "source", "destinationBucket": "arn:aws:s3:::lists", "version": "2016-11-30",
            "creationTimestamp": "1667779200000", "fileFormat": "CSV", "fileSchema": "Bucket, Key, Size",
            "files": [{"key": "source/daily/data/1.csv.gz", "size": 7, "MD5checksum": "f11166069f1990abeb9c97ace9cdfabc"}]}"#;
        let manifest = inventory(text).expect("a manifest");
        let headers: Arc<[Arc<str>]> = ["Bucket".into(), "Key".into(), "Size".into()].into();
        assert_eq!(manifest.format, Format::Csv { delimiter: b',', headers: Some(headers) });
        assert_eq!(manifest.files[0].to_string(), "S3://lists/source/daily/data/1.csv.gz");
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let orc = br#"{"destinationBucket": "b", "fileFormat": "ORC", "fileSchema": "", "files": []}"#;
        for (text, wanted) in [
            (&b"[]"[..], "not the manifest.json"),
            (b"{}", "not the manifest.json"),
            (orc, "only CSV is read"),
        ] {
            let refused = inventory(text).expect_err(wanted);
            assert!(refused.contains(wanted), "{refused}");
        }
        let text = b"s3://bucket/a\n\nhttps://example.org/b\n";
        let refused = athena(text, Format::JsonLines).expect_err("an address");
        assert!(refused.contains("line 3"), "{refused}");
    }

    #[test]
    fn a_manifest_of_athena_has_an_address_on_each_line() {
        let text = b"s3://results/tables/a.gz\r\n\"s3://results/tables/b c.gz\"\n";
        let manifest = athena(text, Format::JsonLines).expect("a manifest");
        let names: Vec<String> = manifest.files.iter().map(Location::to_string).collect();
        assert_eq!(names, ["S3://results/tables/a.gz", "S3://results/tables/b c.gz"]);
    }
}
