//! The self-test: checks the layer's position among the other layers of the program.
//!
//! ```text
//! trace -> authentication -> rate limit -> idempotency -> decompression -> handler
//! ```
//!
//! A layer cannot see its neighbours, so it answers a probe: a request with a mark that no client can send, which never
//! reaches a handler. Whether the probe arrives, its caller when it does, and the changes to its answer on the way out
//! show which layers are outside. Layers inside cannot compress, because this layer removes `Accept-Encoding`.

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

/// The layer's answer to a probe: long and repetitive, so that a compression layer would compress it.
static DULL: [u8; 64 * 1024] = [b'a'; 64 * 1024];

/// The mark of a probe.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Mutex<Vec<Sighting>>>);

/// A probe as the layer saw it.
#[derive(Clone, Copy)]
struct Sighting {
    is_routed: bool,
    is_known: bool,
}

impl Probe {
    /// Records that the layer saw it, and answers.
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

/// The layer is in the wrong place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// There is no route to test.
    #[error("no protected POST or PATCH route is declared, so there is nothing to test")]
    NoRoute,
    /// It did not see an authenticated request.
    #[error(
        "a request to {route} was answered {status} before it reached the idempotency layer: the credentials of the \
         self-test are refused, or the layer is not on this route"
    )]
    NotReached {
        route: String,
        /// The status of the other answer.
        status: StatusCode,
    },
    /// It is outside of the router.
    #[error(
        "the idempotency layer stands outside of routing, where no route is known: add it with `Router::layer`"
    )]
    NotRouted,
    /// The request is not authenticated when it arrives.
    #[error(
        "the idempotency layer saw no caller in an authenticated request: put authentication outside of it, so that a \
         stored answer is only given to whom it belongs"
    )]
    NotAuthenticated,
    /// A request without credentials arrives as authenticated.
    #[error(
        "a request without credentials reached the idempotency layer as a known caller: put authentication outside of it, \
         or declare the scope anonymous"
    )]
    OpenToAll,
    /// A layer further out changes contents.
    #[error(
        "the content that left is not the one that Content-Digest describes: something outside of the idempotency layer \
         compresses or rewrites answers"
    )]
    ContentChanged,
}

impl IdempotencyLayer {
    /// Sends two probes to each protected route through the whole program, one made by `sign_in` and one without
    /// credentials, and reports layers in the wrong place. If routes were nested after they were guarded, `sign_in`
    /// must also put the prefix before the path.
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

/// A path that matches this template, with every parameter filled in.
fn fill(template: &str) -> String {
    let filled = template.split('/').map(|part| if part.starts_with('{') { "probe" } else { part });
    filled.collect::<Vec<_>>().join("/")
}
