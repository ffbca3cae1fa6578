//! `perdura proxy`: the rule of the Idempotency-Key in front of a program that cannot change.
//!
//! The rule is `perdura-idempotency`'s. This module decides which requests need it, who the caller is, and how a
//! request gets to the program and its answer back.

mod admin;
mod flow;
mod headers;
mod route;
mod tunnel;
mod upstream;

pub(crate) use headers::Forwarded;
pub(crate) use route::Rule;

use crate::arguments::{Caller, ProxyArguments, Uncertain};
use crate::serve::{files, listen_for_signals, logs, signalled, threads};
use crate::{table, terminal};
use anyhow::{Context, Result, bail};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use flow::Flowing;
use http::{HeaderValue, Method, Request, StatusCode, Version, header};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use perdura_idempotency::store::{Memory, Sqlite, Store, sqlite};
use perdura_idempotency::{
    Attached, Budgets, Builder, IDEMPOTENCY_KEY, IdempotencyContext, IdempotencyLayer, IdempotencyService,
    Metrics, Policy, Scope, Secret,
};
use perdura_server::http::connections::{Connections, Taken};
use perdura_server::http::listen;
use perdura_server::http::patience::Patient;
use perdura_server::places::{Crowded, Place, Places};
use perdura_tasks::client::Forwarder;
use perdura_tasks::guard::Guard;
use route::{Demand, Rules};
use std::convert::Infallible;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tower::{Layer, ServiceExt};
use upstream::{Inner, Peer, Upstream};

/// How long a connection may be idle between two requests.
const REST_FOR: Duration = Duration::from_mins(1);
/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The time limit for a client to send a protected request.
const ARRIVE_FOR: Duration = Duration::from_mins(1);
/// The pause after an `accept` that failed.
const PAUSE: Duration = Duration::from_millis(50);
/// How many copies of a request may wait for the first, and how many requests in all.
const WAITING_MAX: (usize, usize) = (1024, 8192);
/// The memory for bodies of protected requests: of small ones, and of the others together.
const SMALL_ROOM: usize = 64 << 20;
const ROOM: usize = 256 << 20;
/// The largest body that is small.
const SMALL: usize = 64 << 10;
/// The unit of this memory.
const UNIT: usize = 1 << 10;
/// How long to wait for memory, and how many requests may wait.
const ROOM_FOR: Duration = Duration::from_secs(5);
const ROOM_WAITING_MAX: usize = 1024;
/// A caller is often a whole service, and with `--caller none` all callers together.
const RUNNING_MAX: u32 = 4096;

/// The time limits for the upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
}

/// The counters of the proxy, beside those of the layer.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    passed: AtomicU64,
    not_reached: AtomicU64,
    lost: AtomicU64,
}

impl Numbers {
    /// In the format of Prometheus.
    fn render(&self) -> String {
        let all = [
            ("passed_on", "Requests passed on to the upstream.", &self.passed),
            ("not_reached", "Requests for which no connection to the upstream was made.", &self.not_reached),
            ("not_answered", "Requests that left and got no answer.", &self.lost),
        ];
        let line = |(name, help, count): (&str, &str, &AtomicU64)| {
            let (name, count) = (format!("perdura_proxy_{name}_total"), count.load(Ordering::Relaxed));
            format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}\n")
        };
        all.into_iter().map(line).collect()
    }
}

/// A problem as in RFC 9457, like the layer's refusals.
fn problem(status: StatusCode, reason: &str, detail: &str) -> Response {
    let kind = reason.to_ascii_lowercase().replace('_', "-");
    let body = serde_json::json!({
        "type": format!("urn:perdura:problem:{kind}"),
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
        "detail": detail,
        "reason": reason,
        "next": if status.is_server_error() { "same_key" } else { "stop" },
    });
    let headers = [(header::CONTENT_TYPE, "application/problem+json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, body.to_string()).into_response()
}

/// Runs the proxy until a signal comes.
pub(crate) fn proxy(arguments: &ProxyArguments) -> Result<ExitCode> {
    logs::start(&arguments.log, arguments.log_format)?;
    let signals = listen_for_signals()?;
    let files = files::raise();
    threads()?.block_on(serve(arguments, files, signals))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(arguments: &ProxyArguments, files: u64, signals: watch::Receiver<bool>) -> Result<()> {
    let (store, secret) = open(arguments)?;
    let listener = bind(arguments.listen, arguments.allow_remote)?;
    let admin = match arguments.admin {
        Some(address) => Some(bind(address, arguments.allow_remote)?),
        None => None,
    };
    let (metrics, numbers) = (Metrics::new(), Arc::<Numbers>::default());
    let rules = Rules(arguments.route.clone());
    let layer = layer(arguments, &rules, store, secret, metrics.clone()).await?;
    let upstream = Upstream::from(Inner {
        forwarder: Forwarder::new(Guard::default()).context("TLS cannot be set up")?,
        url: arguments.upstream.clone(),
        timeouts: Timeouts { first_byte: arguments.first_byte, idle: arguments.idle },
        forwarded: arguments.forwarded,
        keeps_host: arguments.keep_host,
        numbers: numbers.clone(),
    });
    let door = Arc::new(Door {
        rules,
        guarded: layer.layer(upstream.clone()),
        upstream,
        idle: arguments.idle,
        room: Room::for_bodies_of(arguments.body_max),
    });
    ready(arguments, &listener, admin.as_ref())?;
    if let Some(admin) = admin {
        let desk = admin::Desk { operations: layer.operations(), metrics, numbers };
        tokio::spawn(async move { axum::serve(admin, admin::router(desk)).await });
    }
    let (stop, stopping) = watch::channel(false);
    let (alive, mut ended) = mpsc::channel::<()>(1);
    tokio::select! {
        biased;
        () = signalled(signals) => {}
        () = accept(listener, files, &door, &stopping, &alive) => {}
    }
    tracing::info!("shuts down; a second signal ends it at once");
    drop(alive);
    stop.send_replace(true);
    let all = async {
        // Nothing is sent: the channel closes with the last connection.
        ended.recv().await;
        layer.drain().await;
    };
    if tokio::time::timeout(arguments.grace, all).await.is_err() {
        tracing::warn!(
            "requests are still under way; what came of them is told as unknown after the next start"
        );
    }
    Ok(())
}

/// Listens, on loopback only unless `--allow-remote` is given.
fn bind(address: SocketAddr, allows_remote: bool) -> Result<TcpListener> {
    if !address.ip().is_loopback() && !allows_remote {
        bail!(
            "{address} can be reached from other machines. If that is meant, say --allow-remote; if not, listen on \
             127.0.0.1 or [::1]"
        );
    }
    listen(address).with_context(|| format!("cannot listen on {address}"))
}

/// Opens the record and the secret for hashing keys. They belong together.
fn open(arguments: &ProxyArguments) -> Result<(Arc<dyn Store>, Secret)> {
    if arguments.memory {
        return Ok((Arc::new(Memory::new()), Secret::new(drawn()?)?));
    }
    let folder = &arguments.data;
    let shown = folder.display();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make {shown}"))?;
    let close = std::fs::set_permissions(folder, Permissions::from_mode(0o700));
    close.with_context(|| format!("cannot make {shown} its owner's alone"))?;
    let secret = secret(folder).with_context(|| format!("cannot read or make {shown}/proxy.secret"))?;
    let file = folder.join("proxy.db");
    let made = OpenOptions::new().append(true).create(true).mode(0o600).open(&file);
    made.with_context(|| format!("cannot write {}", file.display()))?;
    let store = Sqlite::open(&file, &sqlite::Options::default())
        .with_context(|| format!("cannot use {}", file.display()))?;
    Ok((Arc::new(store), Secret::new(secret).with_context(|| format!("{shown}/proxy.secret is damaged"))?))
}

fn drawn() -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// The secret in the folder, which is created once. If two processes begin together, one links its own, and both read
/// that.
fn secret(folder: &Path) -> io::Result<Vec<u8>> {
    let file = folder.join("proxy.secret");
    if !file.try_exists()? {
        let new = folder.join(format!("proxy.secret-{}", std::process::id()));
        let mut written =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        written.write_all(&drawn()?)?;
        written.sync_all()?;
        let linked = std::fs::hard_link(&new, &file);
        std::fs::remove_file(&new)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        std::fs::File::open(folder)?.sync_all()?;
    }
    std::fs::read(file)
}

async fn layer(
    arguments: &ProxyArguments,
    rules: &Rules,
    store: Arc<dyn Store>,
    secret: Secret,
    metrics: Metrics,
) -> Result<IdempotencyLayer> {
    let mode = match arguments.uncertain {
        Uncertain::Hold => Policy::at_most_once(),
        // The upstream honours keys: the same request again finds out what was done.
        Uncertain::Retry => Policy::durable(|_: IdempotencyContext| async { Attached::NotBegun }),
    };
    let policy = mode
        .body_bytes_max(arguments.body_max)
        .answer_bytes_max(arguments.answer_max)
        .run_for_max(arguments.whole);
    let budgets = Budgets {
        running: RUNNING_MAX,
        replays: u32::MAX,
        stored_bytes: u64::MAX,
        stored_records: u32::MAX,
        ..Budgets::default()
    };
    let builder = IdempotencyLayer::builder(store, secret)
        .observe(metrics)
        .budgets(budgets)
        .waiting_max(WAITING_MAX.0, WAITING_MAX.1);
    let builder = match &arguments.caller {
        Caller::None => builder.anonymous(Scope::new("proxy", "everybody")),
        Caller::Header(name) => {
            let name = name.clone();
            builder.scope(move |parts| {
                let mut lines = parts.headers.get_all(&name).iter();
                // With several header lines it is unknown which one the program uses.
                match (lines.next(), lines.next()) {
                    (Some(line), None) if !line.is_empty() => Some(Scope::new("proxy", text(line))),
                    (Some(_) | None, _) => None,
                }
            })
        }
    };
    let builder = if arguments.opaque_keys { builder.opaque_keys() } else { builder };
    let builder = arguments.keep_header.iter().cloned().fold(builder, Builder::retain_header);
    // The layer has no routes: the proxy's rules decide which requests reach it.
    let builder =
        rules.methods().fold(builder, |builder, method| builder.route(&method, "*", policy.clone()));
    Ok(builder.build().await?)
}

/// A header's bytes, one character each: it need not be UTF-8, and different values stay different.
fn text(value: &http::HeaderValue) -> String {
    value.as_bytes().iter().map(|byte| char::from(*byte)).collect()
}

fn ready(arguments: &ProxyArguments, listener: &TcpListener, admin: Option<&TcpListener>) -> Result<()> {
    let address = listener.local_addr()?;
    let admin = admin.map(TcpListener::local_addr).transpose()?;
    let record = if arguments.memory { "memory".to_owned() } else { arguments.data.display().to_string() };
    let upstream = &arguments.upstream;
    if arguments.json {
        return table::print_json(&serde_json::json!({
            "address": format!("http://{address}"),
            "upstream": upstream.as_str(),
            "admin": admin.map(|admin| format!("http://{admin}")),
            "data": record,
        }));
    }
    let admin = admin.map_or_else(String::new, |admin| format!(", operators on http://{admin}"));
    let line =
        format!("perdura stands before {upstream} on http://{address}: its record is in {record}{admin}\n");
    terminal::print(line.as_bytes())
}

/// The state that all connections share.
struct Door {
    rules: Rules,
    guarded: IdempotencyService<Upstream>,
    upstream: Upstream,
    idle: Duration,
    room: Room,
}

/// The memory for bodies of protected requests. Small ones have memory of their own, so that slow large ones do not
/// delay them.
struct Room {
    small: Places,
    others: Places,
    body_max: usize,
}

impl Room {
    fn for_bodies_of(body_max: usize) -> Self {
        let places = |bytes: usize| {
            let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
            Places::new("requests", units, ROOM_WAITING_MAX)
        };
        Self { small: places(SMALL_ROOM), others: places(ROOM.max(2 * body_max)), body_max }
    }

    /// Memory for the body of this request, until the place is dropped. A body without a length counts as the largest.
    async fn take<B: http_body::Body>(&self, body: &B) -> Result<Place, Crowded> {
        let most = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = most.unwrap_or(usize::MAX).min(self.body_max);
        let places = if bytes <= SMALL { &self.small } else { &self.others };
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let taken = tokio::time::timeout(ROOM_FOR, places.take(units)).await;
        taken.unwrap_or_else(|_elapsed| Err(places.crowded()))
    }
}

fn crowded_out(crowded: Crowded) -> Response {
    let mut told = problem(StatusCode::SERVICE_UNAVAILABLE, "CROWDED", &crowded.to_string());
    told.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    told
}

impl Door {
    async fn answer(&self, request: Request<hyper::body::Incoming>, peer: Peer) -> Response {
        if let Some(refused) = refused(&request) {
            return refused;
        }
        let is_guarded = match self.rules.demand(request.method(), request.uri().path()) {
            Demand::Required => true,
            Demand::Optional => request.headers().contains_key(IDEMPOTENCY_KEY),
            Demand::Exempt => false,
        };
        let mut place = None;
        if is_guarded {
            match self.room.take(request.body()).await {
                Ok(taken) => place = Some(taken),
                Err(crowded) => return crowded_out(crowded),
            }
        }
        let mut request = request.map(|body| {
            let body = Flowing::new(body, self.idle, ());
            Body::new(if is_guarded { body.within(ARRIVE_FOR) } else { body })
        });
        request.extensions_mut().insert(peer);
        let answered = if is_guarded {
            self.guarded.clone().oneshot(request).await
        } else {
            self.upstream.clone().oneshot(request).await
        };
        // Until here the body may be in memory.
        drop(place);
        match answered {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Refuses a request that a program could interpret differently.
fn refused<B>(request: &Request<B>) -> Option<Response> {
    let method = request.method();
    if matches!(*method, Method::CONNECT | Method::TRACE)
        || method.as_str().bytes().any(|byte| byte.is_ascii_lowercase())
    {
        let why = "CONNECT, TRACE and methods in small letters are not passed on";
        return Some(problem(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_PASSED_ON", why));
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let is_sound = match (hosts.next(), hosts.next()) {
        (Some(host), None) => headers::is_host(host),
        (None, _) => request.version() < Version::HTTP_11,
        (Some(_), Some(_)) => false,
    };
    if is_sound {
        return None;
    }
    let why = "a request has one Host, which is a name or an address, with or without a port";
    Some(problem(StatusCode::BAD_REQUEST, "HOST_MALFORMED", why))
}

async fn accept(
    listener: TcpListener,
    files: u64,
    door: &Arc<Door>,
    stopping: &watch::Receiver<bool>,
    alive: &mpsc::Sender<()>,
) {
    let connections = Arc::new(Connections::of_files(files));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "no connection was accepted; trying again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = connections.take(peer.ip(), false) else { continue };
        let (door, stopping, alive) = (door.clone(), stopping.clone(), alive.clone());
        tokio::spawn(async move {
            attend(stream, Peer { address: peer.ip(), place: Arc::new(place) }, door, stopping).await;
            drop(alive);
        });
    }
}

async fn attend(stream: TcpStream, peer: Peer, door: Arc<Door>, mut stopping: watch::Receiver<bool>) {
    // Without it the connection works, only slower.
    let _ = stream.set_nodelay(true);
    let place: Arc<Taken> = peer.place.clone();
    let progress = place.seat.progress.clone();
    let stream = Patient::new(stream, progress.clone());
    let answer = service_fn(move |request| {
        let (door, peer, progress) = (door.clone(), peer.clone(), progress.clone());
        async move {
            let answering = progress.begin();
            let answer = door.answer(request, peer).await;
            let idle = door.idle;
            let answer = answer.map(|body| Body::new(Flowing::new(body, idle, answering)));
            Ok::<_, Infallible>(answer)
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REST_FOR)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades();
    tokio::pin!(served);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            biased;
            ended = &mut served => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = place.seat.is_needed() => return,
            // The sender is gone only with the process.
            _ = stopping.wait_for(|stop| *stop), if !is_stopping => {
                is_stopping = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use hyper::body::Bytes;

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_room_and_small_ones_do_not_wait_for_them() {
        let room = Room::for_bodies_of(1 << 20);
        let large = Full::new(Bytes::from(vec![0; 1 << 20]));
        let mut held = Vec::new();
        for _ in 0..ROOM >> 20 {
            held.push(room.take(&large).await.expect("there is room"));
        }
        let refused = crowded_out(room.take(&large).await.expect_err("there is none"));
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        assert!(room.take(&Full::new(Bytes::from_static(b"{}"))).await.is_ok());
        held.pop();
        assert!(room.take(&large).await.is_ok());
    }
}
