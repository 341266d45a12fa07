use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells systemd, or another parent that asked, how far the start has come. It is only a courtesy:
/// a failure is logged.
pub(super) fn tell(socket: Option<&OsStr>, state: &str) {
    let Some(socket) = socket else { return };
    if let Err(error) = send(socket, state) {
        tracing::warn!(%error, "tell the service manager {state}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
