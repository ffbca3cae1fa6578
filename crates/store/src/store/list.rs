//! Lists of executions: filters, orders, and pages.
//!
//! A list has rows, and beside them running executions without a row. The code that knows those, a node or the journal,
//! calls [`Filter::shows`] as the stores do, so a filter means the same everywhere.

use super::reader::Reader;
use super::{Failure, StoredTurn};
use crate::group::{MachineId, RevisionId};
use crate::record::TurnBody;
use perdura_engine::{ExecutionId, Labels, Status, Timestamp};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// Longer error names are truncated in rows.
const ERROR_BYTES_MAX: usize = 256;

/// A filter for a list of executions. Only the list of a Map Run shows its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this machine only.
    pub machine: Option<MachineId>,
    /// With this status only.
    pub status: Option<Status>,
    /// Started under this version only.
    pub version: Option<u32>,
    /// Started by this alias only.
    pub alias: Option<Arc<str>>,
    /// Only redriven executions, or only others.
    pub redriven: Option<bool>,
    /// With this label only: key and value.
    pub label: Option<(Arc<str>, Arc<str>)>,
    /// Only executions whose given name begins with this.
    pub name_prefix: Option<Arc<str>>,
    /// Only executions that ended with an error of this name.
    pub error: Option<Arc<str>>,
    /// Only executions that began with this request, directly or through a parent.
    pub root_key: Option<Arc<str>>,
    /// Not before this, by the time that the list is sorted by.
    pub since: Option<Timestamp>,
    /// Before this, by the same time.
    pub until: Option<Timestamp>,
    pub order: Order,
    /// The children of this Map Run, the last one first; of the other fields, only status and redrives apply then. The
    /// next page begins after one of them.
    pub map_run: Option<Uuid>,
    /// Children of that Map Run before this one only.
    pub before_child: Option<u32>,
}

/// The order of a list. The newest is first; executions of one millisecond are sorted by their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    #[default]
    Start,
    /// By the end; only ended executions.
    End,
}

/// Where the next page of a list begins: after the execution with this time and this id.
pub type After = Option<(Timestamp, ExecutionId)>;

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub rows: Vec<Summary>,
    /// Where the next page begins; `None`: there is no more. A page may have few rows or none and still a next page, if
    /// the filter matches few of the rows that were looked at.
    pub next: After,
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub execution: ExecutionId,
    pub machine: MachineId,
    pub revision: RevisionId,
    /// `None`: its id is its name.
    pub name: Option<Arc<str>>,
    pub status: Status,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub redrives: u32,
    pub redriven_at: Option<Timestamp>,
    /// The version that it was started under.
    pub version: Option<u32>,
    /// The alias that it was started by.
    pub alias: Option<Arc<str>>,
    pub labels: Labels,
    /// The key of the client's request that started it, or that started the execution that started it.
    pub root_key: Option<Arc<str>>,
    /// The name of the error that it ended with.
    pub error: Option<Arc<str>>,
    /// Its number in its Map Run, if it is a child.
    pub child: Option<u32>,
    pub erased_at: Option<Timestamp>,
}

impl Filter {
    /// Whether a list with this filter shows it. The caller checks the Map Run of a child.
    pub fn shows(&self, summary: &Summary) -> bool {
        let is_meant = match self.map_run {
            Some(_) => {
                summary.child.is_some_and(|child| self.before_child.is_none_or(|before| child < before))
            }
            None => summary.child.is_none() && self.finds(summary),
        };
        is_meant
            && self.status.is_none_or(|status| summary.status.name() == status.name())
            && self.redriven.is_none_or(|redriven| (summary.redrives > 0) == redriven)
    }

    fn finds(&self, summary: &Summary) -> bool {
        fn is_same(wanted: Option<&Arc<str>>, is: Option<&Arc<str>>) -> bool {
            wanted.is_none_or(|wanted| is == Some(wanted))
        }
        let has_label = |(key, value): &(Arc<str>, Arc<str>)| summary.labels.get(key) == Some(value);
        let begins_so =
            |prefix: &Arc<str>| summary.name.as_ref().is_some_and(|name| name.starts_with(&**prefix));
        let is_in_time = self.place(summary).is_some_and(|(at, _)| {
            self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
        });
        is_in_time
            && self.machine.is_none_or(|machine| summary.machine == machine)
            && self.version.is_none_or(|version| summary.version == Some(version))
            && is_same(self.alias.as_ref(), summary.alias.as_ref())
            && self.label.as_ref().is_none_or(has_label)
            && self.name_prefix.as_ref().is_none_or(begins_so)
            && is_same(self.error.as_ref(), summary.error.as_ref())
            && is_same(self.root_key.as_ref(), summary.root_key.as_ref())
    }

    /// The position of an execution in this list; `None`: the list does not show it.
    pub fn place(&self, summary: &Summary) -> After {
        let at = match self.order {
            Order::Start => Some(summary.started_at),
            Order::End => summary.ended_at,
        };
        Some((at?, summary.execution))
    }

    /// A page of all these. `next` is where the search for them stopped.
    pub(crate) fn page(&self, mut rows: Vec<Summary>, most: u32, next: After) -> Listing {
        match self.map_run {
            Some(_) => rows.sort_unstable_by_key(|summary| Reverse(summary.child)),
            None => rows.sort_unstable_by_key(|summary| Reverse(self.place(summary))),
        }
        let is_full = rows.len() >= most as usize;
        rows.truncate(most as usize);
        let last = rows.last().filter(|_| is_full && self.map_run.is_none());
        Listing { next: last.map_or(next, |last| self.place(last)), rows }
    }

    /// A page of rows, completed by executions from memory or the journal, which override the rows.
    pub fn complete(&self, listing: Listing, known: Vec<Summary>, after: After, most: u32) -> Listing {
        let Listing { mut rows, next } = listing;
        let also: BTreeSet<ExecutionId> = known.iter().map(|summary| summary.execution).collect();
        rows.retain(|summary| !also.contains(&summary.execution));
        let is_wanted = |summary: &Summary| {
            let place = self.place(summary);
            let is_here =
                after.is_none_or(|after| place < Some(after)) && next.is_none_or(|next| place >= Some(next));
            self.shows(summary) && (self.map_run.is_some() || is_here)
        };
        rows.extend(known.into_iter().filter(is_wanted));
        self.page(rows, most, next)
    }
}

/// The name of an error, as it is stored in rows.
pub fn error_in_rows(error: &str) -> &str {
    &error[..error.floor_char_boundary(ERROR_BYTES_MAX)]
}

/// An execution without a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Unlisted {
    /// Its entry in a list.
    pub summary: Summary,
    /// Its Map Run, if it is a child.
    pub map_run: Option<Uuid>,
}

impl Unlisted {
    /// The entry from a first Turn of an execution without a row; `None`: it is not a first Turn, or cannot be read.
    pub(crate) fn of(execution: ExecutionId, turn: &StoredTurn) -> Option<Self> {
        let TurnBody { begun, turn } = TurnBody::read(&turn.body).ok()?;
        let begun = begun?;
        let summary = Summary {
            execution,
            machine: begun.machine,
            revision: begun.revision,
            name: begun.named.then(|| begun.identity.name.clone()),
            status: Status::Running,
            started_at: turn.events().next()?.at,
            ended_at: None,
            redrives: 0,
            redriven_at: None,
            version: begun.identity.version(),
            alias: begun.identity.alias().map(Into::into),
            labels: begun.identity.labels,
            root_key: begun.identity.root_key,
            error: None,
            child: begun.child.map(|child| child.index),
            erased_at: None,
        };
        Some(Self { summary, map_run: begun.child.map(|child| child.run) })
    }
}

/// A page of executions, including those that only the journal has.
pub fn complete_list(
    reader: &mut dyn Reader,
    filter: &Filter,
    after: After,
    most: u32,
) -> Result<Listing, Failure> {
    let mut unlisted = reader.unlisted()?;
    unlisted.retain(|unlisted| unlisted.map_run == filter.map_run);
    let unlisted = unlisted.into_iter().map(|unlisted| unlisted.summary).collect();
    let rows = reader.list(filter, after, most)?;
    Ok(filter.complete(rows, unlisted, after, most))
}

/// The execution with this name, even if only the journal has it.
pub fn complete_name(
    reader: &mut dyn Reader,
    machine: MachineId,
    name: &str,
) -> Result<Option<ExecutionId>, Failure> {
    let is_meant = |summary: &Summary| summary.machine == machine && summary.name.as_deref() == Some(name);
    let mut unlisted = reader.unlisted()?.into_iter().map(|unlisted| unlisted.summary);
    match unlisted.find(is_meant) {
        Some(found) => Ok(Some(found.execution)),
        None => reader.named(machine, name),
    }
}
