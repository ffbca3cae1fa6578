//! A middleware for `reqwest` that gives each call of a handler its own key.
//!
//! The keys follow from the operation and the step. So a handler that runs again after a takeover sends the same keys,
//! and a receiver that honours them does nothing twice. Name your steps: `.step("charge")`. A call without a name is
//! identified by its method, its URL, and how many of these came before in the same run, so it keeps its key only if
//! the handler makes these calls in the same order each time. The body is not part of it: if a second run sends another
//! body under the same step, the receiver should refuse it, and not see another step.
//!
//! Derived keys are name-based UUIDs (version 5), which this crate's own layer accepts.

use crate::asked::IDEMPOTENCY_KEY;
use crate::context::IdempotencyContext;
use http::{Extensions, HeaderValue, Method};
use jiff::Timestamp;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, RequestBuilder, Result};
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use uuid::Uuid;

/// The name of a step, as an extension of a request. Within one operation a name means one effect: two calls under one
/// name are one call, sent twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step(Cow<'static, str>);

impl Step {
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self(name.into())
    }
}

/// Names the step of a request.
pub trait NameStep {
    /// Sets the name of this request's step. The request gets a key whatever its method is.
    fn step(self, name: impl Into<Cow<'static, str>>) -> Self;
}

impl NameStep for RequestBuilder {
    fn step(self, name: impl Into<Cow<'static, str>>) -> Self {
        self.with_extension(Step::new(name))
    }
}

/// The policy for a call outside of any run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outside {
    /// It is sent without a key.
    #[default]
    Bare,
    /// It is sent with a new key (version 7), which a retry of the same client keeps.
    Minted,
    /// It is refused. In a program where every call belongs to a run, this finds a spawned task that was not given its
    /// context.
    Refused,
}

/// A call outside of any run was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a call that needs an Idempotency-Key was made outside of a run, and was not sent: \
     wrap the spawned task in `carry`, or set the key on the request"
)]
pub struct OutsideOfRun;

/// Gives each POST and PATCH that has no `Idempotency-Key` the key of its step.
///
/// It may be before or behind a retry middleware: a request that is repeated with its extensions keeps its key.
///
/// ```no_run
/// use perdura_idempotency::client::{NameStep, PropagateKey};
/// use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
///
/// fn client() -> ClientWithMiddleware {
///     ClientBuilder::new(reqwest::Client::new()).with(PropagateKey::new()).build()
/// }
///
/// async fn handler(client: ClientWithMiddleware) -> reqwest_middleware::Result<()> {
///     client.post("http://bank.example/charges").body("12 EUR").step("charge").send().await?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PropagateKey {
    methods: Vec<Method>,
    outside: Outside,
    quoted: bool,
}

impl Default for PropagateKey {
    fn default() -> Self {
        Self { methods: vec![Method::POST, Method::PATCH], outside: Outside::default(), quoted: false }
    }
}

impl PropagateKey {
    /// Only POST and PATCH, and only within runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method: PUT, DELETE.
    pub fn also(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Sets the policy for calls outside of any run.
    pub fn outside(mut self, outside: Outside) -> Self {
        self.outside = outside;
        self
    }

    /// Sends the key as a structured field string, `"8e03…"`, as in the IETF draft. Most receivers want it bare.
    pub fn quoted(mut self) -> Self {
        self.quoted = true;
        self
    }

    /// The key to set, if any.
    fn key(&self, request: &Request, extensions: &Extensions) -> Result<Option<Uuid>> {
        let named = extensions.get::<Step>();
        if request.headers().contains_key(IDEMPOTENCY_KEY)
            || (named.is_none() && !self.methods.contains(request.method()))
        {
            return Ok(None);
        }
        if let Some(sent) = extensions.get::<Sent>().filter(|sent| sent.is_again(request)) {
            return Ok(Some(sent.key));
        }
        match (IdempotencyContext::current(), named) {
            (Some(run), Some(Step(name))) => Ok(Some(run.derive(name))),
            (Some(run), None) => {
                let step = format!("{} {}", request.method(), request.url());
                run.derive_next(&step).map(Some).map_err(Error::middleware)
            }
            (None, _) => match self.outside {
                Outside::Bare => Ok(None),
                Outside::Minted => mint().map(Some),
                Outside::Refused => Err(Error::middleware(OutsideOfRun)),
            },
        }
    }

    fn value(&self, key: Uuid) -> HeaderValue {
        let text = if self.quoted { format!("\"{key}\"") } else { key.to_string() };
        let mut value = HeaderValue::try_from(text).expect("a UUID and quotes are visible ASCII");
        value.set_sensitive(true);
        value
    }
}

/// The key set on a request, so that a retry with the same extensions gets it again.
#[derive(Clone)]
struct Sent {
    method: Method,
    url: reqwest::Url,
    key: Uuid,
}

impl Sent {
    fn is_again(&self, request: &Request) -> bool {
        self.method == *request.method() && self.url == *request.url()
    }
}

/// A new key that contains the time.
fn mint() -> Result<Uuid> {
    let mut chance = [0; 10];
    getrandom::fill(&mut chance).map_err(Error::middleware)?;
    let millis = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    Ok(uuid::Builder::from_unix_timestamp_millis(millis, &chance).into_uuid())
}

/// Written without `async_trait`, to save a dependency.
impl Middleware for PropagateKey {
    fn handle<'me, 'extensions, 'next, 'all>(
        &'me self,
        mut request: Request,
        extensions: &'extensions mut Extensions,
        next: Next<'next>,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'all>>
    where
        'me: 'all,
        'extensions: 'all,
        'next: 'all,
        Self: 'all,
    {
        match self.key(&request, extensions) {
            Ok(Some(key)) => {
                let (method, url) = (request.method().clone(), request.url().clone());
                extensions.insert(Sent { method, url, key });
                request.headers_mut().insert(IDEMPOTENCY_KEY, self.value(key));
            }
            Ok(None) => {}
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        }
        Box::pin(async move { next.run(request, extensions).await })
    }
}

#[cfg(test)]
mod tests;
