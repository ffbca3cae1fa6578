//! A proxy between a store and its server, which cuts the connection at a chosen point and counts what passes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

/// Where the connection that carries a request is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The server does not get the request.
    BeforeTheRequest,
    /// The server has answered, and the answer does not arrive.
    BeforeTheReply,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    upstream: String,
    /// The next request with these bytes in it is cut there.
    next: Mutex<Option<(Vec<u8>, Point)>>,
    cuts: AtomicUsize,
    requests: AtomicUsize,
    everybody: broadcast::Sender<()>,
}

impl Proxy {
    /// In front of `host:port`.
    pub(crate) async fn start(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State {
            upstream,
            next: Mutex::new(None),
            cuts: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            everybody: broadcast::channel(1).0,
        });
        let passing = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(Arc::clone(&passing), client));
            }
        });
        Self { port, state }
    }

    /// In front of the server that a URL names, with the URL that leads through the proxy.
    pub(crate) async fn before(url: &str) -> (Self, String) {
        let (head, rest) = url.rsplit_once('@').expect("the URL has a password");
        let end = rest.find('/').unwrap_or(rest.len());
        let proxy = Self::start(rest[..end].to_owned()).await;
        let through = format!("{head}@127.0.0.1:{}{}", proxy.port, &rest[end..]);
        (proxy, through)
    }

    pub(crate) fn cut(&self, request: &[u8], point: Point) {
        *self.state.next.lock().expect("no test panics here") = Some((request.to_vec(), point));
    }

    /// How many connections were cut by [`cut`](Self::cut).
    pub(crate) fn cuts(&self) -> usize {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// How many times a client has spoken.
    pub(crate) fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn cut_everybody(&self) {
        self.state.everybody.send(()).expect("somebody is connected");
    }
}

/// Ends, and with it both connections, when one end closes or the point is reached.
async fn pass(state: Arc<State>, client: TcpStream) {
    let mut cut = state.everybody.subscribe();
    let Ok(server) = TcpStream::connect(&state.upstream).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut asked, mut told) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut swallow = false;
    loop {
        tokio::select! {
            _ = cut.recv() => return,
            read = from_client.read(&mut asked) => {
                let Ok(1..) = read else { return };
                let request = &asked[..read.expect("it was read")];
                state.requests.fetch_add(1, Ordering::SeqCst);
                match state.point_of(request) {
                    Some(Point::BeforeTheRequest) => return,
                    Some(Point::BeforeTheReply) => swallow = true,
                    None => {}
                }
                if to_server.write_all(request).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut told) => {
                let Ok(1..) = read else { return };
                let reply = &told[..read.expect("it was read")];
                if swallow || to_client.write_all(reply).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl State {
    fn point_of(&self, request: &[u8]) -> Option<Point> {
        let mut next = self.next.lock().expect("no test panics here");
        let hit =
            next.as_ref().is_some_and(|(bytes, _)| request.windows(bytes.len()).any(|part| part == bytes));
        if !hit {
            return None;
        }
        self.cuts.fetch_add(1, Ordering::SeqCst);
        next.take().map(|(_, point)| point)
    }
}
