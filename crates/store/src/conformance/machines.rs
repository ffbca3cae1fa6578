//! Definitions.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, at};
use crate::store::{MachineRecord, NewMachine, Registered, Registry, Store};
use perdura_engine::asl::machine::MachineType;

fn deploy(store: &mut dyn Store, name: &str, definition: &str, when: i64) -> MachineRecord {
    let machine = NewMachine {
        name: name.into(),
        kind: MachineType::Standard,
        definition: definition.into(),
        at: at(when),
    };
    store.deploy(&machine).unwrap()
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
    let express =
        NewMachine { name: "m".into(), kind: MachineType::Express, definition: "{ }".into(), at: at(7) };
    let third = store.deploy(&express).unwrap();
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
    for one in
        [&bank, &entry(Registry::Connection, "airline", ""), &entry(Registry::Activity, "bank", "work")]
    {
        store.register(one).unwrap();
    }
    let again = Registered { created_at: at(9), body: b"second".to_vec(), ..bank };
    store.register(&again).unwrap();
    drop(store);
    home.restart();
    let mut reader = home.handle().reader().unwrap();
    let connections = reader.registered(Registry::Connection).unwrap();
    assert_eq!(
        connections,
        [entry(Registry::Connection, "airline", ""), again],
        "by name, the newest of each"
    );
    assert_eq!(reader.registered(Registry::Activity).unwrap(), [entry(Registry::Activity, "bank", "work")]);
}

pub fn what_is_unregistered_is_gone(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    store.register(&entry(Registry::Connection, "bank", "")).unwrap();
    assert!(!store.unregister(Registry::Activity, "bank").unwrap(), "the kind counts");
    assert!(store.unregister(Registry::Connection, "bank").unwrap());
    assert!(!store.unregister(Registry::Connection, "bank").unwrap());
    assert_eq!(store.reader().unwrap().registered(Registry::Connection).unwrap(), []);
}
