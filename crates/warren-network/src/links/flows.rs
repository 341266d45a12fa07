//! Connections that the kernel remembers. Those of a sandbox that is gone would be remembered for
//! days, and would take the room of others'.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use crate::netlink::{Attributes, Message, NetlinkError, Request, Socket, attribute};

/// Lists and deletes connections (`IPCTNL_MSG_CT_GET` and `_DELETE`).
const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
/// The header: a family, and in the place of a version whether it counts.
const V4: [u8; 4] = [2, 1, 0, 0];
const V6: [u8; 4] = [10, 1, 0, 0];
const TUPLE_ORIG: u16 = 1;
const TUPLE_IP: u16 = 1;
const SOURCE_V4: u16 = 1;
const SOURCE_V6: u16 = 3;
const FILTER: u16 = 25;
const FILTER_ORIG: u16 = 1;
/// Only the source has to be the same.
const SOURCE: u32 = 1;

/// Forgets what these addresses have begun.
pub(crate) fn forget(socket: &mut Socket, addresses: &[IpAddr]) -> Result<(), NetlinkError> {
    let mut v6 = Vec::new();
    for address in addresses {
        match address {
            IpAddr::V4(address) => forget_v4(socket, *address)?,
            IpAddr::V6(address) => v6.push(*address),
        }
    }
    if v6.is_empty() { Ok(()) } else { forget_v6(socket, &v6) }
}

/// By a filter of the kernel's. Older kernels have none, and forget with time.
fn forget_v4(socket: &mut Socket, address: Ipv4Addr) -> Result<(), NetlinkError> {
    let mut request = Request::new(DELETE, 0, &V4);
    request.nest(TUPLE_ORIG, |tuple| {
        tuple.nest(TUPLE_IP, |ip| {
            ip.bytes(SOURCE_V4, &address.octets());
        });
    });
    request.nest(FILTER, |filter| {
        filter.u32(FILTER_ORIG, SOURCE);
    });
    match socket.act(request) {
        Err(error) if !matches!(error.errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOENT) => Err(error),
        _ => Ok(()),
    }
}

/// One by one: the kernel's filter has long taken different addresses of IPv6 for equal ones, and
/// equal ones for different.
fn forget_v6(socket: &mut Socket, addresses: &[Ipv6Addr]) -> Result<(), NetlinkError> {
    let begun = socket.list(|| Request::new(GET, 0, &V6), |message| begun_by(message, addresses))?;
    for tuple in begun {
        let mut request = Request::new(DELETE, 0, &V6);
        request.nest(TUPLE_ORIG, |inside| {
            inside.header(&tuple);
        });
        match socket.act(request) {
            Err(error) if !error.is_absent() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The attributes that name a connection, if one of these addresses began it.
fn begun_by(message: Message<'_>, addresses: &[Ipv6Addr]) -> Option<Vec<u8>> {
    let tuple = attribute(&message.attributes(V6.len()), TUPLE_ORIG)?;
    let ends = attribute(&Attributes::of(tuple), TUPLE_IP)?;
    let source = <[u8; 16]>::try_from(attribute(&Attributes::of(ends), SOURCE_V6)?).ok()?;
    addresses.contains(&Ipv6Addr::from(source)).then(|| tuple.to_vec())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::netlink::Protocol;
    use crate::world::{World, ip, run};

    #[test]
    fn only_what_the_address_began_is_forgotten() {
        let Some(world) = World::new() else { return };
        world.on_host(|| {
            run("nft", "add table inet track").unwrap();
            run("nft", "add chain inet track out { type filter hook output priority 0 ; }").unwrap();
            run("nft", "add rule inet track out ct state new accept").unwrap();
            ip("address add 198.51.100.3/24 dev up0").unwrap();
            ip("address add 2001:db8::3/64 dev up0 nodad").unwrap();
            ip("address add 2001:db8::4/64 dev up0 nodad").unwrap();
            let speak = |from: &str, to: &str| {
                let socket = UdpSocket::bind(from).unwrap();
                drop(socket.send_to(b"hello", to));
            };
            speak("198.51.100.2:1", "192.0.2.1:9");
            speak("198.51.100.3:1", "198.51.100.2:9");
            speak("198.51.100.3:2", "192.0.2.1:9");
            speak("[2001:db8::3]:1", "[2001:db8::9]:9");
            let known = || run("conntrack", "-L -f ipv4").unwrap();
            assert_eq!(known().matches("udp").count(), 3, "{}", known());
            let mut socket = Socket::open(Protocol::Netfilter).unwrap();
            forget(&mut socket, &["198.51.100.3".parse().unwrap()]).unwrap();
            let left = known();
            assert!(left.contains("src=198.51.100.2 dst=192.0.2.1"), "{left}");
            assert_eq!(left.matches("udp").count(), 1, "{left}");
            let v6 = || run("conntrack", "-L -f ipv6").unwrap();
            assert_eq!(v6().matches("udp").count(), 1, "{}", v6());
            speak("[2001:db8::4]:1", "[2001:db8::9]:9");
            forget(&mut socket, &["2001:db8::3".parse().unwrap()]).unwrap();
            assert!(v6().contains("src=2001:db8::4") && !v6().contains("src=2001:db8::3"), "{}", v6());
            forget(&mut socket, &["192.0.2.77".parse().unwrap(), "2001:db8::77".parse().unwrap()]).unwrap();
        });
    }
}
