//! The flags that are settings too: what they leave open is decided by environment, file and default.

use super::CallArguments;
use crate::settings::{self, Flags};
use clap::{Args, ValueHint};

/// What a server can be told, by flag.
#[derive(Clone, Debug, Args)]
pub(crate) struct SettingArguments {
    /// Where to listen; others than this machine's addresses need access keys [default: 127.0.0.1:8083].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// The data directory; it is made if it is not there [default: ./perdura-data].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    pub(crate) calls: CallArguments,
    /// The account in all ARNs [default: 123456789012].
    #[arg(long, value_name = "DIGITS")]
    pub(crate) account: Option<String>,
    /// The region in all ARNs and signatures [default: us-east-1].
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// The file with the access keys that clients sign with: an id and a secret on each line.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) access_key_file: Option<String>,
    /// Hold to AWS's limits and rules.
    #[arg(long)]
    pub(crate) strict: bool,
    /// How long calls under way are waited for at the end [default: 10s].
    #[arg(long, value_name = "TIME")]
    pub(crate) grace: Option<String>,
    /// What is logged to stderr: error, warn, info, debug, trace, also by room [default: info].
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// How it is logged [default: text].
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub(crate) log_format: Option<String>,
    /// The file with the key that connections are sealed with.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) connection_key_file: Option<String>,
}

impl SettingArguments {
    /// What was given.
    pub(crate) fn flags(&self) -> Flags {
        let Self {
            listen,
            data,
            calls,
            account,
            region,
            access_key_file,
            strict,
            grace,
            log,
            log_format,
            connection_key_file,
        } = self;
        let all = [
            (&settings::LISTEN, listen),
            (&settings::DATA, data),
            (&settings::ACCOUNT, account),
            (&settings::REGION, region),
            (&settings::ACCESS_KEY_FILE, access_key_file),
            (&settings::GRACE, grace),
            (&settings::LOG, log),
            (&settings::LOG_FORMAT, log_format),
            (&settings::CONNECTION_KEY_FILE, connection_key_file),
        ];
        let given = all.into_iter().filter_map(|(setting, value)| Some((setting, value.clone()?)));
        let strict = strict.then(|| (&settings::STRICT, "true".to_owned()));
        given.chain(strict).chain(calls.flags()).collect()
    }
}

impl ConfigArguments {
    /// What was given.
    pub(crate) fn flags(&self) -> Flags {
        let all = [
            (&settings::ENDPOINT, &self.endpoint),
            (&settings::SERVER, &self.server),
            (&settings::TOKEN_FILE, &self.token_file),
        ];
        let given = all.into_iter().filter_map(|(setting, value)| Some((setting, value.clone()?)));
        self.settings.flags().into_iter().chain(given).collect()
    }
}

/// Show every setting, its value, and where the value came from.
///
/// A flag counts before a variable of the environment, a variable before perdura.toml, and that before the default. What
/// is secret is not shown. The flags are those of `perdura serve`, to see what they would change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perdura config
  perdura config --config /etc/perdura.toml --listen 127.0.0.1:9000
  perdura config --json | jq -r '.[] | select(.name == \"data\").value'

Exit codes:
  0  shown
  2  the command line, a variable or the configuration file is wrong")]
pub(crate) struct ConfigArguments {
    #[command(flatten)]
    pub(crate) settings: SettingArguments,
    /// Who answers commands in the place of a data directory.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) endpoint: Option<String>,
    /// A perdura server that answers commands in the place of a data directory.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) server: Option<String>,
    /// The file with the token for that server.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<String>,
    /// Print a list of JSON objects on one line.
    #[arg(long)]
    pub(crate) json: bool,
}
