//! Lists of executions.
//!
//! Every list is merged from stretches of an index: one for each machine and status, or the stretch of a label or an
//! error. So one index serves many filters, commits write fewer indexes, and a page costs the same however much is
//! stored. Other conditions are checked row by row, and a page ends after a fixed number of those checks.

use crate::sqlite::fault::Trouble;
use crate::sqlite::map_runs;
use crate::sqlite::rows::{self, id_of, summary};
use crate::store::{After, Filter, Listing, Order, Summary};
use crate::words;
use perdura_engine::{ExecutionId, Status, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use std::collections::{BinaryHeap, VecDeque};

/// How many rows one page looks at, or as many as it may show, even if its filter matches few of them. Each may be a
/// seek in the file.
const LOOKS: usize = 128;
/// Up to so many rows of an index are sorted here. If there are more, any order finds matches soon.
const FEW: usize = 500;
/// The least number of rows to read at once from a stretch.
const BATCH_MIN: usize = 8;
const BATCH_MAX: usize = 256;

/// A page of executions.
pub(super) fn list(
    connection: &Connection,
    filter: &Filter,
    after: After,
    most: u32,
) -> Result<Listing, Trouble> {
    if let Some(run) = filter.map_run {
        let rows = map_runs::list(connection, run, filter, most)?;
        return Ok(Listing { rows, next: None });
    }
    let path = Path::of(connection, filter)?;
    let few = match (&filter.name_prefix, filter.order) {
        (Some(prefix), Order::Start | Order::End) => {
            Path::named(connection, filter, prefix)?.few(connection)?
        }
        (None, Order::End) => path.few(connection)?,
        (None, Order::Start) => None,
    };
    match (few, filter.order) {
        (Some(mut rows), _) => {
            rows.retain(|row| filter.shows(row) && after.is_none_or(|after| filter.place(row) < Some(after)));
            Ok(filter.page(rows, most, None))
        }
        (None, Order::Start) => path.walk(connection, filter, after, most),
        (None, Order::End) => Path::ended().walk(connection, filter, after, most),
    }
}

/// A way to the rows of a list: one query for each stretch of an index.
struct Path {
    /// The table, the index, and the common conditions of a stretch. The index is named explicitly, so that SQLite does
    /// not choose another.
    from: String,
    /// The columns that the index is sorted by.
    order: [&'static str; 2],
    /// The parameters of `from`, for each stretch.
    stretches: Vec<Vec<Value>>,
}

const BY_START: [&str; 2] = ["started_at", "id"];

impl Path {
    /// The way by the machine, label or other value of a filter, in the order of the start.
    fn of(connection: &Connection, filter: &Filter) -> Result<Self, Trouble> {
        if let Some((key, value)) = &filter.label {
            let from = "label CROSS JOIN execution INDEXED BY execution_id ON id = label.execution
                WHERE key = ? AND value = ?";
            let stretches = vec![vec![text(key), text(value)]];
            return Ok(Self { from: from.into(), order: ["began_at", "label.execution"], stretches });
        }
        for (column, wanted) in [("root_key", &filter.root_key), ("error", &filter.error)] {
            if let Some(wanted) = wanted {
                let index = if column == "error" { "execution_error" } else { "execution_root" };
                let from = format!("execution INDEXED BY {index} WHERE {column} = ? AND map_run IS NULL");
                return Ok(Self { from, order: BY_START, stretches: vec![vec![text(wanted)]] });
            }
        }
        let (from, also) = by_machine(filter);
        let mut stretches = Vec::new();
        for machine in machines(connection, filter)? {
            for status in statuses(filter) {
                let own = [machine.into(), text(status.name())];
                stretches.push(own.into_iter().chain(also.iter().cloned()).collect());
            }
        }
        Ok(Self { from, order: BY_START, stretches })
    }

    /// The way by the prefix of a given name.
    fn named(connection: &Connection, filter: &Filter, prefix: &str) -> Result<Self, Trouble> {
        let from = "execution INDEXED BY execution_name
            WHERE machine = ? AND name >= ? AND name < ? AND name IS NOT NULL";
        // No name contains the last of all characters.
        let behind = format!("{prefix}{}", char::MAX);
        let stretch = |machine: i64| vec![machine.into(), text(prefix), text(&behind)];
        let stretches = machines(connection, filter)?.into_iter().map(stretch).collect();
        Ok(Self { from: from.into(), order: BY_START, stretches })
    }

    /// The way over all ended executions.
    fn ended() -> Self {
        let from = "execution INDEXED BY execution_ended WHERE ended_at IS NOT NULL AND map_run IS NULL";
        Self { from: from.into(), order: ["ended_at", "id"], stretches: vec![Vec::new()] }
    }

    fn page_sql(&self) -> String {
        let (Self { from, order: [at, id], .. }, columns) = (self, rows::SUMMARY);
        format!(
            "SELECT {columns} FROM {from} AND ({at}, {id}) < (?, ?) AND {at} >= ? ORDER BY {at} DESC, {id} DESC LIMIT ?"
        )
    }

    fn all_sql(&self) -> String {
        format!("SELECT {} FROM {} LIMIT ?", rows::SUMMARY, self.from)
    }

    fn count_sql(&self) -> String {
        format!("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT ?)", self.from)
    }

    /// All of them, in no order, if they are few.
    fn few(&self, connection: &Connection) -> Result<Option<Vec<Summary>>, Trouble> {
        let with = |stretch: &[Value], most: usize| {
            params_from_iter(stretch.iter().cloned().chain([Value::from(most as i64)]).collect::<Vec<_>>())
        };
        let mut count = connection.prepare_cached(&self.count_sql())?;
        let mut left = FEW + 1;
        for stretch in &self.stretches {
            let found: i64 = count.query_row(with(stretch, left), |row| row.get(0))?;
            left -= found as usize;
            if left == 0 {
                return Ok(None);
            }
        }
        let mut statement = connection.prepare_cached(&self.all_sql())?;
        let mut found = Vec::new();
        for stretch in &self.stretches {
            let mut rows = statement.query(with(stretch, FEW))?;
            while let Some(row) = rows.next()? {
                found.push(summary(row)?);
            }
        }
        Ok(Some(found))
    }

    /// A page, in the order of the index.
    fn walk(
        &self,
        connection: &Connection,
        filter: &Filter,
        after: After,
        most: u32,
    ) -> Result<Listing, Trouble> {
        let mut statement = connection.prepare_cached(&self.page_sql())?;
        let batch = (most as usize / self.stretches.len().max(1)).clamp(BATCH_MIN, BATCH_MAX);
        let looks_max = LOOKS.max(most as usize);
        let mut read = |stretch: &[Value], (at, id): (i64, Vec<u8>), looked: usize| {
            let batch = batch.min(looks_max - looked);
            let since = filter.since.map_or(i64::MIN, |since| since.0);
            let bounds = [at.into(), id.into(), since.into(), Value::from(batch as i64)];
            let mut rows = statement.query(params_from_iter(stretch.iter().cloned().chain(bounds)))?;
            let mut found = VecDeque::new();
            while let Some(row) = rows.next()? {
                found.push_back(summary(row)?);
            }
            Ok::<VecDeque<Summary>, Trouble>(found)
        };
        let begin = begin(filter, after);
        let mut stretches: Vec<VecDeque<Summary>> = Vec::with_capacity(self.stretches.len());
        // The next row of each stretch, with the number of the stretch.
        let mut heads: BinaryHeap<((Timestamp, ExecutionId), usize)> = BinaryHeap::new();
        for (index, stretch) in self.stretches.iter().enumerate() {
            let rows = read(stretch, begin.clone(), 0)?;
            heads.extend(rows.front().and_then(|row| filter.place(row)).map(|place| (place, index)));
            stretches.push(rows);
        }
        let (mut found, mut looked, mut next) = (Vec::new(), 0, None);
        while found.len() < most as usize {
            let Some((place, index)) = heads.pop() else {
                next = None;
                break;
            };
            let rows = &mut stretches[index];
            found.extend(rows.pop_front().filter(|row| filter.shows(row)));
            (looked, next) = (looked + 1, Some(place));
            if looked >= looks_max || found.len() == most as usize {
                break;
            }
            if rows.is_empty() {
                *rows = read(&self.stretches[index], (place.0.0, id_of(place.1).to_vec()), looked)?;
            }
            heads.extend(rows.front().and_then(|row| filter.place(row)).map(|place| (place, index)));
        }
        Ok(filter.page(found, most, next))
    }
}

/// The position before which a page begins.
fn begin(filter: &Filter, after: After) -> (i64, Vec<u8>) {
    // No id comes after one that is longer than all ids, and none before an empty one.
    let after = after.map_or((i64::MAX, vec![0xff; 17]), |(at, id)| (at.0, id_of(id).to_vec()));
    filter.until.map_or(after.clone(), |until| after.min((until.0, Vec::new())))
}

fn text(text: &str) -> Value {
    text.to_owned().into()
}

/// The statuses that a filter asks for.
pub(in crate::sqlite) fn statuses(filter: &Filter) -> impl Iterator<Item = Status> {
    let wanted = filter.status.map(Status::name);
    words::STATUSES.into_iter().filter(move |status| wanted.is_none_or(|wanted| wanted == status.name()))
}

/// The conditions of a stretch with one machine and status.
fn by_machine(filter: &Filter) -> (String, Vec<Value>) {
    let (mut more, mut values) = (String::new(), Vec::new());
    let mut index = "execution_list";
    match filter.redriven {
        None => {}
        Some(true) => {
            index = "execution_redriven";
            more.push_str(" AND redrives > 0");
        }
        Some(false) => more.push_str(" AND redrives = 0"),
    }
    if let Some(version) = filter.version {
        index = "execution_version";
        more.push_str(" AND version = ?");
        values.push(version.into());
    }
    if let Some(alias) = &filter.alias {
        index = "execution_alias";
        more.push_str(" AND alias = ?");
        values.push(text(alias));
    }
    let from =
        format!("execution INDEXED BY {index} WHERE machine = ? AND status = ? AND map_run IS NULL{more}");
    (from, values)
}

/// The machine that a filter names, or all machines with executions, found by hops through the index.
fn machines(connection: &Connection, filter: &Filter) -> Result<Vec<i64>, Trouble> {
    if let Some(machine) = filter.machine {
        return Ok(vec![machine.0 as i64]);
    }
    let mut statement = connection.prepare_cached(
        "SELECT machine FROM execution INDEXED BY execution_list
         WHERE machine > ?1 AND map_run IS NULL ORDER BY machine LIMIT 1",
    )?;
    let mut machines = Vec::new();
    let mut last = i64::MIN;
    while let Some(next) = statement.query_row([last], |row| row.get::<_, i64>(0)).optional()? {
        machines.push(next);
        last = next;
    }
    Ok(machines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::MachineId;
    use crate::sqlite::{machines, schema};

    fn plan(connection: &Connection, sql: &str) -> Vec<String> {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>();
        steps.unwrap()
    }

    #[test]
    fn every_list_is_a_stretch_of_an_index_in_its_order() {
        let connection = Connection::open_in_memory().unwrap();
        for migration in schema::MIGRATIONS {
            connection.execute_batch(migration).unwrap();
        }
        let one = Filter { machine: Some(MachineId(1)), ..Filter::default() };
        let alias = Some("PROD".into());
        let page = |filter: Filter| Path::of(&connection, &filter).unwrap().page_sql();
        let prefix = Path::named(&connection, &one, "A-").unwrap();
        let label = Some(("order".into(), "A-1".into()));
        let cases = [
            (page(one.clone()), "execution_list (machine=? AND status=? AND started_at>?"),
            (page(Filter { redriven: Some(false), ..one.clone() }), "execution_list (machine=? AND status=?"),
            (
                page(Filter { redriven: Some(true), ..one.clone() }),
                "execution_redriven (machine=? AND status=?",
            ),
            (
                page(Filter { version: Some(1), ..one.clone() }),
                "execution_version (machine=? AND version=? AND status=?",
            ),
            (
                page(Filter { alias: alias.clone(), redriven: Some(true), ..one.clone() }),
                "execution_alias (machine=? AND alias=? AND status=?",
            ),
            (
                page(Filter { version: Some(1), alias, ..one.clone() }),
                "execution_alias (machine=? AND alias=? AND status=?",
            ),
            (
                page(Filter { label, ..one.clone() }),
                "label USING PRIMARY KEY (key=? AND value=? AND began_at>?",
            ),
            (
                page(Filter { error: Some("E".into()), ..one.clone() }),
                "execution_error (error=? AND started_at>?",
            ),
            (
                page(Filter { root_key: Some("K".into()), ..one }),
                "execution_root (root_key=? AND started_at>?",
            ),
            (prefix.all_sql(), "execution_name (machine=? AND name>? AND name<?)"),
            (Path::ended().page_sql(), "execution_ended (ended_at>?"),
            (
                map_runs::first_sql(),
                "COVERING INDEX execution_child (map_run=? AND status=? AND <expr>=? AND child>?)",
            ),
            (map_runs::running_sql(), "map_run_running (id>?)"),
            (map_runs::list_sql(), "execution_child (map_run=? AND status=? AND <expr>=? AND child<?)"),
            (format!("{} m.name > ?1 ORDER BY m.name LIMIT ?2", machines::HEADS), "machine_there (name>?)"),
        ];
        for (sql, index) in cases {
            let steps = plan(&connection, &sql);
            assert!(steps[0].contains(index), "{sql}\n{steps:?}");
            let sorted = |step: &String| step.contains("TEMP B-TREE") || step.starts_with("SCAN");
            assert!(!steps.iter().any(sorted), "{sql}\n{steps:?}");
        }
    }
}
