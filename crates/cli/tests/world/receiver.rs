//! A receiver of calls over HTTP, in the process of the test, so that it outlives every server that is killed.
//!
//! It dies now and then: it hangs up on all callers, and for a while connections to it are refused. Its books survive.

use crate::books::{Books, Fate, Memory};
use crate::play::answer;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// How long nothing at all may arrive before a test gives up.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a receiver is away when it has died. Retries come within a second, so that some meet a refused connection.
const AWAY: Duration = Duration::from_millis(100);
/// How many connections may wait to be accepted.
const WAITING_MAX: u32 = 1_024;

/// A receiver that listens. It ends with this value.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _place: TcpSocket,
    _runtime: Runtime,
}

struct Shared {
    books: Mutex<Books>,
    deaths: AtomicUsize,
    moved: Condvar,
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: &str, body: &str) -> Fate {
        let fate = self.books().take(key, &deed(body), body);
        self.moved.notify_all();
        fate
    }
}

/// Every body says what it wants to have done. One that does not is itself what nobody wanted.
pub(crate) fn deed(body: &str) -> String {
    let read = serde_json::from_str::<serde_json::Value>(body).ok();
    let deed = read.as_ref().and_then(|read| read["deed"].as_str());
    deed.map_or_else(|| format!("{body:?}, which names no deed"), str::to_owned)
}

impl Receiver {
    pub(crate) fn listen(seed: u64, memory: Memory) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        // Keeps the port while nobody listens on it.
        let place = socket(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = place.local_addr().expect("it has an address");
        let shared = Arc::new(Shared {
            books: Mutex::new(Books::new(seed, memory)),
            deaths: AtomicUsize::new(0),
            moved: Condvar::new(),
        });
        let mut listener =
            runtime.block_on(async { socket(address).listen(WAITING_MAX) }).expect("it listens");
        let to_all = shared.clone();
        runtime.spawn(async move {
            loop {
                until_death(listener, &to_all).await;
                tokio::time::sleep(AWAY).await;
                listener = socket(address).listen(WAITING_MAX).expect("its port is kept");
            }
        });
        Self { address, shared, _place: place, _runtime: runtime }
    }

    /// A request that comes by another way than HTTP.
    pub(crate) fn take(&self, key: &str, body: &str) -> Fate {
        self.shared.take(key, body)
    }

    /// What it knows.
    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.shared.books()
    }

    /// How often it has died.
    pub(crate) fn deaths(&self) -> usize {
        self.shared.deaths.load(Ordering::Relaxed)
    }

    /// Waits until so much has happened.
    #[track_caller]
    pub(crate) fn until(&self, is_so: impl Fn(&Books) -> bool) {
        let mut books = self.books();
        while !is_so(&books) {
            let (again, waited) =
                self.shared.moved.wait_timeout(books, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            books = again;
            let (asked, done) = (books.asked(), books.done());
            assert!(
                !waited.timed_out(),
                "no request comes any more: {asked} deeds were asked for, {done} done"
            );
        }
    }
}

/// A socket that may have this address beside another one, as long as neither listens.
fn socket(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("it can be set");
    socket.bind(address).expect("a free port");
    socket
}

/// Serves until a request is its death. All connections end with it.
async fn until_death(listener: TcpListener, shared: &Arc<Shared>) {
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.expect("connections can be accepted");
                // A caller that was killed breaks off at any point; what arrived whole is in the books.
                callers.spawn(serve(BufReader::new(stream), shared.clone()));
            }
            Some(ended) = callers.join_next() => {
                if matches!(ended, Ok(Ok(Ending::Died))) {
                    shared.deaths.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}

/// How a connection ended.
enum Ending {
    HungUp,
    /// The receiver has died.
    Died,
}

async fn serve(mut stream: BufReader<TcpStream>, shared: Arc<Shared>) -> io::Result<Ending> {
    while let Some((key, body)) = request(&mut stream).await? {
        let text = answer(&deed(&body));
        let whole = |status: &str, text: &str| {
            let length = text.len();
            let kind = "Content-Type: application/json";
            format!("HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{text}")
        };
        let answer = match shared.take(&key, &body) {
            Fate::Done => whole("200 OK", &text),
            Fate::DoneBut500 | Fate::Only500 => whole("500 Internal Server Error", "{}"),
            Fate::Only503 => whole("503 Service Unavailable", "{}"),
            Fate::Refused => whole("400 Bad Request", "{}"),
            Fate::DoneBut303 => whole("303 See Other\r\nLocation: /done", "{}"),
            Fate::DoneButHungUp => return Ok(Ending::HungUp),
            Fate::DoneButDied | Fate::OnlyDied => return Ok(Ending::Died),
            Fate::DoneButHalf => {
                let answer = whole("200 OK", &text);
                stream.write_all(&answer.as_bytes()[..answer.len() - text.len() / 2]).await?;
                return Ok(Ending::HungUp);
            }
            // Until the other side hangs up.
            Fate::DoneButSilent | Fate::OnlySilent => return stream.read_u8().await.map(|_| Ending::HungUp),
        };
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(Ending::HungUp)
}

/// The key and the body of the next request; none: the other side is done.
async fn request(stream: &mut BufReader<TcpStream>) -> io::Result<Option<(String, String)>> {
    let (mut key, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => {
                key = Some(value.to_owned());
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().expect("a length is a number");
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body = String::from_utf8(body).expect("a body is text");
    Ok(Some((key.unwrap_or_else(|| format!("missing for {body}")), body)))
}
