//! The client's side of the socket.

use super::{Answer, LINE_BYTES_MAX, Request, SOCKET};
use crate::Refusal;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

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

impl Connection {
    pub fn ask(&mut self, request: &Request) -> io::Result<Result<Answer, Refusal>> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        line.clear();
        let read = (&mut self.stream).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up without an answer"));
        }
        Ok(serde_json::from_slice(&line)?)
    }
}
