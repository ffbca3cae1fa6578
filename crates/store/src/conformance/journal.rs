//! Commits and the journal.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, at, body, ended, execution, ids, only, row, sorted, turn};
use crate::group::{Group, Part, Totals};
use crate::lease::{Position, Shard};
use crate::record::JournalWriter;
use crate::store::{CommitError, FailureKind};
use std::sync::Arc;

pub fn a_commit_is_all_or_nothing(make: Make<'_>) {
    let mut home = make(2);
    let mut node = Node::of(&mut *home, Shard(0));
    let mut late = Node::of(&mut *home, Shard(1));
    // The second node took both Shards over, so the first one's part is late.
    let (one, two) = (execution(1, Shard(0), 2), execution(2, Shard(1), 2));
    let fenced = Part { rows: vec![ended(one, 1, 5)], ..node.turns(&[(one, 1)]) };
    let good = Part { rows: vec![ended(two, 1, 5)], ..late.turns(&[(two, 1)]) };
    let result = late.store.commit(&Group { parts: vec![good, fenced] });
    assert!(matches!(result, Err(CommitError::Fenced { shard: Shard(0), .. })), "{result:?}");
    let recovery = late.recover();
    assert_eq!((recovery.next, recovery.executions.len()), (Position(1), 0), "the good part went with it");
    assert!(late.reader().row(two).unwrap().is_none());
    assert!(node.reader().execution(one).unwrap().is_none());
}

pub fn a_commit_under_an_old_epoch_is_refused(make: Make<'_>) {
    let mut home = make(1);
    let mut old = Node::on(&mut *home);
    let one = only(1);
    let part = old.turns(&[(one, 1)]);
    old.commit(part);
    let mut new = Node::on(&mut *home);
    let part = old.turns(&[(one, 2)]);
    let Err(CommitError::Fenced { held, newest, .. }) = old.try_commit(part) else { panic!("not fenced") };
    assert_eq!((held, newest), (old.lease.epoch(), new.lease.epoch()));
    let recovery = new.recover();
    assert_eq!(recovery.executions[0].turns, [(Position(1), turn(one, 1))]);
    assert_eq!(recovery.next, Position(2));
}

pub fn a_gap_or_a_repeat_in_the_journal_is_refused(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let one = only(1);
    for number in 1..=2 {
        let part = node.turns(&[(one, number)]);
        node.commit(part);
    }
    for wrong in [1, 2, 4, 90] {
        node.next = Position(wrong);
        let part = Part { rows: vec![row(only(9))], ..node.turns(&[(one, 3)]) };
        assert!(matches!(node.try_commit(part), Err(CommitError::Lost(_))), "row {wrong} was taken");
    }
    drop(node);
    let mut node = Node::on(&mut *home);
    let recovery = node.recover();
    assert_eq!((recovery.next, ids(&recovery)), (Position(3), vec![one]), "nothing of them was kept");
    assert_eq!(recovery.executions[0].turns.len(), 2);
}

pub fn an_empty_shard_begins_at_one(make: Make<'_>) {
    let mut home = make(1);
    let recovery = Node::on(&mut *home).recover();
    assert_eq!((recovery.next, recovery.totals), (Position(1), Totals::default()));
    assert!(recovery.executions.is_empty() && recovery.damaged.is_empty());
}

pub fn turns_come_back_in_order(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (one, two) = (only(1), only(2));
    for turns in [vec![(one, 1), (two, 1), (one, 2)], vec![(two, 2)], vec![(one, 3), (one, 4)]] {
        let part = node.turns(&turns);
        node.commit(part);
    }
    drop(node);
    home.restart();
    let recovery = Node::on(&mut *home).recover();
    assert_eq!(recovery.next, Position(4));
    assert_eq!(ids(&recovery), sorted([one, two]));
    let of = |id| recovery.executions.iter().find(|recovered| recovered.execution == id).unwrap();
    let at = |position, id, number| (Position(position), turn(id, number));
    assert_eq!(of(one).turns, [at(1, one, 1), at(1, one, 2), at(3, one, 3), at(3, one, 4)]);
    assert_eq!(of(two).turns, [at(1, two, 1), at(2, two, 2)]);
    assert!(of(one).row.is_none());
    assert_eq!(of(one).unsegmented_from, 1);
}

pub fn totals_come_back_with_the_last_row(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    for started in [3, 5] {
        node.totals = Totals { started, outcomes_late: started + 1, ..node.totals };
        let part = node.turns(&[(only(u128::from(started)), 1)]);
        node.commit(Part { totals: Some(node.totals), ..part });
    }
    let totals = node.totals;
    node.move_on();
    drop(node);
    home.restart();
    let mut node = Node::on(&mut *home);
    assert_eq!(node.recover().totals, totals);
    assert_eq!(node.reader().stats().unwrap().totals, totals);
}

pub fn journal_rows_go_but_never_the_newest(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (one, two) = (only(1), only(2));
    for (who, number) in [(one, 1), (two, 1), (two, 2)] {
        let part = node.turns(&[(who, number)]);
        node.commit(part);
    }
    node.keep_from = Position(2);
    node.commit(node.part());
    let recovery = node.recover();
    assert_eq!((ids(&recovery), recovery.next), (vec![two], Position(4)), "only the first row went");
    node.keep_from = Position(1_000);
    node.commit(node.part());
    let recovery = node.recover();
    assert_eq!(recovery.next, Position(4), "the newest row is still there");
    assert_eq!(recovery.totals.turns, 3);
}

pub fn a_damaged_journal_row_hides_nothing_else(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (one, two) = (only(1), only(2));
    let part = node.turns(&[(one, 1)]);
    node.commit(part);
    let mut part = node.turns(&[(only(3), 1)]);
    let middle = part.journal.len() / 2;
    part.journal[middle] ^= 1;
    node.commit(part);
    let part = node.turns(&[(two, 1), (one, 2)]);
    node.commit(part);
    let recovery = node.recover();
    assert_eq!(ids(&recovery), sorted([one, two]));
    assert_eq!(recovery.next, Position(4));
    let [(None, what)] = &recovery.damaged[..] else { panic!("{:?}", recovery.damaged) };
    assert!(what.contains("journal row 2"), "{what}");
}

pub fn an_execution_with_a_hole_is_damaged(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (holed, twice, lost, whole) = (only(1), only(2), only(3), only(4));
    let part = node.turns(&[(holed, 1), (holed, 3), (twice, 1), (twice, 1), (whole, 1), (whole, 2)]);
    node.commit(Part { rows: vec![row(lost)], ..part });
    let recovery = node.recover();
    assert_eq!(ids(&recovery), [whole]);
    let mut damaged: Vec<_> = recovery.damaged.iter().filter_map(|(who, _)| *who).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, sorted([holed, twice, lost]));
}

pub fn two_shards_in_one_commit_do_not_mix(make: Make<'_>) {
    let mut home = make(2);
    let mut store = home.handle();
    let leases = store.acquire(&Arc::from("tester"), at(0), at(1_000)).unwrap();
    let people = [execution(1, Shard(0), 2), execution(2, Shard(1), 2)];
    let parts = leases.iter().zip(people).map(|(lease, who)| {
        let mut journal = JournalWriter::new(&Totals { turns: 1, ..Totals::default() });
        journal.push(who, 1, &body(who, 1));
        Part {
            lease: lease.clone(),
            position: Some(Position(1)),
            journal: journal.seal(),
            keep_from: Position(1),
            rows: Vec::new(),
            segments: Vec::new(),
            ledger: Vec::new(),
            map_runs: Vec::new(),
            totals: None,
        }
    });
    store.commit(&Group { parts: parts.collect() }).unwrap();
    for (lease, who) in leases.iter().zip(people) {
        let recovery = store.recover(lease).unwrap();
        assert_eq!((ids(&recovery), recovery.next), (vec![who], Position(2)));
    }
    assert_eq!(store.reader().unwrap().stats().unwrap().totals.turns, 2);
}

/// One execution whose second Turn is missing, set aside, and a journal that has gone on without it.
fn set_aside(node: &mut Node) {
    let part = node.turns(&[(only(1), 1)]);
    node.commit(part);
    let part = node.turns(&[(only(1), 3)]);
    node.commit(part);
    let recovery = node.recover();
    assert_eq!(recovery.damaged.len(), 1, "{recovery:?}");
    assert_eq!(recovery.aside.len(), 2, "{recovery:?}");
    for _ in 0..2 {
        node.store.set_aside(&node.lease, &recovery.aside).unwrap();
    }
}

pub fn what_was_set_aside_is_there_when_the_journal_has_gone_on(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    set_aside(&mut node);
    let numbers = |node: &Node| -> Vec<u64> {
        let left = node.reader().left(only(1)).unwrap();
        left.turns.iter().map(|turn| turn.number).collect()
    };
    assert_eq!(numbers(&node), [1, 3]);
    node.move_on();
    assert_eq!(numbers(&node), [1, 3]);
    let recovery = node.recover();
    assert_eq!(recovery.damaged.iter().map(|(who, _)| *who).collect::<Vec<_>>(), [Some(only(1))]);
    // Whoever can read it writes its row, and then nothing is kept aside.
    node.rows(vec![ended(only(1), 3, 10)]);
    assert_eq!(node.recover().damaged, []);
}

pub fn what_was_set_aside_and_is_spoilt_makes_nobody_whole(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    for number in [1, 3] {
        let part = node.turns(&[(only(1), number)]);
        node.commit(part);
    }
    let mut aside = node.recover().aside;
    let last = aside.last_mut().unwrap().turns.last_mut().unwrap();
    *last ^= 1;
    node.store.set_aside(&node.lease, &aside).unwrap();
    node.move_on();
    let recovery = node.recover();
    assert_eq!(recovery.executions.len(), 0, "Turn 1 alone is not the execution");
    let [(Some(who), why)] = &*recovery.damaged else { panic!("{recovery:?}") };
    assert_eq!(*who, only(1));
    assert!(why.starts_with("what was set aside of journal row 2: "), "{why}");
    let failure = node.reader().turns(only(1), 1, usize::MAX).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Corrupt, "{failure}");
    assert_eq!(node.reader().left(only(1)).unwrap().turns.len(), 1, "what can be read is shown");
}

pub fn what_was_given_up_is_gone(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    set_aside(&mut node);
    assert!(node.store.give_up(&node.lease, only(1)).unwrap());
    let recovery = node.recover();
    assert_eq!((recovery.damaged, recovery.executions.len()), (vec![], 0), "the journal still has its Turns");
    node.move_on();
    assert!(node.recover().damaged.is_empty());
    assert!(node.reader().left(only(1)).unwrap().turns.is_empty());
    assert!(!node.store.give_up(&node.lease, only(9)).unwrap(), "there is no such execution");
}
