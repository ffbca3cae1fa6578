//! The audit: appended to within the transaction of what it tells of.

use super::Refused;
use super::fault::Trouble;
use super::rows::unknown;
use crate::audit::{
    AuditPage, AuditRow, Broken, Chain, ChainState, Entries, Entry, Hash, Origin, Verified, Verifier,
};
use perdura_engine::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many rows are verified between two words about the progress.
const TOLD_EVERY: u64 = 4_096;

/// Adds entries to a chain, as one row.
pub(super) fn append(connection: &Connection, chain: Chain, entries: &Entries) -> Result<(), Refused> {
    let mut newest = connection.prepare_cached("SELECT coalesce(max(id), 0) FROM audit")?;
    let newest: i64 = newest.query_row([], |row| row.get(0))?;
    let state = state_of(connection, chain)?;
    let Some(row) = AuditRow::after(&state, newest + 1, entries) else { return Ok(()) };
    connection
        .prepare_cached(
            "INSERT INTO audit (id, chain, first, count, from_at, to_at, entries, previous, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            row.id,
            row.chain.number(),
            row.first as i64,
            row.count as i64,
            row.from_at.0,
            row.to_at.0,
            row.entries,
            row.previous,
            row.hash
        ])?;
    Ok(write_state(connection, &state.with(&row))?)
}

/// One entry of what everybody changes.
pub(super) fn note(connection: &Connection, entry: &Entry) -> Result<(), Refused> {
    append(connection, Chain::Catalog, &Entries::from(entry))
}

fn state_of(connection: &Connection, chain: Chain) -> Result<ChainState, Trouble> {
    let mut statement = connection
        .prepare_cached("SELECT chain, first, before, next, head FROM audit_chain WHERE chain = ?1")?;
    let state = statement.query_row([chain.number()], |row| Ok(read_state(row))).optional()?;
    state.unwrap_or_else(|| Ok(ChainState::empty(chain)))
}

fn write_state(connection: &Connection, state: &ChainState) -> Result<(), Trouble> {
    let ChainState { chain, first, before, next, head } = state;
    connection
        .prepare_cached(
            "INSERT INTO audit_chain (chain, first, before, next, head) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (chain) DO UPDATE SET first = ?2, before = ?3, next = ?4, head = ?5",
        )?
        .execute(params![chain.number(), *first as i64, before, *next as i64, head])?;
    Ok(())
}

fn read_state(row: &Row<'_>) -> Result<ChainState, Trouble> {
    Ok(ChainState {
        chain: chain(row.get(0)?)?,
        first: row.get::<_, i64>(1)? as u64,
        before: row.get(2)?,
        next: row.get::<_, i64>(3)? as u64,
        head: row.get(4)?,
    })
}

fn chain(number: i64) -> Result<Chain, Trouble> {
    Chain::of_number(number).ok_or_else(|| unknown("chain", &number.to_string()))
}

const COLUMNS: &str = "id, chain, first, count, from_at, to_at, entries, previous, hash";

fn read(row: &Row<'_>) -> Result<AuditRow, Trouble> {
    Ok(AuditRow {
        id: row.get(0)?,
        chain: chain(row.get(1)?)?,
        first: row.get::<_, i64>(2)? as u64,
        count: row.get::<_, i64>(3)? as u64,
        from_at: Timestamp(row.get(4)?),
        to_at: Timestamp(row.get(5)?),
        entries: row.get(6)?,
        previous: row.get::<_, Hash>(7)?,
        hash: row.get::<_, Hash>(8)?,
    })
}

/// A page of rows.
pub(super) fn page(connection: &Connection, page: &AuditPage) -> Result<Vec<AuditRow>, Trouble> {
    let (compares, order, from) =
        if page.newest_first { ("<", "DESC", i64::MAX) } else { (">", "ASC", i64::MIN) };
    let sql = format!(
        "SELECT {COLUMNS} FROM audit WHERE id {compares} ?1 AND to_at >= ?2 AND from_at <= ?3 ORDER BY id {order}"
    );
    let (since, until) = (page.since.map_or(i64::MIN, |at| at.0), page.until.map_or(i64::MAX, |at| at.0));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query(params![page.after.unwrap_or(from), since, until])?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while bytes < page.bytes_max.max(1)
        && let Some(row) = found.next()?
    {
        let row = read(row)?;
        bytes += row.entries.len();
        rows.push(row);
    }
    Ok(rows)
}

/// Follows all chains, and stops at the first row that does not fit.
pub(super) fn verify(
    connection: &Connection,
    noted: &[(Chain, Hash)],
    told: &mut dyn FnMut(u64),
) -> Result<Result<Vec<Verified>, Broken>, Trouble> {
    let mut chains = Vec::new();
    let mut statement =
        connection.prepare_cached("SELECT chain, first, before, next, head FROM audit_chain")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match read_state(row) {
            Ok(state) => chains.push(state),
            Err(trouble) => {
                return Ok(Err(Broken { row: None, what: format!("a chain's own row: {trouble}") }));
            }
        }
    }
    let mut verifier = Verifier::new(chains, noted);
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM audit ORDER BY id"))?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let id = row.get(0).ok();
        let taken = match read(row) {
            Ok(row) => verifier.take(&row),
            Err(trouble) => Err(Broken { row: id, what: format!("it cannot be read: {trouble}") }),
        };
        if let Err(broken) = taken {
            return Ok(Err(broken));
        }
        count += 1;
        if count % TOLD_EVERY == 0 {
            told(count);
        }
    }
    Ok(verifier.finish())
}

/// Takes away the oldest rows, all of whose entries are older than this. How many.
pub(super) fn cut(
    connection: &Connection,
    before: Timestamp,
    most: u32,
    by: &Arc<Origin>,
) -> Result<u64, Refused> {
    let sql = format!("SELECT {COLUMNS} FROM audit ORDER BY id LIMIT ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([most])?;
    let mut gone = Vec::new();
    while let Some(row) = rows.next()? {
        let row = read(row)?;
        if row.to_at >= before {
            break;
        }
        gone.push(row);
    }
    drop(rows);
    let mut cuts: BTreeMap<Chain, (ChainState, ChainState)> = BTreeMap::new();
    for row in &gone {
        let (stood, stands) = match cuts.remove(&row.chain) {
            Some(known) => known,
            None => state_of(connection, row.chain).map(|state| (state.clone(), state))?,
        };
        let stands = stands.without(row);
        write_state(connection, &stands)?;
        connection.prepare_cached("DELETE FROM audit WHERE id = ?1")?.execute([row.id])?;
        cuts.insert(row.chain, (stood, stands));
    }
    for (stood, stands) in cuts.values() {
        note(connection, &Entry::cut(by, stood, stands))?;
    }
    Ok(gone.len() as u64)
}
