//! What the layer costs, beside the same work without it: the server that `scripts/bench-idempotency` measures.
//!
//! ```text
//! POST /bare    plain: answers
//! POST /read    plain: reads the answer, one row by its key, from a SQLite file
//! POST /verbs   plain: claims and completes by the store's own verbs, two writes that share their syncs, and answers
//! POST /guarded under the layer: /bare with its first requests recorded and its repetitions replayed
//! ```
//!
//! All answer the same 1 KiB. `bench FOLDER KEYS` fills both files with so many keys first.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use perdura_idempotency::record::{Claim, Claimed, Completion, Ending, Keep, OperationId};
use perdura_idempotency::record::{RequestTag, ScopeTag, Takeover};
use perdura_idempotency::store::{Sqlite, Store, sqlite};
use perdura_idempotency::{
    Budgets, IDEMPOTENCY_KEY, IdempotencyLayer, Policy, Routes, Scope, Secret, routes,
};
use rusqlite::{Connection, OpenFlags};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::ServiceExt;
use uuid::Uuid;

const CONTENT: [u8; 1024] = [b'x'; 1024];
const READERS: usize = 4;
const READER_CACHE_KIB: i64 = 4_096;
/// So many requests fill the store at the same time, so that they share their syncs.
const FILLING: u64 = 256;

type Failed = Box<dyn Error + Send + Sync>;

#[derive(Clone)]
struct App {
    rows: Arc<Rows>,
    store: Sqlite,
}

/// A table of answers, kept and read as the store keeps and reads its own: found by an index, on the caller's thread, by
/// one of several connections with a page cache of the same size.
struct Rows {
    readers: Vec<Mutex<Connection>>,
    next: AtomicUsize,
}

impl Rows {
    fn open(path: &Path, keys: u64) -> rusqlite::Result<Self> {
        let mut file = Connection::open(path)?;
        file.pragma_update(None, "journal_mode", "WAL")?;
        file.execute_batch(
            "CREATE TABLE answers (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, answer BLOB NOT NULL)",
        )?;
        let all = file.transaction()?;
        for nth in 0..keys {
            all.prepare_cached("INSERT INTO answers (key, answer) VALUES (?1, ?2)")?
                .execute((key(nth).as_bytes(), CONTENT))?;
        }
        all.commit()?;
        file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let reader = |_| {
            let reader = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            reader.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
            Ok(Mutex::new(reader))
        };
        Ok(Self {
            readers: (0..READERS).map(reader).collect::<rusqlite::Result<_>>()?,
            next: AtomicUsize::new(0),
        })
    }

    fn read(&self, key: Uuid) -> rusqlite::Result<Vec<u8>> {
        let reader = &self.readers[self.next.fetch_add(1, Ordering::Relaxed) % READERS];
        let reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut select = reader.prepare_cached("SELECT answer FROM answers WHERE key = ?1")?;
        select.query_row([key.as_bytes()], |row| row.get(0))
    }
}

/// The key of the nth request that fills the store: of version 7, eight in each millisecond.
fn key(nth: u64) -> Uuid {
    let made_at = (0x0193_a000 << 16) + nth / 8;
    let text = format!("{:08x}-{:04x}-7{:03x}-8000-{nth:012x}", made_at >> 16, made_at & 0xffff, nth % 8);
    Uuid::try_parse(&text).expect("it has the form of a UUID")
}

fn key_of(headers: &HeaderMap) -> Option<Uuid> {
    Uuid::try_parse_ascii(headers.get(IDEMPOTENCY_KEY)?.as_bytes()).ok()
}

fn answer(content: impl Into<Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "application/octet-stream")], content.into()).into_response()
}

async fn bare(_content: Bytes) -> Response {
    answer(Bytes::from_static(&CONTENT))
}

async fn read(State(app): State<App>, headers: HeaderMap, _content: Bytes) -> Result<Response, StatusCode> {
    let key = key_of(&headers).ok_or(StatusCode::BAD_REQUEST)?;
    app.rows.read(key).map(answer).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

/// What any record of a request and its answer costs, without asking who, what or whether.
async fn verbs(State(app): State<App>, headers: HeaderMap, _content: Bytes) -> Result<Response, StatusCode> {
    let key = key_of(&headers).ok_or(StatusCode::BAD_REQUEST)?;
    let operation = uuid::Builder::from_custom_bytes(*key.as_bytes()).into_uuid();
    let operation = OperationId::parse(&operation.to_string()).ok_or(StatusCode::BAD_REQUEST)?;
    let keep = Keep { answer_for: Duration::from_hours(24), tombstone_for: Duration::ZERO };
    let claim = Claim {
        operation,
        scope: ScopeTag([0; 16]),
        request: RequestTag([0; 32]),
        claimant: key,
        lease_for: Duration::from_secs(30),
        takeover: Takeover::Never,
        keep,
    };
    let unavailable = |_| StatusCode::SERVICE_UNAVAILABLE;
    let Claimed::Granted(grant) = app.store.claim(&claim).await.map_err(unavailable)? else {
        return Err(StatusCode::CONFLICT);
    };
    let ending = Ending::Answered(Bytes::from_static(&CONTENT));
    let completion = Completion { operation, epoch: grant.epoch, ending, keep };
    app.store.complete(&completion).await.map_err(unavailable)?;
    Ok(answer(Bytes::from_static(&CONTENT)))
}

/// Sends the requests whose repetitions are measured.
async fn fill(router: &Router, keys: u64) -> Result<(), Failed> {
    let mut filling = JoinSet::new();
    for first in 0..FILLING.min(keys) {
        let router = router.clone();
        filling.spawn(async move {
            for nth in (first..keys).step_by(FILLING as usize) {
                let request = Request::post("/guarded")
                    .header(IDEMPOTENCY_KEY, key(nth).to_string())
                    .header(header::CONTENT_TYPE, "application/octet-stream")
                    .body(axum::body::Body::from(Bytes::from_static(&CONTENT)))
                    .expect("a request");
                let Ok(response) = router.clone().oneshot(request).await;
                assert_eq!(response.status(), StatusCode::OK, "{nth}");
            }
        });
    }
    while let Some(filled) = filling.join_next().await {
        filled?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, keys] = arguments.as_slice() else { return Err("bench FOLDER KEYS".into()) };
    let (folder, keys) = (Path::new(folder), keys.parse()?);
    let rows = Arc::new(Rows::open(&folder.join("plain.db"), keys)?);
    let store = Sqlite::open(folder.join("store.db"), &sqlite::Options::default())?;
    let no_limit = Budgets {
        replays: u32::MAX,
        running: u32::MAX,
        stored_bytes: u64::MAX,
        stored_records: u32::MAX,
        ..Budgets::default()
    };
    let layer = IdempotencyLayer::builder(Arc::new(store.clone()), Secret::new(vec![7; 32])?)
        .anonymous(Scope::new("bench", "bench"))
        .budgets(no_limit)
        .build()
        .await?;
    let guarded = Routes::new().route("/guarded", routes::post(bare).with(Policy::at_most_once()));
    let plain = Router::new()
        .route("/bare", post(bare))
        .route("/read", post(read))
        .route("/verbs", post(verbs))
        .with_state(App { rows, store });
    let router = guarded.guarded_by(&layer)?.merge(plain);
    fill(&router, keys).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
