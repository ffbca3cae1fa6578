//! How the server fares, by HTTP: whether it lives, whether it can work, and its numbers.

mod metrics;

use crate::stuck::Watch;
use crate::telemetry::Counts;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use perdura_runtime::Door;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What the answers are made of.
#[derive(Clone)]
pub struct Health {
    /// The runtime.
    pub door: Door,
    /// What was last seen of stuck calls.
    pub watch: Arc<Watch>,
    /// What became of spans.
    pub spans: Arc<Counts>,
}

/// Listens, on this machine alone.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{address} can be reached from other machines, and nobody would be asked who they are. Listen on \
                 127.0.0.1 or [::1], and put a proxy that asks in front of it"
            ),
        ));
    }
    TcpListener::bind(address).await
}

/// Answers, for as long as it is polled.
pub async fn serve(listener: TcpListener, health: Health) -> io::Result<()> {
    axum::serve(listener, routes(health)).await
}

fn routes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(health)
}

async fn ready(State(health): State<Health>) -> Response {
    match health.door.trouble() {
        None => "ready\n".into_response(),
        Some(why) => problem(StatusCode::SERVICE_UNAVAILABLE, "nothing can be written", &why),
    }
}

async fn metrics(State(health): State<Health>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics::text(&metrics::Numbers::of(&health))).into_response()
}

/// RFC 9457.
fn problem(status: StatusCode, title: &str, detail: &str) -> Response {
    let body = serde_json::json!({
        "type": "about:blank",
        "title": title,
        "status": status.as_u16(),
        "detail": detail,
    });
    (status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
