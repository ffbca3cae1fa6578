//! Bounds on connections, in all and per address.
//!
//! Each takes a file, and so do the store and every outgoing call. So connections get half of the files that
//! the process may open, and one address half of that. Where there is no place for a new one, the oldest that is not
//! being answered is closed: it is idle, or has not sent its request.

use super::patience::Progress;
use perdura_runtime::Seldom;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most, however many files there are. Polling workers count too.
const CONNECTIONS_MAX: usize = 50_000;
/// The fewest that make sense.
const CONNECTIONS_MIN: usize = 16;

/// Places for connections.
pub struct Connections {
    most: usize,
    of_one_max: usize,
    seats: Mutex<Seats>,
}

#[derive(Default)]
struct Seats {
    next: u64,
    count: usize,
    /// The oldest first.
    by_address: HashMap<IpAddr, BTreeMap<u64, Arc<Seat>>>,
}

/// One connection.
#[derive(Default)]
pub struct Seat {
    pub progress: Progress,
    leave: Notify,
}

impl Seat {
    /// Waits until another connection needs the place.
    pub async fn is_needed(&self) {
        self.leave.notified().await;
    }
}

/// A connection's place, until this is dropped.
pub struct Taken {
    connections: Arc<Connections>,
    address: IpAddr,
    number: u64,
    pub seat: Arc<Seat>,
}

impl Connections {
    /// For a process that may open so many files.
    pub fn of_files(files: u64) -> Self {
        let half = usize::try_from(files / 2).unwrap_or(usize::MAX);
        Self::new(half.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX))
    }

    fn new(most: usize) -> Self {
        Self { most, of_one_max: most / 2, seats: Mutex::default() }
    }

    /// A place for a connection from an address, which many may share that a proxy passes on. `None`: all that could make
    /// room are being answered.
    pub fn take(self: &Arc<Self>, address: IpAddr, is_shared: bool) -> Option<Taken> {
        static LINE: Seldom = Seldom::new();
        let whose = neighbourhood(address);
        let mut seats = self.seats();
        let of_one = seats.by_address.get(&whose).map_or(0, BTreeMap::len);
        let of_one_max = if is_shared { self.most } else { self.of_one_max };
        let is_full = of_one >= of_one_max && !seats.make_room(whose)
            || seats.count >= self.most && !seats.largest().is_some_and(|largest| seats.make_room(largest));
        if is_full {
            if let Some(left_out) = LINE.turn() {
                let most = self.most;
                tracing::warn!(%address, most, of_one_max, left_out, "there is no place for a connection");
            }
            return None;
        }
        let (number, seat) = (seats.next, Arc::<Seat>::default());
        seats.next += 1;
        seats.count += 1;
        seats.by_address.entry(whose).or_default().insert(number, seat.clone());
        Some(Taken { connections: self.clone(), address: whose, number, seat })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    /// The address with the most connections.
    fn largest(&self) -> Option<IpAddr> {
        self.by_address.iter().max_by_key(|(_, seats)| seats.len()).map(|(address, _)| *address)
    }

    /// Closes the oldest connection of an address that is not being answered.
    fn make_room(&mut self, address: IpAddr) -> bool {
        let Some(seats) = self.by_address.get(&address) else { return false };
        let resting = seats.iter().find(|(_, seat)| seat.progress.is_between());
        let Some((number, seat)) = resting.map(|(number, seat)| (*number, seat.clone())) else {
            return false;
        };
        seat.leave.notify_one();
        self.remove(address, number);
        true
    }

    fn remove(&mut self, address: IpAddr, number: u64) {
        let Some(seats) = self.by_address.get_mut(&address) else { return };
        if seats.remove(&number).is_some() {
            self.count -= 1;
        }
        if seats.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.connections.seats().remove(self.address, self.number);
    }
}

/// One client of IPv6 has a whole /64 network.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::patience::Answering;
    use super::*;

    fn take(connections: &Arc<Connections>, address: &str) -> Option<Taken> {
        connections.take(address.parse().expect("an address"), false)
    }

    /// A connection that is being answered.
    fn busy(connections: &Arc<Connections>, address: &str) -> Option<(Taken, Answering)> {
        let taken = take(connections, address)?;
        let answering = taken.seat.progress.begin();
        Some((taken, answering))
    }

    #[test]
    fn connections_leave_files_to_the_store_and_to_calls() {
        for (files, most) in [(0, 16), (256, 128), (1_024, 512), (20_000, 10_000), (u64::MAX, 50_000)] {
            assert_eq!(Connections::of_files(files).most, most, "{files}");
        }
    }

    #[test]
    fn one_address_cannot_take_all_places() {
        let connections = Arc::new(Connections::new(4));
        let first = busy(&connections, "192.0.2.1");
        let second = busy(&connections, "::ffff:192.0.2.1");
        assert!(first.is_some() && second.is_some());
        assert!(take(&connections, "192.0.2.1").is_none(), "it has its half");
        let (other, neighbour) = (busy(&connections, "2001:db8::1"), busy(&connections, "2001:db8::2"));
        assert!(other.is_some() && neighbour.is_some());
        assert!(take(&connections, "2001:db8::3").is_none(), "a network is one address");
        assert!(take(&connections, "198.51.100.1").is_none(), "all are being answered");
        drop(first);
        assert!(take(&connections, "192.0.2.1").is_some(), "one of its own is gone");
        drop((second, other, neighbour));
        assert!(connections.seats().by_address.is_empty() && connections.seats().count == 0);
    }

    #[tokio::test]
    async fn the_oldest_that_is_not_answered_makes_room_for_a_new_one() {
        let connections = Arc::new(Connections::new(4));
        let _busy = busy(&connections, "192.0.2.1");
        let idle = take(&connections, "192.0.2.1").expect("there is a place");
        let newer = take(&connections, "192.0.2.1").expect("the idle one makes room");
        idle.seat.is_needed().await;
        drop(idle);
        let (_a, _b) = (busy(&connections, "198.51.100.1"), busy(&connections, "203.0.113.1"));
        assert_eq!(connections.seats().count, 4);
        let _c = busy(&connections, "203.0.113.1").expect("whoever has the most makes room");
        newer.seat.is_needed().await;
        assert_eq!(connections.seats().count, 4);
    }
}
