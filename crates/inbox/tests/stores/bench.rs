//! Stores under test: two instances, and a clock that is told to go on.

use jiff::{SignedDuration, Timestamp};
use perdura_inbox::conformance::Bench;
use perdura_inbox::store::{self, Clock, Memory, Pending, Postgres, Sqlite, Store, sqlite};
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;
use tokio_postgres::NoTls;

/// The memory of one process.
pub(crate) fn memory() -> Bench {
    let clock = StandingClock::new();
    let memory = Arc::new(Memory::with_clock(clock.clock()));
    clock.bench([memory.clone(), memory], ())
}

/// One SQLite file.
pub(crate) fn sqlite() -> Bench {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let instances = clock.open_twice(&folder.file());
    clock.bench(instances, folder)
}

/// A schema of PostgreSQL.
pub(crate) async fn postgres() -> Bench {
    let schema = fresh_schema();
    let (here, there) = tokio::join!(open_postgres(&schema), open_postgres(&schema));
    let clock = PostgresClock::of(&schema).await;
    let step = move |time: SignedDuration| -> Pending<'static, ()> {
        let clock = clock.clone();
        Box::pin(async move { clock.step(time.as_secs_f64()).await })
    };
    Bench::new([Arc::new(here), Arc::new(there)], Box::new(step))
}

/// Microseconds since 1970, which stand still until they are told to go on. A clone is the same clock.
#[derive(Clone)]
pub(crate) struct StandingClock(Arc<AtomicI64>);

impl StandingClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_700_000_000_123_456)))
    }

    /// Goes on by so many seconds.
    pub(crate) fn step(&self, seconds: f64) {
        self.0.fetch_add((seconds * 1e6).round() as i64, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let micros = self.0.clone();
        Arc::new(move || {
            Timestamp::from_microsecond(micros.load(Ordering::SeqCst)).expect("a time that can be told")
        })
    }

    /// Two instances on one file, on this clock.
    pub(crate) fn open_twice(&self, file: &Path) -> [Arc<dyn Store>; 2] {
        [(), ()].map(|()| -> Arc<dyn Store> {
            let options = sqlite::Options::default();
            Arc::new(Sqlite::open_with_clock(file, &options, self.clock()).expect("a file to work with"))
        })
    }

    /// Two instances of a store that lives on this clock, and what has to last as long as they do.
    pub(crate) fn bench(self, instances: [Arc<dyn Store>; 2], keeps: impl Send + Sync + 'static) -> Bench {
        let step = move |time: SignedDuration| -> Pending<'static, ()> {
            let _kept = &keeps;
            self.step(time.as_secs_f64());
            Box::pin(ready(()))
        };
        Bench::new(instances, Box::new(step))
    }
}

/// A folder of its own, gone with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("inbox-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    /// Where a database may be.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("inbox.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is under the target directory, and harms nobody.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Where the server is.
pub(crate) fn url() -> String {
    std::env::var("PERDURA_POSTGRES").expect(
        "this test needs PostgreSQL, where PERDURA_POSTGRES says: run it through scripts/with-servers",
    )
}

/// A schema that no other test and no other process uses.
pub(crate) fn fresh_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("inbox_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn open_postgres(schema: &str) -> Postgres {
    let options = store::postgres::Options {
        schema: schema.into(),
        connections_max: 8,
        timeout_for: Duration::from_secs(30),
        ..store::postgres::Options::default()
    };
    Postgres::connect(&url(), options).await.expect("the store opens")
}

/// A connection beside the store's.
pub(crate) async fn connection() -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.expect("PostgreSQL answers");
    tokio::spawn(connection);
    client
}

/// The clock of one schema, in the hands of the test. It goes on by itself too.
#[derive(Clone)]
pub(crate) struct PostgresClock(Arc<tokio_postgres::Client>, String);

impl PostgresClock {
    pub(crate) async fn of(schema: &str) -> Self {
        let client = connection().await;
        let sql = format!(
            "CREATE TABLE {schema}.clock (ahead interval NOT NULL);
             INSERT INTO {schema}.clock VALUES ('0');
             CREATE OR REPLACE FUNCTION {schema}.inbox_now() RETURNS timestamptz LANGUAGE sql VOLATILE
             AS 'SELECT clock_timestamp() + (SELECT ahead FROM {schema}.clock)'"
        );
        client.batch_execute(&sql).await.expect("the clock can be set");
        Self(Arc::new(client), schema.to_owned())
    }

    /// Goes on by so many seconds.
    pub(crate) async fn step(&self, seconds: f64) {
        let sql = format!("UPDATE {}.clock SET ahead = ahead + $1::float8 * interval '1 second'", self.1);
        self.0.execute(&sql, &[&seconds]).await.expect("the clock can be set");
    }
}
