//! What the command line and the environment say.

use crate::plug::Plug;
use crate::sign_in::Callers;
use perdura_idempotency::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
payments [--store memory|sqlite:FILE|postgres:URL|redis:URL] [--ledger FILE] [--listen ADDRESS]
         [--lease-ms N] [--work-ms N] [--sweep-ms N] [--halt-at POINT[=kill|stop]]

PAYMENTS_SECRET    at least 32 bytes under which keys are hashed, the same for all instances on one store
PAYMENTS_API_KEYS  who may call: NAME=KEY, with commas between";

/// Where operations are remembered.
pub(crate) enum Choice {
    Memory,
    Sqlite(PathBuf),
    Postgres(String),
    Redis(String),
}

pub(crate) struct Options {
    pub(crate) store: Choice,
    pub(crate) ledger: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) lease_for: Duration,
    /// How long the deed itself takes.
    pub(crate) work_for: Duration,
    pub(crate) sweep_every: Duration,
    pub(crate) plug: Plug,
    pub(crate) secret: Secret,
    pub(crate) callers: Callers,
}

impl Options {
    pub(crate) fn read() -> Result<Self, String> {
        let secret = environment("PAYMENTS_SECRET")?;
        let mut options = Self {
            store: Choice::Memory,
            ledger: PathBuf::from("payments.jsonl"),
            listen: SocketAddr::from(([127, 0, 0, 1], 8086)),
            lease_for: Duration::from_secs(30),
            work_for: Duration::ZERO,
            sweep_every: Duration::from_mins(1),
            plug: Plug::default(),
            secret: Secret::new(secret.into_bytes()).map_err(|error| format!("PAYMENTS_SECRET: {error}"))?,
            callers: Callers::parse(&environment("PAYMENTS_API_KEYS")?)?,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
            match name.as_str() {
                "--store" => options.store = Choice::parse(&value)?,
                "--ledger" => options.ledger = value.into(),
                "--listen" => options.listen = value.parse().map_err(|error| format!("{value}: {error}"))?,
                "--lease-ms" => options.lease_for = milliseconds(&value)?,
                "--work-ms" => options.work_for = milliseconds(&value)?,
                "--sweep-ms" => options.sweep_every = milliseconds(&value)?,
                "--halt-at" => options.plug = Plug::parse(&value)?,
                other => return Err(format!("{other} is not known\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

impl Choice {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            Some(("sqlite", path)) => Ok(Self::Sqlite(path.into())),
            Some(("postgres", _)) => Ok(Self::Postgres(text.to_owned())),
            Some(("redis" | "redis+unix", _)) => Ok(Self::Redis(text.to_owned())),
            _ => Err(format!("{text} is no store\n{USAGE}")),
        }
    }
}

fn environment(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set\n{USAGE}"))
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_millis).map_err(|error| format!("{text}: {error}"))
}
