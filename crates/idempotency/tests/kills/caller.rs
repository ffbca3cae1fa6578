//! One who sends one request, again and again under one key, until it knows what came of it.

use crate::check::{Answer, Done};
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
    Levels,
    /// Without a claim.
    Naive,
    /// Without a key for the receiver.
    KeylessOrders,
    /// Without an epoch for the resource.
    UnfencedLevels,
}

impl Route {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Payments => "payments",
            Self::Transfers => "transfers",
            Self::Orders => "orders",
            Self::Levels => "levels",
            Self::Naive => "naive",
            Self::KeylessOrders => "keyless-orders",
            Self::UnfencedLevels => "unfenced-levels",
        }
    }

    /// Whether it may stay unknown what came of it.
    fn may_stay_unknown(self) -> bool {
        match self {
            Self::Payments => true,
            Self::Transfers
            | Self::Orders
            | Self::Levels
            | Self::Naive
            | Self::KeylessOrders
            | Self::UnfencedLevels => false,
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
        self.ask_within(address, 2).await
    }

    /// The same, and waits so many seconds for one that runs.
    pub(crate) async fn ask_within(self, address: String, seconds: u32) -> Option<Answer> {
        let order =
            json!({"reference": self.reference, "from": "ann", "to": "bob", "cents": 500, "item": "a book"});
        let request = self.client.post(format!("{address}/{}", self.route.name())).json(&order);
        let request = request.header("x-api-key", API_KEY).header("idempotency-key", self.key.to_string());
        // No connection, or none any more: the plug was pulled.
        let response = request.header("prefer", format!("wait={seconds}")).send().await.ok()?;
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

    /// How often it was done, and how often that was tried.
    pub(crate) async fn done(&self, address: &str) -> Done {
        let request =
            self.client.get(format!("{address}/ledger/{}", self.reference)).header("x-api-key", API_KEY);
        let response = request.send().await.expect("the ledger is read");
        let found: Value = response.json().await.expect("the ledger is JSON");
        let lines = |name: &str| found[name].as_array().expect("a list").clone();
        match self.route {
            Route::Transfers => {
                let entries = found["entries"].as_u64().expect("a number");
                assert!(entries.is_multiple_of(2), "half of a transfer was done: {entries} entries");
                let times = usize::try_from(entries / 2).expect("few");
                Done { times, tries: times }
            }
            Route::Payments
            | Route::Orders
            | Route::Levels
            | Route::Naive
            | Route::KeylessOrders
            | Route::UnfencedLevels => {
                let attempts = lines("attempts");
                if self.route == Route::Orders {
                    self.all_under_one_key(&attempts);
                }
                Done { times: lines("lines").len(), tries: attempts.len() }
            }
        }
    }

    /// The receiver was told the key of this step of the operation, each time.
    fn all_under_one_key(&self, attempts: &[Value]) {
        for answer in self.answers() {
            let Answer::Answered(body) = answer else { continue };
            let body: Value = serde_json::from_str(&body).expect("an answer is JSON");
            let operation = Uuid::try_parse(body["order"].as_str().expect("an order")).expect("an operation");
            let key = Uuid::new_v5(&operation, b"ship").to_string();
            assert!(attempts.iter().all(|attempt| attempt["key"] == *key), "{key}: {attempts:?}");
        }
    }

    /// Waits until this instance works on the request, or has done it.
    pub(crate) async fn claimed(&self, address: &str) {
        let patience = Patience::until("the request is claimed");
        while self.number(address, "claims_total{").await.unwrap_or(0) == 0 {
            patience.once_more().await;
        }
    }

    /// Waits until this instance has removed exactly so many expired records.
    pub(crate) async fn swept(&self, address: &str, records: u64) {
        let patience = Patience::until("all that expired is removed");
        while self.number(address, "swept_records_total ").await != Some(records) {
            patience.once_more().await;
        }
    }

    /// A number of the metrics, once there is one.
    async fn number(&self, address: &str, name: &str) -> Option<u64> {
        let numbers = self.client.get(format!("{address}/metrics")).send().await.ok()?.text().await.ok()?;
        let line = numbers.lines().find(|line| {
            line.strip_prefix("perdura_idempotency_").is_some_and(|rest| rest.starts_with(name))
        })?;
        line.rsplit_once(' ')?.1.parse().ok()
    }
}
