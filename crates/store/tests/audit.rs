//! The audit in a file: what somebody changes there behind our back is found.

mod folder;

use folder::TempFolder;
use perdura_engine::{ExecutionId, Timestamp};
use perdura_store::audit::{Broken, Chain, DoorKind, Entries, Entry, Origin, Subject, Verb, Verified};
use perdura_store::record::JournalWriter;
use perdura_store::sqlite::{News, check};
use perdura_store::{
    Catalog, Claim, CommitError, Failure, FailureKind, Group, Position, Reader, Registered, Registry, Shard,
    SqliteOptions, SqliteReader, SqliteStore, Store, Totals,
};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn who(at: i64) -> Arc<Origin> {
    Arc::new(Origin {
        at: Timestamp(at),
        principal: "ann".into(),
        tenant: "default".into(),
        role: "admin".into(),
        door: DoorKind::Aws,
        from: Some("10.0.0.7:50000".into()),
        operation: "StartExecution".into(),
        key: None,
    })
}

/// So many commits with so many starts each, and a change of what everybody changes.
fn fill(folder: &Path, commits: u64, starts: u64) {
    let mut store = SqliteStore::open(folder, SqliteOptions::default()).unwrap();
    let claim = Claim { holder: "a".into(), most: 1, now: Timestamp(0), expires_at: Timestamp(i64::MAX) };
    let lease = store.acquire(&claim).unwrap();
    let mut position = Position::before(lease.incarnation()).next();
    for commit in 0..commits {
        let mut entries = Entries::default();
        for start in 0..starts {
            let execution = ExecutionId::from_random(u128::from(commit * starts + start));
            entries.push(&Entry::done(&who(commit as i64), Verb::Start, Subject::execution(execution)));
        }
        let journal = JournalWriter::new(&Totals::default()).seal();
        let audit = BTreeMap::from([(Shard(0), entries)]);
        let group = Group::under(lease.clone());
        let group = Group { position: Some(position), keep_from: position, journal, audit, ..group };
        store.commit(&group).unwrap();
        position = position.next();
    }
    let token =
        Registered { kind: Registry::Token, name: "t".into(), created_at: Timestamp(0), body: vec![] };
    store.register(&token, Some(&who(0))).unwrap();
}

fn verify(folder: &Path) -> Result<Result<Vec<Verified>, Broken>, Failure> {
    SqliteReader::open(folder).unwrap().verify_audit(&[], &mut |_| {})
}

/// What a check of all the data says is broken.
fn findings(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut tell = |news| match news {
        News::Found(finding) => found.push(finding.what),
        News::Progress { .. } => {}
    };
    check(folder, &mut tell).unwrap();
    found
}

/// A copy of the data, as a file that somebody edits.
fn copy(folder: &Path) -> (TempFolder, Connection) {
    let copy = TempFolder::new();
    fs::copy(folder.join("perdura.db"), copy.path().join("perdura.db")).unwrap();
    let file = Connection::open(copy.path().join("perdura.db")).unwrap();
    (copy, file)
}

#[test]
fn a_change_in_any_column_is_found_and_its_row_named() {
    let folder = TempFolder::new();
    fill(folder.path(), 5, 3);
    assert!(verify(folder.path()).unwrap().is_ok());
    assert_eq!(findings(folder.path()), [""; 0]);
    for (column, changed) in [
        ("id", "id + 128"),
        ("chain", "-1"),
        ("chain", "7"),
        ("first", "first + 1"),
        ("count", "count + 2"),
        ("from_at", "from_at + 1"),
        ("to_at", "to_at + 4"),
        ("entries", "replace(entries, 'ann', 'anm')"),
        ("entries", "entries || char(10)"),
        ("previous", "cast(x'01' || substr(previous, 2) AS BLOB)"),
        ("hash", "cast(substr(hash, 1, 31) || x'00' AS BLOB)"),
        ("hash", "x'00'"),
    ] {
        let (copy, file) = copy(folder.path());
        let sql = format!("DROP TRIGGER audit_stays; UPDATE audit SET {column} = {changed} WHERE id = 3");
        file.execute_batch(&sql).unwrap();
        drop(file);
        let broken = verify(copy.path()).unwrap().unwrap_err();
        // A row that moved to the end leaves a gap before the one after it.
        let named = if column == "id" { 4 } else { 3 };
        assert_eq!(broken.row, Some(named), "{column} = {changed}: {broken}");
        assert!(findings(copy.path()).contains(&broken.to_string()));
    }
    for (sql, says) in [
        ("DROP TRIGGER audit_keeps; DELETE FROM audit WHERE id = 2", "audit row 3: it does not follow"),
        (
            "DROP TRIGGER audit_keeps; DELETE FROM audit WHERE id = 5",
            "shard-0 ends with entry 12, and is to end with",
        ),
        ("UPDATE audit_chain SET head = zeroblob(32) WHERE chain = 0", "shard-0 ends with entry 15"),
        ("UPDATE audit_chain SET first = 4 WHERE chain = 0", "audit row 1: it does not follow"),
        ("DELETE FROM audit_chain WHERE chain = -1", "audit row 6: there is no chain catalog"),
    ] {
        let (copy, file) = copy(folder.path());
        file.execute_batch(sql).unwrap();
        drop(file);
        let broken = verify(copy.path()).unwrap().unwrap_err().to_string();
        assert!(broken.starts_with(says), "{sql}: {broken}");
    }
}

#[test]
fn the_table_takes_no_update_and_no_delete() {
    let folder = TempFolder::new();
    fill(folder.path(), 3, 1);
    let (_copy, file) = copy(folder.path());
    for sql in ["UPDATE audit SET count = count", "DELETE FROM audit WHERE id = 1", "DELETE FROM audit"] {
        let refused = file.execute_batch(sql).unwrap_err().to_string();
        assert!(refused.contains("the audit is append-only"), "{sql}: {refused}");
    }
}

#[test]
fn a_million_entries_are_verified_and_one_changed_bit_is_named() {
    let folder = TempFolder::new();
    fill(folder.path(), 1_000, 1_000);
    let began = Instant::now();
    let verified = verify(folder.path()).unwrap().unwrap();
    let took = began.elapsed();
    let shard = verified.iter().find(|one| one.chain == Chain::Shard(Shard(0))).unwrap();
    assert_eq!((shard.rows, shard.entries, shard.last), (1_000, 1_000_000, 1_000_000));
    println!("a million entries verified in {took:?}");
    let path = folder.path().join("perdura.db");
    let mut file = fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let wanted = ExecutionId::from_random(700_500).to_string();
    let at = bytes.windows(wanted.len()).position(|found| found == wanted.as_bytes()).unwrap();
    file.seek(SeekFrom::Start(at as u64)).unwrap();
    file.write_all(&[bytes[at] ^ 1]).unwrap();
    let broken = verify(folder.path()).unwrap().unwrap_err();
    assert_eq!(broken.row, Some(701), "{broken}");
}

#[test]
fn a_change_whose_entry_finds_no_room_is_not_made() {
    let folder = TempFolder::new();
    fill(folder.path(), 1, 1);
    let file = Connection::open(folder.path().join("perdura.db")).unwrap();
    let pages: u32 = file.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    drop(file);
    let options = SqliteOptions { pages_max: Some(pages + 2), ..SqliteOptions::default() };
    let mut store = SqliteStore::open(folder.path(), options).unwrap();
    // Without the audit there is room for it.
    let token = |name: &str| Registered {
        kind: Registry::Token,
        name: name.into(),
        created_at: Timestamp(0),
        body: Vec::new(),
    };
    store.register(&token("unasked"), None).unwrap();
    let long: Arc<str> = "x".repeat(64 << 10).into();
    let asked = Arc::new(Origin { operation: long, ..(*who(1)).clone() });
    let refused = store.register(&token("asked"), Some(&asked));
    assert!(
        matches!(&refused, Err(CommitError::Lost(lost)) if lost.kind == FailureKind::DiskFull),
        "{refused:?}"
    );
    drop(store);
    let mut reader = SqliteReader::open(folder.path()).unwrap();
    assert!(reader.registered_one(Registry::Token, "unasked").unwrap().is_some());
    assert!(reader.registered_one(Registry::Token, "asked").unwrap().is_none());
}
