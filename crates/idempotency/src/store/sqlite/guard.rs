//! Restricts a handler on the connection that all writes share.
//!
//! A handler must not end the transaction, read or change the store's tables, or make settings that outlast the
//! transaction: SQLite refuses to prepare such statements, so that only the handler gets the error. It may create
//! temporary objects of this connection, such as temporary tables; that is recorded, and they are dropped before the
//! next handler comes. The verbs name the schema of their tables, so that no temporary table hides them.

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How many virtual instructions SQLite runs between two looks at the time.
const INSTRUCTIONS: i32 = 10_000;

/// Pragmas that only read, even with an argument.
const ANSWERS: [&str; 10] = [
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Pragmas whose value is part of the transaction: it is rolled back with it, or ends with it.
const OF_THE_TRANSACTION: [&str; 3] = ["application_id", "defer_foreign_keys", "user_version"];

/// Pragmas that act without a value.
const ACTS: [&str; 4] = ["incremental_vacuum", "optimize", "shrink_memory", "wal_checkpoint"];

/// Restricts the handler's statements until `unguard`. Sets `soiled` if they leave something on the connection.
pub(super) fn guard(
    connection: &mut Connection,
    deadline: Instant,
    soiled: &Arc<AtomicBool>,
) -> rusqlite::Result<()> {
    connection.progress_handler(INSTRUCTIONS, Some(move || Instant::now() >= deadline))?;
    // A failing statement may roll the transaction back in the middle of a job; later statements of the job would then
    // be committed separately from the record.
    connection.commit_hook(Some(|| true))?;
    let soiled = soiled.clone();
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        let verdict = verdict(&context.action);
        if verdict == Verdict::Soils {
            soiled.store(true, Ordering::Relaxed);
        }
        match verdict {
            Verdict::Allowed | Verdict::Soils => Authorization::Allow,
            Verdict::Forbidden => Authorization::Deny,
        }
    }))
}

pub(super) fn unguard(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
    connection.commit_hook(None::<fn() -> bool>)?;
    connection.progress_handler(0, None::<fn() -> bool>)
}

/// Drops temporary objects, outside of any transaction. Foreign keys are off meanwhile, as the order would matter
/// otherwise; dropping a virtual table drops its own tables.
pub(super) fn clean(connection: &Connection) -> rusqlite::Result<()> {
    const LEFT: &str = "
        SELECT type, name FROM temp.sqlite_schema
        WHERE type IN ('table', 'view', 'trigger') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
        ORDER BY type = 'table', sql LIKE 'CREATE VIRTUAL%' DESC";
    let referring: bool = connection.pragma_query_value(None, "foreign_keys", |row| row.get(0))?;
    connection.pragma_update(None, "foreign_keys", false)?;
    let dropped = connection.prepare(LEFT).and_then(|mut left| {
        let left = left.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        let left: Vec<_> = left.collect::<rusqlite::Result<_>>()?;
        left.iter().try_for_each(|(kind, name)| {
            connection.execute_batch(&format!("DROP {kind} IF EXISTS temp.\"{}\"", name.replace('"', "\"\"")))
        })
    });
    connection.pragma_update(None, "foreign_keys", referring)?;
    dropped
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    /// Allowed, but its effect outlasts the transaction.
    Soils,
    Forbidden,
}

fn is_ours(name: &str) -> bool {
    name.get(..12).is_some_and(|start| start.eq_ignore_ascii_case("idempotency_"))
}

fn verdict(action: &AuthAction<'_>) -> Verdict {
    match *action {
        AuthAction::Transaction { .. } | AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            Verdict::Forbidden
        }
        // Reading, too: a handler's table that refers to ours would keep our rows from being removed.
        AuthAction::Read { table_name: name, .. }
        | AuthAction::Insert { table_name: name }
        | AuthAction::Update { table_name: name, .. }
        | AuthAction::Delete { table_name: name }
        | AuthAction::CreateTable { table_name: name }
        | AuthAction::CreateTempTable { table_name: name }
        | AuthAction::CreateVtable { table_name: name, .. }
        | AuthAction::CreateView { view_name: name }
        | AuthAction::CreateTempView { view_name: name }
        | AuthAction::CreateIndex { table_name: name, .. }
        | AuthAction::CreateTempIndex { table_name: name, .. }
        | AuthAction::CreateTrigger { table_name: name, .. }
        | AuthAction::CreateTempTrigger { table_name: name, .. }
        | AuthAction::AlterTable { table_name: name, .. }
        | AuthAction::DropTable { table_name: name }
        | AuthAction::DropVtable { table_name: name, .. }
        | AuthAction::DropIndex { table_name: name, .. }
        | AuthAction::DropTrigger { table_name: name, .. }
            if is_ours(name) =>
        {
            Verdict::Forbidden
        }
        AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTrigger { .. } => Verdict::Soils,
        AuthAction::Pragma { pragma_name, pragma_value } => pragma(pragma_name, pragma_value.is_some()),
        _ => Verdict::Allowed,
    }
}

fn pragma(name: &str, has_value: bool) -> Verdict {
    let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let only_answers = !has_value && !is_one_of(&ACTS);
    if only_answers || is_one_of(&ANSWERS) || is_one_of(&OF_THE_TRANSACTION) {
        Verdict::Allowed
    } else {
        Verdict::Forbidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pragma_is_asked_or_ends_with_the_transaction_or_is_refused() {
        for (name, has_value, verdict) in [
            ("table_info", true, Verdict::Allowed),
            ("TABLE_INFO", true, Verdict::Allowed),
            ("journal_mode", false, Verdict::Allowed),
            ("journal_mode", true, Verdict::Forbidden),
            ("defer_foreign_keys", true, Verdict::Allowed),
            ("Query_Only", true, Verdict::Forbidden),
            ("wal_checkpoint", false, Verdict::Forbidden),
            ("optimize", true, Verdict::Forbidden),
            ("of_a_later_version", true, Verdict::Forbidden),
        ] {
            assert_eq!(pragma(name, has_value), verdict, "{name} {has_value}");
        }
    }

    #[test]
    fn whatever_is_temporary_is_taken_away_and_nothing_else() {
        let connection = Connection::open_in_memory().expect("opening");
        let makes = r#"
            PRAGMA foreign_keys = ON;
            CREATE TABLE payment (cents INTEGER);
            CREATE TEMP TABLE parent (id INTEGER PRIMARY KEY AUTOINCREMENT);
            CREATE TEMP TABLE child (parent INTEGER REFERENCES parent (id));
            INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1);
            CREATE TEMP TABLE "a ""quoted"" name" (n INTEGER);
            CREATE TEMP VIEW seen AS SELECT * FROM child;
            CREATE TEMP TRIGGER spy AFTER INSERT ON main.payment BEGIN SELECT 1; END;
            CREATE VIRTUAL TABLE temp.words USING fts5(text);"#;
        connection.execute_batch(makes).expect("making them");
        clean(&connection).expect("cleaning");
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("counting");
        assert_eq!(count("SELECT count(*) FROM temp.sqlite_schema WHERE name NOT LIKE 'sqlite%'"), 0);
        assert_eq!(count("SELECT count(*) FROM main.sqlite_schema"), 1);
        assert_eq!(count("PRAGMA foreign_keys"), 1);
    }

    #[test]
    fn what_is_ours_is_known_by_its_name_in_any_case() {
        for (name, ours) in [
            ("idempotency_record", true),
            ("IDEMPOTENCY_x", true),
            ("idempotency", false),
            ("éidempotency_", false),
        ] {
            assert_eq!(is_ours(name), ours, "{name}");
        }
    }
}
