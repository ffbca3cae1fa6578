//! Listens for changes of other instances, on a connection of its own.
//!
//! It is only a hint: while the connection is down, waiters find changes by polling. When it is up again all waiters
//! are woken once, because changes may have been missed.

use crate::record::OperationId;
use crate::store::wake::Bells;
use std::future::poll_fn;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Config, Socket};

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The listening task; it ends when this is dropped.
pub(super) struct Listener(AbortHandle);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Listener {
    /// Begins to listen, and reconnects whenever the connection is lost.
    pub(super) fn start<T>(config: Config, tls: T, channel: String, bells: Bells) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let task = tokio::spawn(async move {
            let mut pause = PAUSE_MIN;
            loop {
                match listen(&config, tls.clone(), &channel, &bells, &mut pause).await {
                    Ok(()) => tracing::info!(channel, "the listener's connection to PostgreSQL was closed"),
                    Err(error) => {
                        tracing::warn!(channel, %error, "the listener has no connection to PostgreSQL");
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        });
        Self(task.abort_handle())
    }
}

/// Wakes waiters until the connection ends. Resets `pause` once the server listens.
async fn listen<T>(
    config: &Config,
    tls: T,
    channel: &str,
    bells: &Bells,
    pause: &mut Duration,
) -> Result<(), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
{
    let (client, mut connection) = config.connect(tls).await?;
    let listen = format!("LISTEN {channel}");
    let mut asked = std::pin::pin!(client.batch_execute(&listen));
    let mut listening = false;
    loop {
        tokio::select! {
            biased;
            message = poll_fn(|cx| connection.poll_message(cx)) => match message {
                Some(Ok(AsyncMessage::Notification(told))) => {
                    if let Some(operation) = OperationId::parse(told.payload()) {
                        bells.ring(operation);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            answer = &mut asked, if !listening => {
                answer?;
                listening = true;
                *pause = PAUSE_MIN;
                bells.ring_all();
            }
        }
    }
}
