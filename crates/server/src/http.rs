//! The HTTP side: the Step Functions API on `POST /`, and how the server fares.
//!
//! A connection is bounded in every direction: how many there are, how long a client may take for its request, how
//! large that may be. Without access keys only this machine is listened to, and no page in a browser.

mod access;
mod metrics;
mod states;

pub use access::{AccessKeys, Keyring};

use crate::sfn::Api;
use crate::stuck::Watch;
use crate::telemetry::Counts;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use perdura_runtime::Door;
use socket2::{SockRef, TcpKeepalive};
use states::Bodies;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// How many connections there may be. Those of workers that wait for tasks are among them.
const CONNECTIONS_MAX: usize = 50_000;
/// How long a client may take for the head of its request, and a connection rest between two.
const HEAD_FOR: Duration = Duration::from_mins(2);
/// After so long without a word the system asks whether a client is still there.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// How long to wait where the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// What the answers are made of.
#[derive(Clone)]
pub struct Health {
    /// The runtime.
    pub door: Door,
    /// What was last seen of stuck calls.
    pub watch: Arc<Watch>,
    /// What became of spans.
    pub spans: Arc<Counts>,
    /// How often a call was put off because this machine lacked what it needs.
    pub put_off: Arc<AtomicU64>,
}

/// What is served.
pub struct Site {
    /// The Step Functions API.
    pub api: Api,
    /// Who may use it.
    pub keys: Arc<Keyring>,
    /// How the server fares.
    pub health: Health,
}

/// Listens: on this machine alone, unless whoever asks has to say who they are.
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

/// Answers, for as long as it is polled.
pub async fn serve(listener: TcpListener, site: Site) -> io::Result<()> {
    let routes = routes((site.health, site.api.clone()));
    let desk = Arc::new(Desk { api: site.api, keys: site.keys, bodies: Bodies::default(), routes });
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = room.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken; it is tried again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let desk = desk.clone();
        tokio::spawn(async move {
            attend(stream, peer, desk).await;
            drop(place);
        });
    }
}

/// Whether only the one who came is concerned.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Who answers requests.
struct Desk {
    api: Api,
    keys: Arc<Keyring>,
    bodies: Bodies,
    routes: Router,
}

async fn attend(stream: TcpStream, peer: SocketAddr, desk: Arc<Desk>) {
    // Both only make things better; a system that cannot do them serves all the same.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answer(request, peer).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_FOR)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

impl Desk {
    async fn answer(&self, request: Request<hyper::body::Incoming>, peer: SocketAddr) -> Response {
        if request.method() == Method::POST && request.uri().path() == "/" {
            return states::answer(&self.api, &self.keys, &self.bodies, request).await;
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

fn routes(told: (Health, Api)) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(told)
}

async fn ready(State((health, _)): State<(Health, Api)>) -> Response {
    match health.door.trouble() {
        None => "ready\n".into_response(),
        Some(why) => problem(StatusCode::SERVICE_UNAVAILABLE, "nothing can be written", &why),
    }
}

/// Numbers are for this machine: whoever collects them asks from here.
async fn metrics(
    State((health, api)): State<(Health, Api)>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Response {
    if !peer.ip().is_loopback() {
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
