//! What ran on a Shard. One spoilt page costs what stood on it, not the rest: each row is read by itself, and what
//! cannot be read is told.

use super::aside;
use super::fault::Trouble;
use super::rows::{execution_of, id_of, journal_range, position_of, row_of, unsegmented_from};
use crate::gather::{Journal, Standing};
use crate::lease::Shard;
use crate::record::Damage;
use crate::store::Recovery;
use perdura_engine::ExecutionId;
use rusqlite::{Connection, OptionalExtension};

pub(super) fn recover(connection: &Connection, shard: Shard) -> Result<Recovery, Trouble> {
    let mut journal = Journal::default();
    let awake = awake(connection, shard);
    for row in spared(awake, &mut journal, "the list of those awake")?.unwrap_or_default() {
        let found = awake_row(connection, row);
        if let Some((execution, covered)) = spared(found, &mut journal, &format!("row {row} of execution"))? {
            journal.awake(execution, covered);
        }
    }
    let taken = aside::read(connection, shard, &mut journal, |who| standing(connection, who)).map(|_| ());
    spared(taken, &mut journal, "what was set aside")?;
    for id in journal_ids(connection, shard, &mut journal)? {
        let turns = connection
            .prepare_cached("SELECT turns FROM journal WHERE id = ?1")?
            .query_row([id], |row| row.get::<_, Vec<u8>>(0))
            .optional()
            .map_err(Trouble::from);
        let position = position_of(id);
        match spared(turns, &mut journal, &format!("journal row {}", position.0))? {
            Some(Some(turns)) => journal.read(position, &turns, |who| standing(connection, who))?,
            Some(None) => {}
            None => journal.skip(position),
        }
    }
    journal.finish(|execution| match load(connection, execution) {
        Ok(loaded) => Ok(Ok(loaded)),
        Err(trouble) if trouble.is_damage() => Ok(Err(Damage(trouble.to_string()))),
        Err(trouble) => Err(trouble),
    })
}

/// The journal rows of a Shard in order. Where their list is spoilt, every number up to the last is tried.
fn journal_ids(connection: &Connection, shard: Shard, journal: &mut Journal) -> Result<Vec<i64>, Trouble> {
    let (first, last) = journal_range(shard);
    let listed = connection
        .prepare_cached("SELECT id FROM journal WHERE id >= ?1 AND id <= ?2 ORDER BY id")?
        .query_map([first, last], |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(Trouble::from);
    if let Some(ids) = spared(listed, journal, "the journal")? {
        return Ok(ids);
    }
    let end = |order| {
        connection
            .prepare_cached(&format!(
                "SELECT id FROM journal WHERE id >= ?1 AND id <= ?2 ORDER BY id {order} LIMIT 1"
            ))?
            .query_row([first, last], |row| row.get::<_, i64>(0))
            .map_err(Trouble::from)
    };
    let newest = end("DESC")?;
    Ok((end("ASC").unwrap_or(first)..=newest).collect())
}

/// What was read, or nothing where the file is damaged; any other trouble stays trouble.
fn spared<T>(result: Result<T, Trouble>, journal: &mut Journal, what: &str) -> Result<Option<T>, Trouble> {
    match result {
        Ok(read) => Ok(Some(read)),
        Err(trouble) if trouble.is_damage() => {
            journal.damaged(None, format!("{what}: {trouble}"));
            Ok(None)
        }
        Err(trouble) => Err(trouble),
    }
}

/// From the index alone, so that a spoilt page of the table hides only the rows on it.
fn awake(connection: &Connection, shard: Shard) -> Result<Vec<i64>, Trouble> {
    let mut statement =
        connection.prepare_cached("SELECT row FROM execution WHERE shard = ?1 AND awake ORDER BY row")?;
    Ok(statement.query_map([shard.0], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn awake_row(connection: &Connection, row: i64) -> Result<(ExecutionId, u64), Trouble> {
    let mut statement = connection.prepare_cached("SELECT id, turns FROM execution WHERE row = ?1")?;
    Ok(statement.query_row([row], |row| Ok((execution_of(row.get(0)?), row.get::<_, i64>(1)? as u64)))?)
}

fn standing(connection: &Connection, execution: ExecutionId) -> Result<Standing, Trouble> {
    let covered = connection
        .prepare_cached("SELECT turns FROM execution WHERE id = ?1")?
        .query_row([id_of(execution)], |row| row.get::<_, i64>(0))
        .optional()
        .map_err(Trouble::from);
    match covered {
        Ok(covered) => Ok(Standing { covered: covered.unwrap_or(0) as u64, awake: false }),
        // It is told when its row is loaded.
        Err(trouble) if trouble.is_damage() => Ok(Standing { covered: 0, awake: true }),
        Err(trouble) => Err(trouble),
    }
}

fn load(
    connection: &Connection,
    execution: ExecutionId,
) -> Result<(Option<crate::group::Row>, u64), Trouble> {
    let row = row_of(connection, execution)?;
    Ok((row, unsegmented_from(connection, execution)?))
}
