//! The program behind the proxy: passes a request on, and returns its outcome.
//!
//! Without a connection, certainly nothing was done: the same key may be used again. After that only an answer shows
//! what was done.

use super::flow::Flowing;
use super::headers::{self, From};
use super::tunnel::tunnel;
use super::{Numbers, Timeouts, problem};
use crate::proxy::Forwarded;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER, UPGRADE};
use http::{HeaderValue, Method, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use perdura_engine::Certainty;
use perdura_idempotency::{IdempotencyContext, NotApplied, OutcomeUnknown};
use perdura_server::http::connections::Taken;
use perdura_tasks::client::{CallError, Flow, Forwarder};
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tower::Service;
use url::{Position, Url};

/// The client of a request, and its place among the connections.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    pub(crate) place: Arc<Taken>,
}

/// The upstream program.
#[derive(Clone)]
pub(crate) struct Upstream(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) forwarder: Forwarder,
    pub(crate) url: Url,
    pub(crate) timeouts: Timeouts,
    pub(crate) forwarded: Forwarded,
    pub(crate) keeps_host: bool,
    pub(crate) numbers: Arc<Numbers>,
}

impl std::convert::From<Inner> for Upstream {
    fn from(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }
}

impl Service<Request> for Upstream {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let upstream = self.clone();
        Box::pin(async move { Ok(upstream.pass(request).await) })
    }
}

impl Upstream {
    async fn pass(&self, mut request: Request) -> Response {
        let Inner { forwarder, timeouts, numbers, .. } = &*self.0;
        let is_guarded = request.extensions().get::<IdempotencyContext>().is_some();
        let wants_tunnel = request.method() == Method::GET && headers::is_websocket(request.headers());
        let client_side = wants_tunnel.then(|| hyper::upgrade::on(&mut request));
        let Some(peer) = request.extensions().get::<Peer>().cloned() else {
            return problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "UPSTREAM_NOT_CALLED",
                "the client has no address",
            );
        };
        let Some(onward) = self.onward(request, peer.address, is_guarded, wants_tunnel) else {
            return problem(
                StatusCode::BAD_REQUEST,
                "TARGET_MALFORMED",
                "the target of the request is no path",
            );
        };
        numbers.passed.fetch_add(1, Ordering::Relaxed);
        match forwarder.forward(onward, timeouts.first_byte).await {
            Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => match client_side {
                Some(client_side) if headers::is_websocket(answer.headers()) => {
                    self.open_tunnel(answer, client_side, peer)
                }
                Some(_) | None => self.unknown(
                    is_guarded,
                    StatusCode::BAD_GATEWAY,
                    "the upstream changed the protocol unasked",
                ),
            },
            Ok(answer) => {
                let mut answer = answer.map(|body| Body::new(Flowing::new(body, timeouts.idle, ())));
                headers::back(answer.headers_mut());
                answer
            }
            Err(error) if error.certainty() == Certainty::NotSent => self.not_sent(&error),
            Err(error) => {
                let status = match error {
                    CallError::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
                    CallError::Forbidden { .. }
                    | CallError::NotConnected { .. }
                    | CallError::Lost { .. }
                    | CallError::TooLarge { .. } => StatusCode::BAD_GATEWAY,
                };
                self.unknown(is_guarded, status, &error.to_string())
            }
        }
    }

    /// The request for the upstream; `None` if its target is not a path.
    fn onward(
        &self,
        request: Request,
        address: IpAddr,
        is_guarded: bool,
        wants_tunnel: bool,
    ) -> Option<http::Request<Flow>> {
        let Inner { url, timeouts, forwarded, keeps_host, .. } = &*self.0;
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().filter(|target| target.as_str().starts_with('/'))?;
        let base = url[..Position::AfterPath].trim_end_matches('/');
        let uri: Uri = format!("{base}{target}").parse().ok()?;
        let mut headers = parts.headers;
        headers::onward(&mut headers, &From { address, forwarded: *forwarded, keeps_host: *keeps_host });
        if wants_tunnel {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        }
        if is_guarded {
            // It was read completely, so its length is known; the library omits a length of zero.
            headers.remove(CONTENT_LENGTH);
            if body.is_end_stream() {
                headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
        }
        let body = Flowing::new(body, timeouts.idle, ()).boxed_unsync();
        let mut onward = http::Request::new(body);
        (*onward.method_mut(), *onward.uri_mut(), *onward.headers_mut()) = (parts.method, uri, headers);
        Some(onward)
    }

    fn open_tunnel(
        &self,
        mut answer: http::Response<hyper::body::Incoming>,
        client_side: OnUpgrade,
        peer: Peer,
    ) -> Response {
        let (upstream_side, idle) = (hyper::upgrade::on(&mut answer), self.0.timeouts.idle);
        // A connection that became a WebSocket is not idle between two requests.
        let answering = peer.place.seat.progress.begin();
        tokio::spawn(async move {
            let (_place, _answering) = (peer.place, answering);
            tunnel(client_side, upstream_side, idle).await;
        });
        let mut answer = answer.map(|_| Body::empty());
        headers::back(answer.headers_mut());
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        answer
    }

    /// Nothing was sent, so the same key may be used again.
    fn not_sent(&self, error: &CallError) -> Response {
        self.0.numbers.not_reached.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "the upstream was not reached");
        let why = format!("{error}; nothing was sent");
        let mut told = problem(StatusCode::SERVICE_UNAVAILABLE, "UPSTREAM_NOT_REACHED", &why);
        told.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        NotApplied(told).into_response()
    }

    /// The request was sent, and no answer came.
    fn unknown(&self, is_guarded: bool, status: StatusCode, why: &str) -> Response {
        self.0.numbers.lost.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(why, "the upstream did not answer");
        if is_guarded {
            let detail = format!("{why}; the upstream may have acted");
            OutcomeUnknown { status, detail }.into_response()
        } else {
            problem(status, "UPSTREAM_DID_NOT_ANSWER", why)
        }
    }
}
