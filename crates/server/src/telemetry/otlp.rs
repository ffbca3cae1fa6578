//! Spans as OTLP in JSON: ids in hexadecimal, 64-bit numbers as text.

use super::{Attribute, Outcome, Span};
use perdura_engine::Timestamp;
use perdura_engine::asl::hex;
use serde_json::{Value, json};

/// `SPAN_KIND_INTERNAL`
const INTERNAL: u8 = 1;
/// `SPAN_KIND_CLIENT`
const CLIENT: u8 = 3;
const OK: u8 = 1;
const ERROR: u8 = 2;

/// The body of a request to `/v1/traces`.
pub fn request(service: &str, spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                { "key": "service.name", "value": { "stringValue": service } },
                { "key": "telemetry.sdk.name", "value": { "stringValue": "perdura" } },
                { "key": "telemetry.sdk.version", "value": { "stringValue": version } },
            ] },
            "scopeSpans": [{
                "scope": { "name": "perdura", "version": version },
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    })
}

fn span(span: &Span) -> Value {
    let mut told = json!({
        "traceId": hex::encode(span.trace.uuid().as_bytes()),
        "spanId": hex::encode(&span.id),
        "name": span.name,
        "kind": if span.is_call { CLIENT } else { INTERNAL },
        "startTimeUnixNano": nanoseconds(span.started_at),
        "endTimeUnixNano": nanoseconds(span.ended_at),
        "attributes": attributes(&span.attributes),
        "status": match &span.outcome {
            Outcome::Well => json!({ "code": OK }),
            Outcome::Badly(why) => json!({ "code": ERROR, "message": why }),
        },
    });
    if let Some(parent) = &span.parent {
        told["parentSpanId"] = hex::encode(parent).into();
    }
    if !span.events.is_empty() {
        let events = span.events.iter().map(|event| {
            json!({
                "timeUnixNano": nanoseconds(event.at),
                "name": event.name,
                "attributes": attributes(&event.attributes),
            })
        });
        told["events"] = events.collect();
    }
    if let Some(link) = &span.link {
        told["links"] = json!([{ "traceId": hex::encode(link.trace.uuid().as_bytes()), "spanId": hex::encode(&link.span) }]);
    }
    told
}

fn attributes(attributes: &[(&'static str, Attribute)]) -> Value {
    let told = attributes.iter().map(|(name, value)| {
        let value = match value {
            Attribute::Text(text) => json!({ "stringValue": text }),
            Attribute::Number(number) => json!({ "intValue": number.to_string() }),
        };
        json!({ "key": name, "value": value })
    });
    told.collect()
}

fn nanoseconds(at: Timestamp) -> String {
    (i128::from(at.0.max(0)) * 1_000_000).to_string()
}
