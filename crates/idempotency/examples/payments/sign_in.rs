//! Who is calling: a key in `x-api-key`. It stands outside of the idempotency layer, so that a stored answer is only
//! given to whom it belongs.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode};
use perdura_idempotency::Scope;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The name of a caller, as an extension of its requests.
#[derive(Clone)]
pub(crate) struct Caller(Arc<str>);

impl Caller {
    pub(crate) fn scope(&self) -> Scope {
        Scope::new("payments", &*self.0)
    }
}

/// Who may call, with their keys.
#[derive(Clone)]
pub(crate) struct Callers(Arc<[(Caller, HeaderValue)]>);

impl Callers {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let pair = |pair: &str| {
            let (name, key) =
                pair.split_once('=').filter(|(name, key)| !name.is_empty() && !key.is_empty())?;
            Some((Caller(name.into()), HeaderValue::try_from(key).ok()?))
        };
        let pairs = text.split(',').map(pair).collect::<Option<_>>();
        pairs.map(Self).ok_or_else(|| "PAYMENTS_API_KEYS is NAME=KEY, with commas between".to_owned())
    }

    /// Signs a request in as the first of them.
    pub(crate) fn sign<B>(&self, request: &mut http::Request<B>) {
        let (_, key) = self.0.first().expect("there is at least one");
        request.headers_mut().insert("x-api-key", key.clone());
    }

    fn find(&self, shown: &HeaderValue) -> Option<Caller> {
        let known = |key: &HeaderValue| bool::from(key.as_bytes().ct_eq(shown.as_bytes()));
        self.0.iter().find(|(_, key)| known(key)).map(|(caller, _)| caller.clone())
    }
}

/// The middleware.
pub(crate) async fn sign_in(State(callers): State<Callers>, mut request: Request, next: Next) -> Response {
    let caller = request.headers().get("x-api-key").and_then(|shown| callers.find(shown));
    let Some(caller) = caller else {
        return (StatusCode::UNAUTHORIZED, "x-api-key is missing or not known\n").into_response();
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}
