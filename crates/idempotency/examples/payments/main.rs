//! A small payment service that may be asked twice. Its routes differ in what a crash between the deed and its record
//! means, and `--halt-at` pulls the plug exactly there. The crate's README has a session with curl.
//!
//! ```text
//! POST /payments   at_most_once   a line in a file, which stands for the outside world
//! POST /transfers  transactional  two rows in the store's own database (SQLite and PostgreSQL)
//! POST /orders     durable        a job on disk, to which a retry is attached
//! POST /levels     durable        a write to a resource that refuses old writers
//! POST /search     exempt         it only reads
//! ```
//!
//! And how not to do it: `/naive` has no claim, `/keyless-orders` no key for the receiver, `/unfenced-levels` no epoch.

mod ledger;
mod levels;
mod options;
mod orders;
mod payments;
mod plug;
mod refusal;
mod sign_in;
mod transfers;

use axum::{Router, middleware};
use http::header;
use ledger::Ledger;
use options::{Choice, Options};
use orders::Jobs;
use perdura_idempotency::routes::{get, post};
use perdura_idempotency::store::{Memory, Postgres, Redis, Sqlite, Store, postgres, redis, sqlite};
use perdura_idempotency::{Budgets, IdempotencyLayer, Metrics, Policy, Routes, metrics};
use plug::{Plug, Point};
use sign_in::{Caller, sign_in};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use transfers::Book;

/// How long the process waits for what runs when it was told to end.
const DRAIN_FOR: Duration = Duration::from_secs(30);

/// What handlers need.
#[derive(Clone)]
struct App {
    ledger: Ledger,
    jobs: Jobs,
    keyless_jobs: Jobs,
    book: Book,
    plug: Plug,
    work_for: Duration,
}

type Failed = Box<dyn Error + Send + Sync>;

/// The store that was chosen, and where its database keeps the entries of transfers.
async fn open(choice: &Choice) -> Result<(Arc<dyn Store>, Book), Failed> {
    Ok(match choice {
        Choice::Memory => (Arc::new(Memory::new()), Book::None),
        Choice::Sqlite(path) => {
            let options = sqlite::Options { prepare: transfers::prepare, ..sqlite::Options::default() };
            (Arc::new(Sqlite::open(path, &options)?), Book::Sqlite(path.clone()))
        }
        Choice::Postgres(url) => {
            let store = Postgres::connect(url, postgres::Options::default()).await?;
            (Arc::new(store), Book::on_postgres(url).await?)
        }
        Choice::Redis(url) => (Arc::new(Redis::connect(url, redis::Options::default()).await?), Book::None),
    })
}

/// Each route with what it promises.
fn routes(app: &App, lease_for: Duration) -> Routes<App> {
    let attached_to = |jobs: &Jobs| {
        let jobs = jobs.clone();
        Policy::durable(move |context| jobs.clone().attach(context)).lease_for(lease_for)
    };
    let begun_again = || Policy::durable(levels::begin_again).lease_for(lease_for);
    let routes = Routes::new()
        .route("/payments", post(payments::pay).with(Policy::at_most_once().lease_for(lease_for)))
        .route("/orders", post(orders::order).with(attached_to(&app.jobs)))
        .route("/keyless-orders", post(orders::order_keyless).with(attached_to(&app.keyless_jobs)))
        .route("/levels", post(levels::set).with(begun_again()))
        .route("/unfenced-levels", post(levels::set_unfenced).with(begun_again()))
        .route("/search", post(payments::search).exempt())
        .route("/naive", post(payments::naive).exempt())
        .route("/ledger/{reference}", get(payments::ledger));
    let transactional = Policy::transactional().lease_for(lease_for);
    match app.book {
        Book::None => routes,
        Book::Sqlite(_) => routes.route("/transfers", post(transfers::on_sqlite).with(transactional)),
        Book::Postgres(_) => routes.route("/transfers", post(transfers::on_postgres).with(transactional)),
    }
}

/// The layer between authentication and the routes, tested for standing there.
async fn assemble(
    options: Options,
    store: Arc<dyn Store>,
    app: App,
) -> Result<(IdempotencyLayer, Router), Failed> {
    let metrics = Metrics::default();
    let layer = IdempotencyLayer::builder(store, options.secret)
        .scope(|parts| parts.extensions.get::<Caller>().map(Caller::scope))
        // Another service may share the store and the secret, and have a route of the same name.
        .realm("payments")
        // What one caller may use up before it is told 429. Without this line it is the same.
        .budgets(Budgets { running: 256, replays: 6_000, ..Budgets::default() })
        .observe(metrics.clone())
        .observe(app.plug.clone())
        .sweep_every(options.sweep_every)
        .build()
        .await?;
    let routes = routes(&app, options.lease_for);
    print!("{routes}");
    let numbers = async move || ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.render());
    let callers = options.callers;
    let router = routes
        .guarded_by(&layer)?
        .layer(middleware::from_fn_with_state(callers.clone(), sign_in))
        .route("/metrics", axum::routing::get(numbers))
        .with_state(app);
    layer.self_test(router.clone(), |request| callers.sign(request)).await?;
    Ok((layer, router))
}

/// Ends when the process is told to.
async fn told_to_end() {
    let mut term = signal(SignalKind::terminate()).expect("signals can be listened for");
    let mut interrupt = signal(SignalKind::interrupt()).expect("signals can be listened for");
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let options = Options::read()?;
    let (store, book) = open(&options.store).await?;
    let ledger = Ledger::at(options.ledger.clone());
    std::fs::create_dir_all(ledger.beside("naive"))?;
    let plug = options.plug.clone();
    let jobs = Jobs::open(&ledger, &plug, options.work_for)?;
    let keyless_jobs = jobs.clone().keyless()?;
    jobs.resume()?;
    keyless_jobs.resume()?;
    let listener = TcpListener::bind(options.listen).await?;
    let app = App { ledger, jobs, keyless_jobs, book, plug: plug.clone(), work_for: options.work_for };
    let (layer, router) = assemble(options, store, app).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router).with_graceful_shutdown(told_to_end()).await?;
    // Connections are closed; what still runs has lost its client, not its right to end.
    let drained = tokio::time::timeout(DRAIN_FOR, layer.drain());
    tokio::join!(drained, async { plug.at(Point::Draining) }).0?;
    println!("ended");
    Ok(())
}
