//! The HTTP client for all calls: pooled, HTTP/1.1 and HTTP/2. It knows whether a request can have arrived.
//!
//! After a failed call one question counts: can the receiver have seen it? If there was never a connection, nothing was
//! sent; that is no refusal, because no receiver answered. Everything after the first byte leaves doubt. So every
//! [`CallError`] says which it is, as exactly as the protocol allows, and if it cannot be known the answer is doubt.
//!
//! The client does not follow redirects and uses no proxies from the environment: the request goes to the address that
//! the [`Guard`] checked. It does not retry, with one exception: a request that a kept connection returned unsent goes
//! out on another one.

mod connect;
mod forward;

pub use forward::{Flow, Forwarder};

use crate::guard::{Guard, Reason};
use crate::lack::{Pauses, PutOff};
use bytes::{Bytes, BytesMut};
use connect::{Connector, Forbidden, Lack, Versions};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming as Body;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use perdura_engine::Certainty;
use rustls::pki_types::CertificateDer;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;
use url::Url;

/// How long an idle connection is kept. Common servers close theirs after five seconds. A request in that moment would
/// be in doubt, so this client closes first.
const IDLE_FOR_MAX: Duration = Duration::from_secs(4);
/// The most idle connections to one receiver.
const IDLE_MAX: usize = 512;
/// The largest size of an answer's headers.
const HEADER_BYTES_MAX: u32 = 64 * 1024;

/// Sends requests. Clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: legacy::Client<Connector, Full<Bytes>>,
    guard: Guard,
    put_off: PutOff,
}

#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The verb.
    pub method: Method,
    /// The target: `http` or `https`, without user name and password.
    pub url: Url,
    /// All headers except `Host` and `Content-Length`, which follow from the rest.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The time limit for the whole call, until the last byte of the answer.
    pub timeout: Duration,
    /// The largest size of the answer's body.
    pub answer_bytes_max: usize,
}

#[derive(Clone, Debug)]
pub struct Incoming {
    /// The status code.
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no answer, and whether the receiver can have seen the request.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guard refused the address. Nothing was sent.
    #[error(
        "{host} leads to {address}, which is not called: {reason}; if it is meant, name it in `allow` under \
         [http] in perdura.toml"
    )]
    Forbidden {
        /// The host as it was written.
        host: Box<str>,
        /// The address that it resolved to.
        address: IpAddr,
        /// Why the guard refused it.
        reason: Reason,
    },
    /// No connection: unknown name, refused connection, failed handshake. Nothing was sent.
    #[error("no connection to {host}: {reason}")]
    NotConnected {
        /// The host as it was written.
        host: Box<str>,
        /// The error, without any part of the request.
        reason: String,
    },
    /// The time limit was reached.
    #[error("no answer from {host} within {}", show(*.after))]
    TimedOut {
        /// The host as it was written.
        host: Box<str>,
        /// Whether there was a connection, so that the request may have left.
        sent: bool,
        /// The time limit.
        after: Duration,
    },
    /// The connection broke, or the answer was invalid. The receiver may have acted.
    #[error("the answer of {host} did not arrive whole: {reason}")]
    Lost {
        /// The host as it was written.
        host: Box<str>,
        /// The error, without any part of the request.
        reason: String,
    },
    /// The answer is larger than allowed.
    #[error("the answer exceeds {bytes_max} bytes")]
    TooLarge {
        /// The bound.
        bytes_max: usize,
    },
}

impl CallError {
    /// Whether this attempt certainly did nothing. A receiver that sent a too large answer has acted.
    pub fn certainty(&self) -> Certainty {
        match self {
            Self::Forbidden { .. } | Self::NotConnected { .. } | Self::TimedOut { sent: false, .. } => {
                Certainty::NotSent
            }
            Self::TimedOut { sent: true, .. } | Self::Lost { .. } | Self::TooLarge { .. } => {
                Certainty::Ambiguous
            }
        }
    }
}

impl Client {
    /// A client that calls only addresses that the guard allows, and trusts the system's authorities.
    pub fn new(guard: Guard) -> Result<Self, rustls::Error> {
        Self::trusting(guard, [])
    }

    /// The same, for a network with authorities of its own.
    pub fn trusting(
        guard: Guard,
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, rustls::Error> {
        let inner = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR_MAX)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_buf_size(HEADER_BYTES_MAX as usize)
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .build(Connector::new(guard.clone(), authorities, Versions::All)?);
        Ok(Self { inner, guard, put_off: PutOff::default() })
    }

    /// The counter of calls that were put off because this machine lacked something.
    pub(crate) fn put_off(&self) -> &PutOff {
        &self.put_off
    }

    /// The guard of this client.
    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Sends a request and returns the complete answer. If this machine lacks a resource for the connection, it waits
    /// for that, too.
    pub async fn send(&self, outgoing: Outgoing) -> Result<Incoming, CallError> {
        let Outgoing { timeout, answer_bytes_max, .. } = outgoing;
        let mut prepared = Prepared::of(outgoing)?;
        let exchange = async {
            let mut pauses = Pauses::default();
            let answer = loop {
                match self.attempt(&mut prepared).await? {
                    Some(answer) => break answer,
                    None => tokio::time::sleep(pauses.next().unwrap_or_default()).await,
                }
            };
            let (head, body) = answer.into_parts();
            let body = take(body, answer_bytes_max).await.map_err(|error| match error {
                TakeError::TooLarge => CallError::TooLarge { bytes_max: answer_bytes_max },
                TakeError::Broken(error) => lost(prepared.host(), &error),
            })?;
            Ok(Incoming { status: head.status.as_u16(), headers: head.headers, body })
        };
        match tokio::time::timeout(timeout, exchange).await {
            Ok(ended) => ended,
            Err(_elapsed) => Err(prepared.timed_out(timeout)),
        }
    }

    /// Sends a request, and returns its answer as soon as it begins; the caller reads the body as it comes. Here
    /// `timeout` bounds each silence of the receiver, not the whole call; waiting for a resource of this machine does
    /// not count.
    pub(crate) async fn open(&self, outgoing: Outgoing) -> Result<Arriving, CallError> {
        let silent_for_max = outgoing.timeout;
        let mut prepared = Prepared::of(outgoing)?;
        let mut pauses = Pauses::default();
        loop {
            match tokio::time::timeout(silent_for_max, self.attempt(&mut prepared)).await {
                Ok(Ok(Some(answer))) => {
                    let (head, body) = answer.into_parts();
                    let (status, headers) = (head.status, head.headers);
                    return Ok(Arriving { status, headers, body, host: prepared.host(), silent_for_max });
                }
                Ok(Ok(None)) => tokio::time::sleep(pauses.next().unwrap_or_default()).await,
                Ok(Err(error)) => return Err(error),
                Err(_elapsed) => return Err(prepared.timed_out(silent_for_max)),
            }
        }
    }

    /// Sends a request once. `None`: this machine lacked a resource for the connection, and nothing was sent.
    async fn attempt(&self, prepared: &mut Prepared) -> Result<Option<Response<Body>>, CallError> {
        let mut request = Request::new(Full::new(prepared.body.clone()));
        *request.method_mut() = prepared.method.clone();
        *request.uri_mut() = prepared.uri.clone();
        *request.headers_mut() = prepared.headers.clone();
        prepared.connection = Some(capture_connection(&mut request));
        match self.inner.request(request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => match find::<Lack>(&error) {
                Some(lack) if error.is_connect() => {
                    self.put_off.tell(&lack.to_string());
                    Ok(None)
                }
                Some(_) | None => Err(of_request(prepared.host(), &error)),
            },
        }
    }
}

/// A prepared request, and whether a connection was made for it.
struct Prepared {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    connection: Option<CaptureConnection>,
}

impl Prepared {
    fn of(outgoing: Outgoing) -> Result<Self, CallError> {
        let Outgoing { method, url, mut headers, body, timeout: _, answer_bytes_max: _ } = outgoing;
        let uri = address(&url).map_err(|reason| {
            let host = url.host_str().unwrap_or_default().into();
            CallError::NotConnected { host, reason }
        })?;
        // The library leaves it out for an empty body, and some receivers then wait or refuse.
        if body.is_empty() && matches!(method, Method::POST | Method::PUT | Method::PATCH) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok(Self { method, uri, headers, body, connection: None })
    }

    fn host(&self) -> Box<str> {
        self.uri.host().unwrap_or_default().into()
    }

    fn timed_out(&self, after: Duration) -> CallError {
        let captured = self.connection.as_ref();
        let sent = captured.is_some_and(|connection| connection.connection_metadata().is_some());
        CallError::TimedOut { host: self.host(), sent, after }
    }
}

/// An answer whose body has not been read yet.
pub(crate) struct Arriving {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Body,
    host: Box<str>,
    silent_for_max: Duration,
}

impl Arriving {
    /// The next piece of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            match tokio::time::timeout(self.silent_for_max, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) if !piece.is_empty() => return Ok(Some(piece)),
                    Ok(_) | Err(_) => {}
                },
                Ok(Some(Err(error))) => return Err(lost(self.host.clone(), &error)),
                Err(_elapsed) => {
                    let (host, after) = (self.host.clone(), self.silent_for_max);
                    return Err(CallError::TimedOut { host, sent: true, after });
                }
            }
        }
    }
}

/// The URL in the library's form. Without a password, which would end up in logs along the way.
fn address(url: &Url) -> Result<Uri, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{}` is not spoken here; use http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its URL carries a user name or a password; put them into a connection".into());
    }
    let text = &url[..url::Position::AfterQuery];
    text.parse().map_err(|error: http::uri::InvalidUri| error.to_string())
}

/// An error before the answer began. The library marks requests that were never sent: those without a connection, and
/// those that a connection returned unsent.
fn of_request(host: Box<str>, error: &legacy::Error) -> CallError {
    if let Some(forbidden) = find::<Forbidden>(error) {
        return CallError::Forbidden { host, address: forbidden.address, reason: forbidden.reason };
    }
    let given_back = find::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled);
    let reason = innermost(error);
    if error.is_connect() || given_back {
        CallError::NotConnected { host, reason }
    } else {
        CallError::Lost { host, reason }
    }
}

/// An error after the answer began.
fn lost(host: Box<str>, error: &hyper::Error) -> CallError {
    CallError::Lost { host, reason: innermost(error) }
}

enum TakeError {
    TooLarge,
    Broken(hyper::Error),
}

/// The whole body. A body whose announced size is too large is not read at all.
async fn take(mut body: Body, bytes_max: usize) -> Result<Bytes, TakeError> {
    use hyper::body::Body as _;
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(TakeError::TooLarge);
    }
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(TakeError::Broken)?.into_data() else { continue };
        if first.len() + all.len() + data.len() > bytes_max {
            return Err(TakeError::TooLarge);
        }
        if first.is_empty() && all.is_empty() {
            first = data; // most answers are one piece, which then is not copied
            continue;
        }
        all.extend_from_slice(&std::mem::take(&mut first));
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn find<'a, Sought: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a Sought> {
    causes(error).find_map(|error| error.downcast_ref())
}

/// The innermost cause has the detail; the library's outer texts only say that there was a connection error.
fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map_or_else(String::new, ToString::to_string)
}

fn show(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}
