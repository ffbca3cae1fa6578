//! `perdura serve`: holds the data, runs executions, and answers commands, until a signal ends it.

pub(crate) mod connections;
mod execution_logs;
pub(crate) mod files;
mod house;
pub(crate) mod logs;
pub(crate) mod requests;
mod traces;

use crate::arguments::ServeArguments;
use crate::data::{open_store, open_store_soon};
use crate::definition::plural;
use crate::run::config::Config;
use crate::settings::Settings;
use crate::{duration, table, terminal};
use anyhow::{Context, Result, bail};
use perdura_runtime::{Bounds, Opener, Options, RealClock, RealWorld, Runtime, Steps};
use perdura_server::control::Listener;
use perdura_server::data::{Doubts, Served};
use perdura_server::http::{self, Health, Keyring, Site};
use perdura_server::sfn::{Api, Setup, Tester, Trying};
use perdura_server::telemetry::Exporter;
use perdura_server::v1::V1;
use perdura_server::who::token::Known;
use perdura_server::{Refusal, retention, stuck, who};
use perdura_store::{Catalog, Failure, Registry, SqliteStore, Store};
use perdura_tasks::Tasks;
use perdura_tasks::aws::{OwnApi, OwnRefusal, OwnRequest};
use perdura_tasks::connection::Connections;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The exit code of a program that was interrupted twice.
const INTERRUPTED: i32 = 130;
/// How long the last traces may take at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The limit for the remaining work of our threads after closing.
const REST: Duration = Duration::from_millis(500);

/// Serves until a signal comes.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<ExitCode> {
    let settings = Settings::load(arguments.settings.flags(), None)?;
    logs::start(&settings.log(), settings.log_format()?)?;
    let (folder, address, grace, keep) =
        (settings.data(), settings.listen()?, settings.grace()?, settings.keep()?);
    let config = Config::of(&settings)?;
    let (arns, quotas, strict) = (settings.arns()?, settings.quotas()?, settings.strict()?);
    let keyring = Keyring { keys: settings.access_keys()?, region: arns.region.clone() };
    let (hosts, reveals_secrets, tls) = (settings.hosts()?, settings.reveals_secrets()?, settings.tls()?);
    let sealing_key = settings.sealing_key()?;
    let (ended, mut exporter) = match settings.telemetry()? {
        Some(telemetry) => {
            traces::exporter(&telemetry).map(|(ended, exporter)| (Some(ended), Some(exporter)))?
        }
        None => (None, None),
    };
    let signals = listen_for_signals()?;
    let files = files::raise();
    let tokio = threads()?;
    let began = Instant::now();
    // Lock the data before binding the port: a second server then learns who holds the data.
    let store = open_store_soon(&folder).map_err(Refusal::from)?;
    let tokens = Arc::<Known>::default();
    let kept = store.reader().and_then(|mut reader| reader.registered(Registry::Token, None, u32::MAX));
    tokens.replace(kept.map_err(Refusal::from)?);
    let asks = keyring.asks() || tokens.get().has_live(RealClock::default().moment().now);
    let proxies = settings.trusted_proxies()?;
    if !proxies.are_none() && !asks {
        bail!(
            "others can ask through a proxy, and nobody would be asked who they are. Set access keys \
             (serve.access_key_file), make a token (perdura token create), or leave serve.trusted_proxies out"
        );
    }
    let listener = tokio
        .block_on(async { http::bind(address, asks) })
        .with_context(|| format!("cannot listen on {address}"))?;
    let connections = Arc::<Connections>::default();
    let tasks = config.tasks(strict, connections.clone(), tokio.handle().clone())?;
    let mut world = RealWorld::new(Steps::default(), Box::new(tasks.clone()), tokio.handle().clone());
    let spans = ended.as_ref().map(|ended| ended.counts().clone()).unwrap_or_default();
    let (to_log, mut log_writer) = execution_logs::writer(&tasks, settings.execution_logs()).unzip();
    if ended.is_some() || to_log.is_some() {
        world = world.telling(move |execution, _| {
            if let Some(ended) = &ended {
                ended.tell(execution);
            }
            if let Some(to_log) = &to_log {
                to_log.tell(execution);
            }
        });
    }
    // Calls that were under way are repeated as soon as the runtime is open, and may need them.
    let kept = store.reader().and_then(|mut reader| reader.registered(Registry::Connection, None, u32::MAX));
    connections::open(sealing_key.as_ref(), &connections, kept.map_err(Refusal::from)?);
    let installation = store.reader().and_then(|mut reader| reader.secret()).map_err(Refusal::from)?;
    let requests = requests::open(&folder, &installation)?;
    let (tell_of_api, api_told) = watch::channel(None);
    answer_own_calls(&tasks, api_told);
    let bounds = Bounds { executions_max: quotas.executions, bytes_max: settings.memory()? };
    let options = Options { bounds, audits_reads: settings.audits_reads()?, ..Options::default() };
    let runtime = Runtime::open(opener(&folder, store), Arc::new(world), &options).map_err(Refusal::from)?;
    let door = runtime.door().clone();
    let keys = config.keys.clone();
    let doubts: Doubts = Arc::new(move |machine| perdura_tasks::warnings(&config.settings, machine));
    let tester: Tester = {
        let tasks = tasks.clone();
        Arc::new(move |trying: Trying| {
            let tasks = tasks.clone();
            Box::pin(async move { tasks.tried(trying.execution, &trying.call, trying.reveals).await })
        })
    };
    let setup = Setup {
        door: door.clone(),
        arns: arns.clone(),
        is_strict: strict,
        quotas,
        keys,
        doubts: Some(doubts.clone()),
        tester: Some(tester),
        reveals_secrets,
    };
    let api = Api::new(setup).map_err(Refusal::from)?;
    tell_of_api.send_replace(Some(api.clone()));
    let served = Served::new(door.clone(), tokio.handle().clone())
        .with_arns(arns)
        .with_quotas(quotas)
        .with_doubts(doubts)
        .with_house(house::house(&settings, &folder))
        .telling(connections::reopen(door.clone(), sealing_key, connections, tokens.clone()));
    let v1 = tokio.block_on(V1::new(served.clone(), api.clone(), requests));
    let v1 = v1.context("requests cannot be remembered")?;
    tokio.block_on(async {
        let control = Listener::open(&folder).with_context(|| {
            format!("cannot open the control socket in {}; is the path too long?", folder.display())
        })?;
        let watch = Arc::new(stuck::Watch::default());
        let address = listener.local_addr()?;
        let health = Health { door: door.clone(), watch: watch.clone(), spans, put_off: tasks.put_off() };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (taken_up, took) = (runtime.taken_up(), began.elapsed());
        let ready = Ready { folder: &folder, scheme, address, taken_up, took };
        let keys = Arc::new(keyring);
        let site = Site {
            api: api.clone(),
            v1: v1.clone(),
            keys,
            tokens: tokens.clone(),
            health,
            hosts,
            proxies,
            files,
            tls,
        };
        ready.tell(arguments.json)?;
        tokio::spawn(go_on_deleting(api.clone()));
        tokio::select! {
            biased;
            () = signalled(signals) => Ok(()),
            ended = http::serve(listener, site) => ended.context("the HTTP side ended"),
            () = control.serve(v1.clone()) => Ok(()),
            () = stuck::watch(served.clone(), watch) => Ok(()),
            () = retention::sweep(served.clone(), keep) => Ok(()),
            () = who::keep_uses(served.clone(), tokens.clone()) => Ok(()),
            () = export(exporter.as_mut(), &served) => Ok(()),
            () = log(log_writer.as_mut(), &api) => Ok(()),
        }
    })?;
    tracing::info!(grace = %duration::say(retention::ms(grace)), "shuts down; a second signal ends it at once");
    runtime.close(grace);
    if tokio.block_on(async { tokio::time::timeout(LAST_WORDS, v1.drain()).await }).is_err() {
        tracing::warn!("the ends of some requests were not recorded in time; their keys find them again");
    }
    if let Some(mut writer) = log_writer {
        let drained = tokio.block_on(async { tokio::time::timeout(LAST_WORDS, writer.drain(&api)).await });
        if drained.is_err() {
            tracing::warn!("the last logs of executions were not taken in time");
        }
    }
    tasks.end_all();
    if let Some(mut exporter) = exporter {
        let drained =
            tokio.block_on(async { tokio::time::timeout(LAST_WORDS, exporter.drain(&served)).await });
        if drained.is_err() {
            tracing::warn!("the collector did not take the last traces in time");
        }
    }
    tokio.shutdown_timeout(REST);
    tracing::info!("closed");
    Ok(ExitCode::SUCCESS)
}

/// Steps that call Step Functions without an address mean this server. Calls of the last process are repeated before
/// there is an API; they wait until there is one.
fn answer_own_calls(tasks: &Tasks, told: watch::Receiver<Option<Api>>) {
    let answer: OwnApi = Arc::new(move |request: OwnRequest| {
        let mut told = told.clone();
        Box::pin(async move {
            let Some(api) = told.wait_for(Option::is_some).await.ok().and_then(|api| api.clone()) else {
                // Only a server that could not be opened ends without an API; nothing waits for this then.
                return std::future::pending().await;
            };
            let answer = api.call_under(request.key.wire(), &request.action, request.input.value()).await;
            answer.map(Into::into).map_err(|error| OwnRefusal {
                name: error.code.name().to_owned(),
                message: error.message,
                status: error.code.status(),
            })
        })
    });
    // No other API can be set: the tasks are this server's own.
    let _ = tasks.answer_with(answer);
}

/// Continues deleting machines that the last process was deleting.
async fn go_on_deleting(api: Api) {
    if let Err(error) = api.go_on_deleting().await {
        tracing::warn!(%error, "state machines are still being deleted");
    }
}

/// Sends traces of ended executions, if that is configured.
async fn export(exporter: Option<&mut Exporter>, served: &Served) {
    match exporter {
        Some(exporter) => exporter.run(served).await,
        None => std::future::pending().await,
    }
}

/// Writes the logs of machines, if there is a place for them.
async fn log(writer: Option<&mut execution_logs::Writer>, api: &Api) {
    match writer {
        Some(writer) => writer.run(api).await,
        None => std::future::pending().await,
    }
}

/// Threads for waiting work.
pub(crate) fn threads() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")
}

/// Returns the open store first, and opens it again after it failed.
pub(crate) fn opener(folder: &Path, store: SqliteStore) -> Opener {
    let folder = folder.to_owned();
    let mut first = Some(store);
    Box::new(move || -> Result<Box<dyn Store>, Failure> {
        let store = match first.take() {
            Some(store) => store,
            None => open_store(&folder)?,
        };
        Ok(Box::new(store))
    })
}

/// The message of a server that is ready.
struct Ready<'a> {
    folder: &'a Path,
    scheme: &'static str,
    address: SocketAddr,
    taken_up: usize,
    took: Duration,
}

impl Ready<'_> {
    fn tell(&self, json: bool) -> Result<()> {
        let Self { folder, scheme, address, taken_up, took } = self;
        if json {
            return table::print_json(&serde_json::json!({
                "data": folder,
                "address": format!("{scheme}://{address}"),
                "executions": taken_up,
                "tookMs": retention::ms(*took),
            }));
        }
        let (count, took) = (plural(*taken_up, "execution"), duration::say(retention::ms(*took)));
        let data = folder.display();
        terminal::print(
            format!("perdura serves {data} on {scheme}://{address}: {count} taken up in {took}\n").as_bytes(),
        )
    }
}

/// A channel for signals. The second signal ends the process, if the first has not done it.
pub(crate) fn listen_for_signals() -> Result<watch::Receiver<bool>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
    let (sender, receiver) = watch::channel(false);
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for (count, _) in signals.forever().enumerate() {
                if count > 0 || sender.send(true).is_err() {
                    std::process::exit(INTERRUPTED);
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(receiver)
}

/// Waits for the first signal.
pub(crate) async fn signalled(mut signals: watch::Receiver<bool>) {
    // The sender is gone only with the process.
    let _ = signals.wait_for(|came| *came).await;
}
