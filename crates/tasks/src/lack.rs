//! Temporary shortages of this machine: files, memory, processes, local ports.
//!
//! A shortage says nothing about a call, and no receiver was called: it is not an outcome. The call is put off and
//! retried until it is no longer wanted or its own time is up, and the workflow does not see it. Operators do: in the
//! log, one line in a while, and in a counter.

use perdura_runtime::Seldom;
use rustix::io::Errno;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpStream, UdpSocket};

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// The time limit for finding out whether ports are lacking.
const PROBES_FOR: Duration = Duration::from_secs(1);

/// Whether an error is a temporary shortage of this machine.
pub(crate) fn is_lack(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::AGAIN))
}

/// Whether an error may mean that there are no local ports left. It may also mean that the address is unreachable from
/// here; see [`lacks_ports`].
pub(crate) fn may_lack_ports(error: &io::Error) -> bool {
    error.raw_os_error().map(Errno::from_raw_os_error) == Some(Errno::ADDRNOTAVAIL)
}

/// The error if no file can be opened: looking a name up needs some, and its own error then hides the reason.
pub(crate) fn no_files() -> Option<io::Error> {
    std::fs::File::open("/dev/null").err().filter(is_lack)
}

/// Whether connections to one of these addresses fail for lack of ports. Datagrams have ports of their own, so an
/// address that accepts them is reachable.
pub(crate) async fn lacks_ports(addresses: &[SocketAddr]) -> bool {
    for address in addresses {
        let connected = tokio::time::timeout(PROBES_FOR, TcpStream::connect(address)).await;
        match connected {
            Ok(Err(error)) if may_lack_ports(&error) && takes_datagrams(*address).await => return true,
            // There are ports again.
            Ok(Ok(_)) => return true,
            Ok(Err(_)) | Err(_) => {}
        }
    }
    false
}

async fn takes_datagrams(address: SocketAddr) -> bool {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    match UdpSocket::bind(any).await {
        Ok(socket) => socket.connect(address).await.is_ok(),
        Err(_) => false,
    }
}

/// Pauses between attempts: each twice as long as the one before, up to a limit, with jitter.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(PAUSES.0)
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let whole = self.0;
        self.0 = (whole * 2).min(PAUSES.1);
        let mut chance = [128];
        // Without randomness all pauses are equal, which is acceptable.
        let _ = getrandom::fill(&mut chance);
        Some(whole / 2 + whole.mul_f64(f64::from(chance[0]) / 510.0))
    }
}

/// Counts calls that were put off. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PutOff(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    all: Arc<AtomicU64>,
    line: Seldom,
}

impl PutOff {
    /// The counter, for metrics.
    pub(crate) fn count(&self) -> Arc<AtomicU64> {
        self.0.all.clone()
    }

    /// Counts and logs one more call that is put off, with the reason.
    pub(crate) fn tell(&self, reason: &str) {
        self.0.all.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = self.0.line.turn() {
            let calls = left_out + 1;
            tracing::warn!(calls, reason, "calls are put off, for this machine lacks what they need");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_is_told_from_what_a_call_came_to() {
        for (errno, lack, ports) in [
            (Errno::MFILE, true, false),
            (Errno::NFILE, true, false),
            (Errno::NOMEM, true, false),
            (Errno::NOBUFS, true, false),
            (Errno::AGAIN, true, false),
            (Errno::ADDRNOTAVAIL, false, true),
            (Errno::CONNREFUSED, false, false),
            (Errno::NOENT, false, false),
            (Errno::ACCESS, false, false),
        ] {
            let error = io::Error::from(errno);
            assert_eq!((is_lack(&error), may_lack_ports(&error)), (lack, ports), "{error}");
        }
        assert!(no_files().is_none());
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let all: Vec<Duration> = Pauses::default().take(20).collect();
        assert!(all[0] >= PAUSES.0 / 2 && all[0] <= PAUSES.0, "{all:?}");
        assert!(all.iter().all(|pause| *pause <= PAUSES.1) && all[19] >= PAUSES.1 / 2, "{all:?}");
    }

    #[tokio::test]
    async fn an_address_at_which_nobody_listens_does_not_lack_ports() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("bound");
        drop(free);
        assert!(!lacks_ports(&[address]).await);
    }
}
