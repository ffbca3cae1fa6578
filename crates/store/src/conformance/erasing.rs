//! Erasing ended executions.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, at, body, ended, only, row};
use crate::group::{Content, Group, LedgerChange, LedgerRow, Row, Segment};
use crate::record::{self, JournalWriter, TurnBody};
use crate::store::{Aside, CommitError, Erased, Filter, LedgerFilter, Reader, StoredTurn};
use perdura_engine::asl::json::Payload;
use perdura_engine::{
    EffectKey, Event, EventKind, ExecutionId, Fault, Labels, LedgerStatus, Note, Record, Seq, Status,
    StrandId, Turn,
};
use std::sync::Arc;

/// A text in all data of the erased executions. Random, so that compression leaves it unchanged.
const DATA: &str = "q7Zk2VxP9mTfWc4Ls8Rb";

fn payload() -> Payload {
    Payload::from_text(format!(r#"{{"who": "{DATA}"}}"#)).unwrap()
}

fn event(id: u64, kind: EventKind) -> Record {
    Record::Event(Event {
        id: Seq(id),
        previous: Seq(0),
        at: at(1_000),
        steady: None,
        strand: StrandId::TOP,
        kind,
    })
}

/// The Turns of an execution that had this text as input, in between and in its error.
fn turns() -> [Vec<u8>; 3] {
    let fault = || Fault::new(DATA, DATA);
    let note = Record::Note(Note::StrandEnded { strand: StrandId(1), output: payload() });
    [
        vec![event(1, EventKind::ExecutionStarted { input: payload() })],
        vec![note],
        vec![event(2, EventKind::ExecutionFailed(fault()))],
    ]
    .map(|records| TurnBody { begun: None, turn: Turn { records } }.write())
}

fn history(turns: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for body in turns {
        record::push_turn(&mut bytes, body);
    }
    record::seal(&bytes)
}

/// An ended execution with a segment, a tail and labels.
fn failed(execution: ExecutionId) -> (Row, Segment) {
    let [first, tail @ ..] = turns();
    let content = Content { turns: 3, events: 2, state: None, tail_from: 2, tail: history(&tail) };
    let row = Row {
        status: Status::Failed,
        labels: Labels::new([("who", DATA)]).unwrap(),
        error: Some(DATA.into()),
        root_key: Some("k-1".into()),
        name: Some("order".into()),
        content: Some(content),
        ..ended(execution, 3, 50)
    };
    (row, Segment { execution, first: 1, turns: 1, bytes: history(&[first]) })
}

/// A journal with all of its Turns, and with a running execution beside it.
fn journal(node: &mut Node, execution: ExecutionId) -> Group {
    node.totals.turns += 4;
    let mut writer = JournalWriter::new(&node.totals);
    for (number, turn) in (1..).zip(turns()) {
        writer.push(execution, number, &turn);
    }
    writer.push(only(9), 1, &body(only(9), 1));
    let position = node.next;
    node.next = position.next();
    Group { position: Some(position), journal: writer.seal(), ..node.group() }
}

fn called(execution: ExecutionId) -> LedgerRow {
    let key = EffectKey::try_from(Arc::from(format!("{execution}:Pay#1:1"))).unwrap();
    let row = LedgerRow::of(&key, execution, LedgerStatus::Uncertain, at(7));
    LedgerRow { result: Some(DATA.into()), error: Some(DATA.into()), ..row }
}

fn commit(node: &mut Node, execution: ExecutionId) {
    let group = journal(node, execution);
    let (row, segment) = failed(execution);
    let ledger = vec![LedgerChange::Put(Box::new(called(execution)))];
    node.commit(&Group { rows: vec![row], segments: vec![segment], ledger, ..group });
}

/// All texts that a reader gives for it.
fn told(reader: &mut dyn Reader, execution: ExecutionId) -> String {
    let bodies = reader.turns(execution, 1, usize::MAX).unwrap().into_iter();
    let bodies: Vec<String> = bodies.map(|turn| String::from_utf8(turn.body).unwrap()).collect();
    let ledger = LedgerFilter { execution: Some(execution), ..LedgerFilter::default() };
    let left = reader.left(execution).unwrap().turns.into_iter();
    let left: Vec<String> = left.map(|turn| String::from_utf8_lossy(&turn.body).into_owned()).collect();
    format!(
        "{bodies:?} {left:?} {:?} {:?}",
        reader.ledger(&ledger, 9).unwrap(),
        reader.list(&Filter::default(), None, 9).unwrap().rows,
    )
}

fn found_by_label(reader: &mut dyn Reader) -> usize {
    let filter = Filter { label: Some(("who".into(), DATA.into())), ..Filter::default() };
    reader.list(&filter, None, 9).unwrap().rows.len()
}

pub fn what_is_erased_stands_nowhere(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    commit(&mut node, only(1));
    let [first, ..] = turns();
    let aside = Aside::of(only(1), &[(node.position(1), StoredTurn { number: 1, body: first })]);
    let lease = node.lease.clone();
    node.store.set_aside(&lease, &aside).unwrap();
    let mut reader = node.reader();
    assert!(told(&mut *reader, only(1)).contains(DATA));
    assert_eq!(found_by_label(&mut *reader), 1);
    let erased = node.store.erase(&lease, &[(only(1), at(50))], at(99), None).unwrap();
    assert_eq!(erased, Erased::Done { executions: 1, ledger: 1 });
    // A reader that knew the journal before sees the erasure too, and so does one after a restart.
    for reader in [&mut reader, &mut node.reader()] {
        let told = told(&mut **reader, only(1));
        assert!(!told.contains(DATA), "{told}");
        assert_eq!(found_by_label(&mut **reader), 0);
        let [summary] = &reader.list(&Filter::default(), None, 9).unwrap().rows[..] else { panic!() };
        assert_eq!((summary.erased_at, summary.status), (Some(at(99)), Status::Failed));
        assert_eq!(summary.error.as_deref(), Some("Perdura.Erased"));
        assert_eq!(summary.root_key.as_deref(), Some("k-1"), "keys stay");
        assert_eq!(summary.name.as_deref(), Some("order"), "and so do names");
        let turns = reader.turns(only(1), 1, usize::MAX).unwrap();
        let numbers: Vec<u64> = turns.iter().map(|turn| turn.number).collect();
        assert_eq!(
            numbers,
            [1, 2, 3, 4],
            "each Turn is in its place, and one says that the others are erased"
        );
        let last = TurnBody::read(&turns[3].body).unwrap().turn;
        assert_eq!(last.records, [Record::Note(Note::Erased { at: at(99) })]);
        assert_eq!(reader.turns(only(9), 1, usize::MAX).unwrap()[0].body, body(only(9), 1));
    }
    assert!(node.store.scrub().unwrap());
    let totals = node.totals;
    drop((node, reader));
    home.restart();
    let recovery = Node::on(&mut *home).recover();
    assert_eq!(super::ids(&recovery), [only(9)], "nothing of it is in the journal");
    assert_eq!((recovery.damaged, recovery.totals), (vec![], totals));
}

pub fn erasing_again_changes_nothing(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    commit(&mut node, only(1));
    let lease = node.lease.clone();
    let meant = [(only(1), at(50))];
    node.store.erase(&lease, &meant, at(99), None).unwrap();
    let before = told(&mut *node.reader(), only(1));
    let again = node.store.erase(&lease, &meant, at(100), None).unwrap();
    assert_eq!(again, Erased::Done { executions: 0, ledger: 0 });
    assert_eq!(told(&mut *node.reader(), only(1)), before);
}

pub fn all_are_erased_or_none(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    commit(&mut node, only(1));
    let redriven = Row { ended_at: Some(at(60)), ..ended(only(3), 1, 60) };
    let awake = Row { awake: true, ..ended(only(4), 1, 50) };
    node.rows(vec![row(only(2)), redriven, awake]);
    let lease = node.lease.clone();
    for other in [2, 3, 4, 5].map(only) {
        let erased = node.store.erase(&lease, &[(only(1), at(50)), (other, at(50))], at(99), None);
        assert_eq!(erased.unwrap(), Erased::Moved(other));
    }
    assert!(told(&mut *node.reader(), only(1)).contains(DATA));
}

pub fn who_has_ended_erases_nothing(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    commit(&mut node, only(1));
    let mut other = Node::on(&mut *home);
    let refused = node.store.erase(&node.lease.clone(), &[(only(1), at(50))], at(99), None);
    assert!(matches!(refused, Err(CommitError::Fenced { .. })), "{refused:?}");
    assert!(told(&mut *other.reader(), only(1)).contains(DATA));
    let lease = other.lease.clone();
    let erased = other.store.erase(&lease, &[(only(1), at(50))], at(99), None);
    assert_eq!(erased.unwrap(), Erased::Done { executions: 1, ledger: 1 }, "also what another life wrote");
    assert!(!told(&mut *other.reader(), only(1)).contains(DATA));
}
