//! The operations over HTTP, for callers.

use super::{Looked, Operations};
use crate::answer::{Answer, Kept};
use crate::door::{Door, store_problem};
use crate::fingerprint::Hashing;
use crate::layer::IdempotencyLayer;
use crate::openapi::{Promise, Published, PublishedRoute};
use crate::policy::{Mode, Policy};
use crate::problem::{Problem, Reason};
use crate::record::{OperationId, Record, Standing};
use crate::scope::{Denied, Scope};
use crate::vault::Sealing;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::request::Parts;
use http::{HeaderValue, Method, header};
use serde_json::{Value, json};
use std::sync::PoisonError;
use subtle::ConstantTimeEq;

/// How long a program may cache the policy.
const POLICY_CACHED: HeaderValue = HeaderValue::from_static("public, max-age=60");
const NOT_CACHED: HeaderValue = HeaderValue::from_static("no-store");

impl Operations {
    /// `GET /policy`, `GET /openapi` and `GET /operations/{operation}`, to be nested anywhere in the program, behind
    /// the same authentication as the layer itself. The first two answer the same to everybody.
    pub fn router<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        Router::new()
            .route("/policy", get(policy))
            .route("/openapi", get(openapi))
            .route("/operations/{operation}", get(operation))
            .with_state(self.clone())
    }

    /// The settings that callers may know.
    pub fn published(&self) -> Published {
        let IdempotencyLayer { door, routes } = &self.layer;
        let declared = door.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let published = declared.0.iter().map(|((template, method), policy)| PublishedRoute {
            method: Method::from_bytes(method.as_bytes()).expect("it was a method"),
            template: template.clone(),
            promise: promise(policy),
        });
        Published {
            profile: door.profile,
            key_versions: door.keys.versions.iter().collect(),
            opaque_keys: door.keys.opaque,
            stale_keys_refused: door.refuse_stale_keys,
            budgets: door.spending.budgets(),
            routes: published.collect(),
            undeclared: routes.undeclared().map(promise),
        }
    }
}

fn promise(policy: &Policy) -> Promise {
    let fingerprint = match policy.hashing {
        Hashing::Raw => "raw",
        Hashing::CanonicalJson => "canonical_json",
    };
    match &policy.mode {
        Mode::Exempt => Promise::Exempt,
        mode @ (Mode::AtMostOnce | Mode::Transactional | Mode::Durable(_)) => Promise::Protected {
            mode: mode.name(),
            fingerprint,
            answer_for: policy.keep.answer_for,
            tombstone_for: policy.keep.tombstone_for,
            wait_for_max: policy.wait_for_max,
            body_bytes_max: policy.body_bytes_max as u64,
            answer_bytes_max: policy.answer_bytes_max as u64,
        },
    }
}

async fn policy(State(operations): State<Operations>) -> Response {
    document(POLICY_CACHED, &operations.published().policy())
}

async fn openapi(State(operations): State<Operations>) -> Response {
    document(POLICY_CACHED, &operations.published().openapi())
}

async fn operation(State(operations): State<Operations>, Path(id): Path<String>, parts: Parts) -> Response {
    let door = &operations.layer.door;
    let refused = |problem: Problem| {
        problem.found_below(door.operations_at.as_deref()).into_response(door.profile).map(Body::from)
    };
    let Some(scope) = (door.scope_of)(&parts) else { return refused(Problem::new(Reason::ScopeMissing)) };
    if let Some(authorise) = &door.authorise {
        match authorise.authorise(&parts, &scope).await {
            Ok(()) => {}
            Err(Denied::Forbidden) => return refused(Problem::new(Reason::NotAuthorised)),
            Err(Denied::Answer(answer)) => return *answer,
        }
    }
    let not_found = Problem::new(Reason::OperationNotFound);
    let Some(id) = OperationId::parse(&id) else { return refused(not_found) };
    match door.store.look(id).await {
        Ok(Some(record)) if bool::from(record.scope.0.ct_eq(&door.vault.scope(&scope).0)) => {
            document(NOT_CACHED, &told(door, &scope, id, &record))
        }
        // The same answer for one that never existed, one that expired, and one of another caller.
        Ok(Some(_) | None) => refused(not_found),
        Err(error) => refused(store_problem(&error)),
    }
}

/// The data of an operation for its caller.
fn told(door: &Door, scope: &Scope, id: OperationId, record: &Record) -> Value {
    let looked = Looked::from(record);
    json!({
        "operation": id.to_string(),
        "state": looked.state.name(),
        "epoch": looked.epoch.0,
        "first_at": looked.first_at.to_string(),
        "ended_at": looked.ended_at.map(|at| at.to_string()),
        "expires_at": looked.expires_at.map(|at| at.to_string()),
        "result_retained": is_retained(door, scope, id, record),
    })
}

/// Whether a repeated request would get its answer. Not if the answer can no longer be decrypted.
fn is_retained(door: &Door, scope: &Scope, operation: OperationId, record: &Record) -> bool {
    let Standing::Completed { at: _, expires_at: _, answer } = &record.standing else { return false };
    let sealing = Sealing {
        tenant: &scope.tenant,
        scope: record.scope,
        operation,
        request: record.request,
        epoch: record.epoch,
    };
    let opened = door.vault.open(&sealing, answer).inspect_err(|error| {
        tracing::warn!(%error, %operation, "a stored answer cannot be opened");
    });
    let answer = opened.ok().and_then(|opened| Answer::decode(&opened));
    answer.is_some_and(|answer| matches!(answer.body, Kept::Body(_)))
}

fn document(cached: HeaderValue, content: &Value) -> Response {
    let media_type = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, cached)], content.to_string())
        .into_response()
}
