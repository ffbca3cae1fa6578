//! Rows, and the Turns that need not be read from the journal because of them.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, asleep, at, content, ended, history, ids, only, row, sorted, turn};
use crate::group::{Content, Group, MachineId, RevisionId, Row, Segment, Snapshot};
use crate::record;
use crate::store::CommitError;
use perdura_engine::{ExecutionId, Status, Wake};

/// Commits these Turns and rows, and recovers in a new process.
fn after(make: Make<'_>, turns: &[(ExecutionId, u64)], rows: Vec<Row>) -> crate::store::Recovery {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let group = node.turns(turns);
    node.commit(&Group { rows, ..group });
    drop(node);
    home.restart();
    Node::on(&mut *home).recover()
}

pub fn ended_executions_are_not_recovered(make: Make<'_>) {
    let recovery = after(make, &[(only(1), 1), (only(2), 1)], vec![ended(only(1), 1, 50)]);
    assert_eq!(ids(&recovery), [only(2)]);
    assert_eq!(recovery.damaged, []);
}

pub fn sleepers_are_not_recovered(make: Make<'_>) {
    let recovery = after(make, &[(only(1), 1), (only(1), 2)], vec![asleep(only(1), 2, 50)]);
    assert!(recovery.executions.is_empty() && recovery.damaged.is_empty());
}

pub fn awake_rows_are_recovered(make: Make<'_>) {
    let long_runner = Row { content: Some(content(only(1), 2)), ..row(only(1)) };
    let recovery = after(make, &[(only(1), 1), (only(1), 2)], vec![long_runner.clone()]);
    assert_eq!(ids(&recovery), [only(1)]);
    assert_eq!(recovery.executions[0].row.as_ref(), Some(&long_runner));
    assert_eq!(recovery.executions[0].turns, []);
}

pub fn a_sleeper_with_newer_turns_is_recovered(make: Make<'_>) {
    let turns = [(only(1), 1), (only(2), 1), (only(1), 2), (only(2), 2)];
    let recovery = after(make, &turns, vec![asleep(only(1), 1, 50), ended(only(2), 1, 60)]);
    assert_eq!(ids(&recovery), sorted([only(1), only(2)]));
    for recovered in &recovery.executions {
        let numbers: Vec<_> = recovered.turns.iter().map(|(at, turn)| (at.number, turn.clone())).collect();
        assert_eq!(numbers, [(1, turn(recovered.execution, 2))]);
        assert_eq!(recovered.row.as_ref().unwrap().content.as_ref().unwrap().turns, 1);
    }
}

pub fn turns_that_a_row_covers_are_not_given_again(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    for number in 1..=5 {
        let group = node.turns(&[(only(1), number)]);
        node.commit(&group);
    }
    node.rows(vec![Row { content: Some(content(only(1), 3)), ..row(only(1)) }]);
    let recovery = node.recover();
    let expected = [(node.position(4), turn(only(1), 4)), (node.position(5), turn(only(1), 5))];
    assert_eq!(recovery.executions[0].turns, expected);
}

pub fn a_listed_row_is_recovered_from_the_journal(make: Make<'_>) {
    let recovery = after(make, &[(only(1), 1), (only(1), 2)], vec![row(only(1))]);
    assert_eq!(recovery.executions[0].row, Some(row(only(1))));
    assert_eq!(recovery.executions[0].turns.len(), 2);
}

pub fn a_listed_row_leaves_content_in_place(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let group = node.turns(&[(only(1), 1), (only(1), 2)]);
    node.commit(&Group { rows: vec![asleep(only(1), 2, 50)], ..group });
    let group = node.turns(&[(only(1), 3)]);
    node.commit(&Group { rows: vec![row(only(1))], ..group });
    let recovery = node.recover();
    let expected = Row { content: Some(content(only(1), 2)), ..row(only(1)) };
    assert_eq!(recovery.executions[0].row, Some(expected), "awake again, and its timer is gone");
    assert_eq!(recovery.executions[0].turns, [(node.position(2), turn(only(1), 3))]);
}

pub fn a_row_comes_back_as_it_was(make: Make<'_>) {
    let who = only(1);
    let state = Snapshot { turn: 40, bytes: record::seal(b"{\"state\":1}") };
    let full = Row {
        execution: who,
        machine: MachineId(7),
        revision: RevisionId(12),
        name: Some("the-name".into()),
        status: Status::TimedOut,
        awake: false,
        started_at: at(-5),
        ended_at: Some(at(9_000_000_000_000)),
        wake: Wake { steady: Some(at(3)), wall: Some(at(4)) },
        waits: true,
        held: false,
        redrives: 2,
        redriven_at: Some(at(8)),
        version: Some(3),
        alias: Some("PROD".into()),
        labels: perdura_engine::Labels::new([("order", "A-1"), ("q\"", "")]).unwrap(),
        root_key: Some("key".into()),
        error: Some("Declined".into()),
        child: Some(crate::group::ChildOf { run: uuid::Uuid::from_u128(77), index: 9, items: 4 }),
        content: Some(Content {
            turns: 42,
            events: 420,
            state: Some(state),
            tail_from: 41,
            tail: history(who, 41, 42),
        }),
    };
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let others = [Status::Running, Status::Succeeded, Status::Failed, Status::Aborted].map(|status| {
        let id = only(10 + status as u128);
        Row { status, ..row(id) }
    });
    node.rows(std::iter::once(full.clone()).chain(others.clone()).collect());
    drop(node);
    home.restart();
    let mut reader = Node::on(&mut *home).reader();
    assert_eq!(reader.row(who).unwrap(), Some((full, 1)));
    for other in others {
        assert_eq!(reader.row(other.execution).unwrap(), Some((other, 1)));
    }
    assert_eq!(reader.row(only(99)).unwrap(), None);
}

pub fn segments_say_where_the_rest_begins(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let who = only(1);
    let segment = |first: u64, to: u64| Segment {
        execution: who,
        first,
        turns: to - first + 1,
        bytes: history(who, first, to),
    };
    let content = Content { turns: 9, events: 9, state: None, tail_from: 8, tail: history(who, 8, 9) };
    let row = Row { content: Some(content), ..row(who) };
    node.commit(&Group { segments: vec![segment(1, 4)], ..node.group() });
    node.commit(&Group { segments: vec![segment(5, 7)], rows: vec![row.clone()], ..node.group() });
    assert_eq!(node.recover().executions[0].unsegmented_from, 8);
    assert_eq!(node.reader().row(who).unwrap(), Some((row, 8)));
    assert_eq!(node.reader().execution(who).unwrap().unwrap().unsegmented_from, 8);
}

pub fn a_damaged_row_is_told_and_the_others_are_there(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let spoil = |bytes: &mut Vec<u8>| {
        let last = bytes.len() - 1;
        bytes[last] ^= 4;
    };
    let mut tail = content(only(1), 2);
    spoil(&mut tail.tail);
    let mut state = content(only(2), 2);
    state.state = Some(Snapshot { turn: 1, bytes: record::seal(b"state") });
    spoil(&mut state.state.as_mut().unwrap().bytes);
    let short = Content { turns: 5, ..content(only(3), 4) };
    let rows = [(only(1), tail), (only(2), state), (only(3), short), (only(4), content(only(4), 2))]
        .map(|(who, content)| Row { content: Some(content), ..row(who) });
    node.rows(rows.to_vec());
    let recovery = node.recover();
    assert_eq!(ids(&recovery), [only(4)]);
    let mut damaged: Vec<_> = recovery.damaged.iter().filter_map(|(who, _)| *who).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, sorted([only(1), only(2), only(3)]));
}

pub fn a_name_belongs_to_one_execution(make: Make<'_>) {
    let named = |who| Row { name: Some("order-1".into()), ..row(who) };
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    node.rows(vec![named(only(1))]);
    node.rows(vec![named(only(1))]);
    let result = node.try_commit(&Group { rows: vec![row(only(3)), named(only(2))], ..node.group() });
    assert!(matches!(result, Err(CommitError::Lost(_))), "{result:?}");
    drop(node);
    let mut reader = Node::on(&mut *home).reader();
    assert_eq!(reader.named(MachineId(1), "order-1").unwrap(), Some(only(1)));
    assert_eq!(reader.row(only(3)).unwrap(), None, "nothing of the commit was kept");
}
