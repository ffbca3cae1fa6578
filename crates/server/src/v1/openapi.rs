//! The OpenAPI document, made of the table.

use super::problem::Code;
use super::rule::is_keyed;
use super::shape::{Field, Is, Shape};
use super::shapes::PROBLEM;
use super::table::{Answers, Mode, OPERATIONS, Operation, Reads};
use perdura_idempotency::IDEMPOTENCY_KEY;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A UUID of a version that the rule takes. `format: uuid` would say less, and some generated clients cannot send it.
const KEY: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[457][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";

/// OpenAPI 3.1.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut shapes = BTreeMap::new();
    PROBLEM.all(&mut shapes);
    for operation in OPERATIONS {
        if let Reads::Members(shape) = operation.reads {
            shape.all(&mut shapes);
        }
        if let Some(shape) = shape(operation.answers) {
            shape.all(&mut shapes);
        }
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method.name().to_ascii_lowercase()] = told(operation);
    }
    let schemas: Map<String, Value> =
        shapes.into_iter().map(|(name, shape)| (name.to_owned(), shape.schema())).collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "perdura", "version": env!("CARGO_PKG_VERSION"),
            "description": "The API of perdura beside that of Step Functions, which is answered at POST /."},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn shape(answers: Answers) -> Option<&'static Shape> {
    match answers {
        Answers::A(shape) | Answers::Made(shape) | Answers::Perhaps(shape) | Answers::PageOf(shape) => {
            Some(shape)
        }
        Answers::Nothing | Answers::PageOfDocuments | Answers::Document | Answers::Events => None,
    }
}

fn told(operation: &Operation) -> Value {
    let mut told = json!({
        "operationId": operation.name,
        "summary": operation.summary,
        "x-perdura-role": operation.role.name(),
        "x-perdura-idempotency": operation.mode.map(Mode::name),
        "parameters": parameters(operation),
        "responses": responses(operation),
    });
    let body = match operation.reads {
        Reads::Nothing => return told,
        Reads::Members(shape) => (Is::A(shape).schema(), shape.fields.iter().any(|field| field.is_needed)),
        Reads::Definition => (json!({"type": "object"}), true),
    };
    told["requestBody"] = json!({"required": body.1, "content": {"application/json": {"schema": body.0}}});
    told
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let named = operation.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = named
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    all.extend(operation.query.iter().map(|field: &Field| {
        json!({"name": field.name, "in": "query", "description": field.about, "schema": field.is.schema()})
    }));
    if is_keyed(operation) {
        all.push(json!({"name": IDEMPOTENCY_KEY.as_str(), "in": "header", "required": true,
            "description": "A UUID of the caller's own, the same in each repetition of this request. The control socket takes \
                            requests without one.",
            "schema": {"type": "string", "pattern": KEY}}));
    }
    all
}

fn responses(operation: &Operation) -> Value {
    let json = |schema: Value| json!({"description": operation.summary, "content": {"application/json": {"schema": schema}}});
    let page = |items: Value| {
        json!({"type": "object", "required": ["items"], "additionalProperties": false,
            "properties": {"items": {"type": "array", "items": items}, "cursor": {"type": "string"}}})
    };
    let nothing = json!({"description": "nothing to say"});
    let mut responses = match operation.answers {
        Answers::Nothing => json!({ "204": nothing }),
        Answers::A(shape) => json!({"200": json(Is::A(shape).schema())}),
        Answers::Made(shape) => json!({"201": json(Is::A(shape).schema())}),
        Answers::Perhaps(shape) => json!({"200": json(Is::A(shape).schema()), "204": nothing}),
        Answers::PageOf(shape) => json!({"200": json(page(Is::A(shape).schema()))}),
        Answers::PageOfDocuments => json!({"200": json(page(json!({"type": "object"})))}),
        Answers::Document => json!({"200": json(json!({"type": "object"}))}),
        Answers::Events => {
            let text = json!({"type": "string"});
            let event = json!({"type": "object", "properties": {"id": text, "event": text, "data": text}});
            let stream = json!({"text/event-stream": {"schema": event}});
            json!({"200": {"description": operation.summary, "content": stream}, "204": nothing})
        }
    };
    for code in Code::ALL {
        let schema = json!({"application/problem+json": {"schema": Is::A(&PROBLEM).schema()}});
        responses[code.status().to_string()] = json!({"description": code.title(), "content": schema});
    }
    responses
}
