//! The transaction that a handler shares with its record, on SQLite.

use crate::bench::{Folder, StandingClock};
use crate::sqlite::{answered, claim, granted, standing};
use axum::extract::FromRequestParts;
use axum::response::IntoResponse;
use http::{Extensions, Request, StatusCode};
use perdura_idempotency::conformance::operation;
use perdura_idempotency::record::{Claim, Claimed, Grant, Holding, Standing};
use perdura_idempotency::store::sqlite::{Options, Sqlite, Transaction, TransactionError};
use perdura_idempotency::store::{Store, StoreError, Transaction as Shared};
use rusqlite::Connection;
use std::time::Duration;
use uuid::Uuid;

fn tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("CREATE TABLE IF NOT EXISTS payment (cents INTEGER NOT NULL CHECK (cents > 0))")
}

fn options() -> Options {
    Options { prepare: tables, ..Options::default() }
}

/// A store with a granted operation, and its transaction.
struct Shop {
    store: Sqlite,
    grant: Grant,
    shared: Box<dyn Shared>,
    transaction: Transaction,
    clock: StandingClock,
    folder: Folder,
}

async fn shop(options: &Options) -> Shop {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let store = Sqlite::open_with_clock(folder.file(), options, clock.clock()).expect("opening");
    let grant = granted(&store, 1).await;
    let mut extensions = Extensions::new();
    let begun = store.begin(operation(1), grant, &mut extensions).await.expect("beginning");
    let transaction = extensions.get::<Transaction>().expect("is put there").clone();
    Shop { store, grant, shared: begun.expect("is given"), transaction, clock, folder }
}

/// As anybody else sees them.
fn payments(folder: &Folder) -> i64 {
    let file = Connection::open(folder.file()).expect("opening");
    file.query_row("SELECT count(*) FROM payment", [], |row| row.get(0)).expect("counting")
}

fn pay(connection: &Connection) -> rusqlite::Result<usize> {
    connection.execute("INSERT INTO payment VALUES (100)", [])
}

#[tokio::test]
async fn what_the_handler_did_and_the_end_are_one_commit() {
    let shop = shop(&options()).await;
    assert_eq!(shop.transaction.run(pay).await.expect("paying"), 1);
    assert_eq!(payments(&shop.folder), 0, "nobody sees it yet");
    assert!(matches!(standing(&shop.store, 1).await, Some(Standing::Running { .. })));
    assert_eq!(shop.transaction.clone().run(pay).await.expect("paying"), 1, "a clone is the same");
    let completion = answered(1, shop.grant, "paid");
    assert_eq!(shop.shared.complete(completion).await.expect("completing"), Holding::Held);
    assert!(
        matches!(standing(&shop.store, 1).await, Some(Standing::Completed { answer, .. }) if answer == "paid")
    );
    assert_eq!(payments(&shop.folder), 2);
    assert!(matches!(shop.transaction.run(pay).await, Err(TransactionError::Ended)), "it is over");
}

#[tokio::test]
async fn an_end_wakes_who_waits() {
    let shop = shop(&options()).await;
    let heard = shop.store.changed(operation(1));
    shop.transaction.run(pay).await.expect("paying");
    shop.shared.complete(answered(1, shop.grant, "paid")).await.expect("completing");
    tokio::time::timeout(Duration::from_secs(20), heard).await.expect("is woken");
}

#[tokio::test]
async fn a_lost_lease_takes_back_what_the_handler_did() {
    let Shop { store, grant, shared, transaction, clock, folder } = shop(&options()).await;
    clock.step(Duration::from_mins(1).as_secs_f64());
    let newer = Claim { claimant: Uuid::from_u128(9), ..claim(1) };
    assert!(
        matches!(store.claim(&newer).await.expect("claiming"), Claimed::Granted(grant) if grant.taken_over)
    );
    transaction.run(pay).await.expect("paying");
    assert_eq!(shared.complete(answered(1, grant, "late")).await.expect("completing"), Holding::Lost);
    assert!(matches!(standing(&store, 1).await, Some(Standing::Running { .. })));
    assert_eq!(payments(&folder), 0);
}

#[tokio::test]
async fn rolled_back_or_dropped_nothing_was_done_and_others_go_on() {
    for dropped in [false, true] {
        let shop = shop(&options()).await;
        shop.transaction.run(pay).await.expect("paying");
        let Shop { store, shared, transaction, folder, .. } = shop;
        if dropped {
            drop(shared);
        } else {
            shared.roll_back().await.expect("rolling back");
        }
        assert!(matches!(transaction.run(pay).await, Err(TransactionError::Ended)), "dropped: {dropped}");
        granted(&store, 2).await;
        assert_eq!(payments(&folder), 0, "dropped: {dropped}");
    }
}

/// Those who were stopped while they queued would otherwise be served one after the other, for nothing.
#[tokio::test]
async fn a_transaction_that_was_given_up_before_its_turn_takes_none() {
    for dropped in [false, true] {
        let Shop { store, grant, shared, transaction, folder, .. } = shop(&options()).await;
        let mut extensions = Extensions::new();
        let next = granted(&store, 2).await;
        let waits = store.begin(operation(2), next, &mut extensions).await.expect("beginning");
        let waits = waits.expect("is given");
        transaction.run(pay).await.expect("paying");
        let second = extensions.get::<Transaction>().expect("is put there").clone();
        let (begun, run) = tokio::sync::oneshot::channel();
        let queued = second.run(move |file| {
            begun.send(()).expect("the test looks");
            pay(file)
        });
        let mut queued = std::pin::pin!(queued);
        tokio::select! {
            biased;
            told = &mut queued => panic!("it is not its turn: {told:?}"),
            () = std::future::ready(()) => {}
        }
        if dropped {
            drop(waits);
        } else {
            let undone = tokio::time::timeout(Duration::from_secs(2), waits.roll_back()).await;
            undone.expect("it does not wait for those before it").expect("rolling back");
        }
        shared.complete(answered(1, grant, "paid")).await.expect("completing");
        assert!(matches!(queued.await, Err(TransactionError::Ended)), "dropped: {dropped}");
        assert!(run.await.is_err(), "it was run for nothing, dropped: {dropped}");
        assert_eq!(payments(&folder), 1, "dropped: {dropped}");
    }
}

#[tokio::test]
async fn a_transaction_that_takes_too_long_is_rolled_back_and_says_so() {
    let options = Options { transaction_for: Duration::from_millis(50), ..options() };
    let shop = shop(&options).await;
    shop.transaction.run(pay).await.expect("paying");
    // The next in the queue is served when the time is up: nothing is slept here.
    granted(&shop.store, 2).await;
    assert_eq!(payments(&shop.folder), 0);
    assert!(matches!(shop.transaction.run(pay).await, Err(TransactionError::TimedOut)));
    let late = shop.shared.complete(answered(1, shop.grant, "late")).await;
    assert!(matches!(late, Err(StoreError::Undone(why)) if why.to_string().contains("longer than it may")));
    assert!(matches!(standing(&shop.store, 1).await, Some(Standing::Running { .. })));
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_interrupted() {
    let options = Options { transaction_for: Duration::from_millis(50), ..options() };
    let shop = shop(&options).await;
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let told = shop.transaction.run(|file| file.query_row(endless, [], |row| row.get::<_, i64>(0))).await;
    assert!(matches!(told, Err(TransactionError::TimedOut)));
    granted(&shop.store, 2).await;
}

#[tokio::test]
async fn a_statement_that_fails_leaves_the_rest() {
    let shop = shop(&options()).await;
    shop.transaction.run(pay).await.expect("paying");
    let told = shop.transaction.run(|file| file.execute("INSERT INTO payment VALUES (-1)", [])).await;
    assert!(matches!(told, Err(TransactionError::Failed(_))));
    let Shop { grant, shared, folder, .. } = shop;
    assert_eq!(shared.complete(answered(1, grant, "paid")).await.expect("completing"), Holding::Held);
    assert_eq!(payments(&folder), 1);
}

#[tokio::test]
async fn a_constraint_that_was_deferred_refuses_the_commit() {
    let Shop { store, grant, shared, transaction, folder, .. } = shop(&options()).await;
    let dangling = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
        CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO child VALUES (7)";
    transaction.run(pay).await.expect("paying");
    transaction.run(|file| file.execute_batch(dangling)).await.expect("nobody looks yet");
    let refused = shared.complete(answered(1, grant, "paid")).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(payments(&folder), 0);
    assert!(matches!(standing(&store, 1).await, Some(Standing::Running { .. })));
    granted(&store, 2).await;
}

#[tokio::test]
async fn a_panic_rolls_back_and_the_thread_goes_on() {
    let shop = shop(&options()).await;
    shop.transaction.run(pay).await.expect("paying");
    let told = shop.transaction.run(|_| -> rusqlite::Result<()> { panic!("on purpose") }).await;
    assert!(matches!(told, Err(TransactionError::Panicked)));
    assert!(matches!(shop.transaction.run(pay).await, Err(TransactionError::Panicked)));
    granted(&shop.store, 2).await;
    assert_eq!(payments(&shop.folder), 0);
}

#[tokio::test]
async fn a_handler_neither_ends_the_transaction_nor_touches_records() {
    let shop = shop(&options()).await;
    shop.transaction.run(pay).await.expect("paying");
    for forbidden in [
        "COMMIT",
        "ROLLBACK",
        "BEGIN",
        "ATTACH ':memory:' AS other",
        "DELETE FROM idempotency_record",
        "UPDATE idempotency_meta SET value = 0",
        "INSERT INTO idempotency_meta VALUES ('x', 1)",
        "DROP TABLE idempotency_record",
        "ALTER TABLE idempotency_record RENAME TO other",
        "CREATE TRIGGER spy AFTER UPDATE ON idempotency_record BEGIN DELETE FROM payment; END",
        "CREATE TEMP TRIGGER spy AFTER UPDATE ON main.idempotency_record BEGIN DELETE FROM payment; END",
        "CREATE TEMP TRIGGER spy BEFORE INSERT ON Idempotency_Record BEGIN SELECT raise(ABORT, 'no'); END",
        "CREATE INDEX mine ON idempotency_record (answer)",
        "DROP INDEX idempotency_sweep",
        "DROP INDEX main.idempotency_unknown",
        "CREATE TEMP TABLE idempotency_record (epoch INTEGER)",
        "CREATE TABLE IDEMPOTENCY_mine (n INTEGER)",
        "CREATE TEMP VIEW idempotency_meta AS SELECT 1 AS key, 2 AS value",
        "SELECT answer FROM idempotency_record",
        "SELECT count(*) FROM main.Idempotency_Record",
        "CREATE TABLE child (of INTEGER REFERENCES idempotency_record (epoch)); INSERT INTO child VALUES (1)",
        "PRAGMA query_only = ON",
        "PRAGMA locking_mode = EXCLUSIVE",
        "PRAGMA writable_schema = ON",
        "PRAGMA schema_version = 7",
        "PRAGMA max_page_count = 1",
        "PRAGMA foreign_keys = OFF",
        "PRAGMA ignore_check_constraints = ON",
        "PRAGMA hard_heap_limit = 1024",
        "PRAGMA busy_timeout = 0",
        "PRAGMA wal_autocheckpoint = 0",
        "PRAGMA wal_checkpoint",
        "PRAGMA main.query_only(1)",
    ] {
        let told = shop.transaction.run(|file| file.execute_batch(forbidden)).await;
        assert!(matches!(told, Err(TransactionError::Failed(_))), "{forbidden}");
    }
    shop.transaction
        .run(|file| {
            file.execute_batch("SAVEPOINT a; INSERT INTO payment VALUES (1); ROLLBACK TO a; RELEASE a")
        })
        .await
        .expect("savepoints are the handler's own");
    assert_eq!(
        shop.shared.complete(answered(1, shop.grant, "paid")).await.expect("completing"),
        Holding::Held
    );
}

/// A name that is found first among temporary ones would lead every verb to another table.
#[tokio::test]
async fn a_table_that_takes_our_name_hides_no_record() {
    let Shop { store, grant, shared, transaction, folder: _folder, .. } = shop(&options()).await;
    let hides = "CREATE TEMP TABLE mine (epoch INTEGER); ALTER TABLE mine RENAME TO idempotency_record";
    // Whether it may or not: what counts is what is found afterwards.
    drop(transaction.run(|file| file.execute_batch(hides)).await);
    assert_eq!(shared.complete(answered(1, grant, "paid")).await.expect("completing"), Holding::Held);
    assert!(matches!(standing(&store, 1).await, Some(Standing::Completed { .. })));
    granted(&store, 2).await;
    assert_eq!(store.release(operation(1), grant.epoch).await.expect("releasing"), Holding::Lost);
}

#[tokio::test]
async fn what_a_handler_asks_of_the_file_and_defers_is_its_own() {
    let shop = shop(&options()).await;
    for allowed in [
        "PRAGMA table_info(payment)",
        "PRAGMA foreign_keys",
        "PRAGMA query_only",
        "PRAGMA defer_foreign_keys = ON",
        "PRAGMA user_version = 7",
        "CREATE TEMP TABLE mine (n INTEGER); INSERT INTO mine VALUES (1); DROP TABLE mine",
        "CREATE INDEX payments ON payment (cents)",
        "CREATE VIEW paid AS SELECT sum(cents) AS cents FROM payment; SELECT * FROM paid; DROP VIEW paid",
        "ALTER TABLE payment ADD COLUMN note TEXT; ALTER TABLE payment RENAME COLUMN note TO remark",
        "CREATE TABLE old (n INTEGER); ALTER TABLE old RENAME TO older; DROP TABLE older",
        "ANALYZE payment",
        "CREATE TABLE refund (cents INTEGER); DROP TABLE refund",
    ] {
        let told = shop.transaction.run(|file| file.execute_batch(allowed)).await;
        assert!(told.is_ok(), "{allowed}: {told:?}");
    }
}

/// What one handler leaves on the connection would be there for the next, and for every verb.
#[tokio::test]
async fn what_a_handler_leaves_on_the_connection_is_not_there_for_the_next() {
    const LEFT: &str = "SELECT count(*) FROM temp.sqlite_schema";
    for ending in ["completed", "rolled back", "dropped"] {
        let Shop { store, grant, shared, transaction, folder: _folder, .. } = shop(&options()).await;
        let leaves = "CREATE TEMP TABLE mine (n INTEGER);
            CREATE TEMP VIEW seen AS SELECT * FROM payment;
            CREATE TEMP TRIGGER spy AFTER INSERT ON main.payment BEGIN INSERT INTO mine VALUES (1); END";
        if ending != "dropped" {
            transaction.run(|file| file.execute_batch(leaves)).await.expect("they are its own");
        }
        transaction.run(|file| file.busy_timeout(Duration::ZERO)).await.expect("it is told");
        match ending {
            "completed" => assert_eq!(
                shared.complete(answered(1, grant, "paid")).await.expect("completing"),
                Holding::Held
            ),
            "rolled back" => shared.roll_back().await.expect("rolling back"),
            _ => drop(shared),
        }
        let mut extensions = Extensions::new();
        let next = granted(&store, 2).await;
        let shared = store.begin(operation(2), next, &mut extensions).await.expect("beginning");
        let transaction = extensions.get::<Transaction>().expect("is put there").clone();
        let left: i64 =
            transaction.run(|file| file.query_row(LEFT, [], |row| row.get(0))).await.expect("looking");
        assert_eq!(left, 0, "{ending}");
        let waits = "PRAGMA busy_timeout";
        let waits: i64 =
            transaction.run(move |file| file.query_row(waits, [], |row| row.get(0))).await.expect("asking");
        assert_eq!(waits, 5_000, "{ending}");
        transaction.run(pay).await.expect("paying, and nothing else happens");
        drop(shared);
    }
}

#[tokio::test]
async fn without_a_run_the_end_is_recorded_as_any_other() {
    let shop = shop(&options()).await;
    assert_eq!(
        shop.shared.complete(answered(1, shop.grant, "none")).await.expect("completing"),
        Holding::Held
    );
    assert!(matches!(standing(&shop.store, 1).await, Some(Standing::Completed { .. })));
    assert!(matches!(shop.transaction.run(pay).await, Err(TransactionError::Ended)));
}

#[tokio::test]
async fn a_locked_file_is_told_to_the_handler() {
    let options = Options { busy_for: Duration::from_millis(20), ..options() };
    let shop = shop(&options).await;
    let other = Connection::open(shop.folder.file()).expect("opening");
    other.execute_batch("BEGIN IMMEDIATE").expect("locking");
    assert!(matches!(shop.transaction.run(pay).await, Err(TransactionError::Unavailable(_))));
    other.execute_batch("COMMIT").expect("unlocking");
    let late = shop.shared.complete(answered(1, shop.grant, "late")).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "what the handler wanted was not done");
}

#[tokio::test]
async fn a_handler_gets_it_from_its_request_or_is_told_what_is_missing() {
    let shop = shop(&options()).await;
    let (mut parts, ()) = Request::new(()).into_parts();
    let missing = Transaction::from_request_parts(&mut parts, &()).await.err().expect("is not there");
    assert_eq!(missing.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
    parts.extensions.insert(shop.transaction.clone());
    let found = Transaction::from_request_parts(&mut parts, &()).await.expect("is there");
    found.run(pay).await.expect("paying");
}
