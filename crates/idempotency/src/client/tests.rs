use super::*;
use crate::context::{carry, tests::run_of};
use crate::operations::Resolution;
use crate::record::OperationId;
use crate::routes::{Routes, post};
use crate::store::Memory;
use crate::{IdempotencyLayer, Scope, Secret};
use axum::Router;
use axum::extract::State;
use http::request::Parts;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::time::Instant;
use tower::ServiceExt;

/// A request that a server received: method, path, and key.
type Call = (String, String, Option<String>);

/// A server that answers everything with 200 and records its requests.
struct Receiver {
    url: String,
    calls: Arc<Mutex<Vec<Call>>>,
    server: tokio::task::JoinHandle<()>,
}

impl Receiver {
    async fn start() -> Self {
        async fn note(State(calls): State<Arc<Mutex<Vec<Call>>>>, parts: Parts) {
            let keys: Vec<_> = parts.headers.get_all(IDEMPOTENCY_KEY).iter().collect();
            assert!(keys.len() <= 1, "{} keys came", keys.len());
            let key = keys.first().map(|key| key.to_str().unwrap().to_owned());
            calls.lock().unwrap().push((parts.method.to_string(), parts.uri.path().to_owned(), key));
        }
        let calls = Arc::default();
        let app = Router::new().fallback(note).with_state(Arc::clone(&calls));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, calls, server }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The keys received since the last call.
    fn keys(&self) -> Vec<Option<String>> {
        self.calls.lock().unwrap().drain(..).map(|(_, _, key)| key).collect()
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().drain(..).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn run(operation: u8, epoch: u64) -> IdempotencyContext {
    run_of(operation, epoch, watch::channel(Instant::now()).1)
}

/// If another crate enables TLS in reqwest, the provider must be chosen explicitly.
fn direct() -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn client(propagate: PropagateKey) -> ClientWithMiddleware {
    ClientBuilder::new(direct()).with(propagate).build()
}

async fn send(request: RequestBuilder) {
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_handler_that_runs_again_sends_the_same_keys_and_each_call_has_its_own() {
    let (receiver, client) = (Receiver::start().await, client(PropagateKey::new()));
    let handler = async || {
        send(client.post(receiver.at("/mails")).body("to the buyer")).await;
        send(client.post(receiver.at("/mails")).body("to the seller")).await;
        send(client.patch(receiver.at("/mails"))).await;
        send(client.post(receiver.at("/mails?urgent"))).await;
        send(client.post(receiver.at("/charges")).step("charge")).await;
    };
    run(1, 1).within(handler()).await;
    let first = receiver.keys();
    run(1, 2).within(handler()).await;
    assert_eq!(receiver.keys(), first, "after a takeover");
    run(2, 3).within(handler()).await;
    let mut all: Vec<_> = first.into_iter().chain(receiver.keys()).flatten().collect();
    for key in &all {
        assert_eq!(Uuid::try_parse(key).unwrap().get_version_num(), 5, "{key}");
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 10, "five steps of two operations");
}

#[tokio::test]
async fn a_named_step_has_its_key_in_any_order_at_any_url_by_any_method() {
    let (receiver, client) = (Receiver::start().await, client(PropagateKey::new()));
    let run = run(1, 1);
    let key = |step: &str| Some(run.derive(step).to_string());
    run.clone()
        .within(async {
            send(client.post(receiver.at("/charges")).step("charge")).await;
            send(client.post(receiver.at("/charges")).step("fee")).await;
            send(client.put(receiver.at("/elsewhere")).step("fee")).await;
            send(client.post(receiver.at("/charges")).step("charge")).await;
        })
        .await;
    assert_eq!(receiver.keys(), [key("charge"), key("fee"), key("fee"), key("charge")]);
}

#[tokio::test]
async fn only_what_changes_something_gets_a_key_and_put_and_delete_by_choice() {
    let receiver = Receiver::start().await;
    let both = PropagateKey::new().also(Method::PUT).also(Method::DELETE);
    for (propagate, expected) in
        [(PropagateKey::new(), ["PATCH", "POST"].as_slice()), (both, &["DELETE", "PATCH", "POST", "PUT"])]
    {
        let client = client(propagate);
        let all = async {
            for method in ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"] {
                send(client.request(method.parse().unwrap(), receiver.at("/"))).await;
            }
        };
        run(1, 1).within(all).await;
        let with_key = receiver.calls().into_iter().filter(|(_, _, key)| key.is_some());
        assert_eq!(with_key.map(|(method, _, _)| method).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn a_key_that_the_caller_set_is_left_alone_and_counts_for_nothing() {
    let (receiver, client) = (Receiver::start().await, client(PropagateKey::new()));
    let own = "0a0b0c0d-0000-4000-8000-000000000001";
    let handler = async |with_own: bool| {
        if with_own {
            send(client.post(receiver.at("/mails")).header("Idempotency-Key", own)).await;
            send(client.post(receiver.at("/mails")).header("idempotency-key", own).step("mail")).await;
        }
        send(client.post(receiver.at("/mails"))).await;
    };
    run(1, 1).within(handler(false)).await;
    let derived = receiver.keys().remove(0);
    run(1, 2).within(handler(true)).await;
    assert_eq!(receiver.keys(), [Some(own.to_owned()), Some(own.to_owned()), derived]);
}

#[tokio::test]
async fn what_a_retry_sends_again_keeps_its_key_inside_and_outside_of_runs() {
    /// Sends everything twice, like a retry after a lost answer.
    struct Twice;
    impl Middleware for Twice {
        fn handle<'me, 'extensions, 'next, 'all>(
            &'me self,
            request: Request,
            extensions: &'extensions mut Extensions,
            next: Next<'next>,
        ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'all>>
        where
            'me: 'all,
            'extensions: 'all,
            'next: 'all,
            Self: 'all,
        {
            Box::pin(async move {
                let again = request.try_clone().unwrap();
                next.clone().run(request, extensions).await?;
                next.run(again, extensions).await
            })
        }
    }
    let receiver = Receiver::start().await;
    let propagate = PropagateKey::new().outside(Outside::Minted);
    let client = ClientBuilder::new(direct()).with(Twice).with(propagate).build();
    let twice = async || {
        send(client.post(receiver.at("/"))).await;
        send(client.post(receiver.at("/"))).await;
        let keys = receiver.keys();
        assert!(keys[0].is_some());
        assert_eq!((&keys[0], &keys[2]), (&keys[1], &keys[3]));
        assert_ne!(keys[0], keys[2]);
    };
    run(1, 1).within(twice()).await;
    twice().await;
}

#[tokio::test]
async fn outside_of_a_run_a_call_goes_bare_or_with_a_new_key_or_not_at_all() {
    let receiver = Receiver::start().await;
    send(client(PropagateKey::new()).post(receiver.at("/")).step("charge")).await;
    assert_eq!(receiver.keys(), [None]);

    let minting = client(PropagateKey::new().outside(Outside::Minted));
    send(minting.post(receiver.at("/"))).await;
    send(minting.post(receiver.at("/"))).await;
    let keys: Vec<_> =
        receiver.keys().into_iter().map(|key| Uuid::try_parse(&key.unwrap()).unwrap()).collect();
    assert_eq!(keys.iter().map(Uuid::get_version_num).collect::<Vec<_>>(), [7, 7]);
    assert_ne!(keys[0], keys[1]);

    let refusing = client(PropagateKey::new().outside(Outside::Refused));
    let refused = refusing.post(receiver.at("/")).send().await.unwrap_err();
    assert!(refused.to_string().contains("wrap the spawned task in `carry`"), "{refused}");
    send(refusing.get(receiver.at("/"))).await;
    assert_eq!(receiver.keys(), [None], "the POST was not sent, and a GET needs no key");
}

#[tokio::test]
async fn a_spawned_task_that_carries_the_run_counts_with_it() {
    let (receiver, client) = (Receiver::start().await, client(PropagateKey::new()));
    let run = run(1, 1);
    let url = receiver.at("/mails");
    run.within(async {
        send(client.post(&url)).await;
        tokio::spawn(carry(send(client.post(&url)))).await.unwrap();
    })
    .await;
    let keys = receiver.keys();
    assert!(keys[0].is_some() && keys[1].is_some());
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_key_is_quoted_for_receivers_that_read_structured_fields_and_never_shown() {
    let receiver = Receiver::start().await;
    let run = run(1, 1);
    let key = run.derive("charge");
    let quoted = PropagateKey::new().quoted();
    run.within(send(client(quoted.clone()).post(receiver.at("/")).step("charge"))).await;
    assert_eq!(receiver.keys(), [Some(format!("\"{key}\""))]);
    assert_eq!(format!("{:?}", quoted.value(key)), "Sensitive");
}

#[tokio::test]
async fn behind_the_layer_a_request_that_is_run_again_sends_its_receivers_the_same_keys() {
    let (receiver, client) = (Receiver::start().await, client(PropagateKey::new()));
    let layer = IdempotencyLayer::builder(Arc::new(Memory::new()), Secret::new([7; 32]).unwrap())
        .anonymous(Scope::new("acme", "anybody"))
        .build()
        .await
        .unwrap();
    let url = receiver.at("/mails");
    let runs = Arc::new(AtomicU32::new(0));
    let handler = move || async move {
        send(client.post(&url)).await;
        tokio::spawn(carry(send(client.post(&url).step("receipt")))).await.unwrap();
        assert!(runs.fetch_add(1, Ordering::SeqCst) > 0, "the first run breaks after its calls");
    };
    let routes = Routes::new().route("/orders", post(handler));
    let app = routes.guarded_by(&layer).unwrap();
    let order = async || {
        let request =
            http::Request::post("/orders").header(IDEMPOTENCY_KEY, "0190a6e4-5f3c-7b1d-9c55-3e2b7a1f0d42");
        let request = request.body(axum::body::Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap()
    };
    let broken = axum::body::to_bytes(order().await.into_body(), 10_000).await.unwrap();
    let broken: serde_json::Value = serde_json::from_slice(&broken).unwrap();
    let first = receiver.keys();
    assert!(first.len() == 2 && first.iter().all(Option::is_some), "{first:?}");

    let operation = OperationId::parse(broken["operation"].as_str().unwrap()).unwrap();
    layer.operations().resolve(operation, Resolution::NotApplied).await.unwrap();
    assert_eq!(order().await.status(), 200);
    assert_eq!(receiver.keys(), first);
}
