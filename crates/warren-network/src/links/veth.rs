//! The host's ends of links: made, listed, described, measured and removed.

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use warren_core::network::Cidr;

use super::{family, whole};
use crate::namespace;
use crate::netlink::{Message, NetlinkError, Request, Socket, attribute, text};
use crate::place::{self, GATEWAY, GATEWAY_V6, Place};

/// A link's header: family, type, number, flags and which of them to change.
pub(super) const IFINFO: usize = 16;
/// The name of a link's end in the sandbox.
pub(super) const INSIDE: &str = "eth0";
const UP: u32 = 1;
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET_CONF: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
/// Addresses are given, never made up.
const ADDR_GEN_NONE: u8 = 1;
/// Lists without counters.
const SKIP_STATS: u32 = 1 << 3;
/// `/proc/sys/net/ipv4/conf/*`, as netlink numbers them: forwarding on, the source checked, nobody
/// told of other ways.
const CONF: [(u16, u32); 7] = [(1, 1), (3, 0), (4, 0), (5, 0), (6, 0), (8, 1), (9, 0)];

/// A link of ours that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundLink {
    pub(crate) place: Place,
    pub(crate) index: u32,
    pub(crate) alias: String,
    /// By which number the host knows the other end's namespace.
    pub(crate) namespace: Option<i32>,
}

/// The traffic of a link, seen from the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) received_packets: u64,
    pub(crate) sent_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
}

/// Makes a pair: this end here, up and with its addresses; the other in the namespace, as it comes.
pub(crate) fn create(
    socket: &mut Socket,
    place: Place,
    subnet: Cidr,
    namespace: BorrowedFd<'_>,
    v6: bool,
) -> Result<u32, NetlinkError> {
    let mut pair = Request::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &header(0, 0));
    pair.text(libc::IFLA_IFNAME, &place.link()).bytes(libc::IFLA_ADDRESS, &place.gateway_mac());
    pair.nest(libc::IFLA_LINKINFO, |info| {
        info.text(libc::IFLA_INFO_KIND, "veth").nest(libc::IFLA_INFO_DATA, |data| {
            data.nest(VETH_INFO_PEER, |peer| {
                peer.header(&header(0, 0)).text(libc::IFLA_IFNAME, INSIDE);
                peer.bytes(libc::IFLA_ADDRESS, &place.mac());
                peer.u32(libc::IFLA_NET_NS_FD, namespace.as_raw_fd().unsigned_abs());
            });
        });
    });
    socket.act(pair)?;
    let index = index(socket, &place.link())?;
    let mut requests = vec![settings(index, knows_v6())];
    let guest = IpAddr::V4(place.v4(subnet));
    requests.push(address(index, GATEWAY.into()));
    requests.push(neighbour(index, guest, place.mac()));
    requests.push(route(index, guest, whole(guest), None));
    if v6 {
        let guest = IpAddr::V6(place.v6());
        requests.push(address(index, GATEWAY_V6.into()));
        requests.push(address(index, place::proxy_v6(place.block).into()));
        requests.push(neighbour(index, guest, place.mac()));
        requests.push(route(index, guest, whole(guest), None));
    }
    socket.act_all(requests)?;
    Ok(index)
}

/// The number of a link in the socket's namespace.
pub(super) fn index(socket: &mut Socket, name: &str) -> Result<u32, NetlinkError> {
    let mut request = Request::new(libc::RTM_GETLINK, 0, &header(0, 0));
    request.text(libc::IFLA_IFNAME, name).u32(libc::IFLA_EXT_MASK, SKIP_STATS);
    let index = socket.ask(request, |message| number(message.body, 4))?;
    index.ok_or_else(|| Errno::BADMSG.into())
}

/// Links of ours, of all blocks.
pub(crate) fn list(socket: &mut Socket) -> Result<Vec<FoundLink>, NetlinkError> {
    let request = || {
        let mut request = Request::new(libc::RTM_GETLINK, 0, &header(0, 0));
        request.u32(libc::IFLA_EXT_MASK, SKIP_STATS);
        request
    };
    socket.list(request, ours)
}

fn ours(message: Message<'_>) -> Option<FoundLink> {
    let attributes = message.attributes(IFINFO);
    let place = attribute(&attributes, libc::IFLA_IFNAME).and_then(text)?.parse().ok()?;
    let alias = attribute(&attributes, libc::IFLA_IFALIAS).and_then(text).unwrap_or_default().to_owned();
    let namespace = attribute(&attributes, libc::IFLA_LINK_NETNSID);
    let namespace = namespace.and_then(|value| value.try_into().ok()).map(i32::from_ne_bytes);
    Some(FoundLink { place, index: number(message.body, 4)?, alias, namespace })
}

/// One link, if it is there. One whose other end has just come up sends from then on: looking makes
/// the kernel notice.
pub(crate) fn find(socket: &mut Socket, place: Place) -> Result<Option<FoundLink>, NetlinkError> {
    let mut request = Request::new(libc::RTM_GETLINK, 0, &header(0, 0));
    request.text(libc::IFLA_IFNAME, &place.link()).u32(libc::IFLA_EXT_MASK, SKIP_STATS);
    present(socket.ask(request, ours)).map(Option::flatten)
}

/// `None` when the link is gone.
pub(crate) fn traffic(socket: &mut Socket, place: Place) -> Result<Option<Traffic>, NetlinkError> {
    let mut request = Request::new(libc::RTM_GETLINK, 0, &header(0, 0));
    request.text(libc::IFLA_IFNAME, &place.link());
    let counted = socket.ask(request, |message| {
        let attributes = message.attributes(IFINFO);
        let counters = attribute(&attributes, libc::IFLA_STATS64)?;
        let counter =
            |at: usize| Some(u64::from_ne_bytes(counters.get(at * 8..at * 8 + 8)?.try_into().ok()?));
        Some(Traffic {
            received_packets: counter(0)?,
            sent_packets: counter(1)?,
            received_bytes: counter(2)?,
            sent_bytes: counter(3)?,
        })
    });
    present(counted).map(Option::flatten)
}

fn present<T>(answer: Result<T, NetlinkError>) -> Result<Option<T>, NetlinkError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes on a link whose it is.
pub(crate) fn describe(socket: &mut Socket, place: Place, alias: &str) -> Result<(), NetlinkError> {
    let mut request = Request::new(libc::RTM_SETLINK, 0, &header(0, 0));
    request.text(libc::IFLA_IFNAME, &place.link()).text(libc::IFLA_IFALIAS, alias);
    socket.act(request)
}

/// Removes links, all at once: the kernel waits for all its readers once, and not for each link.
/// Links that are gone already are no failure. The group is a number that nobody else gives to
/// links.
pub(crate) fn remove(socket: &mut Socket, places: &[Place], group: u32) -> Result<(), NetlinkError> {
    for place in places {
        let mut request = Request::new(libc::RTM_SETLINK, 0, &header(0, 0));
        request.text(libc::IFLA_IFNAME, &place.link()).u32(libc::IFLA_GROUP, group);
        present(socket.act(request))?;
    }
    if places.is_empty() {
        return Ok(());
    }
    let mut request = Request::new(libc::RTM_DELLINK, 0, &header(0, 0));
    request.u32(libc::IFLA_GROUP, group);
    present(socket.act(request)).map(drop)
}

/// A kernel without IPv6 refuses settings of it.
fn knows_v6() -> bool {
    namespace::sysctl("ipv6/conf/all/disable_ipv6").is_some()
}

/// Up, with its settings.
fn settings(index: u32, v6: bool) -> Request {
    let mut request = Request::new(libc::RTM_SETLINK, 0, &header(index, UP));
    request.nest(libc::IFLA_AF_SPEC, |families| {
        families.nest(2, |v4| {
            v4.nest(IFLA_INET_CONF, |conf| {
                for (setting, value) in CONF {
                    conf.u32(setting, value);
                }
            });
        });
        if v6 {
            families.nest(10, |v6| {
                v6.u8(IFLA_INET6_ADDR_GEN_MODE, ADDR_GEN_NONE);
            });
        }
    });
    request
}

/// Raises a link.
pub(super) fn up(index: u32) -> Request {
    Request::new(libc::RTM_SETLINK, 0, &header(index, UP))
}

/// An address for itself alone, there at once. Nothing ever chooses it for talking to the world,
/// unless it is the world's.
pub(super) fn address(index: u32, address: IpAddr) -> Request {
    let scope = match address {
        IpAddr::V4(v4) if v4.is_link_local() => libc::RT_SCOPE_LINK,
        IpAddr::V6(v6) if is_link_local(v6) => libc::RT_SCOPE_LINK,
        _ => libc::RT_SCOPE_UNIVERSE,
    };
    let no_detection = if address.is_ipv6() { 0x02 } else { 0 };
    let mut header = vec![family(address), whole(address), no_detection, scope];
    header.extend(index.to_ne_bytes());
    let mut request = Request::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, &header);
    request.address(libc::IFA_LOCAL, address).address(libc::IFA_ADDRESS, address);
    request
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Sets the hardware address of a neighbour, which then never has to be asked for and cannot be
/// forged.
pub(super) fn neighbour(index: u32, address: IpAddr, mac: [u8; 6]) -> Request {
    let mut header = vec![family(address), 0, 0, 0];
    header.extend(index.to_ne_bytes());
    header.extend(libc::NUD_PERMANENT.to_ne_bytes());
    header.extend([0, 0]);
    let mut request = Request::new(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, &header);
    request.address(libc::NDA_DST, address).bytes(libc::NDA_LLADDR, &mac);
    request
}

/// A way to a network: on the link itself, or through a router.
pub(super) fn route(index: u32, to: IpAddr, prefix: u8, via: Option<IpAddr>) -> Request {
    let scope = if via.is_some() || to.is_ipv6() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
    let header = [
        family(to),
        prefix,
        0,
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_STATIC,
        scope,
        libc::RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    let mut request = Request::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, &header);
    if prefix > 0 {
        request.address(libc::RTA_DST, to);
    }
    if let Some(via) = via {
        request.address(libc::RTA_GATEWAY, via);
    }
    request.u32(libc::RTA_OIF, index);
    request
}

/// A link's header. The flags are changed where they are set.
pub(super) fn header(index: u32, flags: u32) -> [u8; IFINFO] {
    let mut header = [0; IFINFO];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&flags.to_ne_bytes());
    header
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
