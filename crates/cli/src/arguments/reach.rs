//! Who answers a command: a data directory, a perdura server, or one with the Step Functions API.

use crate::data::{Data, Whom};
use crate::settings;
use anyhow::Result;
use clap::{Args, ValueHint};
use perdura_tasks::settings::endpoint_url;
use std::path::{Path, PathBuf};
use url::Url;

/// A perdura server elsewhere.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArguments {
    /// A perdura server in the place of a data directory.
    #[arg(long, value_name = "URL", conflicts_with = "data", value_hint = ValueHint::Url, value_parser = endpoint_url)]
    pub(crate) server: Option<Url>,
    /// The file with the token for that server.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
}

impl ServerArguments {
    /// The server that a flag or the environment names, or whoever has the data.
    pub(super) fn whom(&self, data: Option<&Path>) -> Result<Whom> {
        match settings::server(self.server.as_ref(), self.token_file.as_deref(), data.is_some())? {
            Some(address) => Ok(Whom::Server(address)),
            None => Ok(Whom::Folder(settings::data_folder(data)?)),
        }
    }
}

/// Where executions are, and how answers are printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReachArguments {
    /// The data directory [default: ./perdura-data].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// A server with the Step Functions API in the place of a data directory: perdura's, or AWS's own.
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "server"], value_hint = ValueHint::Url)]
    #[arg(value_parser = endpoint_url)]
    pub(crate) endpoint: Option<Url>,
    /// The region of that server [default: the one in its address, AWS_REGION, AWS_DEFAULT_REGION, us-east-1].
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// Print JSON, one document on a line, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

impl ReachArguments {
    /// Whoever answers: the server that a flag or the environment names, or whoever has the data.
    pub(crate) fn reach(&self) -> Result<Data> {
        let is_named = self.data.is_some() || self.server.server.is_some();
        match settings::endpoint(self.endpoint.as_ref(), is_named)? {
            Some(url) => Data::at(url, self.region.as_deref()),
            None => Data::of(&self.server.whom(self.data.as_deref())?),
        }
    }
}
