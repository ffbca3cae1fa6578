//! Names that are reserved before their execution begins.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, at, ended, only, row};
use crate::group::{Group, MachineId, RevisionId, Row};
use crate::record::{Begun, JournalWriter, write_turn};
use crate::store::{Reader, Retention};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::Machine;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{Execution, ExecutionId, Identity, Input, Limits, Moment, decide};
use std::sync::Arc;

const MACHINE: MachineId = MachineId(1);

/// Reserves a name; returns the execution that has it then.
#[track_caller]
fn reserve(reader: &mut dyn Reader, name: &str, who: u128) -> ExecutionId {
    let name: Arc<str> = name.into();
    let whose = reader.reserve(MACHINE, &name, only(who)).unwrap();
    assert_eq!(reader.reserved(MACHINE, &name).unwrap(), Some(whose));
    whose
}

fn named(name: &str, row: Row) -> Row {
    Row { name: Some(name.into()), ..row }
}

/// The first Turn of an execution, as in the journal.
fn first_turn(name: &str, id: ExecutionId) -> Vec<u8> {
    let definition = r#"{"StartAt": "A", "States": {"A": {"Type": "Wait", "Seconds": 9, "End": true}}}"#;
    let machine = read(&Source::new("test.json", definition), &ReadOptions::default()).machine.unwrap();
    let identity = Identity {
        id,
        arn: "arn".into(),
        name: name.into(),
        machine_arn: "arn".into(),
        machine_name: "m".into(),
        role_arn: "arn".into(),
        version_arn: None,
        alias_arn: None,
        trace_header: None,
        labels: perdura_engine::Labels::default(),
        root_key: None,
        kind: machine.machine_type,
        flow: Machine::TOP,
        input: Payload::from_text("{}").unwrap(),
        limits: Limits::GENEROUS,
    };
    let begun = Begun {
        machine: MACHINE,
        revision: RevisionId(1),
        named: true,
        parent: None,
        awaited: false,
        nesting: None,
        identity: identity.clone(),
        child: None,
    };
    let execution = Execution::new(Arc::new(machine), identity);
    let decision = decide(&execution, &Input::Start, &Moment::at(at(1), 1));
    let mut body = Vec::new();
    write_turn(&mut body, Some(&begun), &decision.turn);
    body
}

pub fn a_name_is_reserved_for_whoever_came_first(make: Make<'_>) {
    let mut home = make(1);
    let node = Node::on(&mut *home);
    let mut reader = node.reader();
    assert_eq!(reader.reserved(MACHINE, &"n".into()).unwrap(), None);
    assert_eq!(reserve(&mut *reader, "n", 1), only(1));
    assert_eq!(reserve(&mut *reader, "n", 2), only(1));
    assert_eq!(reserve(&mut *reader, "N", 2), only(2));
}

pub fn a_reservation_counts_for_everybody_at_once(make: Make<'_>) {
    let mut home = make(2);
    let (one, two) = (Node::named(&mut *home, "a", 1), Node::named(&mut *home, "b", 1));
    let (mut here, mut there) = (one.reader(), two.reader());
    assert_eq!(reserve(&mut *here, "n", 1), only(1));
    assert_eq!(reserve(&mut *there, "n", 2), only(1));
    assert_eq!(reserve(&mut *there, "m", 3), only(3));
    assert_eq!(reserve(&mut *here, "m", 4), only(3));
}

pub fn each_machine_has_names_of_its_own(make: Make<'_>) {
    let mut home = make(1);
    let node = Node::on(&mut *home);
    let mut reader = node.reader();
    assert_eq!(reserve(&mut *reader, "n", 1), only(1));
    assert_eq!(reader.reserve(MachineId(2), &"n".into(), only(2)).unwrap(), only(2));
}

pub fn a_name_that_has_a_row_is_not_reserved_again(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let mut reader = node.reader();
    assert_eq!(reserve(&mut *reader, "n", 1), only(1));
    node.rows(vec![named("n", row(only(1))), named("m", row(only(2)))]);
    assert_eq!(reserve(&mut *reader, "n", 3), only(1));
    assert_eq!(reserve(&mut *reader, "m", 3), only(2));
    drop((node, reader));
    home.restart();
    let node = Node::on(&mut *home);
    assert_eq!(reserve(&mut *node.reader(), "n", 4), only(1));
}

pub fn one_that_has_not_begun_is_not_found_by_its_name(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let mut reader = node.reader();
    reserve(&mut *reader, "n", 1);
    assert_eq!(reader.named(MACHINE, "n").unwrap(), None);
    node.rows(vec![named("n", row(only(1)))]);
    assert_eq!(reader.named(MACHINE, "n").unwrap(), Some(only(1)));
}

/// Some stores forget the reservation with the process, others do not.
pub fn a_reservation_that_never_began_is_no_obstacle(make: Make<'_>) {
    let mut home = make(1);
    reserve(&mut *Node::on(&mut *home).reader(), "n", 1);
    home.restart();
    let mut node = Node::on(&mut *home);
    let mut reader = node.reader();
    let whose = reserve(&mut *reader, "n", 2);
    assert!([only(1), only(2)].contains(&whose));
    node.rows(vec![named("n", row(whose))]);
    assert_eq!(reserve(&mut *reader, "n", 3), whose);
}

pub fn the_name_of_one_that_only_the_journal_has_outlives_a_restart(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    reserve(&mut *node.reader(), "n", 1);
    let group = node.turns(&[]);
    let mut journal = JournalWriter::new(&node.totals);
    journal.push(only(1), 1, &first_turn("n", only(1)));
    node.commit(&Group { journal: journal.seal(), ..group });
    drop(node);
    home.restart();
    let store = home.handle();
    assert_eq!(reserve(&mut *store.reader().unwrap(), "n", 2), only(1));
}

pub fn a_swept_name_can_be_reserved_anew(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let mut reader = node.reader();
    reserve(&mut *reader, "n", 1);
    let group = node.turns(&[(only(1), 1)]);
    node.commit(&Group { rows: vec![named("n", ended(only(1), 1, 10))], ..group });
    node.move_on();
    let old = Retention { ended_before: at(100), ledger_before: at(0), bytes_max: None };
    assert_eq!(node.sweep(&old, 10).executions, 1);
    assert_eq!(reader.reserved(MACHINE, &"n".into()).unwrap(), None);
    assert_eq!(reserve(&mut *reader, "n", 2), only(2));
}

pub fn a_name_goes_with_what_was_given_up(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let mut reader = node.reader();
    reserve(&mut *reader, "n", 1);
    let group = node.turns(&[(only(1), 1)]);
    node.commit(&group);
    node.store.give_up(&node.lease, only(1), None).unwrap();
    assert_eq!(reserve(&mut *reader, "n", 2), only(2));
}
