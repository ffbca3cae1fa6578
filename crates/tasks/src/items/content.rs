//! The bytes of an opened file, a piece at a time.
//!
//! A remote file is fetched in blocks, each with a request of its own that is valid only for the version first seen. A
//! run may take hours to use the items; if a connection is closed meanwhile, only the rest of its block is requested
//! again.

use super::folder::{blocking, trouble};
use super::place::PlaceError;
use super::remote::Remote;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The size of a block.
pub(super) const BLOCK_BYTES: u64 = 4 * 1024 * 1024;

/// An opened file.
pub(super) struct Opened {
    /// Changes when the content changes.
    pub(super) version: Arc<str>,
    /// Its stored size. A web server may not report it.
    pub(super) size: Option<u64>,
    pub(super) content: Content,
}

/// The source of its bytes.
pub(super) enum Content {
    /// Read by the parsing thread.
    File(File),
    /// From a store or a web server.
    Remote(Box<Remote>),
}

impl Content {
    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, PlaceError> {
        match self {
            Self::Remote(remote) => remote.next().await,
            Self::File(file) => {
                let mut file = file.try_clone().map_err(|error| trouble(&error))?;
                blocking(move || {
                    let mut piece = Vec::new();
                    file.by_ref()
                        .take(BLOCK_BYTES)
                        .read_to_end(&mut piece)
                        .map_err(|error| trouble(&error))?;
                    Ok((!piece.is_empty()).then(|| piece.into()))
                })
                .await
            }
        }
    }
}

/// A blocking reader of pieces that another task fetches.
pub(super) struct Pieces {
    pub(super) from: mpsc::Receiver<Result<Bytes, PlaceError>>,
    pub(super) piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.from.blocking_recv() {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

/// Refuses content encodings that no reader here can decode.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), PlaceError> {
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("unreadable"));
    let words = encoding.unwrap_or_default().split(',').map(str::trim);
    for word in words {
        if !matches!(word, "" | "identity" | "aws-chunked" | "gzip" | "x-gzip" | "zstd") {
            let what = format!("its Content-Encoding is {word}: store it plain, or packed with gzip or zstd");
            return Err(PlaceError::Refused(what));
        }
    }
    Ok(())
}

/// The size that an answer announces.
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
