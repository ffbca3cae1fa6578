//! Restoring a backup, without assuming that nothing happened since.
//!
//! Calls that were under way when the backup was made may have been performed since, and nothing here shows it. So each
//! such attempt is marked as uncertain and reported, and the data records the moment of the restore: a process that
//! resumes an execution holds the calls that were sent before that moment. The numbers of incarnations jump, so that a
//! node that still works with the old data cannot write to the new.

use super::fault::{Files, Trouble, io};
use super::lock::Lock;
use super::read::SqliteReader;
use super::rows::{LEDGER, ledger_row};
use super::{SqliteOptions, connect, mode, recover, schema, sync_folder};
use crate::gather::Held;
use crate::group::{LedgerRow, Totals};
use crate::lease::Position;
use crate::record::{Damage, TurnBody};
use crate::store::{Failure, FailureKind, Reader};
use crate::words;
use perdura_engine::{EffectKey, ExecutionId, LedgerStatus, Note, Timestamp};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// More than any node can have advanced since the backup.
const INCARNATION_JUMP: i64 = 1 << 16;
/// How much of a history to read at once.
const SLICE_BYTES: usize = 1 << 20;

/// The result of a restore.
#[derive(Debug)]
pub struct Restored {
    /// Attempts that were under way when the backup was made. It is unknown whether they were performed since.
    pub uncertain: Vec<LedgerRow>,
    /// The number of executions with a row.
    pub executions: u64,
    /// Executions that could not be read, and why.
    pub damaged: Vec<(Option<ExecutionId>, String)>,
}

/// Makes a data directory from a backup. The folder must not hold data.
pub fn restore(backup: &Path, folder: &Path, at: Timestamp) -> Result<Restored, Failure> {
    let files = Files::of(folder);
    mode::make_folder(folder)?;
    let _lock = Lock::take(&files)?;
    if files.db.exists() || files.wal().exists() {
        return Err(Failure {
            what: files.what("restoring"),
            why: "there is data already, and it is not overwritten; name an empty folder, or move it away"
                .to_owned(),
            kind: FailureKind::Held,
        });
    }
    let log = Files { folder: folder.to_owned(), db: backup.to_owned() }.wal();
    if std::fs::metadata(&log).is_ok_and(|metadata| metadata.len() > 0) {
        return Err(Failure {
            what: format!("restoring {}", backup.display()),
            why: format!(
                "it is data in use, not a backup: a part of it is in {}; make a backup with `perdura backup`",
                log.display()
            ),
            kind: FailureKind::Held,
        });
    }
    let part = Files { folder: folder.to_owned(), db: folder.join("perdura.db.part") };
    // The log of an earlier failed try must not be taken for that of the new copy.
    for stale in
        ["perdura.db.part", "perdura.db.part-wal", "perdura.db.part-shm"].map(|name| folder.join(name))
    {
        match std::fs::remove_file(&stale) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("removing", &stale, &error)),
            Ok(()) | Err(_) => {}
        }
    }
    let mut from = File::open(backup).map_err(|error| io("reading", backup, &error))?;
    let mut to = mode::make(&part.db)?;
    std::io::copy(&mut from, &mut to).map_err(|error| io("reading", backup, &error))?;
    drop(to);
    let restored = prepare(&part, at)?;
    File::open(&part.db).and_then(|file| file.sync_all()).map_err(|error| io("syncing", &part.db, &error))?;
    std::fs::rename(&part.db, &files.db).map_err(|error| io("naming", &files.db, &error))?;
    sync_folder(folder)?;
    Ok(restored)
}

/// Prepares the data under another name, so that an unfinished copy is never taken for data.
fn prepare(part: &Files, at: Timestamp) -> Result<Restored, Failure> {
    let fail = |trouble: Trouble| part.failure("restoring", trouble);
    let connection = connect(part, &SqliteOptions::default())?;
    if schema::version(&connection, part)? == 0 {
        return Err(part.refusal("this is no backup: the file is empty"));
    }
    schema::migrate(&connection, part, 1)?;
    let (under_way, damaged) = under_way(&connection, part)?;
    let run = |sql: &str| connection.execute_batch(sql).map_err(|error| fail(error.into()));
    run("BEGIN IMMEDIATE")?;
    let restored = mark(&connection, &under_way, at).map_err(fail)?;
    run("COMMIT")?;
    // Merge everything into one file, which then gets its real name.
    run("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE")?;
    Ok(Restored { damaged, ..restored })
}

type Damaged = Vec<(Option<ExecutionId>, String)>;

/// Attempts that only the Turns of running executions have.
fn under_way(connection: &Connection, part: &Files) -> Result<(Vec<LedgerRow>, Damaged), Failure> {
    let mut reader = SqliteReader::on(part.clone())?;
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    let recovery = recover::gather(connection, &Held::all(reader.shards()))
        .and_then(|journal| recover::finish(connection, journal, (Position::default(), Totals::default())))
        .map_err(|trouble| part.failure("restoring", trouble))?;
    damaged.extend(recovery.damaged);
    for execution in recovery.executions.iter().map(|recovered| recovered.execution) {
        match marks(&mut reader, execution)? {
            Ok(marks) => found.extend(pending(execution, &marks)),
            Err(damage) => damaged.push((Some(execution), damage.0)),
        }
    }
    Ok((found, damaged))
}

/// The status of each key of an execution, and since when.
pub(super) type Marks = BTreeMap<EffectKey, (LedgerStatus, Timestamp)>;

fn marks(reader: &mut SqliteReader, execution: ExecutionId) -> Result<Result<Marks, Damage>, Failure> {
    let mut marks = Marks::new();
    let mut next = 1;
    loop {
        let turns = reader.turns(execution, next, SLICE_BYTES)?;
        if turns.is_empty() {
            return Ok(Ok(marks));
        }
        next += turns.len() as u64;
        for turn in turns {
            match TurnBody::read(&turn.body) {
                Ok(body) => mark_turn(&mut marks, &body),
                Err(damage) => return Ok(Err(damage)),
            }
        }
    }
}

/// Applies the marks of a Turn.
pub(super) fn mark_turn(marks: &mut Marks, body: &TurnBody) {
    let at = body.turn.events().last().map_or(Timestamp(0), |event| event.at);
    for note in body.turn.notes() {
        if let Note::Ledger { key, status, .. } = note {
            let since = marks.get(key).map_or(at, |(_, since)| *since);
            marks.insert(key.clone(), (*status, since));
        }
    }
}

fn pending(execution: ExecutionId, marks: &Marks) -> Vec<LedgerRow> {
    let pending = marks.iter().filter(|(_, (status, _))| *status == LedgerStatus::Pending);
    pending.map(|(key, (_, since))| LedgerRow::of(key, execution, LedgerStatus::Pending, *since)).collect()
}

fn mark(connection: &Connection, under_way: &[LedgerRow], at: Timestamp) -> Result<Restored, Trouble> {
    for row in under_way {
        connection
            .prepare_cached(
                "INSERT INTO ledger (key, wire_key, execution, step, round, status, started_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (key) DO NOTHING",
            )?
            .execute(params![
                &*row.key,
                row.wire_key.to_string(),
                row.execution.to_string(),
                &*row.step,
                row.round,
                words::ledger_name(LedgerStatus::Pending),
                row.started_at.0
            ])?;
    }
    let names = [LedgerStatus::Uncertain, LedgerStatus::Pending].map(words::ledger_name);
    let mut statement = connection.prepare(&format!(
        "UPDATE ledger SET status = ?1, error = 'restored from a backup while this was under way'
         WHERE status = ?2 RETURNING {LEDGER}"
    ))?;
    let mut rows = statement.query(names)?;
    let mut uncertain = Vec::new();
    while let Some(row) = rows.next()? {
        uncertain.push(ledger_row(row)?);
    }
    uncertain.sort_by(|a, b| (a.started_at, &a.key).cmp(&(b.started_at, &b.key)));
    connection.execute("UPDATE incarnation SET holder = NULL", [])?;
    connection.execute(
        "INSERT INTO incarnation (number, expires_at) SELECT max(number) + ?1, 0 FROM incarnation",
        [INCARNATION_JUMP],
    )?;
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('restored_at', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1",
        [at.0],
    )?;
    let executions: i64 = connection.query_row("SELECT count(*) FROM execution", [], |row| row.get(0))?;
    Ok(Restored { uncertain, executions: executions as u64, damaged: Vec::new() })
}
