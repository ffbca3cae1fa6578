//! What handlers do, and what their rows are after it.

use crate::bench::{Folder, connection, fresh_schema, open_postgres};
use crate::{in_time, look, once, settings};
use perdura_inbox::conformance::name;
use perdura_inbox::row::Named;
use perdura_inbox::store::{Memory, Sqlite, postgres, sqlite};
use perdura_inbox::{Failed, Inbox, Settings, Status, at_least_once, keyed};
use rusqlite::Connection;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// A booking that fails for ids that begin with an x, after it was written.
const BOOKING: &str = "INSERT INTO booking (id) VALUES ($1)";

fn verdict(id: &str) -> Result<(), Failed> {
    match id.as_bytes()[0] {
        b'x' => Err(Failed::again("the handler changed its mind")),
        b'd' => Err(Failed::dead("no attempt will do")),
        b'p' => panic!("on purpose"),
        _ => Ok(()),
    }
}

fn on_file(folder: &Folder) -> (Inbox<Sqlite>, Connection) {
    let options = sqlite::Options {
        prepare: |connection| connection.execute_batch("CREATE TABLE IF NOT EXISTS booking (id TEXT)"),
        ..sqlite::Options::default()
    };
    let store = Sqlite::open(folder.file(), &options).expect("opening");
    let inbox = Inbox::new(store, "bookings", settings()).expect("a name");
    (inbox, Connection::open(folder.file()).expect("opening"))
}

fn booked(connection: &Connection) -> Vec<String> {
    let mut statement =
        connection.prepare("SELECT CAST(id AS TEXT) FROM booking ORDER BY rowid").expect("a statement");
    let rows = statement.query_map([], |row| row.get(0)).expect("it answers");
    rows.collect::<Result<_, _>>().expect("ids")
}

#[tokio::test]
async fn a_handler_on_sqlite_books_once_or_not_at_all() {
    let folder = Folder::new();
    let (inbox, connection) = on_file(&folder);
    let worker = inbox.work(sqlite::transactional(|database, message| {
        let id = message.row.address.id.as_str();
        database.execute(BOOKING, [id])?;
        verdict(id)
    }));
    for id in ["1", "x", "d", "p"] {
        inbox.put(id, "a booking").await.expect("putting");
    }
    assert_eq!(once(&inbox, "1", Status::Done).await.attempts, 1);
    for (id, attempts, error) in [
        ("x", 3, "the handler changed its mind"),
        ("d", 1, "no attempt will do"),
        ("p", 3, "the handler panicked"),
    ] {
        let row = once(&inbox, id, Status::Dead).await;
        assert_eq!((row.attempts, row.last_error.as_deref()), (attempts, Some(error)));
    }
    assert_eq!(booked(&connection), ["1"]);
    in_time("stopping", worker.stop()).await;
}

#[tokio::test]
async fn a_handler_on_sqlite_cannot_leave_its_transaction() {
    const OWN: &str = "
        PRAGMA foreign_keys = ON;
        CREATE TABLE booking (id TEXT);
        CREATE TABLE once (n INTEGER UNIQUE ON CONFLICT ROLLBACK);
        CREATE TABLE parent (n INTEGER PRIMARY KEY);
        CREATE TABLE child (n INTEGER REFERENCES parent (n) DEFERRABLE INITIALLY DEFERRED);";
    let folder = Folder::new();
    let options =
        sqlite::Options { prepare: |connection| connection.execute_batch(OWN), ..sqlite::Options::default() };
    let store = Sqlite::open(folder.file(), &options).expect("opening");
    let inbox = Inbox::new(store, "bookings", settings()).expect("a name");
    let statements = [
        "COMMIT",
        "ROLLBACK",
        "RELEASE inbox_work",
        "UPDATE inbox_row SET status = 'DONE'",
        "DELETE FROM inbox_row",
        "PRAGMA synchronous = OFF",
        "INSERT INTO once VALUES (1); INSERT INTO once VALUES (1)",
        "INSERT INTO child VALUES (1)",
    ];
    let worker = inbox.work(sqlite::transactional(|database, message| {
        let statement = std::str::from_utf8(&message.payload).expect("a statement");
        database.execute_batch(&format!("INSERT INTO booking VALUES (1); {statement}"))?;
        Ok(())
    }));
    for (n, statement) in statements.iter().enumerate() {
        inbox.put(&n.to_string(), *statement).await.expect("putting");
        inbox.put(&format!("beside {n}"), "SELECT 1").await.expect("putting");
    }
    for (n, statement) in statements.iter().enumerate() {
        let row = once(&inbox, &n.to_string(), Status::Dead).await;
        assert_eq!(row.attempts, 3, "{statement}: {row:?}");
        assert_eq!(once(&inbox, &format!("beside {n}"), Status::Done).await.attempts, 1, "{statement}");
    }
    let file = Connection::open(folder.file()).expect("opening");
    assert_eq!(booked(&file).len(), statements.len(), "those beside them, and no others");
    in_time("stopping", worker.stop()).await;
}

#[tokio::test]
async fn a_handler_on_sqlite_that_never_ends_is_interrupted() {
    let folder = Folder::new();
    let options = sqlite::Options {
        transaction_for: std::time::Duration::from_millis(50),
        ..sqlite::Options::default()
    };
    let store = Sqlite::open(folder.file(), &options).expect("opening");
    let inbox = Inbox::new(store, "bookings", settings()).expect("a name");
    let worker = inbox.work(sqlite::transactional(|database, _| {
        let endless =
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n";
        database.query_row(endless, [], |_| Ok(()))?;
        Ok(())
    }));
    inbox.put("1", "").await.expect("putting");
    let row = once(&inbox, "1", Status::Dead).await;
    assert_eq!(row.last_error.as_deref(), Some("interrupted"));
    in_time("stopping", worker.stop()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_on_postgres_books_once_or_not_at_all() {
    let schema = fresh_schema();
    let inbox = Inbox::new(open_postgres(&schema).await, "bookings", settings()).expect("a name");
    let client = connection().await;
    let table = format!("{schema}.booking");
    client.batch_execute(&format!("CREATE TABLE {table} (id text)")).await.expect("a table");
    let insert = format!("INSERT INTO {table} (id) VALUES ($1)");
    let worker = inbox.work(postgres::transactional(move |transaction, message| {
        let insert = insert.clone();
        Box::pin(async move {
            let id = message.row.address.id.as_str();
            transaction.execute(&insert, &[&id]).await?;
            if id == "commits" {
                transaction.batch_execute("COMMIT").await?;
            }
            if id == "swallows" {
                drop(transaction.execute("SELECT 1 / 0", &[]).await);
            }
            verdict(id)
        })
    }));
    for id in ["1", "x", "d", "p", "swallows", "commits"] {
        inbox.put(id, "a booking").await.expect("putting");
    }
    assert_eq!(once(&inbox, "1", Status::Done).await.attempts, 1);
    for (id, attempts) in [("x", 3), ("d", 1), ("p", 3), ("swallows", 3), ("commits", 1)] {
        assert_eq!(once(&inbox, id, Status::Dead).await.attempts, attempts, "{id}");
    }
    let booked = client.query(&format!("SELECT id FROM {table} ORDER BY id"), &[]).await.expect("listing");
    let booked: Vec<String> = booked.iter().map(|row| row.get(0)).collect();
    // It committed by itself what it had written, is told so, and is not done again.
    assert_eq!(booked, ["1", "commits"]);
    in_time("stopping", worker.stop()).await;
}

#[tokio::test]
async fn the_key_is_the_same_in_every_attempt_and_no_other_messages() {
    let inbox = Inbox::new(Memory::new(), "mail", settings()).expect("a name");
    let keys: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let seen = keys.clone();
    let worker = inbox.work(keyed(move |message, key| {
        let (id, attempts) = (message.row.address.id.to_string(), message.row.attempts);
        seen.lock().expect("nobody panics here").push((id, key.to_string()));
        async move { if attempts < 3 { Err(Failed::again("not yet")) } else { Ok(()) } }
    }));
    for id in ["1", "2"] {
        inbox.put(id, "mail").await.expect("putting");
    }
    for id in ["1", "2"] {
        assert_eq!(once(&inbox, id, Status::Done).await.attempts, 3);
    }
    let mut keys = keys.lock().expect("nobody panics here").clone();
    assert_eq!(keys.len(), 6);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 2);
    assert!(keys[0].1 != keys[1].1 && keys[0].1.len() == 32);
    in_time("stopping", worker.stop()).await;
}

#[tokio::test]
async fn a_row_is_done_only_after_its_work() {
    let inbox = Inbox::new(Memory::new(), "mail", settings()).expect("a name");
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let goes_on = Arc::new(tokio::sync::Notify::new());
    let waits = goes_on.clone();
    let worker = inbox.work(at_least_once(move |_| {
        let (begun, waits) = (begun.clone(), waits.clone());
        async move {
            begun.send(()).await?;
            waits.notified().await;
            Ok(())
        }
    }));
    inbox.put("1", "mail").await.expect("putting");
    in_time("the work", has_begun.recv()).await;
    assert_eq!(look(&inbox, "1").await.row.status, Status::Doing);
    goes_on.notify_one();
    once(&inbox, "1", Status::Done).await;
    in_time("stopping", worker.stop()).await;
}

#[tokio::test]
async fn a_worker_that_is_stopped_ends_what_it_works_and_takes_no_more() {
    let mut settings = settings();
    settings.rows_max = 1;
    let inbox = Inbox::new(Memory::new(), "mail", settings).expect("a name");
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(9);
    let goes_on = Arc::new(tokio::sync::Notify::new());
    let waits = goes_on.clone();
    let worker = inbox.work(at_least_once(move |_| {
        let (begun, waits) = (begun.clone(), waits.clone());
        async move {
            begun.send(()).await?;
            waits.notified().await;
            Ok(())
        }
    }));
    for id in ["1", "2"] {
        inbox.put(id, "mail").await.expect("putting");
    }
    in_time("the work", has_begun.recv()).await;
    let stopping = tokio::spawn(worker.stop());
    tokio::task::yield_now().await;
    goes_on.notify_one();
    in_time("stopping", stopping).await.expect("it does not panic");
    assert_eq!(look(&inbox, "1").await.row.status, Status::Done);
    assert_eq!(look(&inbox, "2").await.row.status, Status::Pending);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_workers_of_one_process_work_each_row_once_and_keys_in_order() {
    const ROWS: u32 = 500;
    let inbox = Inbox::new(Memory::new(), "mail", settings()).expect("a name");
    let worked: Arc<Mutex<Vec<(u32, bool)>>> = Arc::default();
    let at_once: Arc<[AtomicU32; 7]> = Arc::default();
    let workers: Vec<_> = (0..10)
        .map(|_| {
            let (worked, at_once) = (worked.clone(), at_once.clone());
            inbox.work(at_least_once(move |message| {
                let (worked, at_once) = (worked.clone(), at_once.clone());
                async move {
                    let id: u32 = message.row.address.id.as_str().parse().expect("a number");
                    let of_key = &at_once[(id % 7) as usize];
                    let is_alone = of_key.fetch_add(1, Ordering::SeqCst) == 0;
                    tokio::task::yield_now().await;
                    worked.lock().expect("nobody panics here").push((id, is_alone));
                    of_key.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                }
            }))
        })
        .collect();
    for n in 0..ROWS {
        let address = inbox.address(&n.to_string()).expect("an id");
        let put = perdura_inbox::Put::new(address, "x");
        let key = perdura_inbox::Name::new(&format!("key {}", n % 7)).expect("a name");
        inbox.put_message(&perdura_inbox::Put { ordering_key: Some(key), ..put }).await.expect("putting");
    }
    in_time("the work", async {
        while inbox.counts().await.expect("counting").done < u64::from(ROWS) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
    for worker in workers {
        in_time("stopping", worker.stop()).await;
    }
    let worked = worked.lock().expect("nobody panics here").clone();
    assert!(worked.iter().all(|(_, is_alone)| *is_alone), "one of a key at a time");
    for key in 0..7 {
        let of_key: Vec<u32> = worked.iter().map(|(id, _)| *id).filter(|id| id % 7 == key).collect();
        assert_eq!(of_key, (0..ROWS).filter(|id| id % 7 == key).collect::<Vec<_>>(), "in order, once each");
    }
}

#[tokio::test]
async fn a_program_that_claims_by_name_renews_and_fails_by_itself() {
    let inbox = Inbox::new(Memory::new(), "letters", Settings::default()).expect("a name");
    inbox.put("1", "x").await.expect("putting");
    let address = inbox.address("1").expect("an id");
    let Named::Claimed(message) = inbox.claim_named(&address, &name("a")).await.expect("claiming") else {
        panic!("it is pending")
    };
    let held = message.held().expect("it was held");
    assert_eq!(inbox.beat(std::slice::from_ref(&held)).await.expect("renewing"), [held.epoch]);
    inbox.fail(&held, "not today").await.expect("failing");
    let row = inbox.look(&address).await.expect("looking").expect("it is there").row;
    assert_eq!(
        (row.status, row.attempts, row.last_error.as_deref()),
        (Status::Pending, 1, Some("not today"))
    );
    // About a second: the first of the delays, spread over its second half.
    let delay = row.not_before.duration_since(row.claimed_at.expect("it was claimed"));
    assert!(delay.as_millis() >= 500, "{delay}");
    assert_eq!(inbox.list(Status::Pending, 0, 10).await.expect("listing"), [row]);
}
