//! A claim reads what may be claimed and nothing else: neither ended rows nor rows behind another of their ordering key.

use crate::bench::{self, Folder};
use perdura_inbox::conformance::{keyed, put, wish};
use perdura_inbox::store::{Sqlite, Store, sqlite::Options};
use rusqlite::{Connection, params};

/// So many rows of each kind stand in the way.
const ROWS: i64 = 20_000;

#[tokio::test]
async fn a_claim_on_sqlite_passes_over_no_ended_and_no_blocked_rows() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    store.put(&keyed("head", "k")).await.expect("putting");
    let fill = Connection::open(folder.file()).expect("opening");
    let sql = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
        INSERT INTO inbox_row (number, inbox, tenant, id, status, received_at, attempts, not_before, ordering_key, head, epoch,
            fingerprint, payload)
        SELECT n + ?2, 'in', 't', n + ?2, ?3, n, 0, n, ?4, 0, 0, zeroblob(32), x'' FROM n";
    fill.execute(sql, params![ROWS, 1_000_000, "DONE", None::<&str>]).expect("filling");
    fill.execute(sql, params![ROWS, 2_000_000, "PENDING", Some("k")]).expect("filling");
    let plan = "EXPLAIN QUERY PLAN SELECT number FROM inbox_row
        WHERE inbox = 'in' AND tenant = 't' AND not_before <= 9e15 AND status = 'PENDING' AND head = 1
        ORDER BY not_before, number LIMIT 10";
    let plan: Vec<String> = {
        let mut plan = fill.prepare(plan).expect("it is a statement");
        plan.query_map([], |row| row.get(3)).expect("it answers").collect::<Result<_, _>>().expect("lines")
    };
    assert!(plan.len() == 1 && plan[0].contains("INDEX inbox_ready"), "{plan:?}");
    let claimed = store.claim(&wish("a", 10)).await.expect("claiming");
    assert_eq!(claimed.len(), 1, "the head alone");
}

/// How many rows and index entries the server has read of the inbox so far, as its statistics say.
async fn entries_read(client: &tokio_postgres::Client, schema: &str) -> (i64, i64) {
    let sql = "SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()";
    client.query_one(sql, &[]).await.expect("asking");
    let sql = "SELECT (SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'inbox_row'),
        (SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE schemaname = $1 AND relname = 'inbox_row')";
    let row = client.query_one(sql, &[&schema]).await.expect("asking");
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_claim_on_postgres_passes_over_no_ended_and_no_blocked_rows() {
    let schema = bench::fresh_schema();
    let store = bench::open_postgres(&schema).await;
    store.put(&keyed("head", "k")).await.expect("putting");
    store.put(&put("free")).await.expect("putting");
    let client = bench::connection().await;
    let sql = |from: i64, status: &str, key: &str| {
        format!(
            "INSERT INTO {schema}.inbox_row (number, inbox, tenant, id, status, received_at, not_before, ordering_key, head, fingerprint, payload)
             SELECT n + {from}, 'in', 't', n + {from}, '{status}', '2020-01-01', '2020-01-01', {key}, false, '', ''
             FROM generate_series(1, {ROWS}) AS n"
        )
    };
    client.batch_execute(&sql(1_000_000, "DONE", "NULL")).await.expect("filling");
    client.batch_execute(&sql(2_000_000, "PENDING", "'k'")).await.expect("filling");
    // By one connection that does nothing else, whose reads are counted when it is told to.
    let claim = format!("SELECT count(*) FROM {schema}.inbox_claim('in', 'a', 10, 1000000, NULL)");
    let before = entries_read(&client, &schema).await;
    let claimed: i64 = client.query_one(&claim, &[]).await.expect("claiming").get(0);
    let after = entries_read(&client, &schema).await;
    assert_eq!(claimed, 2);
    assert_eq!(after.0 - before.0, 0, "no row is read without an index");
    let entries = after.1 - before.1;
    assert!((2..100).contains(&entries), "{entries} entries were read");
    assert_eq!(store.claim(&wish("a", 10)).await.expect("claiming"), []);
}
