//! Lists of executions.

use super::executions::machine;
use crate::Refusal;
use crate::control::{Answer, Cursor, ListQuestion, Listed, Page};
use crate::data::Data;
use perdura_store::{Filter, Listing, MachineId, error_in_rows};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most rows of a page.
const PAGE_MAX: u32 = 1_000;

pub(super) fn list<D: Data>(data: &mut D, question: &ListQuestion) -> Result<Answer, Refusal> {
    let ListQuestion { name_prefix, error, since, until, sort, after, most, .. } = question;
    let of = question.machine.as_deref().map(|name| machine(data, name)).transpose()?;
    let filter = Filter {
        machine: of.map(|head| head.machine),
        status: question.status,
        label: question.label.as_deref().map(label).transpose()?,
        name_prefix: name_prefix.as_deref().map(Arc::from),
        error: error.as_deref().map(|error| error_in_rows(error).into()),
        since: *since,
        until: *until,
        order: *sort,
        ..Filter::default()
    };
    let after = after.map(|place| (place.at, place.execution));
    let Listing { rows, next } = data.list(&filter, after, (*most).clamp(1, PAGE_MAX))?;
    let names = data.read(|reader| {
        let mut names: BTreeMap<MachineId, Arc<str>> = BTreeMap::new();
        for row in &rows {
            if !names.contains_key(&row.machine) {
                names.extend(reader.machine_name(row.machine)?.map(|name| (row.machine, name)));
            }
        }
        Ok(names)
    })?;
    let items: Vec<Listed> = rows
        .into_iter()
        .map(|row| Listed {
            execution: row.execution.to_string().into(),
            name: row.name.unwrap_or_else(|| row.execution.to_string().into()),
            machine: names.get(&row.machine).cloned().unwrap_or_else(|| "?".into()),
            status: row.status,
            started_at: row.started_at,
            ended_at: row.ended_at,
            redrives: row.redrives,
            labels: row.labels,
            error: row.error,
            erased_at: row.erased_at,
        })
        .collect();
    let next = next.map(|(at, execution)| Cursor { at, execution });
    Ok(Answer::Executions(Page { items, next }))
}

/// A label that is asked for: no key has a colon, so the first one separates.
fn label(text: &str) -> Result<(Arc<str>, Arc<str>), Refusal> {
    let pair = text.split_once(':').map(|(key, value)| (key.into(), value.into()));
    pair.ok_or_else(|| {
        Refusal::invalid(format!("{text:?} is no label"))
            .but("write key and value with a colon: order:A-1042")
    })
}
