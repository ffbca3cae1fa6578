//! `POST /transfers`, transactional: two entries in the database in which the operation is recorded too. One commit
//! holds all three, or none of them.

use crate::App;
use crate::payments::receipt;
use crate::plug::Point;
use crate::refusal::Refusal;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use perdura_idempotency::store::{postgres, sqlite};
use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio_postgres::NoTls;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS entries (reference TEXT NOT NULL, account TEXT NOT NULL, cents BIGINT NOT NULL)";

/// Makes the table, when the store opens its file.
pub(crate) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLE)
}

/// The database with the entries.
#[derive(Clone)]
pub(crate) enum Book {
    None,
    Sqlite(PathBuf),
    Postgres(String),
}

impl Book {
    /// On PostgreSQL, makes the table. Two that start at once must not both try.
    pub(crate) async fn on_postgres(url: &str) -> Result<Self, tokio_postgres::Error> {
        let make = format!("BEGIN; SELECT pg_advisory_xact_lock(8086); {TABLE}; COMMIT");
        connect(url).await?.batch_execute(&make).await?;
        Ok(Self::Postgres(url.to_owned()))
    }

    /// How many entries there are under a reference.
    pub(crate) async fn entries(&self, reference: String) -> Result<i64, Refusal> {
        match self {
            Self::None => Ok(0),
            Self::Sqlite(path) => {
                let path = path.clone();
                let count = move || {
                    let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                    let query = "SELECT count(*) FROM entries WHERE reference = ?1";
                    file.query_row(query, [reference], |row| row.get(0))
                };
                Ok(tokio::task::spawn_blocking(count).await??)
            }
            Self::Postgres(url) => {
                let query = "SELECT count(*) FROM entries WHERE reference = $1";
                Ok(connect(url).await?.query_one(query, &[&reference]).await?.get(0))
            }
        }
    }
}

async fn connect(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A transfer as it was asked for.
struct Transfer {
    reference: String,
    from: String,
    to: String,
    cents: i64,
}

impl Transfer {
    fn read(asked: &Value) -> Result<Self, &'static str> {
        let text = |name: &str| asked[name].as_str().map(str::to_owned);
        let read = || {
            let (reference, from, to) = (text("reference")?, text("from")?, text("to")?);
            Some(Self { reference, from, to, cents: asked["cents"].as_i64().filter(|cents| *cents > 0)? })
        };
        read().ok_or("a transfer has a reference, from, to, and cents")
    }

    fn done(self) -> (StatusCode, Json<Value>) {
        (StatusCode::CREATED, Json(json!({"receipt": receipt(), "cents": self.cents})))
    }
}

/// Transfers, in the transaction that also records the answer.
pub(crate) async fn on_sqlite(
    State(app): State<App>,
    transaction: sqlite::Transaction,
    Json(asked): Json<Value>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let transfer = Transfer::read(&asked)?;
    app.plug.at(Point::BeforeEffect);
    app.plug.passed().await;
    tokio::time::sleep(app.work_for).await;
    let transfer = transaction
        .run(move |connection| {
            let mut insert = connection.prepare("INSERT INTO entries VALUES (?1, ?2, ?3)")?;
            insert.execute(params![transfer.reference, transfer.from, -transfer.cents])?;
            insert.execute(params![transfer.reference, transfer.to, transfer.cents])?;
            Ok(transfer)
        })
        .await?;
    app.plug.at(Point::AfterEffect);
    Ok(transfer.done())
}

/// The same on PostgreSQL.
pub(crate) async fn on_postgres(
    State(app): State<App>,
    transaction: postgres::Transaction,
    Json(asked): Json<Value>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let transfer = Transfer::read(&asked)?;
    app.plug.at(Point::BeforeEffect);
    app.plug.passed().await;
    tokio::time::sleep(app.work_for).await;
    let client = transaction.client().await?;
    let insert = "INSERT INTO entries VALUES ($1, $2, $3), ($1, $4, -$3)";
    client.execute(insert, &[&transfer.reference, &transfer.to, &transfer.cents, &transfer.from]).await?;
    drop(client);
    app.plug.at(Point::AfterEffect);
    Ok(transfer.done())
}
