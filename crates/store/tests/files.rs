//! What files can suffer, and what is left then.

mod folder;
mod stage;

use folder::TempFolder;
use perdura_store::{
    Catalog, CommitError, FailureKind, Filter, Group, Reader, Row, SqliteOptions, SqliteReader, SqliteStore,
    Store,
};
use stage::{Stage, claim, who};
use std::fs;
use std::path::Path;

/// The files as a process that was killed leaves them: nothing is closed, nothing is tidied up.
fn as_if_killed(folder: &Path) -> TempFolder {
    let copy = TempFolder::new();
    for name in ["perdura.db", "perdura.db-wal"] {
        fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, SqliteOptions::default()).unwrap()
}

/// Whose rows are there, in the order in which they were numbered.
fn present(folder: &Path, most: u128) -> Vec<u128> {
    let mut reader = open(folder).reader().unwrap();
    (1..=most).filter(|number| reader.row(who(*number)).unwrap().is_some()).collect()
}

/// Commits with two rows each, and how long the log was after each.
fn commits(stage: &mut Stage, count: u128) -> Vec<u64> {
    let log = stage.folder.path().join("perdura.db-wal");
    (0..count)
        .map(|number| {
            let rows: Vec<Row> = [2 * number + 1, 2 * number + 2].map(|number| stage.ended(number)).to_vec();
            let group = stage.turns(&[]);
            stage.commit(&Group { rows, ..group });
            fs::metadata(&log).unwrap().len()
        })
        .collect()
}

#[test]
fn what_was_committed_is_there_after_a_kill() {
    let mut stage = Stage::new();
    commits(&mut stage, 10);
    let copy = as_if_killed(stage.folder.path());
    assert_eq!(present(copy.path(), 30), (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_torn_log_costs_whole_commits_from_its_end_and_nothing_else() {
    let mut stage = Stage::new();
    // What is in the file stays, whatever becomes of the log.
    commits(&mut stage, 3);
    let mut stage = {
        let Stage { store, folder, machine, .. } = stage;
        drop(store);
        let mut store = open(folder.path());
        let lease = store.acquire(&claim("tester", 0)).unwrap();
        let next = store.recover(&lease).unwrap().next;
        Stage { store, lease, machine, next, folder }
    };
    let log = stage.folder.path().join("perdura.db-wal");
    let before = fs::metadata(&log).unwrap().len();
    let mut lengths = vec![];
    for number in 4..=8 {
        let rows = [2 * number - 1, 2 * number].map(|number| stage.ended(number)).to_vec();
        let group = stage.turns(&[]);
        stage.commit(&Group { rows, ..group });
        lengths.push(fs::metadata(&log).unwrap().len());
    }
    let end = *lengths.last().unwrap();
    for cut in (before..=end).step_by(1_499).chain(lengths.clone()) {
        let copy = as_if_killed(stage.folder.path());
        let file = fs::File::options().write(true).open(copy.path().join("perdura.db-wal")).unwrap();
        file.set_len(cut).unwrap();
        drop(file);
        let whole = 3 + lengths.iter().filter(|length| **length <= cut).count() as u128;
        let expected: Vec<u128> = (1..=2 * whole).collect();
        assert_eq!(present(copy.path(), 20), expected, "cut at {cut} of {end}");
    }
}

#[test]
fn garbage_at_the_end_of_the_log_is_no_commit() {
    let mut stage = Stage::new();
    commits(&mut stage, 4);
    let copy = as_if_killed(stage.folder.path());
    let log = copy.path().join("perdura.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    let again = bytes[middle..].to_vec();
    bytes.extend(again);
    fs::write(&log, bytes).unwrap();
    assert_eq!(present(copy.path(), 20), (1..=8).collect::<Vec<_>>());
}

#[test]
fn a_spoilt_page_costs_what_stood_on_it_and_nothing_else() {
    let mut stage = Stage::new();
    for number in 1..=40 {
        let row = Row { awake: true, ended_at: None, ..stage.ended(number) };
        let mut content = row.content.clone().unwrap();
        // Large enough to stand on pages of its own, and no two alike.
        let mut noise = number as u64;
        let noise: String = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number as u64 | 1);
            char::from(b'a' + (noise >> 60) as u8)
        })
        .take(20_000)
        .collect();
        let mut history = Vec::new();
        perdura_store::record::push_turn(&mut history, noise.as_bytes());
        content.turns = 1;
        content.tail = perdura_store::record::seal(&history);
        let group = stage.group();
        stage.commit(&Group { rows: vec![Row { content: Some(content), ..row }], ..group });
    }
    let Stage { store, folder, .. } = stage;
    drop(store);
    let file = folder.path().join("perdura.db");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 3_000] {
        *byte ^= 0x5a;
    }
    fs::write(&file, bytes).unwrap();
    let mut store = open(folder.path());
    let lease = store.acquire(&claim("tester", 2_000)).unwrap();
    let recovery = store.recover(&lease).unwrap();
    assert!(!recovery.damaged.is_empty(), "the damage is told");
    assert!(
        recovery.executions.len() >= 37,
        "{} of 40 are there: {:?}",
        recovery.executions.len(),
        recovery.damaged
    );
    assert_eq!(recovery.executions.len() + recovery.damaged.len(), 40, "and nobody is forgotten");
    // The rest goes on.
    let group = Group {
        position: Some(recovery.next),
        journal: perdura_store::record::JournalWriter::new(&recovery.totals).seal(),
        keep_from: recovery.next,
        ..Group::under(lease)
    };
    store.commit(&group).unwrap();
}

#[test]
fn a_second_writer_is_refused_and_told_who_holds_the_data() {
    let stage = Stage::new();
    let failure = SqliteStore::open(stage.folder.path(), SqliteOptions::default()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Held);
    let text = failure.to_string();
    assert!(text.contains(&format!("process {} on ", std::process::id())), "{text}");
    assert!(text.contains(" since 20") && text.contains("stop that process"), "{text}");
    let Stage { store, folder, .. } = stage;
    drop(store);
    open(folder.path());
}

#[test]
fn the_leases_of_a_process_that_is_gone_are_free_at_once() {
    let stage = Stage::new();
    let Stage { store, folder, lease, .. } = stage;
    drop(store);
    let taken = open(folder.path()).acquire(&claim("another", 1)).unwrap();
    assert_eq!(taken.shards().len(), 1, "though it would have lasted until {}", lease.expires_at());
    assert!(taken.incarnation() > lease.incarnation());
}

#[test]
fn readers_need_no_lock_and_no_writer() {
    let mut stage = Stage::new();
    commits(&mut stage, 2);
    let list = |folder: &Path| {
        SqliteReader::open(folder).unwrap().list(&Filter::default(), None, 10).unwrap().rows.len()
    };
    assert_eq!(list(stage.folder.path()), 4, "beside the writer");
    let Stage { store, folder, .. } = stage;
    drop(store);
    assert_eq!(list(folder.path()), 4, "without a writer");
    open(folder.path());
    let nowhere = SqliteReader::open(&folder.path().join("nowhere")).unwrap_err();
    assert!(nowhere.why.contains("no such file"), "{nowhere}");
    assert!(!folder.path().join("nowhere").exists(), "reading makes nothing");
}

#[test]
fn a_newer_file_is_refused_and_so_is_a_foreign_one() {
    let folder = TempFolder::new();
    drop(open(folder.path()));
    let file = folder.path().join("perdura.db");
    let meddle = |sql: &str| rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    let refused = || SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap_err();
    meddle("PRAGMA user_version = 900");
    let failure = refused();
    assert_eq!(failure.kind, FailureKind::Newer);
    assert!(failure.why.contains("schema 900"), "{failure}");
    assert_eq!(SqliteReader::open(folder.path()).unwrap_err().kind, FailureKind::Newer);
    meddle("PRAGMA application_id = 77");
    assert!(refused().why.contains("another program"));
    fs::write(&file, "a text that somebody put here by mistake, which is no database at all").unwrap();
    assert_eq!(refused().kind, FailureKind::Corrupt);
}

#[test]
fn a_full_disk_is_told_and_the_handle_does_nothing_more() {
    let mut stage = Stage::with(SqliteOptions { pages_max: Some(60), ..SqliteOptions::default() });
    let mut stored = 0;
    let failure = loop {
        let rows = (0..20).map(|number| stage.ended(stored * 20 + number + 1)).collect();
        let group = stage.turns(&[]);
        match stage.store.commit(&Group { rows, ..group }) {
            Ok(()) => stored += 1,
            Err(CommitError::Lost(failure)) => break failure,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(failure.kind, FailureKind::DiskFull, "{failure}");
    assert!(failure.to_string().contains("perdura.db") && failure.why.contains("make room"), "{failure}");
    let group = stage.group();
    let again = stage.store.commit(&group);
    assert!(
        matches!(&again, Err(CommitError::Lost(lost)) if lost.kind == FailureKind::DiskFull),
        "{again:?}"
    );
    let again = stage.store.recover(&stage.lease);
    assert!(matches!(again, Err(CommitError::Lost(_))), "{again:?}");
    // Opened again with more room, what was acknowledged is there, and it goes on.
    let Stage { store, folder, .. } = stage;
    drop(store);
    let expected: Vec<u128> = (1..=stored * 20).collect();
    assert!(stored > 0);
    assert_eq!(present(folder.path(), stored * 20 + 40), expected);
}

/// So it opens on a full disk, and what is there can be read.
#[test]
fn opening_what_a_process_left_behind_writes_nothing() {
    let mut stage = Stage::new();
    let rows = (1..=3).map(|number| stage.ended(number)).collect();
    let group = stage.turns(&[]);
    stage.commit(&Group { rows, ..group });
    // As a process that is killed leaves it: its lease not given back, its log not copied.
    let left = TempFolder::new();
    for name in ["perdura.db", "perdura.db-wal"] {
        fs::copy(stage.folder.path().join(name), left.path().join(name)).unwrap();
    }
    let bytes = || ["perdura.db", "perdura.db-wal"].map(|name| fs::read(left.path().join(name)).unwrap());
    let before = bytes();
    let mut store = open(left.path());
    let listed = store.reader().unwrap().list(&Filter::default(), None, 10).unwrap().rows;
    assert_eq!(listed.len(), 3);
    assert!(bytes() == before, "nothing was written");
    let lease = store.acquire(&claim("next", 1)).unwrap();
    assert_eq!(lease.shards().len(), 1, "whoever was there before is gone, whatever the clock says");
}

#[test]
fn another_program_that_writes_makes_us_busy_and_harms_nothing() {
    let mut stage = Stage::new();
    let other = rusqlite::Connection::open(stage.folder.path().join("perdura.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let group = stage.turns(&[]);
    let result = stage.store.commit(&group);
    assert!(matches!(result, Err(CommitError::Busy)), "{result:?}");
    other.execute_batch("ROLLBACK").unwrap();
    stage.next = perdura_store::Position { number: 1, ..stage.next };
    let group = stage.turns(&[]);
    stage.commit(&group);
}

#[test]
fn the_log_stays_small_under_endless_load() {
    let options = SqliteOptions { log_bytes: 256 << 10, ..SqliteOptions::default() };
    let mut stage = Stage::with(options);
    let mut largest = 0;
    for round in 0..300 {
        let rows = (0..8).map(|number| stage.ended(round * 8 + number + 1)).collect();
        let mut group = stage.turns(&[]);
        group.keep_from = stage.next;
        stage.commit(&Group { rows, ..group });
        largest = largest.max(fs::metadata(stage.folder.path().join("perdura.db-wal")).unwrap().len());
    }
    let file = fs::metadata(stage.folder.path().join("perdura.db")).unwrap().len();
    assert!(file > 512 << 10, "the file has {file} bytes: the log was copied into it");
    assert!(largest < 2 << 20, "the log grew to {largest} bytes");
}

/// A file of each earlier version opens, and keeps what it had. A change of the tables adds its predecessor here, as
/// SQL.
#[test]
fn files_of_earlier_versions_open() {
    let schemas = [
        include_str!("schemas/0001.sql"),
        include_str!("schemas/0002.sql"),
        include_str!("schemas/0003.sql"),
        include_str!("schemas/0008.sql"),
        include_str!("schemas/0009.sql"),
    ];
    for (index, text) in schemas.iter().enumerate() {
        let folder = TempFolder::new();
        rusqlite::Connection::open(folder.path().join("perdura.db")).unwrap().execute_batch(text).unwrap();
        let mut store = open(folder.path());
        assert_eq!(store.shards(), 1, "schema {}: ids did not tell their Shard", index + 1);
        let lease = store.acquire(&claim("new", 9_000)).unwrap();
        let recovery = store.recover(&lease).unwrap();
        assert_eq!((recovery.executions.len(), recovery.damaged.len()), (0, 0), "{recovery:?}");
        let mut reader = store.reader().unwrap();
        let newest = reader.machines().unwrap().remove(0);
        assert_eq!((&*newest.name, newest.revision.0), ("payments", if index < 2 { 1 } else { 2 }));
        let head = reader.head("payments").unwrap().unwrap();
        assert_eq!((head.revision, head.created_at.0, &*head.card), (newest.revision, 7, "{}"));
        assert_ne!(reader.secret().unwrap(), [0; 32]);
        let all = reader.list(&Filter::default(), None, 10).unwrap().rows;
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].name.as_deref(), Some("order-1"));
        assert_eq!(reader.ledger(&perdura_store::LedgerFilter::default(), 9).unwrap().len(), 1);
        let run = uuid::Uuid::from_u128(0x4000_8000_0000_0000_0009);
        let children = Filter { map_run: Some(run), ..Filter::default() };
        let children = reader.list(&children, None, 9).unwrap().rows.len();
        assert_eq!(children, usize::from(index >= 2), "schema {}", index + 1);
        // What was there before has no labels, and is in every list that it belongs to.
        assert_eq!(all[0].labels, perdura_engine::Labels::default());
        let by_end = Filter { order: perdura_store::Order::End, ..Filter::default() };
        assert_eq!(reader.list(&by_end, None, 9).unwrap().rows, all);
    }
}
