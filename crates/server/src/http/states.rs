//! AWS JSON 1.0: a request of the Step Functions API as HTTP brings it.

use super::access::{Keyring, Shown};
use crate::sfn::{Api, ApiError, Code};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use perdura_engine::asl::json::Value;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// What the header of the action begins with.
const TARGET_PREFIX: &str = "AWSStepFunctions.";
/// Both are the same for this service.
const CONTENT_TYPES: [&str; 2] = ["application/x-amz-json-1.0", "application/x-amz-json-1.1"];
/// AWS's bound on a request.
const STRICT_BODY_MAX: usize = 1 << 20;
/// Ours: a payload of 64 MiB with every second character escaped.
const BODY_MAX: usize = 128 << 20;
/// A body larger than this waits for its turn.
const SMALL: usize = 1 << 20;
/// How many large ones are read at once.
const LARGE_AT_ONCE: usize = 4;
/// How long a client may take for its body.
const BODY_FOR: Duration = Duration::from_mins(1);

/// Bodies are taken in one by one where they are large, so that a few clients cannot fill the memory.
pub(super) struct Bodies {
    large: Semaphore,
}

impl Default for Bodies {
    fn default() -> Self {
        Self { large: Semaphore::new(LARGE_AT_ONCE) }
    }
}

impl Bodies {
    async fn read<B>(&self, body: B, declared: Option<usize>, most: usize) -> Result<Bytes, ApiError>
    where
        B: hyper::body::Body,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let too_large = || {
            ApiError::new(
                Code::RequestEntityTooLargeException,
                format!("the most is {most} bytes in one request"),
            )
        };
        if declared.is_some_and(|declared| declared > most) {
            return Err(too_large());
        }
        let reading = async {
            let _turn = if is_small(declared) { None } else { self.large.acquire().await.ok() };
            match Limited::new(body, most).collect().await {
                Ok(collected) => Ok(collected.to_bytes()),
                Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
                Err(error) => Err(ApiError::new(Code::SerializationException, error.to_string())),
            }
        };
        match tokio::time::timeout(BODY_FOR, reading).await {
            Ok(read) => read,
            Err(_elapsed) => {
                Err(ApiError::new(Code::RequestTimeoutException, "the request did not arrive in time"))
            }
        }
    }
}

/// One whose size nobody tells may be large.
fn is_small(declared: Option<usize>) -> bool {
    declared.is_some_and(|declared| declared <= SMALL)
}

/// Answers one request; whatever it is, in the service's own way.
pub(super) async fn answer(
    api: &Api,
    keys: &Keyring,
    bodies: &Bodies,
    request: Request<Incoming>,
) -> Response {
    let id = api.moment().entropy;
    match carry_out(api, keys, bodies, request).await {
        Ok(answer) => respond(StatusCode::OK, &answer, None, id),
        Err(error) => {
            tracing::debug!(%error, "refused");
            let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
            respond(status, &error.to_json(), Some(error.code), id)
        }
    }
}

async fn carry_out(
    api: &Api,
    keys: &Keyring,
    bodies: &Bodies,
    request: Request<Incoming>,
) -> Result<Value, ApiError> {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    if !keys.asks() && headers.contains_key(header::ORIGIN) {
        // A page from anywhere, opened on this machine, could do all that a program here can.
        let what = "requests from pages in a browser need access keys: set serve.access_key_file";
        return Err(ApiError::new(Code::MissingAuthenticationTokenException, what));
    }
    let most = if api.is_strict() { STRICT_BODY_MAX } else { BODY_MAX };
    let declared = text(headers, header::CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
    let now = || api.moment().now.0.unsigned_abs() / 1000;
    if !is_small(declared) {
        // There are few places for large bodies, and they are not for strangers.
        keys.admit(headers, now())?;
    }
    let body = bodies.read(body, declared, most).await?;
    keys.check(&Shown {
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        headers,
        body: &body,
        now: now(),
    })?;
    let unknown = |what: String| ApiError::new(Code::UnknownOperationException, what);
    let kind = text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !CONTENT_TYPES.contains(&kind.to_ascii_lowercase().as_str()) {
        return Err(unknown(format!("the content type is {kind:?}, and is to be {}", CONTENT_TYPES[0])));
    }
    let target = text(headers, "x-amz-target").unwrap_or_default();
    let Some(action) = target.strip_prefix(TARGET_PREFIX) else {
        return Err(unknown(format!("X-Amz-Target is {target:?}, and is to be {TARGET_PREFIX}ACTION")));
    };
    if is_small(Some(body.len())) {
        return api.call(action, &body).await;
    }
    // To read a large one takes a thread for seconds, and everybody else would wait for it.
    let (api, action, threads) = (api.clone(), action.to_owned(), Handle::current());
    let called = tokio::task::spawn_blocking(move || threads.block_on(api.call(&action, &body)));
    called.await.unwrap_or_else(|panic| Err(ApiError::new(Code::ServiceUnavailable, panic.to_string())))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn respond(status: StatusCode, body: &Value, error: Option<Code>, id: u128) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// A body that brings this many bytes, and then nothing more: neither bytes nor an end.
    struct Stalled(usize);

    impl hyper::body::Body for Stalled {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match std::mem::take(&mut self.0) {
                0 => Poll::Pending,
                count => Poll::Ready(Some(Ok(Frame::data(vec![b' '; count].into())))),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let bodies = Bodies::default();
        for declared in [Some(10), None] {
            let code = bodies.read(Stalled(3), declared, 100).await.map_err(|error| error.code);
            assert_eq!(code, Err(Code::RequestTimeoutException));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_come_one_after_another_and_small_ones_pass_them() {
        let bodies = Bodies::default();
        let large = std::iter::repeat_with(|| bodies.read(Stalled(3), None, BODY_MAX)).take(LARGE_AT_ONCE);
        let mut large: Vec<_> = large.map(Box::pin).collect();
        for one in &mut large {
            assert!(polled(one.as_mut()).await.is_none(), "it has not all come");
        }
        let mut more = Box::pin(bodies.read(whole(), None, BODY_MAX));
        assert!(polled(more.as_mut()).await.is_none(), "there is no place for it");
        let small = bodies.read(whole(), Some(2), BODY_MAX).await;
        assert_eq!(small.expect("it is small"), "{}");
        drop(large);
        assert_eq!(more.await.expect("there is a place"), "{}");
    }

    /// A body that comes at once.
    fn whole() -> http_body_util::Full<Bytes> {
        Bytes::from_static(b"{}").into()
    }

    /// Polls once.
    async fn polled<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|context| match Pin::new(&mut future).poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_refused_whatever_it_declares() {
        let bodies = Bodies::default();
        for (declared, count) in [(Some(101), 0), (Some(50), 101), (None, 101)] {
            let code = bodies.read(Stalled(count), declared, 100).await.map_err(|error| error.code);
            assert_eq!(code, Err(Code::RequestEntityTooLargeException));
        }
    }
}
