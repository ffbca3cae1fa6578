//! Proxies in front of the server, and whose requests they pass on.
//!
//! A proxy that is trusted says in `X-Forwarded-For` who asked: each on the way adds whom it got the request from, at the end. So
//! from the end on, the first that is no trusted proxy is the client; what stands before it was written by the client, and
//! says nothing.

use axum::http::HeaderMap;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The header, in which each proxy adds whom it got the request from.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The addresses that are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<Network>);

/// All addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    first: IpAddr,
    bits: u32,
}

impl FromStr for Proxies {
    type Err = String;

    /// Addresses and networks, such as `10.0.0.0/8`, with commas between.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address and no network such as 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(at, bits)| (at, Some(bits)));
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let whole = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(whole), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > whole { Err(wrong()) } else { Ok(Self { first, bits }) }
    }
}

impl Network {
    fn has(self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let differ = first.to_bits() ^ address.to_bits();
                differ.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let differ = first.to_bits() ^ address.to_bits();
                differ.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl Proxies {
    /// There are none.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.has(address))
    }

    /// Who asked: the peer, or for whom a trusted proxy passes the request on. Where that one does not say it, it is the proxy.
    pub(super) fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        if !self.trust(peer.ip()) {
            return peer;
        }
        let values = headers.get_all(FORWARDED_FOR).iter().rev();
        let said = values.flat_map(|value| value.to_str().unwrap_or("?").rsplit(','));
        let mut nearest = peer;
        for one in said {
            let Some(address) = read(one.trim()) else { return nearest };
            if !self.trust(address.ip()) {
                return address;
            }
            nearest = address;
        }
        nearest
    }
}

/// An address with a port or without; without, the port is 0.
fn read(text: &str) -> Option<SocketAddr> {
    let bare = || text.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0));
    text.parse().ok().or_else(bare)
}

/// An address as people are told it.
pub fn told(address: SocketAddr) -> String {
    if address.port() == 0 { address.ip().to_string() } else { address.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &str, peer: &str, said: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in said {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        told(proxies.parse::<Proxies>().unwrap().client(SocketAddr::new(peer.parse().unwrap(), 7), &headers))
    }

    #[test]
    fn whom_a_trusted_proxy_names_is_the_client_and_nobody_else_names_one() {
        let ours = "127.0.0.1, 10.0.0.0/8, fd00::/8";
        assert_eq!(client(ours, "127.0.0.1", &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(client(ours, "127.0.0.1", &["203.0.113.9:4711"]), "203.0.113.9:4711");
        assert_eq!(client(ours, "fd12::1", &["2001:db8::1"]), "2001:db8::1");
        assert_eq!(client(ours, "::ffff:10.1.2.3", &["[2001:db8::1]:9"]), "[2001:db8::1]:9");
        assert_eq!(client(ours, "198.51.100.1", &["203.0.113.9"]), "198.51.100.1:7", "it is not trusted");
        assert_eq!(client("", "127.0.0.1", &["203.0.113.9"]), "127.0.0.1:7");
    }

    #[test]
    fn what_the_client_wrote_itself_counts_for_nothing() {
        let ours = "127.0.0.1,10.0.0.0/8";
        assert_eq!(client(ours, "127.0.0.1", &["127.0.0.1, 203.0.113.9, 10.0.0.2"]), "203.0.113.9");
        assert_eq!(
            client(ours, "127.0.0.1", &["1.1.1.1", "203.0.113.9", "10.0.0.2,10.0.0.3"]),
            "203.0.113.9"
        );
        assert_eq!(client(ours, "127.0.0.1", &["203.0.113.9, unknown, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(client(ours, "127.0.0.1", &["203.0.113.9, "]), "127.0.0.1:7");
        assert_eq!(client(ours, "127.0.0.1", &[]), "127.0.0.1:7");
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for wrong in ["10.0.0.0/33", "::/129", "proxy.example", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Proxies>().is_err(), "{wrong}");
        }
        let all: Proxies = "0.0.0.0/0, ::/0".parse().unwrap();
        assert!(all.trust("203.0.113.9".parse().unwrap()) && all.trust("2001:db8::1".parse().unwrap()));
    }
}
