//! Definitions.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, at};
use crate::group::{MachineId, RevisionId};
use crate::machine::{
    Head, MachineChange, MachineRecord, NewMachine, NewRevision, Registered, Registry, Revised,
};
use crate::store::Store;
use perdura_engine::asl::machine::MachineType;
use std::sync::Arc;

fn new(name: &str, definition: &str, when: i64) -> NewMachine {
    NewMachine {
        name: name.into(),
        kind: MachineType::Standard,
        definition: definition.into(),
        role_arn: None,
        settings: None,
        at: at(when),
    }
}

fn deploy(store: &mut dyn Store, name: &str, definition: &str, when: i64) -> MachineRecord {
    store.deploy(&new(name, definition, when), None).unwrap()
}

fn head(store: &dyn Store, name: &str) -> Option<Head> {
    store.reader().unwrap().head(name).unwrap()
}

/// Changes a machine if it is as it was seen; without a card the machine is deleted.
fn revise(
    store: &mut dyn Store,
    name: &str,
    seen: Option<u64>,
    definition: Option<(&str, i64)>,
    card: Option<&str>,
) -> Revised {
    let revision = definition.map(|(definition, when)| new(name, definition, when).revision());
    let card = |_| card.map(Arc::from);
    store.revise(&MachineChange { name: name.into(), seen, revision, card: &card }, None).unwrap()
}

pub fn the_same_definition_again_is_one_revision(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let first = deploy(&mut *store, "m", "{}", 5);
    assert_eq!((&*first.name, &*first.definition, first.created_at), ("m", "{}", at(5)));
    assert_eq!(deploy(&mut *store, "m", "{}", 9), first, "it stays as it was first given");
    assert_eq!(deploy(&mut *home.handle(), "m", "{}", 9), first);
    drop(store);
    home.restart();
    assert_eq!(deploy(&mut *home.handle(), "m", "{}", 9), first);
}

pub fn a_changed_definition_is_a_new_revision(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let first = deploy(&mut *store, "m", "{}", 5);
    let second = deploy(&mut *store, "m", "{ }", 6);
    assert_eq!(second.machine, first.machine);
    assert!(second.revision > first.revision);
    let express = NewMachine { kind: MachineType::Express, ..new("m", "{ }", 7) };
    let third = store.deploy(&express, None).unwrap();
    assert!(third.machine == first.machine && third.revision > second.revision, "the kind counts too");
    let mut reader = store.reader().unwrap();
    assert_eq!(reader.machine("m").unwrap(), Some(third));
    assert_eq!(reader.revision(first.revision).unwrap(), Some(first));
    assert_eq!(reader.machine("n").unwrap(), None);
}

pub fn going_back_to_a_definition_is_a_new_revision(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let first = deploy(&mut *store, "m", "1", 1);
    deploy(&mut *store, "m", "2", 2);
    let third = deploy(&mut *store, "m", "1", 3);
    assert!(third.revision > first.revision);
    assert_eq!(store.reader().unwrap().machine("m").unwrap(), Some(third), "the newest one counts");
}

pub fn role_and_settings_belong_to_a_definition(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let plain = deploy(&mut *store, "m", "{}", 5);
    let role = NewMachine { role_arn: Some("r".into()), ..new("m", "{}", 6) };
    let set = NewMachine { settings: Some(r#"{"tracing":true}"#.into()), ..role.clone() };
    let (role, set) = (store.deploy(&role, None).unwrap(), store.deploy(&set, None).unwrap());
    assert!(plain.revision < role.revision && role.revision < set.revision, "each is another definition");
    drop(store);
    home.restart();
    let mut reader = home.handle().reader().unwrap();
    for record in [plain, role, set.clone()] {
        assert_eq!(reader.revision(record.revision).unwrap(), Some(record));
    }
    assert_eq!(reader.machine("m").unwrap(), Some(set));
}

pub fn a_head_follows_what_is_deployed(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    assert_eq!(head(&*store, "m"), None);
    let first = deploy(&mut *store, "m", "1", 5);
    let made = head(&*store, "m").unwrap();
    let expected = Head {
        machine: first.machine,
        name: "m".into(),
        kind: MachineType::Standard,
        revision: first.revision,
        created_at: at(5),
        changed: made.changed,
        card: "{}".into(),
    };
    assert_eq!(made, expected);
    deploy(&mut *store, "m", "1", 6);
    assert_eq!(head(&*store, "m"), Some(made.clone()), "the same again changes nothing");
    revise(&mut *store, "m", Some(made.changed), None, Some("card"));
    let second = deploy(&mut *store, "m", "2", 7);
    drop(store);
    home.restart();
    let now = head(&*home.handle(), "m").unwrap();
    assert_eq!((now.revision, now.created_at, &*now.card), (second.revision, at(5), "card"));
    assert!(now.changed > made.changed + 1);
}

pub fn a_change_counts_only_on_what_was_seen(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let Revised::Stands(made) = revise(&mut *store, "m", None, Some(("1", 5)), Some("a")) else {
        panic!("there was nothing to be in the way")
    };
    assert_eq!((made.created_at, &*made.card), (at(5), "a"));
    let late = revise(&mut *store, "m", None, Some(("2", 6)), Some("b"));
    assert_eq!(late, Revised::Otherwise(Some(made.clone())), "somebody made it meanwhile");
    let Revised::Stands(changed) = revise(&mut *store, "m", Some(made.changed), None, Some("c")) else {
        panic!("it was as it was seen")
    };
    assert_eq!(changed, Head { changed: changed.changed, card: "c".into(), ..made.clone() });
    assert!(changed.changed > made.changed);
    for card in [Some("d"), None] {
        let late = revise(&mut *home.handle(), "m", Some(made.changed), Some(("3", 7)), card);
        assert_eq!(late, Revised::Otherwise(Some(changed.clone())));
    }
    assert_eq!(head(&*store, "m"), Some(changed));
    let mut reader = store.reader().unwrap();
    assert_eq!(&*reader.machine("m").unwrap().unwrap().definition, "1");
    assert_eq!(reader.revision(RevisionId(made.revision.0 + 1)).unwrap(), None, "nothing was kept of them");
}

pub fn a_card_is_written_for_the_definition_that_counts_then(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let seen = deploy(&mut *store, "m", "1", 5);
    let change = |revision: Option<NewRevision>| MachineChange {
        name: "m".into(),
        seen: None,
        revision,
        card: &|counts| Some(counts.0.to_string().into()),
    };
    for revision in [None, Some(new("m", "1", 6).revision())] {
        let seen = head(&*store, "m").map(|head| head.changed);
        let change = MachineChange { seen, ..change(revision) };
        let Revised::Stands(head) = store.revise(&change, None).unwrap() else {
            panic!("it was as it was seen")
        };
        assert_eq!(*head.card, *head.revision.0.to_string());
    }
    let counts = head(&*store, "m").unwrap();
    assert!(counts.revision > seen.revision, "the same definition again is another one if it is given");
}

pub fn a_machine_that_goes_keeps_its_id_and_its_definitions(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let old = deploy(&mut *store, "m", "1", 5);
    let seen = head(&*store, "m").unwrap().changed;
    assert_eq!(revise(&mut *store, "m", Some(seen), None, None), Revised::Gone);
    assert_eq!(revise(&mut *store, "m", Some(seen), None, None), Revised::Otherwise(None));
    assert_eq!(revise(&mut *store, "m", None, None, Some("a")), Revised::Gone, "nothing defines it");
    drop(store);
    home.restart();
    let mut store = home.handle();
    let mut reader = store.reader().unwrap();
    assert_eq!((reader.head("m").unwrap(), reader.machine("m").unwrap()), (None, None));
    assert_eq!((reader.heads(None, 9).unwrap(), reader.machines().unwrap()), (vec![], vec![]));
    assert_eq!(reader.revision(old.revision).unwrap().as_ref(), Some(&old), "executions still need it");
    assert_eq!(reader.machine_name(old.machine).unwrap().as_deref(), Some("m"), "and are listed by its name");
    assert_eq!(reader.machine_name(MachineId(77)).unwrap(), None);
    let again = deploy(&mut *store, "m", "1", 9);
    assert!(again.machine == old.machine && again.revision > old.revision);
    let head = head(&*store, "m").unwrap();
    assert_eq!((head.created_at, &*head.card), (at(9), "{}"), "it is another machine by the same name");
    assert!(head.changed > seen + 1, "what was seen of the old one does not count for the new one");
}

pub fn heads_are_listed_by_name_and_page(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    for name in ["c", "a", "e", "b", "d"] {
        deploy(&mut *store, name, "1", 1);
    }
    let seen = head(&*store, "b").unwrap().changed;
    revise(&mut *store, "b", Some(seen), None, None);
    let mut reader = store.reader().unwrap();
    let mut page = |after, most| {
        let heads = reader.heads(after, most).unwrap();
        heads.iter().map(|head| head.name.to_string()).collect::<String>()
    };
    assert_eq!([page(None, 9), page(None, 2), page(Some("a"), 2)], ["acde", "ac", "cd"]);
    assert_eq!([page(Some("b"), 1), page(Some("e"), 9), page(None, 0)], ["c", "", ""]);
    assert_eq!(reader.machine_count().unwrap(), 4, "what is gone does not count");
}

pub fn machines_are_listed_by_name(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    for name in ["b", "a", "c"] {
        deploy(&mut *store, name, "1", 1);
    }
    let newest = deploy(&mut *store, "a", "2", 2);
    let machines = store.reader().unwrap().machines().unwrap();
    assert_eq!(machines.iter().map(|record| &*record.name).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(machines[0], newest);
}

fn entry(kind: Registry, name: &str, body: &str) -> Registered {
    Registered { kind, name: name.into(), created_at: at(3), body: body.into() }
}

pub fn what_is_registered_is_kept_by_kind_and_name(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let bank = entry(Registry::Connection, "bank", "first");
    for one in [
        &bank,
        &entry(Registry::Connection, "airline", ""),
        &entry(Registry::Activity, "bank", "work"),
        &entry(Registry::DeletedActivity, "bank", "gone"),
        &entry(Registry::Token, "bank", "hash"),
    ] {
        store.register(one, None).unwrap();
    }
    let again = Registered { created_at: at(9), body: b"second".to_vec(), ..bank };
    store.register(&again, None).unwrap();
    drop(store);
    home.restart();
    let mut reader = home.handle().reader().unwrap();
    let connections = reader.registered(Registry::Connection, None, 9).unwrap();
    assert_eq!(
        connections,
        [entry(Registry::Connection, "airline", ""), again],
        "by name, the newest of each"
    );
    let work = entry(Registry::Activity, "bank", "work");
    assert_eq!(reader.registered(Registry::Activity, None, 9).unwrap(), std::slice::from_ref(&work));
    assert_eq!(reader.registered_one(Registry::Activity, "bank").unwrap(), Some(work));
    assert_eq!(reader.registered_one(Registry::Activity, "airline").unwrap(), None);
    let gone = entry(Registry::DeletedActivity, "bank", "gone");
    assert_eq!(reader.registered(Registry::DeletedActivity, None, 9).unwrap(), [gone]);
    let token = entry(Registry::Token, "bank", "hash");
    assert_eq!(reader.registered(Registry::Token, None, 9).unwrap(), [token]);
}

pub fn what_is_registered_is_read_by_page(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    for (kind, name) in [
        (Registry::Activity, "b"),
        (Registry::Connection, "x"),
        (Registry::Activity, "a"),
        (Registry::Activity, "c"),
    ] {
        store.register(&entry(kind, name, ""), None).unwrap();
    }
    let mut reader = store.reader().unwrap();
    let mut page = |kind, after, most| {
        let found = reader.registered(kind, after, most).unwrap();
        found.iter().map(|entry| entry.name.to_string()).collect::<String>()
    };
    assert_eq!([page(Registry::Activity, None, 2), page(Registry::Activity, Some("b"), 2)], ["ab", "c"]);
    assert_eq!([page(Registry::Connection, None, 9), page(Registry::Activity, Some("c"), 9)], ["x", ""]);
}

pub fn what_is_unregistered_is_gone(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    store.register(&entry(Registry::Connection, "bank", ""), None).unwrap();
    assert!(!store.unregister(Registry::Activity, "bank", None).unwrap(), "the kind counts");
    assert!(store.unregister(Registry::Connection, "bank", None).unwrap());
    assert!(!store.unregister(Registry::Connection, "bank", None).unwrap());
    assert_eq!(store.reader().unwrap().registered(Registry::Connection, None, 9).unwrap(), []);
}
