//! The answerer of a command: the server that holds a data directory, the directory itself, or a server elsewhere.

use crate::far::{Address, Far};
use crate::remote::{Endpoint, Http, Remote};
use crate::serve::requests;
use crate::{settings, terminal};
use anyhow::{Context, Result, bail};
use perdura_engine::Arns;
use perdura_runtime::RealClock;
use perdura_server::control::{Answer, Bell, Connection, Kind, Rang, Request, connect};
use perdura_server::data::{Beside, Deposit};
use perdura_server::who::Caller;
use perdura_server::{Refusal, RefusalKind, handle};
use perdura_store::audit::DoorKind;
use perdura_store::sqlite::Tightened;
use perdura_store::{Catalog, Failure, FailureKind, SqliteOptions, SqliteReader, SqliteStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use url::Url;

/// How long a starting server waits for a command that holds the data, and the pause between two tries.
const HELD_FOR_MAX: Duration = Duration::from_secs(10);
const HELD_AGAIN: Duration = Duration::from_millis(50);
/// How often the display is drawn again without news.
const TICK: Duration = Duration::from_secs(1);
/// How often to look for a lost server elsewhere, once a second.
const GONE_FOR_MAX: u32 = 60;
/// How often to poll a server elsewhere: first, and at last while there is no news.
const FAR: Duration = Duration::from_millis(500);
const FAR_MAX: Duration = Duration::from_secs(8);

/// Opens the data to write. Removes the access of other users, and reports that.
pub(crate) fn open_store(folder: &Path) -> Result<SqliteStore, Failure> {
    let store = SqliteStore::open(folder, SqliteOptions::default())?;
    for Tightened { path, mode, failed } in store.tightened() {
        let (path, mode) = (path.display(), format!("{mode:o}"));
        match failed {
            None => tracing::warn!(%path, mode, "others could reach it; it is its owner's alone now"),
            Some(error) => tracing::warn!(%path, mode, error, "others can reach it, and it cannot be closed"),
        }
    }
    Ok(store)
}

/// The same for a server: it waits for a command that holds the data, as a job beside a starting server may do. It does
/// not wait for another server.
pub(crate) fn open_store_soon(folder: &Path) -> Result<SqliteStore, Failure> {
    let until = Instant::now() + HELD_FOR_MAX;
    let mut is_told = false;
    loop {
        match open_store(folder) {
            Err(failure) if is_passing_hold(&failure, folder) && Instant::now() < until => {
                if !std::mem::replace(&mut is_told, true) {
                    let seconds = HELD_FOR_MAX.as_secs();
                    tracing::warn!(why = failure.why, "waits for the data, for {seconds} seconds at most");
                }
                thread::sleep(HELD_AGAIN);
            }
            opened => return opened,
        }
    }
}

/// Whether a command holds the data, and not a server.
fn is_passing_hold(failure: &Failure, folder: &Path) -> bool {
    failure.kind == FailureKind::Held && !matches!(connect(folder), Ok(Some(_)))
}

/// The answerer that flags and environment select.
#[derive(Clone, Debug)]
pub(crate) enum Whom {
    /// The holder of the data in this folder.
    Folder(PathBuf),
    /// A server elsewhere.
    Server(Address),
}

/// The connection to the answerer.
pub(crate) struct Data {
    folder: PathBuf,
    way: Way,
}

/// How the data is reached. A command that only reads does not hold it.
enum Way {
    Server(Connection),
    Nobody,
    Looking(Box<Beside>),
    Holding(Box<Deposit>),
    Far(Box<Far>),
    Elsewhere(Box<Remote<Http>>),
}

impl Data {
    pub(crate) fn of(whom: &Whom) -> Result<Self> {
        match whom {
            Whom::Folder(folder) => Self::reach(folder),
            Whom::Server(address) => {
                Ok(Self { folder: PathBuf::new(), way: Way::Far(Box::new(Far::new(address)?)) })
            }
        }
    }

    /// Connects to the holder of the data in this folder, or opens the data.
    pub(crate) fn reach(folder: &Path) -> Result<Self> {
        let line = server(folder)?;
        let way = line.map_or(Way::Nobody, Way::Server);
        Ok(Self { folder: folder.to_owned(), way })
    }

    /// Connects to a server with the Step Functions API.
    pub(crate) fn at(url: Url, region: Option<&str>) -> Result<Self> {
        let endpoint = Endpoint::new(url, region, settings::environment)?;
        let way = Way::Elsewhere(Box::new(Remote::new(Http::new(endpoint)?)));
        Ok(Self { folder: PathBuf::new(), way })
    }

    /// Whether a server with the Step Functions API answers, which knows events, but not Turns.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.way, Way::Elsewhere(_))
    }

    /// Whether it is polled over a network, and so less and less often.
    pub(crate) fn is_far(&self) -> bool {
        matches!(self.way, Way::Elsewhere(_) | Way::Far(_))
    }

    /// The partition, region and account of its ARNs.
    pub(crate) fn arns(&mut self) -> Result<Arns> {
        match &mut self.way {
            Way::Elsewhere(remote) => {
                let known = remote.known_arns()?;
                if known.is_none() {
                    terminal::tell(
                        "nothing there tells the account, so 123456789012 is taken; name another with \
                         --parameter AWS::AccountId=ACCOUNT",
                    );
                }
                known.map_or_else(|| remote.arns(), Ok)
            }
            Way::Server(_) | Way::Far(_) | Way::Nobody | Way::Looking(_) | Way::Holding(_) => {
                settings::arns()
            }
        }
    }

    /// The pause before the next look, after so many without news. A server elsewhere limits requests, so it is polled
    /// less and less often.
    pub(crate) fn pause(&self, usual: Duration, idle: u32) -> Duration {
        if self.is_far() { far(idle).max(usual) } else { usual }
    }

    /// Waits for news of an execution from this Turn on, or of all: returns `true` when there may be some, or returns
    /// after this time. Polls if no news is pushed.
    pub(crate) fn wait(&self, bell: &mut Option<Bell>, of: Option<(&str, u64)>, most: Duration) -> bool {
        if !matches!(self.way, Way::Server(_)) {
            thread::sleep(most);
            return true;
        }
        if bell.is_none() {
            let opened = match of {
                Some((execution, from)) => Bell::of_execution(&self.folder, execution, from),
                None => Bell::of_all(&self.folder),
            };
            *bell = opened.ok().flatten();
        }
        let rang = bell.as_mut().map(|bell| bell.wait(most.max(TICK)));
        match rang {
            Some(Ok(Rang::Moved)) => true,
            Some(Ok(Rang::Silent)) => false,
            Some(Ok(Rang::Ended) | Err(_)) | None => {
                *bell = None;
                thread::sleep(most);
                true
            }
        }
    }

    /// Whether a server answers, so that executions make progress.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self.way, Way::Server(_) | Way::Far(_) | Way::Elsewhere(_))
    }

    /// Sends a read request. If the server was lost meanwhile, looks for one again; if there is none any more, reads
    /// the data itself.
    pub(crate) fn look(&mut self, request: &Request) -> Result<Answer> {
        if self.is_far() {
            return self.look_elsewhere(request);
        }
        match self.ask(request.clone()) {
            Err(error) if error.downcast_ref::<Refusal>().is_none() => {
                *self = Self::reach(&self.folder)?;
                self.ask(request.clone())
            }
            told => told,
        }
    }

    /// A lost server elsewhere may be starting again, and a busy one may have time again.
    fn look_elsewhere(&mut self, request: &Request) -> Result<Answer> {
        for _ in 0..GONE_FOR_MAX {
            match self.ask(request.clone()) {
                Err(error) if is_passing(&error) => thread::sleep(Duration::from_secs(1)),
                told => return told,
            }
        }
        self.ask(request.clone())
    }

    /// Sends a request. A refusal is an error.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer> {
        loop {
            match &mut self.way {
                Way::Server(line) => {
                    let answer = line.ask(&request);
                    return Ok(answer.context("the server that holds the data does not answer")??);
                }
                Way::Looking(data) if request.kind() == Kind::Looks => {
                    return Ok(handle(&mut **data, request)?);
                }
                Way::Holding(data) => return Ok(handle(&mut **data, request)?),
                Way::Far(far) => return far.ask(&request),
                Way::Elsewhere(remote) => return remote.ask(request),
                Way::Nobody | Way::Looking(_) => self.way = self.open(&request)?,
            }
        }
    }

    fn open(&self, request: &Request) -> Result<Way> {
        let kind = request.kind();
        if kind == Kind::Looks {
            let reader = SqliteReader::open(&self.folder).map_err(Refusal::from)?;
            return Ok(Way::Looking(Box::new(Beside::new(Box::new(reader)))));
        }
        if kind != Kind::Keeps && !self.folder.exists() {
            bail!(
                "there is no data in {}: name the data directory with --data, or begin with `perdura deploy`",
                self.folder.display()
            );
        }
        let store = open_store(&self.folder).map_err(Refusal::from)?;
        let secret = store.reader().and_then(|mut reader| reader.secret()).map_err(Refusal::from)?;
        let deposit = Deposit::new(Box::new(store)).map_err(Refusal::from)?;
        let (arns, quotas) = settings::arns_and_quotas()?;
        let by = Caller::owner().origin(DoorKind::Command, request.name(), RealClock::default().moment().now);
        let answers = Box::new(requests::Kept { folder: self.folder.clone(), installation: secret });
        let deposit = deposit.with_arns(arns).with_quotas(quotas).with_answers(answers);
        Ok(Way::Holding(Box::new(deposit.by(Arc::new(by)))))
    }
}

/// Connects to the server that holds the data, if there is one.
pub(crate) fn server(folder: &Path) -> Result<Option<Connection>> {
    connect(folder).with_context(|| format!("the server of {} cannot be reached", folder.display()))
}

/// The pause before polling a server elsewhere again, after so many looks without news.
fn far(idle: u32) -> Duration {
    (FAR * 2u32.pow(idle.min(10))).min(FAR_MAX)
}

/// Whether a repeat of a read request may help.
fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_none_or(|refusal| refusal.kind == RefusalKind::Unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_elsewhere_is_asked_less_and_less_often() {
        let pauses: Vec<u128> = [0, 1, 2, 3, 4, 5, u32::MAX].map(|idle| far(idle).as_millis()).into();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
    }

    #[test]
    fn only_what_may_pass_is_asked_again() {
        let refused = |kind| anyhow::Error::from(Refusal::new(kind, "no"));
        assert!(is_passing(&anyhow::anyhow!("no connection")));
        assert!(is_passing(&refused(RefusalKind::Unavailable)));
        assert!(!is_passing(&refused(RefusalKind::NotFound)));
    }
}
