//! The connections of a running server.
//!
//! The table can be replaced while calls are under way: each call keeps the connection that it began with, and an
//! unchanged connection keeps its token.

use super::oauth::Tokens;
use super::{Authorization, Connection, OpenError, SealingKey, Token, TokenError, open};
use crate::client::Client;
use crate::destination::Hosts;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::time::Instant;
use url::Url;

/// Why a connection cannot be used. No call was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// It does not exist.
    #[error(
        "there is no connection `{name}`; put it with `perdura connection put {name} --file connection.json`"
    )]
    Missing { name: Box<str> },
    /// It is bound to other hosts.
    #[error(
        "connection `{name}` is not sent to {host}: {bound}; if it is meant, put it again with that host in `hosts`"
    )]
    Elsewhere {
        name: Box<str>,
        /// The host of the task.
        host: Box<str>,
        /// The hosts that it may be sent to.
        bound: Box<str>,
    },
    /// It exists, and cannot be decrypted.
    #[error(transparent)]
    Shut(#[from] OpenError),
}

impl ConnectionError {
    /// It must not be sent there.
    fn elsewhere(name: &str, connection: &Connection, endpoint: &Url) -> Self {
        let host = endpoint.host_str().unwrap_or_default();
        let host = endpoint.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let hosts: Vec<&str> = connection.hosts.iter().map(Hosts::written).collect();
        let bound = match &hosts[..] {
            [] => "it names no hosts".to_owned(),
            hosts => format!("its hosts are {}", hosts.join(", ")),
        };
        Self::Elsewhere { name: name.into(), host: host.into(), bound: bound.into() }
    }
}

/// A connection in use, with its token if it needs one.
pub(crate) struct Kept {
    pub(crate) name: Box<str>,
    pub(crate) connection: Connection,
    tokens: Tokens,
}

impl Kept {
    /// Checks that it may be sent there.
    pub(crate) fn judge(&self, endpoint: &Url) -> Result<(), ConnectionError> {
        if self.connection.goes_to(endpoint) {
            return Ok(());
        }
        Err(ConnectionError::elsewhere(&self.name, &self.connection, endpoint))
    }

    /// The token for a call, if this connection needs one.
    pub(crate) async fn token(&self, client: &Client, until: Instant) -> Result<Option<Token>, TokenError> {
        match &self.connection.authorization {
            Authorization::Basic { .. } | Authorization::ApiKey { .. } => Ok(None),
            Authorization::OAuth(oauth) => self.tokens.current(oauth, client, until).await.map(Some),
        }
    }

    /// Another token than the refused one, if this connection has tokens.
    pub(crate) async fn renewed(
        &self,
        client: &Client,
        refused: &Token,
        until: Instant,
    ) -> Result<Option<Token>, TokenError> {
        match &self.connection.authorization {
            Authorization::Basic { .. } | Authorization::ApiKey { .. } => Ok(None),
            Authorization::OAuth(oauth) => {
                self.tokens.other_than(refused, oauth, client, until).await.map(Some)
            }
        }
    }
}

enum Entry {
    Open(Arc<Kept>),
    Shut(OpenError),
}

/// The connections of a running server, by name.
#[derive(Default)]
pub struct Connections(RwLock<BTreeMap<Box<str>, Entry>>);

impl Connections {
    /// Replaces all connections. An unchanged one keeps its token.
    pub fn replace(&self, connections: Vec<(String, Connection)>) {
        self.put(connections.into_iter().map(|(name, connection)| (name.into(), Ok(connection))));
    }

    /// Decrypts these and replaces all connections with them. Returns those that cannot be decrypted; a call that names
    /// one gets the same error.
    pub fn replace_sealed(&self, key: &SealingKey, sealed: Vec<(String, Vec<u8>)>) -> Vec<OpenError> {
        let opened: Vec<_> = sealed
            .into_iter()
            .map(|(name, sealed)| (Box::<str>::from(name.as_str()), open(key, &name, &sealed)))
            .collect();
        let shut = opened.iter().filter_map(|(_, opened)| opened.as_ref().err().cloned()).collect();
        self.put(opened);
        shut
    }

    fn put(&self, connections: impl IntoIterator<Item = (Box<str>, Result<Connection, OpenError>)>) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *table);
        for (name, connection) in connections {
            let entry = match (connection, before.remove(&name)) {
                (Err(error), _) => Entry::Shut(error),
                (Ok(connection), Some(Entry::Open(kept))) if kept.connection == connection => {
                    Entry::Open(kept)
                }
                (Ok(connection), _) => {
                    let tokens = Tokens::default();
                    Entry::Open(Arc::new(Kept { name: name.clone(), connection, tokens }))
                }
            };
            table.insert(name, entry);
        }
    }

    /// The connection that a definition names, by ARN or by name.
    pub(crate) fn get(&self, written: &str) -> Result<Arc<Kept>, ConnectionError> {
        let name = name_of(written);
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match table.get(name) {
            Some(Entry::Open(kept)) => Ok(kept.clone()),
            Some(Entry::Shut(error)) => Err(error.clone().into()),
            None => Err(ConnectionError::Missing { name: name.into() }),
        }
    }
}

/// The name in `arn:aws:events:REGION:ACCOUNT:connection/NAME/ID`; any other text counts as a name.
pub fn name_of(written: &str) -> &str {
    let path = written.strip_prefix("arn:").and_then(|rest| rest.split_once(":connection/"));
    path.map_or(written, |(_, path)| path.split_once('/').map_or(path, |(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::super::seal;
    use super::*;

    fn connection(text: &str) -> Connection {
        Connection::from_kept(text).expect(text)
    }

    #[test]
    fn a_connection_is_found_by_arn_or_name() {
        let table = [
            (
                "arn:aws:events:us-east-2:123456789012:connection/Stripe/81210c42-8af1-456b-9c4a-6ff02fc664ac",
                "Stripe",
            ),
            ("arn:aws-cn:events:cn-north-1:123456789012:connection/Stripe", "Stripe"),
            ("Stripe", "Stripe"),
            ("arn:aws:lambda:us-east-2:1:function:f", "arn:aws:lambda:us-east-2:1:function:f"),
        ];
        for (written, name) in table {
            assert_eq!(name_of(written), name);
        }
    }

    #[test]
    fn a_table_is_replaced_as_a_whole_and_what_did_not_change_stays() {
        let (one, two) = (
            connection(r#"{"basic": {"user": "a", "password": "1"}}"#),
            connection(r#"{"basic": {"user": "a", "password": "2"}}"#),
        );
        let connections = Connections::default();
        connections.replace(vec![
            ("A".into(), one.clone()),
            ("B".into(), one.clone()),
            ("C".into(), one.clone()),
        ]);
        let before = (connections.get("A").expect("A"), connections.get("B").expect("B"));
        connections.replace(vec![("A".into(), one), ("B".into(), two.clone())]);
        assert!(Arc::ptr_eq(&connections.get("A").expect("A"), &before.0));
        assert_eq!(connections.get("B").expect("B").connection, two);
        assert_ne!(before.1.connection, two, "a call under way keeps what it began with");
        let missing = connections.get("C").err().expect("gone").to_string();
        assert!(missing.contains("`C`") && missing.contains("perdura connection put C"), "{missing}");
    }

    #[test]
    fn what_does_not_open_is_told_once_to_the_operator_and_to_each_call() {
        let key = |byte: &str| SealingKey::from_text(&byte.repeat(32)).expect("valid");
        let one = connection(r#"{"basic": {"user": "a", "password": "1"}}"#);
        let sealed = vec![
            ("A".to_owned(), seal(&key("01"), "A", &one)),
            ("B".to_owned(), seal(&key("02"), "B", &one)),
        ];
        let connections = Connections::default();
        let shut = connections.replace_sealed(&key("01"), sealed);
        assert_eq!(shut, [OpenError::NotOurs { name: "B".into() }]);
        assert!(connections.get("A").is_ok());
        assert_eq!(connections.get("B").err(), Some(ConnectionError::Shut(shut[0].clone())));
    }
}
