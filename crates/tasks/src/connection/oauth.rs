//! OAuth client credentials: a token that many callers share and one of them renews.
//!
//! The first call that needs a token requests it, and a later call requests the next one shortly before it expires. The
//! caller that finds it missing sends the request, and the others wait for that result, be it a token or a failure: a
//! slow or dead receiver gets one request, not one for each caller.
//!
//! Errors contain nothing of the endpoint's answer except its status and the error codes of RFC 6749, because such
//! answers often repeat the request.

use super::{OAuth, Place, basic, sensitive};
use crate::client::{CallError, Client, Incoming, Outgoing};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use perdura_sigv4::Secret;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::form_urlencoded;

/// The time limit of the endpoint.
const ASK_FOR_MAX: Duration = Duration::from_secs(30);
/// The largest size of its answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long to use a token without a lifetime.
const UNSAID_FOR: Duration = Duration::from_mins(5);
/// How long before its end a token is no longer used; a tenth of its lifetime, if that is less.
const MARGIN_FOR_MAX: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    secret: Secret,
    used_until: Instant,
}

impl Token {
    pub(crate) fn header(&self) -> HeaderValue {
        sensitive(&Secret::new(format!("Bearer {}", self.secret.reveal())))
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }
}

/// Why there is no token. The call itself was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// No answer.
    #[error("its token endpoint does not answer: {0}")]
    Unreachable(String),
    /// An answer with an error.
    #[error("its token endpoint answered {status}{}; check client_id, client_secret and scope", in_brackets(*.code))]
    Refused { status: u16, code: Option<&'static str> },
    /// A successful answer without a usable token.
    #[error("its token endpoint answered without a usable access_token")]
    Unusable,
    /// The call's time limit was reached before the token came.
    #[error("its token did not come within the time of the call")]
    TooLate,
}

fn in_brackets(code: Option<&str>) -> String {
    code.map(|code| format!(" ({code})")).unwrap_or_default()
}

/// The current token, and the last failure to get one.
#[derive(Default)]
pub(super) struct Tokens(Mutex<State>);

#[derive(Default)]
struct State {
    token: Option<Token>,
    failed: Option<(Instant, TokenError)>,
}

impl Tokens {
    pub(super) async fn current(
        &self,
        oauth: &OAuth,
        client: &Client,
        until: Instant,
    ) -> Result<Token, TokenError> {
        self.get(oauth, client, until, |token| Instant::now() < token.used_until).await
    }

    /// Another token than the one that the receiver refused; another caller may have renewed it already.
    pub(super) async fn other_than(
        &self,
        refused: &Token,
        oauth: &OAuth,
        client: &Client,
        until: Instant,
    ) -> Result<Token, TokenError> {
        self.get(oauth, client, until, |token| token != refused && Instant::now() < token.used_until).await
    }

    async fn get(
        &self,
        oauth: &OAuth,
        client: &Client,
        until: Instant,
        serves: impl Fn(&Token) -> bool,
    ) -> Result<Token, TokenError> {
        let began_at = Instant::now();
        let getting = async {
            let mut state = self.0.lock().await;
            if let Some(token) = state.token.as_ref().filter(|token| serves(token)) {
                return Ok(token.clone());
            }
            if let Some((at, error)) = state.failed.as_ref().filter(|(at, _)| began_at < *at) {
                tracing::debug!(ago = ?at.elapsed(), "the token was asked for while this call waited, in vain");
                return Err(error.clone());
            }
            let asked = ask(oauth, client).await;
            match &asked {
                Ok(token) => state.token = Some(token.clone()),
                Err(error) => state.failed = Some((Instant::now(), error.clone())),
            }
            asked
        };
        tokio::time::timeout_at(until, getting).await.unwrap_or(Err(TokenError::TooLate))
    }
}

async fn ask(oauth: &OAuth, client: &Client) -> Result<Token, TokenError> {
    let asked_at = Instant::now();
    let answer = client.send(request(oauth)).await.map_err(|error| match error {
        CallError::TooLarge { .. } => TokenError::Unusable,
        CallError::Forbidden { .. }
        | CallError::NotConnected { .. }
        | CallError::TimedOut { .. }
        | CallError::Lost { .. } => TokenError::Unreachable(error.to_string()),
    })?;
    read(&answer, asked_at)
}

fn request(oauth: &OAuth) -> Outgoing {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    pairs.append_pair("grant_type", "client_credentials");
    match oauth.credentials {
        Place::Header => {
            let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let secret = Secret::new(encode(oauth.client_secret.reveal()));
            headers.insert(header::AUTHORIZATION, basic(&encode(&oauth.client_id), &secret));
        }
        Place::Body => {
            pairs.append_pair("client_id", &oauth.client_id);
            pairs.append_pair("client_secret", oauth.client_secret.reveal());
        }
    }
    if let Some(scope) = &oauth.scope {
        pairs.append_pair("scope", scope);
    }
    for (name, value) in &oauth.parameters {
        pairs.append_pair(name, value.reveal());
    }
    let pairs = pairs.finish();
    let mut url = oauth.endpoint.clone();
    let mut body = Bytes::new();
    if oauth.method == Method::GET {
        let query = [url.query(), Some(&pairs)].into_iter().flatten().collect::<Vec<_>>().join("&");
        url.set_query(Some(&query));
    } else {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        body = pairs.into();
    }
    for (name, value) in &oauth.headers {
        headers.insert(name, sensitive(value));
    }
    let method = oauth.method.clone();
    Outgoing { method, url, headers, body, timeout: ASK_FOR_MAX, answer_bytes_max: ANSWER_BYTES_MAX }
}

/// The codes of RFC 6749, section 5.2. Errors contain only these.
const CODES: [&str; 6] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
];

fn read(answer: &Incoming, asked_at: Instant) -> Result<Token, TokenError> {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null); // an answer that is none says nothing
    if !(200..300).contains(&answer.status) {
        let code = said["error"].as_str().and_then(|said| CODES.into_iter().find(|code| *code == said));
        return Err(TokenError::Refused { status: answer.status, code });
    }
    let text = said["access_token"].as_str().filter(|text| !text.is_empty()).ok_or(TokenError::Unusable)?;
    HeaderValue::from_str(text).map_err(|_| TokenError::Unusable)?;
    let lives_for = match &said["expires_in"] {
        Value::Number(seconds) => seconds.as_u64(),
        Value::String(seconds) => seconds.parse().ok(), // some servers write it as text
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let lives_for =
        lives_for.map_or(UNSAID_FOR, |seconds| Duration::from_secs(seconds.min(u64::from(u32::MAX))));
    let used_until = asked_at + lives_for.saturating_sub(MARGIN_FOR_MAX.min(lives_for / 10));
    Ok(Token { secret: Secret::new(text), used_until })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Authorization, Connection};

    fn answer(status: u16, body: &'static str) -> Incoming {
        Incoming { status, headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) }
    }

    #[tokio::test]
    async fn a_token_is_given_up_before_it_ends() {
        let now = Instant::now();
        for (body, seconds) in [
            (r#"{"access_token": "t", "expires_in": 3600}"#, 3540),
            (r#"{"access_token": "t", "expires_in": "100"}"#, 90),
            (r#"{"access_token": "t", "expires_in": 0}"#, 0),
            (r#"{"access_token": "t"}"#, 270),
            (r#"{"access_token": "t", "expires_in": -5}"#, 270),
        ] {
            let token = read(&answer(200, body), now).expect(body);
            assert_eq!(token.used_until - now, Duration::from_secs(seconds), "{body}");
        }
    }

    #[tokio::test]
    async fn a_refusal_says_status_and_code_and_nothing_that_was_sent() {
        let table = [
            (
                401,
                r#"{"error": "invalid_client", "error_description": "marker is wrong"}"#,
                "answered 401 (invalid_client);",
            ),
            (400, r#"{"error": "marker"}"#, "answered 400;"),
            (500, "marker", "answered 500;"),
            (302, "", "answered 302;"),
            (200, "marker", "without a usable access_token"),
            (200, r#"{"access_token": ""}"#, "without a usable access_token"),
            (200, r#"{"access_token": "marker\n"}"#, "without a usable access_token"),
            (200, r#"{"access_token": ["marker"]}"#, "without a usable access_token"),
        ];
        for (status, body, expected) in table {
            let error = read(&answer(status, body), Instant::now()).expect_err(body).to_string();
            assert!(error.contains(expected) && !error.contains("marker"), "{error}");
        }
    }

    #[test]
    fn credentials_go_where_the_endpoint_wants_them() {
        let table = [
            (
                r#""credentials": "header", "scope": "read write""#,
                Method::POST,
                "https://a/t?x=1",
                "grant_type=client_credentials&scope=read+write",
                true,
            ),
            (
                r#""credentials": "body""#,
                Method::POST,
                "https://a/t?x=1",
                "grant_type=client_credentials&client_id=id&client_secret=s%26t",
                false,
            ),
            (
                r#""method": "GET", "parameters": {"audience": "b"}"#,
                Method::GET,
                "https://a/t?x=1&grant_type=client_credentials&audience=b",
                "",
                true,
            ),
        ];
        for (more, method, url, body, has_header) in table {
            let text = format!(
                r#"{{"oauth": {{"endpoint": "https://a/t?x=1", "client_id": "id", "client_secret": "s&t", {more}}}}}"#
            );
            let Authorization::OAuth(oauth) = Connection::from_kept(&text).expect(&text).authorization else {
                panic!("{text}")
            };
            let request = request(&oauth);
            assert_eq!(
                (request.method, request.url.as_str(), &request.body[..]),
                (method, url, body.as_bytes()),
                "{more}"
            );
            let authorization = request.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
            assert_eq!(authorization, has_header.then_some(&b"Basic aWQ6cyUyNnQ="[..]), "{more}");
        }
    }
}
