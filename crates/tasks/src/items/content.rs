//! The bytes of an opened file, a piece at a time.
//!
//! What lies elsewhere is fetched in blocks, each with a request of its own that holds only for the version first seen. A
//! run may take hours to use what it was given; a connection that is closed meanwhile costs only the rest of its block,
//! which is asked for again.

use super::folder::{blocking, trouble};
use super::place::PlaceError;
use super::remote::Remote;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use tokio::sync::mpsc;

/// How much is fetched with one request.
pub(super) const BLOCK_BYTES: u64 = 4 * 1024 * 1024;

/// A file that is there.
pub(super) struct Opened {
    /// What changes when its content does.
    pub(super) version: Arc<str>,
    /// How large it is, as it is stored. A web server need not say.
    pub(super) size: Option<u64>,
    pub(super) content: Content,
}

/// Where its bytes come from.
pub(super) enum Content {
    /// Read by the thread that parses.
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

/// Pieces that somebody else fetches, for a thread that reads.
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

/// Refuses what no reader here undoes.
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

/// How much an answer says that there is.
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
