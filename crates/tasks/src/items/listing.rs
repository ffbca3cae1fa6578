//! What a bucket holds: pages of entries, in the order of their keys.

use super::folder::Folder;
use super::parse::Item;
use super::place::PlaceError;
use super::s3::S3;
use super::walk;
use percent_encoding::percent_decode_str;
use perdura_engine::asl::json::Map;
use perdura_engine::asl::timestamp;
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::mpsc;
use uuid::Uuid;

/// The most entries of a page.
pub(super) const PAGE_ENTRIES: usize = 1_000;

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Arc<str>,
    pub(super) size: u64,
    /// In milliseconds since 1970.
    pub(super) modified_ms: i64,
    /// Its tag, as an opened file has it for its version.
    pub(super) etag: Arc<str>,
    pub(super) class: Arc<str>,
}

impl Entry {
    /// Whether it only stands for a folder, as some programs write it.
    pub(super) fn is_folder_mark(&self) -> bool {
        self.key.ends_with('/') && self.size == 0
    }

    /// As an item of a run: the members that S3 lists, and its time in seconds.
    pub(super) fn item(&self) -> Item {
        let mut object = Map::with_capacity(5);
        object.insert("Etag", self.etag.clone());
        object.insert("Key", self.key.clone());
        object.insert("LastModified", self.modified_ms.div_euclid(1_000));
        object.insert("Size", self.size);
        object.insert("StorageClass", self.class.clone());
        let bytes = self.key.len() + self.etag.len() + 64;
        Item { value: object.into(), bytes }
    }
}

/// What changes when any entry does: a chain of name-based ids, each of the one before and of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digest(Uuid);

impl Digest {
    /// Of no entries.
    pub(super) fn new() -> Self {
        Self(Uuid::nil())
    }

    /// With one more.
    pub(super) fn add(&mut self, entry: &Entry) {
        let Entry { key, size, modified_ms, etag, class: _ } = entry;
        let text = format!("{}:{key}{size}:{modified_ms}:{etag}", key.len());
        self.0 = Uuid::new_v5(&self.0, text.as_bytes());
    }

    /// As the version of a source.
    pub(super) fn version(self) -> Arc<str> {
        self.0.to_string().into()
    }
}

/// A part of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    /// Where the next one begins.
    pub(super) next: Option<String>,
}

/// A listing under way.
pub(super) enum Lister {
    S3 { s3: Box<S3>, prefix: String, token: Option<String>, is_over: bool },
    Folder { pages: mpsc::Receiver<Result<Vec<Entry>, PlaceError>> },
}

impl Lister {
    pub(super) fn of_s3(s3: S3, prefix: &str) -> Self {
        Self::S3 { s3: Box::new(s3), prefix: prefix.to_owned(), token: None, is_over: false }
    }

    pub(super) fn of_folder(folder: &Folder, prefix: &str) -> Result<Self, PlaceError> {
        Ok(Self::Folder { pages: walk::start(folder, prefix)? })
    }

    /// The next entries; `None` at the end.
    pub(super) async fn next_page(&mut self) -> Result<Option<Vec<Entry>>, PlaceError> {
        match self {
            Self::S3 { is_over: true, .. } => Ok(None),
            Self::S3 { s3, prefix, token, is_over } => {
                let page = s3.page(prefix, token.as_deref()).await?;
                *is_over = page.next.is_none();
                *token = page.next;
                Ok(Some(page.entries))
            }
            Self::Folder { pages } => pages.recv().await.transpose(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WirePage {
    #[serde(default)]
    contents: Vec<WireEntry>,
    #[serde(default)]
    is_truncated: bool,
    next_continuation_token: Option<String>,
    encoding_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireEntry {
    key: String,
    last_modified: String,
    #[serde(rename = "ETag", default)]
    e_tag: String,
    size: u64,
    storage_class: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireError {
    code: String,
    #[serde(default)]
    message: String,
}

/// Reads an answer to ListObjectsV2.
pub(super) fn read_page(xml: &str) -> Result<Page, PlaceError> {
    let unreadable = |what: String| PlaceError::Failed(format!("its listing cannot be read: {what}"));
    let page: WirePage = quick_xml::de::from_str(xml).map_err(|error| unreadable(error.to_string()))?;
    let is_encoded = page.encoding_type.as_deref() == Some("url");
    let entries = page.contents.into_iter().map(|entry| {
        let key = if is_encoded { decode(&entry.key).map_err(unreadable)? } else { entry.key };
        let modified_ms = timestamp::parse_ms(&entry.last_modified)
            .ok_or_else(|| unreadable(format!("{} is not a time", entry.last_modified)))?;
        Ok(Entry {
            key: key.into(),
            size: entry.size,
            modified_ms,
            etag: entry.e_tag.into(),
            class: entry.storage_class.as_deref().unwrap_or("STANDARD").into(),
        })
    });
    let entries = entries.collect::<Result<_, _>>()?;
    let next = page.next_continuation_token.filter(|_| page.is_truncated);
    if page.is_truncated && next.is_none() {
        return Err(unreadable("it goes on, but does not say where".into()));
    }
    Ok(Page { entries, next })
}

/// What a store says of a refusal.
pub(super) fn read_error(xml: &str) -> Option<String> {
    let error: WireError = quick_xml::de::from_str(xml).ok()?;
    Some(format!("{} {}", error.code, error.message).trim().to_owned())
}

fn decode(key: &str) -> Result<String, String> {
    let spaced = key.replace('+', " ");
    let decoded =
        percent_decode_str(&spaced).decode_utf8().map_err(|_| format!("the key {key} is not UTF-8"))?;
    Ok(decoded.into_owned())
}
