//! The headers of every call over HTTP: its key, and the trace context (W3C `traceparent`).

use http::{HeaderName, HeaderValue};
use perdura_engine::{EffectKey, ExecutionId};

/// The header of the trace context.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The key, as it goes over the wire.
pub(crate) fn key(key: &EffectKey) -> HeaderValue {
    header(key.wire().hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()))
}

/// The execution is the trace, and the first half of the key on the wire is the span, so that the spans of the called
/// system are below the step that called it.
pub(crate) fn trace(execution: ExecutionId, key: &EffectKey) -> HeaderValue {
    let span = key.wire().as_u64_pair().0;
    header(&format!("00-{}-{span:016x}-01", execution.uuid().simple()))
}

fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("digits, letters and dashes make a header")
}
