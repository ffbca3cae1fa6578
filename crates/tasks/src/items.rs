//! Items of a Distributed Map from buckets, and the files for its results.
//!
//! A definition names a bucket and a key, as on AWS. The configuration says what a bucket's name stands for: a store
//! with S3's API, a folder of this machine, or a base URL. So the same definition runs here and there.
//!
//! Reading is a pipeline of small parts, and none of them holds more than a piece: a place gives bytes in blocks, a
//! thread of its own unpacks and parses them, and batches of items go into the [`Feed`](perdura_runtime::Feed) as the
//! run takes them. This module does not decide what a failure means for the run; it reports a fault with a cause that a
//! person can act on.

mod ask;
mod batch;
mod content;
mod csv;
mod entry;
mod folder;
mod json;
mod lines;
mod listing;
mod manifest;
mod outlet;
mod parse;
mod place;
mod reader;
mod reading;
mod remote;
mod s3;
mod settings;
mod stores;
mod unpack;
mod walk;
mod walker;
mod web;
mod writer;
mod writing;

pub use reader::read;
pub use settings::{BucketSettings, ItemSettings};
pub use stores::{ItemStores, SettingsError};
pub use writer::write;

/// The largest item, as its source writes it. AWS sets the same bound.
pub const ITEM_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most items of one run. AWS sets the same bound.
pub const ITEMS_MAX: u64 = 100_000_000;
