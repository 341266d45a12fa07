//! Where packets to an address would go.

use std::io;
use std::net::{IpAddr, Ipv6Addr};

use rustix::io::Errno;

use crate::netlink::{Message, NetlinkError, Protocol, Request, Socket, attribute};

const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
/// Where an answer says what kind of route it is.
const KIND_AT: usize = 7;
const TABLE_AT: usize = 4;
/// An address's header.
const IFADDR: usize = 8;

/// The host's route for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteKind {
    /// One of the host's own.
    Local,
    /// Another machine.
    Unicast,
    /// Broadcast, multicast, anycast: nobody in particular.
    Other,
    /// There is no way, or it is forbidden.
    Unreachable,
}

/// Asks the kernel of the calling thread's network namespace.
pub(crate) fn route_kind(address: IpAddr) -> io::Result<RouteKind> {
    let mut request = Request::new(RTM_GETROUTE, 0, &question(address));
    request.address(RTA_DST, address);
    let mut socket = Socket::open(Protocol::Route)?;
    match socket.ask(request, |message| message.body.get(KIND_AT).copied().unwrap_or_default()) {
        Ok(libc::RTN_LOCAL) => Ok(RouteKind::Local),
        Ok(libc::RTN_UNICAST) => Ok(RouteKind::Unicast),
        Ok(_) => Ok(RouteKind::Other),
        Err(error) => match error.errno {
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS | Errno::INVAL => {
                Ok(RouteKind::Unreachable)
            }
            _ => Err(error.into()),
        },
    }
}

/// True if there is a route to all of IPv6.
pub(crate) fn has_default_v6() -> io::Result<bool> {
    let mut socket = Socket::open(Protocol::Route)?;
    let way_out = |message: Message<'_>| {
        let is_default =
            message.body.get(1) == Some(&0) && message.body.get(KIND_AT) == Some(&libc::RTN_UNICAST);
        // Loopback's own are not a way anywhere.
        (is_default && message.body.get(TABLE_AT) == Some(&libc::RT_TABLE_MAIN)).then_some(())
    };
    let routes = || Request::new(RTM_GETROUTE, 0, &question(Ipv6Addr::UNSPECIFIED.into()));
    Ok(!socket.list(routes, way_out)?.is_empty())
}

/// All addresses of this host, on whichever link.
pub(crate) fn own_addresses(socket: &mut Socket) -> Result<Vec<IpAddr>, NetlinkError> {
    let address = |message: Message<'_>| {
        let attributes = message.attributes(IFADDR);
        let value =
            attribute(&attributes, libc::IFA_LOCAL).or_else(|| attribute(&attributes, libc::IFA_ADDRESS));
        value.and_then(read_address)
    };
    socket.list(|| Request::new(libc::RTM_GETADDR, 0, &[0; IFADDR]), address)
}

fn read_address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?)),
        _ => Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
    }
}

/// The family's header of a route: family, the destination's prefix, and nothing else.
fn question(address: IpAddr) -> [u8; 12] {
    let mut header = [0; 12];
    (header[0], header[1]) = match address {
        IpAddr::V4(_) => (2, 32),
        IpAddr::V6(_) => (10, 128),
    };
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, ip};

    #[test]
    fn the_host_knows_itself() {
        let kind = |text: &str| route_kind(text.parse().unwrap()).unwrap();
        assert_eq!(kind("127.0.0.1"), RouteKind::Local);
        assert_eq!(kind("127.9.9.9"), RouteKind::Local);
        assert_eq!(kind("255.255.255.255"), RouteKind::Other);
        assert!(!matches!(kind("192.0.2.1"), RouteKind::Local));
    }

    #[test]
    fn a_way_to_all_of_ipv6_is_noticed() {
        let Some(world) = World::new() else { return };
        world.on_host(|| {
            assert!(!has_default_v6().unwrap());
            ip("address add 2001:db8::2/64 dev up0 nodad").unwrap();
            assert!(!has_default_v6().unwrap());
            ip("route add default via 2001:db8::1").unwrap();
            assert!(has_default_v6().unwrap());
            let own = own_addresses(&mut Socket::open(Protocol::Route).unwrap()).unwrap();
            for address in ["127.0.0.1", "::1", crate::world::HOST, "2001:db8::2"] {
                assert!(own.contains(&address.parse().unwrap()), "{address}: {own:?}");
            }
        });
    }
}
