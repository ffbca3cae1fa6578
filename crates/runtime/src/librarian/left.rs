//! A look at the rows of Map Runs, for those that an earlier process has left behind, and at their parents.
//!
//! What was read is old when it arrives: a parent may have woken up since, and a run may have been taken up or have ended.
//! Whoever looks goes by its own memory first.

use crate::fold::{Unreadable, rebuild};
use crate::library::Shelf;
use perdura_engine::Destinations;
use perdura_store::{Failure, MapRunRow, Reader, Recovered};
use std::sync::Arc;
use uuid::Uuid;

/// How many rows of runs are looked at once.
const LOOK_AT_ONCE: u32 = 256;

/// Which runs to look at, and with what their parents are rebuilt.
pub struct Look {
    which: Which,
    destinations: Arc<dyn Destinations>,
}

/// Which runs are looked at.
pub(crate) enum Which {
    /// A slice of those whose rows say that they run, after this one.
    After(Option<Uuid>),
    These(Vec<Uuid>),
}

/// How a run stood when it was looked at.
#[derive(Debug)]
pub struct Looked {
    pub(crate) run: Uuid,
    /// `None`: it has none.
    pub(crate) row: Option<Box<MapRunRow>>,
    pub(crate) parent: Waits,
}

/// Whether the execution of a run waits for it, as far as its row tells.
#[derive(Debug)]
pub(crate) enum Waits {
    Yes,
    /// It does not, or there is no such execution.
    No,
    /// It is in some node's memory, which knows.
    Awake,
    /// What is stored of it makes no sense.
    Damaged,
    Unread(Failure),
}

impl Look {
    pub(crate) fn at(which: Which, destinations: Arc<dyn Destinations>) -> Self {
        Self { which, destinations }
    }

    pub(super) fn look(self, reader: &mut dyn Reader) -> Result<Vec<Looked>, Failure> {
        let Self { which, destinations } = self;
        let rows = match which {
            Which::After(after) => {
                let page = reader.running_map_runs(after, LOOK_AT_ONCE)?;
                page.into_iter().map(|row| (row.id, Some(row))).collect()
            }
            Which::These(runs) => {
                let row = |run: Uuid| Ok((run, reader.map_run(run)?));
                runs.into_iter().map(row).collect::<Result<Vec<_>, Failure>>()?
            }
        };
        let mut shelf = Shelf::default();
        let looked = rows.into_iter().map(|(run, row)| {
            let waits = |row: &MapRunRow| waits(row, reader, &mut shelf, &destinations);
            let parent = row.as_ref().map_or(Waits::No, waits);
            Looked { run, row: row.map(Box::new), parent }
        });
        Ok(looked.collect())
    }
}

fn waits(
    run: &MapRunRow,
    reader: &mut dyn Reader,
    shelf: &mut Shelf,
    destinations: &Arc<dyn Destinations>,
) -> Waits {
    let (row, unsegmented_from) = match reader.row(run.execution) {
        Ok(Some(found)) => found,
        Ok(None) => return Waits::No,
        Err(failure) => return Waits::Unread(failure),
    };
    if row.awake {
        return Waits::Awake;
    }
    if row.ended_at.is_some() {
        return Waits::No;
    }
    let stored = Recovered { execution: run.execution, row: Some(row), unsegmented_from, turns: Vec::new() };
    match rebuild(stored, shelf, reader, destinations) {
        Ok(parent) if parent.execution.waits_for_map_run(&run.arn) => Waits::Yes,
        Ok(_) => Waits::No,
        Err(Unreadable::Damaged(_)) => Waits::Damaged,
        Err(Unreadable::Unavailable(failure)) => Waits::Unread(failure),
    }
}
