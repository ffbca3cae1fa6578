//! HTTP: the Step Functions API on `POST /`, health and metrics.
//!
//! Everything about a connection is bounded: how many there are, how long a client may take for its request, how
//! large that may be. Without access keys the server listens on loopback only, and refuses pages in a browser. When a
//! client hangs up, the future that answers it is dropped, and what it held is free.

mod access;
mod bodies;
mod connections;
mod hosts;
mod line;
mod metrics;
mod patience;
mod states;

pub use access::{AccessKeys, Keyring};
pub use hosts::Hosts;

use crate::sfn::{Api, ApiError, Code};
use crate::stuck::Watch;
use crate::telemetry::Counts;
use access::Shown;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use connections::{Connections, Taken};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use line::Line;
use patience::Patient;
use perdura_runtime::Door;
use perdura_runtime::Seldom;
use perdura_sigv4::sha256;
use socket2::{SockRef, TcpKeepalive};
use states::States;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

/// How long a connection may be idle between two requests.
const REST_FOR: Duration = Duration::from_mins(1);
/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// TCP keepalive: after so long without traffic the system probes the client.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// The pause after an `accept` that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// What health and metrics are made of.
#[derive(Clone)]
pub struct Health {
    pub door: Door,
    pub watch: Arc<Watch>,
    pub spans: Arc<Counts>,
    /// How often a call waited for files or memory of this machine.
    pub put_off: Arc<AtomicU64>,
}

/// How long work may wait unseen before `/readyz` fails.
const STALLED_MAX: Duration = Duration::from_secs(3);

impl Health {
    /// Why the server is not ready; `None`: it is. This never blocks.
    fn trouble(&self) -> Option<(&'static str, Arc<str>)> {
        if let Some(why) = self.door.trouble() {
            return Some(("nothing can be written", why));
        }
        let stalled = stalled(self.door.stalled_for())?;
        Some(("work waits", stalled.into()))
    }
}

/// The message for a node that has not looked at its work for so long.
fn stalled(stalled_for: Duration) -> Option<String> {
    let seconds = stalled_for.as_secs();
    (stalled_for > STALLED_MAX).then(|| format!("nothing has moved for {seconds} s, while work waits"))
}

/// Everything that HTTP serves.
pub struct Site {
    pub api: Api,
    pub keys: Arc<Keyring>,
    pub health: Health,
    /// The names that requests may put into `Host`.
    pub hosts: Hosts,
    pub files: u64,
}

/// Listens: on loopback only, unless access keys are required.
pub async fn bind(address: SocketAddr, asks_for_keys: bool) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() && !asks_for_keys {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{address} can be reached from other machines, and nobody would be asked who they are. Set access keys \
                 (serve.access_key_file), or listen on 127.0.0.1 or [::1]"
            ),
        ));
    }
    TcpListener::bind(address).await
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, site: Site) -> io::Result<()> {
    static LINE: Seldom = Seldom::new();
    let told = Told { health: site.health, api: site.api.clone(), keys: site.keys.clone() };
    let (states, routes) = (States::new(site.api), routes(told));
    let desk = Arc::new(Desk { states, keys: site.keys, hosts: site.hosts, routes });
    let connections = Arc::new(Connections::of_files(site.files));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                if let Some(left_out) = LINE.turn() {
                    tracing::warn!(%error, left_out, "no connection can be accepted; trying again");
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = connections.take(peer.ip()) else { continue };
        tokio::spawn(attend(stream, peer, place, desk.clone()));
    }
}

/// Whether the error is of this one connection.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// What all connections share.
struct Desk {
    states: States,
    keys: Arc<Keyring>,
    hosts: Hosts,
    routes: Router,
}

async fn attend(stream: TcpStream, peer: SocketAddr, place: Taken, desk: Arc<Desk>) {
    // Both are optional: without them the connection still works.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    let progress = place.seat.progress.clone();
    let line = Line::new(stream);
    let stream = Patient::new(line.clone(), progress.clone());
    let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (desk, progress) = (desk.clone(), progress.clone());
        async move {
            progress.step();
            let answer = desk.answer(request, peer).await;
            progress.step();
            Ok::<_, Infallible>(answer)
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REST_FOR)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        biased;
        served = served => if let Err(error) = served {
            tracing::debug!(%peer, %error, "a connection ended early");
        },
        () = line.is_hung_up() => tracing::debug!(%peer, "a client hung up"),
        () = place.seat.is_needed() => tracing::debug!(%peer, "a connection made room for another"),
    }
}

impl Desk {
    async fn answer(&self, request: Request<hyper::body::Incoming>, peer: SocketAddr) -> Response {
        let is_of_api = request.method() == Method::POST && request.uri().path() == "/";
        if request.uri().path() != ALIVE
            && let Some(name) = self.hosts.stranger(request.uri(), request.headers())
        {
            let why = format!("{name:?} is no name of this server: if it is, put it into serve.hosts");
            if is_of_api {
                return self.states.refuse(&ApiError::new(Code::AccessDeniedException, why));
            }
            return problem(StatusCode::MISDIRECTED_REQUEST, "not under this name", &why);
        }
        if is_of_api {
            return self.states.answer(&self.keys, request).await;
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// The path of the liveness probe, which is answered under any `Host`.
const ALIVE: &str = "/healthz";
const METRICS: &str = "/metrics";

/// What health and metrics are told from.
#[derive(Clone)]
struct Told {
    health: Health,
    api: Api,
    keys: Arc<Keyring>,
}

fn routes(told: Told) -> Router {
    Router::new()
        .route(ALIVE, get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route(METRICS, get(metrics))
        .with_state(told)
}

async fn ready(State(told): State<Told>) -> Response {
    match told.health.trouble() {
        None => "ready\n".into_response(),
        Some((what, why)) => problem(StatusCode::SERVICE_UNAVAILABLE, what, &why),
    }
}

/// Metrics need an access key where keys are set; without keys only this machine gets them.
async fn metrics(
    State(Told { health, api, keys }): State<Told>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    if keys.asks() {
        let shown = Shown {
            method: "GET",
            path: METRICS,
            query: uri.query().unwrap_or_default(),
            headers: &headers,
            body_sha256: sha256(b""),
            now: api.moment().now.0.unsigned_abs() / 1000,
        };
        if !keys.has_password(&headers) && keys.check(&shown).is_err() {
            let why = "metrics need an access key: its id and secret as name and password, or a signature";
            let mut refused = problem(StatusCode::UNAUTHORIZED, "not without a key", why);
            let asked = HeaderValue::from_static("Basic realm=\"perdura\"");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, asked);
            return refused;
        }
    } else if !peer.ip().is_loopback() {
        return problem(StatusCode::FORBIDDEN, "not from there", "metrics are told on this machine alone");
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics::text(&metrics::Numbers::of(&health, &api))).into_response()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_leaves_work_unseen_for_seconds_is_told_of() {
        assert_eq!(stalled(Duration::ZERO), None);
        assert_eq!(stalled(STALLED_MAX), None);
        let told = stalled(Duration::from_millis(7_400)).expect("that is too long");
        assert_eq!(told, "nothing has moved for 7 s, while work waits");
    }
}
