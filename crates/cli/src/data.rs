//! The data directory, reached as it can be: through the server that holds it, or by opening it.

use anyhow::{Context, Result, bail};
use perdura_server::control::{Answer, Connection, Request, connect};
use perdura_server::data::{Beside, Deposit};
use perdura_server::{Refusal, handle};
use perdura_store::{SqliteOptions, SqliteReader, SqliteStore};
use std::path::{Path, PathBuf};

/// Who answers.
pub(crate) struct Data {
    folder: PathBuf,
    way: Way,
}

/// How the data is reached. A command that only looks does not hold it.
enum Way {
    Server(Connection),
    Nobody,
    Looking(Box<Beside>),
    Holding(Box<Deposit>),
}

impl Data {
    /// Whoever has the data in this folder.
    pub(crate) fn reach(folder: &Path) -> Result<Self> {
        let line = server(folder)?;
        let way = line.map_or(Way::Nobody, Way::Server);
        Ok(Self { folder: folder.to_owned(), way })
    }

    /// Whether a server answers, so that executions move on.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self.way, Way::Server(_))
    }

    /// Asks something that only looks. A server that has gone away meanwhile is looked for again, and where there is
    /// none any more the data itself is read.
    pub(crate) fn look(&mut self, request: &Request) -> Result<Answer> {
        match self.ask(request.clone()) {
            Err(error) if error.downcast_ref::<Refusal>().is_none() => {
                *self = Self::reach(&self.folder)?;
                self.ask(request.clone())
            }
            told => told,
        }
    }

    /// Asks. What is refused is an error.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer> {
        loop {
            match &mut self.way {
                Way::Server(line) => {
                    let answer = line.ask(&request);
                    return Ok(answer.context("the server that holds the data does not answer")??);
                }
                Way::Looking(data) if request.only_reads() => return Ok(handle(&mut **data, request)?),
                Way::Holding(data) => return Ok(handle(&mut **data, request)?),
                Way::Nobody | Way::Looking(_) => self.way = self.open(&request)?,
            }
        }
    }

    fn open(&self, request: &Request) -> Result<Way> {
        if request.only_reads() {
            let reader = SqliteReader::open(&self.folder).map_err(Refusal::from)?;
            return Ok(Way::Looking(Box::new(Beside::new(Box::new(reader)))));
        }
        let may_begin = matches!(request, Request::Deploy { .. } | Request::PutConnection { .. });
        if !may_begin && !self.folder.exists() {
            bail!(
                "there is no data in {}: name the data directory with --data, or begin with `perdura deploy`",
                self.folder.display()
            );
        }
        let store = SqliteStore::open(&self.folder, SqliteOptions::default()).map_err(Refusal::from)?;
        let deposit = Deposit::new(Box::new(store)).map_err(Refusal::from)?;
        Ok(Way::Holding(Box::new(deposit)))
    }
}

/// A line to the server that holds the data, if there is one.
pub(crate) fn server(folder: &Path) -> Result<Option<Connection>> {
    connect(folder).with_context(|| format!("the server of {} cannot be reached", folder.display()))
}
