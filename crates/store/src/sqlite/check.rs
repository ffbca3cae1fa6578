//! Checks the stored data: the file itself, every blob, every history, and whether the rows agree with the Turns. It
//! changes nothing, and the data may be in use.

use super::fault::{Files, Trouble};
use super::labels;
use super::read::SqliteReader;
use super::restore::{Marks, mark_turn};
use super::rows::{LEDGER, execution_of, ledger_row, position_of, row_of};
use crate::gather;
use crate::group::{LedgerRow, MachineId, RevisionId, Row};
use crate::record::{self, TurnBody};
use crate::store::{Failure, Reader};
use perdura_engine::asl::machine::Machine;
use perdura_engine::asl::{self, source::Source};
use perdura_engine::{Execution, ExecutionId, Labels, LedgerStatus, Seq, Timestamp};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// How much of a history to read at once.
const SLICE_BYTES: usize = 1 << 20;
/// How many executions to list at once; progress is reported after each slice.
const SLICE_ROWS: usize = 256;

/// An inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The table; `file` for the whole file.
    pub table: &'static str,
    /// The execution, if it is known.
    pub execution: Option<ExecutionId>,
    pub what: String,
}

/// Progress and findings of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Found(Finding),
    /// The number of checked executions.
    Progress {
        done: u64,
        /// About how many there are.
        of: u64,
    },
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Executions, with a row or only in the journal.
    pub executions: u64,
    pub turns: u64,
    pub findings: u64,
}

pub fn check(folder: &Path, tell: &mut dyn FnMut(News)) -> Result<Checked, Failure> {
    let files = Files::of(folder);
    let reader = SqliteReader::on(files.clone())?;
    let connection = super::read::connect(&files)?;
    let restored_at = super::read::meta(&connection, "restored_at");
    let restored_at = restored_at.map_err(|trouble| files.failure("reading", trouble))?.map(Timestamp);
    let mut check = Check {
        connection,
        reader,
        tell,
        checked: Checked::default(),
        machines: BTreeMap::new(),
        marked: BTreeMap::new(),
        restored_at,
    };
    check.file();
    let ledger = ledger_rows(&check.connection);
    let ledger = check.spared("ledger", None, ledger).unwrap_or_default();
    check.marked = ledger.iter().map(|row| (row.execution, (false, Marks::new()))).collect();
    let beside = check.journal();
    check.executions(beside);
    check.ledger(&ledger);
    check.audit();
    Ok(check.checked)
}

struct Check<'t> {
    connection: Connection,
    reader: SqliteReader,
    tell: &'t mut dyn FnMut(News),
    checked: Checked,
    machines: BTreeMap<RevisionId, Option<Arc<Machine>>>,
    /// Executions with ledger rows: whether they rest, and the marks of their Turns.
    marked: BTreeMap<ExecutionId, (bool, Marks)>,
    restored_at: Option<Timestamp>,
}

impl Check<'_> {
    fn found(&mut self, table: &'static str, execution: Option<ExecutionId>, what: impl Into<String>) {
        self.checked.findings += 1;
        (self.tell)(News::Found(Finding { table, execution, what: what.into() }));
    }

    /// The result of a read; an error is reported and then skipped.
    fn spared<T>(
        &mut self,
        table: &'static str,
        execution: Option<ExecutionId>,
        read: Result<T, Trouble>,
    ) -> Option<T> {
        read.map_err(|trouble| self.found(table, execution, trouble.to_string())).ok()
    }

    fn file(&mut self) {
        let said = texts(&self.connection, "PRAGMA quick_check(20)");
        for line in self.spared("file", None, said).unwrap_or_default() {
            if line != "ok" {
                self.found("file", None, line);
            }
        }
    }

    /// Checks every chain of the audit from its first row to its last.
    fn audit(&mut self) {
        let verified = super::audit::verify(&self.connection, &[], &mut |_| {});
        if let Some(Err(broken)) = self.spared("audit", None, verified) {
            self.found("audit", None, broken.to_string());
        }
    }

    /// Checks that the journal opens and has no gaps; returns the executions in it.
    fn journal(&mut self) -> BTreeSet<ExecutionId> {
        let mut who = BTreeSet::new();
        let ids = journal_ids(&self.connection);
        let ids = self.spared("journal", None, ids).unwrap_or_default();
        for pair in ids.windows(2) {
            let (one, other) = (position_of(pair[0]), position_of(pair[1]));
            if one.incarnation == other.incarnation && other != one.next() {
                let (from, to) = (one.number + 1, other.number - 1);
                let what = format!("rows {from} to {to} of incarnation {} are missing", one.incarnation);
                self.found("journal", None, what);
            }
        }
        for id in ids {
            let turns = journal_row(&self.connection, id).and_then(|row| Ok(record::read_journal(&row)?));
            match turns {
                Ok((_, turns)) => who.extend(turns.into_iter().map(|(execution, _)| execution)),
                Err(trouble) => self.found("journal", None, format!("row {}: {trouble}", position_of(id))),
            }
        }
        let aside = aside(&self.connection);
        who.extend(self.spared("aside", None, aside).unwrap_or_default());
        who
    }

    fn executions(&mut self, mut beside: BTreeSet<ExecutionId>) {
        let of = count(&self.connection).unwrap_or(0) + beside.len() as u64;
        let mut last = i64::MIN;
        loop {
            let slice = slice(&self.connection, last);
            let Some(slice) = self.spared("execution", None, slice) else { break };
            let Some((row, _)) = slice.last() else { break };
            last = *row;
            for (_, execution) in slice {
                beside.remove(&execution);
                self.execution(execution);
            }
            (self.tell)(News::Progress { done: self.checked.executions, of });
        }
        for execution in beside {
            self.execution(execution);
        }
        (self.tell)(News::Progress { done: self.checked.executions, of });
    }

    fn execution(&mut self, execution: ExecutionId) {
        self.checked.executions += 1;
        let row = row_of(&self.connection, execution);
        let Some(row) = self.spared("execution", Some(execution), row) else { return };
        if let Err(damage) = gather::sound(row.as_ref()) {
            return self.found("execution", Some(execution), damage.0);
        }
        let mut fold = Fold::default();
        match self.fold(execution, &mut fold, row.as_ref()) {
            Ok(()) => {}
            Err(what) => return self.found("history", Some(execution), what),
        }
        if let Some(row) = &row {
            for what in fold.disagreements(row) {
                self.found("execution", Some(execution), what);
            }
            let missing = labels::missing(&self.connection, row);
            if self.spared("label", Some(execution), missing) == Some(true) {
                self.found("label", Some(execution), "it is not found by all of its labels");
            }
        }
        if let Some(marked) = self.marked.get_mut(&execution) {
            let rests = row.is_some_and(|row| !row.awake && row.content.is_some());
            *marked = (rests, fold.marks);
        }
    }

    /// Folds all Turns of an execution.
    fn fold(&mut self, execution: ExecutionId, fold: &mut Fold, row: Option<&Row>) -> Result<(), String> {
        loop {
            let turns =
                self.reader.turns(execution, fold.turns + 1, SLICE_BYTES).map_err(|failure| failure.why)?;
            if turns.is_empty() {
                break;
            }
            for turn in turns {
                fold.turns += 1;
                self.checked.turns += 1;
                let body = TurnBody::read(&turn.body).map_err(|damage| damage.0)?;
                if let Some(begun) = &body.begun {
                    let name = begun.named.then(|| begun.identity.name.clone());
                    fold.found_by = Some((begun.machine, name));
                    fold.given = Some((begun.identity.labels.clone(), begun.identity.root_key.clone()));
                    let machine = self.machine(begun.revision)?;
                    fold.execution = machine.map(|machine| Execution::new(machine, begun.identity.clone()));
                } else if fold.turns == 1 {
                    return Err("its first Turn does not say who it is".to_owned());
                }
                fold.take(&body)?;
                if row.and_then(|row| row.content.as_ref()).is_some_and(|content| content.turns == fold.turns)
                {
                    fold.covered_events = Some(fold.events);
                }
            }
        }
        if fold.turns == 0 { Err("its Turns are missing".to_owned()) } else { Ok(()) }
    }

    /// The machine of a revision, read once.
    fn machine(&mut self, revision: RevisionId) -> Result<Option<Arc<Machine>>, String> {
        if let Some(known) = self.machines.get(&revision) {
            return Ok(known.clone());
        }
        let record = self.reader.revision(revision).map_err(|failure| failure.why)?;
        let machine = record.and_then(|record| {
            let options = asl::read::ReadOptions { machine_type: record.kind, strict: false };
            asl::read::read(&Source::new(record.name.to_string(), record.definition), &options).machine
        });
        let machine = machine.map(Arc::new);
        if machine.is_none() {
            self.found("revision", None, format!("revision {} is not there, or cannot be read", revision.0));
        }
        self.machines.insert(revision, machine.clone());
        Ok(machine)
    }

    /// Compares the ledger of resting executions with their Turns; that of running ones may be a little behind.
    fn ledger(&mut self, rows: &[LedgerRow]) {
        for row in rows {
            let known = self.marked.get(&row.execution);
            let mark = known.and_then(|(_, marks)| {
                marks.iter().find(|(key, _)| key.readable() == &*row.key).map(|(_, (status, _))| *status)
            });
            let restored = self.restored_at.is_some_and(|at| row.started_at <= at)
                && row.status == LedgerStatus::Uncertain;
            let what = match (known, mark) {
                (_, None) => format!("no Turn tells of the key {}", row.key),
                (Some((true, _)), Some(mark)) if mark != row.status && !restored => {
                    format!("the key {} is {:?} here and {mark:?} in its Turns", row.key, row.status)
                }
                _ => continue,
            };
            self.found("ledger", Some(row.execution), what);
        }
    }
}

/// The state of the fold of an execution.
#[derive(Default)]
struct Fold {
    turns: u64,
    events: u64,
    covered_events: Option<u64>,
    execution: Option<Execution>,
    /// Its machine, and its given name.
    found_by: Option<(MachineId, Option<Arc<str>>)>,
    /// Its labels and its root key.
    given: Option<(Labels, Option<Arc<str>>)>,
    marks: Marks,
}

impl Fold {
    fn take(&mut self, body: &TurnBody) -> Result<(), String> {
        for event in body.turn.events() {
            self.events += 1;
            if event.id != Seq(self.events) {
                return Err(format!(
                    "its Turn {} has event {} where {} belongs",
                    self.turns, event.id, self.events
                ));
            }
        }
        mark_turn(&mut self.marks, body);
        if let Some(execution) = &mut self.execution {
            // Corrupt records may break the assumptions of the fold.
            catch_unwind(AssertUnwindSafe(|| execution.apply(&body.turn)))
                .map_err(|_| format!("its Turn {} does not follow from those before", self.turns))?;
        }
        Ok(())
    }

    /// The differences between the row and the Turns.
    fn disagreements(&self, row: &Row) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Some((machine, name)) = &self.found_by {
            if *name != row.name {
                let said = |name: &Option<Arc<str>>| name.as_deref().unwrap_or("no name").to_owned();
                wrong.push(format!("it is found by {}, its Turns say {}", said(&row.name), said(name)));
            }
            if *machine != row.machine {
                wrong.push(format!(
                    "it is found under machine {}, its Turns say {}",
                    row.machine.0, machine.0
                ));
            }
        }
        let is_other = |(labels, key): &(Labels, _)| (labels, key) != (&row.labels, &row.root_key);
        if self.given.as_ref().is_some_and(is_other) {
            wrong.push("its labels or its root key are not those of its first Turn".to_owned());
        }
        let Some(content) = &row.content else { return wrong };
        if content.turns > self.turns {
            wrong.push(format!("it covers {} Turns, and there are {}", content.turns, self.turns));
        }
        if let Some(events) = self.covered_events.filter(|events| *events != content.events) {
            wrong.push(format!("it says {} events, its Turns say {events}", content.events));
        }
        let Some(execution) = self.execution.as_ref().filter(|_| content.turns == self.turns) else {
            return wrong;
        };
        if execution.status().name() != row.status.name() {
            let (says, is) = (row.status.name(), execution.status().name());
            wrong.push(format!("it says {says}, its Turns say {is}"));
        }
        if execution.ended_at() != row.ended_at || execution.started_at() != row.started_at {
            wrong.push("its times are not those of its Turns".to_owned());
        }
        wrong
    }
}

/// Executions with set-aside parts.
fn aside(connection: &Connection) -> Result<Vec<ExecutionId>, Trouble> {
    let mut statement = connection
        .prepare("SELECT DISTINCT execution FROM aside WHERE execution IS NOT NULL AND turns IS NOT NULL")?;
    Ok(statement.query_map([], |row| row.get(0).map(execution_of))?.collect::<Result<_, _>>()?)
}

fn texts(connection: &Connection, sql: &str) -> Result<Vec<String>, Trouble> {
    let mut statement = connection.prepare(sql)?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn count(connection: &Connection) -> Result<u64, Trouble> {
    let count: i64 = connection.query_row("SELECT count(*) FROM execution", [], |row| row.get(0))?;
    Ok(count as u64)
}

fn journal_ids(connection: &Connection) -> Result<Vec<i64>, Trouble> {
    let mut statement = connection.prepare("SELECT id FROM journal ORDER BY id")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn journal_row(connection: &Connection, id: i64) -> Result<Vec<u8>, Trouble> {
    let mut statement = connection.prepare_cached("SELECT turns FROM journal WHERE id = ?1")?;
    Ok(statement.query_row([id], |row| row.get(0))?)
}

fn slice(connection: &Connection, after: i64) -> Result<Vec<(i64, ExecutionId)>, Trouble> {
    let mut statement =
        connection.prepare_cached("SELECT row, id FROM execution WHERE row > ?1 ORDER BY row LIMIT ?2")?;
    let rows = statement
        .query_map([after, SLICE_ROWS as i64], |row| Ok((row.get(0)?, execution_of(row.get(1)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn ledger_rows(connection: &Connection) -> Result<Vec<LedgerRow>, Trouble> {
    let mut statement = connection.prepare(&format!("SELECT {LEDGER} FROM ledger"))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(ledger_row(row)?);
    }
    Ok(found)
}
