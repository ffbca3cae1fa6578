//! Lists of executions.
//!
//! Every list is put together from stretches of an index, one for each machine and status, and merged: so one index
//! serves many filters, commits have fewer of them to write, and a page costs the same however much is stored.

use crate::sqlite::fault::Trouble;
use crate::sqlite::map_runs;
use crate::sqlite::rows::{self, id_of, summary};
use crate::store::{After, Filter, Summary};
use crate::words;
use perdura_engine::Status;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use std::cmp::Reverse;

/// Executions, the newest first.
pub(super) fn list(
    connection: &Connection,
    filter: &Filter,
    after: After,
    most: u32,
) -> Result<Vec<Summary>, Trouble> {
    if let Some(run) = filter.map_run {
        return map_runs::list(connection, run, filter, most);
    }
    let machines: Vec<i64> = match filter.machine {
        Some(machine) => vec![machine.0 as i64],
        None => distinct_machines(connection)?,
    };
    let mut statement = connection.prepare_cached(&stretch_of(filter))?;
    // Nothing comes after an id that is longer than all ids.
    let (started_at, id) = after.map_or((i64::MAX, vec![0xff; 17]), |(at, id)| (at.0, id_of(id).to_vec()));
    let mut found = Vec::new();
    for machine in machines {
        for status in statuses(filter) {
            let mut values: Vec<Value> = vec![
                machine.into(),
                status.name().to_owned().into(),
                started_at.into(),
                id.clone().into(),
                most.into(),
            ];
            values.extend(filter.version.map(Value::from));
            values.extend(filter.alias.as_deref().map(|alias| Value::from(alias.to_owned())));
            let mut rows = statement.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                found.push(summary(row)?);
            }
        }
    }
    found.sort_unstable_by_key(|summary| Reverse((summary.started_at, summary.execution)));
    found.truncate(most as usize);
    Ok(found)
}

/// Those that a filter asks for.
pub(in crate::sqlite) fn statuses(filter: &Filter) -> impl Iterator<Item = Status> {
    let wanted = filter.status.map(Status::name);
    words::STATUSES.into_iter().filter(move |status| wanted.is_none_or(|wanted| wanted == status.name()))
}

/// The part of a list with one machine and status. Which index serves it is said, not left to be guessed.
fn stretch_of(filter: &Filter) -> String {
    let mut more = String::new();
    let mut index = "execution_list";
    match filter.redriven {
        None => {}
        Some(true) => {
            index = "execution_redriven";
            more.push_str(" AND redrives > 0");
        }
        Some(false) => more.push_str(" AND redrives = 0"),
    }
    if filter.version.is_some() {
        index = "execution_version";
        more.push_str(" AND version = ?6");
    }
    if filter.alias.is_some() {
        index = "execution_alias";
        more.push_str(if filter.version.is_some() { " AND alias = ?7" } else { " AND alias = ?6" });
    }
    format!(
        "SELECT {} FROM execution INDEXED BY {index}
         WHERE machine = ?1 AND status = ?2 AND (started_at, id) < (?3, ?4) AND map_run IS NULL{more}
         ORDER BY started_at DESC, id DESC LIMIT ?5",
        rows::SUMMARY
    )
}

/// Hops through the index from one machine to the next.
fn distinct_machines(connection: &Connection) -> Result<Vec<i64>, Trouble> {
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
        let cases = [
            (stretch_of(&one), "execution_list (machine=? AND status=?"),
            (
                stretch_of(&Filter { redriven: Some(false), ..one.clone() }),
                "execution_list (machine=? AND status=?",
            ),
            (
                stretch_of(&Filter { redriven: Some(true), ..one.clone() }),
                "execution_redriven (machine=? AND status=?",
            ),
            (
                stretch_of(&Filter { version: Some(1), ..one.clone() }),
                "execution_version (machine=? AND version=? AND status=?",
            ),
            (
                stretch_of(&Filter { alias: alias.clone(), redriven: Some(true), ..one.clone() }),
                "execution_alias (machine=? AND alias=? AND status=?",
            ),
            (
                stretch_of(&Filter { version: Some(1), alias, ..one }),
                "execution_alias (machine=? AND alias=? AND status=?",
            ),
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
