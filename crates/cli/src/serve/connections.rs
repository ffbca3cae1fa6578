//! The connections for calls: decrypted when a server starts, and again whenever one is put or deleted. Tokens are
//! reloaded in the same way.

use perdura_runtime::Door;
use perdura_server::who::token::Known;
use perdura_store::{Registered, Registry};
use perdura_tasks::connection::{Connections, SealingKey};
use std::sync::Arc;

/// Decrypts the stored connections, and replaces the current ones. Logs those that fail; a call that names one fails
/// and says why.
pub(crate) fn open(key: Option<&SealingKey>, connections: &Connections, kept: Vec<Registered>) {
    let Some(key) = key else {
        if !kept.is_empty() {
            tracing::warn!(
                connections = kept.len(),
                "connections are kept here, and there is no key to open them: name it with --connection-key-file"
            );
        }
        return;
    };
    let sealed = kept.into_iter().map(|entry| (entry.name.to_string(), entry.body)).collect();
    for error in connections.replace_sealed(key, sealed) {
        tracing::warn!(%error, "a connection cannot be used");
    }
}

/// Does so after each change of such entries.
pub(crate) fn reopen(
    door: Door,
    key: Option<SealingKey>,
    connections: Arc<Connections>,
    tokens: Arc<Known>,
) -> impl Fn(Registry) + Send + Sync {
    move |kind| match kind {
        Registry::Connection => match door
            .read(|reader| reader.registered(Registry::Connection, None, u32::MAX))
        {
            Ok(kept) => open(key.as_ref(), &connections, kept),
            Err(error) => tracing::error!(%error, "connections cannot be read; those from before are used"),
        },
        Registry::Token => match door.read(|reader| reader.registered(Registry::Token, None, u32::MAX)) {
            Ok(kept) => tokens.replace(kept),
            Err(error) => tracing::error!(%error, "tokens cannot be read; those from before are used"),
        },
        Registry::Activity | Registry::DeletedActivity | Registry::Pause => {}
    }
}
