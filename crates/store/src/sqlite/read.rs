//! The reader: a connection of its own, which waits for no writer.

mod beyond;
mod history;
pub(super) mod list;

use super::fault::{Files, Trouble};
use super::names::{self, Names};
use super::rows::{self, execution_of, id_of, ledger_row, row_of, unsegmented_from};
use super::{aside, audit, commit, machines, map_runs, registry, schema, sweep};
use crate::audit::{AuditPage, AuditRow, Broken, Chain, Hash, Verified};
use crate::gather;
use crate::group::{LedgerRow, MachineId, MapRunRow, RevisionId, Row};
use crate::lease::{Incarnation, Shard};
use crate::machine::{Head, MachineRecord, Registered, Registry};
use crate::store::{
    After, ChildStatus, Clock, Due, Failure, FailureKind, Filter, LedgerFilter, Left, Listing, Reader,
    Recovered, Retention, Stats, StoredTurn, SweepPlace, Sweepable, Unlisted,
};
use crate::words;
pub(super) use beyond::Beyond;
use perdura_engine::{ExecutionId, LedgerStatus, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params_from_iter};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// The tables in the statistics.
const TABLES: [&str; 10] = [
    "audit",
    "execution",
    "history",
    "journal",
    "label",
    "ledger",
    "machine",
    "map_run",
    "revision",
    "counter",
];

/// Reads the data in a folder, also while another process writes there.
#[derive(Debug)]
pub struct SqliteReader {
    connection: Connection,
    files: Files,
    shards: u16,
    beyond: Beyond,
    /// Present in a process that writes.
    names: Option<Arc<Names>>,
}

/// A value of the table `meta`.
pub(super) fn meta(connection: &Connection, key: &str) -> Result<Option<i64>, Trouble> {
    let value =
        connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional()?;
    Ok(value)
}

impl SqliteReader {
    /// Opens the data in a folder. It changes nothing, and needs no lock.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        Self::on(Files::of(folder))
    }

    /// Opens a file that has another name than in a data directory.
    pub(super) fn on(files: Files) -> Result<Self, Failure> {
        let connection = connect(&files)?;
        if schema::version(&connection, &files)? < schema::MIGRATIONS.len() {
            return Err(Failure {
                what: files.what("reading"),
                why: "an older perdura made it; start this one on it once, which brings it up to date"
                    .to_owned(),
                kind: FailureKind::ReadOnly,
            });
        }
        let shards = meta(&connection, "shards").map_err(|trouble| files.failure("reading", trouble))?;
        let shards = super::shards_of(shards, &files)?;
        Ok(Self { connection, files, shards, beyond: Beyond::default(), names: None })
    }

    /// Runs several queries on one snapshot.
    fn ask<T>(
        &mut self,
        question: impl FnOnce(&Connection, &mut Beyond) -> Result<T, Trouble>,
    ) -> Result<T, Failure> {
        let run = |sql: &str| self.connection.prepare_cached(sql)?.execute([]).map(|_| ());
        let answer =
            run("BEGIN").map_err(Trouble::from).and_then(|()| question(&self.connection, &mut self.beyond));
        let ended = if self.connection.is_autocommit() { Ok(()) } else { run("COMMIT") };
        answer
            .and_then(|answer| ended.map(|()| answer).map_err(Trouble::from))
            .map_err(|trouble| self.files.failure("reading", trouble))
    }

    /// Adds the reserved names of a process that writes.
    pub(super) fn with_names(self, names: Arc<Names>) -> Self {
        Self { names: Some(names), ..self }
    }

    /// The execution that has a name; a free name is reserved now.
    fn reserve_for(
        &mut self,
        name: (MachineId, &Arc<str>),
        wanted_by: Option<ExecutionId>,
    ) -> Result<Option<ExecutionId>, Failure> {
        let Some(names) = self.names.clone() else {
            return Err(Failure {
                what: self.files.what("reserving a name in"),
                why: "who only reads starts nothing".into(),
                kind: FailureKind::ReadOnly,
            });
        };
        self.ask(|connection, beyond| names.reserve(connection, beyond, name, wanted_by))
    }

    /// The number of Shards of the installation.
    pub fn shards(&self) -> u16 {
        self.shards
    }
}

/// A connection that only reads. If the folder is not writable and has no log, the file has all data.
pub(super) fn connect(files: &Files) -> Result<Connection, Failure> {
    let open = |name: &str| -> Result<Connection, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let connection = Connection::open_with_flags(name, flags)?;
        connection.busy_timeout(super::BUSY_FOR)?;
        connection.set_prepared_statement_cache_capacity(super::STATEMENTS);
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "cache_size", -8_192)?;
        // The first query shows whether the log can be used.
        connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
        Ok(connection)
    };
    let name = uri(&files.db);
    let nothing_in_log = || std::fs::metadata(files.wal()).map_or(true, |metadata| metadata.len() == 0);
    let opened = open(&name).or_else(|error| {
        let read_only = super::fault::kind(&error) == FailureKind::ReadOnly;
        if read_only && files.db.exists() && nothing_in_log() {
            open(&format!("{name}?immutable=1"))
        } else {
            Err(error)
        }
    });
    opened.map_err(|error| {
        let mut failure = files.failure("opening", error.into());
        if !files.db.exists() {
            "there is no such file; name the data directory of an installation".clone_into(&mut failure.why);
        }
        failure
    })
}

/// A path as an SQLite URI, with any characters.
pub(super) fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                uri.push(char::from(*byte));
            }
            other => write!(uri, "%{other:02X}").expect("a String takes all text"),
        }
    }
    uri
}

fn due(
    connection: &Connection,
    column: &str,
    shard: Shard,
    (after, until): (Option<Due>, Timestamp),
    most: u32,
) -> Result<Vec<Due>, Trouble> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {column}, id FROM execution
         WHERE shard = ?1 AND {column} IS NOT NULL AND NOT awake AND ({column}, id) > (?2, ?3) AND {column} <= ?4
         ORDER BY {column}, id LIMIT ?5"
    ))?;
    let (at, id) =
        after.map_or((i64::MIN, Vec::new()), |after| (after.at.0, id_of(after.execution).to_vec()));
    let rows = statement.query_map(rusqlite::params![shard.0, at, id, until.0, most], |row| {
        Ok(Due { at: Timestamp(row.get(0)?), execution: execution_of(row.get(1)?) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Each status has its rows in an index by time. Without a status the first rows of all of them are merged, so that a
/// page does not cost more because more is stored.
fn ledger(connection: &Connection, filter: &LedgerFilter, most: u32) -> Result<Vec<LedgerRow>, Trouble> {
    if filter.status.is_some() || filter.execution.is_some() || filter.wire_key.is_some() {
        return ledger_of(connection, filter, most);
    }
    let mut found = Vec::new();
    for status in words::LEDGER_STATUSES {
        let filter = LedgerFilter { status: Some(status), ..filter.clone() };
        found.extend(ledger_of(connection, &filter, most)?);
    }
    found.sort_by(|a, b| (a.started_at, &a.key).cmp(&(b.started_at, &b.key)));
    found.truncate(most as usize);
    Ok(found)
}

fn ledger_of(connection: &Connection, filter: &LedgerFilter, most: u32) -> Result<Vec<LedgerRow>, Trouble> {
    let mut sql = format!("SELECT {} FROM ledger WHERE 1", rows::LEDGER);
    let mut values: Vec<Value> = Vec::new();
    if let Some(status) = filter.status {
        sql.push_str(" AND status = ?");
        values.push(words::ledger_name(status).to_owned().into());
    }
    if let Some(execution) = filter.execution {
        sql.push_str(" AND execution = ?");
        values.push(execution.to_string().into());
    }
    if let Some(wire_key) = filter.wire_key {
        sql.push_str(" AND wire_key = ?");
        values.push(wire_key.to_string().into());
    }
    if let Some(before) = filter.started_before {
        sql.push_str(" AND started_at < ?");
        values.push(before.0.into());
    }
    if let Some((at, key)) = &filter.after {
        sql.push_str(" AND started_at >= ? AND (started_at > ? OR key > ?)");
        values.extend([at.0.into(), at.0.into(), key.to_string().into()]);
    }
    sql.push_str(" ORDER BY started_at, key LIMIT ?");
    values.push(i64::from(most).into());
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(ledger_row(row)?);
    }
    Ok(found)
}

fn counts<S>(
    connection: &Connection,
    sql: &str,
    statuses: impl IntoIterator<Item = S>,
    name: impl Fn(&S) -> &'static str,
) -> Result<Vec<(S, u64)>, Trouble> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? as u64)))?
        .collect::<Result<Vec<_>, _>>()?;
    let count =
        |status: &S| found.iter().find(|(word, _)| word == name(status)).map_or(0, |(_, count)| *count);
    let counted = statuses.into_iter().map(|status| {
        let count = count(&status);
        (status, count)
    });
    Ok(counted.filter(|(_, count)| *count > 0).collect())
}

fn stats(connection: &Connection, files: &Files) -> Result<Stats, Trouble> {
    let mut totals = Vec::new();
    let mut lives = connection.prepare_cached("SELECT number FROM incarnation")?;
    for number in lives.query_map([], |row| row.get::<_, i64>(0))? {
        totals.push(commit::totals(connection, Incarnation(number? as u64))?);
    }
    // Each half is answered by an index alone.
    let executions = "SELECT status, count(*) FROM (SELECT status FROM execution WHERE map_run IS NULL
        UNION ALL SELECT status FROM execution WHERE map_run IS NOT NULL) GROUP BY status";
    let ledger = "SELECT status, count(*) FROM ledger GROUP BY status";
    let oldest: Option<i64> = connection.query_row(
        "SELECT min(started_at) FROM ledger WHERE status = ?1",
        [words::ledger_name(LedgerStatus::Pending)],
        |row| row.get(0),
    )?;
    let mut tables = Vec::new();
    for table in TABLES {
        let count: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
        let bytes: i64 = connection.query_row(
            "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE AND name IN
                 (SELECT name FROM sqlite_schema WHERE tbl_name = ?1)",
            [table],
            |row| row.get(0),
        )?;
        tables.push((table.to_owned(), count as u64, bytes as u64));
    }
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    Ok(Stats {
        totals: gather::sum(totals),
        executions: counts(connection, executions, words::STATUSES, |status| status.name())?,
        ledger: counts(connection, ledger, words::LEDGER_STATUSES, |status| words::ledger_name(*status))?,
        oldest_pending: oldest.map(Timestamp),
        tables,
        bytes: size(&files.db) + size(&files.wal()),
        room: super::room::free(connection)?,
    })
}

impl Reader for SqliteReader {
    fn revision(&mut self, revision: RevisionId) -> Result<Option<MachineRecord>, Failure> {
        self.ask(|connection, _| machines::revision(connection, revision))
    }

    fn machine(&mut self, name: &str) -> Result<Option<MachineRecord>, Failure> {
        self.ask(|connection, _| machines::machine(connection, name))
    }

    fn machines(&mut self) -> Result<Vec<MachineRecord>, Failure> {
        self.ask(|connection, _| machines::machines(connection))
    }

    fn machine_id(&mut self, name: &str) -> Result<Option<MachineId>, Failure> {
        self.ask(|connection, _| {
            let mut statement = connection.prepare_cached("SELECT id FROM machine WHERE name = ?1")?;
            let id: Option<i64> = statement.query_row([name], |row| row.get(0)).optional()?;
            Ok(id.map(|id| MachineId(id as u64)))
        })
    }

    fn machine_name(&mut self, machine: MachineId) -> Result<Option<Arc<str>>, Failure> {
        self.ask(|connection, _| machines::name(connection, machine))
    }

    fn head(&mut self, name: &str) -> Result<Option<Head>, Failure> {
        self.ask(|connection, _| machines::head(connection, name))
    }

    fn machine_count(&mut self) -> Result<usize, Failure> {
        self.ask(|connection, _| machines::count(connection))
    }

    fn heads(&mut self, after: Option<&str>, most: u32) -> Result<Vec<Head>, Failure> {
        self.ask(|connection, _| machines::heads(connection, after, most))
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Failure> {
        self.ask(|connection, _| names::named(connection, machine, name))
    }

    fn reserve(
        &mut self,
        machine: MachineId,
        name: &Arc<str>,
        execution: ExecutionId,
    ) -> Result<ExecutionId, Failure> {
        let whose = self.reserve_for((machine, name), Some(execution))?;
        Ok(whose.unwrap_or(execution))
    }

    fn reserved(&mut self, machine: MachineId, name: &Arc<str>) -> Result<Option<ExecutionId>, Failure> {
        self.reserve_for((machine, name), None)
    }

    fn holders(&mut self) -> Result<BTreeMap<Shard, Arc<str>>, Failure> {
        self.ask(|connection, _| {
            let mut statement = connection.prepare_cached(
                "SELECT s.number, i.holder FROM shard s JOIN incarnation i ON i.number = s.incarnation
                 WHERE i.holder IS NOT NULL",
            )?;
            let holder = |row: &rusqlite::Row<'_>| Ok((Shard(row.get(0)?), row.get(1)?));
            Ok(statement.query_map([], holder)?.collect::<Result<_, _>>()?)
        })
    }

    fn execution(&mut self, execution: ExecutionId) -> Result<Option<Recovered>, Failure> {
        self.ask(|connection, beyond| {
            let row = row_of(connection, execution)?;
            let covered =
                row.as_ref().and_then(|row| row.content.as_ref()).map_or(0, |content| content.turns);
            let turns = beyond.turns(connection, execution, covered)?;
            if row.is_none() && turns.is_empty() {
                return Ok(None);
            }
            let unsegmented_from = unsegmented_from(connection, execution)?;
            Ok(Some(Recovered { execution, row, unsegmented_from, turns }))
        })
    }

    fn row(&mut self, execution: ExecutionId) -> Result<Option<(Row, u64)>, Failure> {
        self.ask(|connection, _| match row_of(connection, execution)? {
            Some(row) => Ok(Some((row, unsegmented_from(connection, execution)?))),
            None => Ok(None),
        })
    }

    fn due(
        &mut self,
        shard: Shard,
        clock: Clock,
        after: Option<Due>,
        until: Timestamp,
        most: u32,
    ) -> Result<Vec<Due>, Failure> {
        let column = match clock {
            Clock::Steady => "wake_at",
            Clock::Wall => "wake_wall_at",
        };
        self.ask(|connection, _| due(connection, column, shard, (after, until), most))
    }

    fn waiting(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<ExecutionId>, Failure> {
        self.ask(|connection, _| {
            let mut statement = connection.prepare_cached(
                "SELECT id FROM execution WHERE shard = ?1 AND waits AND NOT awake AND id > ?2 ORDER BY id LIMIT ?3",
            )?;
            let after = after.map_or_else(Vec::new, |after| id_of(after).to_vec());
            let rows = statement.query_map(rusqlite::params![shard.0, after, most], |row| row.get(0))?;
            Ok(rows.map(|id| id.map(execution_of)).collect::<Result<_, _>>()?)
        })
    }

    fn held(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<(ExecutionId, MachineId)>, Failure> {
        self.ask(|connection, _| {
            let mut statement = connection.prepare_cached(
                "SELECT id, machine FROM execution
                 WHERE shard = ?1 AND waits = 2 AND NOT awake AND id > ?2 ORDER BY id LIMIT ?3",
            )?;
            let after = after.map_or_else(Vec::new, |after| id_of(after).to_vec());
            let read = |row: &rusqlite::Row<'_>| {
                Ok((execution_of(row.get(0)?), MachineId(row.get::<_, i64>(1)? as u64)))
            };
            let rows = statement.query_map(rusqlite::params![shard.0, after, most], read)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn held_counts(&mut self) -> Result<BTreeMap<MachineId, u64>, Failure> {
        self.ask(|connection, _| {
            let mut statement = connection.prepare_cached(
                "SELECT machine, count(*) FROM execution WHERE waits = 2 AND NOT awake GROUP BY machine",
            )?;
            let read = |row: &rusqlite::Row<'_>| {
                Ok((MachineId(row.get::<_, i64>(0)? as u64), row.get::<_, i64>(1)? as u64))
            };
            let rows = statement.query_map([], read)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn registered(
        &mut self,
        kind: Registry,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<Registered>, Failure> {
        self.ask(|connection, _| registry::registered(connection, kind, after, most))
    }

    fn registered_one(&mut self, kind: Registry, name: &str) -> Result<Option<Registered>, Failure> {
        self.ask(|connection, _| registry::one(connection, kind, name))
    }

    fn unlisted(&mut self) -> Result<Vec<Unlisted>, Failure> {
        self.ask(|connection, beyond| beyond.unlisted(connection))
    }

    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure> {
        self.ask(|connection, _| list::list(connection, filter, after, most))
    }

    fn turns(
        &mut self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure> {
        self.ask(|connection, beyond| history::turns(connection, beyond, execution, from, bytes_max))
    }

    fn turns_before(
        &mut self,
        execution: ExecutionId,
        before: Option<u64>,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure> {
        self.ask(|connection, beyond| history::turns_before(connection, beyond, execution, before, bytes_max))
    }

    fn child_statuses(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<ChildStatus>, Failure> {
        self.ask(|connection, _| map_runs::child_statuses(connection, run, from, most))
    }

    fn children(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<Row>, Failure> {
        self.ask(|connection, _| map_runs::children(connection, run, from, most))
    }

    fn map_run(&mut self, run: Uuid) -> Result<Option<MapRunRow>, Failure> {
        self.ask(|connection, _| map_runs::one(connection, run))
    }

    fn running_map_runs(&mut self, after: Option<Uuid>, most: u32) -> Result<Vec<MapRunRow>, Failure> {
        self.ask(|connection, _| map_runs::running(connection, after, most))
    }

    fn map_runs(&mut self, execution: ExecutionId) -> Result<Vec<MapRunRow>, Failure> {
        self.ask(|connection, _| map_runs::of(connection, execution))
    }

    fn left(&mut self, execution: ExecutionId) -> Result<Left, Failure> {
        self.ask(|connection, _| aside::left(connection, execution))
    }

    fn ledger(&mut self, filter: &LedgerFilter, most: u32) -> Result<Vec<LedgerRow>, Failure> {
        self.ask(|connection, _| ledger(connection, filter, most))
    }

    fn sweepable(
        &mut self,
        retention: &Retention,
        after: Option<SweepPlace>,
        most: u32,
    ) -> Result<Sweepable, Failure> {
        self.ask(|connection, beyond| sweep::sweepable(connection, beyond, retention, after, most))
    }

    fn old_ledger(&mut self, before: Timestamp) -> Result<u64, Failure> {
        self.ask(|connection, _| sweep::old_ledger(connection, before))
    }

    fn audit(&mut self, page: &AuditPage) -> Result<Vec<AuditRow>, Failure> {
        self.ask(|connection, _| audit::page(connection, page))
    }

    fn verify_audit(
        &mut self,
        noted: &[(Chain, Hash)],
        told: &mut dyn FnMut(u64),
    ) -> Result<Result<Vec<Verified>, Broken>, Failure> {
        self.ask(|connection, _| audit::verify(connection, noted, told))
    }

    fn stats(&mut self) -> Result<Stats, Failure> {
        let files = self.files.clone();
        self.ask(|connection, _| stats(connection, &files))
    }

    fn secret(&mut self) -> Result<[u8; 32], Failure> {
        self.ask(|connection, _| {
            let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = 'secret'")?;
            Ok(statement.query_row([], |row| row.get(0))?)
        })
    }
}
