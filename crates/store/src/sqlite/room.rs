//! Giving free space back to the disk.
//!
//! A sweep leaves free pages inside the file, and new data reuses them. After a peak there may be far more of them than
//! needed. A file made by this version can give them back a slice at a time: pages from its end move into free places,
//! and the file is truncated when the log is copied into it. A file of an earlier version must be rewritten once.

use super::fault::Trouble;
use crate::store::Room;
use rusqlite::Connection;

/// So many pages always stay free: 4 MiB.
const RESERVE: i64 = 1_024;
/// And this part of the file.
const RESERVE_PART: i64 = 10;
/// The value of `PRAGMA auto_vacuum` for a file that gives pages back on request.
pub(super) const INCREMENTAL: i64 = 2;

fn number(connection: &Connection, pragma: &str) -> Result<i64, Trouble> {
    Ok(connection.pragma_query_value(None, pragma, |row| row.get(0))?)
}

/// How much of the file is free, and whether it can be given back beside the commits.
pub(super) fn free(connection: &Connection) -> Result<Room, Trouble> {
    let free = number(connection, "freelist_count")?;
    let free_bytes = (free * number(connection, "page_size")?) as u64;
    let gives_back = number(connection, "auto_vacuum")? == INCREMENTAL;
    Ok(Room { free_bytes, gives_back, more: false })
}

/// How many bytes of the file are in use.
pub(super) fn used(connection: &Connection) -> Result<u64, Trouble> {
    let pages = number(connection, "page_count")? - number(connection, "freelist_count")?;
    Ok((pages * number(connection, "page_size")?) as u64)
}

/// Gives a slice back, keeping what will soon be used; returns whether there was anything to give.
pub(super) fn give_back(
    connection: &Connection,
    pages: u32,
    reserves: bool,
) -> Result<(Room, bool), Trouble> {
    let room = free(connection)?;
    let reserve = if reserves { RESERVE.max(number(connection, "page_count")? / RESERVE_PART) } else { 0 };
    let excess = number(connection, "freelist_count")? - reserve;
    if !room.gives_back || excess <= 0 {
        return Ok((room, false));
    }
    let slice = excess.min(i64::from(pages));
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({slice})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok((Room { more: excess > slice, ..free(connection)? }, true))
}
