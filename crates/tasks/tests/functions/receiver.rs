//! A receiver over HTTP for tests: it keeps what it is sent, and answers as it is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    /// By their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// What is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// A status, further header lines, and a body.
    With(u16, &'static str, &'static str),
    /// Nothing, for as long as the caller waits.
    Silence,
    /// The connection is closed without an answer.
    Hangup,
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    /// What came, in the order in which it came.
    pub(crate) requests: UnboundedReceiver<Request>,
    /// One for each caller that hung up before it had its answer.
    pub(crate) gone: UnboundedReceiver<()>,
}

impl Receiver {
    /// One that answers always the same.
    pub(crate) async fn that(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (told, requests) = unbounded_channel();
        let (left, gone) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(attend(stream, reply, told.clone(), left.clone()));
            }
        });
        Self { address, requests, gone }
    }
}

async fn attend(stream: TcpStream, reply: Reply, told: UnboundedSender<Request>, left: UnboundedSender<()>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        // A test need not look at what came.
        let _ = told.send(request);
        match reply {
            Reply::With(status, headers, body) => {
                let text = format!(
                    "HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n{headers}\r\n{body}",
                    body.len()
                );
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
            Reply::Silence => {
                let end = stream.read(&mut [0]).await;
                assert!(!matches!(end, Ok(1..)), "nobody speaks out of turn");
                let _ = left.send(());
                return;
            }
            Reply::Hangup => return,
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = String::from_utf8(body).expect("payloads are text");
    Some(Request { line: line.trim_end().to_owned(), headers, body })
}
