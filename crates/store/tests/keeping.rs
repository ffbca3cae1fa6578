//! Backups, restoring them, and checking what is there.

mod folder;
mod stage;

use folder::TempFolder;
use perdura_engine::{LedgerStatus, Timestamp};
use perdura_store::sqlite::{Checked, Finding, News, backup, check, restore};
use perdura_store::{
    Catalog, FailureKind, Group, LedgerChange, LedgerFilter, LedgerRow, Reader, Retention, Row,
    SqliteOptions, SqliteReader, SqliteStore, Store,
};
use stage::{Stage, claim, ends, key, pays, who};
use std::path::Path;

/// A payment in the ledger table.
fn entry(number: u128, status: LedgerStatus) -> LedgerChange {
    let key = key(who(number));
    LedgerChange::Put(Box::new(LedgerRow {
        key: key.readable().into(),
        wire_key: key.wire(),
        execution: who(number),
        step: "Pay#1".into(),
        round: 1,
        status,
        started_at: Timestamp(1),
        completed_at: None,
        result: None,
        error: None,
    }))
}

/// One that ended, one that sleeps with a payment under way, one that runs with a payment under way, and one that
/// runs whose payment is done.
fn busy() -> Stage {
    let mut stage = Stage::new();
    let asleep = {
        let row = stage.ended(2);
        let mut history = Vec::new();
        perdura_store::record::push_turn(&mut history, &stage.begins(who(2)));
        let mut content = row.content.unwrap();
        (content.turns, content.events) = (1, 1);
        content.tail = perdura_store::record::seal(&history);
        let status = perdura_engine::Status::Running;
        Row { status, ended_at: None, content: Some(content), ..stage.ended(2) }
    };
    let turns = [1, 2, 3, 4].map(|number| (who(number), 1, stage.begins(who(number))));
    let group = stage.turns(&turns);
    stage.commit(&Group { ledger: vec![entry(2, LedgerStatus::Pending)], rows: vec![asleep], ..group });
    let group = stage.turns(&[(who(1), 2, pays(who(1))), (who(4), 2, pays(who(4))), (who(1), 3, ends(3))]);
    let ended = stage.ended(1);
    stage.commit(&Group { rows: vec![ended], ..group });
    stage
}

fn findings(folder: &Path) -> (Checked, Vec<Finding>) {
    let mut found = Vec::new();
    let mut done = 0;
    let checked = check(folder, &mut |news| match news {
        News::Found(finding) => found.push(finding),
        News::Progress { done: now, .. } => done = now,
    });
    let checked = checked.unwrap();
    assert_eq!(done, checked.executions);
    assert_eq!(found.len() as u64, checked.findings);
    (checked, found)
}

#[test]
fn what_holds_together_is_found_so() {
    let stage = busy();
    let (checked, found) = findings(stage.folder.path());
    assert_eq!(found, []);
    assert_eq!(checked, Checked { executions: 4, turns: 7, findings: 0 });
}

#[test]
fn a_name_that_leads_to_an_execution_of_another_name_is_found() {
    let mut stage = busy();
    let group = stage.turns(&[(who(9), 1, stage.begins(who(9)))]);
    let (theirs, none) = (Some("theirs".into()), None);
    let machine = perdura_store::MachineId(77);
    // One that has ended, and one that runs, whose row has no content yet.
    let rows = vec![
        Row { name: theirs, ..stage.ended(1) },
        Row { name: none, machine, awake: true, content: None, ..stage.ended(9) },
    ];
    stage.commit(&Group { rows, ..group });
    let (_, found) = findings(stage.folder.path());
    let of = |number| -> Vec<&str> {
        let of_one = found.iter().filter(|finding| finding.execution == Some(who(number)));
        of_one.map(|finding| &*finding.what).collect()
    };
    let name = stage.ended(1).name.unwrap();
    assert_eq!(of(1), [format!("it is found by theirs, its Turns say {name}")]);
    let (name, is) = (stage.ended(9).name.unwrap(), stage.ended(9).machine.0);
    assert_eq!(
        of(9),
        [
            format!("it is found by no name, its Turns say {name}"),
            format!("it is found under machine 77, its Turns say {is}")
        ]
    );
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn labels_that_lead_nowhere_or_were_not_given_are_found() {
    let mut stage = busy();
    let labels = perdura_engine::Labels::new([("order", "A-1")]).unwrap();
    let rows = vec![Row { labels, root_key: Some("k".into()), ..stage.ended(1) }];
    stage.commit(&Group { rows, ..stage.group() });
    let db = rusqlite::Connection::open(stage.folder.path().join("perdura.db")).unwrap();
    assert_eq!(db.execute("DELETE FROM label WHERE key = 'order'", []).unwrap(), 1);
    let (_, found) = findings(stage.folder.path());
    let told: Vec<_> =
        found.iter().map(|finding| (finding.table, finding.execution, &*finding.what)).collect();
    assert_eq!(
        told,
        [
            ("execution", Some(who(1)), "its labels or its root key are not those of its first Turn"),
            ("label", Some(who(1)), "it is not found by all of its labels"),
        ]
    );
}

#[test]
fn a_swept_executions_labels_go_with_it() {
    let mut stage = busy();
    let labels = perdura_engine::Labels::new([("order", "A-1"), ("tenant", "x")]).unwrap();
    let keep_from = stage.next;
    let rows = vec![Row { labels, ..stage.ended(1) }];
    stage.commit(&Group { rows, keep_from, ..stage.group() });
    let count = |folder: &Path| -> i64 {
        let db = rusqlite::Connection::open(folder.join("perdura.db")).unwrap();
        db.query_row("SELECT count(*) FROM label", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(stage.folder.path()), 2);
    let group = stage.turns(&[(who(9), 1, stage.begins(who(9)))]);
    let keep_from = stage.next;
    stage.commit(&Group { keep_from, ..group });
    let ended_at = stage.ended(1).ended_at.unwrap();
    let swept = stage.store.sweep(&[(who(1), ended_at)], Timestamp(0), 9, None).unwrap();
    assert_eq!((swept.executions, count(stage.folder.path())), (1, 0));
}

#[test]
fn a_backup_is_complete_and_opens_while_the_original_goes_on() {
    let mut stage = busy();
    let elsewhere = TempFolder::new();
    let file = elsewhere.path().join("backup of today.db");
    backup(stage.folder.path(), &file).unwrap();
    let group = stage.turns(&[(who(9), 1, stage.begins(who(9)))]);
    stage.commit(&group);
    let again = backup(stage.folder.path(), &file).unwrap_err();
    assert!(again.why.contains("not overwritten"), "{again}");
    let names: Vec<_> =
        std::fs::read_dir(elsewhere.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["backup of today.db"], "nothing else is left");

    let new = TempFolder::new();
    restore(&file, new.path(), Timestamp(50)).unwrap();
    let (checked, found) = findings(new.path());
    assert_eq!(found, []);
    assert_eq!(checked.executions, 4, "as many as at the moment of the backup");
    let secret = |folder: &Path| SqliteReader::open(folder).unwrap().secret().unwrap();
    assert_eq!(secret(new.path()), secret(stage.folder.path()), "what was signed counts here too");
}

#[test]
fn what_was_under_way_in_a_backup_is_uncertain_after_it_is_restored() {
    let stage = busy();
    let elsewhere = TempFolder::new();
    let file = elsewhere.path().join("backup.db");
    backup(stage.folder.path(), &file).unwrap();
    let new = TempFolder::new();
    let restored = restore(&file, new.path(), Timestamp(50)).unwrap();
    let mut expected = [key(who(2)), key(who(3))].map(|key| key.readable().to_owned());
    expected.sort();
    let mut uncertain: Vec<_> = restored.uncertain.iter().map(|row| row.key.to_string()).collect();
    uncertain.sort();
    assert_eq!(uncertain, expected, "one from the table, one from the journal, and not the one that is done");
    assert_eq!((restored.executions, restored.damaged), (2, vec![]));
    let only_in_journal = restored.uncertain.iter().find(|row| row.execution == who(3)).unwrap();
    assert_eq!((&*only_in_journal.step, only_in_journal.round), ("Pay#1", 1));
    assert_eq!(only_in_journal.wire_key, key(who(3)).wire());

    let mut store = SqliteStore::open(new.path(), SqliteOptions::default()).unwrap();
    assert_eq!(store.restored_at(), Some(Timestamp(50)));
    assert_eq!(stage.store.restored_at(), None);
    let pending = LedgerFilter { status: Some(LedgerStatus::Pending), ..LedgerFilter::default() };
    assert_eq!(store.reader().unwrap().ledger(&pending, 10).unwrap(), []);
    let all = store.reader().unwrap().ledger(&LedgerFilter::default(), 10).unwrap();
    assert_eq!(all.len(), 2);
    let lease = store.acquire(&claim("new", 60)).unwrap();
    assert!(lease.incarnation().0 > stage.lease.incarnation().0 + 60_000, "nobody else came this far");
}

#[test]
fn a_folder_with_data_is_not_restored_into() {
    let stage = busy();
    let elsewhere = TempFolder::new();
    let file = elsewhere.path().join("backup.db");
    backup(stage.folder.path(), &file).unwrap();
    let new = TempFolder::new();
    restore(&file, new.path(), Timestamp(1)).unwrap();
    let failure = restore(&file, new.path(), Timestamp(2)).unwrap_err();
    assert!(failure.why.contains("not overwritten"), "{failure}");
    let text = elsewhere.path().join("notes.txt");
    std::fs::write(&text, "this is no database, however long it may be").unwrap();
    let failure = restore(&text, TempFolder::new().path(), Timestamp(1)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Corrupt, "{failure}");
}

#[test]
fn data_in_use_is_no_backup() {
    let stage = busy();
    let new = TempFolder::new();
    let failure = restore(&stage.folder.path().join("perdura.db"), new.path(), Timestamp(1)).unwrap_err();
    assert!(failure.why.contains("perdura backup"), "{failure}");
}

#[test]
fn what_a_failed_restore_left_behind_does_not_reach_the_next() {
    let stage = busy();
    let elsewhere = TempFolder::new();
    let file = elsewhere.path().join("backup.db");
    backup(stage.folder.path(), &file).unwrap();
    let new = TempFolder::new();
    for (from, to) in [("perdura.db", "perdura.db.part"), ("perdura.db-wal", "perdura.db.part-wal")] {
        std::fs::copy(stage.folder.path().join(from), new.path().join(to)).unwrap();
    }
    restore(&file, new.path(), Timestamp(50)).unwrap();
    assert_eq!(findings(new.path()).1, []);
    let mut names: Vec<_> =
        std::fs::read_dir(new.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| name.to_string_lossy().contains("part"));
    assert_eq!(names, [""; 0]);
}

/// Changes the file as nobody should.
fn meddle(stage: &Stage, sql: &str) {
    let connection = rusqlite::Connection::open(stage.folder.path().join("perdura.db")).unwrap();
    assert!(connection.execute(sql, []).unwrap() > 0, "{sql} changed nothing");
}

#[test]
fn what_does_not_hold_together_is_found() {
    let cases = [
        ("UPDATE execution SET status = 'FAILED' WHERE ended_at", "execution", "it says FAILED"),
        ("UPDATE execution SET events = 7 WHERE ended_at", "execution", "it says 7 events"),
        ("UPDATE execution SET ended_at = 4 WHERE ended_at", "execution", "times"),
        ("UPDATE execution SET turns = 4 WHERE ended_at", "execution", "its tail ends at 3"),
        ("UPDATE execution SET tail = substr(tail, 1, 20) WHERE ended_at", "execution", "checksum"),
        ("UPDATE journal SET turns = zeroblob(90) WHERE id & 255 = 1", "journal", "row 1/1"),
        ("UPDATE journal SET id = id + 1 WHERE id & 255 = 2", "journal", "rows 2 to 2"),
        ("UPDATE ledger SET status = 'failed'", "ledger", "is Failed here and Pending in its Turns"),
        ("UPDATE ledger SET key = 'other'", "ledger", "no Turn tells of the key other"),
        ("DELETE FROM revision", "revision", "revision 1"),
    ];
    for (sql, table, what) in cases {
        let stage = busy();
        meddle(&stage, sql);
        let (_, found) = findings(stage.folder.path());
        let told = found.iter().any(|finding| finding.table == table && finding.what.contains(what));
        assert!(told, "{sql}: {found:#?}");
    }
}

#[test]
fn a_turn_that_does_not_follow_is_found() {
    let mut stage = Stage::new();
    let group = stage.turns(&[(who(1), 1, stage.begins(who(1))), (who(1), 2, stage.begins(who(1)))]);
    stage.commit(&group);
    let (_, found) = findings(stage.folder.path());
    assert_eq!(found.len(), 1);
    assert!(found[0].what.contains("has event 1 where 2 belongs"), "{found:?}");
    assert_eq!(found[0].execution, Some(who(1)));
}

#[test]
fn what_only_the_journal_knows_of_is_told() {
    let stage = busy();
    let mut unlisted = SqliteReader::open(stage.folder.path()).unwrap().unlisted().unwrap();
    unlisted.sort_by_key(|unlisted| unlisted.summary.execution);
    let told: Vec<_> = unlisted.iter().map(|unlisted| unlisted.summary.execution).collect();
    let mut expected = [who(3), who(4)];
    expected.sort_unstable();
    assert_eq!(told, expected, "not those that have a row");
    let summary = &unlisted[0].summary;
    let name = if summary.execution == who(3) { "order-3" } else { "order-4" };
    assert_eq!((summary.name.as_deref(), summary.machine), (Some(name), stage.machine.machine));
    assert_eq!((summary.status, summary.started_at), (perdura_engine::Status::Running, Timestamp(1)));
}

#[test]
fn what_may_go_is_counted_while_somebody_writes() {
    let mut stage = busy();
    let group = stage.turns(&[]);
    let keep_from = group.position.unwrap();
    stage.commit(&Group { keep_from, ..group });
    let writer = rusqlite::Connection::open(stage.folder.path().join("perdura.db")).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let retention =
        Retention { ended_before: Timestamp(i64::MAX), ledger_before: Timestamp(0), bytes_max: None };
    let found = SqliteReader::open(stage.folder.path()).unwrap().sweepable(&retention, None, 10).unwrap();
    assert_eq!(found.going, [(who(1), Timestamp(3))]);
    writer.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn a_file_of_an_earlier_version_gives_room_back_once_it_was_written_anew() {
    let mut stage = busy();
    stage.store.rewrite().unwrap();
    let folder = stage.folder.path().to_owned();
    let meddle = rusqlite::Connection::open(folder.join("perdura.db")).unwrap();
    meddle.execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
    drop(meddle);
    let Stage { store, folder, .. } = stage;
    drop(store);
    let mut store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    assert!(!store.give_back(10, false).unwrap().gives_back);
    assert!(store.rewrite().unwrap().gives_back);
    assert!(store.give_back(10, false).unwrap().gives_back);
    assert_eq!(findings(folder.path()).1, []);
}

#[test]
fn people_find_readable_rows() {
    let stage = busy();
    SqliteReader::open(stage.folder.path()).unwrap().stats().unwrap();
    let connection = rusqlite::Connection::open(stage.folder.path().join("perdura.db")).unwrap();
    let row = connection.query_row(
        "SELECT id, name, machine, status, started_at, ended_at FROM executions WHERE status = 'SUCCEEDED'",
        [],
        |row| {
            let text = |index| row.get::<_, String>(index);
            Ok([text(0)?, text(1)?, text(2)?, text(4)?, text(5)?])
        },
    );
    let times = ["1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.003Z"];
    let expected = [&who(1).to_string(), "order-1", "payments", times[0], times[1]].map(str::to_owned);
    assert_eq!(row.unwrap(), expected);
}
