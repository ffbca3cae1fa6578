//! Machines that are paused, and what is still under way.

use crate::Refusal;
use crate::control::{Answer, Call, Paused, Pauses};
use crate::data::Data;
use perdura_runtime::{ALL, Pause, Underway};
use perdura_store::{Head, MachineId, Registered, Registry};
use std::collections::BTreeMap;

/// How many calls are told of those that are under way.
const CALLS: usize = 20;

/// Pauses a machine, or all of them. To say the same again changes nothing.
pub(super) fn pause<D: Data>(data: &mut D, machine: Option<&str>, now: bool) -> Result<Answer, Refusal> {
    let name = machine.unwrap_or(ALL);
    let head = machine.map(|name| known(data, name)).transpose()?;
    let pause = Pause { machine: head.map(|head| head.machine), now };
    let before = data.read(|reader| reader.registered_one(Registry::Pause, name))?;
    let is_so = |entry: &Registered| Pause::read(entry).is_ok_and(|before| before == pause);
    if !before.as_ref().is_some_and(is_so) {
        let entry = pause.entry(name, data.moment().now);
        data.register(&entry)?;
        tracing::info!(machine = name, now, "paused");
    }
    Ok(Answer::Done)
}

/// Lets a machine go on, or what was paused as a whole.
pub(super) fn resume<D: Data>(data: &mut D, machine: Option<String>) -> Result<Answer, Refusal> {
    let name = machine.as_deref().unwrap_or(ALL);
    if data.unregister(Registry::Pause, name)? {
        tracing::info!(machine = name, "resumed");
        return Ok(Answer::Done);
    }
    let others = paused(data, &BTreeMap::new())?;
    Err(match machine {
        Some(name) if others.iter().any(|one| one.machine.is_none()) => {
            Refusal::not_found(format!("the machine {name:?} is not paused by itself: all machines are"))
                .but("`perdura resume --all` lets them go on")
        }
        Some(name) => Refusal::not_found(format!("the machine {name:?} is not paused")),
        None => {
            let names: Vec<&str> = others.iter().filter_map(|one| one.machine.as_deref()).collect();
            let refusal = Refusal::not_found("all machines together are not paused");
            let hint = format!("paused by themselves: {}", names.join(", "));
            if names.is_empty() { refusal } else { refusal.but(hint) }
        }
    })
}

/// What is paused, how many executions wait for that, and what is under way.
pub(super) fn list<D: Data>(data: &mut D) -> Result<Answer, Refusal> {
    let counts = data.read(|reader| reader.held_counts())?;
    let items = paused(data, &counts)?;
    let underway = data.underway(CALLS)?;
    let drained = underway.is_nothing() && items.iter().any(|one| one.machine.is_none() && one.now);
    let Underway { calls, shown, moving } = underway;
    let waits_for = shown.into_iter().map(|(execution, key)| Call {
        execution,
        step: key.step().to_owned(),
        key: key.readable().to_owned(),
    });
    let held = counts.values().sum();
    let (calls, moving) = (calls as u64, moving as u64);
    Ok(Answer::Pauses(Box::new(Pauses {
        items,
        held,
        calls,
        moving,
        waits_for: waits_for.collect(),
        drained,
    })))
}

/// What is paused, all machines together first.
pub(super) fn paused<D: Data>(
    data: &mut D,
    counts: &BTreeMap<MachineId, u64>,
) -> Result<Vec<Paused>, Refusal> {
    let entries = data.read(|reader| reader.registered(Registry::Pause, None, u32::MAX))?;
    let told = |entry: Registered| {
        let pause = Pause::read(&entry).unwrap_or(Pause { machine: None, now: true });
        let held = pause.machine.map(|machine| counts.get(&machine).copied().unwrap_or(0));
        Paused {
            machine: (&*entry.name != ALL).then_some(entry.name),
            now: pause.now,
            since: entry.created_at,
            held,
        }
    };
    Ok(entries.into_iter().map(told).collect())
}

fn known<D: Data>(data: &mut D, name: &str) -> Result<Head, Refusal> {
    let missing =
        || Refusal::not_found(format!("there is no machine {name:?}")).but("GET /v1/machines lists them");
    data.read(|reader| reader.head(name))?.ok_or_else(missing)
}
