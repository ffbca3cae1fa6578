//! Writes what machines want logged to CloudWatch Logs, or to whatever speaks like it at the configured address.
//!
//! Executions that have ended wait in a bounded queue. One that does not fit, or whose records are not taken after some
//! tries, is missing in the log and told of in ours: an execution waits for no log.

use perdura_engine::asl::json::{Payload, Value};
use perdura_engine::asl::object;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Attempt, Call, EffectKey, ExecutionId, Outcome, StrandId};
use perdura_runtime::Seldom;
use perdura_server::sfn::{Api, LogPage, LogRecord};
use perdura_tasks::Tasks;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How many ended executions may wait.
const QUEUE_MAX: usize = 10_000;
/// CloudWatch Logs takes no more at once: bytes, of which each record has some more than its own, and a day.
const BATCH_BYTES_MAX: usize = 1_000_000;
const RECORD_BYTES: usize = 26;
const BATCH_MS_MAX: i64 = 24 * 60 * 60 * 1000;
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// What a stream that is there already is answered with.
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
    tasks: Tasks,
}

/// A queue and its writer, where CloudWatch Logs has an address.
pub(super) fn writer(tasks: &Tasks) -> Option<(Ended, Writer)> {
    if !tasks.performs(&resource("putLogEvents")) {
        return None;
    }
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    Some((Ended(sender), Writer { queue, tasks: tasks.clone() }))
}

impl Writer {
    /// Works until the future is dropped.
    pub(super) async fn run(&mut self, api: &Api) {
        while let Some(execution) = self.queue.recv().await {
            self.write(api, execution).await;
        }
    }

    /// Writes what waits, at shutdown.
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
            for (action, input) in requests(&page) {
                calls += 1;
                if let Err(why) = self.call(execution, calls, action, input).await {
                    return missing(execution, &why);
                }
            }
            match page.next {
                Some(next) => place = Some(next),
                None => return,
            }
        }
    }

    async fn call(
        &self,
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
            match self.tasks.outcome(execution, &call).await {
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

/// As many as go into one request.
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
        let page = LogPage { group: "g".into(), stream: "s".into(), records: Vec::new(), next: None };
        assert_eq!(requests(&page), []);
        let page = LogPage { records: vec![record(5, 1)], ..page };
        let actions: Vec<&str> = requests(&page).iter().map(|(action, _)| *action).collect();
        assert_eq!(actions, ["createLogStream", "putLogEvents"]);
    }
}
