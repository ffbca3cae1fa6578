//! A server on this machine that does exactly what a test tells it, byte for byte, and remembers what it saw.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use url::Url;

/// What it does with a request.
pub(crate) enum Act {
    /// Sends this, and keeps the connection.
    Send(String),
    /// Sends this, and closes the connection.
    Last(String),
    /// Sends this, then resets the connection.
    Reset(String),
    /// Sends this, then nothing, for ever.
    Stall(String),
    /// Sends the first, then the second again and again until the other side goes.
    Endless(String, String),
}

impl Act {
    /// An answer with a body of JSON.
    pub(crate) fn json(status: &str, body: &str) -> Self {
        Self::typed(status, "application/json", body)
    }

    /// An answer with a body.
    pub(crate) fn typed(status: &str, media_type: &str, body: &str) -> Self {
        let length = body.len();
        Self::Send(format!(
            "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// First line and headers.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: String,
}

impl Seen {
    /// The values of a header.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    /// Method and path.
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1")
    }
}

type Script = dyn Fn(usize, &Seen) -> Act + Send + Sync;

/// The server; it ends with the test's runtime.
pub(crate) struct StandIn {
    address: SocketAddr,
    notes: Arc<Notes>,
}

struct Notes {
    script: Box<Script>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    sent_bytes: AtomicUsize,
    accepted: Semaphore,
    stalled: Semaphore,
    closed: Semaphore,
}

impl StandIn {
    /// Starts it with what it does with the n-th request, counted from 0.
    pub(crate) async fn start(script: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let notes = Arc::new(Notes {
            script: Box::new(script),
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            sent_bytes: AtomicUsize::new(0),
            accepted: Semaphore::new(0),
            stalled: Semaphore::new(0),
            closed: Semaphore::new(0),
        });
        let shared = notes.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                shared.accepted.add_permits(1);
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, notes }
    }

    /// Where it is.
    pub(crate) fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.address).parse().expect("a URL")
    }

    /// What it saw.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.notes.seen.lock().expect("not poisoned").clone()
    }

    /// How many connections it took.
    pub(crate) fn connections(&self) -> usize {
        self.notes.connections.load(Ordering::SeqCst)
    }

    /// How much it could send.
    pub(crate) fn sent_bytes(&self) -> usize {
        self.notes.sent_bytes.load(Ordering::SeqCst)
    }

    /// Makes a call, and lets its time run out once this server stalls. Nobody waits: from then on the clock moves
    /// whenever nothing else does.
    pub(crate) async fn outwaits<Answer>(&self, call: impl Future<Output = Answer>) -> Answer {
        outwait(&self.notes.stalled, call).await
    }

    /// The same, once this server has taken a connection.
    pub(crate) async fn outwaits_connecting<Answer>(&self, call: impl Future<Output = Answer>) -> Answer {
        outwait(&self.notes.accepted, call).await
    }

    /// Waits until it has closed a connection.
    pub(crate) async fn closed(&self) {
        self.notes.closed.acquire().await.expect("never closed itself").forget();
    }
}

async fn outwait<Answer>(signal: &Semaphore, call: impl Future<Output = Answer>) -> Answer {
    let stop = async {
        signal.acquire().await.expect("never closed").forget();
        tokio::time::pause();
    };
    let (answer, ()) = tokio::join!(call, stop);
    tokio::time::resume();
    answer
}

async fn serve(mut stream: TcpStream, notes: Arc<Notes>) {
    while let Some(seen) = read(&mut stream).await {
        let number = {
            let mut all = notes.seen.lock().expect("not poisoned");
            all.push(seen.clone());
            all.len() - 1
        };
        let act = (notes.script)(number, &seen);
        let (Act::Send(first)
        | Act::Last(first)
        | Act::Reset(first)
        | Act::Stall(first)
        | Act::Endless(first, _)) = &act;
        if stream.write_all(first.as_bytes()).await.is_err() {
            return;
        }
        match act {
            Act::Send(_) => {}
            Act::Last(_) => break,
            Act::Reset(_) => {
                stream.set_zero_linger().expect("a socket");
                break;
            }
            Act::Stall(_) => {
                notes.stalled.add_permits(1);
                std::future::pending::<()>().await;
            }
            Act::Endless(_, piece) => {
                while stream.write_all(piece.as_bytes()).await.is_ok() {
                    notes.sent_bytes.fetch_add(piece.len(), Ordering::SeqCst);
                }
            }
        }
    }
    drop(stream);
    notes.closed.add_permits(1);
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("headers are text");
            let length = Seen { head: head.clone(), body: String::new() }
                .header("content-length")
                .first()
                .map_or(0, |length| length.parse().expect("a number"));
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8(bytes[end + 4..].to_vec()).expect("a test's body is text");
                return Some(Seen { head, body });
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// An address on this machine where nobody listens.
pub(crate) async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("bound")
}
