//! AWS JSON 1.0: the Step Functions API over HTTP.

use super::access::{Keyring, Shown};
use super::bodies::{BODY_MAX, Bodies, STRICT_BODY_MAX, too_large};
use super::proxies::told;
use crate::places::{Place, Places};
use crate::sfn::{Api, ApiError, Code, is_large, needs, only_asks};
use crate::who::Caller;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use http_body_util::Full;
use hyper::body::{Frame, Incoming, SizeHint};
use perdura_engine::asl::json::Value;
use perdura_sigv4::sha256;
use perdura_store::audit::{DoorKind, Origin};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use uuid::Uuid;

/// The header of the action.
const TARGET: &str = "x-amz-target";
const TARGET_PREFIX: &str = "AWSStepFunctions.";
/// The service treats both alike.
const CONTENT_TYPES: [&str; 2] = ["application/x-amz-json-1.0", "application/x-amz-json-1.1"];
/// How many kibibytes of large answers may wait for their clients to read them.
const ANSWERS_KIB: u32 = 256 << 10;
/// How many answers to reads may wait for that room.
const ANSWERS_WAITING_MAX: usize = 16;
/// Seconds.
const RETRY_AFTER: &str = "1";

/// The API, and room for its bodies and answers.
pub(super) struct States {
    pub(super) api: Api,
    bodies: Bodies,
    answers: Places,
}

impl States {
    pub(super) fn new(api: Api) -> Self {
        let answers = Places::new("large answers", ANSWERS_KIB, ANSWERS_WAITING_MAX);
        Self { api, bodies: Bodies::default(), answers }
    }

    /// Answers a request in the service's format, whatever it is.
    pub(super) async fn answer(
        &self,
        keys: &Keyring,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Response {
        let is_question = action(request.headers()).is_some_and(only_asks);
        let told = match self.carry_out(keys, request, peer).await {
            Ok(answer) => self.print(answer, is_question).await,
            Err(error) => Err(error),
        };
        let id = self.api.moment().entropy;
        match told {
            Ok(body) => respond(StatusCode::OK, body, None, id),
            Err(error) => refuse(&error, id),
        }
    }

    /// Refuses a request unread.
    pub(super) fn refuse(&self, error: &ApiError) -> Response {
        refuse(error, self.api.moment().entropy)
    }

    /// Reads a body within the bounds of all bodies, and returns it with its room.
    pub(super) async fn body(
        &self,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<(Bytes, Option<Place>), ApiError> {
        let most = if self.api.is_strict() { STRICT_BODY_MAX } else { BODY_MAX };
        let declared = text(headers, header::CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
        if declared.is_some_and(|bytes| bytes > most) && headers.contains_key(header::EXPECT) {
            // The client sends nothing before it is told to, and must not be told to.
            return Err(too_large(most));
        }
        self.bodies.read(body, declared, most).await
    }

    async fn carry_out(
        &self,
        keys: &Keyring,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Result<Value, ApiError> {
        let (head, body) = request.into_parts();
        let headers = &head.headers;
        if !keys.asks() && headers.contains_key(header::ORIGIN) {
            // Otherwise any page opened on this machine could do all that a program here can.
            let what = "requests from pages in a browser need access keys: set serve.access_key_file";
            return Err(ApiError::new(Code::MissingAuthenticationTokenException, what));
        }
        let shown = |body_sha256| Shown {
            method: "POST",
            path: head.uri.path(),
            query: head.uri.query().unwrap_or_default(),
            headers,
            body_sha256,
            now: self.api.moment().now.0.unsigned_abs() / 1000,
        };
        keys.admit(&shown([0; 32]))?;
        let (body, room) = self.body(headers, body).await?;
        let mut caller = Caller::owner();
        if keys.asks() {
            let hashed = body.clone();
            let hash = self.api.computing(body.len(), move || Ok(sha256(&hashed))).await?;
            caller = keys.check(&shown(hash))?;
        }
        let unknown = |what: String| ApiError::new(Code::UnknownOperationException, what);
        let kind = text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !CONTENT_TYPES.contains(&kind.to_ascii_lowercase().as_str()) {
            return Err(unknown(format!("the content type is {kind:?}, and is to be {}", CONTENT_TYPES[0])));
        }
        let Some(action) = action(headers) else {
            let target = text(headers, TARGET).unwrap_or_default();
            return Err(unknown(format!("X-Amz-Target is {target:?}, and is to be {TARGET_PREFIX}ACTION")));
        };
        let needs = needs(action);
        let origin = caller.origin(DoorKind::Aws, action, self.api.moment().now);
        let api = self.api.by(Origin { from: Some(told(peer).into()), ..origin });
        if !caller.has(needs) {
            let (has, needs) = (caller.role.name(), needs.name());
            let what = format!("{action} needs the role {needs}, and this access key has {has}");
            api.refused(&what).await?;
            return Err(ApiError::new(Code::AccessDeniedException, what));
        }
        api.call(action, body, room).await
    }

    /// The body of an answer. A large one is printed on another thread, and holds its room until its client
    /// has read it.
    async fn print(&self, answer: Value, is_question: bool) -> Result<Body, ApiError> {
        let bytes = weight(&answer);
        if !is_large(bytes) {
            return Ok(Body::from(answer.to_string()));
        }
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        let room = if is_question { self.answers.take(kib).await? } else { self.answers.wait(kib).await };
        let text = self.api.printing(bytes, answer).await?;
        Ok(Body::new(Held { body: text.into(), _room: room }))
    }
}

/// About how many bytes a value has as text.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + 4 + weight(value)).sum::<usize>() + 2
        }
    }
}

/// A body, and the room that it takes.
struct Held {
    body: Full<Bytes>,
    _room: Place,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The action that a request names.
fn action(headers: &HeaderMap) -> Option<&str> {
    text(headers, TARGET)?.strip_prefix(TARGET_PREFIX)
}

fn refuse(error: &ApiError, id: u128) -> Response {
    tracing::debug!(%error, "refused");
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = respond(status, Body::from(error.to_json().to_string()), Some(error.code), id);
    if error.is_passing() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    response
}

fn respond(status: StatusCode, body: Body, error: Option<Code>, id: u128) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPES[0]));
    let id = Uuid::from_u128(id).to_string();
    headers.insert("x-amzn-requestid", HeaderValue::from_str(&id).expect("an id is a header"));
    if let Some(code) = error {
        headers.insert("x-amzn-errortype", HeaderValue::from_static(code.name()));
    }
    response
}
