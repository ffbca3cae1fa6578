//! A worker as a process of its own, to be killed and paused: it books each message once, in the transaction of its row.
//!
//! Told by PERDURA_INBOX (`sqlite:FILE` or `postgres:SCHEMA`), PERDURA_POSTGRES, and PERDURA_LEASE_MS.

use perdura_inbox::store::{Postgres, Sqlite, postgres, sqlite};
use perdura_inbox::{Inbox, Settings, Worker};
use std::error::Error;
use std::time::Duration;

/// Each booking has the message, its ordering key and the epoch under which it was worked.
const BOOKING: &str = "INSERT INTO booking (id, line, epoch) VALUES ($1, $2, $3)";

fn settings() -> Result<Settings, Box<dyn Error>> {
    let lease_for = Duration::from_millis(std::env::var("PERDURA_LEASE_MS")?.parse()?);
    let mut settings = Settings { lease_for, ..Settings::default() };
    settings.retry.attempts_max = 1_000;
    settings.retry.first_for = Duration::from_millis(10);
    settings.retry.longest_for = Duration::from_millis(100);
    Ok(settings)
}

fn on_sqlite(file: &str) -> Result<Worker, Box<dyn Error>> {
    let options = sqlite::Options { busy_for: Duration::from_secs(30), ..sqlite::Options::default() };
    let inbox = Inbox::new(Sqlite::open(file, &options)?, "bookings", settings()?)?;
    Ok(inbox.work(sqlite::transactional(|database, message| {
        let row = &message.row;
        let line = row.ordering_key.as_ref().map(perdura_inbox::Name::as_str);
        database.prepare_cached(BOOKING)?.execute((row.address.id.as_str(), line, row.epoch.0 as i64))?;
        Ok(())
    })))
}

async fn on_postgres(schema: &str) -> Result<Worker, Box<dyn Error>> {
    let options = postgres::Options {
        schema: schema.to_owned(),
        connections_max: 6,
        timeout_for: Duration::from_secs(30),
        ..postgres::Options::default()
    };
    let store = Postgres::connect(&std::env::var("PERDURA_POSTGRES")?, options).await?;
    let inbox = Inbox::new(store, "bookings", settings()?)?;
    let booking = BOOKING.replace("booking", &format!("{schema}.booking"));
    Ok(inbox.work(postgres::transactional(move |transaction, message| {
        let booking = booking.clone();
        Box::pin(async move {
            let row = &message.row;
            let line = row.ordering_key.as_ref().map(perdura_inbox::Name::as_str);
            let epoch = row.epoch.0.cast_signed();
            transaction.execute(&booking, &[&row.address.id.as_str(), &line, &epoch]).await?;
            Ok(())
        })
    })))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::var("PERDURA_INBOX")?;
    let _worker = match place.split_once(':') {
        Some(("sqlite", file)) => on_sqlite(file)?,
        Some(("postgres", schema)) => on_postgres(schema).await?,
        _ => return Err(format!("PERDURA_INBOX is {place:?}").into()),
    };
    std::future::pending().await
}
