//! The door to the agent that `sudo` knocks at, and the program itself. Both lie in the sandbox's
//! own `/run`, which only its root can write.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use warren_wire::guest::SUDO_SOCKET;

use super::report::{Refusal, StepResult};

const STEP: &str = "sudo";
/// Relative to the new root, which is the working directory.
const PLACE: &str = "run/warren";
/// Runs of `sudo` that wait to be let in.
const BACKLOG: i32 = 64;

/// Makes the place, with room for the program to be mounted on.
pub(super) fn make_place() -> Result<String, Refusal> {
    let program = format!("{PLACE}/sudo");
    let make = || -> Result<(), Errno> {
        rustix::fs::mkdir(PLACE, Mode::from_raw_mode(0o755))?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(program.as_str(), flags, Mode::from_raw_mode(0o555)).map(drop)
    };
    make().step(STEP, "make its place")?;
    Ok(program)
}

/// Listens for everybody: each request is checked against the rights of its sender.
pub(super) fn listen(root: impl AsFd) -> Result<OwnedFd, Refusal> {
    let path = SUDO_SOCKET.trim_start_matches('/');
    let open = || -> Result<OwnedFd, Errno> {
        let kind = SocketType::STREAM;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::fs::chmodat(root, path, Mode::from_raw_mode(0o666), AtFlags::empty())?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    open().step(STEP, "listen")
}
