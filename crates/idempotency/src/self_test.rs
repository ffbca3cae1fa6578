//! A test that the layer stands where it should, among the others of the same program.
//!
//! ```text
//! trace -> authentication -> rate limit -> idempotency -> decompression -> handler
//! ```
//!
//! A layer cannot see its neighbours, so it is asked to answer a probe: a request with a mark that no client can send,
//! which never reaches a handler. Where the probe arrives, who it says it is when it does, and what becomes of its answer
//! on the way out tell what stands outside. What stands inside cannot compress, because the layer takes `Accept-Encoding`
//! away.

use crate::asked::{CONTENT_DIGEST, IDEMPOTENCY_KEY};
use crate::content::Content;
use crate::digest;
use crate::layer::IdempotencyLayer;
use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use std::sync::{Arc, Mutex, PoisonError};
use tower::ServiceExt;

/// What the layer answers to a probe: long and dull enough that whoever compresses would.
static DULL: [u8; 64 * 1024] = [b'a'; 64 * 1024];

/// The mark of a probe.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Mutex<Vec<Sighting>>>);

/// What the layer saw of a probe.
#[derive(Clone, Copy)]
struct Sighting {
    is_routed: bool,
    is_known: bool,
}

impl Probe {
    /// Notes that the layer saw it, and answers.
    pub(crate) fn seen(&self, parts: &Parts, is_known: bool) -> Response<Content> {
        let is_routed = parts.extensions.get::<MatchedPath>().is_some();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Sighting { is_routed, is_known });
        let mut response = Response::new(Content::whole(Bytes::from_static(&DULL)));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        response
    }

    fn sightings(&self) -> Vec<Sighting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The layer does not stand where it should.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// There is nothing to test.
    #[error("no protected POST or PATCH route is declared, so there is nothing to test")]
    NoRoute,
    /// It did not see an authenticated request.
    #[error(
        "a request to {route} was answered {status} before it reached the idempotency layer: the credentials of the \
         self-test are refused, or the layer is not on this route"
    )]
    NotReached {
        route: String,
        /// By whom it was answered instead.
        status: StatusCode,
    },
    /// It stands outside of the router.
    #[error(
        "the idempotency layer stands outside of routing, where no route is known: add it with `Router::layer`"
    )]
    NotRouted,
    /// Nobody has authenticated the request when it arrives.
    #[error(
        "the idempotency layer saw no caller in an authenticated request: put authentication outside of it, so that a \
         stored answer is only given to whom it belongs"
    )]
    NotAuthenticated,
    /// A request without credentials reaches it.
    #[error(
        "a request without credentials reached the idempotency layer as a known caller: put authentication outside of it, \
         or declare the scope anonymous"
    )]
    OpenToAll,
    /// Something further out changes contents.
    #[error(
        "the content that left is not the one that Content-Digest describes: something outside of the idempotency layer \
         compresses or rewrites answers"
    )]
    ContentChanged,
}

impl IdempotencyLayer {
    /// Sends two probes to each protected route through the whole program, one as `sign_in` makes it and one without
    /// credentials, and says what stands in the wrong place. Where routes were nested after they were guarded, `sign_in`
    /// also puts the prefix before the path.
    pub async fn self_test(
        &self,
        app: Router,
        sign_in: impl Fn(&mut Request<Body>),
    ) -> Result<(), Misplaced> {
        let guarded = self.door.guarded();
        if guarded.is_empty() {
            return Err(Misplaced::NoRoute);
        }
        for (method, template) in guarded {
            self.probe(&app, &method, &template, &sign_in).await?;
        }
        Ok(())
    }

    async fn probe(
        &self,
        app: &Router,
        method: &Method,
        template: &str,
        sign_in: impl Fn(&mut Request<Body>),
    ) -> Result<(), Misplaced> {
        let route = format!("{method} {template}");
        let path = fill(template);
        let request = |probe: &Probe| {
            let mut request = Request::new(Body::from("{}"));
            *request.method_mut() = method.clone();
            *request.uri_mut() = path.parse().expect("a template with its parameters filled is a path");
            let headers = request.headers_mut();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br, deflate, zstd"));
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("018f2e2c-5b5d-7c44-8d9a-3f1c2b4a5e6f"));
            request.extensions_mut().insert(probe.clone());
            request
        };

        let probe = Probe::default();
        let mut signed = request(&probe);
        sign_in(&mut signed);
        let signed_to = signed.uri().clone();
        let Ok(response) = app.clone().oneshot(signed).await;
        let sighting = probe.sightings().first().copied();
        let sighting = sighting.ok_or(Misplaced::NotReached { route, status: response.status() })?;
        if !sighting.is_routed {
            return Err(Misplaced::NotRouted);
        }
        if !sighting.is_known {
            return Err(Misplaced::NotAuthenticated);
        }
        let digest = response.headers().get(CONTENT_DIGEST).cloned();
        let content = response.into_body().collect().await.map_err(|_| Misplaced::ContentChanged)?.to_bytes();
        if digest != Some(digest::content_digest(&content)) || content != DULL.as_slice() {
            return Err(Misplaced::ContentChanged);
        }

        let probe = Probe::default();
        let mut unsigned = request(&probe);
        *unsigned.uri_mut() = signed_to;
        let Ok(_) = app.clone().oneshot(unsigned).await;
        if !self.door.is_anonymous && probe.sightings().iter().any(|sighting| sighting.is_known) {
            return Err(Misplaced::OpenToAll);
        }
        Ok(())
    }
}

/// A path of this template: each parameter is filled.
fn fill(template: &str) -> String {
    let filled = template.split('/').map(|part| if part.starts_with('{') { "probe" } else { part });
    filled.collect::<Vec<_>>().join("/")
}
