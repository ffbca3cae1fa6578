//! The layer, and how it is set up.
//!
//! What is not safe by itself has to be said: who the caller is (or that nobody is asked), under which secret keys are
//! hashed, and for each route what a crash means there. What does not fit is found here, before the first request.

use crate::answer::{Answer, is_never_retained};
use crate::budget::{Budgets, Spending};
use crate::door::{Door, Places};
use crate::key::Versions;
use crate::observe::Observer;
use crate::policy::Policy;
use crate::problem::Profile;
use crate::routes::Table;
use crate::scope::{Audit, Authorise, Scope, ScopeOf};
use crate::service::IdempotencyService;
use crate::store::{Store, StoreError};
use crate::vault::{DataKeys, Secret, Vault};
use axum::extract::{MatchedPath, NestedPath};
use http::request::Parts;
use http::{HeaderName, Method};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use tower::Layer;

/// Why the layer does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nobody said whose request it is.
    #[error(
        "the idempotency layer does not know whose request it is: say `scope(…)`, or `anonymous(…)` where every caller may \
         see every other's results"
    )]
    NoScope,
    /// A route's policy does not fit.
    #[error("{route}: {fault}")]
    Policy {
        /// The route.
        route: String,
        /// What is wrong.
        fault: String,
    },
    /// A header that is never given again was to be kept.
    #[error("the header {0} belongs to one connection, one moment or one caller, and is never given again")]
    Header(HeaderName),
    /// The store holds records made under another secret, which would not be found.
    #[error(
        "the {store} store was used with another secret: its records would not be found and their requests run again"
    )]
    OtherSecret {
        /// The store's name.
        store: &'static str,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a route is found and what is known of it.
pub(crate) struct Route {
    /// `POST /payments/{id}`.
    pub(crate) label: Arc<str>,
    pub(crate) policy: Policy,
    /// How long its handler took lately, in microseconds: an average that forgets.
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

/// In place of a template, for what the router has none: its fallback, and a service that is nested whole. No path is
/// like this.
pub(crate) const NO_TEMPLATE: &str = "*";

/// The routes of one template.
type Methods = Vec<(Method, Arc<Route>)>;

/// The routes that this layer stands before.
pub(crate) struct RouteTable {
    /// As they were declared, by template, then by method.
    declared: HashMap<String, Methods>,
    /// As requests come to them. A router that is nested afterwards has other templates than it was declared with, and
    /// under two prefixes it is two routes.
    seen: RwLock<HashMap<String, Methods>>,
    /// The policy of POST and PATCH routes that were not declared. `None`: all that exist were, and others pass.
    pub(crate) undeclared: Option<Policy>,
}

fn of_method<'a>(routes: &'a Methods, method: &Method) -> Option<&'a Arc<Route>> {
    routes.iter().find(|(known, _)| known == method).map(|(_, route)| route)
}

impl RouteTable {
    /// The route of a request, or `None` where it passes untouched.
    pub(crate) fn find(&self, request: &axum::extract::Request) -> Option<Arc<Route>> {
        let (method, extensions) = (request.method(), request.extensions());
        let template = extensions.get::<MatchedPath>().map_or(NO_TEMPLATE, MatchedPath::as_str);
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = seen.get(template).and_then(|routes| of_method(routes, method)) {
            return Some(route.clone());
        }
        drop(seen);
        let nested = extensions.get::<NestedPath>().map_or("", NestedPath::as_str);
        let declared = [within(template, nested), template]
            .into_iter()
            .find_map(|template| self.declared.get(template).and_then(|routes| of_method(routes, method)));
        let policy = match (declared, &self.undeclared) {
            (Some(route), _) => &route.policy,
            (None, Some(policy)) if matches!(*method, Method::POST | Method::PATCH) => policy,
            (None, _) => return None,
        };
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let routes = seen.entry(template.to_owned()).or_default();
        if let Some(route) = of_method(routes, method) {
            return Some(route.clone());
        }
        let route = Route::new(method.as_str(), template, policy.clone());
        if declared.is_none() {
            tracing::warn!(route = &*route.label, mode = policy.mode.name(), "this route was not declared");
        }
        routes.push((method.clone(), route.clone()));
        Some(route)
    }
}

/// The template within the router that is nested there, as it was added to that router.
fn within<'a>(template: &'a str, nested: &str) -> &'a str {
    match template.strip_prefix(nested.trim_end_matches('/')) {
        // A service that is nested whole, and asked for with a slash at its end, is given two.
        Some("" | "//") => "/",
        Some(within) => within,
        None => template,
    }
}

/// A tower layer that does what carries one `Idempotency-Key` once. See the [crate's documentation](crate).
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(crate) door: Arc<Door>,
    pub(crate) routes: Arc<RouteTable>,
}

impl IdempotencyLayer {
    /// Begins to set up a layer over this store. The secret hashes keys, so that the store does not hold them; all
    /// instances that share a store share it.
    pub fn builder(store: Arc<dyn Store>, secret: Secret) -> Builder {
        Builder {
            store,
            secret,
            data_keys: None,
            scope_of: None,
            is_anonymous: false,
            authorise: None,
            audit: None,
            observers: Vec::new(),
            profile: Profile::default(),
            versions: Versions::default(),
            refuse_stale_keys: false,
            budgets: Budgets::default(),
            retained_headers: Vec::new(),
            redact: None,
            waiting_max: (64, 4096),
            sweep_every: Duration::from_mins(1),
            policy: Policy::default(),
            declared: Table::default(),
        }
    }

    /// The layer before exactly these routes.
    pub(crate) fn for_routes(&self, table: &Table) -> Result<Self, StartError> {
        let routes = route_table(&self.door.store, table, None)?;
        self.door.guards(table);
        Ok(Self { door: self.door.clone(), routes: Arc::new(routes) })
    }

    /// Ends when nothing runs and every end is recorded. Call it when the server has stopped taking requests.
    pub async fn drain(&self) {
        self.door.running.all_left().await;
    }
}

fn route_table(
    store: &Arc<dyn Store>,
    table: &Table,
    undeclared: Option<Policy>,
) -> Result<RouteTable, StartError> {
    let fault = |route: String, policy: &Policy| match policy.fault(store.shares_transactions(), store.name())
    {
        Some(fault) => Err(StartError::Policy { route, fault }),
        None => Ok(()),
    };
    let mut declared = HashMap::<_, Methods>::new();
    for ((template, method), policy) in &table.0 {
        fault(format!("{method} {template}"), policy)?;
        let route = Route::new(method, template, policy.clone());
        let method = Method::from_bytes(method.as_bytes()).expect("it was a method");
        declared.entry(template.clone()).or_default().push((method, route));
    }
    if let Some(policy) = &undeclared {
        fault("routes that are not declared".to_owned(), policy)?;
    }
    Ok(RouteTable { declared, seen: RwLock::default(), undeclared })
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService { inner, door: self.door.clone(), routes: self.routes.clone() }
    }
}

/// What a [`IdempotencyLayer`] is made of.
pub struct Builder {
    store: Arc<dyn Store>,
    secret: Secret,
    data_keys: Option<Arc<dyn DataKeys>>,
    scope_of: Option<ScopeOf>,
    is_anonymous: bool,
    authorise: Option<Arc<dyn Authorise>>,
    audit: Option<Arc<dyn Audit>>,
    observers: Vec<Arc<dyn Observer>>,
    profile: Profile,
    versions: Versions,
    refuse_stale_keys: bool,
    budgets: Budgets,
    retained_headers: Vec<HeaderName>,
    redact: Option<Redact>,
    waiting_max: (usize, usize),
    sweep_every: Duration,
    policy: Policy,
    declared: Table,
}

/// Takes out of an answer what is not to be stored.
pub(crate) type Redact = Arc<dyn Fn(&mut Answer) + Send + Sync>;

impl Builder {
    /// How tenant and principal are found in a request that authentication has passed. `None` refuses the request.
    pub fn scope(mut self, scope_of: impl Fn(&Parts) -> Option<Scope> + Send + Sync + 'static) -> Self {
        self.scope_of = Some(Arc::new(scope_of));
        self
    }

    /// All callers are one: whoever knows a key may see its result.
    pub fn anonymous(mut self, scope: Scope) -> Self {
        self.is_anonymous = true;
        self.scope(move |_| Some(scope.clone()))
    }

    /// Who may do what, asked before every request is run and before every stored answer is given.
    pub fn authorise(mut self, authorise: impl Authorise) -> Self {
        self.authorise = Some(Arc::new(authorise));
        self
    }

    /// Who is told of each stored answer before it is given. What cannot be told is not given.
    pub fn audit(mut self, audit: impl Audit) -> Self {
        self.audit = Some(Arc::new(audit));
        self
    }

    /// Who is told what happens. There may be several.
    pub fn observe(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Seals stored answers with these keys, by tenant.
    pub fn encrypt_with(mut self, keys: impl DataKeys + 'static) -> Self {
        self.data_keys = Some(Arc::new(keys));
        self
    }

    /// Which answers refusals follow.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Which UUID versions a key may have: 4, 5 and 7, unless said otherwise.
    pub fn key_versions(mut self, versions: Versions) -> Self {
        self.versions = versions;
        self
    }

    /// Refuses a key of version 7 that is older than records are kept and of which none is there.
    pub fn refuse_stale_keys(mut self) -> Self {
        self.refuse_stale_keys = true;
        self
    }

    /// What one caller may use up.
    pub fn budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// Keeps this header of answers too.
    pub fn retain_header(mut self, name: HeaderName) -> Self {
        self.retained_headers.push(name);
        self
    }

    /// Takes out of each answer what is not to be stored.
    pub fn redact(mut self, redact: impl Fn(&mut Answer) + Send + Sync + 'static) -> Self {
        self.redact = Some(Arc::new(redact));
        self
    }

    /// How many requests may wait for one operation, and in all. One caller never takes all: alone it gets up to four fifths.
    pub fn waiting_max(mut self, per_operation: usize, in_all: usize) -> Self {
        self.waiting_max = (per_operation, in_all);
        self
    }

    /// How often what expired is removed: every minute, unless said otherwise. It changes no answer.
    pub fn sweep_every(mut self, pause: Duration) -> Self {
        self.sweep_every = pause;
        self
    }

    /// The policy of POST and PATCH routes that are not declared. It counts for the router's fallback too, and for a service
    /// that is nested whole, where the layer cannot tell routes apart and goes by the path.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Declares a route of a plain `Router`, by the template that it was added with; `*` is what has none, as the fallback.
    pub fn route(mut self, method: &Method, template: &str, policy: Policy) -> Self {
        self.declared.0.insert((template.to_owned(), method.to_string()), policy);
        self
    }

    /// The layer, once all of it fits and the store answers. Must be called within a tokio runtime.
    pub async fn build(self) -> Result<IdempotencyLayer, StartError> {
        let scope_of = self.scope_of.ok_or(StartError::NoScope)?;
        if let Some(name) = self.retained_headers.iter().find(|name| is_never_retained(name)) {
            return Err(StartError::Header(name.clone()));
        }
        let routes = route_table(&self.store, &self.declared, Some(self.policy.clone()))?;
        let vault = Vault::new(&self.secret, self.data_keys);
        if !self.store.agree(vault.check()).await? {
            return Err(StartError::OtherSecret { store: self.store.name() });
        }
        let door = Arc::new(Door {
            store: self.store,
            vault,
            scope_of,
            is_anonymous: self.is_anonymous,
            declared: Mutex::default(),
            guarded: OnceLock::new(),
            authorise: self.authorise,
            audit: self.audit,
            observers: self.observers,
            profile: self.profile,
            versions: self.versions,
            refuse_stale_keys: self.refuse_stale_keys,
            spending: Spending::new(self.budgets),
            retained_headers: self.retained_headers,
            redact: self.redact,
            waiting: Places::new(self.waiting_max.0, self.waiting_max.1),
            running: crate::door::Running::default(),
        });
        door.guards(&self.declared);
        tokio::spawn(crate::door::sweep(Arc::downgrade(&door), self.sweep_every));
        Ok(IdempotencyLayer { door, routes: Arc::new(routes) })
    }
}
