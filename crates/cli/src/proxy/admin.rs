//! The endpoints for operators: health, metrics, and unknown outcomes.

use super::{Numbers, problem};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{StatusCode, Uri};
use perdura_idempotency::operations::{Operations, Resolution, ResolveError};
use perdura_idempotency::record::OperationId;
use perdura_idempotency::{Metrics, metrics};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

/// How many unknown outcomes to list at once.
const LISTED_MAX: u32 = 1000;

#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) operations: Operations,
    pub(crate) metrics: Metrics,
    pub(crate) numbers: Arc<Numbers>,
}

/// The routes of the operator's listener.
pub(crate) fn router(desk: Desk) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(numbers))
        .route("/unknown", get(unknown))
        .route("/unknown/{operation}/not-applied", post(not_applied))
        .layer(from_fn(no_pages))
        .with_state(desk)
}

/// Protects against browser pages: one on this machine can send requests here, even under a name that resolves to it.
async fn no_pages(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() || name == "localhost";
    if request.headers().contains_key(ORIGIN) || !is_address {
        let why = "operators ask under an address or localhost, and not from a page";
        return problem(StatusCode::FORBIDDEN, "NOT_FROM_THERE", why);
    }
    next.run(request).await
}

async fn ready(State(desk): State<Desk>) -> Response {
    match desk.operations.check_writes().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, "NOT_READY", &error.to_string()),
    }
}

async fn numbers(State(desk): State<Desk>) -> Response {
    let text = desk.metrics.render() + &desk.numbers.render();
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn unknown(State(desk): State<Desk>) -> Response {
    let listed = match desk.operations.unknown(LISTED_MAX).await {
        Ok(listed) => listed,
        Err(error) => return problem(StatusCode::SERVICE_UNAVAILABLE, "NOT_READY", &error.to_string()),
    };
    let shown = listed.iter().map(|(operation, looked)| {
        json!({
            "operation": operation.to_string(),
            "beganAt": looked.first_at.to_string(),
            "unknownAt": looked.ended_at.map(|at| at.to_string()),
            "forgottenAt": looked.expires_at.map(|at| at.to_string()),
        })
    });
    let body = json!({"items": shown.collect::<Vec<_>>()}).to_string();
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// An operator says that nothing was done: a retry under the same key is passed on.
async fn not_applied(State(desk): State<Desk>, Path(operation): Path<String>) -> Response {
    let Some(operation) = OperationId::parse(&operation) else {
        return problem(StatusCode::NOT_FOUND, "NOT_RESOLVED", "this is no operation");
    };
    match desk.operations.resolve(operation, Resolution::NotApplied).await {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => {
            let status = match &error {
                ResolveError::NotThere(_) => StatusCode::NOT_FOUND,
                ResolveError::NotUnknown { .. }
                | ResolveError::OtherScope(_)
                | ResolveError::Superseded(_)
                | ResolveError::Seal(_) => StatusCode::CONFLICT,
                ResolveError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            problem(status, "NOT_RESOLVED", &error.to_string())
        }
    }
}
