//! Writes the logs of executions: to CloudWatch Logs, or a service with its API at the configured address; without an
//! address to files, if a folder is configured.
//!
//! Ended executions wait in a bounded queue. If one does not fit, or its records are refused after some tries, it is
//! missing in the log, and our own log says so: an execution waits for no log.

mod folder;

use perdura_engine::asl::json::{Payload, Value};
use perdura_engine::asl::object;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Attempt, Call, EffectKey, ExecutionId, Outcome, StrandId};
use perdura_runtime::Seldom;
use perdura_server::sfn::{Api, LogPage, LogRecord};
use perdura_tasks::Tasks;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How many ended executions may wait.
const QUEUE_MAX: usize = 10_000;
/// CloudWatch Logs' limits of one request: bytes, with an overhead for each record, and a time span of a day.
const BATCH_BYTES_MAX: usize = 1_000_000;
const RECORD_BYTES: usize = 26;
const BATCH_MS_MAX: i64 = 24 * 60 * 60 * 1000;
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// The error for a stream that exists already.
const THERE_ALREADY: &str = "ResourceAlreadyExistsException";

/// The sending side of the queue.
#[derive(Clone)]
pub(super) struct Ended(mpsc::Sender<ExecutionId>);

impl Ended {
    /// Queues an ended execution. It never waits.
    pub(super) fn tell(&self, execution: ExecutionId) {
        if self.0.try_send(execution).is_err() {
            missing(execution, "too many executions wait for their logs");
        }
    }
}

pub(super) struct Writer {
    queue: mpsc::Receiver<ExecutionId>,
    place: Place,
}

/// The place for logs.
enum Place {
    CloudWatch(Tasks),
    Folder(PathBuf),
}

/// A queue and its writer, if there is a place for logs.
pub(super) fn writer(tasks: &Tasks, folder: Option<PathBuf>) -> Option<(Ended, Writer)> {
    let is_there = tasks.performs(&resource("putLogEvents"));
    let place = if is_there { Place::CloudWatch(tasks.clone()) } else { Place::Folder(folder?) };
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    Some((Ended(sender), Writer { queue, place }))
}

impl Writer {
    /// Works until the future is dropped.
    pub(super) async fn run(&mut self, api: &Api) {
        while let Some(execution) = self.queue.recv().await {
            self.write(api, execution).await;
        }
    }

    /// Writes waiting logs, at shutdown.
    pub(super) async fn drain(&mut self, api: &Api) {
        self.queue.close();
        self.run(api).await;
    }

    async fn write(&self, api: &Api, execution: ExecutionId) {
        let (mut place, mut calls) = (None, 0);
        loop {
            let page = match api.log_page(execution, place).await {
                Ok(Some(page)) => page,
                Ok(None) => return,
                Err(error) => return missing(execution, &error.message),
            };
            let next = page.next;
            let written = match &self.place {
                Place::CloudWatch(tasks) => send(tasks, execution, &page, &mut calls).await,
                Place::Folder(folder) => keep(folder.clone(), page).await,
            };
            if let Err(why) = written {
                return missing(execution, &why);
            }
            match next {
                Some(next) => place = Some(next),
                None => return,
            }
        }
    }
}

/// Sends a page to CloudWatch Logs.
async fn send(tasks: &Tasks, execution: ExecutionId, page: &LogPage, calls: &mut u32) -> Result<(), String> {
    for (action, input) in requests(page) {
        *calls += 1;
        call(tasks, execution, *calls, action, input).await?;
    }
    Ok(())
}

/// Appends a page to the file of its machine.
async fn keep(folder: PathBuf, page: LogPage) -> Result<(), String> {
    let write = move || {
        let LogPage { machine, records, .. } = page;
        let written = folder::append(&folder, &machine, &records, folder::FILE_BYTES_MAX);
        written.map_err(|error| format!("{}: {error}", folder.display()))
    };
    tokio::task::spawn_blocking(write).await.unwrap_or_else(|_| Err("the writing thread is gone".into()))
}

async fn call(
    tasks: &Tasks,
    execution: ExecutionId,
    number: u32,
    action: &str,
    input: Value,
) -> Result<(), String> {
    let key = format!("{execution}:perdura.log#{number}:1");
    let call = Call {
        strand: StrandId::TOP,
        key: EffectKey::try_from(Arc::from(key)).expect("it has an execution, a step and a round"),
        attempt: Attempt::FIRST,
        resource: resource(action),
        input: Payload::from(input),
        token: None,
        credentials: None,
        timeout_seconds: None,
        heartbeat_seconds: None,
        submitted: false,
    };
    let mut why = String::new();
    for tried in 1..=TRIES {
        match tasks.outcome(execution, &call).await {
            Outcome::Failed { fault, .. } if !fault.error.as_deref().is_some_and(is_there_already) => {
                why = fault.cause.map(|cause| cause.to_string()).unwrap_or_default();
            }
            _ => return Ok(()),
        }
        if tried < TRIES {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Err(why)
}

fn is_there_already(error: &str) -> bool {
    error.ends_with(THERE_ALREADY)
}

fn resource(action: &str) -> Resource {
    Resource::parse(&format!("arn:aws:states:::aws-sdk:cloudwatchlogs:{action}")).expect("an SDK integration")
}

fn missing(execution: ExecutionId, why: &str) {
    static LINE: Seldom = Seldom::new();
    if let Some(left_out) = LINE.turn() {
        tracing::warn!(%execution, why, left_out, "the log of an execution is not whole");
    }
}

/// The calls that write a page.
fn requests(page: &LogPage) -> Vec<(&'static str, Value)> {
    let (group, stream) = (page.group.as_str(), page.stream.as_str());
    if page.records.is_empty() {
        return Vec::new();
    }
    let create = object! {"LogGroupName" => group, "LogStreamName" => stream};
    let put = |records: &[LogRecord]| {
        let events: Vec<Value> = records
            .iter()
            .map(|record| object! {"Timestamp" => record.at.0, "Message" => record.message.as_str()})
            .collect();
        ("putLogEvents", object! {"LogGroupName" => group, "LogStreamName" => stream, "LogEvents" => events})
    };
    [("createLogStream", create)].into_iter().chain(batches(&page.records).into_iter().map(put)).collect()
}

/// The records of one request.
fn batches(records: &[LogRecord]) -> Vec<&[LogRecord]> {
    let (mut found, mut rest) = (Vec::new(), records);
    while let Some(first) = rest.first() {
        let mut bytes = 0;
        let fits = |record: &&LogRecord| {
            bytes += record.message.len() + RECORD_BYTES;
            bytes <= BATCH_BYTES_MAX && record.at.0 - first.at.0 < BATCH_MS_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (batch, after) = rest.split_at(count);
        found.push(batch);
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::Timestamp;

    fn record(at: i64, bytes: usize) -> LogRecord {
        LogRecord { at: Timestamp(at), message: "x".repeat(bytes) }
    }

    #[test]
    fn a_batch_is_bounded_in_bytes_and_in_time() {
        let sizes =
            |records: &[LogRecord]| batches(records).iter().map(|batch| batch.len()).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[record(0, 10), record(1, 10)]), [2]);
        assert_eq!(sizes(&[record(0, 600_000), record(1, 600_000)]), [1, 1]);
        assert_eq!(sizes(&[record(0, 2_000_000), record(1, 1)]), [1, 1], "one that is too large goes alone");
        assert_eq!(sizes(&[record(0, 1), record(BATCH_MS_MAX, 1)]), [1, 1]);
    }

    #[test]
    fn a_page_without_records_makes_no_stream() {
        let (machine, group, stream) = ("m".into(), "g".into(), "s".into());
        let page = LogPage { machine, group, stream, records: Vec::new(), next: None };
        assert_eq!(requests(&page), []);
        let page = LogPage { records: vec![record(5, 1)], ..page };
        let actions: Vec<&str> = requests(&page).iter().map(|(action, _)| *action).collect();
        assert_eq!(actions, ["createLogStream", "putLogEvents"]);
    }
}
