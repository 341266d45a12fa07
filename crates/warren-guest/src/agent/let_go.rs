//! Letting go of the host and finding it again, so that what runs here can be put on disk and go on
//! elsewhere: a kernel that writes its whole state down can write no socket of another one.
//!
//! ```text
//! LetGo ─► Done is sent ─► every call ends, the door closes ─► … ─► the door opens again
//! ```
//!
//! The host decides when the door opens: until then nobody may make a socket at its place.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use warren_wire::guest::{Failure, FailureCode, Reply};

use super::{Agent, Step};
use crate::connection::{Connection, Phase};
use crate::failure::refuse;
use crate::outbox::Sent;
use crate::poll::{Token, Watched};
use crate::timers::Timer;

/// The pause between two attempts to open the door.
const PAUSE: Duration = Duration::from_millis(10);

impl Agent {
    pub(super) fn begin_to_let_go(&self, connection: &mut Connection) -> Result<(), Failure> {
        if self.socket.is_none() {
            let message = "its door was made by somebody else, and stays open";
            return Err(refuse(FailureCode::Unsupported, message));
        }
        if self.connection_count() > self.connections.len() {
            return Err(refuse(FailureCode::Exhausted, "it works on files for somebody"));
        }
        // What is not written yet would be lost with the kernel here.
        rustix::fs::sync();
        connection.outbox.push_reply(&Reply::Done);
        connection.phase = Phase::LettingGo;
        Ok(())
    }

    /// Lets go once the answer is sent. Who asked sees the connection close when all is done.
    pub(super) fn let_go(&mut self, connection: &mut Connection) -> Step {
        if let Ok(Sent::Part) = connection.outbox.flush(&connection.socket)
            && !connection.peer.is_gone()
        {
            return Step::Rest;
        }
        self.listener = None;
        for (_, other) in std::mem::take(&mut self.connections) {
            self.forget_connection(&other);
        }
        self.timers.set(Instant::now() + PAUSE, Timer::Door);
        Step::Close
    }

    pub(super) fn open_door(&mut self) {
        let Some(socket) = &self.socket else { return };
        let opened = UnixListener::bind(socket).and_then(|door| {
            door.set_nonblocking(true)?;
            let mut door = Watched::new(OwnedFd::from(door), Token::Listener);
            door.watch(&self.poller, EventFlags::IN)?;
            Ok(door)
        });
        match opened {
            Ok(door) => self.listener = Some(door),
            Err(_) => self.timers.set(Instant::now() + PAUSE, Timer::Door),
        }
    }
}
