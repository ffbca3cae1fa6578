//! Retention: old executions go, and some stay at any age.

#![allow(missing_docs, reason = "the name is the promise")]

use super::ledger::{attempt, put};
use super::{Make, Node, asleep, at, ended, history, ids, only, row};
use crate::group::{Content, Group, LedgerChange, MachineId, Row, Segment};
use crate::record;
use crate::store::{Filter, LedgerFilter, Retention, Swept};
use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};

const NEVER: Timestamp = Timestamp(i64::MIN);

fn before(ms: i64) -> Retention {
    Retention { ended_before: at(ms), ledger_before: NEVER, bytes_max: None }
}

fn left(node: &Node) -> Vec<ExecutionId> {
    let mut ids: Vec<_> = node
        .reader()
        .list(&Filter::default(), None, 1_000)
        .unwrap()
        .rows
        .iter()
        .map(|summary| summary.execution)
        .collect();
    ids.sort_unstable();
    ids
}

/// These executions, each with one Turn that is no longer in the journal.
fn settled(node: &mut Node, rows: Vec<Row>) {
    let turns: Vec<_> = rows.iter().map(|row| (row.execution, 1)).collect();
    let group = node.turns(&turns);
    node.commit(&Group { rows, ..group });
    node.move_on();
}

pub fn only_what_is_old_enough_goes(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let failed = Row { status: Status::Failed, ..ended(only(2), 1, 19) };
    let running = Row { content: Some(super::content(only(4), 1)), ..row(only(4)) };
    settled(
        &mut node,
        vec![ended(only(1), 1, 10), failed, ended(only(3), 1, 20), running, asleep(only(5), 1, 1)],
    );
    let swept = node.sweep(&before(20), 100);
    assert_eq!(swept, Swept { executions: 2, ledger: 0, more: false });
    assert_eq!(left(&node), super::sorted([only(3), only(4), only(5)]));
    assert!(node.reader().execution(only(1)).unwrap().is_none());
    assert_eq!(node.reader().turns(only(1), 1, 1_000).unwrap(), []);
}

pub fn a_sweep_takes_slices(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    settled(&mut node, (0..7).map(|n| ended(only(n), 1, 10 + n as i64)).collect());
    let mut slice = || node.sweep(&before(100), 3);
    assert_eq!(slice(), Swept { executions: 3, ledger: 0, more: true });
    assert_eq!(slice(), Swept { executions: 3, ledger: 0, more: true });
    assert_eq!(slice(), Swept { executions: 1, ledger: 0, more: false });
    assert_eq!(slice(), Swept::default());
}

pub fn segments_and_ledger_rows_go_along(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let segment = |who| Segment { execution: who, first: 1, turns: 1, bytes: history(who, 1, 1) };
    let content = |who| Content { turns: 2, events: 2, state: None, tail_from: 2, tail: history(who, 2, 2) };
    let rows = [only(1), only(2)]
        .map(|who| Row { content: Some(content(who)), ..ended(who, 2, 10 + i64::from(who == only(2)) * 90) });
    node.commit(&Group {
        rows: rows.to_vec(),
        segments: vec![segment(only(1)), segment(only(2))],
        ledger: [only(1), only(2)]
            .iter()
            .flat_map(|who| {
                let row = put(&attempt(*who, LedgerStatus::Failed, 1 + i64::from(*who == only(2))));
                [row, LedgerChange::Ended { execution: *who, at: at(10) }]
            })
            .collect(),
        ..node.group()
    });
    node.move_on();
    let swept = node.sweep(&before(50), 10);
    assert_eq!(swept, Swept { executions: 1, ledger: 1, more: false });
    let mut reader = node.reader();
    assert_eq!(reader.turns(only(1), 1, 1_000).unwrap(), []);
    assert_eq!(reader.turns(only(2), 1, 1_000).unwrap().len(), 2);
    let ledger = reader.ledger(&LedgerFilter::default(), 10).unwrap();
    assert_eq!(ledger.iter().map(|row| row.execution).collect::<Vec<_>>(), [only(2)]);
    let tables = reader.stats().unwrap().tables;
    assert!(tables.iter().any(|(table, rows, _)| table == "history" && *rows == 1), "{tables:?}");
}

pub fn a_dry_run_counts_and_takes_nothing(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    settled(&mut node, (0..5).map(|n| ended(only(n), 1, 10)).collect());
    let row = put(&attempt(only(1), LedgerStatus::Failed, 1));
    node.commit(&Group { ledger: vec![row], ..node.group() });
    let would = node.would_go(&before(50), 2);
    assert_eq!(would, Swept { executions: 5, ledger: 1, more: false }, "all of it, whatever a slice is");
    assert_eq!(left(&node).len(), 5);
    assert_eq!(node.reader().ledger(&LedgerFilter::default(), 10).unwrap().len(), 1);
}

pub fn too_much_data_sends_the_first_to_end_away(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let large = |n: u128| {
        // Random bytes, which cannot be compressed.
        let mut noise = n as u64;
        let mut next = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 56) as u8
        };
        let mut bytes = Vec::new();
        record::push_turn(&mut bytes, &(0..100_000).map(|_| next()).collect::<Vec<u8>>());
        let content = Content { turns: 1, events: 1, state: None, tail_from: 1, tail: record::seal(&bytes) };
        Row { content: Some(content), ..ended(only(n), 1, 100 - n as i64) }
    };
    settled(&mut node, (1..=8).map(large).collect());
    let bytes = node.reader().stats().unwrap().bytes;
    let enough = Retention { bytes_max: Some(bytes * 4), ..before(0) };
    assert_eq!(node.sweep(&enough, 100), Swept::default());
    let half = Retention { bytes_max: Some(bytes / 2), ..before(0) };
    let would = node.would_go(&half, 100);
    let swept = node.sweep(&half, 100);
    assert!((2..=7).contains(&swept.executions), "{swept:?}");
    assert_eq!(would.executions, swept.executions);
    assert!(node.reader().row(only(8)).unwrap().is_none(), "it ended first");
    assert!(node.reader().row(only(1)).unwrap().is_some(), "it ended last");
    assert_eq!(node.sweep(&half, 100), Swept::default(), "once is enough");
}

pub fn what_the_journal_would_bring_back_stays(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let group = node.turns(&[(only(1), 1), (only(2), 1)]);
    node.commit(&Group { rows: vec![ended(only(1), 1, 10)], ..group });
    assert_eq!(node.sweep(&before(100), 10), Swept::default());
    assert_eq!(ids(&node.recover()), [only(2)], "an execution that went would run again");
    node.move_on();
    assert_eq!(node.sweep(&before(100), 10).executions, 1);
}

pub fn what_the_journal_goes_on_with_stays_whatever_its_row_says(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    settled(&mut node, vec![ended(only(1), 1, 10), ended(only(2), 1, 11)]);
    // Its next Turn is on disk, and its row did not change with it.
    let group = node.turns(&[(only(1), 2)]);
    node.commit(&group);
    assert_eq!(node.would_go(&before(100), 10).executions, 1);
    assert_eq!(node.sweep(&before(100), 10).executions, 1);
    assert_eq!(ids(&node.recover()), [only(1)]);
    assert_eq!(left(&node), [only(1)]);
    assert_eq!(node.reader().turns(only(1), 1, 1_000).unwrap().len(), 2, "all of it is there");
}

pub fn what_was_redriven_after_it_was_seen_stays(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    settled(&mut node, (1..=3).map(|n| ended(only(n), 1, 10)).collect());
    let seen = node.reader().sweepable(&before(100), None, 10).unwrap();
    assert_eq!(seen.going.len(), 3);
    // One runs again, and one has run and ended again.
    let group = node.turns(&[(only(1), 2), (only(2), 2)]);
    node.commit(&Group { rows: vec![row(only(1)), ended(only(2), 2, 90)], ..group });
    node.move_on();
    assert_eq!(node.store.sweep(&seen.going, NEVER, 10, None).unwrap().executions, 1);
    assert_eq!(left(&node), super::sorted([only(1), only(2)]));
}

pub fn a_swept_name_is_free_again(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let named = |who| Row { name: Some("n".into()), ..ended(who, 1, 10) };
    settled(&mut node, vec![named(only(1))]);
    node.sweep(&before(100), 10);
    assert_eq!(node.reader().named(MachineId(1), "n").unwrap(), None);
    node.rows(vec![named(only(2))]);
    assert_eq!(node.reader().named(MachineId(1), "n").unwrap(), Some(only(2)));
}
