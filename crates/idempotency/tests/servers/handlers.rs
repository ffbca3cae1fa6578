//! The transaction that a handler shares with its record, in PostgreSQL: both, or neither.

use crate::kit::{
    DEADLINE, answer, answered, complete, found, granted, in_time, is_running, is_unavailable, operation,
    take, unfit,
};
use crate::pg;
use axum::extract::FromRequestParts;
use perdura_idempotency::record::{Grant, Holding};
use perdura_idempotency::store::postgres::{Options, Transaction};
use perdura_idempotency::store::{Postgres, Store, StoreError};
use std::time::Duration;

/// A store, and a handler that was granted operation 1.
async fn scene() -> (String, Postgres, Grant) {
    let schema = pg::fresh_schema();
    let store = pg::open(&schema).await;
    pg::make_effects(&schema).await;
    let grant = granted(&store, &take(operation(1), 1)).await;
    (schema, store, grant)
}

/// Sessions of this process that have a transaction open. Others run tests on the same server.
async fn open_transactions(schema: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM pg_locks WHERE relation = '{schema}.effect'::regclass");
    pg::connection().await.query_one(&sql, &[]).await.expect("the server tells").get(0)
}

async fn until_no_transaction_is_open(schema: &str) {
    in_time("the end of the transaction", async {
        while open_transactions(schema).await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effect_and_record_become_visible_together() {
    let (schema, store, grant) = scene().await;
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 1).await;
    assert_eq!((pg::effects(&schema, 1).await, is_running(&store, operation(1)).await), (0, true));
    let heard = store.changed(operation(1));
    let completed = shared.complete(answered(operation(1), grant.epoch, "done")).await;
    assert_eq!(completed.expect("the store answers"), Holding::Held);
    in_time("waking who waits", heard).await;
    assert_eq!(pg::effects(&schema, 1).await, 1);
    assert_eq!(answer(&store, operation(1)).await, "done");
    assert!(unfit(transaction.client().await).contains("has ended"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_uses_no_transaction_is_completed_all_the_same() {
    let (_, store, grant) = scene().await;
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    let completed = shared.complete(answered(operation(1), grant.epoch, "done")).await;
    assert_eq!(completed.expect("the store answers"), Holding::Held);
    assert_eq!(answer(&store, operation(1)).await, "done");
    assert!(unfit(transaction.client().await).contains("has ended"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_the_lease_leaves_nothing_behind() {
    let (schema, store, grant) = scene().await;
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 1).await;
    pg::step(&schema, 3_600.0).await;
    let newer = granted(&store, &take(operation(1), 2)).await;
    let completed = shared.complete(answered(operation(1), grant.epoch, "late")).await;
    assert_eq!(completed.expect("the store answers"), Holding::Lost);
    assert_eq!(pg::effects(&schema, 1).await, 0);
    assert_eq!(open_transactions(&schema).await, 0);
    assert_eq!(complete(&store, operation(1), newer.epoch, "newer").await, Holding::Held);
    assert_eq!(answer(&store, operation(1)).await, "newer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolled_back_or_dropped_nothing_is_left() {
    let (schema, store, grant) = scene().await;
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 1).await;
    shared.roll_back().await.expect("the store answers");
    assert_eq!(open_transactions(&schema).await, 0);

    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 2).await;
    drop(shared);
    until_no_transaction_is_open(&schema).await;
    assert!(unfit(transaction.client().await).contains("has ended"));

    // A task that the handler left behind still holds the connection when the layer lets go.
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 3).await;
    let held = transaction.client().await.expect("the transaction is open");
    drop(shared);
    drop(held);
    until_no_transaction_is_open(&schema).await;

    for n in 1..=3 {
        assert_eq!(pg::effects(&schema, n).await, 0, "{n}");
    }
    assert!(is_running(&store, operation(1)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_ends_in_the_middle_leaves_nothing_and_the_next_run_is_the_only_one() {
    let (schema, store, grant) = scene().await;
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 1).await;
    let client = transaction.client().await.expect("the transaction is open");
    let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.expect("it answers").get(0);
    drop(client);
    let ended = pg::connection().await.query_one("SELECT pg_terminate_backend($1)", &[&backend]).await;
    assert!(ended.expect("it answers").get::<_, bool>(0));
    let completed = shared.complete(answered(operation(1), grant.epoch, "lost")).await;
    assert!(is_unavailable(&completed), "{completed:?}");
    assert_eq!(pg::effects(&schema, 1).await, 0);
    assert!(is_running(&store, operation(1)).await);

    pg::step(&schema, 3_600.0).await;
    let second = granted(&store, &take(operation(1), 2)).await;
    let (shared, transaction) = pg::begin(&store, operation(1), second).await;
    pg::act(&transaction, &schema, 1).await;
    let completed = shared.complete(answered(operation(1), second.epoch, "second")).await;
    assert_eq!(completed.expect("the store answers"), Holding::Held);
    assert_eq!(pg::effects(&schema, 1).await, 1);
}

/// Whose rows a handler may see is often such a setting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_sets_on_the_connection_is_not_there_for_the_next() {
    let (schema, store, first) = scene().await;
    let (shared, transaction) = pg::begin(&store, operation(1), first).await;
    let client = transaction.client().await.expect("the transaction is open");
    let set = format!(
        "SET app.tenant = 'ann'; SET search_path TO {schema}; SET statement_timeout = 0; CREATE TEMP TABLE mine (n int); \
         SELECT pg_advisory_lock(hashtext('{schema}'))"
    );
    client.batch_execute(&set).await.expect("it answers");
    drop(client);
    let completed = shared.complete(answered(operation(1), first.epoch, "done")).await;
    assert_eq!(completed.expect("the store answers"), Holding::Held);
    // The pool has four connections, and gives them in turn.
    for n in 2..10 {
        let grant = granted(&store, &take(operation(n), 1)).await;
        let (shared, transaction) = pg::begin(&store, operation(n), grant).await;
        let client = transaction.client().await.expect("the transaction is open");
        let left = "SELECT COALESCE(current_setting('app.tenant', true), ''), current_setting('search_path'), \
                    to_regclass('pg_temp.mine') IS NOT NULL";
        let row = client.query_one(left, &[]).await.expect("it answers");
        let left: (String, String, bool) = (row.get(0), row.get(1), row.get(2));
        assert_eq!((left.0.as_str(), left.1.contains(&schema), left.2), ("", false, false), "{n}");
        drop(client);
        shared.roll_back().await.expect("the store answers");
    }
    let free = format!("SELECT pg_try_advisory_lock(hashtext('{schema}'))");
    assert!(pg::connection().await.query_one(&free, &[]).await.expect("it answers").get::<_, bool>(0));
}

/// A handler that acts for a tenant, as row-level security wants it, has not the rights to record its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_takes_a_role_leaves_it_before_its_end_is_recorded() {
    let (schema, store, grant) = scene().await;
    let role = format!("{schema}_tenant");
    let made = format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT INSERT ON {schema}.effect TO {role};
         REVOKE ALL ON {schema}.idempotency_record FROM {role}"
    );
    pg::connection().await.batch_execute(&made).await.expect("the role is made");
    for (n, taken) in [(1, format!("SET LOCAL ROLE {role}")), (2, format!("SET ROLE {role}"))] {
        let grant = if n == 1 { grant } else { granted(&store, &take(operation(n), 1)).await };
        let (shared, transaction) = pg::begin(&store, operation(n), grant).await;
        transaction.client().await.expect("it is open").batch_execute(&taken).await.expect("it is taken");
        pg::act(&transaction, &schema, n).await;
        let completed = shared.complete(answered(operation(n), grant.epoch, "done")).await;
        assert_eq!(completed.expect("the store answers"), Holding::Held, "{taken}");
        assert_eq!(pg::effects(&schema, n).await, 1, "{taken}");
    }
}

/// What was acknowledged is on disk, also where the handler did not care.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_does_not_wait_for_the_disk_is_committed_with_the_wait_all_the_same() {
    let (schema, store, grant) = scene().await;
    let made = format!(
        "CREATE TABLE {schema}.seen (setting text);
         CREATE FUNCTION {schema}.look() RETURNS trigger LANGUAGE plpgsql AS
         'BEGIN INSERT INTO {schema}.seen VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER looks AFTER INSERT ON {schema}.effect DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION {schema}.look()"
    );
    pg::connection().await.batch_execute(&made).await.expect("it is made");
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    let careless = "SET LOCAL synchronous_commit = off";
    transaction.client().await.expect("it is open").batch_execute(careless).await.expect("it is set");
    pg::act(&transaction, &schema, 1).await;
    let completed = shared.complete(answered(operation(1), grant.epoch, "done")).await;
    assert_eq!(completed.expect("the store answers"), Holding::Held);
    let seen = format!("SELECT setting FROM {schema}.seen");
    let seen: String = pg::connection().await.query_one(&seen, &[]).await.expect("it was seen").get(0);
    assert_eq!(seen, "on");
}

/// Who holds the connection and calls something that asks for it too would otherwise wait for itself, for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_waits_for_itself_is_told_so() {
    let schema = pg::fresh_schema();
    let options = Options { transaction_for: Duration::from_secs(1), ..pg::options(&schema) };
    let store = Postgres::connect(&pg::url(), options).await.expect("the store opens");
    let grant = granted(&store, &take(operation(1), 1)).await;
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    let held = transaction.client().await.expect("the transaction is open");
    let asked = in_time("being told", transaction.client()).await;
    assert!(unfit(asked).contains("let go of it"));
    drop(held);
    drop(shared);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_ends_the_transaction_is_found_out() {
    let (schema, store, grant) = scene().await;
    for (n, ended) in [(1, "COMMIT"), (2, "ROLLBACK"), (3, "COMMIT; BEGIN")] {
        let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
        pg::act(&transaction, &schema, n).await;
        let client = transaction.client().await.expect("the transaction is open");
        client.batch_execute(ended).await.expect("PostgreSQL does not mind");
        drop(client);
        let completed = shared.complete(answered(operation(1), grant.epoch, "apart")).await;
        assert!(matches!(completed, Err(StoreError::Detached(_))), "{ended}: {completed:?}");
        assert!(is_running(&store, operation(1)).await, "{ended}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_statement_is_not_recorded_as_done() {
    let (schema, store, grant) = scene().await;
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 1).await;
    let client = transaction.client().await.expect("the transaction is open");
    client.batch_execute("SELECT 1 / 0").await.expect_err("it fails");
    drop(client);
    let completed = shared.complete(answered(operation(1), grant.epoch, "done")).await;
    assert!(
        matches!(&completed, Err(StoreError::Undone(why)) if why.to_string().contains("savepoint")),
        "{completed:?}"
    );
    until_no_transaction_is_open(&schema).await;
    assert_eq!(pg::effects(&schema, 1).await, 0);

    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 1).await;
    let client = transaction.client().await.expect("the transaction is open");
    client.batch_execute("SAVEPOINT before").await.expect("it is set");
    client.batch_execute("SELECT 1 / 0").await.expect_err("it fails");
    client.batch_execute("ROLLBACK TO before").await.expect("it goes on from there");
    drop(client);
    let completed = shared.complete(answered(operation(1), grant.epoch, "done")).await;
    assert_eq!(completed.expect("the store answers"), Holding::Held);
    assert_eq!(pg::effects(&schema, 1).await, 1);
}

/// By a constraint of its own, or by a trigger that stands for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deferred_refuses_the_commit_and_what_may_pass_does_not() {
    for (made, done, is_refused) in [
        (
            "CREATE TABLE S.one (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
            "INSERT INTO S.one VALUES (1), (1)",
            true,
        ),
        (
            "CREATE TABLE S.one (n int);
             CREATE FUNCTION S.object() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END';
             CREATE CONSTRAINT TRIGGER objects AFTER INSERT ON S.one DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION S.object()",
            "INSERT INTO S.one VALUES (1)",
            true,
        ),
        (
            "CREATE TABLE S.one (n int);
             CREATE FUNCTION S.object() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN RAISE ''again'' USING ERRCODE = ''40001''; END';
             CREATE CONSTRAINT TRIGGER objects AFTER INSERT ON S.one DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION S.object()",
            "INSERT INTO S.one VALUES (1)",
            false,
        ),
    ] {
        let (schema, store, grant) = scene().await;
        pg::connection()
            .await
            .batch_execute(&made.replace("S.", &format!("{schema}.")))
            .await
            .expect("it is made");
        let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
        pg::act(&transaction, &schema, 1).await;
        let client = transaction.client().await.expect("the transaction is open");
        client.batch_execute(&done.replace("S.", &format!("{schema}."))).await.expect("nobody looks yet");
        drop(client);
        let completed = shared.complete(answered(operation(1), grant.epoch, "done")).await;
        match completed {
            Err(StoreError::Refused(_)) => assert!(is_refused, "{made}"),
            Err(StoreError::Unavailable(_)) => assert!(!is_refused, "{made}"),
            other => panic!("{made}: {other:?}"),
        }
        assert_eq!(pg::effects(&schema, 1).await, 0);
        assert!(is_running(&store, operation(1)).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_transaction_ends_and_is_not_recorded_as_done() {
    let schema = pg::fresh_schema();
    let options = Options { transaction_for: Duration::from_secs(1), ..pg::options(&schema) };
    let store = Postgres::connect(&pg::url(), options).await.expect("the store opens");
    pg::make_effects(&schema).await;
    let grant = granted(&store, &take(operation(1), 1)).await;
    let (shared, transaction) = pg::begin(&store, operation(1), grant).await;
    pg::act(&transaction, &schema, 1).await;
    until_no_transaction_is_open(&schema).await;
    let completed = shared.complete(answered(operation(1), grant.epoch, "late")).await;
    assert!(is_unavailable(&completed), "{completed:?}");
    assert_eq!(pg::effects(&schema, 1).await, 0);
    assert!(is_running(&store, operation(1)).await);
}

/// Leases are renewed, and claims answered, while handlers hold all connections that they may have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_never_hold_the_last_connection() {
    let schema = pg::fresh_schema();
    let options = Options { timeout_for: Duration::from_secs(2), ..pg::options(&schema) };
    let store = Postgres::connect(&pg::url(), options).await.expect("the store opens");
    pg::make_effects(&schema).await;
    let mut handlers = Vec::new();
    for n in 1..=3 {
        let grant = granted(&store, &take(operation(n), 1)).await;
        let (shared, transaction) = pg::begin(&store, operation(n), grant).await;
        pg::act(&transaction, &schema, n).await;
        handlers.push((shared, transaction, grant));
    }
    let grant = granted(&store, &take(operation(4), 1)).await;
    let (shared, transaction) = pg::begin(&store, operation(4), grant).await;
    let crowded = transaction.client().await;
    assert!(is_unavailable(&crowded), "there are three places in a pool of four");
    for (n, (_, _, grant)) in (1..).zip(&handlers) {
        let renewed = store.renew(operation(n), grant.epoch, Duration::from_mins(1)).await;
        assert_eq!(renewed.expect("the store answers"), Holding::Held);
    }
    drop(handlers.pop());
    in_time("a place", async { while transaction.client().await.is_err() {} }).await;
    drop(shared);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_extractor_gives_the_transaction_or_says_what_is_missing() {
    let (schema, store, grant) = scene().await;
    let (mut parts, ()) = http::Request::new(()).into_parts();
    let missing = Transaction::from_request_parts(&mut parts, &()).await.err().expect("there is none");
    assert!(missing.to_string().contains("transactional"));
    let shared = store.begin(operation(1), grant, &mut parts.extensions).await.expect("the store answers");
    let transaction = Transaction::from_request_parts(&mut parts, &()).await.expect("it was put there");
    pg::act(&transaction, &schema, 1).await;
    let shared = shared.expect("PostgreSQL shares transactions");
    let completed = shared.complete(answered(operation(1), grant.epoch, "done")).await;
    assert_eq!(completed.expect("the store answers"), Holding::Held);
    assert_eq!(pg::effects(&schema, 1).await, 1);
}

/// Commits that notify queue behind each other, so those that nobody waits for do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_is_waited_for_is_told() {
    let schema = pg::fresh_schema();
    let store = pg::open(&schema).await;
    let (client, mut connection) =
        tokio_postgres::connect(&pg::url(), tokio_postgres::NoTls).await.expect("PostgreSQL answers");
    let (heard, mut told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let tokio_postgres::AsyncMessage::Notification(note) = message {
                heard.send(note.payload().to_owned()).expect("the test listens");
            }
        }
    });
    client.batch_execute(&format!("LISTEN idempotency_{schema}")).await.expect("it listens");
    for (n, waited) in [(1, false), (2, true), (3, false), (4, true)] {
        let grant = granted(&store, &take(operation(n), 1)).await;
        if waited {
            found(&store, &take(operation(n), 2)).await;
        }
        assert_eq!(complete(&store, operation(n), grant.epoch, "done").await, Holding::Held);
    }
    for n in [2, 4] {
        let next = tokio::time::timeout(DEADLINE, told.recv()).await.expect("somebody is told");
        assert_eq!(next, Some(operation(n).to_string()));
    }
}
