//! One SQLite file: the suite, and what is about files.

use crate::bench::{self, Folder, StandingClock};
use bytes::Bytes;
use jiff::Timestamp;
use perdura_idempotency::conformance::{self, KEEP, operation};
use perdura_idempotency::record::{Claim, Claimed, Completion, Ending, Grant, Holding, Keep, Standing};
use perdura_idempotency::store::sqlite::{Options, Sqlite};
use perdura_idempotency::store::{Scrubbed, Store, StoreError, Swept};
use rusqlite::Connection;
use std::future::ready;
use std::time::Duration;

perdura_idempotency::store_conformance!(|| ready(bench::sqlite(&Options::default()).0));

pub(crate) fn claim(n: u64) -> Claim {
    conformance::take(operation(n), 3)
}

pub(crate) fn answered(n: u64, grant: Grant, answer: impl Into<Bytes>) -> Completion {
    conformance::answered(operation(n), grant.epoch, answer)
}

pub(crate) async fn granted(store: &Sqlite, n: u64) -> Grant {
    match store.claim(&claim(n)).await.expect("claiming") {
        Claimed::Granted(grant) => grant,
        Claimed::Found(record) | Claimed::Lapsed(record) => panic!("should be granted: {record:?}"),
    }
}

pub(crate) async fn standing(store: &Sqlite, n: u64) -> Option<Standing> {
    store.look(operation(n)).await.expect("looking").map(|record| record.standing)
}

async fn completed(store: &Sqlite, n: u64, answer: &[u8]) -> Grant {
    let grant = granted(store, n).await;
    let holding = store.complete(&answered(n, grant, answer.to_vec())).await.expect("completing");
    assert_eq!(holding, Holding::Held);
    grant
}

fn is_unavailable<T>(told: &Result<T, StoreError>) -> bool {
    matches!(told, Err(StoreError::Unavailable(_)))
}

/// Whoever finds the file locked is told soon.
fn impatient() -> Options {
    Options { busy_for: Duration::from_millis(20), ..Options::default() }
}

#[tokio::test]
async fn a_file_that_is_opened_again_knows_everything() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    let first = completed(&store, 1, b"kept").await;
    let second = granted(&store, 2).await;
    assert!(store.agree([1; 16]).await.expect("agreeing"));
    drop(store);

    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening again");
    assert!(
        matches!(standing(&store, 1).await, Some(Standing::Completed { answer, .. }) if answer == "kept")
    );
    assert_eq!(store.release(operation(2), second.epoch).await.expect("releasing"), Holding::Held);
    let third = granted(&store, 2).await;
    assert!(third.epoch > second.epoch && second.epoch > first.epoch);
    assert!(!store.agree([2; 16]).await.expect("agreeing"));
}

#[tokio::test]
async fn a_file_of_a_later_version_is_refused_and_left_alone() {
    let folder = Folder::new();
    drop(Sqlite::open(folder.file(), &Options::default()).expect("opening"));
    let file = Connection::open(folder.file()).expect("opening");
    file.execute("UPDATE idempotency_meta SET value = 2 WHERE key = 'version'", []).expect("updating");
    let refused = Sqlite::open(folder.file(), &Options::default()).err().expect("is refused");
    assert!(matches!(&refused, StoreError::Unfit(why) if why.contains("version 2")), "{refused}");
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let folder = Folder::new();
    std::fs::write(folder.file(), [b'x'; 8_192]).expect("writing");
    let refused = Sqlite::open(folder.file(), &Options::default()).err().expect("is refused");
    assert!(matches!(refused, StoreError::Unfit(_)), "{refused}");
    let missing = Sqlite::open(folder.file().join("nowhere"), &Options::default());
    assert!(is_unavailable(&missing));
}

/// Readers would wait for the writer, or see another database than it.
#[tokio::test]
async fn a_file_that_takes_no_log_beside_it_is_refused() {
    for path in [":memory:", ""] {
        let refused = Sqlite::open(path, &Options::default()).err();
        assert!(
            matches!(&refused, Some(StoreError::Unfit(why)) if why.contains("write-ahead log")),
            "{path:?}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn a_full_disk_fails_what_does_not_fit_and_nothing_else() {
    let folder = Folder::new();
    let options = Options { pages_max: Some(64), ..Options::default() };
    let store = Sqlite::open(folder.file(), &options).expect("opening");
    completed(&store, 1, b"small").await;
    let (large, small) = (granted(&store, 2).await, granted(&store, 3).await);
    let large = answered(2, large, vec![7; 1 << 20]);
    let small = answered(3, small, "fits");
    // Both wait at once, so that they may share a group; only one of them fails.
    let (first, second) = tokio::join!(store.complete(&large), store.complete(&small));
    assert!(is_unavailable(&first));
    assert_eq!(second.expect("what fits is done"), Holding::Held);
    assert!(matches!(standing(&store, 2).await, Some(Standing::Running { .. })), "nothing of it is left");
    assert!(matches!(standing(&store, 1).await, Some(Standing::Completed { .. })));
    completed(&store, 4, b"the thread goes on").await;
}

#[tokio::test]
async fn a_locked_file_is_unavailable_and_replays_go_on() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &impatient()).expect("opening");
    completed(&store, 1, b"kept").await;
    let other = Connection::open(folder.file()).expect("opening");
    other.execute_batch("BEGIN IMMEDIATE").expect("locking");
    let (new, beginning) = (claim(2), claim(3));
    let (first, second) = tokio::join!(store.claim(&new), store.claim(&beginning));
    assert!(is_unavailable(&first) && is_unavailable(&second), "everybody who waits is told");
    let known = store.glance(claim(1).operation).expect("replaying");
    assert!(matches!(known.standing, Standing::Completed { .. }));
    other.execute_batch("COMMIT").expect("unlocking");
    granted(&store, 2).await;
}

#[tokio::test]
async fn a_damaged_record_is_told_to_its_own_caller_only() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    let grant = granted(&store, 1).await;
    let other = granted(&store, 2).await;
    let file = Connection::open(folder.file()).expect("opening");
    for damage in
        ["state = 7", "until_at = NULL", "until_at = 9223372036854775807", "scope = x'00'", "request = x''"]
    {
        let set = format!("UPDATE idempotency_record SET {damage} WHERE epoch = {}", grant.epoch);
        file.execute_batch(&format!("SAVEPOINT whole; {set}; RELEASE whole")).expect("damaging");
        let (spoilt, sound) = (answered(1, grant, "spoilt"), answered(2, other, "sound"));
        let (first, second) = tokio::join!(store.complete(&spoilt), store.complete(&sound));
        assert!(
            matches!(first, Err(StoreError::Corrupt { operation: of, .. }) if of == operation(1)),
            "{damage}"
        );
        assert_eq!(second.expect("completing"), Holding::Held);
        assert!(matches!(store.claim(&claim(1)).await, Err(StoreError::Corrupt { .. })), "{damage}");
        assert!(matches!(store.look(operation(1)).await, Err(StoreError::Corrupt { .. })), "{damage}");
    }
}

#[tokio::test]
async fn an_erased_answer_is_nowhere_in_the_file() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    let secret = [b"a secret that nobody should find ".as_slice(); 300].concat();
    completed(&store, 1, &secret).await;
    completed(&store, 2, b"beside it").await;
    assert!(store.erase(operation(1)).await.expect("erasing"));
    let read = |end: &str| {
        let mut name = folder.file().into_os_string();
        name.push(end);
        std::fs::read(name).expect("reading")
    };
    let bytes = [read(""), read("-wal")].concat();
    assert!(!bytes.windows(16).any(|window| window == &secret[..16]));
    assert!(bytes.windows(9).any(|window| window == b"beside it"));
}

#[tokio::test]
async fn a_sweep_counts_what_it_removes() {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let store = Sqlite::open_with_clock(folder.file(), &Options::default(), clock.clock()).expect("opening");
    for n in 0..=250 {
        let grant = granted(&store, n).await;
        let tombstone_for = if n % 2 == 0 { Duration::ZERO } else { Duration::from_hours(1) };
        let keep = Keep { tombstone_for, ..KEEP };
        let completion = Completion { keep, ..answered(n, grant, "old") };
        assert_eq!(store.complete(&completion).await.expect("completing"), Holding::Held);
    }
    clock.step(Duration::from_hours(2).as_secs_f64());
    let first = store.sweep(130, KEEP).await.expect("sweeping");
    assert_eq!(first.answers + first.records, 130);
    let second = store.sweep(u32::MAX, KEEP).await.expect("sweeping");
    assert_eq!((first.answers + second.answers, first.records + second.records), (125, 126));
    clock.step(Duration::from_hours(1).as_secs_f64());
    let third = store.sweep(u32::MAX, KEEP).await.expect("sweeping");
    assert_eq!((third.answers, third.records), (0, 125));
}

#[tokio::test]
async fn a_damaged_record_does_not_stop_the_sweep_and_stays() {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let store = Sqlite::open_with_clock(folder.file(), &Options::default(), clock.clock()).expect("opening");
    for n in 0..5 {
        completed(&store, n, b"old").await;
    }
    let file = Connection::open(folder.file()).expect("opening");
    file.execute("UPDATE idempotency_record SET state = 7 WHERE epoch <= 2", []).expect("damaging");
    clock.step(Duration::from_hours(2).as_secs_f64());
    let mut records = 0;
    for _ in 0..4 {
        records += store.sweep(2, KEEP).await.expect("sweeping").records;
    }
    assert_eq!(records, 3);
    assert!(matches!(store.claim(&claim(0)).await, Err(StoreError::Corrupt { .. })), "it is not run again");
}

/// Values of another type, and ids of another length, as a spoilt page may have them.
#[tokio::test]
async fn what_no_table_of_ours_can_hold_is_damage_and_stops_no_sweep() {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let store = Sqlite::open_with_clock(folder.file(), &Options::default(), clock.clock()).expect("opening");
    for n in 0..5 {
        completed(&store, n, b"old").await;
    }
    let unknown = granted(&store, 5).await;
    let lost = Completion { ending: Ending::Unknown, ..answered(5, unknown, "") };
    assert_eq!(store.complete(&lost).await.expect("completing"), Holding::Held);
    drop(store);
    let file = Connection::open(folder.file()).expect("opening");
    file.execute_batch(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'idempotency_record';
         PRAGMA writable_schema = RESET;
         UPDATE idempotency_record SET first_at = 'long ago' WHERE epoch = 1;
         UPDATE idempotency_record SET scope = 17 WHERE epoch = 2;
         UPDATE idempotency_record SET operation = x'00' WHERE epoch = 3;
         UPDATE idempotency_record SET operation = 'odd' WHERE epoch = 6",
    )
    .expect("damaging");
    let store = Sqlite::open_with_clock(folder.file(), &Options::default(), clock.clock()).expect("opening");
    for n in 0..2 {
        assert!(matches!(store.claim(&claim(n)).await, Err(StoreError::Corrupt { .. })), "{n}");
        assert!(matches!(store.look(operation(n)).await, Err(StoreError::Corrupt { .. })), "{n}");
    }
    assert!(store.unknown(10).await.expect("listing").is_empty());
    clock.step(Duration::from_hours(2).as_secs_f64());
    let mut records = 0;
    for _ in 0..4 {
        records += store.sweep(2, KEEP).await.expect("sweeping").records;
    }
    assert_eq!(records, 2, "all that is sound, and nothing else");
}

/// Epochs go on from the newest row: one that no grant ever had must not be where they go on from.
#[tokio::test]
async fn a_damaged_epoch_is_in_the_way_of_its_own_record_only() {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let open =
        || Sqlite::open_with_clock(folder.file(), &Options::default(), clock.clock()).expect("opening");
    let store = open();
    granted(&store, 1).await;
    let newest = granted(&store, 9).await;
    let file = Connection::open(folder.file()).expect("opening");
    let damage = "UPDATE idempotency_record SET epoch = 9223372036854775807 WHERE epoch = 1";
    assert_eq!(file.execute(damage, []).expect("damaging"), 1);
    assert!(matches!(store.claim(&claim(1)).await, Err(StoreError::Corrupt { .. })), "it is not run again");
    for store in [store, open()] {
        for n in 2..5 {
            let next = completed(&store, n, b"sound").await;
            assert!(next.epoch > newest.epoch && next.epoch.0 < 100, "{}", next.epoch);
            assert_eq!(store.release(operation(n), next.epoch).await.expect("releasing"), Holding::Lost);
        }
        clock.step(Duration::from_hours(2).as_secs_f64());
        assert!(store.sweep(100, KEEP).await.expect("sweeping").records >= 3);
    }
}

#[tokio::test]
async fn the_machines_clock_is_the_clock() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    let before = Timestamp::now();
    let first_at = granted(&store, 1).await.first_at;
    assert!(
        (before.as_microsecond()..=Timestamp::now().as_microsecond()).contains(&first_at.as_microsecond())
    );
}

/// A process whose clock is behind for a moment records nothing that would be past its retention once the clock is right.
#[tokio::test]
async fn a_process_never_begins_before_the_newest_time_on_record() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    for n in 1..4 {
        completed(&store, n, b"paid").await;
    }
    drop(store);
    let file = Connection::open(folder.file()).expect("opening");
    let hour = 3_600_000_000_i64;
    let ahead =
        "UPDATE idempotency_record SET first_at = first_at + ?1, ended_at = ended_at + ?1 WHERE epoch < 3";
    file.execute(ahead, [25 * hour]).expect("as if the clock had been right then");
    file.execute("UPDATE idempotency_record SET first_at = ?1 WHERE epoch = 1", [1_000_000 * hour])
        .expect("damaging");
    let began = Timestamp::now();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    let grant = granted(&store, 9).await;
    let later = grant.first_at.duration_since(began).as_secs() / 3_600;
    assert!((24..26).contains(&later), "{later} hours after this machine's time");
}

/// What ends before a sweep comes by was never in an order that has to be kept; what still runs is given its place.
#[tokio::test]
async fn a_sweep_notes_what_still_runs() {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let open =
        || Sqlite::open_with_clock(folder.file(), &Options::default(), clock.clock()).expect("opening");
    let (store, another) = (open(), open());
    let file = Connection::open(folder.file()).expect("opening");
    let noted = || {
        let count = "SELECT count(*) FROM idempotency_record WHERE state = 0 AND sweep_at = until_at";
        file.query_row(count, [], |row| row.get::<_, i64>(0)).expect("counting")
    };
    granted(&store, 1).await;
    completed(&store, 2, b"soon").await;
    assert_eq!(noted(), 0);
    assert_eq!(store.sweep(100, KEEP).await.expect("sweeping"), Swept::default());
    assert_eq!(noted(), 1);
    // As if many more had come and gone than are looked at in one go.
    granted(&another, 3).await;
    file.execute("UPDATE idempotency_record SET epoch = 12001 WHERE epoch = 3", []).expect("renumbering");
    granted(&another, 4).await;
    assert_eq!(noted(), 1);
    clock.step(Duration::from_mins(1).as_secs_f64());
    let lapsed = store.sweep(100, KEEP).await.expect("sweeping").lapsed;
    assert_eq!(lapsed, [1, 3, 4].map(operation));
    assert_eq!(noted(), 0);
}

#[tokio::test]
async fn an_epoch_is_not_given_again_after_its_row_is_gone() {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let open =
        || Sqlite::open_with_clock(folder.file(), &Options::default(), clock.clock()).expect("opening");
    let mut newest = 0;
    for n in 0..6 {
        // Released or swept, by an instance that is gone.
        let store = open();
        let grant = if n % 2 == 0 { granted(&store, n).await } else { completed(&store, n, b"old").await };
        assert!(grant.epoch.0 > newest, "{} is not after {newest}", grant.epoch);
        newest = grant.epoch.0;
        if n % 2 == 0 {
            assert_eq!(store.release(operation(n), grant.epoch).await.expect("releasing"), Holding::Held);
        } else {
            clock.step(Duration::from_hours(2).as_secs_f64());
            assert_eq!(store.sweep(100, KEEP).await.expect("sweeping").records, 1);
        }
    }
}

/// How often these bytes are in the file or its log.
fn count(path: &std::path::Path, what: &[u8]) -> usize {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    [path.to_owned(), log.into()]
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .map(|bytes| bytes.windows(what.len()).filter(|window| *window == what).count())
        .sum()
}

#[tokio::test]
async fn what_was_erased_is_scrubbed_out_of_a_file_that_is_small_enough() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    for n in 0..400 {
        let size = [10, 60, 300, 900, 2500][(n % 5) as usize];
        completed(&store, n, &[format!("Zq7Xw2Kp{n:04}").as_bytes(), &vec![b'y'; size]].concat()).await;
    }
    for n in (0..400).filter(|n| n % 10 != 0) {
        assert!(store.erase(operation(n)).await.expect("erasing"));
    }
    assert_eq!(store.scrub(1_000).await.expect("scrubbing"), Scrubbed::TooLarge);
    assert_eq!(store.scrub(32 << 20).await.expect("scrubbing"), Scrubbed::Clean);
    assert_eq!(count(folder.file().as_ref(), b"Zq7Xw2Kp"), 40, "the others, once each");
    let reader = Connection::open(folder.file()).expect("opening beside");
    reader.execute_batch("BEGIN; SELECT * FROM idempotency_meta").expect("reading");
    completed(&store, 1_000, b"more").await;
    let impatient = Sqlite::open(folder.file(), &impatient()).expect("opening again");
    assert_eq!(impatient.scrub(32 << 20).await.expect("scrubbing"), Scrubbed::Read);
}
