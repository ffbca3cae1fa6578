//! The stores that every promise is tried on, each with a clock that the test moves.

use crate::redis_server::{self, Server};
use crate::{at_rest, bench, logs, pg};
use http::Extensions;
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::store::sqlite::Options;
use perdura_idempotency::store::{Store, postgres, sqlite};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A store under test, and what handlers wrote beside their records.
pub(crate) struct Ground {
    bench: Bench,
    place: Place,
}

/// Where records are kept, and what handlers write that share a transaction.
pub(crate) enum Place {
    Memory,
    /// In this file.
    Sqlite(PathBuf),
    /// In this schema.
    Postgres(String),
    /// On the server at this address.
    Redis(String),
}

impl Ground {
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.bench.store()
    }

    /// As another instance of the program opens it.
    pub(crate) fn another(&self) -> Arc<dyn Store> {
        self.bench.another()
    }

    /// Lets the store's clock go on.
    pub(crate) async fn pass(&self, time: Duration) {
        self.bench.pass(time).await;
    }

    pub(crate) fn shares_transactions(&self) -> bool {
        match self.place {
            Place::Memory | Place::Redis(_) => false,
            Place::Sqlite(_) | Place::Postgres(_) => true,
        }
    }

    /// The file that it is in, where it is in one.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        match &self.place {
            Place::Sqlite(file) => Some(file),
            Place::Memory | Place::Postgres(_) | Place::Redis(_) => None,
        }
    }

    /// Every byte that is kept; nothing where nothing outlives the process.
    pub(crate) async fn at_rest(&self) -> Vec<u8> {
        at_rest::bytes(&self.place).await
    }

    /// How many effects were committed.
    pub(crate) async fn effects(&self) -> i64 {
        match &self.place {
            Place::Memory | Place::Redis(_) => panic!("this store has no transaction to share"),
            Place::Sqlite(file) => {
                let file = Connection::open(file).expect("opening");
                file.query_row("SELECT count(*) FROM effect", [], |row| row.get(0)).expect("counting")
            }
            Place::Postgres(schema) => pg::effects(schema, 1).await,
        }
    }
}

/// In a handler: does something to the world, in the transaction that the request carries.
pub(crate) async fn act(ground: &Ground, extensions: &Extensions) {
    match &ground.place {
        Place::Memory | Place::Redis(_) => panic!("this store has no transaction to share"),
        Place::Sqlite(_) => {
            let transaction = extensions.get::<sqlite::Transaction>().expect("the request carries it");
            let insert = |file: &Connection| file.execute("INSERT INTO effect VALUES (1)", []);
            transaction.run(insert).await.expect("the transaction is open");
        }
        Place::Postgres(schema) => {
            let transaction = extensions.get::<postgres::Transaction>().expect("the request carries it");
            pg::act(transaction, schema, 1).await;
        }
    }
}

/// In a handler: has these statements run in the transaction that the request carries, and tells whether they failed.
pub(crate) async fn run(
    ground: &Ground,
    extensions: &Extensions,
    statements: &'static str,
) -> Result<(), String> {
    match &ground.place {
        Place::Memory | Place::Redis(_) => panic!("this store has no transaction to share"),
        Place::Sqlite(_) => {
            let transaction = extensions.get::<sqlite::Transaction>().expect("the request carries it");
            let ran = transaction.run(|file: &Connection| file.execute_batch(statements)).await;
            ran.map_err(|error| error.to_string())
        }
        Place::Postgres(schema) => {
            let transaction = extensions.get::<postgres::Transaction>().expect("the request carries it");
            let client = transaction.client().await.expect("the transaction is open");
            let here = format!("SET LOCAL search_path TO {schema}; {statements}");
            client.batch_execute(&here).await.map_err(|error| error.to_string())
        }
    }
}

/// Makes one test of each promise on each store.
macro_rules! on_each_store {
    ($($(#[$doc:meta])* async fn $name:ident($ground:ident) $promise:block)+) => {
        $(
            $(#[$doc])*
            mod $name {
                use super::*;

                async fn promise($ground: std::sync::Arc<$crate::grounds::Ground>) $promise

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_memory() {
                    promise($crate::grounds::memory()).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_sqlite() {
                    promise($crate::grounds::sqlite()).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_postgres() {
                    promise($crate::grounds::postgres().await).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_redis() {
                    promise($crate::grounds::redis().await).await;
                }
            }
        )+
    };
}
pub(crate) use on_each_store;

pub(crate) fn memory() -> Arc<Ground> {
    logs::capture();
    Arc::new(Ground { bench: bench::memory(), place: Place::Memory })
}

pub(crate) fn sqlite() -> Arc<Ground> {
    logs::capture();
    let (bench, file) = bench::sqlite(&Options {
        prepare: |file| file.execute_batch("CREATE TABLE IF NOT EXISTS effect (n INTEGER NOT NULL)"),
        ..Options::default()
    });
    Arc::new(Ground { bench, place: Place::Sqlite(file) })
}

pub(crate) async fn postgres() -> Arc<Ground> {
    logs::capture();
    let schema = pg::fresh_schema();
    let bench = pg::bench(&schema).await;
    pg::make_effects(&schema).await;
    Arc::new(Ground { bench, place: Place::Postgres(schema) })
}

pub(crate) async fn redis() -> Arc<Ground> {
    redis_on(Server::start()).await
}

pub(crate) async fn redis_on(server: Server) -> Arc<Ground> {
    logs::capture();
    let url = server.url();
    Arc::new(Ground { bench: redis_server::bench(server).await, place: Place::Redis(url) })
}
