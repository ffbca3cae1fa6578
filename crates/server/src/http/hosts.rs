//! The names that requests may put into `Host`.
//!
//! DNS rebinding: a page in a browser may let its own name resolve to 127.0.0.1 and then send requests there. The
//! browser sees no other origin, but it still sends the page's name in `Host`. So only known names are accepted:
//! addresses, which nobody else can own, `localhost`, and those that are configured.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The accepted names.
#[derive(Clone, Debug, Default)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect())
    }

    /// The `Host` of a request that is not accepted. Browsers always send one, so a request without it is accepted.
    pub(super) fn stranger<'r>(&self, uri: &'r Uri, headers: &'r HeaderMap) -> Option<&'r str> {
        let named = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("?"));
        let mut hosts = uri.authority().map(Authority::as_str).into_iter().chain(named);
        hosts.find(|host| !self.knows(host))
    }

    fn knows(&self, host: &str) -> bool {
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let name = without_port(host).trim_end_matches('.').to_ascii_lowercase();
        // SDKs put these in front of the endpoint's name.
        let plain = name.strip_prefix("sync-").unwrap_or(&name);
        let plain = plain.strip_prefix("states.").unwrap_or(plain);
        [&*name, name.strip_prefix("sync-").unwrap_or(&name), plain]
            .into_iter()
            .any(|name| self.is_ours(name))
    }

    fn is_ours(&self, name: &str) -> bool {
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_local || is_address || self.0.contains(name)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // A bare IPv6 address has colons and no port.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !is_bare_v6(name) => name,
        _ => host,
    }
}

fn is_bare_v6(name: &str) -> bool {
    name.contains(':') && !name.ends_with(']')
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_names_that_lead_here_are_answered_under() {
        let hosts = Hosts::new(["perdura.internal".to_owned(), "Flow.Example.".to_owned()]);
        for ours in [
            "127.0.0.1",
            "127.0.0.1:8083",
            "[::1]:8083",
            "[::1]",
            "::1",
            "192.0.2.7:80",
            "localhost",
            "LOCALHOST.:8083",
            "states.localhost:8083",
            "sync-127.0.0.1:8083",
            "sync-localhost:8083",
            "sync-states.localhost",
            "perdura.internal:8083",
            "sync-perdura.internal",
            "states.perdura.internal",
            "sync-states.perdura.internal",
            "flow.example",
        ] {
            assert!(hosts.knows(ours), "{ours}");
        }
        for other in [
            "evil.example",
            "evil.example:8083",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "perdura.internal.evil.example",
            "evil.perdura.internal",
            "sync-evil.example",
            "localhost@evil.example",
            "",
            "?",
        ] {
            assert!(!hosts.knows(other), "{other}");
        }
    }

    #[test]
    fn every_name_of_a_request_counts() {
        let hosts = Hosts::default();
        let mut headers = HeaderMap::new();
        let plain = Uri::from_static("/");
        assert_eq!(hosts.stranger(&plain, &headers), None, "no browser sends none");
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert_eq!(hosts.stranger(&plain, &headers), None);
        assert_eq!(hosts.stranger(&Uri::from_static("http://evil/"), &headers), Some("evil"));
        headers.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert_eq!(hosts.stranger(&plain, &headers), Some("evil.example"));
    }
}
