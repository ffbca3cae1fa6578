//! Entries of the audit are written with their change, and stay.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, at, ended, only};
use crate::audit::{
    AuditPage, AuditRow, Chain, DoorKind, Entries, Entry, Origin, Subject, Verb, Verified, read_hex,
};
use crate::group::Group;
use crate::lease::Shard;
use crate::machine::{Registered, Registry};
use crate::store::{CommitError, Reader};
use std::collections::BTreeMap;
use std::sync::Arc;

const SHARD: Chain = Chain::Shard(Shard(0));

/// A requester at this moment.
fn who(ms: i64) -> Arc<Origin> {
    Arc::new(Origin {
        at: at(ms),
        principal: "ann".into(),
        tenant: "default".into(),
        role: "admin".into(),
        door: DoorKind::V1,
        from: Some("10.0.0.7:50000".into()),
        operation: "startExecution".into(),
        key: None,
    })
}

/// This many starts at this moment.
fn starts(ms: i64, count: u128) -> BTreeMap<Shard, Entries> {
    let mut entries = Entries::default();
    for number in 0..count {
        entries.push(&Entry::done(&who(ms), Verb::Start, Subject::execution(only(number))));
    }
    BTreeMap::from([(Shard(0), entries)])
}

fn started(node: &mut Node, ms: i64, count: u128) {
    let group = node.turns(&[]);
    node.commit(&Group { audit: starts(ms, count), ..group });
}

fn connection(name: &str) -> Registered {
    Registered { kind: Registry::Connection, name: name.into(), created_at: at(0), body: vec![1] }
}

fn rows(node: &Node) -> Vec<AuditRow> {
    node.reader().audit(&AuditPage { bytes_max: usize::MAX, ..AuditPage::default() }).unwrap()
}

#[track_caller]
fn verified(reader: &mut dyn Reader) -> BTreeMap<Chain, Verified> {
    let verified = reader.verify_audit(&[], &mut |_| {}).unwrap().unwrap();
    verified.into_iter().map(|one| (one.chain, one)).collect()
}

pub fn an_entry_is_written_with_its_change_or_neither_is(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    let group = node.turns(&[(only(1), 1)]);
    let group = Group { rows: vec![ended(only(1), 1, 5)], audit: starts(5, 2), ..group };
    node.commit(&group);
    assert!(matches!(node.try_commit(&group), Err(CommitError::Lost(_))), "that row is there already");
    node.store.register(&connection("bank"), Some(&who(6))).unwrap();
    node.store.register(&connection("post"), None).unwrap();
    let rows = rows(&node);
    assert_eq!(
        rows.iter().map(|row| (row.chain, row.first, row.count)).collect::<Vec<_>>(),
        [(SHARD, 1, 2), (Chain::Catalog, 1, 1)]
    );
    let entry: Entry = serde_json::from_str(&rows[1].entries).unwrap();
    assert_eq!((&*entry.origin, entry.verb), (&*who(6), Verb::Put));
    assert!(!rows[1].entries.contains("body"), "what a connection says is a secret");
    assert_eq!(verified(&mut *node.reader())[&SHARD].entries, 2);
}

pub fn a_chain_goes_on_in_the_next_life(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    started(&mut node, 1, 3);
    drop(node);
    home.restart();
    let mut node = Node::named(&mut *home, "tester", 1);
    started(&mut node, 2, 2);
    let rows = rows(&node);
    assert_eq!(rows[0].previous, [0; 32]);
    assert_eq!((rows[1].first, rows[1].previous), (4, rows[0].hash));
    let Verified { rows, entries, first, last, .. } = verified(&mut *node.reader()).remove(&SHARD).unwrap();
    assert_eq!((rows, entries, first, last), (2, 5, 1, 5));
}

pub fn who_has_ended_adds_nothing(make: Make<'_>) {
    let mut home = make(1);
    let mut ended = Node::on(&mut *home);
    let mut node = Node::on(&mut *home);
    started(&mut node, 1, 1);
    let group = ended.turns(&[]);
    let late = ended.try_commit(&Group { audit: starts(2, 1), ..group });
    assert!(matches!(late, Err(CommitError::Fenced { .. })));
    assert_eq!(rows(&node).len(), 1);
}

pub fn pages_of_the_audit_meet_from_either_end(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    for ms in 1..=7 {
        started(&mut node, ms * 10, 1);
    }
    for newest_first in [false, true] {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let page = AuditPage { after, newest_first, bytes_max: 1, ..AuditPage::default() };
            let found = node.reader().audit(&page).unwrap();
            let Some(last) = found.last() else { break };
            after = Some(last.id);
            ids.extend(found.iter().map(|row| row.from_at.0));
        }
        ids.sort_unstable_by_key(|ms| if newest_first { -ms } else { *ms });
        assert_eq!(ids.len(), 7);
    }
    let page =
        AuditPage { since: Some(at(30)), until: Some(at(50)), bytes_max: 9_999, ..AuditPage::default() };
    let found: Vec<i64> = node.reader().audit(&page).unwrap().iter().map(|row| row.from_at.0).collect();
    assert_eq!(found, [30, 40, 50]);
}

pub fn the_audit_is_cut_at_its_old_end_alone(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    for ms in [10, 20, 15, 30] {
        started(&mut node, ms, 2);
    }
    let before = rows(&node);
    assert_eq!(
        node.store.cut_audit(at(16), 9, &who(99)).unwrap(),
        1,
        "15 stands behind 20, and stays as long"
    );
    let after = rows(&node);
    assert_eq!(after[..3], before[1..]);
    let cut: Entry = serde_json::from_str(&after[3].entries).unwrap();
    assert_eq!((cut.verb, cut.subject), (Verb::Cut, Subject::Audit { chain: SHARD }));
    let chain = verified(&mut *node.reader()).remove(&SHARD).unwrap();
    assert_eq!((chain.first, chain.last, chain.entries), (3, 8, 6));
    assert_eq!(node.store.cut_audit(at(16), 9, &who(99)).unwrap(), 0);
    assert_eq!(node.store.cut_audit(at(98), 2, &who(99)).unwrap(), 2, "a slice is bounded");
    verified(&mut *node.reader());
    assert_eq!(node.store.cut_audit(at(98), 9, &who(99)).unwrap(), 1);
    started(&mut node, 100, 1);
    let chain = verified(&mut *node.reader()).remove(&SHARD).unwrap();
    assert_eq!((chain.first, chain.entries), (9, 1), "numbers go on");
}

pub fn a_hash_that_was_noted_is_found_as_long_as_its_row_is_kept(make: Make<'_>) {
    let mut home = make(1);
    let mut node = Node::on(&mut *home);
    started(&mut node, 1, 1);
    let noted = read_hex(&verified(&mut *node.reader())[&SHARD].head).unwrap();
    started(&mut node, 2, 1);
    let look = |hash| node.reader().verify_audit(&[(SHARD, hash)], &mut |_| {}).unwrap();
    assert!(look(noted).is_ok());
    let missing = look([7; 32]).unwrap_err();
    assert!(missing.to_string().contains("no row with the hash 0707"), "{missing}");
}
