//! The connection that all verbs share, made anew when it was lost.
//!
//! Whoever meets a dead connection hangs up and, where asking twice is the same as asking once, asks again on a new
//! one. So a server that was restarted is noticed by nobody, and a reply that was lost is asked for by the same claim.

use crate::store::StoreError;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, RedisError, ScriptInvocation, ServerErrorKind,
};
use std::time::Duration;
use tokio::sync::Mutex;

/// Settings under which the store keeps its promises: the name, the value, and what happens without it.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("maxmemory-policy", "noeviction", "records that protect would be evicted"),
    ("appendonly", "yes", "a restart would lose what was acknowledged"),
    ("appendfsync", "always", "a crash would lose what was acknowledged last"),
];

/// Whether asking again, after the reply was lost, comes to the same.
#[derive(Clone, Copy)]
pub(super) enum Repeat {
    Once,
    Never,
}

/// Why a script brought nothing.
pub(super) enum Trouble {
    /// The record that it is about is damaged: in the words of the script.
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
    /// The connection, and how many there were before it.
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

    /// The next to ask connects again, unless somebody did already.
    async fn hang_up(&self, number: u64) {
        let mut open = self.open.lock().await;
        if open.0 == number {
            open.1 = None;
        }
    }

    /// Calls the script by its hash; a server that does not know it is given the text. The time covers all of it:
    /// those who queue for a new connection would otherwise each wait for those before them.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
        repeat: Repeat,
    ) -> Result<T, Trouble> {
        let time = self.timeout_for;
        tokio::time::timeout(time, self.ask_until_told(call, repeat)).await.unwrap_or_else(|_| {
            // Who holds the lock is connecting, so there is nothing to hang up.
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

    /// Whether this server can keep what the store promises.
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
                // Hosted servers often do not, and often sync once a second only.
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

/// The server follows another one now and takes no writes. The address may lead to that one already, and this connection
/// never will.
fn is_demoted(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

/// What a script ended with. Where asking again would end in the same way, it is no outage: whoever waited for it to pass
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
