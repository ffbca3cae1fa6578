//! Executions as fast as possible, from several concurrent callers; each waits for its own.

use super::measure::{Durations, cpu_time};
use anyhow::{Context, Result, anyhow};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{Policy, Status, Timestamp};
use perdura_runtime::{Door, Nowhere, Options, Performer, RealWorld, Runtime, Start, Steps, read_definition};
use perdura_store::{MachineRecord, NewMachine, RevisionId, SqliteStore, Store};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// The step of the measuring program.
pub(crate) const STEP: &str = "arn:perdura:step:::noop";

/// A machine with `count` calls of this resource, one after the other.
pub(crate) fn steps_in_a_row(count: usize, resource: &str) -> String {
    let states: Vec<String> = (1..=count)
        .map(|at| {
            let next =
                if at == count { "\"End\": true".into() } else { format!("\"Next\": \"Step{}\"", at + 1) };
            format!("\"Step{at}\": {{\"Type\": \"Task\", \"Resource\": \"{resource}\", {next}}}")
        })
        .collect();
    format!("{{\"StartAt\": \"Step1\", \"States\": {{{}}}}}", states.join(", "))
}

/// A runtime on a data directory, and the threads on which its steps run.
pub(crate) struct Stage {
    pub(crate) runtime: Runtime,
    pub(crate) tokio: tokio::runtime::Runtime,
}

impl Stage {
    pub(crate) fn open(data: &Path, steps: Steps) -> Result<Self> {
        Self::with(data, steps, |_| Ok(Box::new(Nowhere)))
    }

    /// The same, with a performer for tasks that are not steps of this program.
    pub(crate) fn with(
        data: &Path,
        steps: Steps,
        performer: impl FnOnce(&Handle) -> Result<Box<dyn Performer>>,
    ) -> Result<Self> {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let world = RealWorld::new(steps, performer(tokio.handle())?, tokio.handle().clone());
        let data = data.to_owned();
        let opener = Box::new(move || {
            SqliteStore::open(&data, perdura_store::SqliteOptions::default())
                .map(|store| Box::new(store) as Box<dyn Store>)
        });
        let runtime = Runtime::open(opener, Arc::new(world), &Options::default())?;
        Ok(Self { runtime, tokio })
    }

    pub(crate) fn deploy(&self, name: &str, definition: &str) -> Result<MachineRecord> {
        let new = NewMachine {
            name: name.into(),
            kind: MachineType::Standard,
            definition: definition.into(),
            role_arn: None,
            settings: None,
            at: Timestamp(0),
        };
        let draft = MachineRecord {
            machine: perdura_store::MachineId(0),
            revision: RevisionId(0),
            name: new.name.clone(),
            kind: new.kind,
            definition: new.definition.clone(),
            role_arn: None,
            settings: None,
            created_at: new.at,
        };
        let machine = read_definition(&draft).ok_or_else(|| anyhow!("the bench's own machine is wrong"))?;
        self.runtime.door().deploy(&new, Arc::new(machine)).context("cannot store the machine")
    }
}

/// Steps that do nothing.
pub(crate) fn noop() -> Steps {
    Steps::default().with("noop", Policy::default(), |call| async move { Ok(call.input) })
}

/// The result of a load.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) executions: u64,
    pub(crate) lasted: Duration,
    pub(crate) cpu: Duration,
    pub(crate) durations: Durations,
    /// Executions that ended in each second.
    pub(crate) by_second: Vec<u64>,
}

/// The load to run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) revision: RevisionId,
    pub(crate) concurrency: usize,
    pub(crate) lasts: Duration,
    /// Executions per second; `None`: as many as possible.
    pub(crate) rate: Option<f64>,
}

pub(crate) fn run(stage: &Stage, plan: &Plan) -> Result<Load> {
    let seconds = plan.lasts.as_secs() as usize + 2;
    let by_second: Arc<Vec<AtomicU64>> = Arc::new((0..seconds).map(|_| AtomicU64::new(0)).collect());
    let began = Instant::now();
    let cpu = cpu_time();
    let callers: Vec<_> = (0..plan.concurrency)
        .map(|at| {
            let caller = caller(stage.runtime.door().clone(), plan.clone(), at, began, by_second.clone());
            stage.tokio.spawn(caller)
        })
        .collect();
    let mut load = Load::default();
    for caller in callers {
        load.durations.0.extend(stage.tokio.block_on(caller).context("a caller panicked")??);
    }
    load.lasted = began.elapsed();
    load.cpu = cpu_time().saturating_sub(cpu);
    load.executions = load.durations.0.len() as u64;
    load.by_second = by_second.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    load.by_second.truncate(plan.lasts.as_secs() as usize);
    Ok(load)
}

async fn caller(
    door: Door,
    plan: Plan,
    at: usize,
    began: Instant,
    by_second: Arc<Vec<AtomicU64>>,
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
        let input = Payload::from_text("{\"amount\": 1}").context("the bench's own input is wrong")?;
        let start = Start::new(plan.revision, input);
        let ending = door.run(start).await?.1?;
        if ending.status != Status::Succeeded {
            return Err(anyhow!("an execution ended as {}: {:?}", ending.status.name(), ending.fault));
        }
        durations.push(from.elapsed());
        if let Some(count) = by_second.get(began.elapsed().as_secs() as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(durations)
}
