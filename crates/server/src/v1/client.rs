//! The client's side of the control socket: HTTP/1.1, one request after the other on a connection.

use super::asked::encode;
use super::wire::{Outgoing, heard};
use crate::Refusal;
use crate::control::{Answer, Request, SOCKET};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The largest head of an answer.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// The largest answer: a page with an input of 64 MiB fits.
const BODY_BYTES_MAX: u64 = 512 << 20;

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
}

/// Connects to the server of a data directory; `None`: there is none.
pub fn connect(data: &Path) -> io::Result<Option<Connection>> {
    match UnixStream::connect(data.join(SOCKET)) {
        Ok(stream) => Ok(Some(Connection { stream: BufReader::new(stream) })),
        // A killed server leaves its socket behind.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A stream of events of which only that there are some counts.
#[derive(Debug)]
pub struct Bell {
    stream: UnixStream,
}

/// What a bell told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rang {
    /// Something has moved.
    Moved,
    /// Nothing has moved for as long as was waited.
    Silent,
    /// The stream has ended: look, and take another bell.
    Ended,
}

/// The comment that keeps a stream open.
const STILL_HERE: &[u8] = b":";

impl Bell {
    /// A bell of one execution, for what follows from this Turn on. `None`: there is no server, or nothing follows.
    pub fn of_execution(data: &Path, execution: &str, from: u64) -> io::Result<Option<Self>> {
        let path = format!("/v1/executions/{}/events", encode(execution));
        Self::open(data, &path, &format!("Last-Event-ID: {from}-0\r\n"))
    }

    /// A bell of all executions.
    pub fn of_all(data: &Path) -> io::Result<Option<Self>> {
        Self::open(data, "/v1/executions:events", "")
    }

    fn open(data: &Path, path: &str, more: &str) -> io::Result<Option<Self>> {
        let Some(Connection { stream }) = connect(data)? else { return Ok(None) };
        let mut stream = stream.into_inner();
        // Without a frame around each event.
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{more}\r\n").as_bytes())?;
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() as u64 > HEAD_BYTES_MAX || stream.read(&mut byte)? == 0 {
                return Err(hung_up());
            }
            head.extend(byte);
        }
        Ok(head.starts_with(b"HTTP/1.0 200 ").then_some(Self { stream }))
    }

    /// Waits until it rings, for so long at most.
    pub fn wait(&mut self, most: Duration) -> io::Result<Rang> {
        let until = Instant::now() + most;
        let mut read = vec![0; 64 << 10];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Rang::Silent);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut read) {
                Ok(0) => return Ok(Rang::Ended),
                Ok(length) if read[..length].starts_with(STILL_HERE) && length < 8 => {}
                Ok(_) => return Ok(Rang::Moved),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(Rang::Silent);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Connection {
    pub fn ask(&mut self, request: &Request) -> io::Result<Result<Answer, Refusal>> {
        let (status, body) = self.send(&Outgoing::of(request))?;
        Ok(heard(request, status, &body)?)
    }

    /// Sends a request, and returns status and body of the answer.
    pub fn send(&mut self, outgoing: &Outgoing) -> io::Result<(u16, Vec<u8>)> {
        let Outgoing { method, path, body } = outgoing;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        let body = body.as_deref().unwrap_or_default();
        if !body.is_empty() {
            head.push_str("Content-Type: application/json\r\n");
            head.push_str(&["Content-Length: ", &body.len().to_string(), "\r\n"].concat());
        } else if *method != axum::http::Method::GET {
            head.push_str("Content-Length: 0\r\n");
        }
        head.push_str("\r\n");
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        self.receive()
    }

    fn receive(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let mut left = HEAD_BYTES_MAX;
        let line = self.line(&mut left)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or_else(|| strange("no status"))?;
        let mut length = 0;
        loop {
            let line = self.line(&mut left)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| strange("no length"))?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(strange("a body without a length"));
            }
        }
        if length > BODY_BYTES_MAX {
            return Err(strange("too long a body"));
        }
        let mut body = Vec::new();
        if (&mut self.stream).take(length).read_to_end(&mut body)? as u64 != length {
            return Err(hung_up());
        }
        Ok((status, body))
    }

    fn line(&mut self, left: &mut u64) -> io::Result<String> {
        let mut line = String::new();
        let read = (&mut self.stream).take(*left).read_line(&mut line)? as u64;
        *left -= read;
        if !line.ends_with('\n') {
            return Err(hung_up());
        }
        Ok(line.trim_end().to_owned())
    }
}

fn hung_up() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up without an answer")
}

fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server's answer has {what}"))
}
