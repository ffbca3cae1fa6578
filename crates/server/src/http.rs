//! HTTP: the Step Functions API on `POST /`, our own below `/v1`, health and metrics.
//!
//! Everything about a connection is bounded: how many there are, how long a client may take for its request, how
//! large that may be. Without access keys the server listens on loopback only, and refuses pages in a browser. When a
//! client hangs up, the future that answers it is dropped, and what it held is free.

mod access;
mod attend;
mod bodies;
pub mod connections;
mod hosts;
mod line;
mod metrics;
pub mod patience;
mod proxies;
mod states;
mod tls;

pub use access::{AccessKey, AccessKeys, Keyring};
pub use hosts::Hosts;
pub(crate) use patience::Patient;
pub use proxies::{Proxies, told};
pub use tls::{Tls, TlsError};

use crate::places::Room;
use crate::sfn::{Api, ApiError, Code};
use crate::stuck::Watch;
use crate::telemetry::Counts;
use crate::v1::{self, Problem, V1};
use crate::who::Caller;
use crate::who::token::Known;
use access::Shown;
use attend::attend;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use connections::Connections;
use perdura_runtime::{Door, Reading, Seldom};
use perdura_sigv4::sha256;
use states::States;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tower::ServiceExt;

/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The pause after an `accept` that failed.
const PAUSE: Duration = Duration::from_millis(50);
/// How many connections may wait to be accepted. The system may have a smaller bound.
const BACKLOG: u32 = 4_096;

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
    pub v1: V1,
    pub keys: Arc<Keyring>,
    pub tokens: Arc<Known>,
    pub health: Health,
    /// The names that requests may put into `Host`.
    pub hosts: Hosts,
    /// Who may say for whom they ask.
    pub proxies: Proxies,
    pub files: u64,
    /// Without it connections are plain.
    pub tls: Option<Tls>,
}

/// Listens: on loopback only, unless everybody is asked for an access key or a token.
pub fn bind(address: SocketAddr, asks: bool) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() && !asks {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{address} can be reached from other machines, and nobody would be asked who they are. Set access keys \
                 (serve.access_key_file), make a token (perdura token create), or listen on 127.0.0.1 or [::1]"
            ),
        ));
    }
    listen(address)
}

/// Listens with a backlog for a crowd. With the usual 128, clients that come by the hundred at once are dropped by the
/// system before they are accepted, and wait for seconds until they try again.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // After a restart the port is free at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, site: Site) -> io::Result<()> {
    static LINE: Seldom = Seldom::new();
    let (keys, tokens) = (site.keys, site.tokens);
    let told = Told {
        health: site.health,
        api: site.api.clone(),
        v1: site.v1.clone(),
        keys: keys.clone(),
        tokens: tokens.clone(),
    };
    let (states, routes) = (States::new(site.api), routes(told));
    let desk = Arc::new(Desk {
        states,
        v1: site.v1,
        keys,
        tokens,
        hosts: site.hosts,
        proxies: site.proxies,
        tls: site.tls,
        routes,
    });
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
        let Some(place) = connections.take(peer.ip(), desk.proxies.trust(peer.ip())) else { continue };
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
    v1: V1,
    keys: Arc<Keyring>,
    tokens: Arc<Known>,
    hosts: Hosts,
    proxies: Proxies,
    tls: Option<Tls>,
    routes: Router,
}

impl Desk {
    async fn answer(&self, request: Request<hyper::body::Incoming>, peer: SocketAddr) -> Response {
        let is_passed_on = self.proxies.trust(peer.ip());
        let peer = self.proxies.client(peer, request.headers());
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
        if is_of_api && !self.keys.asks() && !self.tokens.get().is_empty() {
            // Otherwise whoever has no token, or a small one, would do here what /v1 refuses.
            let why = "there are tokens, so nobody is let in unasked: set serve.access_key_file, and sign with a key of it";
            return self.states.refuse(&ApiError::new(Code::MissingAuthenticationTokenException, why));
        }
        if is_of_api {
            return self.states.answer(&self.keys, request, peer).await;
        }
        if v1::is_ours(request.uri().path()) {
            return self.own(request, (peer, is_passed_on)).await.unwrap_or_else(Problem::into_response);
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

impl Desk {
    /// Answers a request of `/v1`.
    async fn own(
        &self,
        request: Request<hyper::body::Incoming>,
        (peer, is_passed_on): (SocketAddr, bool),
    ) -> Result<Response, Problem> {
        let (head, body) = request.into_parts();
        let caller = self.caller(&head.headers, (peer, is_passed_on))?;
        let (body, room) = self.states.body(&head.headers, body).await?;
        let mut request = Request::from_parts(head, Body::from(body));
        if let Some(room) = room {
            request.extensions_mut().insert(Room::of(room));
        }
        request.extensions_mut().insert(self.tokens.clone());
        request.extensions_mut().insert(ConnectInfo(peer));
        Ok(self.v1.answer(request, caller).await)
    }

    /// Who asks: the holder of a token; on loopback, where there are neither tokens nor access keys, whoever has the
    /// machine, and asks without a proxy.
    fn caller(
        &self,
        headers: &HeaderMap,
        (peer, is_passed_on): (SocketAddr, bool),
    ) -> Result<Caller, Problem> {
        if headers.contains_key(header::ORIGIN) {
            // Otherwise any page opened on this machine could do all that a program here can.
            return Err(Problem::new(v1::Code::Forbidden, "requests from pages in a browser are not taken"));
        }
        let tokens = self.tokens.get();
        if tokens.is_empty() && !self.keys.asks() && peer.ip().is_loopback() && !is_passed_on {
            return Ok(Caller::owner());
        }
        let caller = self.tokens.admit(headers, self.states.api.moment().now);
        caller.map_err(|denied| {
            tracing::debug!(%peer, %denied, "a request was refused");
            Problem::new(v1::Code::NotAuthenticated, "nobody knows who asks")
                .but("send a token (Authorization: Bearer), or use the control socket in the data directory")
        })
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
    v1: V1,
    keys: Arc<Keyring>,
    tokens: Arc<Known>,
}

fn routes(told: Told) -> Router {
    Router::new()
        .route(ALIVE, get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route(METRICS, get(metrics))
        .with_state(told)
}

impl Told {
    /// Why the server is not ready: the data and the record of keys are both to be written.
    async fn trouble(&self) -> Option<(&'static str, Arc<str>)> {
        match self.health.trouble() {
            Some(trouble) => Some(trouble),
            None => self.v1.trouble().await.map(|why| ("no key can be recorded", why)),
        }
    }
}

async fn ready(State(told): State<Told>) -> Response {
    match told.trouble().await {
        None => format!("ready\n{}", paused(&told.health.door.gauges())).into_response(),
        Some((what, why)) => problem(StatusCode::SERVICE_UNAVAILABLE, what, &why),
    }
}

/// What is paused keeps nobody from being served, but whoever looks why nothing moves is told.
fn paused(reading: &Reading) -> String {
    match (reading.pauses, reading.pauses_all) {
        (0, _) => String::new(),
        (_, true) => "paused: all machines\n".into(),
        (1, false) => "paused: 1 machine\n".into(),
        (count, false) => format!("paused: {count} machines\n"),
    }
}

/// Metrics need an access key or a token where there are any; without them only this machine gets metrics.
async fn metrics(
    State(told): State<Told>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let Told { api, keys, tokens, .. } = &told;
    let now = api.moment().now;
    if keys.asks() || !tokens.get().is_empty() {
        let shown = Shown {
            method: "GET",
            path: METRICS,
            query: uri.query().unwrap_or_default(),
            headers: &headers,
            body_sha256: sha256(b""),
            now: now.0.unsigned_abs() / 1000,
        };
        let has_key = keys.asks() && (keys.has_password(&headers) || keys.check(&shown).is_ok());
        if !has_key && let Err(denied) = tokens.admit(&headers, now) {
            tracing::debug!(%peer, %denied, "metrics were refused");
            let why = "metrics need a token (Authorization: Bearer), or an access key: its id and secret as name and \
                       password, or a signature";
            let mut refused = problem(StatusCode::UNAUTHORIZED, "not without a token or a key", why);
            for scheme in ["Bearer", "Basic realm=\"perdura\""] {
                refused.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
            }
            return refused;
        }
    } else if !peer.ip().is_loopback() {
        return problem(StatusCode::FORBIDDEN, "not from there", "metrics are told on this machine alone");
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let is_ready = told.trouble().await.is_none();
    let numbers = metrics::Numbers::of(&told.health, api, is_ready);
    ([(header::CONTENT_TYPE, kind)], metrics::text(&numbers)).into_response()
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

    #[tokio::test]
    async fn a_crowd_of_clients_is_connected_before_any_of_them_is_accepted() {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("there is a port");
        let address = listener.local_addr().expect("it listens");
        let crowd = tokio::task::spawn_blocking(move || {
            let connect = |_| std::net::TcpStream::connect_timeout(&address, Duration::from_secs(10));
            (0..600).map(connect).collect::<io::Result<Vec<_>>>()
        });
        assert_eq!(crowd.await.expect("nothing panics").expect("all are connected").len(), 600);
    }
}
