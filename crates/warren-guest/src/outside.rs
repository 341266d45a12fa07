//! The way to the process that made the sandbox, for what the agent has no right to do itself: a
//! writable layer on the machine's own directories, which nobody but root inside can use. It is
//! asked for when root first starts a program or changes a file.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pipe::PipeFlags;

/// A host that has not answered by then is not waited for again: root goes on without the layer.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

#[derive(Debug)]
pub(crate) struct Outside {
    sandbox: String,
    /// Absent once the host was asked.
    socket: Mutex<Option<OwnedFd>>,
}

impl Outside {
    pub(crate) fn new(sandbox: String, socket: OwnedFd) -> Self {
        Self { sandbox, socket: Mutex::new(Some(socket)) }
    }

    /// Asks once, and waits for the answer; so does everybody who comes meanwhile. If nobody is
    /// outside, everything stays as it is.
    pub(crate) fn open_up(&self) {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(way) = socket.take() else { return };
        match self.ask(&way) {
            Ok(answer) => await_end(&answer),
            // It may work next time.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::MFILE | Errno::NFILE) => *socket = Some(way),
            Err(_) => {}
        }
    }

    /// Returns the reading end of a pipe that ends with the answer.
    fn ask(&self, way: &OwnedFd) -> Result<OwnedFd, Errno> {
        let (answer, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let lent = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&lent));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(way, &[IoSlice::new(self.sandbox.as_bytes())], &mut ancillary, flags)?;
        Ok(answer)
    }
}

fn await_end(answer: &OwnedFd) {
    let mut polled = [PollFd::new(answer, PollFlags::IN)];
    while rustix::event::poll(&mut polled, Some(&PATIENCE)) == Err(Errno::INTR) {}
}
