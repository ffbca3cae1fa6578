//! Records the exchange of an HTTP Task, for a state under test.
//!
//! Credentials are left out unless the caller may see them: headers with one, and repetitions of one.

use super::mask::without;
use super::outcome::text_of;
use crate::client::{Incoming, Outgoing};
use http::{HeaderMap, StatusCode};
use perdura_engine::Exchange;
use perdura_engine::asl::json::{Map, Value};
use perdura_sigv4::Secret;
use std::sync::{Mutex, PoisonError};

/// Records a call. Of several requests it keeps the last.
#[derive(Debug, Default)]
pub struct Onlooker {
    /// Whether credentials may be shown.
    reveals: bool,
    seen: Mutex<Option<Exchange>>,
}

impl Onlooker {
    /// An onlooker that gets credentials only if `reveals` is set.
    pub fn new(reveals: bool) -> Self {
        Self { reveals, seen: Mutex::default() }
    }

    /// The recorded exchange.
    pub fn into_seen(self) -> Option<Exchange> {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reveals(&self) -> bool {
        self.reveals
    }

    /// The secrets to mask.
    fn hidden<'a>(&self, secrets: &'a [Secret]) -> &'a [Secret] {
        if self.reveals { &[] } else { secrets }
    }

    /// The request in the form that is shown.
    pub(super) fn request(&self, outgoing: &Outgoing, secrets: &[Secret]) -> Value {
        let secrets = self.hidden(secrets);
        let mut shown = Map::new();
        shown.insert("protocol", outgoing.url.scheme());
        shown.insert("method", outgoing.method.as_str());
        shown.insert("url", without(outgoing.url.as_str(), secrets));
        shown.insert("headers", headers(&outgoing.headers, self.reveals, secrets));
        if !outgoing.body.is_empty() {
            shown.insert("body", without(&String::from_utf8_lossy(&outgoing.body), secrets));
        }
        shown.into()
    }

    /// Records the answer to a request.
    pub(super) fn saw(&self, request: Value, scheme: &str, answer: &Incoming, secrets: &[Secret]) {
        let secrets = self.hidden(secrets);
        let mut shown = Map::new();
        shown.insert("protocol", scheme);
        shown.insert("statusCode", answer.status.to_string());
        let status = StatusCode::from_u16(answer.status).ok();
        shown
            .insert("statusMessage", status.and_then(|status| status.canonical_reason()).unwrap_or_default());
        shown.insert("headers", headers(&answer.headers, self.reveals, secrets));
        if let Ok(text) = text_of(answer) {
            shown.insert("body", without(text, secrets));
        }
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Exchange { request, response: shown.into() });
    }
}

/// Headers as one text, as on AWS: `[name: value, …]`. Headers with a secret are left out.
fn headers(headers: &HeaderMap, reveals: bool, secrets: &[Secret]) -> String {
    let shown = headers.iter().filter_map(|(name, value)| {
        let is_ours = value.is_sensitive() && !reveals;
        let value = String::from_utf8_lossy(value.as_bytes());
        let is_secret = is_ours || without(&value, secrets) != *value;
        (!is_secret).then(|| format!("{name}: {value}"))
    });
    format!("[{}]", shown.collect::<Vec<String>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::Method;
    use std::time::Duration;

    fn outgoing() -> Outgoing {
        let mut headers = HeaderMap::new();
        headers.insert("accept", "*/*".parse().unwrap());
        headers.insert("authorization", "Bearer top-secret-token".parse().unwrap());
        Outgoing {
            method: Method::POST,
            url: "https://api.example.com/pay?key=top-secret-token".parse().unwrap(),
            headers,
            body: Bytes::from_static(b"{\"amount\":1}"),
            timeout: Duration::ZERO,
            answer_bytes_max: 0,
        }
    }

    #[test]
    fn credentials_are_told_only_to_whom_they_may_be() {
        let secrets = [Secret::new("top-secret-token")];
        let hidden = Onlooker::new(false).request(&outgoing(), &secrets).to_string();
        assert!(!hidden.contains("top-secret"), "{hidden}");
        assert!(hidden.contains("[accept: */*]") && hidden.contains("amount"), "{hidden}");
        let shown = Onlooker::new(true).request(&outgoing(), &secrets).to_string();
        assert!(shown.contains("authorization: Bearer top-secret-token"), "{shown}");
    }
}
