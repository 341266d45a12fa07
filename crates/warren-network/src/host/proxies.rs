//! The proxies of this process, and the sockets they listen on.
//!
//! They listen on the gateway's address, which is on sandboxes' links only and which may not be
//! there yet. What reaches it over another link is dropped by the table, and what comes from no
//! sandbox's address is not answered.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tokio::runtime::Runtime;

use super::NetworkOptions;
use crate::book::Book;
use crate::dial::{self, Dialer};
use crate::dns::{self, Names, Servers, Upstream};
use crate::edge::Edge;
use crate::egress::{self, Egress};
use crate::lease::Ports;
use crate::links::{RouteKind, route_kind};
use crate::nft::Listener;
use crate::place::GATEWAY;
use crate::report::Reporter;

const WORKERS: usize = 2;
const BACKLOG: i32 = 4096;
/// A port that is free for streams may be taken for packets.
const TRIES: usize = 32;

/// Sockets that sandboxes' questions and connections are redirected to.
#[derive(Debug)]
pub(super) struct Sockets {
    v4: Front,
    v6: Option<Front>,
}

/// The proxies of one protocol family.
#[derive(Debug)]
struct Front {
    packets: UdpSocket,
    questions: TcpListener,
    connections: TcpListener,
}

impl Sockets {
    pub(super) fn open(v6: Option<Ipv6Addr>) -> io::Result<Self> {
        Ok(Self { v4: Front::open(GATEWAY.into())?, v6: v6.map(|v6| Front::open(v6.into())).transpose()? })
    }

    /// On ports that rules lead to already. An error if somebody has one of them, or if there is
    /// IPv6 now and was not then, or the other way round.
    pub(super) fn open_at(v6: Option<Ipv6Addr>, ports: Ports) -> io::Result<Self> {
        let v6 = match (v6, ports.v6) {
            (Some(address), Some(ports)) => Some(Front::open_at(address.into(), ports)?),
            (None, None) => None,
            _ => return Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        Ok(Self { v4: Front::open_at(GATEWAY.into(), ports.v4)?, v6 })
    }

    pub(super) fn ports(&self) -> io::Result<Ports> {
        let of = |front: &Front| -> io::Result<(u16, u16)> {
            Ok((front.questions.local_addr()?.port(), front.connections.local_addr()?.port()))
        };
        Ok(Ports { v4: of(&self.v4)?, v6: self.v6.as_ref().map(of).transpose()? })
    }

    pub(super) fn dns(&self) -> io::Result<Listener> {
        self.listener(|front| front.questions.local_addr())
    }

    pub(super) fn egress(&self) -> io::Result<Listener> {
        self.listener(|front| front.connections.local_addr())
    }

    fn listener(&self, address: impl Fn(&Front) -> io::Result<SocketAddr>) -> io::Result<Listener> {
        let v6 = self.v6.as_ref().map(&address).transpose()?;
        let v6 = v6.and_then(|address| match address {
            SocketAddr::V6(v6) => Some(SocketAddrV6::new(*v6.ip(), v6.port(), 0, 0)),
            SocketAddr::V4(_) => None,
        });
        Ok(Listener { v4: SocketAddrV4::new(GATEWAY, address(&self.v4)?.port()), v6 })
    }

    /// Serves them until the runtime ends.
    fn serve(self, runtime: &Runtime, names: &Arc<Names>, egress: &Arc<Egress>) {
        for front in [Some(self.v4), self.v6].into_iter().flatten() {
            let Front { packets, questions, connections } = front;
            let questions = dns::serve(packets, questions, Arc::clone(names));
            runtime.spawn(async move { complain("the DNS proxy", questions.await) });
            let connections = Arc::clone(egress).serve(connections);
            runtime.spawn(async move { complain("the egress proxy", connections.await) });
        }
    }
}

fn complain(what: &str, ended: io::Result<()>) {
    if let Err(error) = ended {
        tracing::error!(%error, "{what} has ended: sandboxes that need it are closed");
    }
}

impl Front {
    fn open(address: IpAddr) -> io::Result<Self> {
        let connections = TcpListener::from(listen(address, 0)?);
        for _ in 0..TRIES {
            let questions = TcpListener::from(listen(address, 0)?);
            let packets = socket(address, SocketType::DGRAM)?;
            match rustix::net::bind(&packets, &questions.local_addr()?) {
                Ok(()) => return Ok(Self { packets: packets.into(), questions, connections }),
                Err(rustix::io::Errno::ADDRINUSE) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn open_at(address: IpAddr, (questions, connections): (u16, u16)) -> io::Result<Self> {
        let packets = socket(address, SocketType::DGRAM)?;
        rustix::net::bind(&packets, &SocketAddr::new(address, questions))?;
        Ok(Self {
            packets: packets.into(),
            questions: listen(address, questions)?.into(),
            connections: listen(address, connections)?.into(),
        })
    }
}

/// A port that is named may have had connections a moment ago, which the kernel still remembers.
fn listen(address: IpAddr, port: u16) -> io::Result<OwnedFd> {
    let socket = socket(address, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, port != 0)?;
    rustix::net::bind(&socket, &SocketAddr::new(address, port))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// One that may be bound to an address that the host has only when there are links.
fn socket(address: IpAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    sockopt::set_ip_freebind(&socket, true)?;
    Ok(socket)
}

/// Starts the proxies on threads of their own: they must answer whatever else the process does.
pub(super) fn start(
    options: &NetworkOptions,
    book: &Arc<Book>,
    edge: Option<Arc<Edge>>,
    sockets: Sockets,
) -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(WORKERS).thread_name("warren-proxy").enable_all().build()?;
    let reporter = Arc::new(Reporter::new(Arc::clone(book)));
    let upstream = Arc::new(Upstream::new(Servers::new(&options.dns)));
    let names = Names::new(Arc::clone(book), Arc::clone(&upstream), Arc::clone(&reporter));
    let dialer = Dialer {
        is_own: Box::new(is_own),
        subnet: options.subnet,
        exceptions: options.exceptions.clone(),
        patience: dial::PATIENCE,
    };
    let egress = Egress {
        book: Arc::clone(book),
        dialer,
        resolve: Box::new(move |name| {
            let upstream = Arc::clone(&upstream);
            Box::pin(async move { upstream.resolve(&name).await })
        }),
        destination: Box::new(egress::original_destination),
        ask_patience: options.ask_patience,
        edge,
        reporter,
        meters: Arc::default(),
    };
    sockets.serve(&runtime, &Arc::new(names), &Arc::new(egress));
    Ok(runtime)
}

/// True for the host's own addresses, and for those that name no machine in particular.
fn is_own(address: IpAddr) -> io::Result<bool> {
    Ok(matches!(route_kind(address)?, RouteKind::Local | RouteKind::Other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::proxy_v6;
    use crate::world::World;

    #[test]
    fn the_gateway_is_listened_on_before_it_is_there() {
        let Some(world) = World::new() else { return };
        world.on_host(|| {
            let sockets = Sockets::open(Some(proxy_v6(4))).unwrap();
            let (dns, egress) = (sockets.dns().unwrap(), sockets.egress().unwrap());
            assert_eq!((*dns.v4.ip(), *dns.v6.unwrap().ip()), (GATEWAY, proxy_v6(4)));
            assert_ne!(dns.v4.port(), egress.v4.port());
            assert_eq!(sockets.v4.packets.local_addr().unwrap(), SocketAddr::V4(dns.v4));
            // A second process has ports of its own.
            assert_ne!(Sockets::open(None).unwrap().dns().unwrap().v4, dns.v4);
        });
    }
}
