//! Reads items into a run.
//!
//! Fetching and feeding wait, so they are async. Parsing computes, so it has a thread of its own for each file. The
//! thread is not from a pool: it waits for as long as the run does, and runs may be nested. Between them are channels
//! with room for one piece, so no part runs ahead.

use super::ItemStores;
use super::batch::{Batch, Quota, Trouble, in_batches};
use super::content::{Content, Opened, Pieces};
use super::folder::blocking;
use super::listing::{Digest, Entry, PAGE_ENTRIES};
use super::manifest::{self, MANIFEST_BYTES_MAX, Manifest};
use super::parse::items;
use super::place::{Place, PlaceError};
use super::reading::{Format, Location, Reading};
use super::unpack::unpack;
use bytes::Bytes;
use perdura_engine::asl::error::ITEM_READER;
use perdura_engine::asl::json::Value;
use perdura_engine::{Fault, ReaderOrder};
use perdura_runtime::{Feed, ReadOrder, Source, Unwanted};
use std::convert::Infallible;
use std::future::pending;
use std::io::{self, Read};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A packed file may unpack to so many times the largest file size.
const UNPACKED_RATIO: u64 = 10;

/// Reads the items of the order into its feed, and ends it.
pub async fn read(stores: &ItemStores, order: ReadOrder) {
    let ReadOrder { reader, feed } = order;
    let done = match (refused(&reader), Reading::of(&reader)) {
        (Some(words), _) => Err(Stop::Failed(words.into())),
        (None, Err(what)) => Err(Stop::Failed(format!("The ItemReader cannot be used: {what}"))),
        (None, Ok(reading)) => {
            let mut run = Run { stores, feed: &feed, quota: Quota::of(reader.max_items) };
            run.read(&reading).await
        }
    };
    feed.end(match done {
        Ok(()) | Err(Stop::Unwanted) => Ok(()),
        Err(Stop::Failed(cause)) => {
            tracing::warn!(cause, "items cannot be read");
            Err(Fault::new(ITEM_READER, cause))
        }
    });
}

/// Orders that AWS refuses before it reads anything, with its message.
fn refused(reader: &ReaderOrder) -> Option<&'static str> {
    if reader.max_items.is_some_and(|most| most < 0) {
        return Some("field MaxItems must be positive");
    }
    let headers = reader.config.get("CSVHeaders").and_then(Value::as_array).unwrap_or_default();
    let repeats = |at: usize| headers[..at].contains(&headers[at]);
    (0..headers.len()).any(repeats).then_some("CSV headers cannot contain duplicates.")
}

/// Why reading ends early.
enum Stop {
    Unwanted,
    Failed(String),
}

impl From<Unwanted> for Stop {
    fn from(_: Unwanted) -> Self {
        Self::Unwanted
    }
}

/// A message of the parsing thread.
enum Parsed {
    Items(Vec<Value>),
    End(Result<Quota, Trouble>),
}

/// One order under way.
struct Run<'r> {
    stores: &'r ItemStores,
    feed: &'r Feed,
    quota: Quota,
}

impl Run<'_> {
    async fn read(&mut self, reading: &Reading) -> Result<(), Stop> {
        let name = reading.source();
        match reading {
            Reading::File { at, format } => {
                let opened = self.open(at).await?;
                self.feed.begin(Source { name, version: opened.version.clone() });
                self.file(at, opened, format).await
            }
            Reading::Inventory { at } => {
                let (version, text) = self.manifest(at).await?;
                self.feed.begin(Source { name, version });
                self.files(&manifest::inventory(&text).map_err(|what| failed(at, what))?).await
            }
            Reading::Athena { at, format } => {
                let (version, text) = self.manifest(at).await?;
                self.feed.begin(Source { name, version });
                let manifest = manifest::athena(&text, format.clone()).map_err(|what| failed(at, what))?;
                self.files(&manifest).await
            }
            Reading::Listing { bucket, prefix, load } => {
                let at = Location { bucket: bucket.clone(), key: prefix.clone(), version_id: None };
                self.listing(&at, load.as_ref(), name).await
            }
        }
    }

    async fn open(&self, at: &Location) -> Result<Opened, Stop> {
        let place = self.stores.place(&at.bucket).map_err(|error| failed(at, error))?;
        let opened = place.open(at).await.map_err(|error| failed(at, error))?;
        let most = self.stores.file_bytes_max();
        match opened.size {
            Some(size) if size > most => {
                Err(failed(at, format!("it has {size} bytes, and the most is {most} (items.file_bytes_max)")))
            }
            Some(_) | None => Ok(opened),
        }
    }

    /// A whole manifest, unpacked.
    async fn manifest(&self, at: &Location) -> Result<(Arc<str>, Vec<u8>), Stop> {
        let opened = self.open(at).await?;
        let mut packed = Vec::new();
        let mut content = opened.content;
        while let Some(piece) = content.next().await.map_err(|error| failed(at, error))? {
            packed.extend_from_slice(&piece);
            if packed.len() as u64 > MANIFEST_BYTES_MAX {
                return Err(failed(at, format!("a manifest may have {MANIFEST_BYTES_MAX} bytes at most")));
            }
        }
        let key = at.key.clone();
        let unpacked = blocking(move || {
            let mut text = Vec::new();
            let unpacked = unpack(io::Cursor::new(packed), &key, MANIFEST_BYTES_MAX)
                .and_then(|mut bytes| bytes.read_to_end(&mut text));
            unpacked.map_err(|error| PlaceError::Refused(error.to_string()))?;
            Ok(text)
        });
        Ok((opened.version, unpacked.await.map_err(|error| failed(at, error))?))
    }

    async fn files(&mut self, manifest: &Manifest) -> Result<(), Stop> {
        for at in &manifest.files {
            if self.quota.is_used_up() {
                return Ok(());
            }
            let opened = self.open(at).await?;
            self.file(at, opened, &manifest.format).await?;
        }
        Ok(())
    }

    /// The items of one file.
    async fn file(&mut self, at: &Location, opened: Opened, format: &Format) -> Result<(), Stop> {
        let (sender, mut parsed) = mpsc::channel(1);
        let (pump, bytes) = split(opened.content);
        let (format, key, quota) = (format.clone(), at.key.clone(), self.quota);
        let unpacked_max = self.stores.file_bytes_max().saturating_mul(UNPACKED_RATIO);
        let work = move || {
            let done = items(&format, &key, unpacked_max, bytes).map_err(Trouble::from).and_then(|items| {
                in_batches(items, quota, |batch| sender.blocking_send(Parsed::Items(batch)).is_ok())
            });
            // Fails only if the receiver is gone.
            drop(sender.blocking_send(Parsed::End(done)));
        };
        std::thread::Builder::new()
            .name("items-parse".into())
            .spawn(work)
            .map_err(|error| failed(at, format!("there is no thread to parse with: {error}")))?;
        let feed = self.feed;
        let drain = async {
            loop {
                match parsed.recv().await {
                    Some(Parsed::Items(batch)) => feed.give(batch).await?,
                    Some(Parsed::End(done)) => return done.map_err(|error| failed(at, error)),
                    None => {
                        return Err(failed(
                            at,
                            "the thread that parses it died; this is a mistake in perdura",
                        ));
                    }
                }
            }
        };
        // Fetching goes on while the run makes room; otherwise the client would time out on its unread answer.
        self.quota = tokio::select! {
            biased;
            done = drain => done?,
            never = pump => match never {},
        };
        Ok(())
    }

    /// The objects of a bucket, or the items in them. The version of a bucket's listing is known only at its end and
    /// needed before the first item, so a listing of more than a page is made twice.
    async fn listing(&mut self, at: &Location, load: Option<&Format>, name: Arc<str>) -> Result<(), Stop> {
        let place = self.stores.place(&at.bucket).map_err(|error| failed(at, error))?;
        let most = if load.is_none() { self.quota.left() } else { u64::MAX };
        let mut first = Pass::new(most);
        let mut held = Vec::new();
        let mut lister = place.list(&at.key).map_err(|error| failed(at, error))?;
        while let Some(page) = lister.next_page().await.map_err(|error| failed(at, error))? {
            let page = first.cut(page);
            if first.count <= PAGE_ENTRIES as u64 {
                held.extend(page);
            }
            if first.is_over() {
                break;
            }
        }
        self.feed.begin(Source { name, version: first.digest.version() });
        if first.count <= PAGE_ENTRIES as u64 {
            return self.entries(at, &place, load, held).await;
        }
        let mut second = Pass::new(most);
        let mut lister = place.list(&at.key).map_err(|error| failed(at, error))?;
        while let Some(page) = lister.next_page().await.map_err(|error| failed(at, error))? {
            let page = second.cut(page);
            self.entries(at, &place, load, page).await?;
            if second.is_over() || self.quota.is_used_up() {
                break;
            }
        }
        let is_whole = second.is_over() || !self.quota.is_used_up();
        if is_whole && second.digest != first.digest {
            return Err(failed(at, "what the bucket holds changed while it was listed: start the run again"));
        }
        Ok(())
    }

    async fn entries(
        &mut self,
        at: &Location,
        place: &Place,
        load: Option<&Format>,
        entries: Vec<Entry>,
    ) -> Result<(), Stop> {
        let Some(format) = load else {
            let mut batch = Batch::default();
            for entry in entries {
                if self.quota.is_used_up() {
                    break;
                }
                self.quota.take_one().map_err(|error| failed(at, error))?;
                if let Some(full) = batch.add(entry.item()) {
                    self.feed.give(full).await?;
                }
            }
            let rest = batch.take();
            if !rest.is_empty() {
                self.feed.give(rest).await?;
            }
            return Ok(());
        };
        for entry in entries.into_iter().filter(|entry| !entry.is_folder_mark()) {
            if self.quota.is_used_up() {
                break;
            }
            let at = Location { bucket: at.bucket.clone(), key: entry.key.clone(), version_id: None };
            let opened = place.open(&at).await.map_err(|error| failed(&at, error))?;
            if !entry.etag.is_empty() && opened.version.trim_matches('"') != entry.etag.trim_matches('"') {
                return Err(failed(&at, PlaceError::Changed));
            }
            self.file(&at, opened, format).await?;
        }
        Ok(())
    }
}

/// One pass over a listing.
struct Pass {
    digest: Digest,
    count: u64,
    most: u64,
}

impl Pass {
    fn new(most: u64) -> Self {
        Self { digest: Digest::new(), count: 0, most }
    }

    /// The wanted entries of a page.
    fn cut(&mut self, mut page: Vec<Entry>) -> Vec<Entry> {
        let left = usize::try_from(self.most - self.count).unwrap_or(usize::MAX);
        page.truncate(left);
        for entry in &page {
            self.digest.add(entry);
        }
        self.count += page.len() as u64;
        page
    }

    fn is_over(&self) -> bool {
        self.count >= self.most
    }
}

/// The async side of a content, and the blocking reader for a thread.
fn split(content: Content) -> (impl Future<Output = Infallible>, Box<dyn Read + Send>) {
    let (sender, from) = mpsc::channel(1);
    let (fetched, bytes): (_, Box<dyn Read + Send>) = match content {
        Content::File(file) => (None, Box::new(file)),
        remote @ Content::Remote(_) => (Some(remote), Box::new(Pieces { from, piece: Bytes::new() })),
    };
    let pump = async move {
        if let Some(mut content) = fetched {
            while let Some(piece) = content.next().await.transpose() {
                let is_last = piece.is_err();
                if sender.send(piece).await.is_err() || is_last {
                    break;
                }
            }
        }
        // Dropping it ends the thread's bytes; the thread sends the last message.
        drop(sender);
        pending().await
    };
    (pump, bytes)
}

fn failed(at: &Location, what: impl std::fmt::Display) -> Stop {
    let what = what.to_string();
    Stop::Failed(format!("The items in {at} cannot be read: {}.", what.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::parse;
    use perdura_engine::asl::resource::Resource;

    #[test]
    fn aws_refuses_some_readers_before_reading() {
        let words = |config: &str, max_items: Option<i64>| {
            let resource = Resource::parse("arn:aws:states:::s3:getObject").unwrap();
            let config = parse(config).unwrap();
            refused(&ReaderOrder { resource, arguments: Value::empty_object().into(), config, max_items })
        };
        assert_eq!(words("{}", Some(-1)), Some("field MaxItems must be positive"));
        assert_eq!(words("{}", Some(0)), None);
        let headers = |names: &str| words(&format!(r#"{{"CSVHeaders": {names}}}"#), None);
        assert_eq!(headers(r#"["a", "b", "a"]"#), Some("CSV headers cannot contain duplicates."));
        assert_eq!(headers(r#"["a", "b"]"#), None);
    }
}
