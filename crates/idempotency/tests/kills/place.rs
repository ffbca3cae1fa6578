//! Where a story takes place: a folder, and a store that it shares with others or has to itself.

use crate::caller::Route;
use crate::instance::{LEASE, Setup};
use crate::redis_server::Server;
use perdura_idempotency::store::{self, Postgres, Redis, Sqlite, postgres, redis, sqlite};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::NoTls;

/// Where operations are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
    Redis,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        }
    }

    /// What can be asked of a service on it.
    pub(crate) fn routes(self) -> &'static [Route] {
        match self {
            Self::Sqlite | Self::Postgres => &[Route::Payments, Route::Transfers, Route::Orders],
            Self::Redis => &[Route::Payments, Route::Orders],
        }
    }
}

/// What only this story uses, beside its folder.
enum Own {
    Nothing,
    Database { name: String, server: String },
    Redis(Server),
}

pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) store: String,
    kind: Store,
    own: Own,
}

impl Place {
    /// On the servers that all share.
    pub(crate) fn new(kind: Store, name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", fresh("kills")));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let store = match kind {
            Store::Sqlite => format!("sqlite:{}", folder.join("store.db").display()),
            Store::Postgres => server("PERDURA_POSTGRES"),
            Store::Redis => server("PERDURA_REDIS"),
        };
        Self { folder, store, kind, own: Own::Nothing }
    }

    /// With a database or a server of its own, whose records and whose clock are nobody else's.
    pub(crate) async fn apart(kind: Store, name: &str) -> Self {
        let place = Self::new(kind, name);
        match kind {
            Store::Sqlite => place,
            Store::Postgres => {
                let name = fresh("kills").replace('-', "_");
                execute(&place.store, &format!("CREATE DATABASE {name}")).await;
                let (head, _) = place.store.rsplit_once('/').expect("the URL names a database");
                let store = format!("{head}/{name}");
                Self { own: Own::Database { name, server: place.store }, store, ..place }
            }
            Store::Redis => {
                let server = tokio::task::spawn_blocking(Server::start).await.expect("a Redis starts");
                Self { store: server.url(), own: Own::Redis(server), ..place }
            }
        }
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup {
            name: "first".to_owned(),
            folder: self.folder.clone(),
            store: self.store.clone(),
            lease: LEASE,
            clock: None,
            work_ms: 0,
            sweep_ms: 60_000,
            halt_at: None,
        }
    }

    /// The store, beside the instances.
    pub(crate) async fn open(&self) -> Arc<dyn store::Store> {
        match self.kind {
            Store::Sqlite => {
                let path = self.store.strip_prefix("sqlite:").expect("a file");
                Arc::new(Sqlite::open(path, &sqlite::Options::default()).expect("it opens"))
            }
            Store::Postgres => {
                let store = Postgres::connect(&self.store, postgres::Options::default()).await;
                Arc::new(store.expect("it opens"))
            }
            Store::Redis => {
                Arc::new(Redis::connect(&self.store, redis::Options::default()).await.expect("it opens"))
            }
        }
    }

    /// Steps the clock by which leases go: the machine's, or the server's. Not where others use it too.
    pub(crate) async fn step(&self, seconds: i32) {
        match &self.own {
            Own::Nothing => {
                let (clock, new) = (self.clock(), self.folder.join("clock.new"));
                let ahead =
                    std::fs::read_to_string(&clock).map_or(0, |ahead| ahead.parse().expect("seconds"));
                std::fs::write(&new, format!("{:+}", ahead + seconds)).expect("the folder can be written");
                std::fs::rename(&new, &clock).expect("the clock is replaced as a whole");
            }
            Own::Database { .. } => crate::pg::step_at(&self.store, "idempotency", f64::from(seconds)).await,
            Own::Redis(server) => server.step(f64::from(seconds)),
        }
    }

    /// The machine's clock, where a story moves it.
    pub(crate) fn clock(&self) -> PathBuf {
        self.folder.join("clock")
    }

    /// When all went well; otherwise it stays to be looked at.
    pub(crate) async fn remove(self) {
        std::fs::remove_dir_all(&self.folder).expect("a folder can be removed");
        if let Own::Database { name, server } = self.own {
            execute(&server, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

fn server(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this through scripts/with-servers"))
}

/// A name that no other story and no other process uses.
fn fresh(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("PostgreSQL answers");
    tokio::spawn(connection);
    client.batch_execute(sql).await.expect("it may");
}
