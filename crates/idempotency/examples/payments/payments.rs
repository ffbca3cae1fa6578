//! `POST /payments`, at most once, beside it how not to do it, and what only reads.

use crate::App;
use crate::ledger::{blocking, write_first};
use crate::plug::Point;
use crate::refusal::Refusal;
use axum::Json;
use axum::extract::{Path, State};
use http::{HeaderMap, StatusCode};
use perdura_idempotency::IDEMPOTENCY_KEY;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Another for each time that something is done.
pub(crate) fn receipt() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl App {
    /// The deed: one line in the ledger.
    async fn pay(&self, payment: &Value) -> Result<Value, Refusal> {
        self.plug.at(Point::BeforeEffect);
        self.plug.passed().await;
        tokio::time::sleep(self.work_for).await;
        let receipt = receipt();
        let line = json!({"what": "payment", "reference": payment["reference"], "to": payment["to"],
            "cents": payment["cents"], "receipt": receipt});
        self.ledger.append(line).await?;
        self.plug.at(Point::AfterEffect);
        Ok(json!({"receipt": receipt, "cents": payment["cents"]}))
    }
}

/// Pays. Nobody can ask the ledger whether it was done, so a crash in the middle is an unknown outcome.
pub(crate) async fn pay(
    State(app): State<App>,
    Json(payment): Json<Value>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    Ok((StatusCode::CREATED, Json(app.pay(&payment).await?)))
}

/// How not to do it: look whether there is an answer, do it, keep the answer. Two requests at the same time both find
/// none, and a crash after the deed forgets it.
pub(crate) async fn naive(
    State(app): State<App>,
    headers: HeaderMap,
    Json(payment): Json<Value>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|key| Uuid::try_parse_ascii(key.as_bytes()).ok());
    let key = key.ok_or("a UUID in Idempotency-Key is needed")?;
    let path = app.ledger.beside("naive").join(key.to_string());
    if let Ok(known) = std::fs::read(&path) {
        return Ok((StatusCode::CREATED, Json(serde_json::from_slice(&known)?)));
    }
    let answer = app.pay(&payment).await?;
    let kept = answer.clone();
    blocking(move || write_first(&path, &kept)).await?;
    Ok((StatusCode::CREATED, Json(answer)))
}

/// What was done under a reference: lines of the ledger, what was asked of it, and how many entries transfers made.
pub(crate) async fn ledger(
    State(app): State<App>,
    Path(reference): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let lines = app.ledger.about(&reference).await?;
    let attempts = app.ledger.attempts(&reference).await?;
    let entries = app.book.entries(reference).await?;
    Ok(Json(json!({"lines": lines, "attempts": attempts, "entries": entries})))
}

/// The same by POST, because what is looked for may be long. It reads, so it is exempt.
pub(crate) async fn search(State(app): State<App>, Json(query): Json<Value>) -> Result<Json<Value>, Refusal> {
    let reference = query["reference"].as_str().ok_or("a reference to look for is missing")?;
    Ok(Json(app.ledger.about(reference).await?.into()))
}
