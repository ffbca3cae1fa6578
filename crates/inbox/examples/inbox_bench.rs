//! How fast the inbox is, on SQLite and on PostgreSQL: rows per second through put, claim and done, also while a reader holds a snapshot
//! open, and how soon a row is picked up. Beside it, pgbench inserts single rows into the same server, in the same run.
//!
//! Run as `scripts/with-servers cargo run --release -p perdura-inbox --all-features --example inbox_bench`. PERDURA_BENCH_ROWS says how many rows.

use perdura_inbox::store::{Postgres, Sqlite, Store, postgres, sqlite};
use perdura_inbox::{Inbox, Name, Settings, at_least_once};
use std::error::Error;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_postgres::NoTls;

type Any = Box<dyn Error + Send + Sync>;

/// How many clients put, claim and end at the same time; pgbench has as many.
const CLIENTS: usize = 16;
/// Rows of one claim.
const BATCH: u32 = 10;
const PAYLOAD_BYTES: usize = 512;
const PICKUPS: usize = 500;

fn inbox<S: Store>(store: S, name: &str) -> Result<Inbox<S>, Any> {
    Ok(Inbox::new(store, name, Settings { rows_max: 64, ..Settings::default() })?)
}

/// Rows per second of put, and of claim and done: all rows are put, then all are worked by as many clients.
async fn rates<S: Store>(inbox: &Inbox<S>, rows: usize) -> Result<(f64, f64), Any> {
    let began = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let inbox = inbox.clone();
        clients.spawn(async move {
            for n in (client..rows).step_by(CLIENTS) {
                inbox.put(&n.to_string(), vec![b'x'; PAYLOAD_BYTES]).await?;
            }
            Ok::<_, Any>(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let put = rows as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    for client in 0..CLIENTS {
        let inbox = inbox.clone();
        clients.spawn(async move {
            let owner = Name::new(&format!("client {client}"))?;
            loop {
                let claimed = inbox.claim(&inbox.wish(&owner, BATCH)).await?;
                if claimed.is_empty() {
                    return Ok::<_, Any>(());
                }
                for message in claimed {
                    inbox.done(&message.held().ok_or("it was claimed")?).await?;
                }
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let worked = rows as f64 / began.elapsed().as_secs_f64();
    let done = inbox.counts().await?.done;
    if done != rows as u64 {
        return Err(format!("{done} of {rows} rows are done").into());
    }
    Ok((put, worked))
}

/// How long a row waits for its worker, put one at a time: median and 95th percentile. `there` puts; it may be another instance.
async fn pickups<S: Store>(here: Inbox<S>, there: Inbox<S>) -> Result<[Duration; 2], Any> {
    let (picked, mut is_picked) = mpsc::channel(1);
    let worker = here.work(at_least_once(move |_| {
        let picked = picked.clone();
        async move { Ok(picked.send(Instant::now()).await?) }
    }));
    let mut times = Vec::new();
    for n in 0..PICKUPS {
        there.put(&format!("pickup {n}"), "x").await?;
        let put_at = Instant::now();
        let picked_at = is_picked.recv().await.ok_or("the worker is there")?;
        times.push(picked_at.saturating_duration_since(put_at));
        // So that the worker is at rest again.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    worker.stop().await;
    times.sort();
    Ok([times[PICKUPS / 2], times[PICKUPS * 95 / 100]])
}

fn tell(what: &str, (put, worked): (f64, f64)) {
    let both = 1.0 / (1.0 / put + 1.0 / worked);
    println!("{what}: put {put:.0}/s, claim+done {worked:.0}/s, put+claim+done {both:.0} rows/s");
}

async fn open(schema: &str) -> Result<Postgres, Any> {
    let options = postgres::Options {
        schema: schema.to_owned(),
        connections_max: CLIENTS + 4,
        timeout_for: Duration::from_mins(1),
        ..postgres::Options::default()
    };
    Ok(Postgres::connect(&std::env::var("PERDURA_POSTGRES")?, options).await?)
}

async fn connection() -> Result<tokio_postgres::Client, Any> {
    let (client, connection) = tokio_postgres::connect(&std::env::var("PERDURA_POSTGRES")?, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Single-row inserts of the same payload by as many clients, as pgbench counts them.
async fn inserts() -> Result<f64, Any> {
    let client = connection().await?;
    let table =
        "CREATE TABLE bench_insert (id bigserial PRIMARY KEY, at timestamptz DEFAULT now(), payload text)";
    client.batch_execute(table).await?;
    let script = std::env::temp_dir().join(format!("inbox-bench-{}.sql", std::process::id()));
    let insert = format!("INSERT INTO bench_insert (payload) VALUES ('{}');\n", "x".repeat(PAYLOAD_BYTES));
    std::fs::write(&script, insert)?;
    let clients = CLIENTS.to_string();
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--time=10", "--protocol=prepared", "--jobs=2", "--client", &clients, "--file"])
        .arg(&script)
        .arg(std::env::var("PERDURA_POSTGRES")?)
        .output();
    std::fs::remove_file(&script)?;
    let told = String::from_utf8(output?.stdout)?;
    let line = told.lines().find(|line| line.starts_with("tps")).ok_or("pgbench tells its rate")?;
    Ok(line.split_whitespace().nth(2).ok_or("pgbench tells its rate")?.parse()?)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Any> {
    let rows = std::env::var("PERDURA_BENCH_ROWS").map_or(Ok(20_000), |rows| rows.parse())?;
    println!("{rows} rows of {PAYLOAD_BYTES} bytes, {CLIENTS} clients, claims of {BATCH}");

    let folder = std::env::temp_dir().join(format!("inbox-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let file = folder.join("inbox.db");
    let store = Sqlite::open(&file, &sqlite::Options::default())?;
    tell("SQLite", rates(&inbox(store.clone(), "first")?, rows).await?);
    let reader = rusqlite::Connection::open(&file)?;
    reader.execute_batch("BEGIN; SELECT count(*) FROM inbox_row")?;
    tell("SQLite, with a reader's snapshot", rates(&inbox(store.clone(), "second")?, rows).await?);
    drop(reader);
    let [median, p95] = pickups(inbox(store.clone(), "third")?, inbox(store, "third")?).await?;
    println!("SQLite: picked up after {median:?}, 95 % within {p95:?}");
    std::fs::remove_dir_all(&folder)?;

    let schema = format!("bench_{}", std::process::id());
    let store = open(&schema).await?;
    tell("PostgreSQL", rates(&inbox(store.clone(), "first")?, rows).await?);
    println!("pgbench, single-row inserts: {:.0}/s", inserts().await?);
    let client = connection().await?;
    let snapshot = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {schema}.inbox_row");
    client.batch_execute(&snapshot).await?;
    tell("PostgreSQL, with a reader's snapshot", rates(&inbox(store.clone(), "second")?, rows).await?);
    client.batch_execute("ROLLBACK").await?;
    let there = inbox(open(&schema).await?, "third")?;
    let [median, p95] = pickups(inbox(store.clone(), "third")?, inbox(store.clone(), "third")?).await?;
    println!("PostgreSQL, put by the same process: picked up after {median:?}, 95 % within {p95:?}");
    let fast = Settings { poll_for: Duration::from_millis(5), ..Settings::default() };
    let here = Inbox::shared(Arc::new(store), "third", fast)?;
    let [median, p95] = pickups(Inbox::new(open(&schema).await?, "fourth", here.settings().clone())?, {
        let there = there.store().clone();
        Inbox::shared(there, "fourth", Settings::default())?
    })
    .await?;
    println!(
        "PostgreSQL, put by another and looked for every 5 ms: picked up after {median:?}, 95 % within {p95:?}"
    );
    Ok(())
}
