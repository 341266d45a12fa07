#![expect(unsafe_code, reason = "rustix does not wrap the messages that say where a packet was sent to")]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Where a packet came from, and what it was sent to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) from: SocketAddr,
    pub(super) length: usize,
    to: Option<Destination>,
}

/// An own address, and the number of the link.
#[derive(Clone, Copy)]
enum Destination {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

/// Room for a few control messages, aligned as their headers have to be.
#[repr(C)]
union Control {
    aligned: libc::cmsghdr,
    bytes: [u8; 128],
}

/// A peer's address as the kernel writes it.
#[repr(C)]
union Peer {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// Has the kernel say of every packet what it was sent to. A socket for IPv6 says it of IPv4
/// packets too.
pub(super) fn ask_for_destinations(socket: BorrowedFd<'_>, is_ipv4: bool) -> io::Result<()> {
    let (level, option) = if is_ipv4 {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    };
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads the bytes of `on`, which is alive and as long as said.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            length_of::<libc::c_int>(),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes one packet, without waiting for it. One that is longer than the buffer has the length
/// zero: nobody can read it.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Packet> {
    let mut peer = Peer { v6: zeroed_v6() };
    let mut control = Control { bytes: [0; 128] };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = message(&mut peer, &mut part);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>();
    // SAFETY: every pointer in `message` is to a local or to `buffer`, alive and as long as said
    // next to it.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let length = if message.msg_flags & libc::MSG_TRUNC == 0 { length } else { 0 };
    let from = address_of(&peer).ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(Packet { from, length, to: destination(&message) })
}

/// Sends an answer to where a packet came from, from where it was sent to, without waiting for
/// room.
pub(super) fn send(socket: BorrowedFd<'_>, answer: &[u8], packet: &Packet) -> io::Result<()> {
    let mut peer = peer_of(packet.from);
    let mut control = Control { bytes: [0; 128] };
    // The kernel only reads it.
    let mut part = libc::iovec { iov_base: answer.as_ptr().cast_mut().cast(), iov_len: answer.len() };
    let mut message = message(&mut peer, &mut part);
    if packet.from.is_ipv4() {
        message.msg_namelen = length_of::<libc::sockaddr_in>();
    }
    match packet.to {
        Some(Destination::V4(source)) => {
            attach(&mut message, &mut control, (libc::IPPROTO_IP, libc::IP_PKTINFO), source);
        }
        Some(Destination::V6(source)) => {
            attach(&mut message, &mut control, (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), source);
        }
        None => {}
    }
    // SAFETY: every pointer in `message` is to a local or to `answer`, alive and as long as said
    // next to it; the kernel writes to none.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn message(peer: &mut Peer, part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all bytes zero is a valid header, of a message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = std::ptr::from_mut(peer).cast();
    message.msg_namelen = length_of::<Peer>();
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message
}

/// The address that a packet was sent to, as the kernel tells it.
fn destination(message: &libc::msghdr) -> Option<Destination> {
    // SAFETY: the kernel has filled in the header, and its control buffer is the caller's, still
    // borrowed.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: the macros return pointers to whole headers inside the control buffer only.
        let header = unsafe { *next };
        // SAFETY: as above; the data follows its header.
        let data = unsafe { libc::CMSG_DATA(next) };
        let room = header.cmsg_len.saturating_sub(data as usize - next as usize);
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if room >= size_of::<libc::in_pktinfo>() => {
                // SAFETY: the data is as long as the type, and every pattern of bits is a value of
                // it.
                return Some(Destination::V4(unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() }));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if room >= size_of::<libc::in6_pktinfo>() => {
                // SAFETY: as above.
                return Some(Destination::V6(unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() }));
            }
            _ => {}
        }
        // SAFETY: both pointers are to what is borrowed here, as above.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    None
}

/// Puts one control message into a message to be sent.
fn attach<T: Copy>(
    message: &mut libc::msghdr,
    control: &mut Control,
    (level, kind): (libc::c_int, libc::c_int),
    value: T,
) {
    let bytes = u32::try_from(size_of::<T>()).unwrap_or(u32::MAX);
    // SAFETY: these compute lengths and touch no memory.
    let (length, space) = unsafe { (libc::CMSG_LEN(bytes), libc::CMSG_SPACE(bytes)) };
    assert!(space as usize <= size_of::<Control>(), "one destination fits");
    message.msg_control = std::ptr::from_mut(control).cast();
    message.msg_controllen = space as usize;
    // SAFETY: the control buffer is aligned for a header and long enough for it and the value, by
    // the assertion above.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = length as usize;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
    }
}

fn address_of(peer: &Peer) -> Option<SocketAddr> {
    // SAFETY: every member begins with the family, and all of the union's bytes are set.
    let family = unsafe { peer.family };
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says which member it is, and all of its bytes are set.
            let peer = unsafe { peer.v4 };
            let address = Ipv4Addr::from_bits(u32::from_be(peer.sin_addr.s_addr));
            Some(SocketAddrV4::new(address, u16::from_be(peer.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let peer = unsafe { peer.v6 };
            let address = Ipv6Addr::from(peer.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(address, u16::from_be(peer.sin6_port), 0, peer.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn peer_of(address: SocketAddr) -> Peer {
    match address {
        SocketAddr::V4(address) => {
            let mut peer = Peer { v6: zeroed_v6() };
            peer.v4 = libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: address.ip().to_bits().to_be() },
                sin_zero: [0; 8],
            };
            peer
        }
        SocketAddr::V6(address) => Peer {
            v6: libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            },
        },
    }
}

/// The largest member of a peer, so that all of its bytes are set.
fn zeroed_v6() -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: 0,
        sin6_port: 0,
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
        sin6_scope_id: 0,
    }
}

fn family(family: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).unwrap_or(0)
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::V4(to) => write!(f, "{}", Ipv4Addr::from_bits(u32::from_be(to.ipi_addr.s_addr))),
            Self::V6(to) => write!(f, "{}", Ipv6Addr::from(to.ipi6_addr.s6_addr)),
        }
    }
}
