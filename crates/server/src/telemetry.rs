//! Traces of ended executions, for those who collect them from many systems.
//!
//! A trace is made from the record when its execution has ended, so nothing is kept for it while the execution runs,
//! and it cannot tell another story than the history. Its ids are not drawn but follow from the keys: the trace's is the
//! execution's, and a step's span is the first half of its key on the wire. So what a called system reports under the
//! `traceparent` that came with the call stands below the step that called it, whoever reports first.
//!
//! `spans` turns a record into spans, `otlp` writes them as OpenTelemetry's protocol has them in JSON, and
//! [`Exporter`] hands them over. How they travel is not known here.

mod export;
pub mod otlp;
mod spans;

pub use export::{Counts, Ended, Exporter, Post, Undelivered, channel};
pub use spans::{Attribute, Link, Outcome, Span, SpanEvent, Spans};

use perdura_engine::EffectKey;

/// The first half of a key on the wire: the id of its span.
pub fn span_of(key: &EffectKey) -> [u8; 8] {
    let mut span = [0; 8];
    span.copy_from_slice(&key.wire().as_bytes()[..8]);
    span
}
