//! The server's side of the socket. A connection that is slow, silent or sends nonsense delays no other.

use super::{Kind, LINE_BYTES_MAX, Request};
use crate::commands::activities;
use crate::data::Served;
use crate::places::{NotDone, Pool};
use crate::sfn::is_large;
use crate::{Refusal, RefusalKind, handle};
use perdura_runtime::Seldom;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub const SOCKET: &str = "control.sock";
/// How many clients are connected at once; more wait. Most are workers that wait for a task.
const CLIENTS_MAX: usize = 1_024;
/// A line longer than this takes one of [`LONG_MAX`] permits.
const LONG: usize = 1 << 20;
/// How many long lines are read at once.
const LONG_MAX: usize = 2;
/// A connection without traffic for so long is closed.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Blocking threads, by purpose. A start may wait for room in memory. A stop, which makes room, must not wait behind
/// it, and a read must not wait behind either.
struct Threads {
    parsing: Pool,
    reading: Pool,
    starting: Pool,
    changing: Pool,
    long: Semaphore,
}

impl Default for Threads {
    fn default() -> Self {
        let pool = |what, threads| Pool::new(what, threads, CLIENTS_MAX);
        Self {
            parsing: pool("long lines", 2),
            reading: pool("questions", 32),
            starting: pool("starts", 16),
            changing: pool("changes", 16),
            long: Semaphore::new(LONG_MAX),
        }
    }
}

impl Threads {
    fn of(&self, kind: Kind) -> &Pool {
        match kind {
            Kind::Looks => &self.reading,
            Kind::Starts => &self.starting,
            Kind::Keeps | Kind::Changes => &self.changing,
        }
    }
}

/// The listening socket. It is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Opens the socket and replaces a stale one. Only the process that holds the data may call this.
    pub fn open(data: &Path) -> io::Result<Self> {
        // Created in a private folder and moved once its mode is set, so that no other user can connect in between.
        let folder = data.join(".control");
        let _ = fs::remove_dir_all(&folder);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let hidden = folder.join("s");
        let listener = UnixListener::bind(&hidden)?;
        fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
        let path = data.join(SOCKET);
        fs::rename(&hidden, &path)?;
        let _ = fs::remove_dir(&folder);
        Ok(Self { listener, path })
    }

    /// Serves until the future is dropped.
    pub async fn serve(&self, data: Served) {
        static LINE: Seldom = Seldom::new();
        let places = Arc::new(Semaphore::new(CLIENTS_MAX));
        let threads = Arc::<Threads>::default();
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (data, threads) = (data.clone(), threads.clone());
                    tokio::spawn(async move {
                        if let Err(error) = attend(stream, data, &threads).await {
                            tracing::debug!(%error, "a control connection broke");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    if let Some(left_out) = LINE.turn() {
                        tracing::warn!(%error, left_out, "a control connection cannot be accepted");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

async fn attend(mut stream: UnixStream, data: Served, threads: &Threads) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reader).take(LONG as u64);
        if timeout(SILENCE_MAX, bounded.read_until(b'\n', &mut line)).await?? == 0 {
            return Ok(());
        }
        let is_long = line.len() == LONG && !line.ends_with(b"\n");
        let _place = if is_long { threads.long.acquire().await.ok() } else { None };
        if is_long {
            let mut bounded = (&mut reader).take((LINE_BYTES_MAX - LONG) as u64);
            timeout(SILENCE_MAX, bounded.read_until(b'\n', &mut line)).await??;
        }
        let is_cut_off = !line.ends_with(b"\n");
        let request = if is_large(line.len()) {
            threads.parsing.run(move || read(&line)).await.unwrap_or_else(|not_done| Err(refusal(&not_done)))
        } else {
            read(&line)
        };
        let mut told = match request {
            Ok(Request::Poll { activity, worker }) => {
                tokio::select! {
                    biased;
                    // A worker that hangs up or sends something else no longer wants a task.
                    _ = reader.fill_buf() => return Ok(()),
                    told = activities::poll(&data, &activity, worker) => write(&told),
                }
            }
            Ok(request) => answer(request, data.clone(), threads).await,
            Err(refusal) => write(&Err(refusal)),
        };
        told.push(b'\n');
        timeout(SILENCE_MAX, writer.write_all(&told)).await??;
        // The line was too long or the client is gone: the bytes after it are no request.
        if is_cut_off {
            return Ok(());
        }
    }
}

fn read(line: &[u8]) -> Result<Request, Refusal> {
    serde_json::from_slice(line).map_err(|error| {
        Refusal::invalid(format!("the request cannot be read: {error}"))
            .but("use the perdura command of the same version as the server")
    })
}

async fn answer(request: Request, mut data: Served, threads: &Threads) -> Vec<u8> {
    let done = threads.of(request.kind()).run(move || write(&handle(&mut data, request))).await;
    done.unwrap_or_else(|not_done| write(&Err(refusal(&not_done))))
}

fn refusal(not_done: &NotDone) -> Refusal {
    match not_done {
        NotDone::Crowded(crowded) => Refusal::new(RefusalKind::Unavailable, crowded.to_string()),
        NotDone::Panicked(panic) => {
            tracing::error!(%panic, "a request could not be answered");
            Refusal::conflict("the request failed by a bug in perdura; see the server's log")
        }
    }
}

fn write(told: &Result<super::Answer, Refusal>) -> Vec<u8> {
    serde_json::to_vec(told).expect("answers are plain data")
}
