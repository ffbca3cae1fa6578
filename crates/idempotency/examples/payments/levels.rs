//! `POST /levels`: a write to a resource that refuses old writers. How many there are of an item is set, not changed,
//! so a second run does no harm; a write that was on its way for too long would, once a newer one has come before it.

use crate::App;
use crate::plug::Point;
use crate::refusal::Refusal;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use perdura_idempotency::record::Epoch;
use perdura_idempotency::{Attached, IdempotencyContext};
use serde_json::{Value, json};
use std::future::{Ready, ready};

/// What became of the write that somebody began? It does not matter: the next one counts, and the resource sees to it.
pub(crate) fn begin_again(_: IdempotencyContext) -> Ready<Attached> {
    ready(Attached::NotBegun)
}

impl App {
    /// Sends the write. Nobody can take it back once it is on its way, whatever becomes of the handler.
    async fn set(&self, told: Epoch, level: &Value) -> Result<(StatusCode, Json<Value>), Refusal> {
        let line = json!({"what": "level", "reference": level["reference"], "item": level["item"]});
        let plug = self.plug.clone();
        let on_the_way = move || plug.at(Point::BeforeEffect);
        if !self.ledger.append_unless_older(told, line, on_the_way).await? {
            return Err("a newer write came before this one".into());
        }
        self.plug.at(Point::AfterEffect);
        Ok((StatusCode::CREATED, Json(json!({"item": level["item"], "epoch": told.0}))))
    }
}

/// Sets it.
pub(crate) async fn set(
    State(app): State<App>,
    context: IdempotencyContext,
    Json(level): Json<Value>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    app.set(context.epoch(), &level).await
}

/// How not to do it: the resource is told nothing by which it could refuse.
pub(crate) async fn set_unfenced(
    State(app): State<App>,
    Json(level): Json<Value>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    app.set(Epoch(0), &level).await
}
