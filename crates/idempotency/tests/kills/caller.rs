//! One who sends one request, again and again under one key, until it knows what came of it.

use crate::check::Answer;
use crate::instance::{API_KEY, PATIENCE, Patience};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    Payments,
    Transfers,
    Orders,
    Naive,
}

impl Route {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Payments => "payments",
            Self::Transfers => "transfers",
            Self::Orders => "orders",
            Self::Naive => "naive",
        }
    }

    /// Whether it may stay unknown what came of it.
    fn may_stay_unknown(self) -> bool {
        match self {
            Self::Payments => true,
            Self::Transfers | Self::Orders | Self::Naive => false,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Caller {
    client: Client,
    route: Route,
    key: Uuid,
    /// What the ledger knows it by.
    reference: String,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Caller {
    pub(crate) fn new(route: Route) -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("random bytes are drawn");
        let key = uuid::Builder::from_random_bytes(bytes).into_uuid();
        // Where TLS is switched on in reqwest by somebody else, it wants to be told whose.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client::builder().timeout(PATIENCE).build().expect("a client");
        Self { client, route, key, reference: format!("test-{key}"), answers: Arc::default() }
    }

    pub(crate) fn route(&self) -> Route {
        self.route
    }

    /// All that was answered, in order.
    pub(crate) fn answers(&self) -> Vec<Answer> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends the request once. `None`: it is not known yet, and it may be sent again.
    pub(crate) async fn ask(self, address: String) -> Option<Answer> {
        let order =
            json!({"reference": self.reference, "from": "ann", "to": "bob", "cents": 500, "item": "a book"});
        let request = self.client.post(format!("{address}/{}", self.route.name())).json(&order);
        let request = request.header("x-api-key", API_KEY).header("idempotency-key", self.key.to_string());
        // No connection, or none any more: the plug was pulled.
        let response = request.header("prefer", "wait=2").send().await.ok()?;
        let status = response.status();
        let body = response.text().await.ok()?;
        let answer = match status {
            StatusCode::CREATED => Answer::Answered(body),
            StatusCode::CONFLICT | StatusCode::INTERNAL_SERVER_ERROR | StatusCode::SERVICE_UNAVAILABLE => {
                let problem: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
                match problem["reason"].as_str() {
                    Some("OUTCOME_UNKNOWN") => Answer::Unknown,
                    Some(
                        "IDEMPOTENT_REQUEST_IN_PROGRESS" | "IDEMPOTENCY_STORE_UNAVAILABLE" | "HANDLER_FAILED",
                    ) => return None,
                    Some(_) | None => Answer::Strange(format!("{status}: {body}")),
                }
            }
            other => Answer::Strange(format!("{other}: {body}")),
        };
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer.clone());
        Some(answer)
    }

    /// Sends it until it is known what came of it.
    pub(crate) async fn settle(&self, address: &str) -> Answer {
        let patience = Patience::until("it is known what came of a request");
        loop {
            let answer = self.clone().ask(address.to_owned()).await;
            let is_final = |answer: &Answer| *answer != Answer::Unknown || self.route.may_stay_unknown();
            if let Some(answer) = answer.filter(is_final) {
                return answer;
            }
            patience.once_more().await;
        }
    }

    /// How often it was done.
    pub(crate) async fn effects(&self, address: &str) -> usize {
        let request =
            self.client.get(format!("{address}/ledger/{}", self.reference)).header("x-api-key", API_KEY);
        let response = request.send().await.expect("the ledger is read");
        let found: Value = response.json().await.expect("the ledger is JSON");
        match self.route {
            Route::Payments | Route::Orders | Route::Naive => {
                found["lines"].as_array().expect("a list").len()
            }
            Route::Transfers => {
                let entries = found["entries"].as_u64().expect("a number");
                assert!(entries.is_multiple_of(2), "half of a transfer was done: {entries} entries");
                usize::try_from(entries / 2).expect("few")
            }
        }
    }

    /// Waits until this instance works on the request, or has done it.
    pub(crate) async fn claimed(&self, address: &str) {
        let patience = Patience::until("the request is claimed");
        while self.claims(address).await.is_none_or(|claims| claims.ends_with(" 0")) {
            patience.once_more().await;
        }
    }

    /// The line of the metrics that counts claims, once there is one.
    async fn claims(&self, address: &str) -> Option<String> {
        let numbers = self.client.get(format!("{address}/metrics")).send().await.ok()?.text().await.ok()?;
        let is_claims = |line: &&str| line.starts_with("perdura_idempotency_claims_total{");
        numbers.lines().find(is_claims).map(str::to_owned)
    }
}
