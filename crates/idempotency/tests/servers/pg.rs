//! A store in a PostgreSQL schema of its own, on a clock that the test moves.

use jiff::SignedDuration;
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::record::{Grant, OperationId};
use perdura_idempotency::store::postgres::{Options, Transaction};
use perdura_idempotency::store::{self, Pending, Postgres, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_postgres::NoTls;

/// Where the server is.
pub(crate) fn url() -> String {
    std::env::var("PERDURA_POSTGRES").expect(
        "this test needs PostgreSQL, where PERDURA_POSTGRES says: run it through scripts/with-servers",
    )
}

/// A schema that no other test and no other process uses.
pub(crate) fn fresh_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn options(schema: &str) -> Options {
    Options {
        schema: schema.into(),
        connections_max: 4,
        timeout_for: Duration::from_secs(30),
        ..Options::default()
    }
}

pub(crate) async fn open(schema: &str) -> Postgres {
    Postgres::connect(&url(), options(schema)).await.expect("the store opens")
}

/// Two instances in this schema, and its clock.
pub(crate) async fn bench(schema: &str) -> Bench {
    let (here, there) = tokio::join!(open(schema), open(schema));
    let schema = schema.to_owned();
    let step = move |time: SignedDuration| -> Pending<'static, ()> {
        let schema = schema.clone();
        Box::pin(async move { step(&schema, time.as_secs_f64()).await })
    };
    Bench::new([Arc::new(here), Arc::new(there)], true, Box::new(step))
}

/// A connection beside the store's.
pub(crate) async fn connection() -> tokio_postgres::Client {
    connection_to(&url()).await
}

pub(crate) async fn connection_to(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("PostgreSQL answers");
    tokio::spawn(connection);
    client
}

/// Puts the store's clock into the hands of the test, and steps it by these seconds.
pub(crate) async fn step(schema: &str, seconds: f64) {
    step_at(&url(), schema, seconds).await;
}

/// The same where another server or database is meant.
pub(crate) async fn step_at(url: &str, schema: &str, seconds: f64) {
    let client = connection_to(url).await;
    let sql = format!(
        "BEGIN;
         CREATE TABLE IF NOT EXISTS {schema}.clock (ahead interval NOT NULL);
         INSERT INTO {schema}.clock SELECT '0' WHERE NOT EXISTS (SELECT FROM {schema}.clock);
         CREATE OR REPLACE FUNCTION {schema}.idempotency_now() RETURNS timestamptz LANGUAGE sql VOLATILE
         AS 'SELECT clock_timestamp() + (SELECT ahead FROM {schema}.clock)';
         UPDATE {schema}.clock SET ahead = ahead + {seconds} * interval '1 second';
         COMMIT"
    );
    client.batch_execute(&sql).await.expect("the clock can be set");
}

/// A table for what handlers do.
pub(crate) async fn make_effects(schema: &str) {
    let sql = format!("CREATE TABLE {schema}.effect (n bigint NOT NULL)");
    connection().await.batch_execute(&sql).await.expect("the table is new");
}

/// The layer's and the handler's end of a transaction.
pub(crate) async fn begin(
    store: &Postgres,
    operation: OperationId,
    grant: Grant,
) -> (Box<dyn store::Transaction>, Transaction) {
    let mut extensions = http::Extensions::new();
    let shared = store.begin(operation, grant, &mut extensions).await.expect("the store answers");
    let transaction = extensions.remove::<Transaction>().expect("the handler gets its end");
    (shared.expect("PostgreSQL shares transactions"), transaction)
}

/// What a handler does.
pub(crate) async fn act(transaction: &Transaction, schema: &str, n: u64) {
    let client = transaction.client().await.expect("the transaction is open");
    let sql = format!("INSERT INTO {schema}.effect VALUES ({n})");
    client.batch_execute(&sql).await.expect("the table is there");
}

/// How often it was done, as others see it.
pub(crate) async fn effects(schema: &str, n: u64) -> i64 {
    let sql = format!("SELECT count(*) FROM {schema}.effect WHERE n = {n}");
    connection().await.query_one(&sql, &[]).await.expect("the table is there").get(0)
}
