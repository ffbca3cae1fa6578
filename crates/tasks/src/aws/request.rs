//! A request to a service: before it has an address, and with address and signature.

use crate::client::Outgoing;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use perdura_sigv4::{Credentials, Scope, Secret, Signable, escaped, sign};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Url;

/// A request to a service, without its address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: http::Method,
    /// Escaped, with a slash in front.
    pub(crate) path: String,
    /// Escaped.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The limits of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) timeout: Duration,
    pub(crate) answer_bytes_max: usize,
}

impl Request {
    /// The request at this address, unsigned.
    pub(crate) fn at(self, endpoint: &Url, bounds: Bounds) -> Outgoing {
        let mut url = endpoint.clone();
        let path = format!("{}{}", endpoint.path().trim_end_matches('/'), self.path);
        url.set_path(&path);
        url.set_query(Some(&self.query).filter(|query| !query.is_empty()).map(String::as_str));
        Outgoing {
            method: self.method,
            url,
            headers: self.headers,
            body: self.body,
            timeout: bounds.timeout,
            answer_bytes_max: bounds.answer_bytes_max,
        }
    }
}

/// The credentials and the region for signatures.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    pub(crate) region: String,
    /// Without them requests go out unsigned.
    pub(crate) credentials: Option<Credentials>,
}

impl Signer {
    /// Signs a request for a service, if there are credentials.
    pub(crate) fn sign(&self, outgoing: &mut Outgoing, service: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if let Some(credentials) = &self.credentials {
            signed(outgoing, credentials, Scope { region: &self.region, service }, now);
        }
    }
}

/// Credentials of these parts; `None`: one that is sent contains a character that headers cannot have.
pub(crate) fn credentials(
    access_key_id: String,
    secret_access_key: Secret,
    session_token: Option<Secret>,
) -> Option<Credentials> {
    let sent = [Some(access_key_id.as_str()), session_token.as_ref().map(Secret::reveal)];
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_sendable = sent.into_iter().flatten().all(is_plain);
    is_sendable.then_some(Credentials { access_key_id, secret_access_key, session_token })
}

/// Signs a request. `at` is the time, in seconds since 1970.
///
/// The signature covers everything that can change the meaning of a request: the host, the type of the body, and all of
/// Amazon's headers. It does not cover the key and the trace, so that proxies may add to them.
fn signed(outgoing: &mut Outgoing, credentials: &Credentials, scope: Scope<'_>, at: u64) {
    let host = match (outgoing.url.host_str().unwrap_or_default(), outgoing.url.port()) {
        (host, None) => host.to_owned(),
        (host, Some(port)) => format!("{host}:{port}"),
    };
    let is_signed = |name: &HeaderName| *name == CONTENT_TYPE || name.as_str().starts_with("x-amz-");
    let mut headers = vec![("host", host.as_str())];
    let written = outgoing.headers.iter().filter(|(name, _)| is_signed(name));
    headers.extend(written.map(|(name, value)| {
        (name.as_str(), value.to_str().expect("headers to be signed are made from plain text"))
    }));
    let request = Signable {
        method: outgoing.method.as_str(),
        path: outgoing.url.path(),
        query: outgoing.url.query().unwrap_or_default(),
        headers: &headers,
        body: &outgoing.body,
    };
    let added = sign(&request, credentials, scope, at);
    for (name, value) in added {
        let mut value = HeaderValue::try_from(value).expect("credentials that are sent are plain text");
        let name = HeaderName::from_static(name);
        value.set_sensitive(name == AUTHORIZATION || name == "x-amz-security-token");
        outgoing.headers.insert(name, value);
    }
}

/// Appends a parameter to a query or a form.
pub(crate) fn push_pair(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(&escaped(name, false));
    query.push('=');
    query.push_str(&escaped(value, false));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(endpoint: &str) -> Outgoing {
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0")),
            (
                HeaderName::from_static("x-amz-target"),
                HeaderValue::from_static("AWSStepFunctions.ListStateMachines"),
            ),
            (HeaderName::from_static("idempotency-key"), HeaderValue::from_static("k")),
        ]);
        let request = Request {
            method: http::Method::POST,
            path: "/".into(),
            query: String::new(),
            headers,
            body: Bytes::from_static(b"{}"),
        };
        let bounds = Bounds { timeout: Duration::from_secs(1), answer_bytes_max: 1 };
        request.at(&Url::parse(endpoint).unwrap(), bounds)
    }

    #[test]
    fn a_request_is_signed_with_its_host_and_without_its_key() {
        let mut signed_request = outgoing("http://127.0.0.1:8083");
        let (secret, token) = (Secret::new("secret"), Secret::new("token"));
        let credentials = credentials("AKIDEXAMPLE".into(), secret, Some(token)).unwrap();
        let scope = Scope { region: "us-east-1", service: "states" };
        signed(&mut signed_request, &credentials, scope, 1_772_600_767);
        let authorization = signed_request.headers[AUTHORIZATION].to_str().unwrap();
        assert!(
            authorization.starts_with(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260304/us-east-1/states/aws4_request, \
                 SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, Signature="
            ),
            "{authorization}"
        );
        assert_eq!(signed_request.headers["x-amz-date"], "20260304T050607Z");
        let shown = format!("{signed_request:?}");
        assert!(!shown.contains("\"token\"") && !shown.contains("Signature="), "{shown}");

        let mut unsigned = outgoing("http://127.0.0.1:8083");
        Signer { region: "us-east-1".into(), credentials: None }.sign(&mut unsigned, "states");
        assert!(!unsigned.headers.contains_key(AUTHORIZATION));
    }

    #[test]
    fn an_address_is_below_its_endpoint() {
        for (endpoint, path, query, expected) in [
            ("http://h:1", "/", "", "http://h:1/"),
            ("http://h:1/", "/a%20b", "x=1", "http://h:1/a%20b?x=1"),
            ("https://h/aws/", "/b/k", "", "https://h/aws/b/k"),
            ("https://h/?old=1", "/", "", "https://h/"),
        ] {
            let request = Request {
                method: http::Method::GET,
                path: path.into(),
                query: query.into(),
                headers: HeaderMap::new(),
                body: Bytes::new(),
            };
            let bounds = Bounds { timeout: Duration::from_secs(1), answer_bytes_max: 1 };
            let outgoing = request.at(&Url::parse(endpoint).unwrap(), bounds);
            assert_eq!(outgoing.url.as_str(), expected);
        }
    }
}
