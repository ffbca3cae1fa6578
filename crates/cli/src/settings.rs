//! Settings: their names, and which of flag, environment, file and default counts.
//!
//! One table, [`TABLE`], has every setting with its flag, its variable, its place in `perdura.toml` and its default.
//! All uses (a server's start, a command that looks for its data, `perdura config`) share this resolution; a test
//! compares docs/configuration.md with it. Functions and destinations are not settings in this sense: those tables of
//! the file are read where they are used.

mod api;
mod file;
mod table;

pub(crate) use file::{File, check_names};
pub(crate) use table::{
    ACCESS_KEY_FILE, ACCOUNT, CONFIG, CONNECTION_KEY_FILE, DATA, ENDPOINT, EXECUTION_LOGS, GRACE, Kind,
    LAMBDA_ENDPOINT, LISTEN, LOG, LOG_FORMAT, REGION, SERVER, STRICT, Setting, TABLE, TOKEN_FILE,
};

use crate::arguments::LogFormat;
use crate::duration;
use crate::far::Address;
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use perdura_engine::Arns;
use perdura_server::SettingShown;
use perdura_server::http::Proxies;
use perdura_server::retention::Keep;
use perdura_server::sfn::Quotas;
use perdura_tasks::connection::SealingKey;
use perdura_tasks::settings::endpoint_url;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::{
    BACKUP_FOLDER, CONNECTION_KEY, MEMORY_BYTES, RETENTION_AUDIT, RETENTION_BYTES, RETENTION_ENDED,
    RETENTION_LEDGER, TELEMETRY_ENDPOINT, TELEMETRY_HEADERS, TELEMETRY_SERVICE, TRUSTED_PROXIES,
};
use url::Url;

/// The default name of the configuration file.
const FILE: &str = "perdura.toml";
/// The longest duration of a setting: a hundred years.
const SECONDS_MAX: f64 = 100.0 * 366.0 * 86_400.0;

/// The mask for a secret.
const MASK: &str = "********";

/// The values of flags.
pub(crate) type Flags = Vec<(&'static Setting, String)>;

/// Reads an environment variable.
type Environment = Box<dyn Fn(&str) -> Option<String>>;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Variable(&'static str),
    File { file: PathBuf, line: usize },
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => formatter.write_str(flag),
            Self::Variable(variable) => formatter.write_str(variable),
            Self::File { file, line } => write!(formatter, "{}:{line}", file.display()),
            Self::Default => formatter.write_str("default"),
        }
    }
}

/// A resolved setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) setting: &'static Setting,
    /// Absent: it is not set, and has no default.
    pub(crate) value: Option<String>,
    pub(crate) origin: Origin,
}

impl Decided {
    /// As people may see it.
    pub(crate) fn shown(&self) -> Option<&str> {
        match self.setting.kind {
            Kind::Text | Kind::Path => self.value.as_deref(),
            Kind::Secret => self.value.as_ref().map(|_| MASK),
        }
    }
}

/// The destination of traces.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Telemetry {
    pub(crate) endpoint: String,
    /// Secret: they often contain a password.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) service: String,
}

/// All settings of one command.
pub(crate) struct Settings {
    flags: Flags,
    environment: Environment,
    file: Option<File>,
}

impl Settings {
    /// The settings of a command with these flags in this process. `definition`: the file may be beside it.
    pub(crate) fn load(flags: Flags, definition: Option<&Path>) -> Result<Self> {
        let mut settings = Self { flags, environment: Box::new(environment), file: None };
        let named = settings.decide(&CONFIG).value.map(PathBuf::from);
        settings.file = match named.or_else(|| found(definition)) {
            Some(file) => Some(File::open(&file)?),
            None => None,
        };
        Ok(settings)
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Flag, then environment, then file, then default.
    pub(crate) fn decide(&self, setting: &'static Setting) -> Decided {
        let decided = |value, origin| Decided { setting, value, origin };
        if let Some(flag) = setting.flag
            && let Some((_, value)) = self.flags.iter().find(|(given, _)| given.name == setting.name)
        {
            return decided(Some(value.clone()), Origin::Flag(flag));
        }
        if let Some(value) = (self.environment)(setting.variable) {
            return decided(Some(value), Origin::Variable(setting.variable));
        }
        if let Some(file) = &self.file
            && let Some((value, line)) = file.get(setting)
        {
            return decided(Some(value), Origin::File { file: file.name.clone(), line });
        }
        decided(setting.default.map(str::to_owned), Origin::Default)
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.decide(&DATA).value.unwrap_or_default().into()
    }

    /// Where to listen.
    pub(crate) fn listen(&self) -> Result<SocketAddr> {
        self.parsed(&LISTEN, |text| text.parse().map_err(|_| anyhow!("an address is like 127.0.0.1:8083")))
    }

    /// How long calls under way are waited for at the end.
    pub(crate) fn grace(&self) -> Result<Duration> {
        self.parsed(&GRACE, |text| duration::parse(text).map_err(|error| anyhow!("{error}")))
    }

    /// The log level.
    pub(crate) fn log(&self) -> String {
        self.decide(&LOG).value.unwrap_or_default()
    }

    /// How it is logged.
    pub(crate) fn log_format(&self) -> Result<LogFormat> {
        self.parsed(&LOG_FORMAT, |text| LogFormat::from_str(text, true).map_err(|_| anyhow!("text or json")))
    }

    /// All of them, as people may see them.
    pub(crate) fn shown(&self) -> Vec<SettingShown> {
        let told = |setting: &&'static Setting| {
            let decided = self.decide(setting);
            SettingShown {
                name: setting.name.to_owned(),
                value: decided.shown().map(str::to_owned),
                from: decided.origin.to_string(),
                default: setting.default.map(str::to_owned),
                help: setting.help.to_owned(),
            }
        };
        TABLE.iter().map(told).collect()
    }

    /// Proxies that may say for whom they ask.
    pub(crate) fn trusted_proxies(&self) -> Result<Proxies> {
        self.parsed(&TRUSTED_PROXIES, |text| text.parse().map_err(|why: String| anyhow!(why)))
    }

    /// Where backups go that are asked for by `/v1`.
    pub(crate) fn backup_folder(&self) -> Option<PathBuf> {
        self.decide(&BACKUP_FOLDER).value.map(PathBuf::from)
    }

    /// The folder for logs of executions, if CloudWatch Logs has no address.
    pub(crate) fn execution_logs(&self) -> Option<PathBuf> {
        self.decide(&EXECUTION_LOGS).value.map(PathBuf::from)
    }

    /// The Lambda endpoint for functions without a configuration.
    pub(crate) fn lambda_endpoint(&self) -> Result<Option<Url>> {
        if self.decide(&LAMBDA_ENDPOINT).value.is_none() {
            return Ok(None);
        }
        self.parsed(&LAMBDA_ENDPOINT, |text| endpoint_url(text).map_err(|error| anyhow!("{error}"))).map(Some)
    }

    /// The server with the Step Functions API that answers commands.
    pub(crate) fn endpoint(&self) -> Result<Option<Url>> {
        if self.decide(&ENDPOINT).value.is_none() {
            return Ok(None);
        }
        self.parsed(&ENDPOINT, |text| endpoint_url(text).map_err(|error| anyhow!("{error}"))).map(Some)
    }

    /// The perdura server that answers commands.
    pub(crate) fn server(&self) -> Result<Option<Address>> {
        if self.decide(&SERVER).value.is_none() {
            return Ok(None);
        }
        let url = self.parsed(&SERVER, |text| endpoint_url(text).map_err(|error| anyhow!("{error}")))?;
        Address::new(url, self.decide(&TOKEN_FILE).value.map(PathBuf::from)).map(Some)
    }

    /// Whether AWS's limits and rules apply.
    pub(crate) fn strict(&self) -> Result<bool> {
        self.parsed(&STRICT, |text| text.parse().map_err(|_| anyhow!("true or false")))
    }

    /// The retention settings.
    pub(crate) fn keep(&self) -> Result<Keep> {
        let time = |setting, seconds| {
            self.parsed(setting, |text| {
                let count: f64 = text.parse().map_err(|_| anyhow!("a number"))?;
                let is_good = count >= 0.0 && count * seconds <= SECONDS_MAX;
                if is_good {
                    return Ok(Duration::from_secs_f64(count * seconds));
                }
                Err(anyhow!("at least 0, at most a hundred years"))
            })
        };
        let bytes_max = match self.decide(&RETENTION_BYTES).value {
            None => None,
            Some(_) => Some(self.parsed(&RETENTION_BYTES, |text| {
                text.parse().map_err(|_| anyhow!("a whole number of bytes"))
            })?),
        };
        Ok(Keep {
            ended_for: time(&RETENTION_ENDED, 86_400.0)?,
            ledger_for: time(&RETENTION_LEDGER, 3_600.0)?,
            bytes_max,
            audit_for: time(&RETENTION_AUDIT, 86_400.0)?,
        })
    }

    /// The limit for the weight of executions in memory, in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        match self.decide(&MEMORY_BYTES).value {
            None => Ok(crate::memory::share()),
            Some(_) => self
                .parsed(&MEMORY_BYTES, |text| text.parse().map_err(|_| anyhow!("a whole number of bytes"))),
        }
    }

    /// The key for connections; `None`: none is given. A file from a flag or a variable counts before the key in the
    /// environment, and that before a file from the configuration.
    pub(crate) fn sealing_key(&self) -> Result<Option<SealingKey>> {
        let file = self.decide(&CONNECTION_KEY_FILE);
        let key = self.decide(&CONNECTION_KEY).value;
        let read = match (file.value, file.origin, key) {
            (Some(file), Origin::Flag(_) | Origin::Variable(_), _) | (Some(file), _, None) => {
                SealingKey::from_file(Path::new(&file))
            }
            (_, _, Some(key)) => SealingKey::from_text(&key),
            (None, _, None) => return Ok(None),
        };
        Ok(Some(read?))
    }

    /// The destination of traces; `None`: none.
    pub(crate) fn telemetry(&self) -> Result<Option<Telemetry>> {
        let Some(endpoint) = self.decide(&TELEMETRY_ENDPOINT).value else { return Ok(None) };
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            bail!(
                "{} is {endpoint:?}, and is to be a URL like http://127.0.0.1:4318",
                self.decide(&TELEMETRY_ENDPOINT).origin
            );
        }
        let headers = match self.decide(&TELEMETRY_HEADERS) {
            Decided { value: Some(text), origin, .. } => {
                // The value is secret, so the message does not repeat it.
                headers(&text).with_context(|| format!("{origin} is wrong"))?
            }
            Decided { value: None, .. } => Vec::new(),
        };
        let service = self.decide(&TELEMETRY_SERVICE).value.unwrap_or_default();
        Ok(Some(Telemetry { endpoint: endpoint.trim_end_matches('/').to_owned(), headers, service }))
    }

    /// Refuses invalid values before they are used.
    pub(crate) fn check(&self) -> Result<()> {
        self.listen()?;
        self.grace()?;
        self.log_format()?;
        self.strict()?;
        self.keep()?;
        self.sealing_key()?;
        self.arns()?;
        self.quotas()?;
        self.memory()?;
        self.access_keys()?;
        self.hosts()?;
        self.trusted_proxies()?;
        self.reveals_secrets()?;
        self.audits_reads()?;
        self.lambda_endpoint()?;
        self.endpoint()?;
        self.telemetry().map(drop)
    }

    fn parsed<T>(&self, setting: &'static Setting, parse: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let Decided { value, origin, .. } = self.decide(setting);
        let text = value.unwrap_or_default();
        parse(&text).map_err(|wanted| anyhow!("{origin} is {text:?}, and is to be: {wanted}"))
    }
}

/// `name=value` pairs between commas, as OpenTelemetry writes them; values may be percent-encoded.
fn headers(text: &str) -> Result<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let headers = pairs.map(|pair| match pair.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), percent_decoded(value.trim())))
        }
        _ => bail!("headers are written as name=value, with commas between them"),
    });
    headers.collect()
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => (out.push(byte), at += 3).1,
            None => (out.push(bytes[at]), at += 1).1,
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The file in the default places: beside the definition, or in the current folder.
fn found(definition: Option<&Path>) -> Option<PathBuf> {
    let beside = definition.and_then(Path::parent).map(|folder| folder.join(FILE));
    beside.into_iter().chain([PathBuf::from(FILE)]).find(|file| file.is_file())
}

/// An empty variable counts as not set.
pub(crate) fn environment(variable: &str) -> Option<String> {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// The data directory of a command: the file is read only if neither flag nor variable is set.
pub(crate) fn data_folder(flag: Option<&Path>) -> Result<PathBuf> {
    match flag.map(Path::to_owned).or_else(|| environment(DATA.variable).map(PathBuf::from)) {
        Some(folder) => Ok(folder),
        None => Ok(Settings::load(Vec::new(), None)?.data()),
    }
}

/// The server that answers a command; `None`: its data directory. A directory on the command line counts before the
/// environment.
pub(crate) fn endpoint(flag: Option<&Url>, has_data: bool) -> Result<Option<Url>> {
    match flag {
        Some(url) => Ok(Some(url.clone())),
        None if has_data => Ok(None),
        None => Settings { flags: Vec::new(), environment: Box::new(environment), file: None }.endpoint(),
    }
}

/// The same for perdura's own API.
pub(crate) fn server(
    flag: Option<&Url>,
    token_file: Option<&Path>,
    has_data: bool,
) -> Result<Option<Address>> {
    if flag.is_none() && has_data {
        return Ok(None);
    }
    let server = flag.map(|url| (&SERVER, url.to_string()));
    let token_file = token_file.map(|file| (&TOKEN_FILE, file.display().to_string()));
    let flags = server.into_iter().chain(token_file).collect();
    Settings { flags, environment: Box::new(environment), file: None }.server()
}

/// Partition, region and account, for a command without a configuration file of its own.
pub(crate) fn arns() -> Result<Arns> {
    Settings::load(Vec::new(), None)?.arns()
}

/// The same with the quotas, for a command that holds the data.
pub(crate) fn arns_and_quotas() -> Result<(Arns, Quotas)> {
    let settings = Settings::load(Vec::new(), None)?;
    Ok((settings.arns()?, settings.quotas()?))
}

/// Whether AWS's limits apply to a command without a configuration file of its own.
pub(crate) fn strict(flag: bool) -> Result<bool> {
    if flag { Ok(true) } else { Settings::load(Vec::new(), None)?.strict() }
}

#[cfg(test)]
mod tests;
