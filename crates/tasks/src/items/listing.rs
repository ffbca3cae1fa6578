//! The listing of a bucket: pages of entries, in the order of their keys.

use super::folder::Folder;
use super::parse::Item;
use super::place::PlaceError;
use super::s3::S3;
use super::walk;
use crate::aws::{Element, read_xml};
use percent_encoding::percent_decode_str;
use perdura_engine::asl::json::Map;
use perdura_engine::asl::timestamp;
use std::fmt::Display;
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
    /// Its tag; an opened file has the same one as its version.
    pub(super) etag: Arc<str>,
    pub(super) class: Arc<str>,
}

impl Entry {
    /// Whether it only marks a folder, as some programs write it.
    pub(super) fn is_folder_mark(&self) -> bool {
        self.key.ends_with('/') && self.size == 0
    }

    /// The entry as an item: the members that S3 lists, and its time in seconds.
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

/// Changes when any entry changes: a chain of name-based ids, each made from the previous one and an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digest(Uuid);

impl Digest {
    /// The digest of no entries.
    pub(super) fn new() -> Self {
        Self(Uuid::nil())
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &Entry) {
        let Entry { key, size, modified_ms, etag, class: _ } = entry;
        let text = format!("{}:{key}{size}:{modified_ms}:{etag}", key.len());
        self.0 = Uuid::new_v5(&self.0, text.as_bytes());
    }

    /// The version of a source.
    pub(super) fn version(self) -> Arc<str> {
        self.0.to_string().into()
    }
}

/// A part of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    /// Where the next page begins.
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

/// Parses an answer to ListObjectsV2.
pub(super) fn read_page(body: &[u8]) -> Result<Page, PlaceError> {
    let page = read_xml(body).map_err(unreadable)?;
    let is_encoded = page.text_of("EncodingType") == Some("url");
    let contents = page.children.iter().filter(|child| child.name == "Contents");
    let entries = contents.map(|entry| read_entry(entry, is_encoded)).collect::<Result<_, _>>()?;
    let is_truncated = page.text_of("IsTruncated") == Some("true");
    let next = page.text_of("NextContinuationToken").filter(|_| is_truncated).map(str::to_owned);
    if is_truncated && next.is_none() {
        return Err(unreadable("it goes on, but does not say where"));
    }
    Ok(Page { entries, next })
}

fn read_entry(entry: &Element, is_encoded: bool) -> Result<Entry, PlaceError> {
    let text = |name: &str| {
        entry.text_of(name).ok_or_else(|| unreadable(format!("an object without {name} stands in it")))
    };
    let key = text("Key")?;
    let (size, modified) = (text("Size")?, text("LastModified")?);
    Ok(Entry {
        key: if is_encoded { decode(key).map_err(unreadable)?.into() } else { key.into() },
        size: size.parse().map_err(|_| unreadable(format!("{size} is not a size")))?,
        modified_ms: timestamp::parse_ms(modified)
            .ok_or_else(|| unreadable(format!("{modified} is not a time")))?,
        etag: entry.text_of("ETag").unwrap_or_default().into(),
        class: entry.text_of("StorageClass").unwrap_or("STANDARD").into(),
    })
}

fn unreadable(what: impl Display) -> PlaceError {
    PlaceError::Failed(format!("its listing cannot be read: {what}"))
}

/// The message in a store's error answer.
pub(super) fn read_error(body: &[u8]) -> Option<String> {
    let error = read_xml(body).ok().filter(|root| root.name == "Error")?;
    let message = error.text_of("Message").unwrap_or_default();
    Some(format!("{} {message}", error.text_of("Code")?).trim().to_owned())
}

fn decode(key: &str) -> Result<String, String> {
    let spaced = key.replace('+', " ");
    let decoded =
        percent_decode_str(&spaced).decode_utf8().map_err(|_| format!("the key {key} is not UTF-8"))?;
    Ok(decoded.into_owned())
}
