//! Connections: how we authenticate at those who are called.
//!
//! A definition names a connection and never holds a secret; the connection holds them, is kept encrypted, and joins
//! the request at the last moment. So no secret is in an input, a history, or an answer. What a running server knows
//! is a table that can be replaced while calls are under way; each call keeps the connection that it began with.

mod oauth;
mod seal;
mod secret;
mod written;

pub use seal::{OpenError, SealingKey, SealingKeyError, open, seal};
pub use secret::SecretText;
pub use written::WrittenError;

pub(crate) use oauth::{Token, TokenError};

use crate::client::Client;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::time::Instant;
use url::Url;
use zeroize::Zeroizing;

/// Credentials, and what else each call with them carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub(crate) authorization: Authorization,
    pub(crate) extra: Extra,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authorization {
    Basic { user: String, password: SecretText },
    ApiKey { header: HeaderName, value: SecretText },
    OAuth(Box<OAuth>),
}

/// Parameters of every call; they win over those of the task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) headers: Vec<(HeaderName, SecretText)>,
    pub(crate) query: BTreeMap<String, SecretText>,
    pub(crate) body: BTreeMap<String, SecretText>,
}

/// Client credentials, and where they are turned into a token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OAuth {
    endpoint: Url,
    method: Method,
    client_id: String,
    client_secret: SecretText,
    credentials: Place,
    scope: Option<String>,
    parameters: BTreeMap<String, SecretText>,
    headers: Vec<(HeaderName, SecretText)>,
}

impl fmt::Debug for OAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = &self.endpoint[..url::Position::AfterPath];
        formatter.debug_struct("OAuth").field("endpoint", &endpoint).finish_non_exhaustive()
    }
}

/// Where the token endpoint wants the client's credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// As basic authorization, which every server must take.
    #[default]
    Header,
    /// Among the parameters.
    Body,
}

/// A connection as it may be shown: names, and no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// `basic`, `api_key` or `oauth`.
    pub kind: &'static str,
    /// The user, with `basic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The header of the key, with `api_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The token endpoint without its query, with `oauth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The client's id, with `oauth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The scope, with `oauth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Names of the headers that it adds.
    pub headers: Vec<String>,
    /// Names of the query parameters that it adds.
    pub query: Vec<String>,
    /// Names of the members that it adds to the body.
    pub body: Vec<String>,
}

impl Connection {
    /// What may be shown of it.
    pub fn describe(&self) -> Description {
        let mut description = Description {
            kind: "basic",
            user: None,
            header: None,
            endpoint: None,
            client_id: None,
            scope: None,
            headers: self.extra.headers.iter().map(|(name, _)| name.to_string()).collect(),
            query: self.extra.query.keys().cloned().collect(),
            body: self.extra.body.keys().cloned().collect(),
        };
        match &self.authorization {
            Authorization::Basic { user, .. } => description.user = Some(user.clone()),
            Authorization::ApiKey { header, .. } => {
                description.kind = "api_key";
                description.header = Some(header.to_string());
            }
            Authorization::OAuth(oauth) => {
                description.kind = "oauth";
                description.endpoint = Some(oauth.endpoint[..url::Position::AfterPath].into());
                description.client_id = Some(oauth.client_id.clone());
                description.scope.clone_from(&oauth.scope);
            }
        }
        description
    }

    /// Puts the credentials on a request.
    pub(crate) fn authorize(&self, headers: &mut HeaderMap, token: Option<&Token>) {
        let (name, value) = match &self.authorization {
            Authorization::Basic { user, password } => (header::AUTHORIZATION, basic(user, password)),
            Authorization::ApiKey { header, value } => (header.clone(), sensitive(value)),
            Authorization::OAuth(_) => match token {
                Some(token) => (header::AUTHORIZATION, token.header()),
                None => return,
            },
        };
        headers.insert(name, value);
    }

    /// What must not come back in an answer that repeats what it was sent.
    pub(crate) fn secrets<'a>(&'a self, token: Option<&'a Token>) -> Vec<Zeroizing<String>> {
        let text = |secret: &SecretText| Zeroizing::new(secret.reveal().to_owned());
        match &self.authorization {
            Authorization::Basic { user, password } => {
                vec![encoded(user, password), text(password)]
            }
            Authorization::ApiKey { value, .. } => vec![text(value)],
            Authorization::OAuth(oauth) => {
                let token = token.map(|token| text(token.secret()));
                token.into_iter().chain([text(&oauth.client_secret)]).collect()
            }
        }
    }
}

/// A header's value that is not to be printed or kept in compression tables.
pub(crate) fn sensitive(value: &SecretText) -> HeaderValue {
    let mut value =
        HeaderValue::from_str(value.reveal()).expect("it was checked when the connection was read");
    value.set_sensitive(true);
    value
}

fn encoded(user: &str, password: &SecretText) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{user}:{}", password.reveal()));
    Zeroizing::new(STANDARD.encode(pair.as_bytes()))
}

fn basic(user: &str, password: &SecretText) -> HeaderValue {
    let text = Zeroizing::new(format!("Basic {}", &*encoded(user, password)));
    let mut value = HeaderValue::from_str(&text).expect("base64 can stand in a header");
    value.set_sensitive(true);
    value
}

/// Why a connection cannot be used, before anybody was called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// Nobody put it.
    #[error(
        "there is no connection `{name}`; put it with `perdura connection put {name} --file connection.json`"
    )]
    Missing {
        /// Its name.
        name: Box<str>,
    },
    /// It is there, and does not open.
    #[error(transparent)]
    Shut(#[from] OpenError),
}

/// A connection in use, with its token if it needs one.
pub(crate) struct Kept {
    pub(crate) name: Box<str>,
    pub(crate) connection: Connection,
    tokens: oauth::Tokens,
}

impl Kept {
    /// The token to call with, if this connection needs one.
    pub(crate) async fn token(&self, client: &Client, until: Instant) -> Result<Option<Token>, TokenError> {
        match &self.connection.authorization {
            Authorization::Basic { .. } | Authorization::ApiKey { .. } => Ok(None),
            Authorization::OAuth(oauth) => self.tokens.current(oauth, client, until).await.map(Some),
        }
    }

    /// Another token than the one that was refused, if this connection has such.
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

/// The connections that a running server knows, by name.
#[derive(Default)]
pub struct Connections(RwLock<BTreeMap<Box<str>, Entry>>);

impl Connections {
    /// Takes these in place of all others. One that did not change keeps its token.
    pub fn replace(&self, connections: Vec<(String, Connection)>) {
        self.put(connections.into_iter().map(|(name, connection)| (name.into(), Ok(connection))));
    }

    /// Opens these and takes them in place of all others. What does not open is returned, and a call that names it
    /// gets the same error.
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
                    let tokens = oauth::Tokens::default();
                    Entry::Open(Arc::new(Kept { name: name.clone(), connection, tokens }))
                }
            };
            table.insert(name, entry);
        }
    }

    /// The connection that a definition names, by ARN or by name alone.
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

/// The name in `arn:aws:events:REGION:ACCOUNT:connection/NAME/ID`; anything else is taken for a name.
pub fn name_of(written: &str) -> &str {
    let path = written.strip_prefix("arn:").and_then(|rest| rest.split_once(":connection/"));
    path.map_or(written, |(_, path)| path.split_once('/').map_or(path, |(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(text: &str) -> Connection {
        Connection::from_json(text).expect(text)
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
    fn no_secret_is_shown() {
        for text in [
            r#"{"basic": {"user": "anna", "password": "marker"}, "headers": {"x-a": "marker"}, "query": {"q": "marker"}}"#,
            r#"{"api_key": {"header": "x-key", "value": "marker"}, "body": {"b": "marker"}}"#,
            r#"{"oauth": {"endpoint": "https://a/token?k=marker", "client_id": "id", "client_secret": "marker",
                "parameters": {"p": "marker"}, "headers": {"h": "marker"}}}"#,
        ] {
            let connection = connection(text);
            let shown = serde_json::to_string(&connection.describe()).expect("JSON");
            assert!(!shown.contains("marker"), "{shown}");
            let debug = format!("{connection:?}");
            assert!(!debug.contains("marker"), "{debug}");
            let mut headers = HeaderMap::new();
            connection.authorize(&mut headers, None);
            assert!(!format!("{headers:?}").contains("marker"), "{headers:?}");
        }
        let described =
            connection(r#"{"basic": {"user": "anna", "password": "p"}, "headers": {"X-A": "1"}}"#).describe();
        assert_eq!((described.kind, described.user.as_deref()), ("basic", Some("anna")));
        assert_eq!(described.headers, ["x-a"]);
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
