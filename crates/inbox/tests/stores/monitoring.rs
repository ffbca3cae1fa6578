//! The queries by which an operator looks at the inbox, as docs/inbox.md has them, run on both databases.

use crate::bench::{self, Folder, PostgresClock};
use perdura_inbox::conformance::{address, put, wish};
use perdura_inbox::row::{Ending, Named};
use perdura_inbox::store::{Sqlite, Store, sqlite::Options};
use rusqlite::Connection;

const DOCS: &str = include_str!("../../../../docs/inbox.md");

/// The statements under this heading of the docs.
fn queries(heading: &str) -> Vec<String> {
    let (_, section) = DOCS.split_once(&format!("### {heading}\n")).expect("the docs have this heading");
    let (_, code) = section.split_once("```sql\n").expect("there are statements under it");
    let (code, _) = code.split_once("```").expect("they end");
    let lines = code.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    lines.split(';').map(|sql| sql.trim().to_owned()).filter(|sql| !sql.is_empty()).collect()
}

/// Two rows that wait, one that is worked, one that is done; the one that is worked has been for long.
async fn fill(store: &dyn Store) {
    for id in ["1", "2", "3", "4"] {
        store.put(&put(id)).await.expect("putting");
    }
    for (id, is_done) in [("1", true), ("2", false)] {
        let claimed = store.claim_named(&address(id), &wish("a", 1)).await.expect("claiming");
        let Named::Claimed(message) = claimed else { panic!("it is pending: {claimed:?}") };
        if is_done {
            store.end(&message.held().expect("it is held"), &Ending::Done).await.expect("ending");
        }
    }
}

#[tokio::test]
async fn the_monitoring_queries_answer_on_sqlite() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    fill(&store).await;
    let connection = Connection::open(folder.file()).expect("opening");
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("counting");
    let queries = queries("SQLite");
    let [pending, doing, done, stuck] = &queries[..] else { panic!("there are four: {queries:?}") };
    assert_eq!([count(pending), count(doing), count(done)], [2, 1, 1]);
    let stuck_ids = || -> Vec<String> {
        let mut statement = connection.prepare(stuck).expect("it is a statement");
        let rows = statement.query_map([], |row| row.get("id")).expect("it answers");
        rows.collect::<Result<_, _>>().expect("it answers")
    };
    assert_eq!(stuck_ids(), Vec::<String>::new(), "it was received a moment ago");
    let earlier = "UPDATE inbox_row SET received_at = received_at - 301 * 1000000";
    connection.execute(earlier, []).expect("updating");
    assert_eq!(stuck_ids(), ["2"]);
}

#[tokio::test]
async fn the_monitoring_queries_answer_on_postgres() {
    let schema = bench::fresh_schema();
    let store = bench::open_postgres(&schema).await;
    let clock = PostgresClock::of(&schema).await;
    clock.step(-10.0).await;
    fill(&store).await;
    let client = bench::connection().await;
    client.batch_execute(&format!("SET search_path = {schema}")).await.expect("setting");
    let queries = queries("PostgreSQL");
    let [pending, doing, done, stuck] = &queries[..] else { panic!("there are four: {queries:?}") };
    for (sql, expected) in [(pending, 2), (doing, 1), (done, 1)] {
        assert_eq!(client.query_one(sql, &[]).await.expect("counting").get::<_, i64>(0), expected, "{sql}");
    }
    assert_eq!(client.query(stuck, &[]).await.expect("listing").len(), 0, "it was received a moment ago");
    let earlier = "UPDATE inbox_row SET received_at = received_at - interval '301 seconds'";
    client.execute(earlier, &[]).await.expect("updating");
    let ids: Vec<String> =
        client.query(stuck, &[]).await.expect("listing").iter().map(|row| row.get("id")).collect();
    assert_eq!(ids, ["2"]);
}
