//! Routes that say what they promise, beside their handlers.
//!
//! axum does not tell which routes a `Router` has, so a list made from it could miss one. Here each route is declared
//! together with its policy; the table that the layer looks into and the list that a person reads are the same.

use crate::layer::{IdempotencyLayer, StartError};
use crate::policy::Policy;
use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

/// The handlers of one path, each with its policy. Made by [`post`], [`patch`], [`put`], [`delete`] and [`get`].
pub struct Handlers<S = ()> {
    router: MethodRouter<S, Infallible>,
    policies: Vec<(Method, Option<Policy>)>,
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident, $method:ident, $policy:expr;)*) => {
        $(
            $(#[$doc])*
            pub fn $verb<H, T, S>(handler: H) -> Handlers<S>
            where
                H: Handler<T, S>,
                T: 'static,
                S: Clone + Send + Sync + 'static,
            {
                Handlers { router: on(MethodFilter::$method, handler), policies: vec![(Method::$method, $policy)] }
            }
        )*
        impl<S: Clone + Send + Sync + 'static> Handlers<S> {
            $(
                $(#[$doc])*
                pub fn $verb<H, T>(mut self, handler: H) -> Self
                where
                    H: Handler<T, S>,
                    T: 'static,
                {
                    self.router = self.router.on(MethodFilter::$method, handler);
                    self.policies.push((Method::$method, $policy));
                    self
                }
            )*
        }
    };
}

verbs! {
    /// A handler for POST. It needs a key, and runs at most once unless [`with`](Handlers::with) says otherwise.
    post, POST, Some(Policy::default());
    /// A handler for PATCH. It needs a key, and runs at most once unless [`with`](Handlers::with) says otherwise.
    patch, PATCH, Some(Policy::default());
    /// A handler for PUT. It is protected where [`with`](Handlers::with) says how.
    put, PUT, None;
    /// A handler for DELETE. It is protected where [`with`](Handlers::with) says how.
    delete, DELETE, None;
    /// A handler for GET and HEAD, which are never touched.
    get, GET, None;
}

impl<S> Handlers<S> {
    /// What the handler added last promises. GET is never protected, and has no policy.
    pub fn with(mut self, policy: Policy) -> Self {
        if let Some((method, declared)) = self.policies.last_mut()
            && *method != Method::GET
        {
            *declared = Some(policy);
        }
        self
    }

    /// The handler added last needs no key: it reads, it polls, or it must give something new each time.
    pub fn exempt(self) -> Self {
        self.with(Policy::exempt())
    }
}

/// Routes with their policies, on their way to a `Router`.
pub struct Routes<S = ()> {
    router: Router<S>,
    table: Table,
}

/// The policy of each protected or exempt route.
#[derive(Clone, Default)]
pub(crate) struct Table(pub(crate) BTreeMap<(String, String), Policy>);

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes yet.
    pub fn new() -> Self {
        Self { router: Router::new(), table: Table::default() }
    }

    /// These handlers under this path.
    pub fn route(mut self, path: &str, handlers: Handlers<S>) -> Self {
        for (method, policy) in handlers.policies {
            if let Some(policy) = policy {
                self.table.0.insert((path.to_owned(), method.to_string()), policy);
            }
        }
        self.router = self.router.route(path, handlers.router);
        self
    }

    /// These routes under this prefix.
    pub fn nest(mut self, prefix: &str, routes: Self) -> Self {
        for ((path, method), policy) in routes.table.0 {
            let path = if path == "/" {
                prefix.to_owned()
            } else {
                format!("{}{path}", prefix.trim_end_matches('/'))
            };
            self.table.0.insert((path, method), policy);
        }
        self.router = self.router.nest(prefix, routes.router);
        self
    }

    /// These routes as well.
    pub fn merge(mut self, routes: Self) -> Self {
        self.table.0.extend(routes.table.0);
        self.router = self.router.merge(routes.router);
        self
    }

    /// The routes under the layer. Each policy is checked, and the list of all POST, PATCH and protected routes is logged.
    ///
    /// Routes that are merged into the result afterwards are not under the layer.
    pub fn guarded_by(self, layer: &IdempotencyLayer) -> Result<Router<S>, StartError> {
        let layer = layer.for_routes(&self.table)?;
        for ((path, method), policy) in &self.table.0 {
            tracing::info!(route = format!("{method} {path}"), mode = policy.mode.name(), "idempotency");
        }
        Ok(self.router.layer(layer))
    }
}

/// The start-up list: every POST and PATCH route, and each other protected one, with its mode.
impl<S> fmt::Display for Routes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((path, method), policy) in &self.table.0 {
            writeln!(f, "{method:<6} {path}  {}", policy.mode.name())?;
        }
        Ok(())
    }
}
