//! A small program under the layer: it takes payments, counts how often it really did, and does what a test tells it to.

use crate::asks::{Ask, Told};
use crate::faulty::Faulty;
use crate::grounds::Ground;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{StatusCode, header};
use perdura_idempotency::observe::{Happening, What};
use perdura_idempotency::routes::{delete, get, patch, post, put};
use perdura_idempotency::{
    Attached, Builder, IdempotencyContext, IdempotencyLayer, Policy, Routes, Scope, Secret, StartError,
};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// Longer than anything here takes, so that what hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How often the handler ran, and a gate that it may wait at.
#[derive(Clone)]
pub(crate) struct Till {
    runs: Arc<watch::Sender<u32>>,
    gate: Arc<Semaphore>,
}

impl Till {
    fn new() -> Self {
        Self { runs: Arc::new(watch::Sender::new(0)), gate: Arc::new(Semaphore::new(0)) }
    }

    /// How often a handler has begun.
    pub(crate) fn runs(&self) -> u32 {
        *self.runs.borrow()
    }

    /// Ends when so many handlers have begun.
    pub(crate) async fn began(&self, runs: u32) {
        let mut begun = self.runs.subscribe();
        let begun = tokio::time::timeout(PATIENCE, begun.wait_for(|begun| *begun >= runs)).await;
        drop(begun.expect("a handler should have begun").expect("the till is here"));
    }

    /// In a handler: waits until the test opens the gate.
    pub(crate) async fn at_the_gate(&self) {
        self.gate.acquire().await.expect("the gate is never closed").forget();
    }

    /// Lets so many handlers pass.
    pub(crate) fn open(&self, handlers: usize) {
        self.gate.add_permits(handlers);
    }

    fn begin(&self) -> u32 {
        let mut nth = 0;
        self.runs.send_modify(|runs| {
            *runs += 1;
            nth = *runs;
        });
        nth
    }
}

/// What a handler is given.
pub(crate) struct Call {
    pub(crate) till: Till,
    /// Which run this is, from 1.
    pub(crate) nth: u32,
    pub(crate) request: Request,
}

type Work = Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;
type SetUp = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// What a shop is made of; several instances can be made of one.
#[derive(Clone)]
pub(crate) struct Plan {
    policy: Policy,
    work: Work,
    set_up: SetUp,
}

impl Plan {
    /// Handlers that do this, under this policy.
    pub(crate) fn of<O, R>(policy: Policy, work: impl Fn(Call) -> O + Send + Sync + 'static) -> Self
    where
        O: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        let work: Work = Arc::new(move |call| {
            let answer = work(call);
            Box::pin(async move { answer.await.into_response() })
        });
        Self { policy, work, set_up: Arc::new(|layer| layer) }
    }

    /// Handlers that take a payment.
    pub(crate) fn pays(policy: Policy) -> Self {
        Self::of(policy, |call| async move { paid(call.nth) })
    }

    /// Handlers that wait at the gate, then take a payment.
    pub(crate) fn waits(policy: Policy) -> Self {
        Self::of(policy, |call| async move {
            call.till.at_the_gate().await;
            paid(call.nth)
        })
    }

    /// The layer is set up so as well.
    pub(crate) fn set_up(mut self, set_up: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        let before = self.set_up;
        self.set_up = Arc::new(move |layer| set_up(before(layer)));
        self
    }

    fn routes(&self, till: &Till) -> Routes {
        let (till, work) = (till.clone(), self.work.clone());
        let handler = move |request: Request| {
            let (till, work) = (till.clone(), work.clone());
            async move {
                let nth = till.begin();
                work(Call { till, nth, request }).await
            }
        };
        let policy = || self.policy.clone();
        Routes::new()
            .route("/payments", post(handler.clone()).with(policy()).get(handler.clone()))
            .route("/refunds", post(handler.clone()).with(policy()))
            .route("/accounts/{account}/payments", post(handler.clone()).with(policy()))
            .route(
                "/payments/{id}",
                patch(handler.clone()).with(policy()).put(handler.clone()).with(policy()),
            )
            .route("/drafts/{id}", put(handler.clone()).delete(handler.clone()))
            .route("/cards/{id}", delete(handler.clone()).with(policy()))
            .route("/search", post(handler.clone()).exempt())
            .route("/health", get(handler))
    }

    /// The layer alone, over this store.
    pub(crate) fn builder(&self, store: Arc<Faulty>) -> Builder {
        let secret = Secret::new(*b"a secret of thirty-two bytes, ok").expect("it is long enough");
        (self.set_up)(IdempotencyLayer::builder(store, secret).scope(signed_in))
    }
}

/// A route whose work is found never to have begun, when somebody asks.
pub(crate) fn durable() -> Policy {
    Policy::durable(|_: IdempotencyContext| async { Attached::NotBegun })
}

/// The answer to the n-th payment.
pub(crate) fn paid(nth: u32) -> Response {
    let headers = [
        (header::LOCATION, format!("/payments/{nth}")),
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::SET_COOKIE, format!("session={nth}")),
    ];
    (StatusCode::CREATED, headers, format!("{{\"payment\":{nth}}}")).into_response()
}

/// Who asks: `Authorization: Bearer tenant/principal`.
pub(crate) fn signed_in(parts: &Parts) -> Option<Scope> {
    let bearer = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    let (tenant, principal) = bearer.split_once('/')?;
    Some(Scope::new(tenant, principal))
}

/// What the layer told its observers.
#[derive(Clone)]
pub(crate) struct Events(Arc<watch::Sender<Vec<Happening>>>);

impl Events {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    fn note(&self, happening: &Happening) {
        self.0.send_modify(|events| events.push(happening.clone()));
    }

    /// How many of these happened.
    pub(crate) fn count(&self, which: impl Fn(&What) -> bool) -> usize {
        self.0.borrow().iter().filter(|happening| which(&happening.what)).count()
    }

    /// All that happened, in order.
    pub(crate) fn all(&self) -> Vec<Happening> {
        self.0.borrow().clone()
    }

    /// Each grant: its number, and whether it was taken over.
    pub(crate) fn claims(&self) -> Vec<(u64, bool)> {
        let claim = |happening: &Happening| match happening.what {
            What::Claimed { epoch, taken_over } => Some((epoch.0, taken_over)),
            _ => None,
        };
        self.0.borrow().iter().filter_map(claim).collect()
    }

    /// All that happened, as text.
    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.0.borrow())
    }

    /// Ends when so many of these have happened.
    pub(crate) async fn until(&self, count: usize, which: impl Fn(&What) -> bool) {
        let mut events = self.0.subscribe();
        let enough = |events: &Vec<Happening>| {
            events.iter().filter(|happening| which(&happening.what)).count() >= count
        };
        let happened = tokio::time::timeout(PATIENCE, events.wait_for(enough)).await.map(drop);
        happened.unwrap_or_else(|_| panic!("{count} of these should have happened: {}", self.text()));
    }
}

/// One instance of the program.
pub(crate) struct Shop {
    pub(crate) ground: Arc<Ground>,
    pub(crate) store: Arc<Faulty>,
    pub(crate) layer: IdempotencyLayer,
    pub(crate) app: Router,
    pub(crate) till: Till,
    pub(crate) events: Events,
    plan: Plan,
}

impl Shop {
    /// The first instance.
    pub(crate) async fn open(ground: &Arc<Ground>, plan: Plan) -> Self {
        Self::try_open(ground, plan).await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn try_open(ground: &Arc<Ground>, plan: Plan) -> Result<Self, StartError> {
        Self::make(ground, ground.store(), plan, Till::new(), Events::new()).await
    }

    /// Another instance beside this one: the same store and the same payments, another process.
    pub(crate) async fn beside(&self) -> Self {
        let (plan, till, events) = (self.plan.clone(), self.till.clone(), self.events.clone());
        Self::make(&self.ground, self.ground.another(), plan, till, events).await.expect("a second instance")
    }

    async fn make(
        ground: &Arc<Ground>,
        store: Arc<dyn perdura_idempotency::store::Store>,
        plan: Plan,
        till: Till,
        events: Events,
    ) -> Result<Self, StartError> {
        let store = Faulty::new(store);
        let noting = events.clone();
        let layer = plan.builder(store.clone()).observe(move |happening: &Happening| noting.note(happening));
        let layer = layer.build().await?;
        let app = plan.routes(&till).guarded_by(&layer)?;
        Ok(Self { ground: ground.clone(), store, layer, app, till, events, plan })
    }

    /// What a caller is told.
    pub(crate) async fn ask(&self, ask: &Ask) -> Told {
        ask_of(&self.app, ask).await
    }

    /// What a caller is told whose content comes in an unusual way.
    pub(crate) async fn ask_with(&self, ask: &Ask, content: Body) -> Told {
        answer_of(&self.app, ask.request().map(|_| content)).await
    }

    /// Asks on a task of its own.
    pub(crate) fn send(&self, ask: &Ask) -> JoinHandle<Told> {
        let (app, ask) = (self.app.clone(), ask.clone());
        tokio::spawn(async move { ask_of(&app, &ask).await })
    }

    /// One that runs, and one that waits for it.
    pub(crate) async fn send_twice(&self, ask: &Ask) -> [JoinHandle<Told>; 2] {
        let first = self.send(ask);
        self.till.began(1).await;
        let waiting = self.send(ask);
        self.events.until(1, |what| *what == What::Waiting).await;
        [first, waiting]
    }

    /// The program behind a socket; where it listens.
    pub(crate) async fn listen(&self) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let app = self.app.clone();
        tokio::spawn(async move { axum::serve(listener, app).await.expect("serving") });
        address
    }
}

/// What a program tells.
pub(crate) async fn ask_of(app: &Router, ask: &Ask) -> Told {
    answer_of(app, ask.request()).await
}

async fn answer_of(app: &Router, request: Request) -> Told {
    let asked = format!("{request:?}");
    let answered = async {
        let response = app.clone().oneshot(request).await.expect("a router always answers");
        Told::read(response).await
    };
    tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("no answer to {asked}"))
}
