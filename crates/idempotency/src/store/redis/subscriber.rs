//! Listens for changes of other instances, on a connection of its own.
//!
//! It is only a hint: while the connection is down, waiters find changes by polling. When it is up again all waiters
//! are woken once, because changes may have been missed. The connection is pinged now and then, because one that only
//! listens does not notice that the other end is gone.

use crate::record::OperationId;
use crate::store::wake::Bells;
use redis::{
    AsyncConnectionConfig, Client, FromRedisValue, ProtocolVersion, PushInfo, PushKind, RedisError, Value,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(30);

/// The listening task; it ends when this is dropped.
pub(super) struct Subscriber(AbortHandle);

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Subscriber {
    /// Begins to listen, and reconnects whenever the connection is lost.
    pub(super) fn start(client: &Client, channel: String, bells: Bells, timeout_for: Duration) -> Self {
        let info = client.get_connection_info();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let pushed = Client::open(info.clone().set_redis_settings(settings));
        let task = tokio::spawn(async move {
            let mut pause = PAUSE_MIN;
            loop {
                let listened = match &pushed {
                    Ok(client) => listen(client, &channel, &bells, timeout_for, &mut pause).await,
                    Err(error) => Err(error.clone()),
                };
                match listened {
                    Ok(()) => tracing::info!(channel, "the subscriber's connection to Redis was closed"),
                    Err(error) => {
                        tracing::warn!(channel, %error, "the subscriber has no connection to Redis");
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
async fn listen(
    client: &Client,
    channel: &str,
    bells: &Bells,
    timeout_for: Duration,
    pause: &mut Duration,
) -> Result<(), RedisError> {
    let closed = Arc::new(Notify::new());
    let (heard, gone) = (bells.clone(), Arc::clone(&closed));
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout_for))
        .set_response_timeout(Some(timeout_for))
        .set_push_sender(move |pushed: PushInfo| {
            match pushed.kind {
                PushKind::Message => {
                    if let Some(operation) = told(&pushed.data) {
                        heard.ring(operation);
                    }
                }
                PushKind::Disconnection => gone.notify_one(),
                _ => {}
            }
            Ok::<(), redis::aio::SendError>(())
        });
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    connection.subscribe(channel).await?;
    *pause = PAUSE_MIN;
    bells.ring_all();
    loop {
        if tokio::time::timeout(SIGN_OF_LIFE_EVERY, closed.notified()).await.is_ok() {
            return Ok(());
        }
        redis::cmd("PING").query_async::<Value>(&mut connection).await?;
    }
}

/// The operation in a message, which has the channel and the content.
fn told(data: &[Value]) -> Option<OperationId> {
    let [_, said] = data else { return None };
    OperationId::parse(&String::from_redis_value_ref(said).ok()?)
}
