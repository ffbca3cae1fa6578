//! Map Runs and their children.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, at, ended, only, row};
use crate::group::{ChildOf, Group, MapRunRow, Row};
use crate::store::{ChildStatus, Filter, Retention, Swept};
use perdura_engine::{ExecutionId, MapRunBounds, MapRunCounts, Status, Tally, Timestamp};
use uuid::Uuid;

const RUN: Uuid = Uuid::from_u128(7);

fn map_run(id: Uuid, execution: ExecutionId) -> MapRunRow {
    MapRunRow {
        id,
        arn: format!("arn:aws:states:us-east-1:123456789012:mapRun:m/l:{id}").into(),
        execution,
        status: Status::Running,
        started_at: at(100),
        ended_at: None,
        redrives: 0,
        redriven_at: None,
        bounds: MapRunBounds::default(),
        source_version: None,
        counts: MapRunCounts::default(),
        results_written: 0,
    }
}

/// An ended child.
fn child(run: Uuid, index: u32, execution: ExecutionId) -> Row {
    Row { child: Some(ChildOf { run, index, items: index + 1 }), ..ended(execution, 1, 20) }
}

/// Rows and runs in one commit; the journal has nothing of them afterwards.
fn settled(node: &mut Node, rows: Vec<Row>, map_runs: Vec<MapRunRow>) {
    let turns: Vec<_> = rows.iter().map(|row| (row.execution, 1)).collect();
    let group = node.turns(&turns);
    node.commit(&Group { rows, map_runs, ..group });
    node.move_on();
}

fn sweep(node: &mut Node, most: u32, dry_run: bool) -> Swept {
    let retention = Retention { ended_before: at(1_000), ledger_before: Timestamp(0), bytes_max: None };
    if dry_run { node.would_go(&retention, most) } else { node.sweep(&retention, most) }
}

fn indices(node: &Node, run: Uuid) -> Vec<u32> {
    node.reader().child_statuses(run, 0, 100).unwrap().into_iter().map(|child| child.index).collect()
}

pub fn a_map_run_comes_back_as_it_was(make: Make<'_>) {
    let tally = |by: u64| Tally {
        total: 60 + by,
        running: 1 + by,
        succeeded: 2 + by,
        failed: 3 + by,
        timed_out: 4 + by,
        aborted: 5 + by,
    };
    let full = MapRunRow {
        status: Status::Failed,
        ended_at: Some(at(400)),
        redrives: 2,
        redriven_at: Some(at(300)),
        bounds: MapRunBounds {
            max_concurrency: 8,
            tolerated_count: Some(9),
            tolerated_percentage: Some(12.5),
        },
        source_version: Some("etag".into()),
        counts: MapRunCounts { items: tally(0), children: tally(10) },
        results_written: 4,
        ..map_run(RUN, only(1))
    };
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    node.commit(&Group { map_runs: vec![map_run(RUN, only(1))], ..node.group() });
    assert_eq!(node.reader().map_run(RUN).unwrap(), Some(map_run(RUN, only(1))));
    node.commit(&Group { map_runs: vec![full.clone()], ..node.group() });
    drop(node);
    home.restart();
    let mut reader = Node::on(&mut *home).reader();
    assert_eq!(reader.map_run(RUN).unwrap(), Some(full));
    assert_eq!(reader.map_run(Uuid::from_u128(8)).unwrap(), None);
}

pub fn map_runs_that_have_not_ended_are_found(make: Make<'_>) {
    let run = |number: u128| map_run(Uuid::from_u128(number), only(number));
    let over = |number: u128| MapRunRow { status: Status::Aborted, ended_at: Some(at(400)), ..run(number) };
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    node.commit(&Group { map_runs: (1..=5).map(run).collect(), ..node.group() });
    node.commit(&Group { map_runs: vec![over(2), over(5)], ..node.group() });
    let ids = |after: Option<u128>, most: u32| -> Vec<u128> {
        let runs = node.reader().running_map_runs(after.map(Uuid::from_u128), most).unwrap();
        runs.into_iter().map(|run| run.id.as_u128()).collect()
    };
    assert_eq!(ids(None, 100), [1, 3, 4]);
    assert_eq!(ids(None, 2), [1, 3]);
    assert_eq!(ids(Some(3), 2), [4]);
    assert_eq!(node.reader().running_map_runs(None, 1).unwrap(), [run(1)], "whole rows");
    node.commit(&Group { map_runs: vec![run(2)], ..node.group() });
    let again = node.reader().running_map_runs(Some(Uuid::from_u128(1)), 1).unwrap();
    assert_eq!(again, [run(2)], "one that was taken up again runs again");
}

pub fn children_are_in_no_list_but_that_of_their_run(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let failed = Row { status: Status::Failed, ..child(RUN, 2, only(12)) };
    let running = Row { child: Some(ChildOf { run: RUN, index: 1, items: 1 }), ..row(only(11)) };
    let other = child(Uuid::from_u128(8), 0, only(20));
    let rows = vec![failed.clone(), running.clone(), child(RUN, 0, only(10)), other, row(only(1))];
    node.rows(rows);
    let mut reader = node.reader();
    let listed = reader.list(&Filter::default(), None, 100).unwrap().rows;
    assert_eq!(listed.iter().map(|summary| summary.execution).collect::<Vec<_>>(), [only(1)]);
    let statuses = [(0, Status::Succeeded, 1), (1, Status::Running, 1), (2, Status::Failed, 3)]
        .map(|(index, status, items)| ChildStatus { index, status, items });
    assert_eq!(reader.child_statuses(RUN, 0, 100).unwrap(), statuses);
    assert_eq!(reader.child_statuses(RUN, 1, 1).unwrap(), statuses[1..2]);
    assert_eq!(reader.children(RUN, 0, 2).unwrap(), [child(RUN, 0, only(10)), running]);
    assert_eq!(reader.children(RUN, 2, 2).unwrap(), [failed]);
    let counted: u64 = reader.stats().unwrap().executions.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, 5, "but they are counted");
}

pub fn children_are_listed_by_status_and_page_the_last_one_first(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let rows = (0..9).map(|index: u32| Row {
        status: if index.is_multiple_of(3) { Status::Failed } else { Status::Succeeded },
        redrives: u32::from(index > 5),
        // All of them begin at the same time, and their ids are in no order.
        ..child(RUN, index, only(100 - u128::from(index)))
    });
    let other = child(Uuid::from_u128(8), 0, only(20));
    node.rows(rows.chain([other, row(only(1))]).collect());
    let mut reader = node.reader();
    let cases: [(Option<Status>, Option<bool>, &[u128]); 6] = [
        (None, None, &[8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (Some(Status::Failed), None, &[6, 3, 0]),
        (None, Some(true), &[8, 7, 6]),
        (Some(Status::Failed), Some(true), &[6]),
        (Some(Status::Succeeded), Some(false), &[5, 4, 2, 1]),
        (Some(Status::Running), None, &[]),
    ];
    for (status, redriven, expected) in cases {
        let mut filter = Filter { map_run: Some(RUN), status, redriven, ..Filter::default() };
        for most in [1, 2, 50] {
            let mut found = Vec::new();
            filter.before_child = None;
            loop {
                let page = reader.list(&filter, None, most).unwrap().rows;
                let Some(last) = page.last() else { break };
                filter.before_child = last.child;
                found.extend(page.into_iter().map(|summary| summary.execution));
            }
            let expected: Vec<_> = expected.iter().map(|index| only(100 - index)).collect();
            assert_eq!(found, expected, "{filter:?} by {most}");
        }
    }
}

pub fn the_runs_of_an_execution_are_told_in_order(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let run = |id: u128, started_at: i64, whose: u128| MapRunRow {
        started_at: at(started_at),
        ..map_run(Uuid::from_u128(id), only(whose))
    };
    let map_runs = vec![run(1, 30, 1), run(2, 10, 1), run(3, 20, 2), run(4, 20, 1)];
    node.commit(&Group { map_runs, ..node.group() });
    let found = node.reader().map_runs(only(1)).unwrap();
    assert_eq!(found, [run(2, 10, 1), run(4, 20, 1), run(1, 30, 1)]);
}

pub fn children_stay_as_long_as_their_parent(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    settled(&mut node, vec![row(only(1)), child(RUN, 0, only(10))], vec![map_run(RUN, only(1))]);
    assert_eq!(sweep(&mut node, 100, false), Swept::default());
    let retention = Retention { ended_before: at(0), ledger_before: at(0), bytes_max: Some(0) };
    assert_eq!(node.sweep(&retention, 100), Swept::default());
    assert_eq!(indices(&node, RUN), [0]);
}

pub fn children_go_after_their_parent_and_the_run_after_them(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let mut rows: Vec<Row> = (0..5).map(|index| child(RUN, index, only(10 + u128::from(index)))).collect();
    rows.push(ended(only(1), 1, 50));
    settled(&mut node, rows, vec![map_run(RUN, only(1))]);
    assert_eq!(sweep(&mut node, 3, false), Swept { executions: 1, ledger: 0, more: true });
    assert_eq!(node.reader().map_run(RUN).unwrap(), None, "its parent is gone");
    assert_eq!(indices(&node, RUN).len(), 5);
    assert_eq!(sweep(&mut node, 3, false), Swept { executions: 3, ledger: 0, more: true });
    assert_eq!(sweep(&mut node, 3, false), Swept { executions: 2, ledger: 0, more: false });
    assert!(indices(&node, RUN).is_empty());
    let tables = node.reader().stats().unwrap().tables;
    assert!(tables.iter().any(|(name, rows, _)| name == "map_run" && *rows == 0), "{tables:?}");
}

pub fn children_of_children_go_too(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let inner = Uuid::from_u128(8);
    let rows = vec![ended(only(1), 1, 50), child(RUN, 0, only(10)), child(inner, 0, only(20))];
    settled(&mut node, rows, vec![map_run(RUN, only(1)), map_run(inner, only(10))]);
    let mut sweeps = 1;
    while sweep(&mut node, 100, false).more {
        sweeps += 1;
    }
    assert!(sweeps <= 4, "{sweeps} sweeps");
    assert_eq!((indices(&node, RUN), indices(&node, inner)), (Vec::new(), Vec::new()));
}

pub fn a_dry_run_counts_children(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let inner = Uuid::from_u128(8);
    let rows = vec![ended(only(1), 1, 50), child(RUN, 0, only(10)), child(inner, 0, only(20))];
    settled(&mut node, rows, vec![map_run(RUN, only(1)), map_run(inner, only(10))]);
    assert_eq!(sweep(&mut node, 1, true), Swept { executions: 3, ledger: 0, more: false });
    assert_eq!(indices(&node, RUN), [0]);
}
