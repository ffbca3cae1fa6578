//! Each row leaves log lines with its id, and no line has a payload.

use perdura_inbox::conformance::name;
use perdura_inbox::row::Named;
use perdura_inbox::store::Memory;
use perdura_inbox::{Failed, Inbox, Settings, Status, at_least_once};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Keeper;

/// Writes each field into the line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("writing to a string");
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("perdura_inbox")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Whether this was logged of the row, at this level.
fn is_told(id: &str, level: &str, what: &str) -> bool {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().any(|line| {
        line.starts_with(&format!("{level} "))
            && line.contains(&format!("message={what}"))
            && line.contains(&format!(" inbox=mail tenant=default id={id} "))
    })
}

#[tokio::test]
async fn what_becomes_of_a_row_is_logged_with_its_id() {
    tracing::subscriber::set_global_default(Keeper).expect("nobody else listens");
    let now = Arc::new(Mutex::new(jiff::Timestamp::UNIX_EPOCH));
    let clock = now.clone();
    let memory = Memory::with_clock(Arc::new(move || *clock.lock().expect("nobody panics here")));
    let pass = |time: Duration| *now.lock().expect("nobody panics here") += time;
    let inbox = Inbox::new(memory, "mail", Settings::default()).expect("a name");
    let worker = inbox.work(at_least_once(|message| async move {
        match message.row.address.id.as_str() {
            "good" => Ok(()),
            "bad" => Err(Failed::again("not today")),
            _ => Err(Failed::dead("never")),
        }
    }));
    for (id, status) in [("good", Status::Done), ("bad", Status::Pending), ("dead", Status::Dead)] {
        inbox.put(id, "a secret").await.expect("putting");
        let address = inbox.address(id).expect("an id");
        let ends = async {
            loop {
                let row = inbox.look(&address).await.expect("looking").expect("it is there").row;
                if row.status == status && row.attempts == 1 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), ends).await.expect("it ends");
    }
    worker.stop().await;
    for (id, level, what) in
        [("good", "INFO", "done"), ("bad", "WARN", "returned"), ("dead", "ERROR", "dead")]
    {
        assert!(is_told(id, "INFO", "taken") && is_told(id, level, what), "{id}: {LINES:?}");
    }
    // By name, and what is found by time.
    inbox.put("named", "a secret").await.expect("putting");
    inbox.put("named", "another secret").await.expect("putting");
    inbox.put("good", "a secret").await.expect("putting");
    assert!(is_told("named", "WARN", "another message came under a known id"));
    assert!(is_told("good", "INFO", "a duplicate"));
    let address = inbox.address("named").expect("an id");
    let Named::Claimed(message) = inbox.claim_named(&address, &name("a")).await.expect("claiming") else {
        panic!("it is pending")
    };
    assert_eq!(inbox.claim_named(&address, &name("b")).await.expect("claiming"), Named::Taken(Status::Doing));
    assert!(is_told("named", "INFO", "skipped"));
    pass(Duration::from_secs(31));
    inbox.lapse().await.expect("looking");
    assert!(is_told("named", "WARN", "returned"));
    inbox.done(&message.held().expect("it was held")).await.expect("ending");
    assert!(is_told("named", "WARN", "lost"));
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(lines.iter().all(|line| !line.contains("secret")), "{lines:?}");
}
