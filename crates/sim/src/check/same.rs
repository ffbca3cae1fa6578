//! A deterministic machine ends with faults as without.

use super::Evidence;
use crate::history::History;
use crate::plan::Fault;
use perdura_engine::{Note, Record, StrandId};
use std::collections::BTreeMap;

/// The part that must be equal: the end, the output, and the events on each line of control, in order.
#[derive(Debug, PartialEq)]
struct Shape {
    status: &'static str,
    output: Option<String>,
    /// By the place of the line of control. Events of iterations depend on their speed: these are sorted.
    events: BTreeMap<String, (Vec<String>, Vec<String>)>,
}

/// Compares executions by name.
pub fn same_as_without_faults(evidence: &Evidence<'_>, calm: &Evidence<'_>) -> Vec<String> {
    let with = shapes(evidence);
    let without = shapes(calm);
    let faults = &evidence.sim.plan.faults;
    let are_paused = faults.iter().any(|(_, fault)| matches!(fault, Fault::Hold(..)));
    let mut complaints = Vec::new();
    for (name, shape) in &without {
        match with.get(name) {
            // Time goes on while a machine is paused: an execution gets less far until it times out.
            Some(other) if are_paused && [other, shape].iter().all(|it| it.status == "TIMED_OUT") => {}
            None => complaints.push(format!("{name} is there without faults, and not with them")),
            Some(other) if other != shape => {
                complaints.push(format!("{name} came out otherwise: {}", difference(other, shape)));
            }
            Some(_) => {}
        }
    }
    for name in with.keys().filter(|name| !without.contains_key(*name)) {
        complaints.push(format!("{name} is there with faults, and not without them"));
    }
    complaints
}

/// Children of a Map Run have ids that differ from run to run, so they are left out; their parent's output covers them.
fn shapes(evidence: &Evidence<'_>) -> BTreeMap<String, Shape> {
    let is_child = |it: &&History| it.row.as_ref().is_some_and(|row| row.child.is_some());
    evidence.histories.iter().filter(|it| !is_child(it)).map(|it| (key(it), shape(it))).collect()
}

fn key(history: &History) -> String {
    let machine = history.execution.as_ref().map(|it| it.identity().machine_name.to_string());
    format!("{} {}", machine.unwrap_or_default(), history.name())
}

fn shape(history: &History) -> Shape {
    let mut places: BTreeMap<StrandId, String> = BTreeMap::from([(StrandId::TOP, String::new())]);
    let mut events: BTreeMap<String, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for record in history.turns.iter().flat_map(|turn| &turn.records) {
        match record {
            Record::Note(Note::StrandStarted { strand, parent, index, .. }) => {
                let place = format!("{}[{index}]", places.get(parent).map_or("", String::as_str));
                places.insert(*strand, place);
            }
            Record::Event(event) => {
                let place = places.get(&event.strand).cloned().unwrap_or_default();
                let (in_order, in_any_order) = events.entry(place).or_default();
                let name = event.type_name();
                // Whether an answer by token comes before or after the news that the message was sent depends on
                // timing.
                if name == "TaskSubmitted" {
                    continue;
                }
                if name.starts_with("MapIteration") { in_any_order.push(name) } else { in_order.push(name) }
            }
            Record::Note(_) => {}
        }
    }
    for (_, in_any_order) in events.values_mut() {
        in_any_order.sort();
    }
    let execution = history.execution.as_ref();
    Shape {
        status: execution.map_or("", |it| it.status().name()),
        output: execution.and_then(|it| it.output()).map(|output| output.text().to_string()),
        events,
    }
}

/// The first difference between two shapes.
fn difference(with: &Shape, without: &Shape) -> String {
    if (with.status, &with.output) != (without.status, &without.output) {
        return format!(
            "{} {:?} rather than {} {:?}",
            with.status, with.output, without.status, without.output
        );
    }
    for (place, events) in &without.events {
        let Some(others) = with.events.get(place) else { return format!("{place:?} is missing") };
        if others.1 != events.1 {
            return format!("{place:?} has the iterations {:?} rather than {:?}", others.1, events.1);
        }
        let at = events.0.iter().zip(&others.0).position(|(one, other)| one != other);
        if let Some(at) = at {
            return format!("{place:?} has {} rather than {} at {at}", others.0[at], events.0[at]);
        }
        if others.0.len() != events.0.len() {
            return format!("{place:?} has {} events rather than {}", others.0.len(), events.0.len());
        }
    }
    "it has more lines of control".to_owned()
}
