//! The client that stores and web servers are reached with.
//!
//! It is another one than that of the HTTP Task, since it hands out answers as they come and not whole. It goes where
//! the same [`Guard`] lets it: names are judged by the addresses that they lead to, addresses in the settings when they
//! are read, and redirects are not followed. So nothing is reached that was not judged.

use crate::client::tls;
use crate::guard::Guard;
use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// How long it may take until a connection stands.
const CONNECT_FOR_MAX: Duration = Duration::from_secs(10);

/// How long an answer may pause.
const SILENT_FOR_MAX: Duration = Duration::from_mins(1);

/// A client that reaches only what the guard lets through.
pub(super) fn client(guard: &Guard) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let client = Client::builder()
        .tls_backend_preconfigured(tls([])?)
        .dns_resolver(Judged(guard.clone()))
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_FOR_MAX)
        .read_timeout(SILENT_FOR_MAX)
        .build()?;
    Ok(client)
}

/// Looks names up, and keeps the addresses that may be called.
struct Judged(Guard);

impl Resolve for Judged {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let host = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            let refused = found.iter().find_map(|address| guard.judge_host(host, address.ip()).err());
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| guard.judge_host(host, address.ip()).is_ok()).collect();
            match refused {
                Some(reason) if allowed.is_empty() => {
                    let what =
                        format!("{host} is not called: {reason}; if it is meant, allow it under [http]");
                    Err(io::Error::new(io::ErrorKind::PermissionDenied, what).into())
                }
                Some(_) | None => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}
