//! A perdura server elsewhere: `/v1` over TCP, under a token.
//!
//! Each request that changes something has a key of its own. So if its answer is lost, it is repeated under that key,
//! and runs once.

use crate::unique;
use anyhow::{Context, Result, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use perdura_engine::Certainty;
use perdura_server::control::{Answer, Request};
use perdura_server::v1;
use perdura_tasks::client::{CallError, Client, Incoming, Outgoing};
use perdura_tasks::guard::Guard;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use url::{Host, Url};
use uuid::Uuid;

/// The time limit of a request, and of one that waits for a task.
const ASK_FOR_MAX: Duration = Duration::from_secs(30);
const POLL_FOR_MAX: Duration = Duration::from_secs(90);
/// Enough for a page of a thousand events with large payloads.
const ANSWER_BYTES_MAX: usize = 512 << 20;
/// How often a request is tried if its answer is lost or the server is busy, and the first pause; each next pause is
/// twice as long. A server that is silent until the timeout takes two of the tries.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(250);

/// The address of a server, and the token.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    url: Url,
    token_file: Option<PathBuf>,
}

impl Address {
    /// A token is not sent over a connection that others could read.
    pub(crate) fn new(url: Url, token_file: Option<PathBuf>) -> Result<Self> {
        if token_file.is_some() && url.scheme() != "https" && !is_this_machine(&url) {
            bail!("a token is sent to {url} over https only; over http everybody on the way could read it");
        }
        Ok(Self { url, token_file })
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// A connected server.
pub(crate) struct Far {
    url: Url,
    token: Option<HeaderValue>,
    client: Client,
    tokio: tokio::runtime::Runtime,
}

impl Far {
    pub(crate) fn new(address: &Address) -> Result<Self> {
        let Address { url, token_file } = address;
        let token = token_file.as_ref().map(|file| {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("the token in {} cannot be read", file.display()))?;
            let mut token = HeaderValue::from_str(&format!("Bearer {}", text.trim()))
                .with_context(|| format!("{} has no token", file.display()))?;
            token.set_sensitive(true);
            Ok::<_, anyhow::Error>(token)
        });
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self {
            url: url.clone(),
            token: token.transpose()?,
            client: Client::new(Guard::default()).context("cannot make a client")?,
            tokio: tokio.context("cannot start a client")?,
        })
    }

    /// Sends a request, and repeats it if that may help. A refusal is an error.
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer> {
        let key = unique::uuid()?;
        let is_poll = matches!(request, Request::Poll { .. });
        let (mut pause, mut left) = (PAUSE, TRIES);
        let deletes = matches!(request, Request::DeleteConnection { .. });
        let mut may_be_done = false;
        loop {
            let answer = self.try_once(request, &key, if is_poll { POLL_FOR_MAX } else { ASK_FOR_MAX });
            left -= 1;
            match answer {
                // The try whose answer was lost has deleted it.
                Ok(answer) if answer.status == StatusCode::NOT_FOUND && deletes && may_be_done => {
                    return Ok(Answer::Done);
                }
                // A task that was lost on the way is handed out again after a missed heartbeat.
                Err(CallError::Lost { .. }) if left > 0 && !is_poll => {}
                Err(CallError::TimedOut { .. }) if left > 1 && !is_poll => left -= 1,
                Ok(answer) if answer.status == StatusCode::SERVICE_UNAVAILABLE && left > 0 => {}
                Ok(answer) => return self.judge(request, &answer),
                Err(error) => {
                    let is_unknown = error.certainty() != Certainty::NotSent;
                    let silence = anyhow::Error::new(error).context(format!("{} does not answer", self.url));
                    return Err(match v1::Outgoing::of(request).method {
                        Method::POST if is_unknown && !is_poll => silence.context(format!(
                            "it is not known whether this was done; `perdura trace {key}` tells what was begun with its key"
                        )),
                        _ => silence,
                    });
                }
            }
            may_be_done = true;
            thread::sleep(pause);
            pause *= 2;
        }
    }

    fn try_once(&self, request: &Request, key: &Uuid, timeout: Duration) -> Result<Incoming, CallError> {
        let v1::Outgoing { method, path, body } = v1::Outgoing::of(request);
        let mut headers = HeaderMap::new();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if method == Method::POST {
            let key = HeaderValue::from_str(&key.to_string()).expect("a UUID is ASCII");
            headers.insert(HeaderName::from_static("idempotency-key"), key);
        }
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        let base = self.url.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}{path}")).expect("paths of ours are part of a URL");
        let body = body.unwrap_or_default().into();
        let outgoing = Outgoing { method, url, headers, body, timeout, answer_bytes_max: ANSWER_BYTES_MAX };
        self.tokio.block_on(self.client.send(outgoing))
    }

    fn judge(&self, request: &Request, answer: &Incoming) -> Result<Answer> {
        let is_problem =
            answer.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
        if !(200..300).contains(&answer.status) && !is_problem {
            bail!("{} is no perdura server: it gives the status {}", self.url, answer.status);
        }
        let heard = v1::heard(request, answer.status, &answer.body);
        Ok(heard.with_context(|| format!("the answer of {} is not understood", self.url))??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_others_over_https_only() {
        for (url, is_taken) in [
            ("http://127.0.0.1:8083", true),
            ("http://[::1]:8083", true),
            ("http://localhost:8083", true),
            ("https://perdura.example", true),
            ("http://perdura.example", false),
            ("http://10.0.0.1:8083", false),
            ("http://localhost.example:8083", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(Address::new(url.clone(), Some("token".into())).is_ok(), is_taken, "{url}");
            assert!(Address::new(url, None).is_ok());
        }
    }
}
