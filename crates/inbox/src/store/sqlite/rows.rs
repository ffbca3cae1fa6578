//! The verbs in SQL, inside an open transaction: read the row, ask the rule, leave what it says.

use super::writer::Trouble;
use crate::row::{
    Address, Claim, Counts, Ending, Epoch, Fingerprint, Held, Holding, Keep, List, Message, Name, Named, Put,
    ROWS_MAX, Receipt, Redriven, Row, Status,
};
use crate::rule;
use bytes::Bytes;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::time::Duration;

const COLUMNS: &str = "number, inbox, tenant, id, status, received_at, claimed_at, processed_at, attempts, \
    not_before, ordering_key, head, lease_until, owner, epoch, fingerprint, last_error";

/// The verbs of one transaction, at one moment.
pub(super) struct Rows<'c> {
    pub(super) connection: &'c Connection,
    pub(super) now: Timestamp,
}

/// As the columns have instants.
fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// The time in the file's resolution, so that what is told is what is kept.
pub(super) fn rounded(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).expect("a time that was told can be told again")
}

fn read(row: &rusqlite::Row<'_>) -> Result<Row, Trouble> {
    let number: i64 = row.get(0)?;
    let corrupt = |what| Trouble::Corrupt(number as u64, what);
    let name = |column: usize| -> Result<Option<Name>, Trouble> {
        let text = row.get_ref(column)?.as_str_or_null().map_err(|_| corrupt("a name is no text"))?;
        text.map(Name::new).transpose().map_err(|_| corrupt("a name is none"))
    };
    let at = |column: usize| -> Result<Option<Timestamp>, Trouble> {
        let micros: Option<i64> = row.get(column)?;
        micros
            .map(Timestamp::from_microsecond)
            .transpose()
            .map_err(|_| corrupt("an instant is beyond all times"))
    };
    let there = |name: Option<Name>| name.ok_or_else(|| corrupt("a name is missing"));
    let since = |at: Option<Timestamp>| at.ok_or_else(|| corrupt("an instant is missing"));
    let status: String = row.get(4)?;
    let fingerprint: Vec<u8> = row.get(15)?;
    Ok(Row {
        number: number as u64,
        address: Address { inbox: there(name(1)?)?, tenant: there(name(2)?)?, id: there(name(3)?)? },
        status: Status::parse(&status).ok_or_else(|| corrupt("the status is none"))?,
        received_at: since(at(5)?)?,
        claimed_at: at(6)?,
        processed_at: at(7)?,
        attempts: row.get(8)?,
        not_before: since(at(9)?)?,
        ordering_key: name(10)?,
        head: row.get(11)?,
        lease_until: at(12)?,
        owner: name(13)?,
        epoch: Epoch(row.get::<_, i64>(14)? as u64),
        fingerprint: Fingerprint(
            fingerprint.try_into().map_err(|_| corrupt("the fingerprint has another length"))?,
        ),
        last_error: row.get(16)?,
    })
}

fn read_message(row: &rusqlite::Row<'_>) -> Result<Message, Trouble> {
    let payload: Vec<u8> = row.get(17)?;
    Ok(Message { row: read(row)?, payload: Bytes::from(payload) })
}

/// The newest time on record.
pub(super) fn newest(connection: &Connection) -> Result<Option<Timestamp>, Trouble> {
    let newest = "SELECT received_at FROM main.inbox_row ORDER BY number DESC LIMIT 1";
    let newest: Option<i64> = connection.query_row(newest, [], |row| row.get(0)).optional()?;
    Ok(newest.and_then(|micros| Timestamp::from_microsecond(micros).ok()))
}

impl Rows<'_> {
    fn all<T>(
        &self,
        sql: &str,
        parameters: &[&dyn ToSql],
        read: fn(&rusqlite::Row<'_>) -> Result<T, Trouble>,
    ) -> Result<Vec<T>, Trouble> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    /// The next number, which is an arrival's or an epoch.
    fn next(&self) -> Result<u64, Trouble> {
        let next = "UPDATE main.inbox_meta SET value = value + 1 WHERE key = 'number' RETURNING value";
        let number: i64 = self.connection.prepare_cached(next)?.query_row([], |row| row.get(0))?;
        Ok(number as u64)
    }

    pub(super) fn look(&self, address: &Address) -> Result<Option<Message>, Trouble> {
        let sql = format!(
            "SELECT {COLUMNS}, payload FROM main.inbox_row WHERE inbox = ?1 AND tenant = ?2 AND id = ?3"
        );
        let Address { inbox, tenant, id } = address;
        let found = self.all(&sql, &[&inbox.as_str(), &tenant.as_str(), &id.as_str()], read_message)?;
        Ok(found.into_iter().next())
    }

    fn has_head(&self, address: &Address, key: Option<&Name>) -> Result<bool, Trouble> {
        const HEAD: &str = "SELECT EXISTS (SELECT 1 FROM main.inbox_row
            WHERE inbox = ?1 AND tenant = ?2 AND ordering_key = ?3 AND ordering_key IS NOT NULL AND head = 1)";
        let Some(key) = key else { return Ok(false) };
        let of = params![address.inbox.as_str(), address.tenant.as_str(), key.as_str()];
        Ok(self.connection.prepare_cached(HEAD)?.query_row(of, |row| row.get(0))?)
    }

    pub(super) fn put(&self, put: &Put) -> Result<Receipt, Trouble> {
        const INSERT: &str = "INSERT INTO main.inbox_row (number, inbox, tenant, id, status, received_at, attempts, not_before,
            ordering_key, head, epoch, fingerprint, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, 0, ?10, ?11)";
        if let Some(message) = self.look(&put.address)? {
            return Ok(rule::found(message.row, put));
        }
        let head = !self.has_head(&put.address, put.ordering_key.as_ref())?;
        let row = rule::accept(put, self.next()?, head, self.now);
        let Address { inbox, tenant, id } = &row.address;
        self.connection.prepare_cached(INSERT)?.execute(params![
            row.number as i64,
            inbox.as_str(),
            tenant.as_str(),
            id.as_str(),
            row.status.as_str(),
            micros(row.received_at),
            micros(row.not_before),
            row.ordering_key.as_ref().map(Name::as_str),
            row.head,
            &row.fingerprint.0[..],
            &put.payload[..],
        ])?;
        Ok(Receipt::Accepted(row))
    }

    /// Leaves `after` in place of `before`, and only in its place.
    fn write(&self, before: &Row, after: &Row) -> Result<(), Trouble> {
        const UPDATE: &str = "UPDATE main.inbox_row SET number = ?4, status = ?5, claimed_at = ?6, processed_at = ?7, attempts = ?8,
            not_before = ?9, head = ?10, lease_until = ?11, owner = ?12, epoch = ?13, last_error = ?14
            WHERE number = ?1 AND status = ?2 AND epoch = ?3";
        let changed = self.connection.prepare_cached(UPDATE)?.execute(params![
            before.number as i64,
            before.status.as_str(),
            before.epoch.0 as i64,
            after.number as i64,
            after.status.as_str(),
            after.claimed_at.map(micros),
            after.processed_at.map(micros),
            after.attempts,
            micros(after.not_before),
            after.head,
            after.lease_until.map(micros),
            after.owner.as_ref().map(Name::as_str),
            after.epoch.0 as i64,
            after.last_error,
        ])?;
        if changed == 1 {
            Ok(())
        } else {
            Err(Trouble::Corrupt(before.number, "it changed under the write lock"))
        }
    }

    fn take(&self, message: Message, claim: &Claim) -> Result<Message, Trouble> {
        let row = rule::claim(&message.row, claim, Epoch(self.next()?), self.now);
        self.write(&message.row, &row)?;
        Ok(Message { row, ..message })
    }

    /// The tenants that share a claim: from one to the next by the index, whatever lies between. First those after the one
    /// that was served last, then those from the first up to that one.
    fn tenants(&self, claim: &Claim) -> Result<Vec<Name>, Trouble> {
        const NEXT: &str = "SELECT tenant, not_before FROM main.inbox_row
            WHERE inbox = ?1 AND tenant > ?2 AND status = 'PENDING' AND head = 1
            ORDER BY tenant, not_before, number LIMIT 1";
        let mut next = self.connection.prepare_cached(NEXT)?;
        let mut tenants: Vec<Name> = Vec::new();
        let served = claim.after.as_ref().map_or("", Name::as_str);
        for (first, last) in [(served, None), ("", Some(served))] {
            let mut after = first.to_owned();
            while tenants.len() < claim.limit.min(ROWS_MAX) as usize {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
                let found = next.query_row((claim.inbox.as_str(), &after), read).optional()?;
                let Some((tenant, not_before)) = found else { break };
                if last.is_some_and(|last| tenant.as_str() > last) {
                    break;
                }
                if not_before <= micros(self.now) {
                    tenants
                        .push(Name::new(&tenant).map_err(|_| Trouble::Corrupt(0, "a tenant has no name"))?);
                }
                after = tenant;
            }
        }
        Ok(tenants)
    }

    pub(super) fn claim(&self, claim: &Claim) -> Result<Vec<Message>, Trouble> {
        let ready = format!(
            "SELECT {COLUMNS}, payload FROM main.inbox_row
             WHERE inbox = ?1 AND tenant = ?2 AND not_before <= ?3 AND status = 'PENDING' AND head = 1
             ORDER BY not_before, number LIMIT ?4"
        );
        let tenants = self.tenants(claim)?;
        let share = rule::share(claim.limit, tenants.len());
        let mut claimed = Vec::new();
        for tenant in tenants {
            let of: [&dyn ToSql; 4] = [&claim.inbox.as_str(), &tenant.as_str(), &micros(self.now), &share];
            for message in self.all(&ready, &of, read_message)? {
                claimed.push(self.take(message, claim)?);
            }
        }
        Ok(claimed)
    }

    pub(super) fn claim_named(&self, address: &Address, claim: &Claim) -> Result<Named, Trouble> {
        Ok(match self.look(address)? {
            None => Named::Missing,
            Some(message) if message.row.status != Status::Pending => Named::Taken(message.row.status),
            Some(message) if !rule::is_ready(&message.row, self.now) => Named::NotYet,
            Some(message) => Named::Claimed(self.take(message, claim)?),
        })
    }

    pub(super) fn beat(&self, held: &[Held], lease_for: Duration) -> Result<Vec<Epoch>, Trouble> {
        let mut still = Vec::new();
        for held in held {
            let Some(Message { row, .. }) = self.look(&held.address)? else { continue };
            if let Some(after) = rule::beat(&row, held, lease_for, self.now) {
                self.write(&row, &after)?;
                still.push(after.epoch);
            }
        }
        Ok(still)
    }

    /// Whether the claim holds its row.
    pub(super) fn holds(&self, held: &Held) -> Result<bool, Trouble> {
        Ok(self.look(&held.address)?.is_some_and(|message| rule::is_held(&message.row, held)))
    }

    pub(super) fn end(&self, held: &Held, ending: &Ending) -> Result<Holding, Trouble> {
        let Some(Message { row, .. }) = self.look(&held.address)? else { return Ok(Holding::Lost) };
        let (holding, after) = rule::end(&row, held, ending, self.now);
        if let Some(after) = after {
            self.leave(&row, &after)?;
        }
        Ok(holding)
    }

    /// Leaves the row so; where it was the head of its key and ended, the next one is.
    fn leave(&self, before: &Row, after: &Row) -> Result<(), Trouble> {
        const PROMOTE: &str = "UPDATE main.inbox_row SET head = 1 WHERE number = (
            SELECT number FROM main.inbox_row WHERE inbox = ?1 AND tenant = ?2 AND ordering_key = ?3
                AND ordering_key IS NOT NULL AND status = 'PENDING' AND head = 0 ORDER BY number LIMIT 1)";
        self.write(before, after)?;
        let Some(key) = after.ordering_key.as_ref().filter(|_| !after.head) else { return Ok(()) };
        let Address { inbox, tenant, .. } = &after.address;
        let of = params![inbox.as_str(), tenant.as_str(), key.as_str()];
        self.connection.prepare_cached(PROMOTE)?.execute(of)?;
        Ok(())
    }

    pub(super) fn lapse(&self, inbox: &Name, attempts_max: u32, rows_max: u32) -> Result<Vec<Row>, Trouble> {
        let due = format!(
            "SELECT {COLUMNS} FROM main.inbox_row
             WHERE status = 'DOING' AND inbox = ?1 AND lease_until <= ?2 ORDER BY received_at LIMIT ?3"
        );
        let limit = rows_max.min(ROWS_MAX);
        let mut lapsed = Vec::new();
        for row in self.all(&due, &[&inbox.as_str(), &micros(self.now), &limit], read)? {
            if let Some(after) = rule::lapse(&row, attempts_max, self.now) {
                self.leave(&row, &after)?;
                lapsed.push(after);
            }
        }
        Ok(lapsed)
    }

    pub(super) fn list(&self, list: &List) -> Result<Vec<Row>, Trouble> {
        let page = format!(
            "SELECT {COLUMNS} FROM main.inbox_row WHERE inbox = ?1 AND status = ?2 AND number > ?3
             ORDER BY number LIMIT ?4"
        );
        let after = i64::try_from(list.after).unwrap_or(i64::MAX);
        let limit = list.limit.min(ROWS_MAX);
        self.all(&page, &[&list.inbox.as_str(), &list.status.as_str(), &after, &limit], read)
    }

    pub(super) fn stuck(&self, inbox: &Name, doing_for: Duration) -> Result<Vec<Row>, Trouble> {
        let stuck = format!(
            "SELECT {COLUMNS} FROM main.inbox_row WHERE status = 'DOING' AND inbox = ?1 AND claimed_at <= ?2
             ORDER BY claimed_at, number LIMIT {ROWS_MAX}"
        );
        let since = i64::try_from(doing_for.as_micros()).unwrap_or(i64::MAX);
        self.all(&stuck, &[&inbox.as_str(), &micros(self.now).saturating_sub(since)], read)
    }

    pub(super) fn counts(&self, inbox: &Name) -> Result<Counts, Trouble> {
        let count = "SELECT status, count(*) FROM main.inbox_row WHERE inbox = ?1 GROUP BY status";
        let read =
            |row: &rusqlite::Row<'_>| -> Result<(String, i64), Trouble> { Ok((row.get(0)?, row.get(1)?)) };
        let mut counts = Counts::default();
        for (status, rows) in self.all(count, &[&inbox.as_str()], read)? {
            let status = Status::parse(&status).ok_or(Trouble::Corrupt(0, "a status is none"))?;
            counts.add(status, rows as u64);
        }
        Ok(counts)
    }

    pub(super) fn redrive(&self, address: &Address) -> Result<Redriven, Trouble> {
        let Some(Message { row, .. }) = self.look(address)? else { return Ok(Redriven::Missing) };
        let head = !self.has_head(address, row.ordering_key.as_ref())?;
        let Some(after) = rule::redrive(&row, self.next()?, head, self.now) else {
            return Ok(Redriven::NotDead(row.status));
        };
        self.write(&row, &after)?;
        Ok(Redriven::Pending(after))
    }

    /// Rows that were processed long ago arrived long ago, so the index by arrival finds them.
    pub(super) fn sweep(&self, inbox: &Name, keep: Keep, rows_max: u32) -> Result<u64, Trouble> {
        const SWEEP: &str = "DELETE FROM main.inbox_row WHERE number IN (SELECT number FROM main.inbox_row
            WHERE status = ?1 AND inbox = ?2 AND received_at <= ?3 AND processed_at <= ?3 ORDER BY received_at LIMIT ?4)";
        let mut swept = 0;
        for (status, keep_for) in [(Status::Done, keep.done_for), (Status::Dead, keep.dead_for)] {
            let since = i64::try_from(keep_for.as_micros()).unwrap_or(i64::MAX);
            let until = micros(self.now).saturating_sub(since);
            let left = u64::from(rows_max) - swept;
            let of = params![status.as_str(), inbox.as_str(), until, left as i64];
            swept += self.connection.prepare_cached(SWEEP)?.execute(of)? as u64;
        }
        Ok(swept)
    }
}
