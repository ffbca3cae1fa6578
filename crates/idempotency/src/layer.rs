//! The layer, and how it is set up.
//!
//! What is not safe by itself has to be said: who the caller is (or that nobody is asked), under which secret keys are
//! hashed, and for each route what a crash means there. What does not fit is found here, before the first request.

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

/// Who sweeps more often does nothing else.
const SWEEP_EVERY_MIN: Duration = Duration::from_millis(10);

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

    /// Whether these routes fit the store; from now on they are this layer's.
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

    /// Ends when nothing runs and every end is recorded. Call it when the server has stopped taking requests.
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

/// Takes out of an answer what is not to be stored.
pub(crate) type Redact = Arc<dyn Fn(&mut Answer) + Send + Sync>;

impl Builder {
    /// How tenant and principal are found in a request that authentication has passed. `None` refuses the request.
    pub fn scope(mut self, scope_of: impl Fn(&Parts) -> Option<Scope> + Send + Sync + 'static) -> Self {
        self.scope_of = Some(Arc::new(scope_of));
        self
    }

    /// All callers are one: whoever knows a key may see its result, and all together have the [budgets](Self::budgets) of one.
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

    /// The path below which callers find [`Operations::router`](crate::Operations::router). A refusal that is about an
    /// operation then tells, as its `instance`, where that operation can be looked at.
    pub fn operations_at(mut self, path: &str) -> Self {
        self.operations_at = Some(path.trim_end_matches('/').to_owned());
        self
    }

    /// Which UUID versions a key may have: 4, 5 and 7, unless said otherwise. Keys of any other form are taken by
    /// [`opaque_keys`](Self::opaque_keys).
    pub fn key_versions(mut self, versions: Versions) -> Self {
        self.versions = versions;
        self
    }

    /// Takes keys that are no UUIDs as well, for clients that have others: 1 to 255 characters of ASCII, bare without spaces,
    /// commas and quotes, or as a structured-field string. Each counts as it is written; a UUID of any version is the key that
    /// it is without this. A key that somebody can guess is no secret: with [`anonymous`](Self::anonymous), whoever guesses it
    /// sees the result.
    pub fn opaque_keys(mut self) -> Self {
        self.opaque_keys = true;
        self
    }

    /// The service that this is, where several share a store and a secret: its operations are its own, also where others have
    /// routes of the same name. All instances of a service have one realm; under another one, what was recorded before is not
    /// found. Without one, it is the service without a realm.
    pub fn realm(mut self, realm: &str) -> Self {
        realm.clone_into(&mut self.realm);
        self
    }

    /// Takes the value of a task-local, where middleware outside of the layer has set it, along to the handler, which has a
    /// task of its own. There may be several. What is in the request's extensions is there without this.
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

    /// Refuses a key of version 7 that is older than records are kept and of which none is there.
    pub fn refuse_stale_keys(mut self) -> Self {
        self.refuse_stale_keys = true;
        self
    }

    /// What one caller may use up on one instance: [`Budgets::default`] says how much that is. A caller is a tenant with a
    /// principal, and so may be a whole service: one that has more than 256 requests under way is told 429.
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

    /// How often what expired is removed, and what was begun and not ended is found: every minute, unless said otherwise, and
    /// at most every 10 ms. It changes no answer.
    pub fn sweep_every(mut self, pause: Duration) -> Self {
        self.sweep_every = pause.max(SWEEP_EVERY_MIN);
        self
    }

    /// The policy of POST and PATCH routes that are not declared. It counts for the router's fallback too, and for a service
    /// that is nested whole, where the layer cannot tell routes apart and goes by the path.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Declares a route of a plain `Router`, by the template that it was added with; `*` is what has none, as the fallback.
    /// GET, HEAD, OPTIONS and TRACE are never protected.
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
