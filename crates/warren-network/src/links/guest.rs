//! The sandbox's end of a link, and its namespace.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use warren_core::network::Cidr;

use super::veth::{self, INSIDE};
use super::whole;
use crate::namespace;
use crate::netlink::{NetlinkError, Protocol, Request, Socket, attribute};
use crate::nft;
use crate::place::{GATEWAY, GATEWAY_V6, Place};

const LOOPBACK: u32 = 1;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
const RTM_GETNSID: u16 = 90;

/// The most bytes that one socket's options may take. Memberships of groups are counted by it
/// alone, and take ten times as much.
const OPTION_BYTES: &str = "20480";

/// A new namespace, with a socket into it. Its settings are those that links made in it begin with.
pub(crate) fn found(v6: bool) -> io::Result<(OwnedFd, Socket)> {
    namespace::make(|_| {
        // Ports and pings are the sandbox's own business, and need no right on the host.
        namespace::set_sysctl("ipv4/ip_unprivileged_port_start", "0")?;
        namespace::set_sysctl("ipv4/ping_group_range", "0 2147483647")?;
        if namespace::sysctl("ipv6/conf/default/disable_ipv6").is_some() {
            if v6 {
                namespace::set_sysctl("ipv6/conf/default/accept_ra", "0")?;
                namespace::set_sysctl("ipv6/conf/default/addr_gen_mode", "1")?;
            } else {
                namespace::set_sysctl("ipv6/conf/default/disable_ipv6", "1")?;
            }
        }
        hold_options()?;
        nft::confine()?;
        Ok(Socket::open(Protocol::Route)?)
    })
}

/// Older kernels have one setting for all namespaces, and it is small.
fn hold_options() -> io::Result<()> {
    match namespace::set_sysctl("core/optmem_max", OPTION_BYTES) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Gives the sandbox's end its address and its way out.
pub(crate) fn settle(socket: &mut Socket, place: Place, subnet: Cidr, v6: bool) -> Result<(), NetlinkError> {
    let index = veth::index(socket, INSIDE)?;
    let (own, gateway) = (IpAddr::V4(place.v4(subnet)), IpAddr::V4(GATEWAY));
    let mut requests = vec![
        veth::up(LOOPBACK),
        veth::up(index),
        veth::address(index, own),
        veth::neighbour(index, gateway, place.gateway_mac()),
        veth::route(index, gateway, whole(gateway), None),
        veth::route(index, Ipv4Addr::UNSPECIFIED.into(), 0, Some(gateway)),
        // Groups are the sandbox's own: none leaves, and on loopback none makes a neighbour.
        veth::route(LOOPBACK, Ipv4Addr::new(224, 0, 0, 0).into(), 4, None),
    ];
    if v6 {
        let (own, gateway) = (IpAddr::V6(place.v6()), IpAddr::V6(GATEWAY_V6));
        requests.push(veth::address(index, own));
        requests.push(veth::neighbour(index, gateway, place.gateway_mac()));
        requests.push(veth::route(index, gateway, whole(gateway), None));
        requests.push(veth::route(index, Ipv6Addr::UNSPECIFIED.into(), 0, Some(gateway)));
    }
    socket.act_all(requests)
}

/// The namespace that the host knows by this number, by way of a process that is in it.
pub(crate) fn find_namespace(socket: &mut Socket, number: i32) -> Option<OwnedFd> {
    let candidates = namespace::processes().filter_map(|pid| namespace::of_process(pid).ok());
    candidates.into_iter().find(|candidate| number_of(socket, candidate.as_fd()) == Some(number))
}

fn number_of(socket: &mut Socket, namespace: BorrowedFd<'_>) -> Option<i32> {
    let mut request = Request::new(RTM_GETNSID, 0, &[0; 4]);
    request.u32(NETNSA_FD, namespace.as_raw_fd().unsigned_abs());
    let answer = socket.ask(request, |message| {
        let value = attribute(&message.attributes(4), NETNSA_NSID)?;
        Some(i32::from_ne_bytes(value.try_into().ok()?))
    });
    answer.ok().flatten()
}
