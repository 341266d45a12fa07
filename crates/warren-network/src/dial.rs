//! Connections from the host to the world on a sandbox's behalf. What is closed to all is refused
//! here once more, at the last moment and for the very address that is dialled.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpSocket, TcpStream};
use warren_core::network::{Cidr, NetworkRule, Why, closed};

use crate::place::{BLOCKS, block_v6};

/// A connection takes this long to be made at most; what the kernel would wait for is longer than
/// any client does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// Of a name's addresses so many are tried.
const MOST_TRIES: usize = 8;
/// How long the other side of a connection may be silent before it is asked whether it is still
/// there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How to dial.
pub(crate) struct Dialer {
    /// True for an address of this machine, and for one that every machine has.
    pub(crate) is_own: Box<dyn Fn(IpAddr) -> io::Result<bool> + Send + Sync>,
    /// All sandboxes' addresses.
    pub(crate) subnet: Cidr,
    /// Exceptions that the operator makes from the ranges that are closed to all.
    pub(crate) exceptions: Vec<NetworkRule>,
    pub(crate) patience: Duration,
}

/// Why nobody was reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("{0}")]
    Closed(Why),
    #[error("{address} does not answer")]
    Silent { address: SocketAddr },
    #[error("connect to {address}")]
    Connect { address: SocketAddr, source: io::Error },
}

impl Dialer {
    /// An error if no sandbox may be sent to this address.
    pub(crate) fn check(&self, address: SocketAddr) -> Result<(), DialError> {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        if let Some(range) = closed(ip, port, &self.exceptions) {
            return Err(DialError::Closed(Why::Closed(range)));
        }
        let is_excepted = self.exceptions.iter().any(|rule| rule.holds(ip) && rule.has_port(port));
        // Sandboxes are closed to each other, whatever is excepted.
        if self.subnet.contains(ip) || (0..BLOCKS).filter_map(block_v6).any(|block| block.contains(ip)) {
            return Err(DialError::Closed(Why::Host));
        }
        match (self.is_own)(ip) {
            Ok(true) if !is_excepted => Err(DialError::Closed(Why::Host)),
            Ok(_) => Ok(()),
            Err(source) => Err(DialError::Connect { address, source }),
        }
    }

    /// Connects to an address that nothing closes.
    pub(crate) async fn dial(&self, address: SocketAddr) -> Result<TcpStream, DialError> {
        self.dial_within(address, self.patience).await
    }

    async fn dial_within(&self, address: SocketAddr, patience: Duration) -> Result<TcpStream, DialError> {
        self.check(address)?;
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let failed = |source| DialError::Connect { address, source };
        let socket =
            if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        keep_alive(&socket).map_err(failed)?;
        match tokio::time::timeout(patience, socket.connect(address)).await {
            Ok(connected) => connected.map_err(failed),
            Err(_) => Err(DialError::Silent { address }),
        }
    }

    /// Connects to the first of some addresses that answers. They share the patience that one would
    /// have.
    pub(crate) async fn dial_any(&self, addresses: &[IpAddr], port: u16) -> Result<TcpStream, DialError> {
        let mut last = DialError::Closed(Why::NotPinned);
        let share = u32::try_from(addresses.len().clamp(1, 4)).unwrap_or(1);
        for address in addresses.iter().take(MOST_TRIES) {
            match self.dial_within(SocketAddr::new(*address, port), self.patience / share).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// As for connections that are dialled: small messages go at once, and who is gone is found out.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    keep_alive(stream)
}

fn keep_alive(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE / 4)?;
    sockopt::set_tcp_keepcnt(socket, 4)?;
    Ok(())
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("subnet", &self.subnet).finish_non_exhaustive()
    }
}
