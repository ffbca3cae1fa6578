//! Routes with their policies, declared beside their handlers.
//!
//! axum does not list the routes of a `Router`, so a list made from it could miss one. Here each route is declared
//! together with its policy, and each handler gets a layer of its own that knows it: however the router is nested
//! afterwards, no lookup can miss.

use crate::layer::{IdempotencyLayer, StartError};
use crate::policy::{Mode, Policy};
use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

/// The handlers of one path, each with its policy. Made by [`post`], [`patch`], [`put`], [`delete`] and [`get`].
pub struct Handlers<S = ()>(Vec<(Method, MethodRouter<S, Infallible>, Option<Policy>)>);

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
                Handlers(vec![(Method::$method, on(MethodFilter::$method, handler), $policy)])
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
                    self.0.push((Method::$method, on(MethodFilter::$method, handler), $policy));
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
    /// A handler for PUT. It is protected if [`with`](Handlers::with) says how.
    put, PUT, None;
    /// A handler for DELETE. It is protected if [`with`](Handlers::with) says how.
    delete, DELETE, None;
    /// A handler for GET and HEAD, which are never protected.
    get, GET, None;
}

impl<S> Handlers<S> {
    /// Sets the policy of the handler added last. GET is never protected, and has no policy.
    pub fn with(mut self, policy: Policy) -> Self {
        if let Some((method, _, declared)) = self.0.last_mut()
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

impl<S: Clone + Send + Sync + 'static> Handlers<S> {
    /// The handlers, each protected one under a layer of its own.
    fn under(self, layer: &IdempotencyLayer, path: &str) -> MethodRouter<S, Infallible> {
        let guarded = self.0.into_iter().map(|(_, handler, policy)| match policy {
            Some(policy) if !matches!(policy.mode, Mode::Exempt) => {
                handler.route_layer(layer.for_route(path, policy))
            }
            Some(_) | None => handler,
        });
        guarded.fold(MethodRouter::new(), MethodRouter::merge)
    }
}

/// Routes with their policies, to become a `Router`.
pub struct Routes<S = ()> {
    parts: Vec<Part<S>>,
    table: Table,
}

/// A part of the routes.
enum Part<S> {
    Route(String, Handlers<S>),
    Nested(String, Routes<S>),
    Merged(Routes<S>),
}

/// The policy of each protected or exempt route.
#[derive(Clone, Default)]
pub(crate) struct Table(pub(crate) BTreeMap<(String, String), Policy>);

impl Table {
    /// Logs the routes at start.
    pub(crate) fn log(&self) {
        for ((path, method), policy) in &self.0 {
            tracing::info!(route = format!("{method} {path}"), mode = policy.mode.name(), "idempotency");
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes yet.
    pub fn new() -> Self {
        Self { parts: Vec::new(), table: Table::default() }
    }

    /// Adds these handlers under this path.
    pub fn route(mut self, path: &str, handlers: Handlers<S>) -> Self {
        for (method, _, policy) in &handlers.0 {
            if let Some(policy) = policy {
                self.table.0.insert((path.to_owned(), method.to_string()), policy.clone());
            }
        }
        self.parts.push(Part::Route(path.to_owned(), handlers));
        self
    }

    /// Adds these routes under this prefix.
    pub fn nest(mut self, prefix: &str, routes: Self) -> Self {
        for ((path, method), policy) in &routes.table.0 {
            let path = if path == "/" {
                prefix.to_owned()
            } else {
                format!("{}{path}", prefix.trim_end_matches('/'))
            };
            self.table.0.insert((path, method.clone()), policy.clone());
        }
        self.parts.push(Part::Nested(prefix.to_owned(), routes));
        self
    }

    /// Adds these routes.
    pub fn merge(mut self, routes: Self) -> Self {
        self.table.0.extend(routes.table.0.clone());
        self.parts.push(Part::Merged(routes));
        self
    }

    /// The routes under the layer. Checks each policy, and logs the list of all POST, PATCH and protected routes.
    ///
    /// Routes that are merged into the result afterwards are not under the layer. Put them under it before, by
    /// `Router::layer`; around the result, the layer would hold all routes to the policies of its builder.
    pub fn guarded_by(self, layer: &IdempotencyLayer) -> Result<Router<S>, StartError> {
        layer.check(&self.table)?;
        self.table.log();
        Ok(self.put_together(layer))
    }

    fn put_together(self, layer: &IdempotencyLayer) -> Router<S> {
        self.parts.into_iter().fold(Router::new(), |router, part| match part {
            Part::Route(path, handlers) => router.route(&path, handlers.under(layer, &path)),
            Part::Nested(prefix, routes) => router.nest(&prefix, routes.put_together(layer)),
            Part::Merged(routes) => router.merge(routes.put_together(layer)),
        })
    }
}

/// The list for the start: every POST and PATCH route, and each other protected one, with its mode.
impl<S> fmt::Display for Routes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((path, method), policy) in &self.table.0 {
            writeln!(f, "{method:<6} {path}  {}", policy.mode.name())?;
        }
        Ok(())
    }
}
