//! axum-idempotent in front of the deed of the example service, on PostgreSQL, as its README has it: the key is the
//! header, and the session that it needs comes from `POST /sign-in`.

use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::{Router, routing::post};
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use rustix::process::{Signal, getpid, kill_process};
use ruts::store::Ttl;
use ruts::store::postgres::{PostgresStore, PostgresStoreBuilder};
use ruts::{CookieOptions, Session, SessionLayer};
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tower_cookies::CookieManagerLayer;

/// A store that is down is waited for so long; sqlx waits 30 s unless told.
const CONNECT_FOR: Duration = Duration::from_secs(1);

struct Shop {
    ledger: String,
    work_for: Duration,
    halt_at: String,
    halted: AtomicBool,
}

impl Shop {
    fn plug(&self, point: &str) {
        let (at, how) = self.halt_at.split_once('=').unwrap_or_default();
        if at == point && !self.halted.swap(true, Ordering::SeqCst) {
            let signal = if how == "kill" { Signal::KILL } else { Signal::STOP };
            kill_process(getpid(), signal).expect("a process may signal itself");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    async fn deed(&self, payment: &Value) -> std::io::Result<Value> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let receipt = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let line = json!({"reference": payment["reference"], "receipt": receipt});
        let mut file = tokio::fs::OpenOptions::new().append(true).create(true).open(&self.ledger).await?;
        file.write_all(format!("{line}\n").as_bytes()).await?;
        file.flush().await?;
        Ok(json!({"receipt": receipt, "cents": payment["cents"]}))
    }
}

/// The deed, with work before it and after it.
async fn pay(
    State(shop): State<Arc<Shop>>,
    Json(payment): Json<Value>,
) -> Result<(StatusCode, Json<Value>), (StatusCode, String)> {
    shop.plug("before-effect");
    tokio::time::sleep(shop.work_for).await;
    let failed = |error: std::io::Error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let answer = shop.deed(&payment).await.map_err(failed)?;
    shop.plug("after-effect");
    tokio::time::sleep(shop.work_for).await;
    Ok((StatusCode::CREATED, Json(answer)))
}

async fn sign_in(session: Session<PostgresStore>) -> Result<StatusCode, (StatusCode, String)> {
    let for_an_hour = Ttl::new(3600).expect("an hour is a time to live");
    let signed_in = session.set("caller", &"ann", for_an_hour, None).await;
    signed_in.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(StatusCode::NO_CONTENT)
}

/// The version that is built in.
fn version(name: &str) -> &str {
    let package = format!("name = \"{name}\"\nversion = \"");
    let (_, rest) = include_str!("../Cargo.lock").split_once(&package).expect("it is locked");
    rest.split('"').next().expect("it has a version")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options: BTreeMap<&str, &str> = arguments.chunks(2).map(|pair| (&*pair[0], &*pair[1])).collect();
    let option = |name| options.get(name).copied().unwrap_or_default();
    let shop = Arc::new(Shop {
        ledger: option("--ledger").to_owned(),
        work_for: Duration::from_millis(option("--work-ms").parse()?),
        halt_at: option("--halt-at").to_owned(),
        halted: AtomicBool::new(false),
    });
    let pool = PgPoolOptions::new().acquire_timeout(CONNECT_FOR).connect(option("--store")).await?;
    let store = Arc::new(PostgresStoreBuilder::new(pool).create_table(true).build().await?);
    let by_the_header =
        IdempotentOptions::default().use_idempotency_key_header(Some("Idempotency-Key"), true);
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(IdempotentLayer::<PostgresStore>::new(by_the_header))
        .route("/sign-in", post(sign_in))
        .layer(SessionLayer::new(store).with_cookie_options(CookieOptions::build().name("session")))
        .layer(CookieManagerLayer::new())
        .with_state(shop);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("this is axum-idempotent {}, ruts {}", version("axum-idempotent"), version("ruts"));
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
