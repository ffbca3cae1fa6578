//! Makes connections: resolve the name, check the addresses, connect to exactly those, shake hands.

use super::find;
use crate::guard::{Guard, Reason};
use crate::lack;
use crate::shares::{Share, Shares};
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_service::Service;

/// The time limit for a connection, handshake included. A receiver that does not get this far was certainly not called,
/// and it is better to know that early.
const CONNECT_FOR_MAX: Duration = Duration::from_secs(10);

type BoxError = Box<dyn Error + Send + Sync>;
type Connection = <HttpsConnector<HttpConnector<Resolver>> as Service<Uri>>::Response;

/// The guard refused.
#[derive(Debug, thiserror::Error)]
#[error("{address} is not called: {reason}")]
pub(super) struct Forbidden {
    pub(super) address: IpAddr,
    pub(super) reason: Reason,
}

/// This machine lacks a resource for the moment.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Lack(String);

/// How many names are looked up at once. Each lookup blocks a thread and cannot be cancelled, so a name whose server is
/// silent must not take them all.
const LOOKUPS: Share = Share { roof: 64, each: 8 };

/// Resolves names, and returns only the addresses that the guard allows.
#[derive(Clone)]
pub(super) struct Resolver {
    guard: Guard,
    shares: Shares,
}

impl Resolver {
    fn new(guard: Guard) -> Self {
        Self { guard, shares: Shares::new(LOOKUPS) }
    }

    /// The addresses of a name that may be called.
    async fn look_up(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, BoxError> {
        let held = self.shares.enter(host).await;
        let name = host.to_owned();
        let looking = tokio::task::spawn_blocking(move || -> io::Result<Vec<SocketAddr>> {
            // Released with the thread, even if the caller no longer waits.
            let _held = held;
            Ok((&*name, port).to_socket_addrs()?.collect())
        });
        match looking.await? {
            Ok(found) => self.judged(host, found),
            Err(error) => Err(lack::no_files().map_or(error.into(), |lack| Lack(lack.to_string()).into())),
        }
    }

    /// The allowed addresses; if there is none, the reason of the first.
    fn judged(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, BoxError> {
        let mut refused = None;
        let mut allowed = Vec::with_capacity(found.len());
        for address in found {
            match self.guard.judge_host(host, address.ip()) {
                Ok(()) => allowed.push(address),
                Err(reason) => refused = refused.or(Some(Forbidden { address: address.ip(), reason })),
            }
        }
        match refused {
            Some(forbidden) if allowed.is_empty() => Err(forbidden.into()),
            Some(_) | None => Ok(allowed),
        }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        Box::pin(async move { Ok(resolver.look_up(name.as_str(), 0).await?.into_iter()) })
    }
}

/// The versions of HTTP that are offered to a receiver over TLS.
#[derive(Clone, Copy)]
pub(super) enum Versions {
    /// HTTP/1.1 alone.
    First,
    All,
}

/// Connects within a time limit.
#[derive(Clone)]
pub(super) struct Connector {
    resolver: Resolver,
    inner: HttpsConnector<HttpConnector<Resolver>>,
}

impl Connector {
    pub(super) fn new(
        guard: Guard,
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
        versions: Versions,
    ) -> Result<Self, rustls::Error> {
        let resolver = Resolver::new(guard);
        let mut tcp = HttpConnector::new_with_resolver(resolver.clone());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_mins(1)));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls(authorities)?).https_or_http();
        let inner = match versions {
            Versions::First => builder.enable_http1().wrap_connector(tcp),
            Versions::All => builder.enable_all_versions().wrap_connector(tcp),
        };
        Ok(Self { resolver, inner })
    }
}

/// Trusts these authorities and those of the system. If there are none, calls over TLS fail and say so; plain calls
/// need none.
fn tls(
    authorities: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<ClientConfig, rustls::Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, unreadable) = roots.add_parsable_certificates(found.certs.into_iter().chain(authorities));
    if taken == 0 {
        tracing::warn!(
            unreadable,
            "no certificate authorities found, so that every https call will fail; install ca-certificates or set \
             SSL_CERT_FILE"
        );
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

impl Service<Uri> for Connector {
    type Response = Connection;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Connection, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if let Some(forbidden) = literal(&uri).and_then(|address| judged(&self.resolver.guard, address).err())
        {
            return Box::pin(std::future::ready(Err(forbidden.into())));
        }
        let connecting = self.inner.call(uri.clone());
        let resolver = self.resolver.clone();
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_FOR_MAX, connecting).await {
                Ok(Ok(connected)) => Ok(connected),
                Ok(Err(error)) => Err(or_lack(error, &uri, &resolver).await),
                Err(_elapsed) => {
                    Err(format!("it did not take the connection within {} s", CONNECT_FOR_MAX.as_secs())
                        .into())
                }
            }
        })
    }
}

/// The error, or the resource that this machine lacked.
async fn or_lack(error: BoxError, uri: &Uri, resolver: &Resolver) -> BoxError {
    let Some(cause) = find::<io::Error>(&*error) else { return error };
    if lack::is_lack(cause) {
        return Lack(cause.to_string()).into();
    }
    if !lack::may_lack_ports(cause) {
        return error;
    }
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let addresses = match (literal(uri), uri.host()) {
        (Some(address), _) => vec![SocketAddr::new(address, port)],
        (None, Some(host)) => resolver.look_up(host, port).await.unwrap_or_default(),
        (None, None) => Vec::new(),
    };
    if lack::lacks_ports(&addresses).await { Lack(cause.to_string()).into() } else { error }
}

fn judged(guard: &Guard, address: IpAddr) -> Result<(), Forbidden> {
    guard.judge(address).map_err(|reason| Forbidden { address, reason })
}

/// An IP address is not looked up, and so is checked here. Decimal, octal and shortened forms do not occur here:
/// parsing the URL has normalised them.
fn literal(uri: &Uri) -> Option<IpAddr> {
    let host = uri.host()?;
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(allow: &[&str], host: &str, found: &[&str]) -> Result<Vec<String>, String> {
        let resolver = Resolver::new(Guard::new(allow).expect("valid"));
        let found = found.iter().map(|address| SocketAddr::new(address.parse().expect(address), 0)).collect();
        let allowed = resolver.judged(host, found).map_err(|error| error.to_string())?;
        Ok(allowed.iter().map(|address| address.ip().to_string()).collect())
    }

    #[test]
    fn a_name_leads_only_where_an_address_may() {
        let refused = |address: &str| Err(format!("{address} is not called: it is a link-local address"));
        let same = |addresses: &[&str]| Ok(addresses.iter().map(ToString::to_string).collect());
        assert_eq!(resolved(&[], "rebound.test", &["169.254.169.254"]), refused("169.254.169.254"));
        assert_eq!(resolved(&[], "mixed.test", &["fe80::1", "10.0.0.1"]), same(&["10.0.0.1"]));
        assert_eq!(resolved(&["meta.test"], "meta.test", &["169.254.169.254"]), same(&["169.254.169.254"]));
        assert_eq!(resolved(&["meta.test"], "other.test", &["fe80::1"]), refused("fe80::1"));
        assert_eq!(resolved(&["169.254.0.0/16"], "any.test", &["169.254.1.1"]), same(&["169.254.1.1"]));
        assert_eq!(resolved(&[], "nowhere.test", &[]), same(&[]));
    }
}
