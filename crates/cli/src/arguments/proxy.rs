//! `perdura proxy`.

use super::LogFormat;
use crate::duration;
use crate::proxy::{Forwarded, Rule};
use clap::{Args, ValueEnum, ValueHint};
use http::HeaderName;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use url::Url;

/// Stand before a program that does not know the Idempotency-Key, and pass each request on once.
///
/// POST and PATCH need a key; --route says otherwise. A repeat gets the recorded answer. Where it is not known what the
/// program did, the caller is told OUTCOME_UNKNOWN, and nothing is sent again. All other requests and WebSockets
/// pass. The record survives a crash. SIGTERM or Ctrl-C ends the proxy after what is under way.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(after_help = "\
Examples:
  perdura proxy --upstream http://127.0.0.1:9000 --listen 127.0.0.1:8090
  perdura proxy --upstream https://pay.internal --listen 127.0.0.1:8090 --data /var/lib/perdura-proxy \\
    --admin 127.0.0.1:8091 --route 'POST /search=exempt' --route 'PUT /orders/{id}=required'
  perdura proxy --upstream http://127.0.0.1:9000 --listen 127.0.0.1:8090 --caller x-tenant
  perdura proxy --upstream http://127.0.0.1:9000 --listen 0.0.0.0:8090 --allow-remote --caller none

Exit codes:
  0    ended by a signal
  2    the command line is wrong, or the data or an address cannot be had
  130  ended by a second signal")]
pub(crate) struct ProxyArguments {
    /// The program that requests are passed on to; a path in it comes before theirs.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = upstream)]
    pub(crate) upstream: Url,
    /// Where to listen; other addresses than this machine's need --allow-remote.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Where to tell health (/healthz, /readyz), numbers (/metrics) and unknown outcomes (/unknown); not the same address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<SocketAddr>,
    /// Listen also where other machines can reach it.
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// The directory of the record; it is made if it is not there.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "./perdura-proxy")]
    pub(crate) data: PathBuf,
    /// Keep the record in memory: after a restart every key is new.
    #[arg(long, conflicts_with = "data")]
    pub(crate) memory: bool,
    /// What is asked of these requests: required, optional or exempt; the first that fits counts.
    #[arg(long, value_name = "METHOD PATH=MODE")]
    pub(crate) route: Vec<Rule>,
    /// The header that tells callers apart, or none: all callers are one. Each caller has keys of its own.
    #[arg(long, value_name = "HEADER", default_value = "authorization")]
    pub(crate) caller: Caller,
    /// When the outcome is unknown: hold it, or send it again under the same key, to a program that honours keys.
    #[arg(long, value_enum, default_value_t = Uncertain::Hold)]
    pub(crate) uncertain: Uncertain,
    /// Take keys that are no UUIDs, too.
    #[arg(long)]
    pub(crate) opaque_keys: bool,
    /// Record this header of answers, too.
    #[arg(long, value_name = "HEADER")]
    pub(crate) keep_header: Vec<HeaderName>,
    /// The largest request under the rule, which is held in memory.
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = bytes)]
    pub(crate) body_max: usize,
    /// The largest answer that is recorded; a larger one is given once.
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = bytes)]
    pub(crate) answer_max: usize,
    /// How long the program may take until its answer begins.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    pub(crate) first_byte: Duration,
    /// How long either side may be silent within a body or a WebSocket.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration::parse)]
    pub(crate) idle: Duration,
    /// How long a request under the rule may take in all.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration::parse)]
    pub(crate) whole: Duration,
    /// Pass the client's Host on, in place of the upstream's.
    #[arg(long)]
    pub(crate) keep_host: bool,
    /// What becomes of Forwarded and X-Forwarded headers.
    #[arg(long, value_enum, default_value_t = Forwarded::Replace)]
    pub(crate) forwarded: Forwarded,
    /// How long requests under way are waited for at the end.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(crate) grace: Duration,
    /// What is logged to stderr: error, warn, info, debug, trace.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: String,
    /// How it is logged.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Say in JSON that it is ready.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What follows when nobody knows whether a request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Uncertain {
    Hold,
    Retry,
}

/// How callers are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Header(HeaderName),
    /// All are one.
    None,
}

impl FromStr for Caller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            name => name.parse().map(Self::Header).map_err(|_| format!("`{name}` is no name of a header")),
        }
    }
}

fn upstream(text: &str) -> Result<Url, String> {
    let url = perdura_tasks::settings::endpoint_url(text)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("an upstream has neither ? nor #; requests bring their own".to_owned());
    }
    Ok(url)
}

/// `65536`, `64KiB`, `1MiB`.
fn bytes(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let number = number.trim().parse::<usize>().ok().filter(|number| *number > 0);
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("`{text}` is no size: write it like 65536, 64KiB or 8MiB"))
}
