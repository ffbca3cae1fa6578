//! Items of a Distributed Map that lie elsewhere, and the place where its results go.
//!
//! A definition names a bucket and a key, as on AWS. What stands behind a bucket's name is configured: a store that
//! speaks S3, a folder of this machine, or a base URL. So the same definition runs here and there.
//!
//! Reading is a line of small parts, and none of them holds more than a piece: a place gives bytes in blocks, a thread
//! of its own unpacks and parses them, and batches of items go into the [`Feed`](perdura_runtime::Feed) as the run takes
//! them. Nothing here decides what a failure means for the run; it is told as a fault with a cause that a person can act
//! on.

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
