//! Lists that are filtered by labels, errors, names, keys and times, in either order.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, at, ended, only, row};
use crate::group::{MachineId, Row};
use crate::store::{Filter, Order, Reader, Summary};
use perdura_engine::{ExecutionId, Labels, Status};
use std::sync::Arc;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().copied()).unwrap()
}

fn label(key: &str, value: &str) -> Filter {
    Filter { label: Some((key.into(), value.into())), ..Filter::default() }
}

/// All pages of a list.
fn all(reader: &mut dyn Reader, filter: &Filter, most: u32) -> Vec<Summary> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = reader.list(filter, after, most).unwrap();
        assert!(page.rows.len() <= most as usize);
        found.extend(page.rows);
        if page.next.is_none() {
            return found;
        }
        assert!(after.is_none() || page.next < after, "it goes on");
        after = page.next;
    }
}

fn numbers(listed: &[Summary]) -> Vec<i64> {
    listed.iter().map(|summary| summary.started_at.0).collect()
}

/// The row with this start.
fn began(n: i64, row: Row) -> Row {
    Row { started_at: at(n), ..row }
}

pub fn what_an_execution_was_given_finds_it(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let named = |name: &str, row| Row { name: Some(name.into()), ..row };
    let failed = |error: &str, row| Row { status: Status::Failed, error: Some(error.into()), ..row };
    let keyed = |key: &str, row| Row { root_key: Some(key.into()), ..row };
    let with = |pairs, row| Row { labels: labels(pairs), ..row };
    let other = |row| Row { machine: MachineId(2), ..row };
    node.rows(vec![
        began(1, with(&[("order", "A-1"), ("tenant", "x")], row(only(1)))),
        began(2, named("order-1", failed("Declined", with(&[("order", "A-2")], ended(only(2), 1, 90))))),
        began(3, other(named("order-2", keyed("k", with(&[("order", "A-1")], ended(only(3), 1, 80)))))),
        began(4, keyed("k", failed("Declined", ended(only(4), 1, 70)))),
        began(5, other(failed("Late", named("orders", ended(only(5), 1, 70))))),
        began(6, named("ordes", row(only(6)))),
    ]);
    let mut reader = node.reader();
    let text = |text: &str| -> Option<Arc<str>> { Some(text.into()) };
    let (one, end) = (Some(MachineId(1)), Order::End);
    let none = Filter::default;
    let cases: Vec<(Filter, &[i64])> = vec![
        (label("order", "A-1"), &[3, 1]),
        (label("order", "A-2"), &[2]),
        (label("order", "A-3"), &[]),
        (label("tenant", "A-1"), &[]),
        (Filter { machine: one, ..label("order", "A-1") }, &[1]),
        (Filter { status: Some(Status::Running), ..label("order", "A-1") }, &[1]),
        (Filter { order: end, ..label("order", "A-1") }, &[3]),
        (Filter { since: Some(at(2)), ..label("order", "A-1") }, &[3]),
        (Filter { until: Some(at(3)), ..label("order", "A-1") }, &[1]),
        (Filter { error: text("Declined"), ..none() }, &[4, 2]),
        (Filter { error: text("Declined"), order: end, ..none() }, &[2, 4]),
        (Filter { error: text("Late"), machine: one, ..none() }, &[]),
        (Filter { name_prefix: text("order"), ..none() }, &[5, 3, 2]),
        (Filter { name_prefix: text("order-"), order: end, ..none() }, &[2, 3]),
        (Filter { name_prefix: text("order-"), machine: one, ..none() }, &[2]),
        (Filter { name_prefix: text("order-2"), error: text("Late"), ..none() }, &[]),
        (Filter { root_key: text("k"), ..none() }, &[4, 3]),
        (Filter { root_key: text("k"), order: end, ..none() }, &[3, 4]),
        (Filter { root_key: text("K"), ..none() }, &[]),
        (Filter { since: Some(at(2)), until: Some(at(5)), ..none() }, &[4, 3, 2]),
        (Filter { since: Some(at(5)), until: Some(at(5)), ..none() }, &[]),
        (Filter { since: Some(at(70)), until: Some(at(90)), order: end, machine: one, ..none() }, &[4]),
        (Filter { status: Some(Status::Failed), order: end, machine: one, ..none() }, &[2, 4]),
        (Filter { status: Some(Status::Running), order: end, ..none() }, &[]),
    ];
    for (filter, expected) in cases {
        for most in [1, 2, 50] {
            assert_eq!(numbers(&all(&mut *reader, &filter, most)), expected, "{filter:?} by {most}");
        }
    }
    let found = all(&mut *reader, &label("tenant", "x"), 9);
    assert_eq!(found[0].labels, labels(&[("order", "A-1"), ("tenant", "x")]));
    // Two ended in the same millisecond: their ids decide the order.
    let both = Filter { until: Some(at(80)), order: end, ..none() };
    let mut ids = [only(4), only(5)];
    ids.sort_unstable();
    ids.reverse();
    let listed: Vec<ExecutionId> =
        all(&mut *reader, &both, 1).iter().map(|summary| summary.execution).collect();
    assert_eq!(listed, ids);
}

pub fn the_few_are_found_among_the_many(make: Make<'_>) {
    const MANY: i64 = 5_000;
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    // All have the label and a name with the same beginning; the earlier they began, the later they end.
    let rows = (0..MANY).map(|n| Row {
        name: Some(format!("order-{n}").into()),
        labels: labels(&[("tenant", "x")]),
        status: if n % 2_000 == 7 { Status::Failed } else { Status::Succeeded },
        error: (n % 2_000 == 7).then(|| "Declined".into()),
        machine: MachineId(1 + u64::from(n % 1_000 == 7)),
        content: None,
        ..began(n, ended(only((n as u128) << 20), 1, 2 * MANY - n))
    });
    node.rows(rows.collect());
    let mut reader = node.reader();
    let prefix = Filter { name_prefix: Some("order-".into()), ..Filter::default() };
    let failed: &[i64] = &[4_007, 2_007, 7];
    let other: &[i64] = &[4_007, 3_007, 2_007, 1_007, 7];
    for (filter, expected) in [
        (Filter { status: Some(Status::Failed), ..label("tenant", "x") }, failed),
        (Filter { machine: Some(MachineId(2)), ..label("tenant", "x") }, other),
        (Filter { machine: Some(MachineId(2)), ..prefix.clone() }, other),
        (Filter { error: Some("Declined".into()), ..prefix.clone() }, failed),
    ] {
        for most in [1, 2, 100] {
            assert_eq!(numbers(&all(&mut *reader, &filter, most)), expected, "{filter:?} by {most}");
            let by_end = Filter { order: Order::End, ..filter.clone() };
            let found = numbers(&all(&mut *reader, &by_end, most));
            assert!(found.iter().eq(expected.iter().rev()), "{by_end:?} by {most}: {found:?}");
        }
    }
    for filter in [prefix, label("tenant", "x"), Filter { order: Order::End, ..label("tenant", "x") }] {
        assert_eq!(all(&mut *reader, &filter, 1_000).len(), MANY as usize, "{filter:?}");
    }
}

pub fn labels_stay_with_their_execution_and_go_with_it(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let labelled = |row| Row { labels: labels(&[("order", "A-1")]), ..row };
    node.rows(vec![labelled(row(only(1))), row(only(2))]);
    assert_eq!(numbers(&all(&mut *node.reader(), &label("order", "A-1"), 9)), [1_000]);
    node.rows(vec![labelled(ended(only(1), 1, 1_009)), ended(only(2), 1, 1_009)]);
    let mut reader = node.reader();
    let found = all(&mut *reader, &label("order", "A-1"), 9);
    assert_eq!(
        found.iter().map(|one| (one.execution, one.status)).collect::<Vec<_>>(),
        [(only(1), Status::Succeeded)]
    );
    let row = reader.row(only(1)).unwrap().unwrap().0;
    assert_eq!(row.labels, labels(&[("order", "A-1")]));
    node.store.sweep(&[(only(1), at(1_009)), (only(2), at(1_009))], at(0), 9, None).unwrap();
    assert_eq!(all(&mut *node.reader(), &label("order", "A-1"), 9), []);
}
