//! Calls over HTTP: AWS JSON 1.0 to one address, signed if there are keys.
//!
//! A busy server is asked again a few times, and so is one whose answer was lost: every call of [`super::Remote`] may
//! be repeated, as starts have a name and redrives a token.

use super::{Api, fault, read, strange};
use crate::unique;
use anyhow::{Context, Result, bail};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use perdura_asl::json::Value;
use perdura_runtime::RealClock;
use perdura_server::{Refusal, RefusalKind};
use perdura_sigv4::{Credentials, Scope, Secret, Signable, sign};
use perdura_tasks::client::{CallError, Client, Incoming, Outgoing};
use perdura_tasks::guard::Guard;
use std::thread;
use std::time::Duration;
use url::{Position, Url};

/// The service name in signatures.
const SERVICE: &str = "states";
/// The time limit of one call.
const CALL_FOR_MAX: Duration = Duration::from_secs(30);
/// Enough for a page of a thousand events with large payloads.
const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;
/// How often a busy server is asked, and the first pause; each next pause is twice as long.
const TRIES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_millis(250);
/// The default region.
const REGION: &str = "us-east-1";

/// The address of a server, and the credentials.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) region: String,
    /// Without them requests are not signed.
    pub(crate) credentials: Option<Credentials>,
}

impl Endpoint {
    /// An endpoint with this address, and region and keys from the environment. AWS's own addresses contain their
    /// region.
    pub(crate) fn new(
        url: Url,
        region: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let named = region.map(str::to_owned).or_else(|| region_of(&url).map(str::to_owned));
        let region = named.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let credentials = match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            (Some(access_key_id), Some(secret)) => Some(Credentials {
                access_key_id,
                secret_access_key: Secret::new(secret),
                session_token: variable("AWS_SESSION_TOKEN").map(Secret::new),
            }),
            (None, None) => None,
            (Some(_), None) => {
                bail!("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not: set both, or neither")
            }
            (None, Some(_)) => {
                bail!("AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not: set both, or neither")
            }
        };
        Ok(Self { url, region: region.unwrap_or_else(|| REGION.to_owned()), credentials })
    }
}

/// The region in `states.eu-west-1.amazonaws.com` and the like.
fn region_of(url: &Url) -> Option<&str> {
    let rest = url.host_str()?.split_once("states.")?.1;
    let (region, domain) = rest.split_once('.')?;
    matches!(domain, "amazonaws.com" | "amazonaws.com.cn").then_some(region)
}

/// A connected server.
pub(crate) struct Http {
    endpoint: Endpoint,
    client: Client,
    tokio: tokio::runtime::Runtime,
    clock: RealClock,
}

/// The result of one try.
enum Tried {
    Answered(Value),
    /// A retry may help.
    Busy(anyhow::Error),
}

impl Http {
    pub(crate) fn new(endpoint: Endpoint) -> Result<Self> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self {
            endpoint,
            client: Client::new(Guard::default()).context("cannot make a client")?,
            tokio: tokio.context("cannot start a client")?,
            clock: RealClock::default(),
        })
    }

    fn try_once(&self, action: &str, body: &str) -> Result<Tried> {
        let outgoing = Outgoing {
            method: Method::POST,
            url: self.endpoint.url.clone(),
            headers: self.headers(action, body)?,
            body: body.to_owned().into(),
            timeout: CALL_FOR_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        match self.tokio.block_on(self.client.send(outgoing)) {
            Ok(answer) => judge(&answer),
            Err(error @ CallError::Lost { .. }) => Ok(Tried::Busy(error.into())),
            Err(
                error @ (CallError::Forbidden { .. }
                | CallError::NotConnected { .. }
                | CallError::TimedOut { .. }
                | CallError::TooLarge { .. }),
            ) => Err(error.into()),
        }
    }

    fn headers(&self, action: &str, body: &str) -> Result<HeaderMap> {
        let Endpoint { url, region, credentials } = &self.endpoint;
        let target = format!("AWSStepFunctions.{action}");
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let plain =
            [("content-type", "application/x-amz-json-1.0"), ("host", host), ("x-amz-target", &target)];
        let signed = credentials.as_ref().map(|credentials| {
            let request = Signable {
                method: "POST",
                path: url.path(),
                query: url.query().unwrap_or_default(),
                headers: &plain,
                body: body.as_bytes(),
            };
            let at = self.clock.moment().now.0.div_euclid(1_000).unsigned_abs();
            sign(&request, credentials, Scope { region, service: SERVICE }, at)
        });
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
        headers.insert(HeaderName::from_static("x-amz-target"), HeaderValue::from_str(&target)?);
        for (name, value) in signed.into_iter().flatten() {
            let mut value = HeaderValue::from_str(&value)
                .with_context(|| format!("the credentials do not fit the header {name}"))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }
}

impl Api for Http {
    fn call(&mut self, action: &str, body: Value) -> Result<Value> {
        let body = body.to_string();
        let mut pause = PAUSE;
        for _ in 1..TRIES_MAX {
            match self.try_once(action, &body)? {
                Tried::Answered(value) => return Ok(value),
                Tried::Busy(_) => thread::sleep(pause),
            }
            pause *= 2;
        }
        match self.try_once(action, &body)? {
            Tried::Answered(value) => Ok(value),
            Tried::Busy(error) => Err(error),
        }
    }

    fn unique(&mut self) -> Result<String> {
        // A UUID, as Step Functions uses for unnamed executions.
        Ok(unique::uuid()?.to_string())
    }

    fn region(&self) -> &str {
        &self.endpoint.region
    }
}

/// An answer, a refusal, or neither.
fn judge(answer: &Incoming) -> Result<Tried> {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = std::str::from_utf8(&answer.body).unwrap_or_default();
    let value = perdura_asl::json::parse(text);
    if status.is_success() {
        return value.map(Tried::Answered).map_err(|_| strange("what it says is no JSON"));
    }
    let value = value.unwrap_or(Value::Null);
    let header = answer.headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok());
    let code = read::maybe_text(&value, "__type").or_else(|| header.map(Into::into));
    let error = match code {
        Some(code) => {
            let message = ["message", "Message"].iter().find_map(|name| read::maybe_text(&value, name));
            fault::refusal(fault::code(&code), &message.unwrap_or_default()).into()
        }
        None => strange(&format!("it gives the status {status}")),
    };
    let is_busy =
        matches!(error.downcast_ref::<Refusal>(), Some(Refusal { kind: RefusalKind::Unavailable, .. }));
    // A 500 without a code means that the server did not understand the request.
    let is_away = status.is_server_error() && status != StatusCode::INTERNAL_SERVER_ERROR;
    if is_busy || is_away { Ok(Tried::Busy(error)) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn the_region_is_named_by_flag_address_or_environment() {
        let set = |name: &str| (name == "AWS_DEFAULT_REGION").then(|| "ap-south-1".to_owned());
        for (address, flag, expected) in [
            ("http://127.0.0.1:8083", Some("eu-north-1"), "eu-north-1"),
            ("http://127.0.0.1:8083", None, "ap-south-1"),
            ("https://states.eu-west-1.amazonaws.com", None, "eu-west-1"),
            ("https://sync-states.eu-west-1.amazonaws.com", None, "eu-west-1"),
            ("https://states.cn-north-1.amazonaws.com.cn", None, "cn-north-1"),
            ("https://states.example.com", None, "ap-south-1"),
        ] {
            assert_eq!(Endpoint::new(url(address), flag, set).unwrap().region, expected, "{address}");
        }
        let bare = Endpoint::new(url("http://127.0.0.1:8083"), None, |_| None).unwrap();
        assert_eq!((&*bare.region, bare.credentials.is_none()), ("us-east-1", true));
    }

    #[test]
    fn half_a_pair_of_keys_is_refused_without_showing_it() {
        for half in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            let set = |name: &str| (name == half).then(|| "hunter2".to_owned());
            let error = Endpoint::new(url("http://127.0.0.1:1"), None, set).unwrap_err().to_string();
            assert!(error.contains("set both") && !error.contains("hunter2"), "{error}");
        }
    }

    fn incoming(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Incoming {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Incoming { status, headers: headers.collect(), body: body.to_owned().into() }
    }

    #[test]
    fn what_is_no_success_is_a_refusal_in_the_servers_words_or_a_doubt_about_the_address() {
        let refused =
            r#"{"__type": "com.amazonaws.sfn#ExecutionDoesNotExist", "message": "Execution Does Not Exist"}"#;
        for (answer, expected) in [
            (incoming(400, &[], refused), "ExecutionDoesNotExist: Execution Does Not Exist"),
            (
                incoming(403, &[("x-amzn-errortype", "AccessDenied")], r#"{"Message": "no"}"#),
                "AccessDenied: no",
            ),
            (incoming(500, &[], "<html>"), "it gives the status 500"),
            (incoming(404, &[], "<html>"), "it gives the status 404 Not Found; is the URL"),
            (incoming(200, &[], "<html>"), "is no JSON; is the URL"),
        ] {
            let error = judge(&answer).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        for busy in [incoming(400, &[], r#"{"__type": "ThrottlingException"}"#), incoming(503, &[], "later")]
        {
            assert!(matches!(judge(&busy), Ok(Tried::Busy(_))), "{busy:?}");
        }
        assert!(matches!(judge(&incoming(200, &[], "{}")), Ok(Tried::Answered(_))));
    }
}
