//! Who answers a command: a data directory, or a server with the Step Functions API.

use crate::data::Data;
use crate::settings;
use anyhow::Result;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use url::Url;

/// Where executions are, and how answers are printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReachArguments {
    /// The data directory [default: ./perdura-data].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    /// A server with the Step Functions API in the place of a data directory: perdura's, or AWS's own.
    #[arg(long, value_name = "URL", conflicts_with = "data", value_hint = ValueHint::Url)]
    #[arg(value_parser = perdura_tasks::settings::endpoint_url)]
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
        match settings::endpoint(self.endpoint.as_ref(), self.data.is_some())? {
            Some(url) => Data::at(url, self.region.as_deref()),
            None => Data::reach(&settings::data_folder(self.data.as_deref())?),
        }
    }
}
