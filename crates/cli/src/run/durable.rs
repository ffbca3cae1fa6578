//! `perdura run --data`: the same run, on disk, so that a process that is killed is followed by one that goes on.

use super::driver::ExecutionNo;
use super::mine::Mine;
use super::progress::Progress;
use super::{Ending, Manner, input, machine, report};
use crate::REFUSED;
use crate::arguments::RunArguments;
use crate::data;
use crate::definition::Definition;
use crate::document;
use crate::run::config::Config;
use crate::serve::{connections, listen_for_signals, opener, signalled, threads};
use crate::settings::Settings;
use crate::terminal;
use anyhow::{Context, Result, bail};
use perdura_asl::source::Format;
use perdura_engine::{Arns, ExecutionId, Limits, Timestamp};
use perdura_runtime::{Door, Options, RealClock, RealWorld, Runtime, Start, StartError, Steps, Via};
use perdura_server::fold::{PAGE_BYTES, fold};
use perdura_server::{Refusal, names};
use perdura_store::record::TurnBody;
use perdura_store::{NewMachine, Registry, Store};
use perdura_tasks::connection::Connections;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How often is looked for what has happened.
const EVERY: Duration = Duration::from_millis(100);
/// The exit code of an execution that was left to be gone on with.
const LEFT: u8 = 4;

/// Runs a machine durably, or goes on with it, and gives the exit code of its status.
pub(super) fn run(arguments: &RunArguments, folder: &Path) -> Result<ExitCode> {
    if arguments.file == Path::new("-") {
        bail!("a definition from stdin cannot be kept: give it as a file");
    }
    let Some(machine) = machine(arguments)? else { return Ok(ExitCode::from(REFUSED)) };
    let limits =
        if arguments.reading.strict { Limits::strict(machine.machine_type) } else { Limits::GENEROUS };
    let input = input::read(&arguments.input, limits.payload_bytes_max)?;
    let config = Config::find(&arguments.calls, &arguments.file)?;
    if data::server(folder)?.is_some() {
        bail!(
            "a server holds {}: use `perdura deploy` and `perdura start`, and it runs there",
            folder.display()
        );
    }
    let signals = listen_for_signals()?;
    let tokio = threads()?;
    let store = data::open_store(folder).map_err(Refusal::from)?;
    let connections = Arc::<Connections>::default();
    let key = Settings::load(arguments.calls.flags(), Some(&arguments.file))?.sealing_key()?;
    let kept = store.reader().and_then(|mut reader| reader.registered(Registry::Connection, None, u32::MAX));
    connections::open(key.as_ref(), &connections, kept.map_err(Refusal::from)?);
    let tasks = config.tasks(arguments.reading.strict, connections, tokio.handle().clone())?;
    let mine = Mine::new(tasks.clone(), tokio.handle().clone());
    let world = RealWorld::new(Steps::default(), Box::new(mine.clone()), tokio.handle().clone());
    let runtime =
        Runtime::open(opener(folder, store), Arc::new(world), &Options::default()).map_err(Refusal::from)?;
    let door = runtime.door().clone();
    let new = NewMachine {
        name: input::machine_name(&arguments.file).into(),
        kind: machine.machine_type,
        definition: definition(arguments)?,
        role_arn: None,
        settings: None,
        at: RealClock::default().moment().now,
    };
    let record = door.deploy(&new, machine).map_err(Refusal::from)?;
    let start = Start {
        revision: record.revision,
        name: arguments.name.as_deref().map(Arc::from),
        input: input.clone(),
        limits,
        shares_name: false,
        arns: Arns::default(),
        via: Via::default(),
    };
    let ended = tokio.block_on(async {
        let id = begin(&door, start).await?;
        mine.choose(id, &door);
        let mut watching = Watching::new(door.clone(), id, arguments.quiet);
        tokio::select! {
            biased;
            () = signalled(signals) => {
                watching.finish();
                Ok(None)
            }
            ended = watching.until_the_end() => ended.map(|ended| Some((id, ended))),
        }
    });
    // What others have under way in this data stays as it is on record.
    tasks.end_all();
    runtime.close(Duration::ZERO);
    mine.forget();
    tokio.shutdown_timeout(EVERY);
    if let Some((id, ending)) = ended? {
        let manner = Manner { quiet: arguments.quiet, json: arguments.json };
        return report(id, &ending, manner);
    }
    terminal::tell(if arguments.name.is_some() {
        "left where it is; the same command goes on with it"
    } else {
        "left where it is; `perdura serve` on this data goes on with it"
    });
    Ok(ExitCode::from(LEFT))
}

/// The definition as it is kept: in JSON.
fn definition(arguments: &RunArguments) -> Result<Arc<str>> {
    let source = Definition::open(&arguments.file, arguments.reading)?.source;
    Ok(match source.format() {
        Format::Json => source.text,
        Format::Yaml => document::payload(&source)?.text().clone(),
    })
}

/// Starts it, or finds the one that has its name and its input.
async fn begin(door: &Door, start: Start) -> Result<ExecutionId> {
    if let Some(name) = &start.name {
        names::check("an execution", name)
            .map_err(|refusal| anyhow::anyhow!("--name is wrong: {refusal}"))?;
    }
    let (name, input) = (start.name.clone(), start.input.clone());
    match door.start(start).await {
        Ok(started) => Ok(started.execution),
        Err(StartError::Exists(id)) => {
            let found = door.read(|reader| Ok(fold(reader, id))).map_err(Refusal::from)??;
            let is_same = found.is_some_and(|found| found.execution.identity().input.text() == input.text());
            if is_same {
                return Ok(id);
            }
            bail!(
                "an execution named {} has another input: choose another --name, or see `perdura show {id}`",
                name.as_deref().unwrap_or_default()
            )
        }
        Err(error) => Err(Refusal::from(error).into()),
    }
}

/// Follows one execution by what is on record of it.
struct Watching {
    door: Door,
    id: ExecutionId,
    progress: Progress,
    clock: RealClock,
    next_turn: u64,
}

impl Watching {
    fn new(door: Door, id: ExecutionId, quiet: bool) -> Self {
        let clock = RealClock::default();
        let progress = Progress::new(quiet, clock.moment().now);
        Self { door, id, progress, clock, next_turn: 1 }
    }

    async fn until_the_end(&mut self) -> Result<Ending> {
        let door = self.door.clone();
        let id = self.id;
        let mut ending = std::pin::pin!(door.ending(id));
        let mut ticks = tokio::time::interval(EVERY);
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut ending => break ended,
                _ = ticks.tick() => self.look()?,
            }
        };
        self.look()?;
        self.finish();
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                return Err(Refusal::from(error)).context("the execution cannot go on");
            }
        };
        Ok(Ending {
            status: ended.status,
            output: ended.output,
            fault: ended.fault,
            took_ms: ended.ended_at.0.saturating_sub(ended.started_at.0),
            skipped_ms: 0,
        })
    }

    /// What has come since the last look.
    fn look(&mut self) -> Result<()> {
        loop {
            let page = self.door.read(|reader| reader.turns(self.id, self.next_turn, PAGE_BYTES));
            let page = page.map_err(Refusal::from)?;
            if page.is_empty() {
                break;
            }
            for turn in page {
                self.next_turn = turn.number + 1;
                let body = TurnBody::read(&turn.body).context("what is on record cannot be read")?;
                let at = body.turn.events().next().map_or_else(|| self.now(), |event| event.at);
                self.progress.tell(ExecutionNo::TOP, &body.turn, at);
            }
        }
        self.progress.draw(self.now());
        Ok(())
    }

    fn finish(&mut self) {
        self.progress.finish(self.now());
    }

    fn now(&self) -> Timestamp {
        self.clock.moment().now
    }
}
