//! A minimal HTTP/1.1 client: one connection, one request at a time, only what this API needs.
//!
//! A larger client would take processor time from the server that is measured.

use anyhow::{Context, Result, bail};
use std::borrow::Cow;
use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The largest answer that the client reads.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// A request, ready to be sent any number of times.
#[derive(Debug)]
pub(super) struct Prepared {
    bytes: Vec<u8>,
    /// Where each has a key of its own; `None`: all are the same.
    key_at: Option<usize>,
    /// How many have had one.
    keyed: Cell<u64>,
    /// No other process of this kind has it.
    chance: u64,
}

impl Prepared {
    pub(super) fn new(address: SocketAddr, action: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: AWSStepFunctions.{action}\r\nContent-Length: {length}\r\n\r\n"
        );
        Self::of([head.as_bytes(), body.as_bytes()].concat(), None)
    }

    /// A POST to `/v1`, each time under another `Idempotency-Key`.
    pub(super) fn keyed(address: SocketAddr, path: &str, body: &str) -> Self {
        let length = body.len();
        let before = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nIdempotency-Key: "
        );
        let head = format!("{before}{}\r\n\r\n", key(0, 0));
        Self::of([head.as_bytes(), body.as_bytes()].concat(), Some(before.len()))
    }

    fn of(bytes: Vec<u8>, key_at: Option<usize>) -> Self {
        let chance = RandomState::new().build_hasher().finish();
        Self { bytes, key_at, keyed: Cell::new(0), chance }
    }

    /// As it is sent now.
    fn next(&self) -> Cow<'_, [u8]> {
        let Some(at) = self.key_at else { return Cow::Borrowed(&self.bytes) };
        self.keyed.set(self.keyed.get() + 1);
        let (mut bytes, key) = (self.bytes.clone(), key(self.chance, self.keyed.get()));
        bytes[at..at + key.len()].copy_from_slice(key.as_bytes());
        Cow::Owned(bytes)
    }
}

/// A UUID of version 4, by number.
fn key(chance: u64, number: u64) -> String {
    let (high, low) = (chance >> 32, chance & 0xffff);
    format!("{high:08x}-{low:04x}-4000-8000-{:012x}", number & 0xffff_ffff_ffff)
}

/// A kept connection.
pub(super) struct Client {
    stream: TcpStream,
    /// The bytes of the answer read so far.
    read: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("the server takes no connection")?;
        stream.set_nodelay(true).context("a connection cannot be made quick")?;
        Ok(Self { stream, read: Vec::with_capacity(4096) })
    }

    /// Sends a request, and returns the body of its answer, which must be a success.
    pub(super) async fn ask(&mut self, request: &Prepared) -> Result<&str> {
        self.stream.write_all(&request.next()).await.context("a request cannot be sent")?;
        self.read.clear();
        let whole = loop {
            if self.stream.read_buf(&mut self.read).await.context("an answer cannot be read")? == 0 {
                bail!("the server closed the connection before it answered");
            }
            if let Some(whole) = Whole::of(&self.read)? {
                break whole;
            }
        };
        let body = std::str::from_utf8(&self.read[whole.body]).context("an answer is no text")?;
        if !matches!(whole.status, 200 | 201) {
            bail!("the server answers {}: {body}", whole.status);
        }
        Ok(body)
    }
}

/// Where the parts of a complete answer are.
#[derive(Debug, PartialEq)]
struct Whole {
    status: u16,
    body: std::ops::Range<usize>,
}

impl Whole {
    /// `None`: the answer is not complete yet.
    fn of(read: &[u8]) -> Result<Option<Self>> {
        let Some(head_bytes) = read.windows(4).position(|end| end == b"\r\n\r\n") else {
            return Self::bounded(read.len()).map(|()| None);
        };
        let head = std::str::from_utf8(&read[..head_bytes]).context("the head of an answer is no text")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let lengths = head.lines().filter_map(|line| line.split_once(':'));
        let mut lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = lengths.next().and_then(|(_, length)| length.trim().parse::<usize>().ok());
        let (Some(status), Some(length)) = (status, length) else {
            bail!("the head of an answer lacks status or length: {head}");
        };
        Self::bounded(length)?;
        let start = head_bytes + 4;
        Ok((read.len() >= start + length).then_some(Self { status, body: start..start + length }))
    }

    fn bounded(bytes: usize) -> Result<()> {
        if bytes > ANSWER_BYTES_MAX {
            bail!("an answer has more than {ANSWER_BYTES_MAX} bytes");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_a_key_of_its_own_where_it_has_one() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let keyed = Prepared::keyed(address, "/v1/executions", "{}");
        let (one, two) = (keyed.next().into_owned(), keyed.next().into_owned());
        assert!(one != two && one.len() == two.len() && one.ends_with(b"\r\n\r\n{}"));
        let plain = Prepared::new(address, "StartExecution", "{}");
        assert_eq!(plain.next(), plain.next());
    }

    #[test]
    fn an_answer_is_whole_when_its_body_is_there() {
        let answer = b"HTTP/1.1 200 OK\r\nx: y\r\nContent-Length: 2\r\n\r\n{}";
        for cut in 0..answer.len() {
            assert_eq!(Whole::of(&answer[..cut]).unwrap(), None, "{cut}");
        }
        let whole = Whole::of(answer).unwrap().unwrap();
        assert_eq!((whole.status, &answer[whole.body]), (200, &b"{}"[..]));
        for (bad, expected) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], "lacks status or length"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n", "has more than"),
        ] {
            assert!(Whole::of(bad).unwrap_err().to_string().contains(expected));
        }
    }
}
