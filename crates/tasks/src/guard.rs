//! The guard: which addresses may be called.
//!
//! A definition can name any address, and a name in it can resolve to any address. The services that a machine in a
//! cloud can reach without credentials, above all its metadata service, hand out the credentials of that machine. So
//! these addresses are refused unless the configuration allows them. Loopback and private networks are allowed, because
//! the services of a self-hosted engine are there.
//!
//! The guard checks the address that is then connected to, after the lookup, and there is no second lookup: a name that
//! resolves differently the next time gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

/// Checks addresses. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Guard(Arc<Allowed>);

#[derive(Debug, Default)]
struct Allowed {
    hosts: Vec<Box<str>>,
    networks: Vec<Network>,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Only for the local link; clouds keep their metadata services there.
    #[error("it is a link-local address")]
    LinkLocal,
    /// A service that gives a cloud machine its credentials.
    #[error("it is the address of a cloud's metadata service")]
    Metadata,
    /// `0.0.0.0/8` or `::`: not the address of a host.
    #[error("it is no address of any machine")]
    Unspecified,
    /// Many receivers at once.
    #[error("it is a multicast address")]
    Multicast,
    /// All receivers at once.
    #[error("it is the broadcast address")]
    Broadcast,
}

/// An entry of `allow` that is neither a host nor a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither a host, an address nor a network; write it like \"10.0.0.5\", \"169.254.0.0/16\" or \
     \"meta.internal\""
)]
pub struct AllowError(String);

/// The services outside the link-local ranges; those inside them are refused with their range.
const METADATA: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), // Alibaba Cloud
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),   // Azure, wire server
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),     // Oracle Cloud
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), // AWS, instances
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)), // AWS, pods
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), // Google Cloud
];

impl Guard {
    /// A guard with the additional hosts, addresses and networks of the configuration.
    pub fn new<Text: AsRef<str>>(allow: impl IntoIterator<Item = Text>) -> Result<Self, AllowError> {
        let mut allowed = Allowed::default();
        for entry in allow {
            let entry = entry.as_ref();
            match entry.parse() {
                Ok(network) => allowed.networks.push(network),
                Err(NotANetwork) if is_host(entry) => allowed.hosts.push(entry.to_ascii_lowercase().into()),
                Err(NotANetwork) => return Err(AllowError(entry.into())),
            }
        }
        Ok(Self(Arc::new(allowed)))
    }

    /// Checks an address.
    pub fn judge(&self, address: IpAddr) -> Result<(), Reason> {
        let is_allowed = |address| self.0.networks.iter().any(|network| network.contains(address));
        if is_allowed(address) {
            return Ok(());
        }
        let judged = |meant| if is_allowed(meant) { Ok(()) } else { refuse(meant) };
        match meant(address) {
            Meant::One(meant) => judged(meant),
            Meant::OneOf(readings) => {
                readings.into_iter().map(judged).find(|judged| hides(*judged)).unwrap_or(Ok(()))
            }
        }
    }

    /// Checks an address that this host resolved to. An allowed host may resolve to any address.
    pub fn judge_host(&self, host: &str, address: IpAddr) -> Result<(), Reason> {
        if self.0.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) {
            return Ok(());
        }
        self.judge(address)
    }
}

fn refuse(address: IpAddr) -> Result<(), Reason> {
    if METADATA.contains(&address) {
        return Err(Reason::Metadata);
    }
    let reason = match address {
        IpAddr::V4(v4) if v4.is_link_local() => Reason::LinkLocal,
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Reason::Unspecified,
        IpAddr::V4(v4) if v4.is_broadcast() => Reason::Broadcast,
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Reason::LinkLocal,
        IpAddr::V6(v6) if v6.is_unspecified() => Reason::Unspecified,
        _ if address.is_multicast() => Reason::Multicast,
        _ => return Ok(()),
    };
    Err(reason)
}

/// The receiver of an address.
enum Meant {
    One(IpAddr),
    /// It contains an IPv4 address at one of several positions, and only the network's router knows which.
    OneOf([IpAddr; 4]),
}

/// The IPv4 address inside an IPv6 address, if routers or the system would extract it: mapped and compatible ones,
/// NAT64 and 6to4. Under the local prefix of NAT64 (RFC 8215) the position depends on the length of the prefix that the
/// network has chosen (RFC 6052).
fn meant(address: IpAddr) -> Meant {
    let IpAddr::V6(v6) = address else { return Meant::One(address) };
    let carried =
        |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Meant::One(address),
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Meant::One(carried(high, low)),
        [0x64, 0xff9b, 1, ..] => {
            let at = |places: [usize; 4]| IpAddr::V4(places.map(|place| v6.octets()[place]).into());
            // Octet 8 is always skipped.
            Meant::OneOf([[12, 13, 14, 15], [9, 10, 11, 12], [7, 9, 10, 11], [6, 7, 9, 10]].map(at))
        }
        _ => Meant::One(address),
    }
}

/// Whether a reading that may be wrong is reason enough to refuse: only if credentials are at risk.
fn hides(judged: Result<(), Reason>) -> bool {
    match judged {
        Err(Reason::LinkLocal | Reason::Metadata) => true,
        Ok(()) | Err(Reason::Unspecified | Reason::Multicast | Reason::Broadcast) => false,
    }
}

fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_numeric = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    !is_numeric && text.len() <= 253 && text.split('.').all(is_label)
}

/// A block of addresses; a single one is a block of its full length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    base: IpAddr,
    prefix: u8,
}

struct NotANetwork;

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let apart = base.to_bits() ^ address.to_bits();
                apart.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let apart = base.to_bits() ^ address.to_bits();
                apart.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (base, prefix) = text.split_once('/').map_or((text, None), |(base, prefix)| (base, Some(prefix)));
        let base: IpAddr = base.parse().map_err(|_| NotANetwork)?;
        let longest = if base.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            Some(digits) => digits.parse().map_err(|_| NotANetwork)?,
        };
        if prefix <= longest { Ok(Self { base, prefix }) } else { Err(NotANetwork) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn what_hands_out_credentials_is_refused_and_neighbours_are_not() {
        let table = [
            ("127.0.0.1", None),
            ("::1", None),
            ("10.1.2.3", None),
            ("172.16.0.1", None),
            ("192.168.1.1", None),
            ("fd12:3456::1", None),
            ("100.64.0.1", None),
            ("93.184.216.34", None),
            ("2606:2800:220:1::1", None),
            ("::ffff:127.0.0.1", None),
            ("169.254.169.254", Some(Reason::LinkLocal)),
            ("169.254.170.2", Some(Reason::LinkLocal)),
            ("169.254.0.1", Some(Reason::LinkLocal)),
            ("::ffff:169.254.169.254", Some(Reason::LinkLocal)),
            ("::ffff:a9fe:a9fe", Some(Reason::LinkLocal)),
            ("::169.254.169.254", Some(Reason::LinkLocal)),
            ("64:ff9b::a9fe:a9fe", Some(Reason::LinkLocal)),
            ("2002:a9fe:a9fe::1", Some(Reason::LinkLocal)),
            ("64:ff9b::7f00:1", None),
            ("64:ff9b:1::a9fe:a9fe", Some(Reason::LinkLocal)),
            ("64:ff9b:1:77::a9fe:a9fe", Some(Reason::LinkLocal)),
            ("64:ff9b:1:77:a9:fea9:fe00:0", Some(Reason::LinkLocal)),
            ("64:ff9b:1:77a9:fe:a9fe::", Some(Reason::LinkLocal)),
            ("64:ff9b:1:a9fe:a9:fe00::", Some(Reason::LinkLocal)),
            ("64:ff9b:1::6464:64c8", Some(Reason::Metadata)),
            ("64:ff9b:1::a00:1", None),
            ("64:ff9b:1:e000::5db8:d822", None),
            ("fe80::1", Some(Reason::LinkLocal)),
            ("febf::1", Some(Reason::LinkLocal)),
            ("fd00:ec2::254", Some(Reason::Metadata)),
            ("fd00:ec2::23", Some(Reason::Metadata)),
            ("fd20:ce::254", Some(Reason::Metadata)),
            ("100.100.100.200", Some(Reason::Metadata)),
            ("::ffff:100.100.100.200", Some(Reason::Metadata)),
            ("168.63.129.16", Some(Reason::Metadata)),
            ("192.0.0.192", Some(Reason::Metadata)),
            ("0.0.0.0", Some(Reason::Unspecified)),
            ("0.1.2.3", Some(Reason::Unspecified)),
            ("::", Some(Reason::Unspecified)),
            ("::ffff:0.0.0.0", Some(Reason::Unspecified)),
            ("224.0.0.1", Some(Reason::Multicast)),
            ("ff02::1", Some(Reason::Multicast)),
            ("255.255.255.255", Some(Reason::Broadcast)),
        ];
        for (text, expected) in table {
            assert_eq!(Guard::default().judge(address(text)).err(), expected, "{text}");
        }
    }

    #[test]
    fn configuration_opens_an_address_a_network_or_a_host_and_no_more() {
        let guard = Guard::new(["169.254.169.254", "fe80::/64", "Meta.Internal"]).expect("valid");
        assert_eq!(guard.judge(address("169.254.169.254")), Ok(()));
        assert_eq!(guard.judge(address("::ffff:169.254.169.254")), Ok(()));
        assert_eq!(guard.judge(address("64:ff9b:1::a9fe:a9fe")), Ok(()));
        assert_eq!(guard.judge(address("169.254.169.253")), Err(Reason::LinkLocal));
        assert_eq!(guard.judge(address("fe80::1")), Ok(()));
        assert_eq!(guard.judge(address("fe80:0:0:1::1")), Err(Reason::LinkLocal));
        assert_eq!(guard.judge_host("meta.internal", address("100.100.100.200")), Ok(()));
        assert_eq!(guard.judge_host("other.internal", address("100.100.100.200")), Err(Reason::Metadata));
        assert_eq!(Guard::new(["0.0.0.0/0"]).expect("valid").judge(address("169.254.1.1")), Ok(()));
    }

    #[test]
    fn a_mistaken_entry_is_named() {
        for wrong in
            ["", "169.254.0.0/33", "169.254.0/16", "fe80::/129", "http://host", "a..b", "host:80", "1.2.3"]
        {
            let error = Guard::new([wrong]).expect_err(wrong);
            assert!(error.to_string().starts_with(&format!("`{wrong}` is neither")), "{error}");
        }
    }
}
