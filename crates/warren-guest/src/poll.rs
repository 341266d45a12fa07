//! The one epoll set. Everything is level-triggered: nothing is lost when a handler stops half-way,
//! and an interest is only sent to the kernel when it changes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

/// Events taken from the kernel at a time.
const BATCH: usize = 64;
/// Longer waits are cut: beyond some weeks they would take a newer system call, which a filter may
/// forbid.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const KIND_SHIFT: u32 = 56;
const ID_MASK: u64 = (1 << KIND_SHIFT) - 1;

/// The subject of an event. Ids are never reused, so an event that comes late finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Listener,
    Signals,
    Lifeline,
    Connection(u64),
    /// The TCP side of a connection that is piped to a port.
    Upstream(u64),
    Stdin(u64),
    Stdout(u64),
    Stderr(u64),
    /// An output pipe that outlived its process.
    Leftover(u64),
    /// Where `sudo` knocks.
    ElevationListener,
    Elevation(u64),
}

impl Token {
    fn encode(self) -> u64 {
        let (kind, id) = match self {
            Self::Listener => (0, 0),
            Self::Signals => (1, 0),
            Self::Lifeline => (2, 0),
            Self::Connection(id) => (3, id),
            Self::Upstream(id) => (4, id),
            Self::Stdin(id) => (5, id),
            Self::Stdout(id) => (6, id),
            Self::Stderr(id) => (7, id),
            Self::Leftover(id) => (8, id),
            Self::ElevationListener => (9, 0),
            Self::Elevation(id) => (10, id),
        };
        (kind << KIND_SHIFT) | (id & ID_MASK)
    }

    fn decode(value: u64) -> Option<Self> {
        let id = value & ID_MASK;
        Some(match value >> KIND_SHIFT {
            0 => Self::Listener,
            1 => Self::Signals,
            2 => Self::Lifeline,
            3 => Self::Connection(id),
            4 => Self::Upstream(id),
            5 => Self::Stdin(id),
            6 => Self::Stdout(id),
            7 => Self::Stderr(id),
            8 => Self::Leftover(id),
            9 => Self::ElevationListener,
            10 => Self::Elevation(id),
            _ => return None,
        })
    }
}

pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub(crate) fn create() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(BATCH) })
    }

    /// Waits for events; nothing when the time is over or a signal came in between.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<(Token, EventFlags)>, Errno> {
        let timeout = timeout.map(|duration| duration.min(LONGEST_WAIT)).map(|duration| Timespec {
            tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(duration.subsec_nanos()),
        });
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(self
            .events
            .iter()
            .filter_map(|event| Some((Token::decode({ event.data }.u64())?, { event.flags })))
            .collect())
    }
}

/// A descriptor that may be in the epoll set. Dropping it closes it, which takes it out of the set.
#[derive(Debug)]
pub(crate) struct Watched {
    fd: OwnedFd,
    token: Token,
    armed: Option<EventFlags>,
}

impl Watched {
    pub(crate) fn new(fd: OwnedFd, token: Token) -> Self {
        Self { fd, token, armed: None }
    }

    /// Asks for these events. A hang-up is always told as well, even when `flags` is empty.
    pub(crate) fn watch(&mut self, poller: &Poller, flags: EventFlags) -> Result<(), Errno> {
        let data = EventData::new_u64(self.token.encode());
        match self.armed {
            Some(armed) if armed == flags => return Ok(()),
            Some(_) => epoll::modify(&poller.epoll, &self.fd, data, flags)?,
            None => epoll::add(&poller.epoll, &self.fd, data, flags)?,
        }
        self.armed = Some(flags);
        Ok(())
    }

    /// Asks for nothing at all, not even a hang-up.
    pub(crate) fn unwatch(&mut self, poller: &Poller) {
        if self.armed.take().is_some() {
            // The descriptor is in the set and open, so this cannot fail.
            epoll::delete(&poller.epoll, &self.fd).ok();
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.armed.is_some()
    }

    /// The descriptor under another name in the set.
    pub(crate) fn renamed(mut self, poller: &Poller, token: Token) -> Self {
        self.unwatch(poller);
        Self { token, ..self }
    }

    /// Another descriptor under the same name; this one is closed.
    pub(crate) fn replace(&mut self, fd: OwnedFd) {
        *self = Self::new(fd, self.token);
    }

    pub(crate) fn into_fd(mut self, poller: &Poller) -> OwnedFd {
        self.unwatch(poller);
        self.fd
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
