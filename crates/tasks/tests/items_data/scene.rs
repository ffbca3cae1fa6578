//! What the tests of items share: folders to read from, orders, and what came of them.

#![allow(dead_code, reason = "each test file uses its part")]

use perdura_engine::asl::json::{Payload, Value, parse};
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Fault, ReaderOrder, Status, Timestamp, WriterOrder};
use perdura_runtime::{ChildResult, Fed, Feed, ReadOrder, Reply, Source, WriteOrder};
use perdura_tasks::client::Client;
use perdura_tasks::guard::Guard;
use perdura_tasks::items::{BucketSettings, ItemSettings, ItemStores, read, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::{Semaphore, oneshot};

/// What came into a run.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) source: Option<Source>,
    pub(crate) items: Vec<Value>,
    pub(crate) batches: Vec<usize>,
    pub(crate) end: Option<Result<(), Fault>>,
}

impl Taken {
    pub(crate) fn version(&self) -> String {
        self.source.as_ref().expect("a source was told").version.to_string()
    }

    /// The items, of a reading that ended well.
    pub(crate) fn whole(self) -> Vec<Value> {
        assert_eq!(self.end, Some(Ok(())), "the reading ends well");
        self.items
    }

    /// The cause, of a reading that failed.
    pub(crate) fn cause(&self) -> String {
        let Some(Err(fault)) = &self.end else { panic!("the reading fails: {self:?}") };
        assert_eq!(fault.error.as_deref(), Some("States.ItemReaderFailed"));
        fault.cause.as_deref().expect("a cause").to_owned()
    }
}

pub(crate) fn json(text: &str) -> Value {
    parse(text).expect("JSON")
}

/// An empty folder of this test alone.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("items-{}-{name}", std::process::id()));
    if path.exists() {
        fs::remove_dir_all(&path).expect("an old folder goes");
    }
    fs::create_dir_all(&path).expect("a folder");
    fs::canonicalize(path).expect("a path")
}

/// Settings with one bucket, `local`, that is this folder.
pub(crate) fn local(folder: &Path) -> ItemSettings {
    let bucket = BucketSettings { folder: Some(folder.to_owned()), ..BucketSettings::default() };
    ItemSettings {
        local: Some(folder.to_owned()),
        buckets: [("local".to_owned(), bucket)].into(),
        ..ItemSettings::default()
    }
}

pub(crate) fn client() -> Client {
    Client::new(Guard::default()).expect("a client")
}

pub(crate) fn stores(settings: &ItemSettings) -> ItemStores {
    ItemStores::new(settings, &client()).expect("settings that fit")
}

pub(crate) fn reader(action: &str, arguments: &str, config: &str, max_items: Option<i64>) -> ReaderOrder {
    ReaderOrder {
        resource: Resource::parse(&format!("arn:aws:states:::s3:{action}")).expect("an ARN"),
        arguments: Payload::from_text(arguments).expect("JSON"),
        config: json(config),
        max_items,
    }
}

/// A feed that takes everything; each batch is shown to `see` and then kept, if `see` says so.
pub(crate) fn feed(see: impl Fn(&[Value]) -> bool + Send + Sync + 'static) -> (Feed, Arc<Mutex<Taken>>) {
    let taken = Arc::new(Mutex::new(Taken::default()));
    let (room, into) = (Arc::new(Semaphore::new(2)), taken.clone());
    let more = room.clone();
    let feed = Feed::new(room, move |fed| {
        let mut taken = into.lock().expect("nobody panics");
        match fed {
            Fed::From(source) => {
                assert!(
                    taken.source.is_none() && taken.batches.is_empty(),
                    "the source is told once, and first"
                );
                taken.source = Some(source);
            }
            Fed::Items(items) => {
                assert!(taken.source.is_some(), "the source is told before the first item");
                taken.batches.push(items.len());
                if see(&items) {
                    taken.items.extend(items);
                }
                more.add_permits(1);
            }
            Fed::End(how) => {
                taken.end.get_or_insert(how);
            }
        }
    });
    (feed, taken)
}

pub(crate) async fn take(stores: &ItemStores, reader: ReaderOrder) -> Taken {
    let (feed, taken) = feed(|_| true);
    read(stores, ReadOrder { reader, feed }).await;
    std::mem::take(&mut *taken.lock().expect("nobody panics"))
}

/// Reads with `s3:getObject`.
pub(crate) async fn get(stores: &ItemStores, bucket: &str, key: &str, config: &str) -> Taken {
    let arguments = format!(r#"{{"Bucket": "{bucket}", "Key": "{key}"}}"#);
    take(stores, reader("getObject", &arguments, config, None)).await
}

/// Reads with `s3:listObjectsV2`.
pub(crate) async fn list(stores: &ItemStores, bucket: &str, prefix: &str, config: &str) -> Taken {
    let arguments = format!(r#"{{"Bucket": "{bucket}", "Prefix": "{prefix}"}}"#);
    take(stores, reader("listObjectsV2", &arguments, config, None)).await
}

pub(crate) const MAP_RUN: &str =
    "arn:aws:states:us-east-1:123456789012:mapRun:orders/Each:ad9b5f27-090b-3ac6-9beb-243cd77144a7";

/// The result of child number `index`.
pub(crate) fn child(index: u64, status: Status, output: Option<&str>) -> ChildResult {
    let machine: Arc<str> = "arn:aws:states:us-east-1:123456789012:stateMachine:orders/Each".into();
    let fault = match status {
        Status::Failed => Fault::new("Broken", format!("number {index}")),
        Status::TimedOut => Fault::named("States.Timeout"),
        Status::Created | Status::Running | Status::Succeeded | Status::Aborted => Fault::default(),
    };
    let has_ended = !matches!(status, Status::Created | Status::Running);
    ChildResult {
        index,
        arn: format!("arn:aws:states:us-east-1:123456789012:execution:orders/Each:c{index}").into(),
        name: format!("c{index}").into(),
        machine_arn: machine,
        status,
        input: Payload::from_text(format!(r#"{{"n":{index}}}"#)).expect("JSON"),
        output: output.map(|text| Payload::from_text(text).expect("JSON")),
        fault,
        started_at: Timestamp(1_700_000_000_123),
        ended_at: has_ended.then_some(Timestamp(1_700_000_001_000)),
        redrives: 0,
    }
}

pub(crate) fn writer(arguments: &str, config: &str) -> WriterOrder {
    WriterOrder {
        resource: Resource::parse("arn:aws:states:::s3:putObject"),
        arguments: Payload::from_text(arguments).expect("JSON"),
        config: json(config),
    }
}

/// Writes results, and gives the state's result.
pub(crate) async fn put(
    stores: &ItemStores,
    writer: WriterOrder,
    results: impl Iterator<Item = ChildResult> + Send + 'static,
) -> Result<Value, Fault> {
    let (sender, receiver) = oneshot::channel();
    let reply = Reply::new(move |written| sender.send(written).expect("somebody waits"));
    let order = WriteOrder { writer, map_run_arn: MAP_RUN.into(), results: Box::new(results.map(Ok)), reply };
    write(stores, order).await;
    receiver.await.expect("a reply").map(|payload| payload.value().clone())
}
