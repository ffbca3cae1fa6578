//! The layer, and its setup.
//!
//! Settings without a safe default are required: the caller's identity (or that there is none), the secret for hashing
//! keys, and for each route the meaning of a crash. Settings that do not fit are found here, before the first request.

use crate::answer::{Answer, is_never_retained};
use crate::budget::{Budgets, Spending};
use crate::door::{Door, Places};
use crate::key::{Forms, Versions};
use crate::locals::Carry;
use crate::observe::Observer;
use crate::policy::{Mode, Policy};
use crate::problem::Profile;
use crate::route::{Policies, RouteTable};
use crate::routes::Table;
use crate::scope::{Audit, Authorise, Scope, ScopeOf};
use crate::service::IdempotencyService;
use crate::store::{Store, StoreError};
use crate::vault::{DataKeys, Secret, Vault};
use http::request::Parts;
use http::{HeaderName, Method};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::LocalKey;
use tower::Layer;

/// A shorter interval would keep the process busy with sweeps.
const SWEEP_EVERY_MIN: Duration = Duration::from_millis(10);

/// Why the layer does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Neither `scope` nor `anonymous` was called.
    #[error(
        "the idempotency layer does not know whose request it is: say `scope(…)`, or `anonymous(…)` where every caller may \
         see every other's results"
    )]
    NoScope,
    /// A route's policy does not fit.
    #[error("{route}: {fault}")]
    Policy { route: String, fault: String },
    /// A header that is never kept was to be kept.
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

/// A tower layer that runs the requests with one `Idempotency-Key` once. See the [crate's documentation](crate).
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(crate) door: Arc<Door>,
    pub(crate) routes: Arc<RouteTable>,
}

impl IdempotencyLayer {
    /// Begins to set up a layer over this store. The secret keys the hashes, so that the store does not contain keys;
    /// all instances on one store must use the same secret.
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
            operations_at: None,
            versions: Versions::default(),
            opaque_keys: false,
            realm: String::new(),
            carried: Vec::new(),
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

    /// Checks that these routes fit the store, and adds them to this layer.
    pub(crate) fn check(&self, table: &Table) -> Result<(), StartError> {
        check(&*self.door.store, table)?;
        self.door.guards(table);
        Ok(())
    }

    /// The layer before one handler.
    pub(crate) fn for_route(&self, template: &str, policy: Policy) -> Self {
        let routes = RouteTable::new(Policies::One { template: template.to_owned(), policy });
        Self { door: self.door.clone(), routes }
    }

    /// Ends when nothing runs and every end is recorded. Call it after the server has stopped taking requests.
    pub async fn drain(&self) {
        self.door.running.all_left().await;
    }
}

fn check(store: &dyn Store, table: &Table) -> Result<(), StartError> {
    table.0.iter().try_for_each(|((template, method), policy)| {
        let only_reads = Method::from_bytes(method.as_bytes()).is_ok_and(|method| method.is_safe());
        let fitting = if only_reads && !matches!(policy.mode, Mode::Exempt) {
            Err(format!("{method} only reads and is never protected; declare nothing for it"))
        } else {
            fits(store, policy)
        };
        fitting.map_err(|fault| StartError::Policy { route: format!("{method} {template}"), fault })
    })
}

fn fits(store: &dyn Store, policy: &Policy) -> Result<(), String> {
    policy.fault(store.shares_transactions(), store.name()).map_or(Ok(()), Err)
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService { inner, door: self.door.clone(), routes: self.routes.clone() }
    }
}

/// The builder of an [`IdempotencyLayer`].
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
    operations_at: Option<String>,
    versions: Versions,
    opaque_keys: bool,
    realm: String,
    carried: Vec<Carry>,
    refuse_stale_keys: bool,
    budgets: Budgets,
    retained_headers: Vec<HeaderName>,
    redact: Option<Redact>,
    waiting_max: (usize, usize),
    sweep_every: Duration,
    policy: Policy,
    declared: Table,
}

/// Removes parts of an answer that must not be stored.
pub(crate) type Redact = Arc<dyn Fn(&mut Answer) + Send + Sync>;

impl Builder {
    /// How to find tenant and principal in an authenticated request. `None` refuses the request.
    pub fn scope(mut self, scope_of: impl Fn(&Parts) -> Option<Scope> + Send + Sync + 'static) -> Self {
        self.scope_of = Some(Arc::new(scope_of));
        self
    }

    /// All callers are one: a caller that knows a key may see its result, and all together share one set of
    /// [budgets](Self::budgets).
    pub fn anonymous(mut self, scope: Scope) -> Self {
        self.is_anonymous = true;
        self.scope(move |_| Some(scope.clone()))
    }

    /// Checks permissions, before every run and before every replay.
    pub fn authorise(mut self, authorise: impl Authorise) -> Self {
        self.authorise = Some(Arc::new(authorise));
        self
    }

    /// Records each replay before it is sent. If it cannot record, the answer is not sent.
    pub fn audit(mut self, audit: impl Audit) -> Self {
        self.audit = Some(Arc::new(audit));
        self
    }

    /// Gets all events. There may be several observers.
    pub fn observe(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Encrypts stored answers with these keys, by tenant.
    pub fn encrypt_with(mut self, keys: impl DataKeys + 'static) -> Self {
        self.data_keys = Some(Arc::new(keys));
        self
    }

    /// Which profile refusals follow.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// The path of [`Operations::router`](crate::Operations::router) for callers. A refusal about an operation then has
    /// the operation's address as its `instance`.
    pub fn operations_at(mut self, path: &str) -> Self {
        self.operations_at = Some(path.trim_end_matches('/').to_owned());
        self
    }

    /// The accepted UUID versions of keys: 4, 5 and 7 by default. For keys of any other form see
    /// [`opaque_keys`](Self::opaque_keys).
    pub fn key_versions(mut self, versions: Versions) -> Self {
        self.versions = versions;
        self
    }

    /// Also accepts keys that are not UUIDs, for clients that have them: 1 to 255 characters of ASCII, bare without
    /// spaces, commas and quotes, or as a structured-field string. Each counts as written; a UUID of any version is the
    /// same key as without this setting. A key that can be guessed is no secret: with [`anonymous`](Self::anonymous), a
    /// caller that guesses it sees the result.
    pub fn opaque_keys(mut self) -> Self {
        self.opaque_keys = true;
        self
    }

    /// The name of this service, if several share a store and a secret: its operations are separate, even if others
    /// have routes with the same names. All instances of a service have the same realm; a changed realm does not find
    /// earlier records. Without one, it is the service without a realm.
    pub fn realm(mut self, realm: &str) -> Self {
        realm.clone_into(&mut self.realm);
        self
    }

    /// Copies the value of a task-local, set by middleware outside of the layer, into the handler, which has a task of
    /// its own. There may be several. Request extensions reach the handler without this.
    ///
    /// ```
    /// # use perdura_idempotency::{Builder, IdempotencyLayer, Scope, Secret, store::Memory};
    /// # use std::sync::Arc;
    /// tokio::task_local! {
    ///     static REQUEST_ID: String;
    /// }
    /// # fn set_up(builder: Builder) -> Builder {
    /// builder.carry(&REQUEST_ID)
    /// # }
    /// ```
    pub fn carry<T: Clone + Send + 'static>(mut self, key: &'static LocalKey<T>) -> Self {
        self.carried.push(Carry::of(key));
        self
    }

    /// Refuses a key of version 7 that is older than all records are kept, and has no record.
    pub fn refuse_stale_keys(mut self) -> Self {
        self.refuse_stale_keys = true;
        self
    }

    /// The budgets of one caller on one instance, see [`Budgets::default`]. A caller is a tenant with a principal, and
    /// so may be a whole service: one with more than 256 requests under way gets 429.
    pub fn budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// Also stores this header of answers.
    pub fn retain_header(mut self, name: HeaderName) -> Self {
        self.retained_headers.push(name);
        self
    }

    /// Removes parts of each answer that must not be stored.
    pub fn redact(mut self, redact: impl Fn(&mut Answer) + Send + Sync + 'static) -> Self {
        self.redact = Some(Arc::new(redact));
        self
    }

    /// How many requests may wait for one operation, and in all. One caller never takes all: alone it gets up to four
    /// fifths.
    pub fn waiting_max(mut self, per_operation: usize, in_all: usize) -> Self {
        self.waiting_max = (per_operation, in_all);
        self
    }

    /// How often to sweep expired records and expired leases: every minute by default, and at most every 10 ms. It
    /// changes no answer.
    pub fn sweep_every(mut self, pause: Duration) -> Self {
        self.sweep_every = pause.max(SWEEP_EVERY_MIN);
        self
    }

    /// The policy of POST and PATCH routes without a declaration. It applies to the router's fallback too, and to a
    /// service that is nested whole, whose routes the layer distinguishes only by the path.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Declares a route of a plain `Router`, by the template that it was added with; `*` means requests without a
    /// template, such as the fallback. GET, HEAD, OPTIONS and TRACE are never protected.
    pub fn route(mut self, method: &Method, template: &str, policy: Policy) -> Self {
        self.declared.0.insert((template.to_owned(), method.to_string()), policy);
        self
    }

    /// The layer, once its settings fit and the store answers. Call it within a tokio runtime.
    pub async fn build(self) -> Result<IdempotencyLayer, StartError> {
        let scope_of = self.scope_of.ok_or(StartError::NoScope)?;
        if let Some(name) = self.retained_headers.iter().find(|name| is_never_retained(name)) {
            return Err(StartError::Header(name.clone()));
        }
        check(&*self.store, &self.declared)?;
        fits(&*self.store, &self.policy).map_err(|fault| StartError::Policy {
            route: "routes that are not declared".to_owned(),
            fault,
        })?;
        let vault = Vault::new(&self.secret, &self.realm, self.data_keys);
        if !self.store.agree(vault.check()).await? {
            return Err(StartError::OtherSecret { store: self.store.name() });
        }
        let door = Arc::new(Door {
            store: self.store,
            vault,
            scope_of,
            is_anonymous: self.is_anonymous,
            declared: Mutex::default(),
            undeclared_keep: self.policy.keep,
            authorise: self.authorise,
            audit: self.audit,
            observers: self.observers,
            profile: self.profile,
            operations_at: self.operations_at,
            keys: Forms { versions: self.versions, opaque: self.opaque_keys },
            carried: self.carried,
            refuse_stale_keys: self.refuse_stale_keys,
            spending: Spending::new(self.budgets),
            retained_headers: self.retained_headers,
            redact: self.redact,
            waiting: Places::new(self.waiting_max.0, self.waiting_max.1),
            running: crate::door::Running::default(),
        });
        door.guards(&self.declared);
        self.declared.log();
        tokio::spawn(crate::door::sweep(Arc::downgrade(&door), self.sweep_every));
        let policies = Policies::Table { declared: self.declared, undeclared: self.policy };
        Ok(IdempotencyLayer { door, routes: RouteTable::new(policies) })
    }
}
