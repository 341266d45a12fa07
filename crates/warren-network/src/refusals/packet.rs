//! The first bytes of a packet, written by a sandbox: nothing in them is trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warren_core::network::Protocol;

use super::Refusal;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const V6_HEADER: usize = 40;

/// Where a packet came from and was going. `None` for what is cut short, and for protocols that
/// policies do not speak of.
pub(super) fn read(bytes: &[u8]) -> Option<Refusal> {
    let (source, destination, number, transport): (IpAddr, IpAddr, u8, &[u8]) = match bytes.first()? >> 4 {
        4 => {
            let address = |at| Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?));
            let length = usize::from(bytes[0] & 0xf) * 4;
            let rest = bytes.get(length.max(20)..).unwrap_or_default();
            (address(12)?.into(), address(16)?.into(), *bytes.get(9)?, rest)
        }
        6 => {
            let address = |at| Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(at..at + 16)?).ok()?));
            let rest = bytes.get(V6_HEADER..).unwrap_or_default();
            (address(8)?.into(), address(24)?.into(), *bytes.get(6)?, rest)
        }
        _ => return None,
    };
    let protocol = match number {
        TCP => Protocol::Tcp,
        UDP => Protocol::Udp,
        ICMP | ICMPV6 => Protocol::Icmp,
        _ => return None,
    };
    let port = match protocol {
        Protocol::Tcp | Protocol::Udp => u16::from_be_bytes([*transport.get(2)?, *transport.get(3)?]),
        Protocol::Icmp | Protocol::Dns => 0,
    };
    Some(Refusal { source, destination, protocol, port, is_excess: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_both_families_are_read() {
        let mut v4 = vec![0x46, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0, 10, 213, 0, 1, 192, 0, 2, 1];
        v4.extend([1, 1, 1, 1, 0x80, 0, 0x23, 0x28, 0, 9]);
        let refusal = read(&v4).unwrap();
        assert_eq!(refusal.source, "10.213.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(refusal.destination, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!((refusal.protocol, refusal.port), (Protocol::Udp, 9000));
        let mut v6 = vec![0x60, 0, 0, 0, 0, 8, ICMPV6, 64];
        v6.extend("fd77::1".parse::<Ipv6Addr>().unwrap().octets());
        v6.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        let refusal = read(&v6).unwrap();
        assert_eq!(refusal.destination, "2001:db8::1".parse::<IpAddr>().unwrap());
        assert_eq!((refusal.protocol, refusal.port), (Protocol::Icmp, 0));
    }

    proptest::proptest! {
        #[test]
        fn whatever_it_is_it_is_read_or_not(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..120)) {
            let refusal = read(&bytes);
            proptest::prop_assert!(bytes.len() >= 20 || refusal.is_none());
        }
    }
}
