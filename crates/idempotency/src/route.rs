//! The route of a request, and its policy.

use crate::policy::Policy;
use crate::routes::Table;
use axum::extract::{MatchedPath, NestedPath, Request};
use http::Method;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};

/// A route with its policy and its state.
pub(crate) struct Route {
    /// `POST /payments/{id}`.
    pub(crate) label: Arc<str>,
    pub(crate) policy: Policy,
    /// How long its handler took lately, in microseconds: a moving average.
    pub(crate) pace: AtomicU64,
}

impl Route {
    fn new(method: &str, template: &str, policy: Policy) -> Arc<Self> {
        let label = format!("{method} {template}").into();
        Arc::new(Self { label, policy, pace: AtomicU64::new(0) })
    }

    /// `/payments/{id}`.
    pub(crate) fn template(&self) -> &str {
        self.label.split_once(' ').map_or("", |(_, template)| template)
    }
}

/// The template of requests without one: the router's fallback, and a service that is nested whole. No path equals it.
pub(crate) const NO_TEMPLATE: &str = "*";

/// The routes of one template.
type Methods = Vec<(Method, Arc<Route>)>;

/// The routes that a layer protects.
pub(crate) struct RouteTable {
    policies: Policies,
    /// The templates as requests have them. A router that is nested afterwards has other templates than it was declared
    /// with, and under two prefixes it is two routes.
    seen: RwLock<HashMap<String, Methods>>,
}

/// The policies of a layer.
pub(crate) enum Policies {
    /// One handler with this policy.
    One { template: String, policy: Policy },
    /// The routes of a plain router: the declared ones by template and method, and all other POST and PATCH.
    Table { declared: Table, undeclared: Policy },
}

impl Policies {
    /// The policy of a request, and whether it was declared.
    fn of(&self, template: &str, request: &Request) -> Option<(&Policy, bool)> {
        match self {
            Self::One { policy, .. } => Some((policy, true)),
            Self::Table { declared, undeclared } => {
                let method = request.method();
                let nested = request.extensions().get::<NestedPath>().map_or("", NestedPath::as_str);
                let known = [within(template, nested), template]
                    .into_iter()
                    .find_map(|template| declared.0.get(&(template.to_owned(), method.to_string())));
                let others = Some(undeclared).filter(|_| matches!(*method, Method::POST | Method::PATCH));
                known.map(|policy| (policy, true)).or(others.map(|policy| (policy, false)))
            }
        }
    }
}

fn of_method(routes: &Methods, method: &Method) -> Option<Arc<Route>> {
    routes.iter().find(|(known, _)| known == method).map(|(_, route)| route.clone())
}

impl RouteTable {
    pub(crate) fn new(policies: Policies) -> Arc<Self> {
        Arc::new(Self { policies, seen: RwLock::default() })
    }

    /// The policy of routes without a declaration, if there may be such.
    pub(crate) fn undeclared(&self) -> Option<&Policy> {
        match &self.policies {
            Policies::One { .. } => None,
            Policies::Table { undeclared, .. } => Some(undeclared),
        }
    }

    /// The route of a request, or `None` if it is not protected.
    pub(crate) fn find(&self, request: &Request) -> Option<Arc<Route>> {
        let method = request.method();
        let template = match (request.extensions().get::<MatchedPath>(), &self.policies) {
            (Some(matched), _) => matched.as_str(),
            (None, Policies::One { template, .. }) => template,
            (None, Policies::Table { .. }) => NO_TEMPLATE,
        };
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = seen.get(template).and_then(|routes| of_method(routes, method)) {
            return Some(route);
        }
        drop(seen);
        let (policy, is_declared) = self.policies.of(template, request)?;
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let routes = seen.entry(template.to_owned()).or_default();
        Some(of_method(routes, method).unwrap_or_else(|| {
            let route = Route::new(method.as_str(), template, policy.clone());
            if !is_declared {
                tracing::warn!(
                    route = &*route.label,
                    mode = policy.mode.name(),
                    "this route was not declared"
                );
            }
            routes.push((method.clone(), route.clone()));
            route
        }))
    }
}

/// The template within the nested router, as it was added there.
fn within<'a>(template: &'a str, nested: &str) -> &'a str {
    match template.strip_prefix(nested.trim_end_matches('/')) {
        // A service that is nested whole, and called with a slash at its end, has two.
        Some("" | "//") => "/",
        Some(within) => within,
        None => template,
    }
}
