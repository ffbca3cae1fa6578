//! The tables of the store: made and brought forward when it is opened, and never taken back.
//!
//! Instances that start together take turns by an advisory lock. The functions in the tables count on READ COMMITTED
//! and on commits that are on disk when they return, so a server that is set up otherwise is refused.

use super::lent::{Lent, unavailable};
use crate::store::StoreError;

/// Each brings the tables from the version of its index to the next.
const MIGRATIONS: &[&str] = &[include_str!("1.sql")];

/// Settings under which the store keeps its promises: the name, values that break them, and what to do.
const SETTINGS: &[(&str, &[&str], &str)] = &[
    ("fsync", &["off"], "a crash would lose what was acknowledged: set fsync = on"),
    (
        "synchronous_commit",
        &["off"],
        "a crash would lose what was acknowledged: set synchronous_commit = on for this role or database",
    ),
];

/// Whether this may be the name of a schema. The name is never quoted.
pub(super) fn check_name(schema: &str) -> Result<(), StoreError> {
    let mut letters = schema.bytes();
    let begins = letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_');
    let goes_on =
        letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_');
    if begins && goes_on && schema.len() <= 48 && !schema.starts_with("pg_") {
        return Ok(());
    }
    Err(StoreError::Unfit(format!(
        "the schema is called {schema:?}; use up to 48 lower-case letters, digits and _, not starting with a digit \
         or pg_"
    )))
}

/// How far the tables are, where there are some.
async fn version(client: &Lent, schema: &str) -> Result<Option<usize>, StoreError> {
    let table = format!("{schema}.inbox_version");
    let is_there = "SELECT to_regclass($1) IS NOT NULL";
    if !client.query_one(is_there, &[&table]).await.map_err(unavailable)?.get::<_, bool>(0) {
        return Ok(None);
    }
    let newest = format!("SELECT COALESCE(max(version), 0) FROM {table}");
    let found: i32 = client.query_one(&newest, &[]).await.map_err(unavailable)?.get(0);
    let known = MIGRATIONS.len();
    usize::try_from(found).ok().filter(|found| *found <= known).map(Some).ok_or_else(|| {
        StoreError::Unfit(format!(
            "the tables in schema {schema} have version {found}, and this program knows up to {known}: run a newer \
             program, or give this one a schema of its own"
        ))
    })
}

/// Makes the tables, or brings them forward. Where there is nothing to do, a role without rights to do it is enough.
pub(super) async fn migrate(client: &Lent, schema: &str) -> Result<(), StoreError> {
    if version(client, schema).await? == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED;
         SELECT pg_advisory_xact_lock(hashtextextended('perdura inbox ' || '{schema}', 0));
         CREATE SCHEMA IF NOT EXISTS {schema};
         SET LOCAL search_path TO {schema}, pg_temp;
         CREATE TABLE IF NOT EXISTS inbox_version (
             version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())"
    );
    client.batch_execute(&begin).await.map_err(unavailable)?;
    let found = version(client, schema).await?.unwrap_or(0);
    for (version, migration) in MIGRATIONS.iter().enumerate().skip(found) {
        client.batch_execute(migration).await.map_err(unavailable)?;
        let note = format!("INSERT INTO inbox_version (version) VALUES ({})", version + 1);
        client.batch_execute(&note).await.map_err(unavailable)?;
    }
    client.batch_execute("COMMIT").await.map_err(unavailable)
}

/// Whether this server, as this pool reaches it, can keep what the store promises.
pub(super) async fn check_server(client: &Lent, volatile: bool) -> Result<(), StoreError> {
    let setting = "SELECT current_setting($1)";
    let isolation: String =
        client.query_one(setting, &[&"default_transaction_isolation"]).await.map_err(unavailable)?.get(0);
    if isolation != "read committed" {
        return Err(StoreError::Unfit(format!(
            "default_transaction_isolation is {isolation:?}: set it to 'read committed' for this role"
        )));
    }
    for (name, refused, remedy) in SETTINGS {
        let value: String = client.query_one(setting, &[name]).await.map_err(unavailable)?.get(0);
        if refused.contains(&value.as_str()) && !volatile {
            return Err(StoreError::Unfit(format!(
                "{name} is {value:?}: {remedy}, or say with `volatile` that this is known"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_schema_has_a_plain_name() {
        let long = "a".repeat(49);
        for (name, good) in [
            ("inbox", true),
            ("_a1", true),
            (&long[..48], true),
            (&long, false),
            ("", false),
            ("1a", false),
            ("Upper", false),
            ("a-b", false),
            ("a\"; DROP TABLE x; --", false),
            ("pg_mine", false),
        ] {
            assert_eq!(check_name(name).is_ok(), good, "{name:?}");
        }
    }
}
