use std::net::IpAddr;

use super::rule::{Cidr, NetworkRule};

/// A range that no policy opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedRange {
    pub network: Cidr,
    /// A description for people.
    pub what: &'static str,
}

/// The rules by which the operator's configuration opens closed ranges.
pub type Exceptions = [NetworkRule];

const fn v4(address: [u8; 4], prefix: u8, what: &'static str) -> ClosedRange {
    ClosedRange { network: Cidr::v4(address, prefix), what }
}

const fn v6(address: u128, prefix: u8, what: &'static str) -> ClosedRange {
    ClosedRange { network: Cidr::v6(address, prefix), what }
}

impl ClosedRange {
    /// All of them. The host's own addresses and other sandboxes are closed as well, by the code
    /// that knows them.
    pub const ALL: [Self; 26] = [
        v4([0, 0, 0, 0], 8, "this host"),
        v4([10, 0, 0, 0], 8, "a private network"),
        v4([100, 64, 0, 0], 10, "a carrier's network"),
        v4([127, 0, 0, 0], 8, "loopback"),
        v4([169, 254, 0, 0], 16, "link-local, with cloud metadata"),
        v4([172, 16, 0, 0], 12, "a private network"),
        v4([192, 0, 0, 0], 24, "protocol assignments"),
        v4([192, 168, 0, 0], 16, "a private network"),
        v4([198, 18, 0, 0], 15, "benchmarking"),
        v4([224, 0, 0, 0], 4, "multicast"),
        v4([240, 0, 0, 0], 4, "reserved, with broadcast"),
        v6(0, 128, "this host"),
        v6(1, 128, "loopback"),
        // What an IPv4 address is written into is judged by that address first, and closed besides.
        v6(0, 96, "IPv4 in IPv6"),
        v6(0xffff_0000_0000, 96, "IPv4 in IPv6"),
        v6(0x0064_ff9b << 96, 96, "IPv4 behind NAT64"),
        v6(0x0064_ff9b_0001 << 80, 48, "IPv4 behind NAT64"),
        v6(0x0100 << 112, 64, "discarded"),
        v6(0x2001 << 112, 32, "Teredo"),
        v6(0x2001_0002 << 96, 48, "benchmarking"),
        v6(0x2002 << 112, 16, "IPv4 in IPv6 (6to4)"),
        v6(0x3fff << 112, 20, "reserved"),
        v6(0xfc00 << 112, 7, "a private network"),
        v6(0xfe80 << 112, 10, "link-local"),
        v6(0xfec0 << 112, 10, "site-local"),
        v6(0xff00 << 112, 8, "multicast"),
    ];
}

/// The range that closes an address to every sandbox, unless the operator has excepted it for this
/// port.
pub fn closed(address: IpAddr, port: u16, exceptions: &Exceptions) -> Option<ClosedRange> {
    let address = unmapped(address);
    if exceptions.iter().any(|rule| rule.holds(address) && rule.has_port(port)) {
        return None;
    }
    ClosedRange::ALL.into_iter().find(|range| range.network.contains(address))
}

/// An IPv4 address in the disguise of an IPv6 one is the IPv4 address.
pub(super) fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_closed(text: &str) -> bool {
        closed(text.parse().unwrap(), 80, &[]).is_some()
    }

    #[test]
    fn what_is_not_the_internet_is_closed() {
        let closed = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.251",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2001::1",
            "2002:a00:1::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for text in closed {
            assert!(is_closed(text), "{text}");
        }
        for text in [
            "1.1.1.1",
            "192.0.2.1",
            "198.51.100.7",
            "203.0.113.9",
            "172.32.0.1",
            "100.128.0.1",
            "2001:db8::1",
            "2606:4700::1111",
        ] {
            assert!(!is_closed(text), "{text}");
        }
        assert!(!is_closed("::ffff:192.0.2.1"), "it is the IPv4 address");
    }

    #[test]
    fn the_operator_may_except_an_address_and_a_port() {
        let exceptions = ["10.1.2.3:5432".parse().unwrap(), "192.168.7.0/24".parse().unwrap()];
        let open = |text: &str, port| closed(text.parse().unwrap(), port, &exceptions).is_none();
        assert!(open("10.1.2.3", 5432) && open("::ffff:10.1.2.3", 5432) && open("192.168.7.9", 1));
        assert!(!open("10.1.2.3", 80) && !open("10.1.2.4", 5432) && !open("192.168.8.1", 80));
    }
}
