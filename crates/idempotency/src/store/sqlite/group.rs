//! The verbs, inside an open transaction: read the row, apply the rule, write its change.

use super::rows;
use super::trouble::Trouble;
use crate::record::{Claim, Claimed, Completion, Epoch, Holding, Keep, OperationId};
use crate::rule::{self, Row, Write};
use crate::store::{Clock, Swept};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use std::time::Duration;

/// The transaction that several verbs share.
pub(super) struct Group<'c> {
    connection: &'c Connection,
    clock: &'c Clock,
    /// Leases up to this epoch have ended.
    void: u64,
    /// The newest epoch, once it was read.
    epoch: Option<u64>,
    /// The newest epoch whose row was removed; it is stored when the group closes.
    removed: Option<u64>,
    /// Operations whose waiters to wake after the commit.
    pub(super) changed: Vec<OperationId>,
    /// An answer was erased: after the commit the log must be emptied, because it contains the answer too.
    pub(super) erased: bool,
}

/// The time in the file's resolution, so that results equal stored values.
pub(super) fn now(clock: &Clock) -> Timestamp {
    Timestamp::from_microsecond(clock().as_microsecond()).expect("a time that was told can be told again")
}

impl<'c> Group<'c> {
    pub(super) fn new(connection: &'c Connection, clock: &'c Clock, void: u64) -> Self {
        Self { connection, clock, void, epoch: None, removed: None, changed: Vec::new(), erased: false }
    }

    /// The last step before the commit.
    pub(super) fn close(&self) -> Result<(), Trouble> {
        if let Some(epoch) = self.removed {
            let write = "UPDATE main.idempotency_meta SET value = ?1 WHERE key = 'epoch' AND value < ?1";
            self.connection.prepare_cached(write)?.execute([epoch as i64])?;
        }
        Ok(())
    }

    /// The epoch of the next grant: after that of the newest row, and of the newest removed one. So a grant writes no
    /// counter, only the row itself.
    fn next(&self) -> Result<Epoch, Trouble> {
        const NEWEST: &str = "
            SELECT max(value, ifnull((SELECT max(epoch) FROM main.idempotency_record WHERE epoch < ?1), 0))
            FROM main.idempotency_meta WHERE key = 'epoch'";
        if let Some(epoch) = self.epoch {
            return Ok(Epoch(epoch + 1));
        }
        let kept: i64 =
            self.connection.prepare_cached(NEWEST)?.query_row([rows::EPOCHS_END], |row| row.get(0))?;
        Ok(Epoch((kept as u64).max(self.removed.unwrap_or(0)) + 1))
    }

    /// Applies the change of a rule to the row `before`.
    fn write(&mut self, operation: OperationId, before: Option<&Row>, write: &Write) -> Result<(), Trouble> {
        rows::write(self.connection, operation, before, write)?;
        match (write, before) {
            (Write::Remove, Some(before)) => self.removed = self.removed.max(Some(before.epoch.0)),
            // A replacing row has a newer epoch, or the same.
            (Write::Nothing | Write::Put(_) | Write::Remove, _) => {}
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, claim: &Claim) -> Result<Claimed, Trouble> {
        let next = self.next()?;
        let row = rows::read(self.connection, claim.operation, self.void)?;
        let (claimed, write) = rule::claim(row.as_ref(), claim, next, now(self.clock));
        self.write(claim.operation, row.as_ref(), &write)?;
        match &claimed {
            Claimed::Granted(grant) if grant.epoch == next => self.epoch = Some(next.0),
            Claimed::Granted(_) | Claimed::Found(_) => {}
            Claimed::Lapsed(_) => self.changed.push(claim.operation),
        }
        Ok(claimed)
    }

    fn held(
        &mut self,
        operation: OperationId,
        verb: impl FnOnce(Option<&Row>, Timestamp) -> (Holding, Write),
    ) -> Result<Holding, Trouble> {
        let row = rows::read(self.connection, operation, self.void)?;
        let (holding, write) = verb(row.as_ref(), now(self.clock));
        self.write(operation, row.as_ref(), &write)?;
        Ok(holding)
    }

    pub(super) fn renew(
        &mut self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Result<Holding, Trouble> {
        self.held(operation, |row, now| rule::renew(row, epoch, lease_for, now))
    }

    pub(super) fn complete(&mut self, completion: &Completion) -> Result<Holding, Trouble> {
        let Completion { operation, epoch, ending, keep } = completion;
        self.changed.push(*operation);
        self.held(*operation, |row, now| rule::complete(row, *epoch, ending, *keep, now))
    }

    pub(super) fn release(&mut self, operation: OperationId, epoch: Epoch) -> Result<Holding, Trouble> {
        self.changed.push(operation);
        self.held(operation, |row, now| rule::release(row, epoch, now))
    }

    /// Overwrites the bytes in place, as every delete here does.
    pub(super) fn erase(&mut self, operation: OperationId) -> Result<bool, Trouble> {
        let row = rows::read(self.connection, operation, self.void)?;
        let (erased, write) = rule::erase(row.as_ref(), now(self.clock));
        if write != Write::Nothing {
            self.write(operation, row.as_ref(), &write)?;
        }
        self.erased |= erased;
        Ok(erased)
    }

    pub(super) fn sweep(&mut self, records_max: u32, keep: Keep) -> Result<Swept, Trouble> {
        const DUE: &str = "
            SELECT epoch, operation FROM main.idempotency_record WHERE sweep_at <= ?1 ORDER BY sweep_at LIMIT ?2";
        let now = now(self.clock);
        let due: Vec<(i64, Option<OperationId>)> = self
            .connection
            .prepare_cached(DUE)?
            .query_map((now.as_microsecond(), records_max), |row| {
                Ok((row.get(0)?, rows::id(row.get_ref(1)?)))
            })?
            .collect::<rusqlite::Result<_>>()?;
        let mut swept = Swept::default();
        for (epoch, operation) in due {
            let Some(operation) = operation else {
                tracing::error!(epoch, "a record without an id is left where it is");
                self.leave(epoch)?;
                continue;
            };
            let row = match rows::read(self.connection, operation, self.void) {
                Ok(Some(row)) => row,
                Ok(None) => continue,
                Err(Trouble::Corrupt(operation, what)) => {
                    tracing::error!(%operation, what, "a damaged record is left where it is");
                    self.leave(epoch)?;
                    continue;
                }
                Err(trouble @ Trouble::Sqlite(_)) => return Err(trouble),
            };
            let write = rule::sweep(&row, keep, now);
            swept.note(operation, &write);
            self.write(operation, Some(&row), &write)?;
        }
        self.changed.extend(&swept.lapsed);
        Ok(swept)
    }

    /// Gives running operations a place in the order of sweeps.
    pub(super) fn note(&self, epochs: &[i64], up_to: u64) -> Result<(), Trouble> {
        rows::note(self.connection, epochs, up_to)
    }

    /// Removes it from the order of sweeps: enough damaged rows would come before everything else that is due.
    fn leave(&self, epoch: i64) -> Result<(), Trouble> {
        let leave = "UPDATE main.idempotency_record SET sweep_at = NULL WHERE epoch = ?1";
        self.connection.prepare_cached(leave)?.execute([epoch])?;
        Ok(())
    }

    /// The first check value counts.
    pub(super) fn agree(&self, check: [u8; 16]) -> Result<bool, Trouble> {
        let read = "SELECT value FROM main.idempotency_meta WHERE key = 'check'";
        let kept: Option<Vec<u8>> =
            self.connection.prepare_cached(read)?.query_row([], |row| row.get(0)).optional()?;
        if let Some(kept) = kept {
            return Ok(kept == check);
        }
        let write = "INSERT INTO main.idempotency_meta VALUES ('check', ?1)";
        self.connection.prepare_cached(write)?.execute([check])?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::Group;
    use crate::conformance::{claim, operation};
    use crate::record::{Claimed, Grant, Holding};
    use crate::store::clock;
    use crate::store::sqlite::schema;
    use rusqlite::Connection;

    fn granted(group: &mut Group<'_>, n: u64) -> Grant {
        match group.claim(&claim(operation(n), 1)).expect("claiming") {
            Claimed::Granted(grant) => grant,
            found @ (Claimed::Found(_) | Claimed::Lapsed(_)) => panic!("should be granted: {found:?}"),
        }
    }

    /// The newest row is removed before its number was stored anywhere.
    #[test]
    fn an_epoch_is_not_given_again_within_a_group() {
        let connection = Connection::open_in_memory().expect("opening");
        schema::migrate(&connection).expect("making the tables");
        let clock = clock::system();
        let mut group = Group::new(&connection, &clock, 0);
        let first = granted(&mut group, 1);
        group.close().expect("closing");
        let mut group = Group::new(&connection, &clock, 0);
        assert_eq!(group.release(operation(1), first.epoch).expect("releasing"), Holding::Held);
        let second = granted(&mut group, 2);
        assert_eq!(group.release(operation(2), second.epoch).expect("releasing"), Holding::Held);
        group.close().expect("closing");
        let mut group = Group::new(&connection, &clock, 0);
        let third = granted(&mut group, 3);
        assert_eq!([first, second, third].map(|grant| grant.epoch.0), [1, 2, 3]);
    }
}
