//! The egress proxy: every TCP connection of a sandbox whose policy has to be judged by name, and
//! every one that is refused.
//!
//! The kernel sends them here instead of where they were going ([`connection`] has what happens
//! then). It has made sure that the sender's address is the sandbox's own, and it remembers where
//! the connection was going. What this process does not accept goes nowhere.

mod addressee;
mod connection;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod hello;
mod http;
mod judge;
mod meter;
mod peek;
mod refusal;
mod rewound;
mod sniff;
mod splice;
mod visit;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use warren_core::HostName;
use warren_core::network::{NetworkVerdict, Protocol, Why};

use self::judge::Goal;
use self::meter::Meters;
use self::visit::Visit;
use crate::book::Book;
use crate::dial::{self, Dialer};
use crate::dns::{Resolved, UpstreamError};
use crate::edge::Edge;
use crate::report::{Incident, Reporter, TICK};

/// When there are no descriptors left, others have to be closed first.
const BREATH: Duration = Duration::from_millis(20);

/// The parts of the proxy. There is one for all sandboxes, on all of its sockets.
pub(crate) struct Egress {
    pub(crate) book: Arc<Book>,
    pub(crate) dialer: Dialer,
    /// Finds a name's addresses.
    pub(crate) resolve: Resolve,
    /// Where a connection was going before it was sent here.
    pub(crate) destination: Destination,
    /// How long somebody who is asked may take.
    pub(crate) ask_patience: Duration,
    /// Absent where there are no secrets.
    pub(crate) edge: Option<Arc<Edge>>,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) meters: Arc<Meters>,
}

pub(crate) type Destination = Box<dyn Fn(&TcpStream) -> io::Result<SocketAddr> + Send + Sync>;
pub(crate) type Resolve =
    Box<dyn Fn(HostName) -> BoxFuture<'static, Result<Resolved, UpstreamError>> + Send + Sync>;

impl Egress {
    /// Accepts connections until it is dropped.
    pub(crate) async fn serve(self: Arc<Self>, listener: std::net::TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, client)) => self.receive(stream, client),
                    Err(_) => tokio::time::sleep(BREATH).await,
                },
                now = ticks.tick() => self.reporter.tick(now.into_std()),
            }
        }
    }

    /// Finds out whose connection it is, and serves it if there is a place for it.
    fn receive(self: &Arc<Self>, stream: TcpStream, client: SocketAddr) {
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let Some(guest) = self.book.by_address(client.ip()) else { return splice::reset(stream) };
        let Ok(destination) = (self.destination)(&stream) else { return splice::reset(stream) };
        let (goal, port) = (Goal::of(destination), destination.port());
        let Some(slot) = self.meters.admit(&self.book, &guest) else {
            let incident = Incident {
                verdict: NetworkVerdict::Denied,
                protocol: Protocol::Tcp,
                host: None,
                address: goal.address(),
                port,
                rule: Why::Limit.to_string(),
            };
            drop(self.reporter.saw(&guest, incident, client));
            return splice::reset(stream);
        };
        if dial::tune(&stream).is_err() {
            return;
        }
        let visit = Visit { egress: Arc::clone(self), guest, client, goal, port, _slot: slot };
        tokio::spawn(connection::serve(visit, stream));
    }
}

/// Where the kernel redirected a connection from.
pub(crate) fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    let own = stream.local_addr()?;
    let original: SocketAddr = match own.ip().to_canonical() {
        IpAddr::V4(_) => sockopt::ip_original_dst(stream)?.into(),
        IpAddr::V6(_) => sockopt::ipv6_original_dst(stream)?.into(),
    };
    // Who came to the proxy's own port of its own accord was going nowhere.
    if original == own { Err(io::ErrorKind::AddrNotAvailable.into()) } else { Ok(original) }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("book", &self.book).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
