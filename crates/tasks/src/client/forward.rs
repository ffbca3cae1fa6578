//! Forwards requests of other clients: heads and bodies as they come, over the connections and with the errors of
//! [`Client`](super::Client).
//!
//! HTTP/1.1 only, because a connection of HTTP/2 cannot become a WebSocket.

use super::connect::{Connector, Versions};
use super::{CallError, HEADER_BYTES_MAX, IDLE_MAX, of_request};
use crate::guard::Guard;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::error::Error;
use std::time::Duration;

/// How long an idle connection is kept. A forwarder cannot know when the receiver closes its side, and a request in
/// that moment is in doubt: some servers close after two seconds.
const IDLE_FOR_MAX: Duration = Duration::from_secs(1);

/// A streamed body.
pub type Flow = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Forwards requests. Clones share connections.
#[derive(Clone)]
pub struct Forwarder(legacy::Client<Connector, Flow>);

impl Forwarder {
    /// A forwarder that calls only addresses that the guard allows, and trusts the system's authorities.
    pub fn new(guard: Guard) -> Result<Self, rustls::Error> {
        let inner = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR_MAX)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_buf_size(HEADER_BYTES_MAX as usize)
            .build(Connector::new(guard, [], Versions::First)?);
        Ok(Self(inner))
    }

    /// Forwards a request with an absolute URI, and returns its answer as soon as that begins, within this time.
    pub async fn forward(
        &self,
        mut request: Request<Flow>,
        within: Duration,
    ) -> Result<Response<Incoming>, CallError> {
        let host: Box<str> = request.uri().host().unwrap_or_default().into();
        let connection = capture_connection(&mut request);
        match tokio::time::timeout(within, self.0.request(request)).await {
            Ok(answered) => answered.map_err(|error| of_request(host, &error)),
            Err(_elapsed) => {
                let sent = connection.connection_metadata().is_some();
                Err(CallError::TimedOut { host, sent, after: within })
            }
        }
    }
}
