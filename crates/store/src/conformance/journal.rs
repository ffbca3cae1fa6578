//! Commits and the journal.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, ended, execution, ids, only, row, sorted, turn};
use crate::group::{Group, Row, Totals};
use crate::lease::{Position, Shard};
use crate::store::{CommitError, FailureKind, Retention};
use perdura_engine::Timestamp;

/// A retention under which everything that has ended goes.
const EVERYTHING: Retention =
    Retention { ended_before: Timestamp(i64::MAX), ledger_before: Timestamp(i64::MAX), bytes_max: None };

pub fn a_commit_is_all_or_nothing(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (one, two) = (only(1), only(2));
    let taken = Row { name: Some("a".into()), ..ended(one, 1, 5) };
    node.rows(vec![taken.clone()]);
    let group = node.turns(&[(two, 1)]);
    let rows = vec![ended(only(3), 1, 5), Row { execution: two, ..taken }];
    assert!(matches!(node.try_commit(&Group { rows, ..group }), Err(CommitError::Lost(_))));
    drop(node);
    home.restart();
    let mut node = Node::on(&mut *home);
    assert_eq!(node.recover().executions.len(), 0, "the Turn went with the row");
    assert!(node.reader().row(only(3)).unwrap().is_none(), "and so did the good row");
}

pub fn a_commit_of_one_who_has_ended_is_refused(make: Make<'_>) {
    let mut home = make(1);
    let mut old = Node::on(&mut *home);
    let one = only(1);
    let group = old.turns(&[(one, 1)]);
    old.commit(&group);
    let mut new = Node::on(&mut *home);
    let group = old.turns(&[(one, 2)]);
    let Err(CommitError::Fenced { held, newest }) = old.try_commit(&group) else { panic!("not fenced") };
    assert_eq!((held, newest), (old.lease.incarnation(), new.lease.incarnation()));
    let recovery = new.recover();
    assert_eq!(recovery.executions[0].turns, [(old.position(1), turn(one, 1))]);
    assert_eq!(recovery.next, new.position(1));
}

pub fn the_newest_row_tells_whether_a_commit_happened(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    assert_eq!(node.store.newest(&node.lease).unwrap(), node.position(0));
    for number in 1..=2 {
        let group = node.turns(&[(only(1), number)]);
        node.commit(&group);
        assert_eq!(node.store.newest(&node.lease).unwrap(), node.position(number));
    }
    node.move_on();
    assert_eq!(node.store.newest(&node.lease).unwrap(), node.position(3), "whatever went from the journal");
}

pub fn a_gap_or_a_repeat_in_the_journal_is_refused(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let one = only(1);
    for number in 1..=2 {
        let group = node.turns(&[(one, number)]);
        node.commit(&group);
    }
    for wrong in [1, 2, 4, 90] {
        node.next = node.position(wrong);
        let group = Group { rows: vec![row(only(9))], ..node.turns(&[(one, 3)]) };
        assert!(matches!(node.try_commit(&group), Err(CommitError::Lost(_))), "row {wrong} was taken");
    }
    assert_eq!(node.store.newest(&node.lease).unwrap(), node.position(2));
    drop(node);
    let mut node = Node::on(&mut *home);
    let recovery = node.recover();
    assert_eq!(ids(&recovery), [one], "nothing of them was kept");
    assert_eq!(recovery.executions[0].turns.len(), 2);
}

pub fn an_empty_journal_begins_at_one(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let recovery = node.recover();
    assert_eq!((recovery.next, recovery.totals), (node.position(1), Totals::default()));
    assert!(recovery.executions.is_empty() && recovery.damaged.is_empty());
}

pub fn turns_come_back_in_order(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (one, two) = (only(1), only(2));
    for turns in [vec![(one, 1), (two, 1), (one, 2)], vec![(two, 2)], vec![(one, 3), (one, 4)]] {
        let group = node.turns(&turns);
        node.commit(&group);
    }
    let before = node.next;
    drop(node);
    home.restart();
    let recovery = Node::on(&mut *home).recover();
    assert_eq!(ids(&recovery), sorted([one, two]));
    let of = |id| recovery.executions.iter().find(|recovered| recovered.execution == id).unwrap();
    let at = |row, id, number| (Position { number: row, ..before }, turn(id, number));
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
        let group = node.turns(&[(only(u128::from(started)), 1)]);
        node.commit(&Group { totals: Some(node.totals), ..group });
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
        let group = node.turns(&[(who, number)]);
        node.commit(&group);
    }
    node.keep_from = node.position(2);
    node.commit(&node.group());
    let recovery = node.recover();
    assert_eq!((ids(&recovery), recovery.next), (vec![two], node.position(4)), "only the first row went");
    node.keep_from = node.position(1_000);
    node.commit(&node.group());
    let recovery = node.recover();
    assert_eq!(recovery.next, node.position(4), "the newest row is still there");
    assert_eq!(recovery.totals.turns, 3);
}

pub fn a_damaged_journal_row_hides_nothing_else(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (one, two) = (only(1), only(2));
    let group = node.turns(&[(one, 1)]);
    node.commit(&group);
    let mut group = node.turns(&[(only(3), 1)]);
    let middle = group.journal.len() / 2;
    group.journal[middle] ^= 1;
    node.commit(&group);
    let group = node.turns(&[(two, 1), (one, 2)]);
    node.commit(&group);
    let recovery = node.recover();
    assert_eq!(ids(&recovery), sorted([one, two]));
    assert_eq!(recovery.next, node.position(4));
    let [(None, what)] = &recovery.damaged[..] else { panic!("{:?}", recovery.damaged) };
    assert!(what.contains(&format!("journal row {}", node.position(2))), "{what}");
}

pub fn an_execution_with_a_hole_is_damaged(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let (holed, twice, lost, whole) = (only(1), only(2), only(3), only(4));
    let group = node.turns(&[(holed, 1), (holed, 3), (twice, 1), (twice, 1), (whole, 1), (whole, 2)]);
    node.commit(&Group { rows: vec![row(lost)], ..group });
    let recovery = node.recover();
    assert_eq!(ids(&recovery), [whole]);
    let mut damaged: Vec<_> = recovery.damaged.iter().filter_map(|(who, _)| *who).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, sorted([holed, twice, lost]));
}

pub fn turns_come_back_in_order_over_several_lives(make: Make<'_>) {
    let mut home = make(1);
    let mut expected = Vec::new();
    for number in 1..=3 {
        let mut node = Node::on(&mut *home);
        assert_eq!(ids(&node.recover()).len(), usize::from(number > 1));
        let group = node.turns(&[(only(1), number)]);
        expected.push((group.position.expect("it has a Turn"), turn(only(1), number)));
        node.commit(&group);
    }
    home.restart();
    let mut node = Node::on(&mut *home);
    assert_eq!(node.recover().executions[0].turns, expected);
    assert_eq!(node.reader().execution(only(1)).unwrap().unwrap().turns, expected);
    // Its row covers all of it, and the old journal rows go with the next commit.
    node.rows(vec![ended(only(1), 3, 10)]);
    node.move_on();
    let sweeps = node.reader().sweepable(&EVERYTHING, None, 9).unwrap();
    assert_eq!(sweeps.going.len(), 1, "no journal has a Turn of it");
}

pub fn totals_of_all_lives_are_counted_once(make: Make<'_>) {
    let mut home = make(2);
    let mut one = Node::named(&mut *home, "one", 1);
    let mut two = Node::named(&mut *home, "two", 1);
    for (node, turns) in [(&mut one, 3), (&mut two, 4)] {
        node.totals.turns = turns - 1;
        let group = node.turns(&[(only(u128::from(turns)), 1)]);
        node.commit(&group);
    }
    assert_eq!(one.reader().stats().unwrap().totals.turns, 7);
    one.store.release(&one.lease).unwrap();
    assert_eq!(two.reader().stats().unwrap().totals.turns, 7, "nobody has followed it yet");
    let mut three = Node::named(&mut *home, "three", 2);
    assert_eq!((three.recover().totals.turns, three.reader().stats().unwrap().totals.turns), (3, 7));
    let mut all = Node::named(&mut *home, "three", 2);
    assert_eq!((all.recover().totals.turns, all.reader().stats().unwrap().totals.turns), (3, 7));
}

pub fn an_old_journal_stays_until_all_who_need_it_went_on(make: Make<'_>) {
    let mut home = make(2);
    let people = [execution(1, Shard(0), 2), execution(2, Shard(1), 2)];
    let mut dead = Node::on(&mut *home);
    let group = dead.turns(&people.map(|who| (who, 1)));
    dead.commit(&group);
    dead.store.release(&dead.lease).unwrap();
    let mut heirs = ["one", "two"].map(|name| Node::named(&mut *home, name, 1));
    for (heir, who) in heirs.iter_mut().zip(people) {
        assert_eq!(ids(&heir.recover()), [who], "each finds what is its own");
    }
    let [one, two] = &mut heirs;
    one.rows(vec![ended(people[0], 1, 5)]);
    one.move_on();
    assert_eq!((ids(&one.recover()), ids(&two.recover())), (vec![], vec![people[1]]));
    two.rows(vec![ended(people[1], 1, 5)]);
    two.move_on();
    assert_eq!(ids(&two.recover()), []);
    assert_eq!(two.reader().sweepable(&EVERYTHING, None, 9).unwrap().going.len(), 2, "no journal has them");
}

/// One execution whose second Turn is missing and was set aside, and a journal that went on without it.
fn set_aside(node: &mut Node) {
    let group = node.turns(&[(only(1), 1)]);
    node.commit(&group);
    let group = node.turns(&[(only(1), 3)]);
    node.commit(&group);
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
    // A store that can read it writes its row; then nothing stays aside.
    node.rows(vec![ended(only(1), 3, 10)]);
    assert_eq!(node.recover().damaged, []);
}

pub fn what_was_set_aside_and_is_spoilt_makes_nobody_whole(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    for number in [1, 3] {
        let group = node.turns(&[(only(1), number)]);
        node.commit(&group);
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
    let expected = format!("what was set aside of journal row {}: ", node.position(2));
    assert!(why.starts_with(&expected), "{why}");
    let failure = node.reader().turns(only(1), 1, usize::MAX).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Corrupt, "{failure}");
    assert_eq!(node.reader().left(only(1)).unwrap().turns.len(), 1, "what can be read is shown");
}

pub fn what_was_given_up_is_gone(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    set_aside(&mut node);
    assert!(node.store.give_up(&node.lease, only(1), None).unwrap());
    let recovery = node.recover();
    assert_eq!((recovery.damaged, recovery.executions.len()), (vec![], 0), "the journal still has its Turns");
    node.move_on();
    assert!(node.recover().damaged.is_empty());
    assert!(node.reader().left(only(1)).unwrap().turns.is_empty());
    assert!(!node.store.give_up(&node.lease, only(9), None).unwrap(), "there is no such execution");
}
