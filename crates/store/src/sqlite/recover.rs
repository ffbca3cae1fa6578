//! Recovery: the executions that ran on a Shard. A damaged page loses only the executions on it: each row is read by
//! itself, and unreadable ones are reported.

use super::aside;
use super::commit;
use super::fault::Trouble;
use super::rows::{execution_of, id_of, journal_range, position_of, row_of, unsegmented_from};
use crate::gather::{Held, Journal, Standing};
use crate::group::Totals;
use crate::lease::{Lease, Position, Shard};
use crate::record::Damage;
use crate::store::Recovery;
use perdura_engine::ExecutionId;
use rusqlite::{Connection, OptionalExtension};

pub(super) fn recover(connection: &Connection, lease: &Lease, shards: u16) -> Result<Recovery, Trouble> {
    let journal = gather(connection, &Held::by(lease, shards))?;
    let totals = commit::totals(connection, lease.incarnation)?;
    finish(connection, journal, (commit::newest(connection, lease.incarnation)?.next(), totals))
}

/// The Turns of these executions in all journals.
pub(super) fn gather(connection: &Connection, held: &Held) -> Result<Journal, Trouble> {
    let mut journal = Journal::of(held.clone());
    for shard in held.shards() {
        let awake = awake(connection, *shard);
        for row in spared(awake, &mut journal, "the list of those awake")?.unwrap_or_default() {
            let found = awake_row(connection, row);
            let what = format!("row {row} of execution");
            if let Some((execution, covered)) = spared(found, &mut journal, &what)? {
                journal.awake(execution, covered);
            }
        }
    }
    let taken = aside::read(connection, &mut journal, |who| standing(connection, who)).map(|_| ());
    spared(taken, &mut journal, "what was set aside")?;
    for id in journal_ids(connection, &mut journal)? {
        let turns = connection
            .prepare_cached("SELECT turns FROM journal WHERE id = ?1")?
            .query_row([id], |row| row.get::<_, Vec<u8>>(0))
            .optional()
            .map_err(Trouble::from);
        let position = position_of(id);
        if let Some(Some(turns)) = spared(turns, &mut journal, &format!("journal row {position}"))? {
            journal.read(position, &turns, |who| standing(connection, who))?;
        }
    }
    Ok(journal)
}

/// Adds the rows of those executions.
pub(super) fn finish(
    connection: &Connection,
    journal: Journal,
    from: (Position, Totals),
) -> Result<Recovery, Trouble> {
    journal.finish(from, |execution| match load(connection, execution) {
        Ok(loaded) => Ok(Ok(loaded)),
        Err(trouble) if trouble.is_damage() => Ok(Err(Damage(trouble.to_string()))),
        Err(trouble) => Err(trouble),
    })
}

/// The ids of the journal rows in order. If their list is damaged, every number of each incarnation up to its last is
/// tried.
fn journal_ids(connection: &Connection, journal: &mut Journal) -> Result<Vec<i64>, Trouble> {
    let listed = connection
        .prepare_cached("SELECT id FROM journal ORDER BY id")?
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(Trouble::from);
    if let Some(ids) = spared(listed, journal, "the journal")? {
        return Ok(ids);
    }
    let end = |order: &str, (first, last): (i64, i64)| {
        connection
            .prepare_cached(&format!(
                "SELECT id FROM journal WHERE id >= ?1 AND id <= ?2 ORDER BY id {order} LIMIT 1"
            ))?
            .query_row([first, last], |row| row.get::<_, i64>(0))
            .optional()
            .map_err(Trouble::from)
    };
    let mut ids = Vec::new();
    let mut before = i64::MAX;
    // From the newest to the oldest, as far as readable.
    while let Some(newest) = spared(end("DESC", (0, before)), journal, "the journal")?.flatten() {
        let incarnation = position_of(newest).incarnation;
        let (first, _) = journal_range(incarnation);
        let oldest = spared(end("ASC", (first, newest)), journal, "the journal")?.flatten();
        ids.extend((oldest.unwrap_or(first + 1)..=newest).rev());
        before = first - 1;
    }
    ids.reverse();
    Ok(ids)
}

/// The result of a read, or nothing if the file is damaged; any other error is returned.
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

/// From the index alone, so that a damaged page of the table hides only the rows on it.
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
        // Reported when its row is loaded.
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
