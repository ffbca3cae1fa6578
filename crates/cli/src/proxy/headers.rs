//! Which headers the proxy passes on, and which it adds.
//!
//! Headers of one connection stay on it (RFC 9110, 7.6.1). The client's own `Forwarded` headers are replaced, because
//! anybody can write them, unless a trusted proxy in front has written them.

use clap::ValueEnum;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::net::IpAddr;

/// How to treat `Forwarded` and `X-Forwarded-…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Forwarded {
    /// What the client sent is dropped, and the proxy says who the client is.
    Replace,
    /// The client is a trusted proxy: its address is added to what it says.
    Append,
    /// It is passed on as it is.
    Keep,
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const BY: &str = "1.1 perdura";

/// Removes the headers of the connection, and those that its `Connection` lines name.
fn leave_connection(headers: &mut HeaderMap) {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let named = lines.flat_map(|line| line.split(',')).filter_map(|name| name.trim().parse().ok());
    // A `Connection` line must not remove a header that the receiver needs.
    let is_end_to_end = |name: &HeaderName| *name == HOST || name.as_str() == "idempotency-key";
    let named: Vec<HeaderName> = named.filter(|name| !is_end_to_end(name)).collect();
    let always = [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TE, TRANSFER_ENCODING, UPGRADE];
    for name in named.iter().chain(&always) {
        headers.remove(name);
    }
}

/// Whether a head requests or accepts a WebSocket.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, token: &str| {
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|text| text.trim().eq_ignore_ascii_case(token))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

/// The data about the client.
pub(crate) struct From {
    pub(crate) address: IpAddr,
    pub(crate) forwarded: Forwarded,
    pub(crate) keeps_host: bool,
}

/// Prepares the headers of a request for the upstream.
pub(crate) fn onward(headers: &mut HeaderMap, from: &From) {
    leave_connection(headers);
    for name in [EXPECT, PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
    append(headers, &VIA, BY);
    let host = headers.get(HOST).cloned();
    if !from.keeps_host {
        headers.remove(HOST);
    }
    match from.forwarded {
        Forwarded::Keep => return,
        Forwarded::Append => {}
        Forwarded::Replace => {
            for name in [FORWARDED, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO] {
                headers.remove(name);
            }
        }
    }
    let address = from.address.to_canonical();
    append(headers, &FORWARDED_FOR, &address.to_string());
    headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static("http"));
    let node = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    let named = host.as_ref().and_then(|host| host.to_str().ok()).filter(|host| is_plain_host(host));
    let told = named.map_or_else(String::new, |host| format!(";host=\"{host}\""));
    append(headers, &FORWARDED, &format!("for={node}{told};proto=http"));
    if let Some(host) = host {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
}

/// Whether it has no character that ends quotes, or that could start a path or end user information.
fn is_plain_host(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}

/// Whether it is a valid host.
pub(crate) fn is_host(value: &HeaderValue) -> bool {
    value.to_str().is_ok_and(|host| is_plain_host(host) && host.parse::<Authority>().is_ok())
}

/// Prepares the headers of an answer for the client.
pub(crate) fn back(headers: &mut HeaderMap) {
    // Where both lengths stand, the body was read by the chunks, and the other one is not its length.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    leave_connection(headers);
    headers.remove(PROXY_AUTHENTICATE);
    append(headers, &VIA, BY);
}

/// Appends to a list header. Lines that are not text stay lines of their own.
fn append(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    let lines: Vec<&str> = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
    let all = lines.into_iter().chain([value]).collect::<Vec<_>>().join(", ");
    if let Ok(all) = HeaderValue::try_from(all) {
        headers.insert(name, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let parsed = lines.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        });
        let mut headers = HeaderMap::new();
        parsed.for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let line =
            |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        let mut lines: Vec<String> = headers.iter().map(line).collect();
        lines.sort();
        lines
    }

    fn from(forwarded: Forwarded, keeps_host: bool) -> From {
        From { address: "192.0.2.7".parse().unwrap(), forwarded, keeps_host }
    }

    #[test]
    fn what_belongs_to_the_connection_stays_on_it() {
        let mut sent = headers(&[
            ("connection", "close, x-secret"),
            ("connection", "X-Other, host, idempotency-key"),
            ("x-secret", "1"),
            ("x-other", "2"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eDp5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("host", "shop.example"),
            ("idempotency-key", "k"),
            ("authorization", "Bearer t"),
            ("x-mine", "stays"),
        ]);
        onward(&mut sent, &from(Forwarded::Keep, true));
        let expected = [
            "authorization: Bearer t",
            "host: shop.example",
            "idempotency-key: k",
            "via: 1.1 perdura",
            "x-mine: stays",
        ];
        assert_eq!(shown(&sent), expected);
        let mut answered =
            headers(&[("connection", "x-a"), ("x-a", "1"), ("via", "1.1 a"), ("etag", "\"1\"")]);
        back(&mut answered);
        assert_eq!(shown(&answered), ["etag: \"1\"", "via: 1.1 a, 1.1 perdura"]);
        let mut both =
            headers(&[("transfer-encoding", "chunked"), ("content-length", "9"), ("etag", "\"1\"")]);
        back(&mut both);
        assert_eq!(shown(&both), ["etag: \"1\"", "via: 1.1 perdura"], "the chunks said how long it is");
    }

    #[test]
    fn who_the_client_is_is_not_what_the_client_says() {
        let said = [
            ("host", "shop.example:81"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=10.0.0.1"),
        ];
        let mut replaced = headers(&said);
        onward(&mut replaced, &from(Forwarded::Replace, false));
        let expected = [
            "forwarded: for=192.0.2.7;host=\"shop.example:81\";proto=http",
            "via: 1.1 perdura",
            "x-forwarded-for: 192.0.2.7",
            "x-forwarded-host: shop.example:81",
            "x-forwarded-proto: http",
        ];
        assert_eq!(shown(&replaced), expected);
        let mut appended = headers(&said);
        onward(&mut appended, &from(Forwarded::Append, false));
        let expected = [
            "forwarded: for=10.0.0.1, for=192.0.2.7;host=\"shop.example:81\";proto=http",
            "via: 1.1 perdura",
            "x-forwarded-for: 10.0.0.1, 192.0.2.7",
            "x-forwarded-host: shop.example:81",
            "x-forwarded-proto: https",
        ];
        assert_eq!(shown(&appended), expected);
        let mut odd = headers(&[("host", "a\";for=evil")]);
        onward(&mut odd, &from(Forwarded::Replace, false));
        assert_eq!(odd[FORWARDED], "for=192.0.2.7;proto=http");
    }

    #[test]
    fn only_a_websocket_is_an_upgrade_that_passes() {
        let asks =
            |connection, upgrade| is_websocket(&headers(&[("connection", connection), ("upgrade", upgrade)]));
        assert!(asks("keep-alive, Upgrade", "WebSocket"));
        assert!(!asks("upgrade", "h2c") && !asks("close", "websocket"));
    }
}
