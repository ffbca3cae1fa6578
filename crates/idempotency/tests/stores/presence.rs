//! Leases of those who are gone: who is alone with a file ends them, and nobody else does.

use crate::bench::Folder;
use crate::sqlite::{answered, granted};
use perdura_idempotency::conformance::{self, operation};
use perdura_idempotency::record::{Claim, Claimed, Holding, Standing};
use perdura_idempotency::store::Store;
use perdura_idempotency::store::sqlite::{Options, Sqlite};
use rusqlite::Connection;
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Nobody waits for the end of such a lease.
const LEASE: Duration = Duration::from_hours(1);
const PATIENCE: Duration = Duration::from_secs(30);

fn open(folder: &Folder) -> Sqlite {
    Sqlite::open(folder.file(), &Options::default()).expect("opening")
}

/// The file beside the database that every open store has a lock on.
fn lock_of(folder: &Folder) -> PathBuf {
    format!("{}-open", folder.file().display()).into()
}

/// For long; `n` is operation and claimant.
fn take(n: u64, claimant: u128) -> Claim {
    Claim { lease_for: LEASE, claimant: Uuid::from_u128(claimant), ..conformance::take(operation(n), 1) }
}

/// The same where a second run is not safe.
fn claim(n: u64, claimant: u128) -> Claim {
    Claim { lease_for: LEASE, claimant: Uuid::from_u128(claimant), ..conformance::claim(operation(n), 1) }
}

async fn lease_left(store: &Sqlite, n: u64) -> Duration {
    match store.look(operation(n)).await.expect("looking").expect("it is there").standing {
        Standing::Running { lease_left } => lease_left,
        other => panic!("should run: {other:?}"),
    }
}

/// Opens it until those who had it before have let go; their threads end by themselves.
async fn open_alone(folder: &Folder, n: u64) -> Sqlite {
    let until = Instant::now() + PATIENCE;
    loop {
        let store = open(folder);
        if lease_left(&store, n).await.is_zero() {
            return store;
        }
        drop(store);
        assert!(Instant::now() < until, "nobody ends the leases of those who are gone");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn who_is_alone_with_the_file_ends_the_leases_of_those_before() {
    let folder = Folder::new();
    let killed = open(&folder);
    let [safe, unsafe_again] = [take(1, 1), claim(2, 1)];
    let Claimed::Granted(first) = killed.claim(&safe).await.expect("claiming") else { panic!("is granted") };
    assert!(matches!(killed.claim(&unsafe_again).await, Ok(Claimed::Granted(_))));
    drop(killed);

    let next = open_alone(&folder, 1).await;
    let taken = next.claim(&take(1, 2)).await.expect("claiming");
    let Claimed::Granted(second) = taken else { panic!("nobody is left who holds it: {taken:?}") };
    assert!(second.taken_over && second.epoch > first.epoch);
    assert!(matches!(next.claim(&claim(2, 2)).await, Ok(Claimed::Lapsed(_))), "it is not run again");
    // Should it be there after all, it is fenced as ever.
    assert_eq!(next.renew(operation(1), first.epoch, LEASE).await.expect("renewing"), Holding::Lost);
    let late = answered(1, first, "late");
    assert_eq!(next.complete(&late).await.expect("completing"), Holding::Lost);
    assert!(lease_left(&next, 1).await > LEASE / 2, "what is granted from now on holds");
}

#[tokio::test]
async fn while_another_has_the_file_open_its_leases_hold() {
    let folder = Folder::new();
    let first = open(&folder);
    assert!(matches!(first.claim(&take(1, 1)).await, Ok(Claimed::Granted(_))));
    let lock = File::open(lock_of(&folder)).expect("it is there");
    assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)), "nobody else gets it alone");
    for _ in 0..3 {
        let beside = open(&folder);
        assert!(lease_left(&beside, 1).await > LEASE / 2);
        assert!(matches!(beside.claim(&take(1, 2)).await, Ok(Claimed::Found(_))));
    }
    assert!(lease_left(&first, 1).await > LEASE / 2);
}

/// An earlier version of the store has no lock of ours, and somebody may have removed the file that it is on.
#[tokio::test]
async fn a_program_that_only_has_the_database_open_is_not_overlooked() {
    let folder = Folder::new();
    let first = open(&folder);
    assert!(matches!(first.claim(&take(1, 1)).await, Ok(Claimed::Granted(_))));
    std::fs::remove_file(lock_of(&folder)).expect("it is there");
    assert!(lease_left(&open(&folder), 1).await > LEASE / 2, "SQLite knows of the first");
    drop(first);

    let other = Connection::open(folder.file()).expect("opening");
    let count = |other: &Connection| {
        other.query_row("SELECT count(*) FROM idempotency_record", [], |row| row.get::<_, i64>(0))
    };
    assert_eq!(count(&other).expect("reading"), 1);
    for _ in 0..20 {
        assert!(lease_left(&open(&folder), 1).await > LEASE / 2);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    drop(other);
    open_alone(&folder, 1).await;
}

/// A process that reads or copies the file itself drops SQLite's locks on it without knowing.
#[tokio::test]
async fn a_process_whose_locks_on_the_database_were_dropped_is_not_overlooked() {
    let folder = Folder::new();
    let first = open(&folder);
    assert!(matches!(first.claim(&take(1, 1)).await, Ok(Claimed::Granted(_))));
    drop(first);
    drop(open_alone(&folder, 1).await.claim(&take(1, 2)).await);
    // All that is left of a process: the lock beside the file.
    let held = File::open(lock_of(&folder)).expect("it is there");
    held.lock_shared().expect("it can be locked");
    for _ in 0..20 {
        assert!(lease_left(&open(&folder), 1).await > LEASE / 2);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    drop(held);
    open_alone(&folder, 1).await;
}

#[test]
fn processes_that_start_together_make_the_tables_once() {
    for _ in 0..30 {
        let folder = Arc::new(Folder::new());
        let start = Arc::new(std::sync::Barrier::new(6));
        let opening: Vec<_> = (0..6)
            .map(|_| {
                let (folder, start) = (folder.clone(), start.clone());
                std::thread::spawn(move || {
                    start.wait();
                    open(&folder)
                })
            })
            .collect();
        for opened in opening {
            drop(opened.join().expect("it opens"));
        }
    }
}

/// Handles come and go, each as a process would, and each claims the same operation for an hour. Whoever is granted it
/// holds it until its handle is gone: two at once would be two handlers.
#[test]
fn however_processes_come_and_go_two_never_hold_one_operation() {
    const PROCESSES: usize = 6;
    const LIVES: usize = 40;
    let folder = Arc::new(Folder::new());
    let (holding, grants) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let processes: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let (folder, holding, grants) = (folder.clone(), holding.clone(), grants.clone());
            std::thread::spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                for life in 0..LIVES {
                    let store = open(&folder);
                    let claimant = (process * LIVES + life + 1) as u128;
                    let claimed = runtime.block_on(store.claim(&take(1, claimant))).expect("claiming");
                    if matches!(claimed, Claimed::Granted(_)) {
                        grants.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(holding.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                        // Others come while it is held.
                        std::thread::sleep(Duration::from_millis(3));
                        // As after a kill: it ends nothing, and its handle goes afterwards.
                        holding.fetch_sub(1, Ordering::SeqCst);
                    }
                    drop(store);
                    if life % 4 == process % 4 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            })
        })
        .collect();
    for process in processes {
        process.join().expect("no two hold it");
    }
    assert!(grants.load(Ordering::SeqCst) >= 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let last = open_alone(&folder, 1).await;
        assert!(matches!(last.claim(&take(1, 0)).await, Ok(Claimed::Granted(_))), "it is held by nobody");
        granted(&last, 2).await;
    });
}
