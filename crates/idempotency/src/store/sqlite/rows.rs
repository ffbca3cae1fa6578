//! Reads and writes rows of the file; detects damaged ones.

use super::trouble::Trouble;
use crate::record::{Epoch, OperationId, RequestTag, ScopeTag};
use crate::rule::{Kept, Row, State, Write};
use crate::store::StoreError;
use bytes::Bytes;
use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, OptionalExtension, params};
use uuid::Uuid;

/// No grant ever has such a number: a row with it is damaged, and does not count for the next epoch.
pub(super) const EPOCHS_END: i64 = 1 << 62;

const RUNNING: i64 = 0;
const UNKNOWN: i64 = 1;
const COMPLETED: i64 = 2;

/// The row of an operation. Under an epoch up to `void` its lease has ended, whatever the clock says.
pub(super) fn read(
    connection: &Connection,
    operation: OperationId,
    void: u64,
) -> Result<Option<Row>, Trouble> {
    const READ: &str = "
        SELECT epoch, scope, request, claimant, taken_over, first_at, state, until_at, ended_at, expires_at, gone_at,
            answer
        FROM main.idempotency_record WHERE operation = ?1";
    let raw = connection
        .prepare_cached(READ)?
        .query_row([operation.as_bytes()], |row| {
            Ok(Raw {
                epoch: row.get(0)?,
                scope: row.get(1)?,
                request: row.get(2)?,
                claimant: row.get(3)?,
                taken_over: row.get(4)?,
                first_at: row.get(5)?,
                state: row.get(6)?,
                until_at: row.get(7)?,
                kept: [row.get(8)?, row.get(9)?, row.get(10)?],
                answer: row.get(11)?,
            })
        })
        .optional()
        .map_err(|error| match error {
            Error::InvalidColumnType(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..) => Trouble::Corrupt(operation, "a value is of another type"),
            error => error.into(),
        })?;
    raw.map(|raw| raw.understood(void).map_err(|what| Trouble::Corrupt(operation, what))).transpose()
}

/// The newest time on record, from the newest rows. A single row may be damaged: another one must be about as new.
pub(super) fn newest(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    const NEWEST: &str = "
        SELECT max(first_at, ifnull(ended_at, first_at)) AS at FROM (
            SELECT first_at, ended_at FROM main.idempotency_record WHERE epoch < ?1 ORDER BY epoch DESC LIMIT 1000)
        WHERE typeof(at) = 'integer' ORDER BY at DESC LIMIT 2";
    let read = || -> rusqlite::Result<Vec<i64>> {
        let mut statement = connection.prepare(NEWEST)?;
        let found = statement.query_map([EPOCHS_END], |row| row.get(0))?;
        found.collect()
    };
    let newest = read().map_err(Trouble::told)?.pop();
    Ok(newest.and_then(|micros| Timestamp::from_microsecond(micros).ok()))
}

/// The operations with an unknown outcome that have not expired, the oldest first.
pub(super) fn unknown(
    connection: &Connection,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<OperationId>, Trouble> {
    // The state as a literal, not as a parameter, so that SQLite uses the index over it.
    const FIND: &str = "
        SELECT operation FROM main.idempotency_record WHERE state = 1 AND gone_at > ?1 ORDER BY ended_at LIMIT ?2";
    let mut find = connection.prepare_cached(FIND)?;
    let found = find.query_map((now.as_microsecond(), limit), |row| Ok(id(row.get_ref(0)?)))?;
    Ok(found.filter_map(Result::transpose).collect::<rusqlite::Result<_>>()?)
}

/// The id of a row. `None`: it is damaged, and no request can ask for it.
pub(super) fn id(value: ValueRef<'_>) -> Option<OperationId> {
    let bytes = value.as_blob().ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(OperationId::from_hash)
}

/// A row as it is in the file.
struct Raw {
    epoch: i64,
    scope: Vec<u8>,
    request: Vec<u8>,
    claimant: Vec<u8>,
    taken_over: bool,
    first_at: i64,
    state: i64,
    until_at: Option<i64>,
    kept: [Option<i64>; 3],
    answer: Option<Vec<u8>>,
}

impl Raw {
    fn understood(self, void: u64) -> Result<Row, &'static str> {
        let epoch = u64::try_from(self.epoch).map_err(|_| "its epoch is below zero")?;
        if self.epoch >= EPOCHS_END {
            return Err("its epoch is beyond all that were given");
        }
        let state = match (self.state, self.until_at, self.kept) {
            (RUNNING, Some(until), [None, None, None]) => {
                let until = instant(until)?;
                State::Running { until: if epoch <= void { Timestamp::UNIX_EPOCH } else { until } }
            }
            (UNKNOWN | COMPLETED, None, [Some(at), Some(expires_at), Some(gone_at)]) => {
                let kept =
                    Kept { at: instant(at)?, expires_at: instant(expires_at)?, gone_at: instant(gone_at)? };
                match self.state {
                    UNKNOWN => State::Unknown(kept),
                    _ => State::Completed(kept, self.answer.map(Bytes::from)),
                }
            }
            _ => return Err("its state and its instants do not fit together"),
        };
        Ok(Row {
            scope: ScopeTag(self.scope.try_into().map_err(|_| "its scope has not 16 bytes")?),
            request: RequestTag(self.request.try_into().map_err(|_| "its request has not 32 bytes")?),
            claimant: Uuid::from_slice(&self.claimant).map_err(|_| "its claimant has not 16 bytes")?,
            epoch: Epoch(epoch),
            taken_over: self.taken_over,
            first_at: instant(self.first_at)?,
            state,
        })
    }
}

fn instant(micros: i64) -> Result<Timestamp, &'static str> {
    Timestamp::from_microsecond(micros).map_err(|_| "one of its instants is beyond all times")
}

/// The end of time is stored as its whole second: its last microsecond cannot be read back.
fn micros(at: Timestamp) -> i64 {
    at.as_microsecond().min(Timestamp::MAX.as_second() * 1_000_000)
}

/// Applies the change of a rule. `before` is the row that the rule saw.
pub(super) fn write(
    connection: &Connection,
    operation: OperationId,
    before: Option<&Row>,
    write: &Write,
) -> Result<(), Trouble> {
    match (write, before) {
        (Write::Nothing, _) => {}
        (Write::Put(row), Some(before)) if before.epoch == row.epoch => {
            put(connection, UPDATE, operation, row)?;
        }
        (Write::Put(row), before) => {
            if let Some(before) = before {
                remove(connection, before.epoch)?;
            }
            put(connection, INSERT, operation, row)?;
        }
        (Write::Remove, before) => {
            if let Some(before) = before {
                remove(connection, before.epoch)?;
            }
        }
    }
    Ok(())
}

/// A grant has no place in the order of sweeps: see [`note`].
const INSERT: &str = "
    INSERT INTO main.idempotency_record (epoch, operation, scope, request, claimant, taken_over, first_at, state, until_at,
        ended_at, expires_at, gone_at, answer)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?14)";

/// Both statements have the same parameters; the values that the grant set stay unchanged.
const UPDATE: &str = "
    UPDATE main.idempotency_record SET state = ?8, until_at = ?9, ended_at = ?10, expires_at = ?11, gone_at = ?12,
        sweep_at = ?13, answer = ?14
    WHERE epoch = ?1 AND operation = ?2 AND scope = ?3 AND request = ?4 AND claimant = ?5 AND taken_over = ?6
        AND first_at = ?7";

fn put(connection: &Connection, statement: &str, operation: OperationId, row: &Row) -> Result<(), Trouble> {
    let (state, until, kept, answer) = match &row.state {
        State::Running { until } => (RUNNING, Some(micros(*until)), None, None),
        State::Unknown(kept) => (UNKNOWN, None, Some(kept), None),
        State::Completed(kept, answer) => (COMPLETED, None, Some(kept), answer.as_ref()),
    };
    let written = connection.prepare_cached(statement)?.execute(params![
        row.epoch.0 as i64,
        operation.as_bytes(),
        row.scope.0,
        row.request.0,
        row.claimant.as_bytes(),
        row.taken_over,
        micros(row.first_at),
        state,
        until,
        kept.map(|kept| micros(kept.at)),
        kept.map(|kept| micros(kept.expires_at)),
        kept.map(|kept| micros(kept.gone_at)),
        micros(row.sweep_at()),
        answer.map(AsRef::<[u8]>::as_ref),
    ])?;
    if written == 1 { Ok(()) } else { Err(Trouble::Corrupt(operation, "it is not the row that was read")) }
}

/// The epoch up to which every row has been read, and the newest epoch.
pub(super) fn looked_at(connection: &Connection) -> Result<(u64, u64), Trouble> {
    const READ: &str = "
        SELECT value, ifnull((SELECT max(epoch) FROM main.idempotency_record WHERE epoch < ?1), 0)
        FROM main.idempotency_meta WHERE key = 'noted'";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64));
    Ok(connection.prepare_cached(READ)?.query_row([EPOCHS_END], read)?)
}

/// The epochs in this range with running operations that have no place in the order of sweeps yet.
pub(super) fn unnoted(connection: &Connection, after: u64, up_to: u64) -> Result<Vec<i64>, Trouble> {
    const FIND: &str = "
        SELECT epoch FROM main.idempotency_record
        WHERE epoch > ?1 AND epoch <= ?2 AND state = 0 AND sweep_at IS NULL";
    let mut find = connection.prepare_cached(FIND)?;
    let found = find.query_map((after as i64, up_to as i64), |row| row.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Gives running operations under these epochs a place in the order of sweeps. A claim does not: it would cost every
/// operation two writes to an index, and most have ended before a sweep comes.
pub(super) fn note(connection: &Connection, epochs: &[i64], up_to: u64) -> Result<(), Trouble> {
    const NOTE: &str =
        "UPDATE main.idempotency_record SET sweep_at = until_at WHERE epoch = ?1 AND state = 0";
    let mut note = connection.prepare_cached(NOTE)?;
    for epoch in epochs {
        note.execute([epoch])?;
    }
    let looked = "UPDATE main.idempotency_meta SET value = ?1 WHERE key = 'noted' AND value < ?1";
    connection.prepare_cached(looked)?.execute([up_to as i64])?;
    Ok(())
}

fn remove(connection: &Connection, epoch: Epoch) -> Result<(), Trouble> {
    connection
        .prepare_cached("DELETE FROM main.idempotency_record WHERE epoch = ?1")?
        .execute([epoch.0 as i64])?;
    Ok(())
}
