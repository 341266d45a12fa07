//! A connection piped to a TCP port on the sandbox's loopback. Each direction holds one piece at
//! most and ends on its own, so a half-closed connection stays one.

use std::io::IoSlice;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use warren_wire::guest::{Failure, FailureCode, Frame, FrameKind, Reply};

use super::{Cargo, Connection, Fate, Phase};
use crate::failure::{kernel, kernel_as};
use crate::outbox::{Outbox, Sent};
use crate::poll::{Poller, Token, Watched};

#[derive(Debug)]
pub(crate) struct Tunnel {
    upstream: Watched,
    port: u16,
    state: State,
    /// The flow from the host.
    inbound: Flow,
    /// The flow from the port.
    outbound: Flow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The address that is being tried, and how long.
    Connecting {
        address: SocketAddr,
        until: Instant,
    },
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    Ended,
}

impl Tunnel {
    /// Begins to connect.
    pub(crate) fn dial(connection: u64, port: u16, until: Instant) -> Result<Self, Failure> {
        let first = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let second = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        let (socket, address) = connect(first)
            .map(|socket| (socket, first))
            .or_else(|_| connect(second).map(|socket| (socket, second)))
            .map_err(|errno| unreachable(port, errno))?;
        Ok(Self {
            upstream: Watched::new(socket, Token::Upstream(connection)),
            port,
            state: State::Connecting { address, until },
            inbound: Flow::Open,
            outbound: Flow::Open,
        })
    }

    /// True if more of the host's bytes can be used.
    pub(crate) fn takes_more(&self) -> bool {
        self.state == State::Open && self.inbound == Flow::Open
    }

    /// When to give up on connecting.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Connecting { until, .. } => Some(until),
            State::Open => None,
        }
    }

    pub(crate) fn too_slow(&self) -> Failure {
        unreachable(self.port, Errno::TIMEDOUT)
    }
}

/// Moves what can be moved without waiting.
pub(crate) fn advance(
    connection: &mut Connection,
    poller: &Poller,
    scratch: &mut [u8],
) -> Result<Fate, Failure> {
    let Phase::Tunnelling(tunnel) = &mut connection.phase else { return Ok(Fate::Close) };
    if tunnel.state != State::Open {
        if !finish_connecting(tunnel, poller)? {
            return Ok(Fate::Keep);
        }
        connection.outbox.push_reply(&Reply::Done);
    }
    if connection.peer.is_gone() {
        // Nobody listens any more, but what was sent before is still delivered.
        tunnel.outbound = Flow::Ended;
        connection.outbox = Outbox::default();
    }
    Ok(match inward(connection).and_then(|()| outward(connection, scratch)) {
        Ok(()) => rest(connection, poller),
        Err(_) => Fate::Close,
    })
}

/// True if the connection is open; tries the next address when one refuses.
fn finish_connecting(tunnel: &mut Tunnel, poller: &Poller) -> Result<bool, Failure> {
    let State::Connecting { address, until } = tunnel.state else { return Ok(true) };
    let waiting = |tunnel: &mut Tunnel| {
        tunnel.upstream.watch(poller, EventFlags::OUT).map_err(|errno| unreachable(tunnel.port, errno))
    };
    if !tunnel.upstream.is_watched() {
        return waiting(tunnel).map(|()| false);
    }
    let refused = match rustix::net::sockopt::socket_error(&tunnel.upstream) {
        Ok(Ok(())) if rustix::net::getpeername(&tunnel.upstream).is_ok() => {
            tunnel.state = State::Open;
            return Ok(true);
        }
        Ok(Ok(())) => return Ok(false),
        Ok(Err(errno)) | Err(errno) => errno,
    };
    if address.is_ipv6() {
        return Err(unreachable(tunnel.port, refused));
    }
    let next = SocketAddr::from((Ipv6Addr::LOCALHOST, tunnel.port));
    // Without IPv6 the first refusal is the one that tells something.
    let socket = connect(next).map_err(|_| unreachable(tunnel.port, refused))?;
    tunnel.upstream.replace(socket);
    tunnel.state = State::Connecting { address: next, until };
    waiting(tunnel).map(|()| false)
}

/// From the host to the port.
fn inward(connection: &mut Connection) -> Result<(), Errno> {
    loop {
        let Phase::Tunnelling(tunnel) = &mut connection.phase else { return Ok(()) };
        if let Some(cargo) = &mut connection.cargo {
            match rustix::net::send(&tunnel.upstream, cargo.rest(), rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => cargo.advance(count),
                Err(Errno::AGAIN) => return Ok(()),
                // The port takes no more, but may have things to say.
                Err(_) => tunnel.inbound = Flow::Ended,
            }
            if tunnel.inbound == Flow::Open && !cargo.rest().is_empty() {
                continue;
            }
            connection.cargo = None;
        }
        if tunnel.inbound == Flow::Ended {
            return Ok(());
        }
        match connection.next_frame() {
            Some(Frame { kind: FrameKind::Data, payload }) => connection.cargo = Some(Cargo::new(payload)),
            Some(Frame { kind: FrameKind::End, .. }) => end_inward(connection),
            Some(_) => return Err(Errno::PROTO),
            None if connection.peer.may_send() => return Ok(()),
            None => end_inward(connection),
        }
    }
}

fn end_inward(connection: &mut Connection) {
    if let Phase::Tunnelling(tunnel) = &mut connection.phase {
        tunnel.inbound = Flow::Ended;
        // A port that is gone already needs not be told.
        rustix::net::shutdown(&tunnel.upstream, Shutdown::Write).ok();
    }
}

/// From the port to the host: a piece at a time, and none while the last one has not gone out.
fn outward(connection: &mut Connection, scratch: &mut [u8]) -> Result<(), Errno> {
    let Phase::Tunnelling(tunnel) = &mut connection.phase else { return Ok(()) };
    if connection.outbox.flush(&connection.socket)? == Sent::Part || tunnel.outbound == Flow::Ended {
        return Ok(());
    }
    match rustix::io::read(&tunnel.upstream, &mut *scratch) {
        Ok(0) => {
            tunnel.outbound = Flow::Ended;
            connection.outbox.push_frame(FrameKind::End, &[]);
            connection.outbox.flush(&connection.socket).map(drop)
        }
        Ok(count) => {
            let header = Frame::header(FrameKind::Data, count);
            let pieces = [IoSlice::new(&header), IoSlice::new(&scratch[..count])];
            connection.outbox.send(&connection.socket, &pieces).map(drop)
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Waits for what can move next, or ends when nothing can.
fn rest(connection: &mut Connection, poller: &Poller) -> Fate {
    let Phase::Tunnelling(tunnel) = &mut connection.phase else { return Fate::Close };
    let idle = connection.outbox.is_empty();
    if tunnel.inbound == Flow::Ended && tunnel.outbound == Flow::Ended && idle {
        return Fate::Close;
    }
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, tunnel.outbound == Flow::Open && idle);
    flags.set(EventFlags::OUT, connection.cargo.is_some());
    if flags.is_empty() {
        // A hang-up that nothing can be done about yet would be reported for ever.
        tunnel.upstream.unwatch(poller);
        return Fate::Keep;
    }
    if tunnel.upstream.watch(poller, flags).is_ok() { Fate::Keep } else { Fate::Close }
}

fn connect(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // The two ends of the tunnel decide which bytes belong together.
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

fn unreachable(port: u16, errno: Errno) -> Failure {
    let action = format!("connect to port {port}");
    match errno {
        Errno::CONNREFUSED | Errno::TIMEDOUT => kernel_as(FailureCode::NotFound, action, errno),
        _ => kernel(action, errno),
    }
}
