//! Connections as users write them: JSON, parsed strictly, with errors that never show a value.

use super::{Authorization, Connection, Extra, OAuth, Place};
use crate::destination::Hosts;
use http::{HeaderName, HeaderValue, Method};
use perdura_sigv4::Secret;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use url::Url;
use zeroize::Zeroizing;

/// An invalid connection, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrittenError(String);

/// The only place that writes secrets out: into the cipher.
#[derive(Deserialize)]
#[serde(transparent)]
struct Revealed(Secret);

impl Serialize for Revealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.reveal())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with one of `basic`, `api_key` and `oauth`")]
struct Written {
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    basic: Option<WrittenBasic>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_key: Option<WrittenApiKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    oauth: Option<WrittenOAuth>,
    #[serde(default)]
    headers: BTreeMap<String, Revealed>,
    #[serde(default)]
    query: BTreeMap<String, Revealed>,
    #[serde(default)]
    body: BTreeMap<String, Revealed>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `user` and `password`")]
struct WrittenBasic {
    user: String,
    password: Revealed,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `header` and `value`")]
struct WrittenApiKey {
    header: String,
    value: Revealed,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `endpoint`, `client_id` and `client_secret`")]
struct WrittenOAuth {
    endpoint: String,
    #[serde(default = "post")]
    method: String,
    client_id: String,
    client_secret: Revealed,
    #[serde(default)]
    credentials: Place,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(default)]
    parameters: BTreeMap<String, Revealed>,
    #[serde(default)]
    headers: BTreeMap<String, Revealed>,
}

fn post() -> String {
    "POST".into()
}

/// Headers that frame a request. They follow from the request; another value would make the two ends see different
/// requests.
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Connection {
    /// Parses the file of `perdura connection put NAME --file connection.json`. It must name its hosts: otherwise an
    /// author of a definition could have it sent to a host of their own.
    pub fn from_json(text: &str) -> Result<Self, WrittenError> {
        let connection = Self::from_kept(text)?;
        if connection.hosts.is_empty() {
            let what = "`hosts` is needed: the hosts that it may be sent to, as in \"hosts\": [\"api.bank.example\"]";
            return Err(WrittenError(what.into()));
        }
        Ok(connection)
    }

    /// Parses a stored connection. One from before connections had hosts may be sent nowhere.
    pub(crate) fn from_kept(text: &str) -> Result<Self, WrittenError> {
        let written: Written =
            serde_json::from_str(text).map_err(|error| WrittenError(without_value(&error)))?;
        written.try_into().map_err(WrittenError)
    }

    /// The connection with its secrets, for the cipher.
    pub(super) fn revealed(&self) -> Zeroizing<Vec<u8>> {
        let written = Written::from(self.clone());
        Zeroizing::new(serde_json::to_vec(&written).expect("texts and maps of texts are JSON"))
    }
}

/// The parser's message without the value it stopped at: that may be a secret in the wrong place.
fn without_value(error: &serde_json::Error) -> String {
    let said = error.to_string();
    match said.split_once(", expected") {
        Some((found, expected)) if found.starts_with("invalid ") => format!("expected{expected}"),
        Some(_) | None => said,
    }
}

impl TryFrom<Written> for Connection {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let authorization = match (written.basic, written.api_key, written.oauth) {
            (Some(basic), None, None) => basic.try_into()?,
            (None, Some(api_key), None) => api_key.try_into()?,
            (None, None, Some(oauth)) => Authorization::OAuth(Box::new(oauth.try_into()?)),
            (None, None, None) => return Err("one of `basic`, `api_key` and `oauth` is needed".into()),
            _ => return Err("only one of `basic`, `api_key` and `oauth` can be given".into()),
        };
        let headers = headers(written.headers)?;
        let hosts = written.hosts.iter().map(|host| Hosts::read(host)).collect::<Result<_, _>>()?;
        Ok(Self {
            hosts,
            authorization,
            extra: Extra { headers, query: plain(written.query), body: plain(written.body) },
        })
    }
}

impl TryFrom<WrittenBasic> for Authorization {
    type Error = String;

    fn try_from(written: WrittenBasic) -> Result<Self, String> {
        if written.user.contains(':') {
            return Err(
                "`user` cannot contain a colon: the receiver would take the rest for the password".into()
            );
        }
        Ok(Self::Basic { user: written.user, password: written.password.0 })
    }
}

impl TryFrom<WrittenApiKey> for Authorization {
    type Error = String;

    fn try_from(written: WrittenApiKey) -> Result<Self, String> {
        let (header, value) = header(&written.header, written.value)?;
        Ok(Self::ApiKey { header, value })
    }
}

impl TryFrom<WrittenOAuth> for OAuth {
    type Error = String;

    fn try_from(written: WrittenOAuth) -> Result<Self, String> {
        let endpoint =
            Url::parse(&written.endpoint).map_err(|error| format!("`endpoint` is no URL: {error}"))?;
        if !matches!(endpoint.scheme(), "http" | "https") || !endpoint.username().is_empty() {
            return Err("`endpoint` must be an http or https URL without a user name".into());
        }
        let method = match written.method.as_str() {
            "GET" => Method::GET,
            "POST" => Method::POST,
            "PUT" => Method::PUT,
            _ => return Err("`method` must be GET, POST or PUT".into()),
        };
        Ok(Self {
            endpoint,
            method,
            client_id: written.client_id,
            client_secret: written.client_secret.0,
            credentials: written.credentials,
            scope: written.scope,
            parameters: plain(written.parameters),
            headers: headers(written.headers)?,
        })
    }
}

fn plain(written: BTreeMap<String, Revealed>) -> BTreeMap<String, Secret> {
    written.into_iter().map(|(name, Revealed(value))| (name, value)).collect()
}

fn headers(written: BTreeMap<String, Revealed>) -> Result<Vec<(HeaderName, Secret)>, String> {
    written.into_iter().map(|(name, value)| header(&name, value)).collect()
}

fn header(name: &str, Revealed(value): Revealed) -> Result<(HeaderName, Secret), String> {
    let parsed: HeaderName = name.parse().map_err(|_| format!("`{name}` is no name of a header"))?;
    if FRAMING.contains(&parsed.as_str()) {
        return Err(format!("header `{name}` follows from the request and cannot be set"));
    }
    HeaderValue::from_str(value.reveal())
        .map_err(|_| format!("the value of header `{name}` has characters that no header can carry"))?;
    Ok((parsed, value))
}

impl From<Connection> for Written {
    fn from(Connection { hosts, authorization, extra }: Connection) -> Self {
        let mut written = Self {
            hosts: hosts.iter().map(|host| host.written().to_owned()).collect(),
            basic: None,
            api_key: None,
            oauth: None,
            headers: named(extra.headers),
            query: revealed(extra.query),
            body: revealed(extra.body),
        };
        match authorization {
            Authorization::Basic { user, password } => {
                written.basic = Some(WrittenBasic { user, password: Revealed(password) });
            }
            Authorization::ApiKey { header, value } => {
                written.api_key =
                    Some(WrittenApiKey { header: header.as_str().into(), value: Revealed(value) });
            }
            Authorization::OAuth(oauth) => {
                written.oauth = Some(WrittenOAuth {
                    endpoint: oauth.endpoint.into(),
                    method: oauth.method.as_str().into(),
                    client_id: oauth.client_id,
                    client_secret: Revealed(oauth.client_secret),
                    credentials: oauth.credentials,
                    scope: oauth.scope,
                    parameters: revealed(oauth.parameters),
                    headers: named(oauth.headers),
                });
            }
        }
        written
    }
}

fn revealed(values: BTreeMap<String, Secret>) -> BTreeMap<String, Revealed> {
    values.into_iter().map(|(name, value)| (name, Revealed(value))).collect()
}

fn named(values: Vec<(HeaderName, Secret)>) -> BTreeMap<String, Revealed> {
    values.into_iter().map(|(name, value)| (name.as_str().into(), Revealed(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_named_without_the_value_next_to_it() {
        let table = [
            (r#""marker""#, "expected an object with one of"),
            ("{}", "one of `basic`, `api_key` and `oauth` is needed"),
            (r#"{"basic": "anna:marker"}"#, "expected an object with `user` and `password`"),
            (r#"{"basic": {"user": "anna", "password": 123456789}}"#, "expected a string"),
            (r#"{"basic": {"user": "anna"}}"#, "missing field `password`"),
            (r#"{"basic": {"user": "a:b", "password": "marker"}}"#, "`user` cannot contain a colon"),
            (r#"{"basic": {"user": "a", "pasword": "marker"}}"#, "unknown field `pasword`"),
            (r#"{"api_key": {"header": "x y", "value": "marker"}}"#, "`x y` is no name of a header"),
            (
                r#"{"api_key": {"header": "Host", "value": "marker"}}"#,
                "header `Host` follows from the request",
            ),
            (
                r#"{"api_key": {"header": "x", "value": "marker\n"}}"#,
                "the value of header `x` has characters",
            ),
            (
                r#"{"oauth": {"endpoint": "nowhere", "client_id": "c", "client_secret": "marker"}}"#,
                "`endpoint` is no URL",
            ),
            (
                r#"{"oauth": {"endpoint": "ftp://a", "client_id": "c", "client_secret": "marker"}}"#,
                "`endpoint` must be an http or https URL",
            ),
            (
                r#"{"oauth": {"endpoint": "http://a", "method": "DELETE", "client_id": "c", "client_secret": "marker"}}"#,
                "`method` must be GET, POST or PUT",
            ),
            (
                r#"{"basic": {"user": "a", "password": "marker"}, "api_key": {"header": "x", "value": "marker"}}"#,
                "only one of",
            ),
            (r#"{"basic": {"user": "a", "password": "marker"}}"#, "`hosts` is needed"),
            (r#"{"hosts": [], "basic": {"user": "a", "password": "marker"}}"#, "`hosts` is needed"),
            (
                r#"{"hosts": ["https://a.example/"], "basic": {"user": "a", "password": "marker"}}"#,
                "is more than a host",
            ),
        ];
        for (text, expected) in table {
            let error = Connection::from_json(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("marker") && !error.contains("123456789"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_written_out_reads_back_the_same() {
        for text in [
            r#"{"hosts": ["a.example", "*.B.example:8443"], "basic": {"user": "anna", "password": "p"},
                "query": {"a": "1"}, "body": {"b": "2"}}"#,
            r#"{"hosts": ["a"], "api_key": {"header": "X-Key", "value": "v"}, "headers": {"X-Tenant": "42"}}"#,
            r#"{"hosts": ["a"], "oauth": {"endpoint": "https://a/token?x=1", "method": "PUT", "client_id": "c", "client_secret": "s",
                "credentials": "body", "scope": "read", "parameters": {"audience": "b"}, "headers": {"X": "y"}}}"#,
        ] {
            let connection = Connection::from_json(text).expect(text);
            let written = connection.revealed();
            let again = Connection::from_json(std::str::from_utf8(&written).expect("text")).expect("valid");
            assert_eq!(again, connection);
        }
    }
}
