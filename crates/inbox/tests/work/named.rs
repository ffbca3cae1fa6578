//! What broke others, by name.

use crate::bench::{Folder, StandingClock, connection, fresh_schema, open_postgres};
use crate::faults::Faulty;
use crate::{in_time, look, once, settings};
use perdura_inbox::conformance::name;
use perdura_inbox::row::{Ending, Held, Holding, Message, Named};
use perdura_inbox::store::{Memory, Postgres, Sqlite, Store, postgres, sqlite};
use perdura_inbox::{Handler, Inbox, Put, Receipt, Settings, Status, Worked, at_least_once};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The row is taken away from its worker and claimed by another.
async fn eject<S: Store>(inbox: &Inbox<S>, step: impl AsyncFnOnce()) -> (Held, Held) {
    inbox.put("1", "a booking").await.expect("putting");
    let address = inbox.address("1").expect("an id");
    let claim = async |owner: &str| match inbox.claim_named(&address, &name(owner)).await {
        Ok(Named::Claimed(message)) => message.held().expect("it is held"),
        other => panic!("should be claimed: {other:?}"),
    };
    let stale = claim("node").await;
    step().await;
    assert_eq!(inbox.lapse().await.expect("looking").len(), 1);
    // A node of the same name, as after a restart.
    (stale, claim("node").await)
}

fn message_of(message: &Message, held: &Held) -> Message {
    let mut message = message.clone();
    message.row.epoch = held.epoch;
    message
}

/// A node that was ejected, and comes back late, commits neither its effect nor its end.
#[tokio::test]
async fn a_stale_node_that_commits_after_it_was_ejected_on_sqlite() {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let options = sqlite::Options {
        prepare: |connection| connection.execute_batch("CREATE TABLE IF NOT EXISTS booking (id TEXT)"),
        ..sqlite::Options::default()
    };
    let store = Sqlite::open_with_clock(folder.file(), &options, clock.clock()).expect("opening");
    let inbox = Inbox::new(store.clone(), "bookings", settings()).expect("a name");
    let (stale, new) = eject(&inbox, async || clock.step(31.0)).await;
    let handler = sqlite::transactional(|database, message| {
        database.execute("INSERT INTO booking VALUES (?1)", [message.row.address.id.as_str()])?;
        Ok(())
    });
    let message = look(&inbox, "1").await;
    let file = rusqlite::Connection::open(folder.file()).expect("opening");
    for (held, expected, bookings) in [(&stale, Holding::Lost, 0), (&new, Holding::Held, 1)] {
        let worked = handler.work(&store, message_of(&message, held), held).await.expect("working");
        assert!(matches!(worked, Worked::Ended(holding) if holding == expected), "{worked:?}");
        let count: i64 =
            file.query_row("SELECT count(*) FROM booking", [], |row| row.get(0)).expect("counting");
        assert_eq!(count, bookings);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_node_that_commits_after_it_was_ejected_on_postgres() {
    let schema = fresh_schema();
    let clock_of = crate::bench::PostgresClock::of;
    let store = open_postgres(&schema).await;
    let clock = clock_of(&schema).await;
    let client = connection().await;
    client.batch_execute(&format!("CREATE TABLE {schema}.booking (id text)")).await.expect("a table");
    let inbox = Inbox::new(store.clone(), "bookings", settings()).expect("a name");
    let (stale, new) = eject(&inbox, async || clock.step(31.0).await).await;
    let insert = format!("INSERT INTO {schema}.booking VALUES ($1)");
    let handler = postgres::transactional(move |transaction, message| {
        let insert = insert.clone();
        Box::pin(async move {
            transaction.execute(&insert, &[&message.row.address.id.as_str()]).await?;
            Ok(())
        })
    });
    let message = look(&inbox, "1").await;
    let count = format!("SELECT count(*) FROM {schema}.booking");
    for (held, expected, bookings) in [(&stale, Holding::Lost, 0), (&new, Holding::Held, 1)] {
        let worked = handler.work(&store, message_of(&message, held), held).await.expect("working");
        assert!(matches!(worked, Worked::Ended(holding) if holding == expected), "{worked:?}");
        let told: i64 = client.query_one(&count, &[]).await.expect("counting").get(0);
        assert_eq!(told, bookings);
    }
}

/// The end was applied and its answer lost, as often as you like: the row is DONE, and nobody says that it failed.
#[tokio::test]
async fn a_commit_that_was_applied_but_answered_with_an_error_is_not_dead_lettered() {
    let store = Faulty::new(Memory::new());
    let mut settings = settings();
    settings.retry.attempts_max = 1;
    let inbox = Inbox::new(store.clone(), "mail", settings).expect("a name");
    store.ends_muted.store(3, Ordering::SeqCst);
    let works = Arc::new(AtomicU32::new(0));
    let counted = works.clone();
    let worker = inbox.work(at_least_once(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    }));
    inbox.put("1", "mail").await.expect("putting");
    in_time("the answer", async {
        while store.ends_asked.load(Ordering::SeqCst) < 4 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    in_time("stopping", worker.stop()).await;
    let row = look(&inbox, "1").await.row;
    assert_eq!((row.status, row.attempts, row.last_error), (Status::Done, 1, None));
    assert_eq!(works.load(Ordering::SeqCst), 1);
    // A consumer that takes the error for a failure, and dead-letters, is refused too.
    let held = Held { address: row.address, owner: row.owner.expect("claimed"), epoch: row.epoch };
    for ending in
        [Ending::Dead { error: "e".into() }, Ending::Again { error: "e".into(), delay_for: Duration::ZERO }]
    {
        assert_eq!(store.end(&held, &ending).await.expect("ending"), Holding::Lost);
    }
}

/// Ids that two tenants chose by chance are two messages, on each store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_collide_between_tenants_are_no_duplicates() {
    let folder = Folder::new();
    let sqlite = Sqlite::open(folder.file(), &sqlite::Options::default()).expect("opening");
    let postgres: Postgres = open_postgres(&fresh_schema()).await;
    let stores: [Arc<dyn Store>; 3] = [Arc::new(Memory::new()), Arc::new(sqlite), Arc::new(postgres)];
    for store in stores {
        let inbox = Inbox::shared(store, "orders", settings()).expect("a name");
        let worked: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let notes = worked.clone();
        let worker = inbox.work(at_least_once(move |message| {
            notes.lock().expect("nobody panics here").push(message.row.address.tenant.to_string());
            async { Ok(()) }
        }));
        for tenant in ["acme", "zenith"] {
            let put = Put::new(inbox.address_of(tenant, "1").expect("an id"), format!("of {tenant}"));
            assert!(matches!(inbox.put_message(&put).await, Ok(Receipt::Accepted(_))), "{tenant}");
        }
        in_time("the work", async {
            while inbox.counts().await.expect("counting").done < 2 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        in_time("stopping", worker.stop()).await;
        let mut worked = worked.lock().expect("nobody panics here").clone();
        worked.sort();
        assert_eq!(worked, ["acme", "zenith"]);
    }
}

/// Counts when it is dropped.
struct Tells(Arc<AtomicU32>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A worker that cannot renew its leases stops its handler before they run out, gives nothing up, and its row is worked
/// after that: a pause orphans nothing.
#[tokio::test]
async fn a_pause_that_orphans_rows_does_not() {
    let store = Faulty::new(Memory::new());
    let lease_for = Duration::from_millis(600);
    let settings = Settings { lease_for, ..settings() };
    let inbox = Inbox::new(store.clone(), "mail", settings).expect("a name");
    store.beats_lost.store(u32::MAX, Ordering::SeqCst);
    let dropped = Arc::new(AtomicU32::new(0));
    let tells = dropped.clone();
    let worker = inbox.work(at_least_once(move |message| {
        let tells = Tells(tells.clone());
        async move {
            let _tells = tells;
            // The first attempt never ends by itself.
            if message.row.attempts == 1 { std::future::pending().await } else { Ok(()) }
        }
    }));
    inbox.put("1", "mail").await.expect("putting");
    let row = once(&inbox, "1", Status::Done).await;
    assert_eq!(row.attempts, 2);
    assert_eq!(dropped.load(Ordering::SeqCst), 2, "the first attempt was stopped");
    in_time("stopping", worker.stop()).await;
}

/// While leases are renewed, a handler that takes many leases' time keeps its row.
#[tokio::test]
async fn a_slow_handler_keeps_its_row() {
    let store = Memory::new();
    let settings = Settings { lease_for: Duration::from_secs(3), ..settings() };
    let inbox = Inbox::new(store, "mail", settings).expect("a name");
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let goes_on = Arc::new(tokio::sync::Notify::new());
    let waits = goes_on.clone();
    let worker = inbox.work(at_least_once(move |_| {
        let (begun, waits) = (begun.clone(), waits.clone());
        async move {
            begun.send(()).await?;
            waits.notified().await;
            Ok(())
        }
    }));
    inbox.put("1", "mail").await.expect("putting");
    in_time("the work", has_begun.recv()).await;
    let first = look(&inbox, "1").await.row;
    let renewed = in_time("two renewals", async {
        let mut until = first.lease_until;
        for _ in 0..2 {
            loop {
                let row = look(&inbox, "1").await.row;
                assert_eq!((row.status, row.epoch), (Status::Doing, first.epoch));
                if row.lease_until > until {
                    until = row.lease_until;
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        until
    });
    assert!(renewed.await > first.lease_until);
    goes_on.notify_one();
    assert_eq!(once(&inbox, "1", Status::Done).await.attempts, 1);
    in_time("stopping", worker.stop()).await;
}

/// Neither time, nor a redrive, nor a duplicate, nor a late end has a row worked again that is DONE.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_row_is_not_claimed_again() {
    let clock = StandingClock::new();
    let inbox = Inbox::new(Memory::with_clock(clock.clock()), "mail", settings()).expect("a name");
    let works = Arc::new(AtomicU32::new(0));
    let counted = works.clone();
    let worker = inbox.work(at_least_once(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    }));
    inbox.put("1", "mail").await.expect("putting");
    let done = once(&inbox, "1", Status::Done).await;
    let address = inbox.address("1").expect("an id");
    for _ in 0..5 {
        clock.step(3_600.0);
        assert_eq!(inbox.lapse().await.expect("looking"), []);
        assert!(matches!(inbox.put("1", "mail").await, Ok(Receipt::Duplicate(_))));
        inbox.redrive(&address).await.expect("redriving");
        assert_eq!(
            inbox.claim_named(&address, &name("b")).await.expect("claiming"),
            Named::Taken(Status::Done)
        );
    }
    // Whatever a worker would claim comes before this one is done.
    inbox.put("2", "mail").await.expect("putting");
    once(&inbox, "2", Status::Done).await;
    assert_eq!(look(&inbox, "1").await.row, done);
    assert_eq!(works.load(Ordering::SeqCst), 2);
    in_time("stopping", worker.stop()).await;
}
