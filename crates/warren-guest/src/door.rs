//! The door: a process of ours that stands in another network for as long as somebody outside asks
//! for it, so that an engine which starts a sandbox in "the network of the door" starts it there.
//!
//! ```text
//! at home ──► a call brings a network: enter it, say so ──► the call ends: back home
//! ```
//!
//! It serves one call at a time, on a socket that nobody but the host's root can reach, and never
//! runs anything else. If it cannot go back it ends: nobody is to be started in a network that was
//! meant for another.

use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use warren_wire::guest::DOOR_OPEN;

/// Serves calls until it cannot go back home.
pub(crate) fn serve(listener: &UnixListener) -> Result<(), String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    let home = std::fs::File::open("/proc/self/ns/net").map_err(failed("open the network at home"))?;
    let home = OwnedFd::from(home);
    loop {
        let (call, _) = listener.accept().map_err(failed("take a call"))?;
        // Who calls sees what failed: the call ends without a word.
        let entered = stand(&call).is_ok();
        enter(&home).map_err(|errno| format!("go back home: {errno}"))?;
        if entered {
            // Somebody who waits for it begins when it is home again.
            drop(call.shutdown(std::net::Shutdown::Both));
        }
    }
}

/// Enters the network that a call brings, and stays there until the call ends.
fn stand(mut call: &UnixStream) -> Result<(), Errno> {
    let network = receive(call)?;
    enter(&network)?;
    drop(network);
    call.write_all(&[DOOR_OPEN]).map_err(|_| Errno::PIPE)?;
    // The other end says nothing more.
    drop(call.read(&mut [0]));
    Ok(())
}

/// Only a network is one: the kernel refuses any other descriptor.
fn enter(network: &OwnedFd) -> Result<(), Errno> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
}

fn receive(call: &UnixStream) -> Result<OwnedFd, Errno> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(call, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut brought = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    brought.next().and_then(|mut descriptors| descriptors.next()).ok_or(Errno::BADMSG)
}
