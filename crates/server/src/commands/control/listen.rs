//! The server's side of the socket. A connection that is slow, silent or sends nonsense delays no other.

use crate::http::Patient;
use crate::v1::V1;
use axum::body::Body;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use perdura_runtime::Seldom;
use std::convert::Infallible;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

pub const SOCKET: &str = "control.sock";
/// How many clients are connected at once; more wait. Most are workers that wait for a task, and commands that watch, which
/// have two connections.
const CLIENTS_MAX: usize = 2_048;
/// How long a connection may be idle between two requests.
const REST_FOR: Duration = Duration::from_mins(1);

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
    pub async fn serve(&self, v1: V1) {
        static LINE: Seldom = Seldom::new();
        let places = Arc::new(Semaphore::new(CLIENTS_MAX));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let v1 = v1.clone();
                    tokio::spawn(async move {
                        attend(stream, v1).await;
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

async fn attend(stream: UnixStream, v1: V1) {
    let patient = Patient::alone(stream);
    let progress = patient.progress();
    let answer = service_fn(move |request: axum::http::Request<hyper::body::Incoming>| {
        let (v1, progress) = (v1.clone(), progress.clone());
        async move {
            let _answering = progress.begin();
            Ok::<_, Infallible>(v1.answer_on_socket(request.map(Body::new)).await)
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REST_FOR)
        .serve_connection(TokioIo::new(patient), answer);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a control connection ended early");
    }
}
