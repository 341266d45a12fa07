//! One call's connection.
//!
//! ```text
//! Asking ── request ──▶ Answering ── all sent ──▶ closed
//!                  ├──▶ Following ── exit told ──▶ Answering
//!                  ├──▶ Feeding ──── all written ▶ Answering
//!                  ├──▶ Waiting ──── exit known ─▶ Answering
//!                  ├──▶ Listing ──── all rows ───▶ Answering
//!                  ├──▶ Tunnelling ─ both ends ──▶ closed
//!                  ├──▶ LettingGo ── all sent ───▶ closed, with all others
//!                  └──▶ (a file call takes the connection away to a thread)
//! ```
//!
//! A follower whose peer is gone becomes Feeding, so that input it had already sent still arrives.

pub(crate) mod tunnel;

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use warren_wire::guest::{Failure, Frame, FrameDecoder, Reply};

use self::tunnel::Tunnel;
use crate::outbox::Outbox;
use crate::poll::{Poller, Token, Watched};

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) socket: Watched,
    pub(crate) decoder: FrameDecoder,
    pub(crate) outbox: Outbox,
    pub(crate) phase: Phase,
    pub(crate) peer: Peer,
    /// The frame that is being written to a process or a port.
    pub(crate) cargo: Option<Cargo>,
    /// Waiting until the process's input takes more; nothing is read from the socket meanwhile.
    pub(crate) parked: bool,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Asking { until: Instant },
    Answering,
    LettingGo,
    Following { process: u64 },
    Feeding { process: u64, at_end: AtEnd },
    Waiting { process: u64 },
    Listing { next: u64 },
    Tunnelling(Tunnel),
}

/// The meaning of the end of the data for a process's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEnd {
    Close,
    KeepOpen,
}

/// The other side, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    Open,
    /// It reads no more, though bytes it sent may still be in the socket.
    Gone,
    /// It sends no more, and all it sent has been read.
    Silent,
    /// Both.
    Finished,
}

impl Peer {
    pub(crate) fn may_send(self) -> bool {
        matches!(self, Self::Open | Self::Gone)
    }

    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Self::Gone | Self::Finished)
    }

    pub(crate) fn note_gone(&mut self) {
        *self = if self.may_send() { Self::Gone } else { Self::Finished };
    }

    pub(crate) fn note_silent(&mut self) {
        *self = if self.is_gone() { Self::Finished } else { Self::Silent };
    }
}

/// Bytes on their way in.
#[derive(Debug)]
pub(crate) struct Cargo {
    bytes: Vec<u8>,
    taken: usize,
}

impl Cargo {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, taken: 0 }
    }

    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.taken = self.taken.saturating_add(count).min(self.bytes.len());
    }
}

/// The next step for a connection after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Close,
}

impl Connection {
    pub(crate) fn new(id: u64, socket: OwnedFd, until: Instant) -> Self {
        Self {
            id,
            socket: Watched::new(socket, Token::Connection(id)),
            decoder: FrameDecoder::default(),
            outbox: Outbox::default(),
            phase: Phase::Asking { until },
            peer: Peer::Open,
            cargo: None,
            parked: false,
        }
    }

    /// Reads once. Never more than fits `scratch` lies undecoded beyond the frame in progress.
    pub(crate) fn receive(&mut self, scratch: &mut [u8]) {
        match rustix::io::read(&self.socket, &mut *scratch) {
            Ok(0) => self.peer.note_silent(),
            Ok(count) => self.decoder.push(&scratch[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.peer = Peer::Finished,
        }
    }

    /// The next whole frame. A stream that is no sequence of frames is treated as cut off.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        match self.decoder.next_frame() {
            Ok(frame) => frame,
            Err(_) => {
                self.decoder = FrameDecoder::default();
                self.peer = Peer::Finished;
                None
            }
        }
    }

    /// Gives the call's last answer.
    pub(crate) fn answer(&mut self, reply: &Reply) {
        self.outbox.push_reply(reply);
        self.phase = Phase::Answering;
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.answer(&Reply::Failed(failure));
    }

    /// Waits for what the phase can use next.
    pub(crate) fn rearm(&mut self, poller: &Poller) -> Result<(), Errno> {
        let full = self.parked || self.cargo.is_some();
        if self.peer.is_gone() && (full || !self.peer.may_send()) {
            // The hang-up would be reported for ever; the code that parked this connection resumes
            // it.
            self.socket.unwatch(poller);
            return Ok(());
        }
        let reads = match &self.phase {
            Phase::Asking { .. } => true,
            Phase::Following { .. } | Phase::Feeding { .. } => !full,
            Phase::Tunnelling(tunnel) => tunnel.takes_more() && !full,
            Phase::Answering | Phase::LettingGo | Phase::Waiting { .. } | Phase::Listing { .. } => false,
        };
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, reads && self.peer.may_send());
        flags.set(EventFlags::OUT, !self.outbox.is_empty());
        self.socket.watch(poller, flags)
    }
}
