//! Unix sockets below the HTTP client.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt::{Timeout as Direction, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

/// A daemon whose queue of callers stays full so long is taken for one that is away.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Connects to one socket, whatever the address.
#[derive(Debug)]
pub(super) struct ToSocket(pub(super) PathBuf);

impl Connector<()> for ToSocket {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<UnixTransport>, Error> {
        let connect = || -> std::io::Result<UnixStream> {
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            set_socket_timeout(&socket, Direction::Send, Some(CONNECT_PATIENCE))?;
            let address = SocketAddrUnix::new(&self.0)?;
            rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
            Ok(socket.into())
        };
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(UnixTransport { stream: connect()?, buffers }))
    }
}

/// A connection to the daemon.
#[derive(Debug)]
pub(super) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

/// The rest of a deadline, as a socket takes it.
fn left(timeout: &NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|left| (*left).max(Duration::from_millis(1)))
}

fn failed(error: std::io::Error, reason: Timeout) -> Error {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Error::Timeout(reason),
        _ => Error::Io(error),
    }
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(left(&timeout))?;
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(|error| failed(error, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(left(&timeout))?;
        let buffer = self.buffers.input_append_buf();
        // A socket with a time limit is interrupted by any signal, handled or not.
        let read = loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let amount = read.map_err(|error| failed(error, timeout.reason))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // No connection is kept for another request.
        false
    }
}

/// Nothing is looked up.
#[derive(Debug)]
pub(super) struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push(([0, 0, 0, 0], 0).into());
        Ok(addresses)
    }
}
