//! Starts through the Step Functions API, or through `/v1` under a key: a server in a process of its own, and clients
//! that keep their connections.
//!
//! Each connection sends the next start when it has the answer to the last, of a machine with one Pass state. The
//! server answers each after the sync. Meanwhile one more connection asks for the status of executions, as consoles and
//! waiting programs do, and now and then for a history, which must be complete. The cost of the clients counts too, as
//! they run on the same machine.

mod client;

use super::measure::{Durations, cpu_time, cpu_time_of};
use super::steps::FLOOR_FOR;
use super::{Report, floor};
use crate::arguments::LoadArguments;
use anyhow::{Context, Result, bail};
use client::{Client, Prepared};
use perdura_engine::asl::json::{Value, parse};
use perdura_engine::asl::object;
use serde::Serialize;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use std::{cell::RefCell, net::SocketAddr};
use tokio::task::LocalSet;

/// The default number of connections.
const CONCURRENCY: usize = 64;
const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
/// How often the probe asks for a status.
const PROBE_EVERY: Duration = Duration::from_millis(5);
/// One of so many probes asks for the history.
const HISTORY_OF: u64 = 20;
/// How long the load runs before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// A server in another process; it is killed when this value is dropped.
struct Served {
    process: Child,
    address: SocketAddr,
}

impl Served {
    fn start(data: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program again")?;
        let process = Command::new(program)
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--grace", "0s", "--log", "error", "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a server")?;
        // From here on the process ends with `served`, also on an error.
        let mut served = Self { process, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let said = served.process.stdout.take().context("the server has no stdout")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).context("the server does not say where it listens")?;
        let ready = parse(&line).ok().context("the server ended before it listened")?;
        let url = ready.get("address").and_then(Value::as_str).unwrap_or_default();
        let address = url.strip_prefix("http://").unwrap_or_default().parse();
        served.address = address.with_context(|| format!("the server listens on {url:?}"))?;
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for error in [self.process.kill(), self.process.wait().map(drop)].into_iter().filter_map(Result::err)
        {
            tracing::warn!(%error, "the server cannot be ended");
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ApiReport {
    workload: &'static str,
    via: &'static str,
    concurrency: usize,
    /// Starts per second.
    per_s: f64,
    /// From the request to its answer.
    p50_ms: f64,
    p99_ms: f64,
    /// Of server and clients together.
    cpu_us_per_start: f64,
    server_cpu_us_per_start: f64,
    describe_p50_ms: f64,
    describe_p99_ms: f64,
    history_p50_ms: f64,
    history_p99_ms: f64,
    /// The rate of the plain disk at the same concurrency.
    floor_per_s: f64,
    floor_ratio: f64,
}

impl Report for ApiReport {}

/// The result of a run.
#[derive(Default)]
struct Load {
    starts: Durations,
    describes: Durations,
    histories: Durations,
    lasted: Duration,
}

/// By which door.
#[derive(Clone, Copy, Debug)]
pub(super) enum Door {
    Aws,
    /// Each start under a key of its own.
    V1,
}

pub(super) fn bench(arguments: &LoadArguments, door: Door) -> Result<ApiReport> {
    let (data, concurrency) = (&arguments.site.data, arguments.concurrency.unwrap_or(CONCURRENCY));
    let before = floor::floor(data, concurrency, FLOOR_FOR)?;
    let served = Served::start(data)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = tokio.block_on(deploy(served.address, door))?;
    let plan = Plan {
        address: served.address,
        start: Rc::new(start),
        concurrency,
        lasts: Duration::from_secs_f64(arguments.seconds),
        rate: arguments.rate,
    };
    tokio.block_on(LocalSet::new().run_until(run(Plan { lasts: WARM_UP, rate: None, ..plan.clone() })))?;
    let (own, servers) = (cpu_time(), cpu_time_of(&served.process)?);
    let mut load = tokio.block_on(LocalSet::new().run_until(run(plan)))?;
    let servers = cpu_time_of(&served.process)?.saturating_sub(servers);
    let own = cpu_time().saturating_sub(own);
    drop(served);
    let after = floor::floor(data, concurrency, FLOOR_FOR)?;
    let floor = f64::midpoint(before, after);
    let starts = load.starts.0.len();
    let per_s = starts as f64 / load.lasted.as_secs_f64();
    let each_us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / starts.max(1) as f64;
    Ok(ApiReport {
        workload: "starts",
        via: match door {
            Door::Aws => "aws",
            Door::V1 => "v1",
        },
        concurrency,
        per_s,
        p50_ms: load.starts.percentile_ms(0.5),
        p99_ms: load.starts.percentile_ms(0.99),
        cpu_us_per_start: each_us(own + servers),
        server_cpu_us_per_start: each_us(servers),
        describe_p50_ms: load.describes.percentile_ms(0.5),
        describe_p99_ms: load.describes.percentile_ms(0.99),
        history_p50_ms: load.histories.percentile_ms(0.5),
        history_p99_ms: load.histories.percentile_ms(0.99),
        floor_per_s: floor,
        floor_ratio: per_s / floor,
    })
}

/// Creates the machine; returns the request that starts it.
async fn deploy(address: SocketAddr, door: Door) -> Result<Prepared> {
    let mut client = Client::connect(address).await?;
    let role = "arn:aws:iam::123456789012:role/bench";
    let body = object! { "name" => "bench-aws", "definition" => PASS, "roleArn" => role };
    let answer = client.ask(&Prepared::new(address, "CreateStateMachine", &body.to_string())).await?;
    let made = parse(answer).ok().context("the server's answer is no JSON")?;
    let arn = made.get("stateMachineArn").and_then(Value::as_str).context("the machine has no ARN")?;
    Ok(match door {
        Door::Aws => {
            let body = object! { "stateMachineArn" => arn, "input" => "{\"amount\": 1}" };
            Prepared::new(address, "StartExecution", &body.to_string())
        }
        Door::V1 => {
            let body = r#"{"machine":"bench-aws","input":{"amount": 1}}"#;
            Prepared::keyed(address, "/v1/executions", body)
        }
    })
}

#[derive(Clone)]
struct Plan {
    address: SocketAddr,
    start: Rc<Prepared>,
    concurrency: usize,
    lasts: Duration,
    rate: Option<f64>,
}

async fn run(plan: Plan) -> Result<Load> {
    let mut clients = Vec::with_capacity(plan.concurrency);
    for _ in 0..plan.concurrency {
        clients.push(Client::connect(plan.address).await?);
    }
    let probe = Client::connect(plan.address).await?;
    // The newest execution whose start was answered.
    let newest = Rc::new(RefCell::new(String::new()));
    let began = Instant::now();
    let starters: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(at, client)| tokio::task::spawn_local(starts(client, plan.clone(), at, began, newest.clone())))
        .collect();
    let probing = tokio::task::spawn_local(probes(probe, plan, began, newest));
    let mut load = Load::default();
    for starter in starters {
        load.starts.0.extend(starter.await.context("a client panicked")??);
    }
    load.lasted = began.elapsed();
    (load.describes, load.histories) = probing.await.context("the client that asks panicked")??;
    Ok(load)
}

async fn starts(
    mut client: Client,
    plan: Plan,
    at: usize,
    began: Instant,
    newest: Rc<RefCell<String>>,
) -> Result<Vec<Duration>> {
    let mut durations = Vec::new();
    let pause = plan.rate.map(|rate| Duration::from_secs_f64(plan.concurrency as f64 / rate));
    let mut next = began + pause.unwrap_or_default().mul_f64(at as f64 / plan.concurrency as f64);
    while began.elapsed() < plan.lasts {
        if let Some(pause) = pause {
            tokio::time::sleep_until(next.into()).await;
            next += pause;
        }
        let from = Instant::now();
        let answer = client.ask(&plan.start).await?;
        durations.push(from.elapsed());
        if at == 0 {
            answer.clone_into(&mut newest.borrow_mut());
        }
    }
    Ok(durations)
}

/// Measures how long it takes to read the status and the history of an execution.
async fn probes(
    mut client: Client,
    plan: Plan,
    began: Instant,
    newest: Rc<RefCell<String>>,
) -> Result<(Durations, Durations)> {
    let (mut describes, mut histories) = (Durations::default(), Durations::default());
    let mut asked = 0;
    while began.elapsed() < plan.lasts {
        tokio::time::sleep(PROBE_EVERY).await;
        let started = parse(&newest.borrow()).ok();
        let arn = |started: &Value| {
            started
                .get("executionArn")
                .or_else(|| started.get("arn"))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let Some(arn) = started.as_ref().and_then(arn) else { continue };
        asked += 1;
        let body = object! { "executionArn" => arn.as_str() }.to_string();
        let is_history = asked % HISTORY_OF == 0;
        let action = if is_history { "GetExecutionHistory" } else { "DescribeExecution" };
        let question = Prepared::new(plan.address, action, &body);
        let from = Instant::now();
        let answer = client.ask(&question).await?;
        let took = from.elapsed();
        if !is_history {
            describes.0.push(took);
            continue;
        }
        histories.0.push(took);
        // The Turn that starts the execution also ends it.
        if !["ExecutionStarted", "PassStateExited", "ExecutionSucceeded"]
            .iter()
            .all(|kind| answer.contains(kind))
        {
            bail!("the history of {arn} is not whole: {answer}");
        }
    }
    Ok((describes, histories))
}
