//! The read side.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, asleep, at, ended, execution, history, only, row, turn};
use crate::group::{Content, Group, MachineId, Row, Segment};
use crate::lease::Shard;
use crate::store::{Clock, Due, Filter, Reader, StoredTurn, Summary};
use perdura_engine::{ExecutionId, Labels, Status, Wake};

pub fn a_name_is_found_and_only_of_its_machine(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let named = |who, machine| Row { name: Some("n".into()), machine: MachineId(machine), ..row(who) };
    node.rows(vec![named(only(1), 1), named(only(2), 2)]);
    let mut reader = node.reader();
    assert_eq!(reader.named(MachineId(1), "n").unwrap(), Some(only(1)));
    assert_eq!(reader.named(MachineId(2), "n").unwrap(), Some(only(2)));
    assert_eq!(reader.named(MachineId(3), "n").unwrap(), None);
    assert_eq!(reader.named(MachineId(1), "N").unwrap(), None);
}

pub fn no_name_is_no_name(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    node.rows(vec![row(only(1)), row(only(2))]);
    let mut reader = node.reader();
    assert_eq!(reader.named(MachineId(1), "").unwrap(), None);
    assert_eq!(
        reader.named(MachineId(1), &only(1).to_string()).unwrap(),
        None,
        "an id is not looked up here"
    );
    assert_eq!(reader.row(only(1)).unwrap().unwrap().0.name, None);
}

fn starts(reader: &mut dyn Reader, filter: &Filter, most: u32) -> Vec<(i64, ExecutionId)> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = reader.list(filter, after, most).unwrap();
        assert!(page.rows.len() <= most as usize);
        all.extend(page.rows.iter().map(|summary| (summary.started_at.0, summary.execution)));
        if page.next.is_none() {
            return all;
        }
        assert_ne!(page.next, after, "it goes on");
        after = page.next;
    }
}

pub fn lists_are_newest_first_and_pages_meet(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    // Several begin in the same millisecond, of several machines and with several statuses.
    let rows: Vec<Row> = (0..23)
        .map(|n: i64| Row {
            started_at: at(n / 4),
            machine: MachineId(1 + n as u64 % 3),
            status: if n % 2 == 0 { Status::Failed } else { Status::Running },
            ..row(only(n as u128))
        })
        .collect();
    let mut expected: Vec<_> = rows.iter().map(|row| (row.started_at.0, row.execution)).collect();
    expected.sort_unstable();
    expected.reverse();
    node.rows(rows);
    for most in [1, 2, 5, 23, 100] {
        assert_eq!(starts(&mut *node.reader(), &Filter::default(), most), expected, "by {most}");
    }
    assert_eq!(node.reader().list(&Filter::default(), None, 0).unwrap().rows, []);
}

pub fn lists_are_filtered(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let failed = Row {
        status: Status::Failed,
        machine: MachineId(2),
        name: Some("f".into()),
        redrives: 3,
        redriven_at: Some(at(6)),
        version: Some(2),
        alias: Some("PROD".into()),
        labels: Labels::new([("order", "A-1"), ("tenant", "x")]).unwrap(),
        root_key: Some("k-1".into()),
        error: Some("Declined".into()),
        ..ended(only(1), 1, 7)
    };
    node.rows(vec![failed.clone(), Row { machine: MachineId(2), ..row(only(2)) }, ended(only(3), 1, 9)]);
    let mut reader = node.reader();
    let mut list = |machine: Option<u64>, status| -> Vec<Summary> {
        let filter = Filter { machine: machine.map(MachineId), status, ..Filter::default() };
        reader.list(&filter, None, 10).unwrap().rows
    };
    let ids = |list: Vec<Summary>| list.iter().map(|summary| summary.execution).collect::<Vec<_>>();
    assert_eq!(ids(list(Some(1), None)), [only(3)]);
    assert_eq!(ids(list(None, Some(Status::Running))), [only(2)]);
    assert_eq!(list(Some(2), None).len(), 2);
    assert_eq!(ids(list(Some(1), Some(Status::Failed))), []);
    let expected = Summary {
        execution: only(1),
        machine: failed.machine,
        revision: failed.revision,
        name: failed.name,
        status: Status::Failed,
        started_at: failed.started_at,
        ended_at: Some(at(7)),
        redrives: 3,
        redriven_at: Some(at(6)),
        version: Some(2),
        alias: Some("PROD".into()),
        labels: failed.labels,
        root_key: Some("k-1".into()),
        error: Some("Declined".into()),
        child: None,
        erased_at: None,
    };
    assert_eq!(list(Some(2), Some(Status::Failed)), [expected]);
}

pub fn lists_tell_how_executions_were_started_and_redriven(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let started = |n: i64, version, alias: Option<&str>, redrives| Row {
        started_at: at(n),
        version,
        alias: alias.map(Into::into),
        redrives,
        status: if n % 2 == 0 { Status::Failed } else { Status::Running },
        ..row(only(n as u128))
    };
    node.rows(vec![
        started(1, None, None, 0),
        started(2, Some(1), None, 1),
        started(3, Some(1), Some("A"), 0),
        started(4, Some(2), Some("A"), 2),
        started(5, Some(2), Some("B"), 0),
        started(6, Some(1), None, 0),
        Row { machine: MachineId(2), ..started(7, Some(1), Some("A"), 1) },
    ]);
    let mut reader = node.reader();
    let one = Filter { machine: Some(MachineId(1)), ..Filter::default() };
    let a: Option<std::sync::Arc<str>> = Some("A".into());
    let cases: [(Filter, &[i64]); 9] = [
        (Filter { version: Some(1), ..one.clone() }, &[6, 3, 2]),
        (Filter { alias: a.clone(), ..one.clone() }, &[4, 3]),
        (Filter { version: Some(2), alias: a.clone(), ..one.clone() }, &[4]),
        (Filter { version: Some(1), status: Some(Status::Failed), ..one.clone() }, &[6, 2]),
        (Filter { redriven: Some(true), ..one.clone() }, &[4, 2]),
        (Filter { redriven: Some(false), ..one.clone() }, &[6, 5, 3, 1]),
        (Filter { redriven: Some(true), version: Some(1), ..one.clone() }, &[2]),
        (Filter { version: Some(9), ..one }, &[]),
        (Filter { alias: a, redriven: Some(true), ..Filter::default() }, &[7, 4]),
    ];
    for (filter, expected) in cases {
        for most in [1, 2, 50] {
            let found: Vec<i64> = starts(&mut *reader, &filter, most).into_iter().map(|(at, _)| at).collect();
            assert_eq!(found, expected, "{filter:?} by {most}");
        }
    }
}

pub fn a_page_is_stable_while_others_start(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let started = |n: i64| Row { started_at: at(n), ..row(only(n as u128)) };
    node.rows((1..=4).map(started).collect());
    let mut reader = node.reader();
    let page = reader.list(&Filter::default(), None, 2).unwrap();
    assert_eq!(page.rows.iter().map(|summary| summary.started_at.0).collect::<Vec<_>>(), [4, 3]);
    node.rows(vec![started(5), started(6)]);
    let page = reader.list(&Filter::default(), page.next, 5).unwrap();
    assert_eq!(page.rows.iter().map(|summary| summary.started_at.0).collect::<Vec<_>>(), [2, 1]);
}

pub fn due_gives_sleepers_in_order_and_by_page(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let mut rows: Vec<Row> = (0..9).map(|n: i64| asleep(only(n as u128), 1, n / 3)).collect();
    let mut expected: Vec<Due> =
        rows.iter().map(|row| Due { at: row.wake.steady.unwrap(), execution: row.execution }).collect();
    expected.sort_unstable();
    rows.push(asleep(only(20), 1, 90));
    rows.push(Row { wake: Wake { steady: Some(at(1)), wall: None }, ..row(only(21)) });
    node.rows(rows);
    let mut reader = node.reader();
    for most in [1, 2, 4, 9, 50] {
        let mut found = Vec::new();
        loop {
            let page = reader.due(Shard(0), Clock::Steady, found.last().copied(), at(89), most).unwrap();
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(found, expected, "by {most}: not the one who is awake, nor the one after the time");
    }
    assert_eq!(reader.due(Shard(0), Clock::Steady, None, at(1), 50).unwrap(), expected[..6]);
}

pub fn due_follows_each_clock_and_shard(make: Make<'_>) {
    let mut home = make(2);
    let mut node = Node::on(&mut *home);
    let (one, two) = (execution(1, Shard(1), 2), execution(2, Shard(1), 2));
    let both = Wake { steady: Some(at(5)), wall: Some(at(7)) };
    let wall = Wake { steady: None, wall: Some(at(6)) };
    node.rows(vec![Row { wake: both, ..asleep(one, 1, 0) }, Row { wake: wall, ..asleep(two, 1, 0) }]);
    let mut reader = node.reader();
    let mut due = |shard, clock| reader.due(Shard(shard), clock, None, at(100), 10).unwrap();
    let is = |ms, execution| Due { at: at(ms), execution };
    assert_eq!(due(1, Clock::Steady), [is(5, one)]);
    assert_eq!(due(1, Clock::Wall), [is(6, two), is(7, one)]);
    assert_eq!(due(0, Clock::Steady), []);
    assert_eq!(due(0, Clock::Wall), []);
}

pub fn those_that_wait_are_listed_by_shard_and_page(make: Make<'_>) {
    let mut home = make(2);
    let mut node = Node::on(&mut *home);
    let mut ids: Vec<ExecutionId> = (1..=5).map(|n| execution(n, Shard(1), 2)).collect();
    ids.sort_unstable();
    let waiting = |id: &ExecutionId| Row { waits: true, ..asleep(*id, 1, 5) };
    let mut rows: Vec<Row> = ids.iter().map(waiting).collect();
    rows.push(Row { waits: true, ..row(execution(6, Shard(1), 2)) });
    rows.push(asleep(execution(7, Shard(1), 2), 1, 5));
    node.rows(rows);
    let mut reader = node.reader();
    assert_eq!(reader.waiting(Shard(1), None, 9).unwrap(), ids, "not who is awake, nor who only sleeps");
    assert_eq!(reader.waiting(Shard(1), Some(ids[1]), 2).unwrap(), ids[2..4]);
    assert_eq!(reader.waiting(Shard(0), None, 9).unwrap(), []);
    node.rows(vec![Row { waits: false, ..waiting(&ids[0]) }]);
    assert_eq!(reader.waiting(Shard(1), None, 9).unwrap(), ids[1..], "it sleeps for itself now");
}

pub fn those_that_are_held_are_listed_and_counted_and_wait(make: Make<'_>) {
    let mut home = make(2);
    let mut node = Node::on(&mut *home);
    let mut ids: Vec<ExecutionId> = (1..=4).map(|n| execution(n, Shard(1), 2)).collect();
    ids.sort_unstable();
    let held = |id: &ExecutionId| Row { held: true, ..asleep(*id, 1, 5) };
    let mut rows: Vec<Row> = ids.iter().map(held).collect();
    rows[3].machine = MachineId(9);
    rows.push(Row { waits: true, ..asleep(execution(5, Shard(1), 2), 1, 5) });
    rows.push(Row { held: true, ..row(execution(6, Shard(1), 2)) });
    let machine = rows[0].machine;
    node.rows(rows);
    let mut reader = node.reader();
    let page = reader.held(Shard(1), Some(ids[0]), 9).unwrap();
    assert_eq!(page, [(ids[1], machine), (ids[2], machine), (ids[3], MachineId(9))]);
    assert_eq!(reader.held(Shard(1), None, 1).unwrap(), [(ids[0], machine)]);
    assert_eq!(reader.held(Shard(0), None, 9).unwrap(), []);
    assert_eq!(reader.held_counts().unwrap(), [(machine, 3), (MachineId(9), 1)].into());
    assert_eq!(reader.waiting(Shard(1), None, 9).unwrap().len(), 5, "a new process has to look at them too");
    node.rows(vec![Row { held: false, ..held(&ids[0]) }]);
    assert_eq!(reader.held_counts().unwrap(), [(machine, 2), (MachineId(9), 1)].into());
}

/// An execution with 9 Turns: 1 to 4 in two segments, 5 to 6 in its tail, 7 to 9 in the journal, which also has those
/// of the tail, and Turns of other executions between them.
fn spread_out(node: &mut Node, who: ExecutionId) {
    let segment =
        |first, to| Segment { execution: who, first, turns: to - first + 1, bytes: history(who, first, to) };
    let content = Content { turns: 6, events: 6, state: None, tail_from: 5, tail: history(who, 5, 6) };
    let group = node.turns(&[(who, 5), (only(8), 1), (who, 6)]);
    node.commit(&Group {
        rows: vec![Row { content: Some(content), ..row(who) }],
        segments: vec![segment(1, 2), segment(3, 4)],
        ..group
    });
    for turns in [vec![(who, 7), (only(8), 2)], vec![(only(8), 3)], vec![(who, 8), (who, 9)]] {
        let group = node.turns(&turns);
        node.commit(&group);
    }
}

pub fn turns_stream_without_gap_or_repeat_from_anywhere(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let who = only(1);
    spread_out(&mut node, who);
    let mut reader = node.reader();
    for from in 1..=9 {
        for bytes_max in [1, 60, 1_000_000] {
            let mut found = Vec::new();
            loop {
                let next = from + found.len() as u64;
                let page = reader.turns(who, next, bytes_max).unwrap();
                if page.is_empty() {
                    break;
                }
                found.extend(page);
            }
            let expected: Vec<_> = (from..=9).map(|number| turn(who, number)).collect();
            assert_eq!(found, expected, "from {from} by {bytes_max} bytes");
        }
    }
    assert_eq!(reader.turns(who, 10, 1_000).unwrap(), []);
    assert_eq!(reader.turns(only(77), 1, 1_000).unwrap(), []);
}

pub fn turns_stop_at_about_the_bytes_asked_for(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let who = only(1);
    spread_out(&mut node, who);
    let size = turn(who, 1).body.len();
    let page = node.reader().turns(who, 2, size * 3).unwrap();
    assert!((3..=4).contains(&page.len()), "{} Turns", page.len());
    assert_eq!(node.reader().turns(who, 2, 0).unwrap().len(), 1, "never nothing");
}

pub fn turns_stream_backwards_from_anywhere(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let who = only(1);
    spread_out(&mut node, who);
    let mut reader = node.reader();
    for before in (1..=12).map(Some).chain([None]) {
        for bytes_max in [0, 60, 1_000_000] {
            let mut found: Vec<StoredTurn> = Vec::new();
            loop {
                let next = found.last().map(|turn| turn.number).or(before);
                let page = reader.turns_before(who, next, bytes_max).unwrap();
                if page.is_empty() {
                    break;
                }
                found.extend(page);
            }
            let last = before.map_or(9, |before: u64| (before - 1).min(9));
            let expected: Vec<_> = (1..=last).rev().map(|number| turn(who, number)).collect();
            assert_eq!(found, expected, "before {before:?} by {bytes_max} bytes");
        }
    }
    assert_eq!(
        reader.turns_before(who, None, 0).unwrap().len(),
        1,
        "never nothing, and no more than asked for"
    );
    assert_eq!(reader.turns_before(only(77), None, 1_000).unwrap(), []);
}

pub fn every_installation_has_a_secret_of_its_own(make: Make<'_>) {
    let mut home = make(1);
    let secret = home.handle().reader().unwrap().secret().unwrap();
    home.restart();
    assert_eq!(home.handle().reader().unwrap().secret().unwrap(), secret);
    assert_ne!(make(1).handle().reader().unwrap().secret().unwrap(), secret);
    assert_ne!(secret, [0; 32]);
}

pub fn an_execution_is_seen_with_its_newest_turns(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let mut reader = node.reader();
    assert!(reader.execution(only(1)).unwrap().is_none());
    let group = node.turns(&[(only(1), 1), (only(8), 1)]);
    node.commit(&group);
    let seen = reader.execution(only(1)).unwrap().expect("it is in the journal");
    assert!(seen.row.is_none());
    assert_eq!(seen.turns, [(node.position(1), turn(only(1), 1))]);
    let group = node.turns(&[(only(1), 2)]);
    node.commit(&Group { rows: vec![asleep(only(1), 2, 9)], ..group });
    let seen = reader.execution(only(1)).unwrap().unwrap();
    assert_eq!((seen.row, seen.turns), (Some(asleep(only(1), 2, 9)), vec![]));
    let group = node.turns(&[(only(1), 3)]);
    node.commit(&group);
    let seen = reader.execution(only(1)).unwrap().unwrap();
    assert_eq!(seen.row, Some(asleep(only(1), 2, 9)));
    assert_eq!(seen.turns, [(node.position(3), turn(only(1), 3))]);
}

pub fn readers_see_what_was_committed_before(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (mut here, mut there) = (node.reader(), home.handle().reader().unwrap());
    for number in 1..=5 {
        let group = node.turns(&[(only(1), number)]);
        node.commit(&Group { rows: vec![ended(only(1), number, 9)], ..group });
        for reader in [&mut here, &mut there] {
            let (row, _) = reader.row(only(1)).unwrap().expect("it was committed");
            assert_eq!(row.content.unwrap().turns, number);
            assert_eq!(reader.turns(only(1), 1, 10_000).unwrap().len() as u64, number);
        }
    }
}

pub fn stats_count_what_is_there(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let empty = node.reader().stats().unwrap();
    assert!(empty.executions.is_empty() && empty.ledger.is_empty() && empty.oldest_pending.is_none());
    let group = node.turns(&[(only(1), 1)]);
    node.commit(&Group { rows: vec![ended(only(1), 1, 2), row(only(2)), row(only(3))], ..group });
    let stats = node.reader().stats().unwrap();
    assert_eq!(stats.executions, [(Status::Running, 2), (Status::Succeeded, 1)]);
    assert_eq!(stats.totals, node.totals);
    let rows = |name: &str| stats.tables.iter().find(|(table, ..)| table == name).map(|(_, rows, _)| *rows);
    assert_eq!((rows("execution"), rows("journal"), rows("ledger")), (Some(3), Some(1), Some(0)));
    assert!(stats.bytes > 0);
}
