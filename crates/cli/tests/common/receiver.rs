//! A receiver of calls over HTTP: a thread for each connection, and a closure that says what becomes of a request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that arrived whole.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Its first line.
    pub(crate) line: String,
    /// Its headers, names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// What becomes of it.
pub(crate) enum Act {
    /// It is answered with this status and body.
    Answer(u16, String),
    /// It is answered with this status and these headers, each with its line end.
    Head(u16, String),
    /// The same with a body.
    Whole(u16, String, String),
    /// It is never answered, and the connection stays open.
    Hang,
    /// The connection is closed.
    Close,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The key of the call.
    pub(crate) fn key(&self) -> &str {
        self.header("idempotency-key")
    }
}

/// Listens until the process of the test ends.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    hung: Mutex<Vec<TcpStream>>,
    moved: Condvar,
}

impl Receiver {
    /// Answers as told: `act` gets the number of the request, from 0, and the request.
    pub(crate) fn start(act: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (shared, act) = (Arc::<Shared>::default(), Arc::new(act));
        let to_all = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, act) = (to_all.clone(), act.clone());
                thread::spawn(move || serve(stream, &shared, &*act));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// Waits until so many requests have arrived.
    #[track_caller]
    pub(crate) fn until_seen(&self, count: usize) -> Vec<Seen> {
        let until = Instant::now() + PATIENCE;
        let mut seen = lock(&self.shared.seen);
        while seen.len() < count {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{count} requests never came: {seen:?}");
            seen = self.shared.moved.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        seen.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: TcpStream, shared: &Shared, act: &dyn Fn(usize, &Seen) -> Act) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let number = {
            let mut seen = lock(&shared.seen);
            seen.push(request.clone());
            seen.len() - 1
        };
        shared.moved.notify_all();
        let (status, headers, body) = match act(number, &request) {
            Act::Answer(status, body) => (status, "Content-Type: application/json\r\n".to_owned(), body),
            Act::Head(status, headers) => (status, headers, String::new()),
            Act::Whole(status, headers, body) => (status, headers, body),
            Act::Hang => {
                lock(&shared.hung).push(reader.into_inner());
                return;
            }
            Act::Close => return,
        };
        let head = format!("HTTP/1.1 {status} Status\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        if reader.get_mut().write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

/// A request, if one comes whole.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut lines = lines.into_iter();
    let line = lines.next()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        })
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.and_then(|(_, length)| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { line, headers, body: String::from_utf8_lossy(&body).into_owned() })
}
