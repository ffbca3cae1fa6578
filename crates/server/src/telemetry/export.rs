//! Exports spans. The runtime only queues the ids of ended executions, and never waits: the queue is bounded, what does
//! not fit is dropped and counted, and a collector that is slow or down costs nothing but its own spans.

use super::{Span, Spans, otlp};
use crate::data::{Data, Served};
use crate::fold::{PAGE_BYTES, broken};
use crate::{Refusal, RefusalKind};
use perdura_engine::ExecutionId;
use perdura_runtime::Seldom;
use perdura_store::Reader;
use perdura_store::record::TurnBody;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How many ended executions may wait.
const QUEUE_MAX: usize = 10_000;
/// How many executions go into one request.
const EXECUTIONS_AT_ONCE: usize = 64;
/// How many spans go into one request.
const SPANS_AT_ONCE: usize = 512;
const TRIES: u32 = 5;
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Posts a body to the collector.
pub type Post = Box<dyn Fn(Vec<u8>) -> Posting + Send + Sync>;
type Posting = Pin<Box<dyn Future<Output = Result<(), Undelivered>> + Send>>;

/// Why the collector did not take spans.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undelivered {
    /// Try again, after the collector's `Retry-After` if it sent one.
    #[error("{why}")]
    NotNow { why: String, after: Option<Duration> },
    /// Trying again is in vain.
    #[error("{0}")]
    Refused(String),
}

/// Counts for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Counts {
    /// Spans that the collector has taken.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Executions of which spans are missing: the queue was full, or the collector did not take them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The sending side of the queue. Cloning shares.
#[derive(Clone, Debug)]
pub struct Ended {
    queue: mpsc::Sender<ExecutionId>,
    counts: Arc<Counts>,
}

impl Ended {
    /// Queues an ended execution. It never waits.
    pub fn tell(&self, execution: ExecutionId) {
        if self.queue.try_send(execution).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts for metrics.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }
}

/// A queue and its exporter.
pub fn channel(service: String, post: Post) -> (Ended, Exporter) {
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    let counts = Arc::<Counts>::default();
    (
        Ended { queue: sender, counts: counts.clone() },
        Exporter { queue, in_hand: Vec::new(), counts, service, post },
    )
}

/// Reads ended executions, and sends their spans.
pub struct Exporter {
    queue: mpsc::Receiver<ExecutionId>,
    /// Taken from the queue, and not yet sent.
    in_hand: Vec<ExecutionId>,
    counts: Arc<Counts>,
    service: String,
    post: Post,
}

impl Exporter {
    /// Works until the future is dropped.
    pub async fn run(&mut self, data: &Served) {
        loop {
            if self.in_hand.is_empty()
                && self.queue.recv_many(&mut self.in_hand, EXECUTIONS_AT_ONCE).await == 0
            {
                return;
            }
            self.export(data.clone(), self.in_hand.clone()).await;
            self.in_hand.clear();
        }
    }

    /// Sends what waits, at shutdown. A request that was interrupted is sent again, with the same ids.
    pub async fn drain(&mut self, data: &Served) {
        self.queue.close();
        self.run(data).await;
    }

    async fn export(&self, mut data: Served, ended: Vec<ExecutionId>) {
        let count = ended.len() as u64;
        let read = tokio::task::spawn_blocking(move || {
            let spans = ended.into_iter().map(|id| data.read(|reader| Ok(read(reader, id)))?);
            let read: Vec<Result<Vec<Span>, Refusal>> = spans.collect();
            read
        });
        let read = match read.await {
            Ok(read) => read,
            Err(panic) => {
                tracing::error!(%panic, "traces cannot be made");
                self.counts.dropped.fetch_add(count, Ordering::Relaxed);
                return;
            }
        };
        let mut spans = Vec::new();
        for execution in read {
            match execution {
                Ok(some) => spans.extend(some),
                // Retention has deleted it.
                Err(refusal) if refusal.kind == RefusalKind::NotFound => {}
                Err(refusal) => {
                    static LINE: Seldom = Seldom::new();
                    if let Some(left_out) = LINE.turn() {
                        tracing::warn!(%refusal, left_out, "an execution cannot be read for its trace");
                    }
                    self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        for some in spans.chunks(SPANS_AT_ONCE) {
            self.deliver(some).await;
        }
    }

    async fn deliver(&self, spans: &[Span]) {
        let body = otlp::request(&self.service, spans).to_string().into_bytes();
        for tried in 1.. {
            let error = match (self.post)(body.clone()).await {
                Ok(()) => {
                    self.counts.sent.fetch_add(spans.len() as u64, Ordering::Relaxed);
                    return;
                }
                Err(error) => error,
            };
            let Some(pause) = pause(&error, tried) else {
                static LINE: Seldom = Seldom::new();
                if let Some(left_out) = LINE.turn() {
                    tracing::warn!(%error, tried, left_out, "spans were not taken, and are dropped");
                }
                let executions = spans.iter().filter(|span| span.parent.is_none()).count().max(1);
                self.counts.dropped.fetch_add(executions as u64, Ordering::Relaxed);
                return;
            };
            tracing::debug!(%error, tried, "spans were not taken; tried again");
            tokio::time::sleep(pause).await;
        }
    }
}

/// The pause before the next try; `None`: there is none.
fn pause(error: &Undelivered, tried: u32) -> Option<Duration> {
    match error {
        Undelivered::Refused(_) => None,
        Undelivered::NotNow { .. } if tried >= TRIES => None,
        Undelivered::NotNow { after: Some(after), .. } => Some((*after).min(PAUSE_MAX)),
        Undelivered::NotNow { after: None, .. } => Some(Duration::from_secs(1 << (tried - 1)).min(PAUSE_MAX)),
    }
}

/// The spans of one execution, from its Turns.
fn read(reader: &mut dyn Reader, id: ExecutionId) -> Result<Vec<Span>, Refusal> {
    let mut made: Option<Spans> = None;
    let mut from = 1;
    loop {
        let page = reader.turns(id, from, PAGE_BYTES)?;
        let Some(last) = page.last() else { break };
        from = last.number + 1;
        for turn in &page {
            let body = TurnBody::read(&turn.body).map_err(|damage| broken(id, &damage))?;
            if let (None, Some(begun)) = (&made, body.begun) {
                made = Some(Spans::new(begun.identity, begun.parent.as_ref()));
            }
            if let Some(spans) = &mut made {
                spans.turn(&body.turn);
            }
        }
    }
    made.map(Spans::finish).ok_or_else(|| Refusal::not_found(format!("there is no execution {id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_is_away_is_tried_again_for_a_while_and_one_that_refuses_is_not() {
        let away = |after: Option<u64>| Undelivered::NotNow {
            why: "no answer".into(),
            after: after.map(Duration::from_secs),
        };
        for (error, tried, expected) in [
            (away(None), 1, Some(1)),
            (away(None), 3, Some(4)),
            (away(None), 5, None),
            (away(Some(7)), 1, Some(7)),
            (away(Some(3600)), 1, Some(30)),
            (Undelivered::Refused("no".into()), 1, None),
        ] {
            assert_eq!(pause(&error, tried), expected.map(Duration::from_secs), "{error:?} {tried}");
        }
    }

    #[test]
    fn what_does_not_fit_the_queue_is_dropped_and_counted() {
        let (ended, _exporter) = channel("perdura".into(), Box::new(|_| Box::pin(async { Ok(()) })));
        for count in 0..QUEUE_MAX as u128 + 5 {
            ended.tell(ExecutionId::from_random(count));
        }
        assert_eq!((ended.counts().dropped(), ended.counts().sent()), (5, 0));
    }
}
