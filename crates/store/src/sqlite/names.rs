//! Reserved names without a row.
//!
//! One process holds the data, and all its handles share this memory, so a reservation costs no sync. A row with the
//! name replaces it. When the process ends, reservations of executions that never began are lost, which is harmless:
//! the name is free again. The journal has the names of executions that began. A node that holds all Shards has read
//! them from there, and must look at its own memory first. Otherwise they are read once, before the first name is
//! reserved.

use super::fault::Trouble;
use super::read::Beyond;
use super::rows::execution_of;
use crate::group::{MachineId, Row};
use crate::store::Unlisted;
use perdura_engine::ExecutionId;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The names that all handles of a process share.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    reserved: HashMap<(MachineId, Arc<str>), ExecutionId>,
    journal: Journal,
}

/// Which part knows the names of executions that only the journal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Journal {
    #[default]
    Unread,
    /// The node that holds all Shards.
    Holder,
    /// They are among the reserved names.
    Read,
}

impl Names {
    /// A node has recovered all Shards, or some.
    pub(super) fn recovered(&self, holds_all: bool) {
        let mut known = self.lock();
        known.journal = match known.journal {
            Journal::Read => Journal::Read,
            Journal::Unread | Journal::Holder if holds_all => Journal::Holder,
            Journal::Unread | Journal::Holder => Journal::Unread,
        };
    }

    /// The execution that has a name; a free name is reserved for the given one.
    pub(super) fn reserve(
        &self,
        connection: &Connection,
        beyond: &mut Beyond,
        (machine, name): (MachineId, &Arc<str>),
        wanted_by: Option<ExecutionId>,
    ) -> Result<Option<ExecutionId>, Trouble> {
        let mut known = self.lock();
        if known.journal == Journal::Unread {
            for Unlisted { summary, .. } in beyond.unlisted(connection)? {
                if let Some(name) = summary.name {
                    known.reserved.entry((summary.machine, name)).or_insert(summary.execution);
                }
            }
            known.journal = Journal::Read;
        }
        let key = (machine, name.clone());
        if let Some(execution) = known.reserved.get(&key) {
            return Ok(Some(*execution));
        }
        // Between this look and the reservation nobody writes a row with the name without having reserved it.
        let found = named(connection, machine, name)?;
        if let (None, Some(wanted_by)) = (found, wanted_by) {
            known.reserved.insert(key, wanted_by);
        }
        Ok(found.or(wanted_by))
    }

    /// These rows are on disk, with their names.
    pub(super) fn written(&self, rows: &[Row]) {
        let mut named = rows.iter().filter_map(|row| Some((row.machine, row.name.clone()?))).peekable();
        if named.peek().is_some() {
            let mut known = self.lock();
            for key in named {
                known.reserved.remove(&key);
            }
        }
    }

    /// An execution was deleted completely.
    pub(super) fn given_up(&self, execution: ExecutionId) {
        self.lock().reserved.retain(|_, whose| *whose != execution);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The execution with this name, if it has a row.
pub(super) fn named(
    connection: &Connection,
    machine: MachineId,
    name: &str,
) -> Result<Option<ExecutionId>, Trouble> {
    let mut statement = connection
        .prepare_cached("SELECT id FROM execution WHERE machine = ?1 AND name = ?2 AND name IS NOT NULL")?;
    let id = statement.query_row(params![machine.0 as i64, name], |row| row.get(0)).optional()?;
    Ok(id.map(execution_of))
}
