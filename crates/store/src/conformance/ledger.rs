//! The ledger table.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, at, only};
use crate::group::{Group, LedgerChange, LedgerRow};
use crate::store::{LedgerFilter, Retention};
use perdura_engine::{ExecutionId, LedgerStatus, Timestamp};
use std::sync::Arc;
use uuid::Uuid;

/// An attempt of an execution.
pub(crate) fn attempt(execution: ExecutionId, status: LedgerStatus, started_at: i64) -> LedgerRow {
    LedgerRow {
        key: format!("{execution}:Pay#{started_at}:1").into(),
        wire_key: Uuid::from_u128(started_at as u128),
        execution,
        step: format!("Pay#{started_at}").into(),
        round: 1,
        status,
        started_at: at(started_at),
        completed_at: None,
        result: None,
        error: None,
    }
}

pub(crate) fn put(row: &LedgerRow) -> LedgerChange {
    LedgerChange::Put(Box::new(row.clone()))
}

fn change(node: &mut Node, ledger: Vec<LedgerChange>) {
    node.commit(&Group { ledger, ..node.group() });
}

fn all(node: &Node) -> Vec<LedgerRow> {
    node.reader().ledger(&LedgerFilter::default(), 100).unwrap()
}

pub fn what_is_put_is_there_and_what_is_dropped_is_not(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let full = LedgerRow {
        completed_at: Some(at(9)),
        result: Some(Arc::from("{\"ok\":true}")),
        error: Some(Arc::from("E: why")),
        round: 4,
        ..attempt(only(1), LedgerStatus::Failed, 5)
    };
    let pending = attempt(only(1), LedgerStatus::Pending, 6);
    change(&mut node, vec![put(&full), put(&pending)]);
    assert_eq!(all(&node), [full.clone(), pending.clone()]);
    change(&mut node, vec![LedgerChange::Drop { key: pending.key.clone() }]);
    change(&mut node, vec![LedgerChange::Drop { key: pending.key }]);
    drop(node);
    home.restart();
    assert_eq!(all(&Node::on(&mut *home)), [full]);
}

pub fn a_second_put_replaces_the_first(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let first = attempt(only(1), LedgerStatus::Pending, 5);
    let second = LedgerRow { status: LedgerStatus::Uncertain, completed_at: Some(at(8)), ..first.clone() };
    change(&mut node, vec![put(&first), put(&second)]);
    assert_eq!(all(&node), [second]);
}

pub fn the_ledger_is_filtered_and_oldest_first(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let statuses =
        [LedgerStatus::Uncertain, LedgerStatus::Pending, LedgerStatus::Failed, LedgerStatus::Pending];
    let rows: Vec<_> = statuses
        .into_iter()
        .zip([40, 10, 30, 20])
        .map(|(status, ms)| attempt(only(ms as u128 / 20), status, ms))
        .collect();
    change(&mut node, rows.iter().map(put).collect());
    let mut reader = node.reader();
    let mut times = |filter: LedgerFilter, most| -> Vec<i64> {
        reader.ledger(&filter, most).unwrap().iter().map(|row| row.started_at.0).collect()
    };
    let any = LedgerFilter::default;
    assert_eq!(times(any(), 10), [10, 20, 30, 40]);
    assert_eq!(times(any(), 2), [10, 20]);
    let pending = Some(LedgerStatus::Pending);
    assert_eq!(times(LedgerFilter { status: pending, ..any() }, 10), [10, 20]);
    assert_eq!(times(LedgerFilter { execution: Some(only(1)), ..any() }, 10), [20, 30]);
    assert_eq!(times(LedgerFilter { started_before: Some(at(30)), ..any() }, 10), [10, 20]);
    let after = |row: usize| Some((rows[row].started_at, rows[row].key.clone()));
    assert_eq!(times(LedgerFilter { after: after(3), ..any() }, 1), [30]);
    assert_eq!(times(LedgerFilter { after: after(1), status: pending, ..any() }, 10), [20]);
    let wire_key = Some(rows[2].wire_key);
    assert_eq!(times(LedgerFilter { wire_key, ..any() }, 10), [30]);
    assert_eq!(times(LedgerFilter { wire_key: Some(uuid::Uuid::nil()), ..any() }, 10), Vec::<i64>::new());
    let execution = Some(only(1));
    let both = LedgerFilter { status: pending, execution, started_before: Some(at(20)), ..any() };
    assert_eq!(times(both, 10), Vec::<i64>::new());
    let stats = node.reader().stats().unwrap();
    let expected = [(LedgerStatus::Pending, 2), (LedgerStatus::Failed, 1), (LedgerStatus::Uncertain, 1)];
    assert_eq!((&stats.ledger[..], stats.oldest_pending), (&expected[..], Some(at(10))));
}

fn sweep(node: &mut Node, before: i64) -> u64 {
    let retention =
        Retention { ended_before: Timestamp(i64::MIN), ledger_before: at(before), bytes_max: None };
    node.sweep(&retention, 100).ledger
}

pub fn rows_of_ended_executions_go_after_a_while(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let gone = attempt(only(1), LedgerStatus::Failed, 5);
    let runs = attempt(only(2), LedgerStatus::Failed, 6);
    change(&mut node, vec![put(&gone), put(&runs)]);
    change(&mut node, vec![LedgerChange::Ended { execution: only(1), at: at(50) }]);
    assert_eq!(sweep(&mut node, 50), 0);
    assert_eq!(all(&node).len(), 2);
    assert_eq!(sweep(&mut node, 51), 1);
    assert_eq!(all(&node), [runs]);
}

pub fn an_attempt_that_is_pending_again_stays(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let failed = attempt(only(1), LedgerStatus::Failed, 5);
    let late = attempt(only(1), LedgerStatus::Uncertain, 6);
    change(&mut node, vec![put(&failed), put(&late), LedgerChange::Ended { execution: only(1), at: at(50) }]);
    // The execution is redriven: one attempt is sent again; of the other only the status changes.
    let again = LedgerRow { status: LedgerStatus::Pending, ..failed };
    change(&mut node, vec![put(&again), put(&LedgerRow { completed_at: Some(at(70)), ..late })]);
    assert_eq!(sweep(&mut node, 1_000), 1);
    assert_eq!(all(&node), [again]);
}
