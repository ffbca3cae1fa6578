//! What a client sends, and what it is told.

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use perdura_idempotency::{CONTENT_DIGEST, IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED};
use sha2::{Digest, Sha256};

/// The n-th key of a test.
pub(crate) fn key(n: u32) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

/// The value of a digest field.
pub(crate) fn digest_of(content: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(content)))
}

/// A request that can be sent again and again.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Ask {
    /// By Ann of Acme, as JSON, without a key.
    pub(crate) fn new(method: Method, path: &str) -> Self {
        let ask = Self { method, path: path.to_owned(), headers: HeaderMap::new(), body: Bytes::new() };
        ask.by("acme/ann").header("content-type", "application/json").body(r#"{"cents":100}"#)
    }

    /// A payment under this key.
    pub(crate) fn pay(key: &str) -> Self {
        Self::new(Method::POST, "/payments").header("idempotency-key", key)
    }

    pub(crate) fn to(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn by(self, who: &str) -> Self {
        self.header("authorization", &format!("Bearer {who}"))
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With this header, in place of what it was.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        self
    }

    /// With one more line of this header.
    pub(crate) fn line(mut self, name: &'static str, value: &[u8]) -> Self {
        self.headers.append(name, HeaderValue::from_bytes(value).expect("a value"));
        self
    }

    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.headers.remove(name);
        self
    }

    pub(crate) fn request(&self) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.parse().expect("a path");
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// What came back, whole.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl Told {
    /// Reads an answer to its end. Whatever it is, a digest that it carries is right.
    pub(crate) async fn read(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.expect("the answer comes to its end");
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let told =
            Self { status: parts.status, headers: parts.headers, body: collected.to_bytes(), trailers };
        for digest in told.headers.get_all(CONTENT_DIGEST).iter().chain(told.trailers.get_all(CONTENT_DIGEST))
        {
            assert_eq!(digest, &digest_of(&told.body), "the digest of {told:?}");
        }
        told
    }

    /// Whether it carries a digest, in front or behind.
    pub(crate) fn is_digested(&self) -> bool {
        self.headers.contains_key(CONTENT_DIGEST) || self.trailers.contains_key(CONTENT_DIGEST)
    }

    /// One member of a problem.
    pub(crate) fn member(&self, name: &str) -> Option<String> {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        problem.get(name)?.as_str().map(str::to_owned)
    }

    /// The `reason` of a problem; empty where it is none.
    pub(crate) fn reason(&self) -> String {
        self.member("reason").unwrap_or_default()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.get(IDEMPOTENCY_REPLAYED).is_some_and(|value| value == "true")
    }

    pub(crate) fn echo(&self) -> Option<&HeaderValue> {
        self.headers.get(IDEMPOTENCY_KEY)
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
    }

    /// It says that this payment was taken, now or before.
    #[track_caller]
    pub(crate) fn is_payment(&self, nth: u32) -> &Self {
        let told = (self.status.as_u16(), String::from_utf8_lossy(&self.body).into_owned());
        assert_eq!(told, (201, format!("{{\"payment\":{nth}}}")), "{self:?}");
        self
    }

    /// It is this refusal.
    #[track_caller]
    pub(crate) fn is_refused(&self, status: u16, reason: &str) -> &Self {
        assert_eq!((self.status.as_u16(), self.reason().as_str()), (status, reason), "{self:?}");
        self
    }

    /// And it says that this is to be done next.
    #[track_caller]
    pub(crate) fn says_next(&self, next: &str) -> &Self {
        assert_eq!(self.member("next").as_deref(), Some(next), "{self:?}");
        self
    }
}
