//! One SQLite file: the suite, and what is about files.

use crate::bench::{self, Folder};
use perdura_inbox::conformance::{address, put, wish};
use perdura_inbox::store::sqlite::{Options, put_in};
use perdura_inbox::store::{Sqlite, Store, StoreError};
use perdura_inbox::{Receipt, Status};
use rusqlite::Connection;
use std::future::ready;

perdura_inbox::store_conformance!(|| ready(bench::sqlite()));

#[tokio::test]
async fn a_file_that_is_opened_again_knows_everything() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    store.put(&put("1")).await.expect("putting");
    let claimed = store.claim(&wish("a", 1)).await.expect("claiming");
    drop(store);
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening again");
    let found = store.look(&address("1")).await.expect("looking").expect("it is there");
    assert_eq!(found, claimed[0]);
    let receipt = store.put(&put("1")).await.expect("putting");
    assert!(matches!(receipt, Receipt::Duplicate(row) if row.status == Status::Doing));
}

#[tokio::test]
async fn a_file_of_a_later_version_is_refused() {
    let folder = Folder::new();
    drop(Sqlite::open(folder.file(), &Options::default()).expect("opening"));
    let file = Connection::open(folder.file()).expect("opening");
    file.execute("UPDATE inbox_meta SET value = 2 WHERE key = 'version'", []).expect("updating");
    let refused = Sqlite::open(folder.file(), &Options::default()).err().expect("is refused");
    assert!(matches!(&refused, StoreError::Unfit(why) if why.contains("version 2")), "{refused}");
}

#[tokio::test]
async fn a_damaged_row_is_told_with_its_number() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    store.put(&put("1")).await.expect("putting");
    let file = Connection::open(folder.file()).expect("opening");
    file.execute("UPDATE inbox_row SET fingerprint = x'00'", []).expect("updating");
    let told = store.claim(&wish("a", 1)).await;
    assert!(matches!(told, Err(StoreError::Corrupt { number: 1, .. })), "{told:?}");
    store.put(&put("2")).await.expect("others go on");
}

#[tokio::test]
async fn a_message_put_in_a_callers_transaction_is_there_if_that_commits() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    let mut program = Connection::open(folder.file()).expect("opening");
    for (id, commits) in [("1", false), ("2", true)] {
        let transaction = program.transaction().expect("beginning");
        assert!(matches!(put_in(&transaction, &put(id)).expect("putting"), Receipt::Accepted(_)));
        if commits {
            transaction.commit().expect("committing");
        }
        let found = store.look(&address(id)).await.expect("looking");
        assert_eq!(found.is_some(), commits);
    }
}

#[tokio::test]
async fn a_connection_of_the_programs_own_is_used() {
    let connection = Connection::open_in_memory().expect("opening");
    let store = Sqlite::over(connection, &Options::default()).expect("making the tables");
    store.put(&put("1")).await.expect("putting");
    assert_eq!(store.claim(&wish("a", 1)).await.expect("claiming").len(), 1);
}
