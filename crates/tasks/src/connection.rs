//! Connections: credentials for destinations.
//!
//! A definition names a connection and never contains a secret. The connection holds the secrets, is stored encrypted,
//! and is added to the request at the last moment. So no secret is in an input, a history, or an answer.

mod oauth;
mod seal;
mod table;
mod written;

pub use seal::{OpenError, SealingKey, SealingKeyError, open, seal};
pub use table::{ConnectionError, Connections, name_of};
pub use written::WrittenError;

pub(crate) use oauth::{Token, TokenError};
pub(crate) use table::Kept;

use crate::destination::{Hosts, Place as Address};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use perdura_sigv4::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use url::Url;
use zeroize::Zeroizing;

/// The placeholder for a secret, in characters that URLs do not escape.
const MASK: &str = "~hidden~";

/// Credentials, and other values that each call with them carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The hosts that it may be sent to.
    pub(crate) hosts: Vec<Hosts>,
    pub(crate) authorization: Authorization,
    pub(crate) extra: Extra,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authorization {
    Basic { user: String, password: Secret },
    ApiKey { header: HeaderName, value: Secret },
    OAuth(Box<OAuth>),
}

/// Parameters of every call; they override those of the task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) headers: Vec<(HeaderName, Secret)>,
    pub(crate) query: BTreeMap<String, Secret>,
    pub(crate) body: BTreeMap<String, Secret>,
}

/// Client credentials, and the endpoint that exchanges them for a token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OAuth {
    endpoint: Url,
    method: Method,
    client_id: String,
    client_secret: Secret,
    credentials: Place,
    scope: Option<String>,
    parameters: BTreeMap<String, Secret>,
    headers: Vec<(HeaderName, Secret)>,
}

impl fmt::Debug for OAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = &self.endpoint[..url::Position::AfterPath];
        formatter.debug_struct("OAuth").field("endpoint", &endpoint).finish_non_exhaustive()
    }
}

/// How the token endpoint wants the client's credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// As basic authorization, which every server must accept.
    #[default]
    Header,
    /// Among the parameters.
    Body,
}

/// A connection without its secrets, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The hosts that it may be sent to.
    pub hosts: Vec<String>,
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
    pub fn describe(&self) -> Description {
        let mut description = Description {
            hosts: self.hosts.iter().map(|host| host.written().to_owned()).collect(),
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

    /// Whether it may be sent to this address.
    pub(crate) fn goes_to(&self, address: &Url) -> bool {
        Address::of(address).is_some_and(|place| self.hosts.iter().any(|host| host.hold(&place)))
    }

    /// The same with a placeholder for each value that it adds to address and body, for a user who may see a request
    /// but not its secrets.
    pub(crate) fn masked(&self) -> Self {
        let mut masked = self.clone();
        for value in masked.extra.query.values_mut().chain(masked.extra.body.values_mut()) {
            *value = Secret::new(MASK);
        }
        masked
    }

    /// Adds the credentials to a request.
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

    /// Every value that must be masked in an answer that repeats its request. Longer ones first, so that a secret that
    /// contains another is masked completely.
    pub(crate) fn secrets(&self, token: Option<&Token>) -> Vec<Secret> {
        let mut all: Vec<&str> = Vec::new();
        let pair;
        match &self.authorization {
            Authorization::Basic { user, password } => {
                pair = encoded(user, password);
                all.extend([pair.as_str(), password.reveal()]);
            }
            Authorization::ApiKey { value, .. } => all.push(value.reveal()),
            Authorization::OAuth(oauth) => {
                all.extend(token.map(|token| token.secret().reveal()));
                all.push(oauth.client_secret.reveal());
                all.extend(oauth.parameters.values().map(Secret::reveal));
                all.extend(oauth.headers.iter().map(|(_, value)| value.reveal()));
            }
        }
        all.extend(self.extra.headers.iter().map(|(_, value)| value.reveal()));
        all.extend(self.extra.query.values().chain(self.extra.body.values()).map(Secret::reveal));
        all.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        all.dedup();
        all.into_iter().map(Secret::new).collect()
    }
}

/// A header's value that is not printed or kept in compression tables.
pub(crate) fn sensitive(value: &Secret) -> HeaderValue {
    let mut value =
        HeaderValue::from_str(value.reveal()).expect("it was checked when the connection was read");
    value.set_sensitive(true);
    value
}

fn encoded(user: &str, password: &Secret) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{user}:{}", password.reveal()));
    Zeroizing::new(STANDARD.encode(pair.as_bytes()))
}

fn basic(user: &str, password: &Secret) -> HeaderValue {
    let text = Zeroizing::new(format!("Basic {}", &*encoded(user, password)));
    let mut value = HeaderValue::from_str(&text).expect("base64 can stand in a header");
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(text: &str) -> Connection {
        Connection::from_kept(text).expect(text)
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
    fn every_value_is_a_secret_and_longer_ones_come_first() {
        let connection = connection(
            r#"{"api_key": {"header": "x-key", "value": "the-key"}, "headers": {"x-a": "the-header"},
                "query": {"q": "the query/1"}, "body": {"b": "the-key-and-more"}}"#,
        );
        let secrets: Vec<String> =
            connection.secrets(None).iter().map(|secret| secret.reveal().to_owned()).collect();
        assert_eq!(secrets, ["the-key-and-more", "the query/1", "the-header", "the-key"]);
    }

    #[test]
    fn a_connection_goes_only_to_its_hosts() {
        let with = |hosts: &str| {
            let hosts = if hosts.is_empty() { String::new() } else { format!(r#""hosts": {hosts}, "#) };
            connection(&format!(r#"{{{hosts}"basic": {{"user": "a", "password": "b"}}}}"#))
        };
        for (hosts, address, expected) in [
            (r#"["api.bank.example"]"#, "https://api.bank.example/v1?x=1", true),
            (r#"["api.bank.example"]"#, "https://API.bank.example:8443/", true),
            (r#"["api.bank.example"]"#, "https://api.bank.example.evil.example/", false),
            (r#"["api.bank.example"]"#, "https://evil.example/api.bank.example", false),
            (r#"["a.example", "*.bank.example"]"#, "https://api.bank.example/", true),
            (r#"["*.bank.example"]"#, "https://bank.example/", false),
            (r#"["127.0.0.1:8080"]"#, "http://127.0.0.1:8080/", true),
            (r#"["127.0.0.1:8080"]"#, "http://127.0.0.1:8081/", false),
            (r#"["[::1]"]"#, "http://[::1]/", true),
            ("", "https://api.bank.example/", false),
        ] {
            let address = Url::parse(address).expect(address);
            assert_eq!(with(hosts).goes_to(&address), expected, "{hosts} {address}");
        }
    }
}
