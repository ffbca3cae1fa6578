//! A WebSocket, once both sides have agreed on it: bytes go both ways until one side ends or both are silent.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::Notify;

const PIECE_BYTES: usize = 16 << 10;

/// Copies bytes between the two sides, each of which becomes available once its answer was read or written.
pub(crate) async fn tunnel(client: OnUpgrade, upstream: OnUpgrade, silent_for_max: Duration) {
    let (Ok(client), Ok(upstream)) = tokio::join!(client, upstream) else { return };
    let (from_client, to_client) = split(TokioIo::new(client));
    let (from_upstream, to_upstream) = split(TokioIo::new(upstream));
    let moved = Notify::new();
    let silence = async { while tokio::time::timeout(silent_for_max, moved.notified()).await.is_ok() {} };
    let both = async {
        tokio::join!(carry(from_client, to_upstream, &moved), carry(from_upstream, to_client, &moved))
    };
    tokio::select! {
        biased;
        _ = both => {}
        () = silence => tracing::debug!("a WebSocket was silent for too long"),
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &Notify,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&piece[..length]).await?;
        moved.notify_one();
    }
}
