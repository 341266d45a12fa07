//! The place of a link: names and addresses that follow from a block and a number alone, so that
//! one of them is enough to know all.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use warren_core::network::Cidr;

/// Blocks that one machine has: as many processes can give sandboxes a network at the same time.
pub(crate) const BLOCKS: u8 = 16;
/// The prefix of the host's ends of links. No other link has it.
pub(crate) const LINK_PREFIX: &str = "wrn";
/// Numbers in a block, those that are never given included.
pub(crate) const NUMBERS: u16 = 4096;
/// The host as every sandbox sees it, the same on every link.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);
/// The same, as a router of IPv6.
pub(crate) const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x77, 1);

/// One link's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) block: u8,
    pub(crate) number: u16,
}

impl Place {
    /// The name of the host's end, also as `ip link` shows it.
    pub(crate) fn link(self) -> String {
        self.to_string()
    }

    /// The sandbox's address in the subnet, which is a /16.
    pub(crate) fn v4(self, subnet: Cidr) -> Ipv4Addr {
        let IpAddr::V4(base) = subnet.address() else { return Ipv4Addr::UNSPECIFIED };
        let offset = u32::from(self.block) * u32::from(NUMBERS) + u32::from(self.number);
        Ipv4Addr::from_bits(base.to_bits() | offset)
    }

    pub(crate) fn v6(self) -> Ipv6Addr {
        v6(self.block, self.number)
    }

    /// Of the sandbox's end.
    pub(crate) fn mac(self) -> [u8; 6] {
        let [high, low] = self.number.to_be_bytes();
        [0x02, 0x77, 0x72, self.block, high, low]
    }

    /// Of the host's end.
    pub(crate) fn gateway_mac(self) -> [u8; 6] {
        let [high, low] = self.number.to_be_bytes();
        [0x06, 0x77, 0x72, self.block, high, low]
    }

    /// Numbers whose addresses end in 0 or 255 confuse old programs.
    pub(crate) fn is_given(number: u16) -> bool {
        !matches!(number & 0xff, 0 | 0xff) && number < NUMBERS
    }
}

/// The prefix of all links of a block.
pub(crate) fn link_prefix(block: u8) -> String {
    format!("{LINK_PREFIX}{block:x}-")
}

/// The group of a block's links that are about to be removed. No other program gives links this
/// group.
pub(crate) fn doomed(block: u8) -> u32 {
    0x7772_6e00 | u32::from(block)
}

/// All of a block's addresses.
pub(crate) fn block_v4(subnet: Cidr, block: u8) -> Option<Cidr> {
    Cidr::new(Place { block, number: 0 }.v4(subnet).into(), 20)
}

pub(crate) fn block_v6(block: u8) -> Option<Cidr> {
    Cidr::new(v6(block, 0).into(), 48)
}

/// All addresses of all blocks.
pub(crate) fn all_v6() -> Option<Cidr> {
    Cidr::new(v6(0, 0).into(), 44)
}

/// The host's address on a block's links that IPv6 proxies listen on: a router's own is only good
/// for one link. It is no sandbox's: what comes from those without a mark is not routed, and the
/// proxies' answers have none.
pub(crate) fn proxy_v6(block: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0x6172, 0x72ff, 0, 0, 0, 0, u16::from(block) + 1)
}

fn v6(block: u8, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0x6172, 0x7200 | u16::from(block), 0, 0, 0, 0, last)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{LINK_PREFIX}{:x}-{:04x}", self.block, self.number)
    }
}

/// No link of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotOurs;

impl FromStr for Place {
    type Err = NotOurs;

    fn from_str(text: &str) -> Result<Self, NotOurs> {
        let (block, number) =
            text.strip_prefix(LINK_PREFIX).and_then(|rest| rest.split_once('-')).ok_or(NotOurs)?;
        let block = u8::from_str_radix(block, 16).map_err(|_| NotOurs)?;
        let number = u16::from_str_radix(number, 16).map_err(|_| NotOurs)?;
        let place = Self { block, number };
        // The one way to write it, and no other.
        if block < BLOCKS && number < NUMBERS && place.to_string() == text { Ok(place) } else { Err(NotOurs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { block: 10, number: 0x123 };

    fn subnet() -> Cidr {
        "10.213.0.0/16".parse().unwrap()
    }

    #[test]
    fn names_and_addresses_follow_from_the_place() {
        assert_eq!(PLACE.link(), "wrna-0123");
        assert_eq!(PLACE.v4(subnet()), Ipv4Addr::new(10, 213, 161, 0x23));
        assert_eq!(PLACE.v6(), "fd77:6172:720a::123".parse::<Ipv6Addr>().unwrap());
        assert_ne!(PLACE.mac(), PLACE.gateway_mac());
        assert_eq!("wrna-0123".parse(), Ok(PLACE));
        assert_eq!(block_v4(subnet(), 10), Some("10.213.160.0/20".parse().unwrap()));
        assert!(block_v4(subnet(), 10).unwrap().contains(PLACE.v4(subnet()).into()));
        assert!(block_v6(10).unwrap().contains(PLACE.v6().into()));
        assert!((0..BLOCKS).all(|block| all_v6().unwrap().contains(block_v6(block).unwrap().address())));
        assert!((0..BLOCKS).all(|block| !all_v6().unwrap().contains(proxy_v6(block).into())));
    }

    #[test]
    fn other_links_are_not_ours() {
        for name in [
            "eth0",
            "wrn",
            "wrn-0001",
            "wrng-0001",
            "wrn10-0001",
            "wrn0-001",
            "wrn0-1000",
            "wrnA-0001",
            "wrn0-+001",
        ] {
            assert_eq!(name.parse::<Place>(), Err(NotOurs), "{name}");
        }
    }
}
