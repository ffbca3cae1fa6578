//! A server without sockets and files: a runtime over a store in memory, its API and its commands, with steps whose
//! answers the test decides; and the same data without a server.

use axum::body::{Body, to_bytes};
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::{Arns, Certainty, Fault, Outcome, Policy, Uncertain};
use perdura_runtime::{Bounds, Nowhere, Options, RealClock, RealWorld, Runtime, StepCall, StepError, Steps};
use perdura_server::control::{Answer, Request};
use perdura_server::data::{Beside, Deposit, Doubts, Served};
use perdura_server::sfn::{Api, ApiError, KeyState, Keys, Quotas, Setup, Tester, Trying};
use perdura_server::v1::{Memory, Outgoing, V1, heard};
use perdura_server::who::Caller;
use perdura_server::{Refusal, handle};
use perdura_store::audit::DoorKind;
use perdura_store::{Catalog, MachineChange, MemoryStore, Revised, Store};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Who has the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A server.
    Served,
    /// A command, which holds it for a moment.
    Alone,
    /// A command that only looks.
    Beside,
}

/// How the server is set up.
#[derive(Clone, Default)]
pub(crate) struct With {
    quotas: Quotas,
    keys: Keys,
    /// What is switched on: `strict`, `tester`, `reveal`, `doubts`.
    switches: BTreeSet<String>,
}

impl With {
    /// One more, as a script says it: `strict`, `quota activities=1`, `kms KEY=disabled`.
    pub(crate) fn and(&mut self, words: &str) {
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        match word {
            "strict" | "tester" | "reveal" | "doubts" => drop(self.switches.insert(word.to_owned())),
            "quota" => {
                let (what, most) = rest.split_once('=').expect("quota WHAT=MOST");
                let most: usize = most.parse().expect("a quota is a number");
                match what {
                    "machines" => self.quotas.state_machines = most,
                    "activities" => self.quotas.activities = most,
                    "executions" => self.quotas.executions = most as u64,
                    "pollers" => self.quotas.pollers = most,
                    "versions" => self.quotas.versions = most,
                    "aliases" => self.quotas.aliases = most,
                    other => panic!("{other} has no quota"),
                }
            }
            "kms" => {
                let (key, state) = rest.split_once('=').expect("kms KEY=STATE");
                let state = KeyState::read(state).expect("it is a state of a key");
                self.keys.known.get_or_insert_default().insert(key.to_owned(), state);
            }
            other => panic!("a server cannot be had with {other}"),
        }
    }

    fn has(&self, switch: &str) -> bool {
        self.switches.contains(switch)
    }
}

enum Holder {
    Served { _runtime: Runtime, api: Api, v1: V1 },
    Alone(Box<Deposit>),
    Beside(Beside),
    Nobody,
}

/// Data in memory, and whoever has it.
pub(crate) struct Stage {
    tokio: Handle,
    store: MemoryStore,
    with: With,
    holder: Holder,
}

impl Stage {
    pub(crate) fn new(tokio: &tokio::runtime::Runtime, with: With, mode: Mode) -> Self {
        let mut stage =
            Self { tokio: tokio.handle().clone(), store: MemoryStore::new(1), with, holder: Holder::Nobody };
        stage.go(mode);
        stage
    }

    /// Gives the data to somebody else, who finds it as it is on disk.
    pub(crate) fn go(&mut self, mode: Mode) {
        self.holder = Holder::Nobody;
        self.holder = match mode {
            Mode::Served => self.serve(),
            Mode::Alone => {
                let deposit = Deposit::new(Box::new(self.store.clone())).expect("memory opens");
                let now = RealClock::default().moment().now;
                let by = Caller::owner().origin(DoorKind::Command, "alone", now);
                Holder::Alone(Box::new(deposit.with_quotas(self.with.quotas).by(Arc::new(by))))
            }
            Mode::Beside => Holder::Beside(Beside::new(self.store.reader().expect("memory opens"))),
        };
    }

    /// Leaves a machine as a process does that ended while it was deleting it.
    pub(crate) fn leave_deleting(&mut self, name: &str) {
        let mode = self.mode();
        self.holder = Holder::Nobody;
        let head = self.store.reader().expect("memory opens").head(name).expect("memory can be read");
        let head = head.unwrap_or_else(|| panic!("there is no machine {name}"));
        let mut card: Value = serde_json::from_str(&head.card).expect("a card is JSON");
        card["deleting"] = true.into();
        let card = |_| Some(card.to_string().into());
        let change =
            MachineChange { name: name.into(), seen: Some(head.changed), revision: None, card: &card };
        let revised = self.store.revise(&change, None).expect("memory takes it");
        assert!(matches!(revised, Revised::Stands(_)), "{revised:?}");
        self.go(mode);
    }

    /// Goes on with deleting, as a server does that starts.
    pub(crate) fn go_on_deleting(&self) {
        self.tokio.block_on(self.api().go_on_deleting()).expect("it is deleted");
    }

    fn serve(&self) -> Holder {
        let store = self.store.clone();
        let world = RealWorld::new(steps(), Box::new(Nowhere), self.tokio.clone());
        let opener = Box::new(move || Ok(Box::new(store.clone()) as Box<dyn Store>));
        let bounds = Bounds { executions_max: self.with.quotas.executions, ..Bounds::default() };
        let options = Options { bounds, ..Options::default() };
        let runtime = Runtime::open(opener, Arc::new(world), &options).expect("memory opens");
        let doubts = self.with.has("doubts").then(doubts);
        let api = Api::new(Setup {
            door: runtime.door().clone(),
            arns: Arns::default(),
            is_strict: self.with.has("strict"),
            quotas: self.with.quotas,
            keys: self.with.keys.clone(),
            doubts: doubts.clone(),
            tester: self.with.has("tester").then(tester),
            reveals_secrets: self.with.has("reveal"),
        });
        let mut served =
            Served::new(runtime.door().clone(), self.tokio.clone()).with_quotas(self.with.quotas);
        if let Some(doubts) = doubts {
            served = served.with_doubts(doubts);
        }
        let api = api.expect("memory can be read");
        let memory = Memory::new(Arc::new(perdura_idempotency::store::Memory::new()), &[7; 32]);
        let v1 = self.tokio.block_on(V1::new(served, api.clone(), memory)).expect("memory remembers");
        Holder::Served { _runtime: runtime, api, v1 }
    }

    pub(crate) fn mode(&self) -> Mode {
        match &self.holder {
            Holder::Served { .. } => Mode::Served,
            Holder::Alone(_) => Mode::Alone,
            Holder::Beside(_) => Mode::Beside,
            Holder::Nobody => unreachable!("somebody has the data"),
        }
    }

    pub(crate) fn api(&self) -> &Api {
        match &self.holder {
            Holder::Served { api, .. } => api,
            Holder::Alone(_) | Holder::Beside(_) | Holder::Nobody => panic!("only a server has an API"),
        }
    }

    /// Asks the API, with a body as a client would send it.
    pub(crate) fn ask(&self, action: &str, body: &str) -> Result<Value, ApiError> {
        let answer = self.tokio.block_on(self.api().ask(action, body.to_owned()))?;
        Ok(serde_json::from_str(&answer.to_string()).expect("answers are JSON"))
    }

    /// Sends a request to `/v1`.
    pub(crate) fn http(
        &self,
        method: axum::http::Method,
        path: &str,
        body: Option<String>,
    ) -> (u16, Vec<u8>) {
        let outgoing = Outgoing { method, path: path.to_owned(), body };
        match &self.holder {
            Holder::Served { v1, .. } => self.tokio.block_on(http(v1, outgoing)),
            Holder::Alone(_) | Holder::Beside(_) | Holder::Nobody => panic!("only a server has an API"),
        }
    }

    /// Asks as the command line does.
    pub(crate) fn command(&mut self, request: Request) -> Result<Answer, Refusal> {
        match &mut self.holder {
            Holder::Served { v1, .. } => {
                let (status, body) = self.tokio.block_on(http(v1, Outgoing::of(&request)));
                heard(&request, status, &body).expect("an answer can be read")
            }
            Holder::Alone(deposit) => handle(&mut **deposit, request),
            Holder::Beside(beside) => handle(beside, request),
            Holder::Nobody => unreachable!("somebody has the data"),
        }
    }
}

/// Sends a request to `/v1` as a client does.
async fn http(v1: &V1, outgoing: Outgoing) -> (u16, Vec<u8>) {
    let Outgoing { method, path, body } = outgoing;
    let request = axum::http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let request = request.body(body.map_or_else(Body::empty, Body::from)).expect("it is a request");
    let answer = v1.answer_on_socket(request).await;
    let status = answer.status().as_u16();
    (status, to_bytes(answer.into_body(), usize::MAX).await.expect("it is whole").to_vec())
}

/// A runtime for whoever waits.
pub(crate) fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("threads can be had")
}

/// Steps by what they answer. Each takes its input and gives it back, or does not.
fn steps() -> Steps {
    let held = Policy { uncertain: Uncertain::Hold, ..Policy::default() };
    let refusing = |call: StepCall| {
        let member = |name: &str| call.input.value().get(name).and_then(|it| it.as_str().map(str::to_owned));
        let (error, cause) = (member("error"), member("cause"));
        StepError::refused(error.as_deref().unwrap_or("Refused"), cause.as_deref().unwrap_or("as asked"))
    };
    Steps::default()
        .with("echo", Policy::default(), |call| async move { Ok(call.input) })
        .with("refuse", Policy::default(), move |call| async move { Err(refusing(call)) })
        .with("hang", Policy::default(), |_| std::future::pending())
        .with("doubt", held, |_| async { Err(StepError::uncertain("Lost", "nobody knows")) })
}

/// Tells of a state under test what it was called with.
fn tester() -> Tester {
    Arc::new(|trying: Trying| {
        Box::pin(async move {
            let input = trying.call.input.clone();
            let outcome = if input.value().get("fail").is_some() {
                let fault = Fault::new("Broken", "as asked");
                Outcome::Failed { fault, certainty: Certainty::Ambiguous }
            } else {
                Outcome::Succeeded { output: input }
            };
            (outcome, None)
        })
    })
}

/// Doubts every machine.
fn doubts() -> Doubts {
    Arc::new(|_| vec![Diagnostic::warning("NOT_HERE", "nobody here can do that")])
}
