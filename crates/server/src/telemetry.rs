//! Traces of ended executions, for OpenTelemetry collectors.
//!
//! A trace is made from the Turns when its execution has ended, so it costs nothing while the execution runs,
//! and always agrees with the history. Its ids are not drawn but follow from the keys: the trace's is the
//! execution's, and a step's span is the first half of its wire key. So what a called system reports under the
//! `traceparent` of the call appears below the step that called it, whichever reports first.
//!
//! `spans` turns Turns into spans, `otlp` writes them as OTLP in JSON, and
//! [`Exporter`] sends them by a function that it is given.

mod export;
pub mod otlp;
mod spans;

pub use export::{Counts, Ended, Exporter, Post, Undelivered, channel};
pub use spans::{Attribute, Link, Outcome, Span, SpanEvent, Spans};

use perdura_engine::EffectKey;

/// The id of a key's span: the first half of the wire key.
pub fn span_of(key: &EffectKey) -> [u8; 8] {
    let mut span = [0; 8];
    span.copy_from_slice(&key.wire().as_bytes()[..8]);
    span
}
