//! Unpacks gzip and Zstandard.
//!
//! The first bytes of a file show its format; no text format begins with them. A name that ends in `.gz` or `.zst` is a
//! promise: if the bytes do not match it, another file was stored there by mistake, and an error is better than reading
//! it as rows.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// How much is read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// The largest window of a Zstandard frame, and so the memory for it: enough for every level except the `--long` ones.
const ZSTD_WINDOW_MAX: u64 = 8 * 1024 * 1024;

/// Bytes whose beginning was inspected.
type Peeked<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// The unpacked bytes, at most `most`.
pub(super) fn unpack(bytes: impl Read + 'static, key: &str, most: u64) -> io::Result<Box<dyn BufRead>> {
    let (start, bytes) = peek(bytes, ZSTD.len())?;
    let extension = key.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let bytes = BufReader::with_capacity(BUFFER_BYTES, bytes);
    let (name, unpacked): (_, Box<dyn Read>) = if start.starts_with(GZIP) {
        ("gzip", Box::new(MultiGzDecoder::new(bytes)))
    } else if start.starts_with(ZSTD) || is_skippable(&start) {
        ("Zstandard", Box::new(Zstd::new(bytes)))
    } else {
        let promised = match &*extension {
            "gz" | "gzip" => "gzip",
            "zst" | "zstd" => "Zstandard",
            _ => return Ok(Box::new(bytes)),
        };
        let what = format!("its name says that it is packed with {promised}, and its content is not");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    };
    let bounded = Bounded { inner: unpacked, name, left: most, most };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, bounded)))
}

/// Text without a byte order mark.
pub(super) fn plain_text(bytes: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    let (start, mut bytes) = peek(bytes, BYTE_ORDER_MARK.len())?;
    if start == BYTE_ORDER_MARK {
        bytes.get_mut().0.set_position(start.len() as u64);
    }
    Ok(Box::new(bytes))
}

/// Whether a Zstandard file begins with a frame without content, as some parallel packers write.
fn is_skippable(start: &[u8]) -> bool {
    matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18])
}

/// Reads the first bytes without consuming them.
fn peek<R: Read>(mut bytes: R, count: usize) -> io::Result<(Vec<u8>, Peeked<R>)> {
    let mut start = Vec::with_capacity(count);
    bytes.by_ref().take(count as u64).read_to_end(&mut start)?;
    Ok((start.clone(), io::Cursor::new(start).chain(bytes)))
}

/// Fails if a small file unpacks to more than `most`, and explains every error.
struct Bounded {
    inner: Box<dyn Read>,
    name: &'static str,
    left: u64,
    most: u64,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let name = self.name;
        let count = self.inner.read(buffer).map_err(|error| {
            let what = format!("it cannot be unpacked as {name}, it is damaged or cut off: {error}");
            io::Error::new(error.kind(), what)
        })?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            let what = format!("it unpacks to more than {} bytes", self.most);
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        Ok(count)
    }
}

/// One Zstandard frame after the other; the format allows to concatenate files.
struct Zstd<R> {
    source: R,
    frame: FrameDecoder,
    is_open: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(ZSTD_WINDOW_MAX);
        Self { source, frame, is_open: false }
    }

    /// Advances to the next frame with content; `false` at the end.
    fn open(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped =
                        io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        Ok(false)
    }

    /// Checks the unpacked content against the frame's own size and checksum.
    fn check(&self) -> io::Result<()> {
        match (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum()) {
            (Some(written), Some(found)) if written != found => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum does not fit"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_open && self.frame.can_collect() > 0 {
                return self.frame.read(buffer);
            }
            if self.is_open && self.frame.is_finished() {
                self.check()?;
                self.is_open = false;
            }
            if !self.is_open {
                if !self.open()? {
                    return Ok(0);
                }
                self.is_open = true;
            }
            if !self.frame.is_finished() {
                self.frame
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
        }
    }
}
