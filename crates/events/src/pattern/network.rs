//! Networks of IP addresses, as `10.0.0.0/8` and `2001:db8::/32`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The bits that an address in the network begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Network {
    is_v6: bool,
    length: u8,
    /// Shifted up to the highest bit.
    bits: u128,
}

impl Network {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "this is a network like 10.0.0.0/8 or 2001:db8::/32";
        let (address, length) = text.split_once('/').ok_or(WRONG)?;
        let address: IpAddr = address.parse().map_err(|_| WRONG)?;
        let length: u8 = length.parse().map_err(|_| WRONG)?;
        let (is_v6, all) = bits(address);
        if length > if is_v6 { 128 } else { 32 } {
            return Err(WRONG);
        }
        Ok(Self { is_v6, length, bits: all & mask(length) })
    }
}

fn bits(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (false, u128::from(address.to_bits()) << 96),
        IpAddr::V6(address) => (true, address.to_bits()),
    }
}

fn mask(length: u8) -> u128 {
    if length == 0 { 0 } else { u128::MAX << (128 - length) }
}

/// Finds the networks that an address is in: one look for each length that there is.
#[derive(Default)]
pub(super) struct Networks {
    by_network: BTreeMap<Network, u32>,
    lengths: BTreeSet<(bool, u8)>,
}

impl Networks {
    pub(super) fn insert(&mut self, network: Network, atom: u32) {
        self.lengths.insert((network.is_v6, network.length));
        self.by_network.insert(network, atom);
    }

    pub(super) fn find(&self, text: &str, hits: &mut Vec<u32>) {
        if self.lengths.is_empty() {
            return;
        }
        let Ok(address) = text.parse() else { return };
        let (is_v6, all) = bits(address);
        for (_, length) in self.lengths.range((is_v6, 0)..=(is_v6, 128)) {
            let network = Network { is_v6, length: *length, bits: all & mask(*length) };
            hits.extend(self.by_network.get(&network));
        }
    }
}
