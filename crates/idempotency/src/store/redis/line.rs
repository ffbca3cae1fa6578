//! The connection that all verbs share, reconnected when it was lost.
//!
//! A verb that meets a dead connection closes it and, if a repeat is safe, asks again on a new one. So callers do not
//! notice a restart of the server, and the same claim gets a lost reply again.

use crate::store::StoreError;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, RedisError, ScriptInvocation, ServerErrorKind,
};
use std::time::Duration;
use tokio::sync::Mutex;

/// The required settings: the name, the value, and what happens without it.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("maxmemory-policy", "noeviction", "records that protect would be evicted"),
    ("appendonly", "yes", "a restart would lose what was acknowledged"),
    ("appendfsync", "always", "a crash would lose what was acknowledged last"),
];

/// Whether a repeat, after the reply was lost, is safe.
#[derive(Clone, Copy)]
pub(super) enum Repeat {
    Once,
    Never,
}

/// Why a script failed.
pub(super) enum Trouble {
    /// Its record is damaged: the script's message.
    Damaged(String),
    Store(StoreError),
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Damaged(what) => Self::Unfit(what),
            Trouble::Store(error) => error,
        }
    }
}

pub(super) struct Line {
    client: Client,
    config: AsyncConnectionConfig,
    timeout_for: Duration,
    /// The connection, and its number.
    open: Mutex<(u64, Option<MultiplexedConnection>)>,
}

impl Line {
    pub(super) fn new(client: Client, timeout_for: Duration) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout_for))
            .set_response_timeout(Some(timeout_for));
        Self { client, config, timeout_for, open: Mutex::new((0, None)) }
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        let mut open = self.open.lock().await;
        if let (number, Some(connection)) = &*open {
            return Ok((*number, connection.clone()));
        }
        let connection = self.client.get_multiplexed_async_connection_with_config(&self.config).await?;
        *open = (open.0 + 1, Some(connection.clone()));
        Ok((open.0, connection))
    }

    /// Makes the next verb reconnect, unless that happened already.
    async fn hang_up(&self, number: u64) {
        let mut open = self.open.lock().await;
        if open.0 == number {
            open.1 = None;
        }
    }

    /// Calls the script by its hash; a server that does not know it gets the text. The time limit covers everything:
    /// otherwise verbs that queue for a new connection would each wait for those before them.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
        repeat: Repeat,
    ) -> Result<T, Trouble> {
        let time = self.timeout_for;
        tokio::time::timeout(time, self.ask_until_told(call, repeat)).await.unwrap_or_else(|_| {
            // The holder of the lock is connecting, so there is nothing to close.
            if let Ok(mut open) = self.open.try_lock() {
                open.1 = None;
            }
            let late = format!("Redis did not answer within {time:?}");
            Err(Trouble::Store(StoreError::Unavailable(late.into())))
        })
    }

    async fn ask_until_told<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
        repeat: Repeat,
    ) -> Result<T, Trouble> {
        let mut tries_left = match repeat {
            Repeat::Once => 1,
            Repeat::Never => 0,
        };
        loop {
            let connected = self.connection().await.map_err(|error| Trouble::Store(unavailable(error)));
            let (number, mut connection) = connected?;
            let error = match call.invoke_async(&mut connection).await {
                Ok(told) => return Ok(told),
                Err(error) => error,
            };
            if is_lost(&error) || is_demoted(&error) {
                self.hang_up(number).await;
                if tries_left > 0 && !error.is_timeout() {
                    tries_left -= 1;
                    continue;
                }
            }
            return Err(refused(error));
        }
    }

    /// Checks that this server can keep the store's promises.
    pub(super) async fn check_server(&self, volatile: bool) -> Result<(), StoreError> {
        let (_, mut connection) = self.connection().await.map_err(unavailable)?;
        for (name, wanted, without) in SETTINGS {
            let asked =
                redis::cmd("CONFIG").arg("GET").arg(name).query_async::<Vec<String>>(&mut connection).await;
            match asked.as_deref() {
                Ok([_, value]) if value == wanted || volatile => {}
                Ok([_, value]) => {
                    return Err(StoreError::Unfit(format!(
                        "{name} of this Redis is {value:?}, and {without}: set `{name} {wanted}` in its \
                         configuration, or say with `volatile` that this is known"
                    )));
                }
                Err(error) if is_lost(error) || error.code().is_none() => {
                    return Err(StoreError::Unavailable(error.to_string().into()));
                }
                // Hosted servers often do not show their settings, and often sync only once a second.
                Ok(_) | Err(_) if volatile => {}
                Ok(_) | Err(_) => {
                    return Err(StoreError::Unfit(format!(
                        "this Redis does not tell what its {name} is, and unless it is {wanted}, {without}: allow CONFIG \
                         GET to this user, or find out otherwise and say with `volatile` that this is known"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn is_lost(error: &RedisError) -> bool {
    error.is_connection_dropped() || error.is_unrecoverable_error() || error.is_timeout()
}

/// The server is a replica now and takes no writes. The address may lead to the new primary already, but this
/// connection never will.
fn is_demoted(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

/// The error of a script. If a repeat would fail the same way, it is not an outage: a caller that waits for its end
/// would wait for as long as the record is kept.
fn refused(error: RedisError) -> Trouble {
    match (error.kind(), error.code()) {
        (_, Some("DAMAGED")) => Trouble::Damaged(error.detail().unwrap_or_default().to_owned()),
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) | (_, Some("WRONGTYPE")) => {
            Trouble::Store(StoreError::Unfit(format!(
                "a key of the store in Redis holds something else, or may not be used: {error}"
            )))
        }
        _ => Trouble::Store(unavailable(error)),
    }
}

fn unavailable(error: RedisError) -> StoreError {
    StoreError::Unavailable(Box::new(error))
}
