//! One connection, from its first byte to its end: with or without TLS, HTTP/1.1 or HTTP/2.

use super::connections::Taken;
use super::line::Line;
use super::patience::{Patient, Progress};
use super::{Desk, HEAD_BYTES_MAX};
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// How long a connection may be idle between two requests.
const REST_FOR: Duration = Duration::from_mins(1);
/// How long a handshake of TLS may take.
const HANDSHAKE_FOR: Duration = Duration::from_secs(5);
/// TCP keepalive: after so long without traffic the system probes the client.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// Requests at once on one connection of HTTP/2.
const STREAMS_MAX: u32 = 128;
/// After so long without traffic a client of HTTP/2 is asked whether it is there, and has so long to say so.
const PROBE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

pub(super) async fn attend(stream: TcpStream, peer: SocketAddr, place: Taken, desk: Arc<Desk>) {
    // Both are optional: without them the connection still works.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    let progress = place.seat.progress.clone();
    let line = Line::new(stream);
    let stream = Patient::new(line.clone(), progress.clone());
    let served = async {
        let Some(tls) = &desk.tls else { return one_by_one(stream, peer, &progress, &desk).await };
        match timeout(HANDSHAKE_FOR, tls.accept(stream)).await {
            Ok(Ok((stream, true))) => many_at_once(stream, peer, &progress, &desk).await,
            Ok(Ok((stream, false))) => one_by_one(stream, peer, &progress, &desk).await,
            Ok(Err(error)) => Err(error.into()),
            Err(elapsed) => Err(elapsed.into()),
        }
    };
    tokio::select! {
        biased;
        served = served => if let Err(error) = served {
            tracing::debug!(%peer, %error, "a connection ended early");
        },
        () = line.is_hung_up() => tracing::debug!(%peer, "a client hung up"),
        () = place.seat.is_needed() => tracing::debug!(%peer, "a connection made room for another"),
    }
}

type Served = Result<(), Box<dyn Error + Send + Sync>>;

/// HTTP/1.1.
async fn one_by_one<S>(stream: S, peer: SocketAddr, progress: &Progress, desk: &Arc<Desk>) -> Served
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = service_fn(|request: Request<Incoming>| async {
        let _answering = progress.begin();
        Ok::<_, Infallible>(desk.answer(request, peer).await)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REST_FOR)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answer);
    Ok(served.await?)
}

/// HTTP/2. Its frames come at any time, so what a client may be slow with is bounded by the library and by rest.
async fn many_at_once<S>(stream: S, peer: SocketAddr, progress: &Progress, desk: &Arc<Desk>) -> Served
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    progress.runs_side_by_side();
    let answer = service_fn(move |request: Request<Incoming>| {
        let (answering, desk) = (progress.begin(), desk.clone());
        async move {
            let _answering = answering;
            Ok::<_, Infallible>(desk.answer(request, peer).await)
        }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(PROBE.0)
        .keep_alive_timeout(PROBE.1);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let mut rested = None;
    loop {
        tokio::select! {
            biased;
            served = &mut served => return Ok(served?),
            () = sleep(REST_FOR) => {}
        }
        let between = progress.between();
        if between.is_some() && between == rested {
            served.as_mut().graceful_shutdown();
        }
        rested = between;
    }
}
