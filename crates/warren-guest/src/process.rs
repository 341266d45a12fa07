//! One process started by call: its output on the way from the pipes through the ring to its
//! followers.
//!
//! A follower has a place in the ring. The places of holding readers set the floor below which
//! bytes may be forgotten; when the ring is full above it, the pipes are not read and the process
//! waits. What was sent may still lie unread in the socket when a connection breaks, so a holding
//! place reaches back by [`UNREAD`] bytes, and it is kept for [`GRACE`]: one who dials again finds
//! every byte it has not seen.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use warren_wire::guest::{
    ByteString, Exit, Frame, FrameKind, HEADER_BYTES, ProcessId, ProcessInfo, Reader, Reply, Started,
};

use crate::outbox::{Outbox, Sent};
use crate::poll::{Poller, Watched};
use crate::ring::{Ring, Run, Stream};

/// The size of a ring while there is memory enough.
pub(crate) const CAPACITY: usize = 256 * 1024;
/// How long the place of a holding reader outlives its connection.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// Send buffer of a holding reader's socket. The kernel doubles it and may exceed that by half.
pub(crate) const SEND_BUFFER: usize = 32 * 1024;

/// The most a broken connection can have swallowed: three times [`SEND_BUFFER`] in the kernel, and
/// a frame that the other side has only begun to receive.
const UNREAD: usize = 3 * SEND_BUFFER + FRAME;
/// Output that goes out at once. Smaller than what both sides aim for, to keep [`UNREAD`] well
/// below [`CAPACITY`].
const FRAME: usize = 32 * 1024;
/// Frames in one send, for a process that alternates between its streams.
const FRAMES_PER_SEND: usize = 8;
/// Read at a time.
const GULP: usize = 64 * 1024;
/// Less room than this is not worth a read.
const SIP: usize = 4 * 1024;
/// The bytes that are read beyond the ring's limit at the end, so that an exit never waits for a
/// reader. Twice as much as a terminal holds, and the most that an unprivileged process can make of
/// a pipe.
const LAST_GULP: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: u64,
    pub(crate) pid: i32,
    pub(crate) argv: Vec<ByteString>,
    pub(crate) env: Vec<ByteString>,
    pub(crate) cwd: ByteString,
    pub(crate) tag: Option<ByteString>,
    pub(crate) terminal: bool,
    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) timed_out: bool,
    pub(crate) stdin: Option<Watched>,
    /// Connections that wait to write to `stdin`, the one whose turn it is first.
    pub(crate) stdin_queue: VecDeque<u64>,
    pub(crate) stdout: Option<Watched>,
    pub(crate) stderr: Option<Watched>,
    pub(crate) ring: Ring,
    /// The most bytes that the ring may hold now.
    pub(crate) limit: usize,
    pub(crate) places: Vec<Place>,
    /// Connections that want to know the exit only.
    pub(crate) waiters: Vec<u64>,
    /// Set if its end is told only once no process holds its output any more.
    pub(crate) until_closed: bool,
    /// How it ended. Its pid is no longer its own from then on.
    pub(crate) ended: Option<Exit>,
    /// How it ended, for all to know.
    pub(crate) exit: Option<Exit>,
}

/// How far a reader has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) reader: Reader,
    pub(crate) owner: Owner,
    /// Next byte to hand to the socket.
    cursor: u64,
    /// Everything before is in the socket.
    sent: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Connection(u64),
    /// The connection broke; the place is held until then.
    Nobody {
        until: Instant,
    },
}

/// The result of reading an output pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    Some,
    /// Nothing there, or no room for it.
    Nothing,
    /// The pipe is closed now.
    Ended,
}

/// The result of sending to a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pumped {
    UpToDate,
    Blocked,
    /// The exit is told; the place is given up.
    Over,
}

impl Process {
    pub(crate) fn started(&self, position: u64) -> Reply {
        Reply::Started(Started { process: ProcessId(self.id), pid: self.pid.unsigned_abs(), position })
    }

    pub(crate) fn info(&self, now: Instant) -> ProcessInfo {
        ProcessInfo {
            process: ProcessId(self.id),
            pid: self.pid.unsigned_abs(),
            argv: self.argv.clone(),
            tag: self.tag.clone(),
            terminal: self.terminal,
            exit: self.exit,
            age_ms: millis(now.saturating_duration_since(self.started)),
            kept_from: self.ring.start(),
            kept_to: self.ring.end(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
        }
    }

    /// Memory this process takes in the agent.
    pub(crate) fn weight(&self) -> usize {
        let texts = self.argv.iter().chain(&self.env).chain(&self.tag);
        let text_bytes: usize = texts.map(|text| text.as_bytes().len() + size_of::<ByteString>()).sum();
        self.ring.allocated() + text_bytes + size_of::<Self>()
    }

    /// Gives a connection a place at `from`, or at the nearest byte that is left, and returns that
    /// position.
    pub(crate) fn attach(&mut self, connection: u64, reader: Reader, from: u64) -> u64 {
        let cursor = from.clamp(self.ring.start(), self.ring.end());
        if reader == Reader::Holds {
            self.take_over(cursor);
        }
        self.places.push(Place { reader, owner: Owner::Connection(connection), cursor, sent: cursor });
        cursor
    }

    /// Ends a connection's following. Returns until when its place is held, if it is.
    pub(crate) fn detach(&mut self, connection: u64, now: Instant) -> Option<Instant> {
        self.waiters.retain(|waiter| *waiter != connection);
        let index = self.places.iter().position(|place| place.owner == Owner::Connection(connection))?;
        if self.exit.is_some() || self.places[index].reader == Reader::Skips {
            self.places.swap_remove(index);
            return None;
        }
        let until = now + GRACE;
        self.places[index].owner = Owner::Nobody { until };
        Some(until)
    }

    /// Gives up held places whose time is over.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.places.retain(|place| !matches!(place.owner, Owner::Nobody { until } if until <= now));
    }

    /// The process has ended, so nobody has to be waited for.
    pub(crate) fn release_held_places(&mut self) {
        self.places.retain(|place| matches!(place.owner, Owner::Connection(_)));
    }

    /// Connections that want to hear of new output or of the end.
    pub(crate) fn audience(&self) -> Vec<u64> {
        let followers = self.places.iter().filter_map(|place| match place.owner {
            Owner::Connection(id) => Some(id),
            Owner::Nobody { .. } => None,
        });
        followers.chain(self.exit.iter().flat_map(|_| &self.waiters).copied()).collect()
    }

    /// True if the end has to wait for processes that hold the output.
    pub(crate) fn awaits_output(&self) -> bool {
        self.until_closed && (self.stdout.is_some() || self.stderr.is_some())
    }

    /// True if a connection still reads from the ring.
    pub(crate) fn is_followed(&self) -> bool {
        self.places.iter().any(|place| matches!(place.owner, Owner::Connection(_)))
    }

    /// Reads a pipe once, as far as the ring has room.
    pub(crate) fn fill(&mut self, stream: Stream) -> Filled {
        let floor = self.floor();
        let room = self.ring.make_room(GULP, floor, self.limit);
        if room < self.least_room() {
            return Filled::Nothing;
        }
        self.read_into_ring(stream, room.min(GULP))
    }

    pub(crate) fn close(&mut self, stream: Stream) {
        *self.source(stream) = None;
    }

    /// Reads what is there at the process's end, whether or not the ring has room for it.
    /// Descendants that hold the pipe may write on; theirs is not waited for.
    pub(crate) fn fill_at_end(&mut self, stream: Stream) {
        let Some(source) = self.source(stream) else { return };
        // A terminal does not tell what is still on its way through; reading brings it out.
        let waiting = match rustix::io::ioctl_fionread(&*source) {
            Ok(waiting) if !self.terminal => usize::try_from(waiting).unwrap_or(LAST_GULP),
            _ => LAST_GULP,
        };
        let mut left = waiting.min(LAST_GULP);
        let limit = self.ring.len().saturating_add(left).saturating_add(CAPACITY);
        while left > 0 {
            let room = self.ring.make_room(GULP.min(left), 0, limit);
            let before = self.ring.end();
            if self.read_into_ring(stream, room.min(GULP).min(left)) != Filled::Some {
                return;
            }
            left = left.saturating_sub(usize::try_from(self.ring.end() - before).unwrap_or(left));
        }
    }

    /// Watches the pipes while the ring has room, and leaves them alone while it has not.
    pub(crate) fn rearm(&mut self, poller: &Poller) {
        let paused = [&self.stdout, &self.stderr].into_iter().flatten().any(|source| !source.is_watched());
        let room = self.ring.room_above(self.floor(), self.limit);
        // Once paused, wait for room worth the while.
        let least = if paused { GULP.min(self.limit / 4).max(self.least_room()) } else { self.least_room() };
        for source in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
            if room < least || source.watch(poller, EventFlags::IN).is_err() {
                source.unwatch(poller);
            }
        }
    }

    /// Sends a follower what it has not had yet, straight from the ring.
    pub(crate) fn pump(
        &mut self,
        connection: u64,
        outbox: &mut Outbox,
        socket: impl AsFd,
    ) -> Result<Pumped, Errno> {
        let owner = Owner::Connection(connection);
        let Some(index) = self.places.iter().position(|place| place.owner == owner) else {
            return Ok(Pumped::Over);
        };
        loop {
            // First what is left from before: adding to it would let it grow.
            if outbox.flush(&socket)? == Sent::Part {
                return Ok(Pumped::Blocked);
            }
            let place = &mut self.places[index];
            place.sent = place.cursor;
            if place.cursor < self.ring.start() {
                let (bytes, position) = (self.ring.start() - place.cursor, self.ring.start());
                outbox.push_reply(&Reply::Missed { bytes, position });
                place.cursor = position;
            }
            let last = self.exit.map(|exit| encode(&Reply::Exited(exit)));
            let (sent, cursor, over) = send_runs(&self.ring, place.cursor, last, outbox, &socket)?;
            place.cursor = cursor;
            if over {
                self.places.remove(index);
                return Ok(Pumped::Over);
            }
            if sent == Sent::Part {
                return Ok(Pumped::Blocked);
            }
            place.sent = place.cursor;
            if place.cursor == self.ring.end() {
                return Ok(Pumped::UpToDate);
            }
        }
    }

    fn source(&mut self, stream: Stream) -> &mut Option<Watched> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn read_into_ring(&mut self, stream: Stream, want: usize) -> Filled {
        let source = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let Some(pipe) = source else { return Filled::Ended };
        match rustix::io::read(&*pipe, self.ring.space(want)) {
            Ok(count) if count > 0 => {
                self.ring.commit(count, stream);
                Filled::Some
            }
            Err(Errno::AGAIN | Errno::INTR) => Filled::Nothing,
            // A terminal reports its end as an input/output error.
            Ok(_) | Err(_) => {
                *source = None;
                Filled::Ended
            }
        }
    }

    /// The oldest byte that somebody who makes the process wait may still need.
    fn floor(&self) -> u64 {
        let reach = UNREAD.min(self.limit / 2);
        let holding = self.places.iter().filter(|place| place.reader == Reader::Holds);
        holding.map(|place| self.ring.reach_back(place.sent, reach)).min().unwrap_or(u64::MAX)
    }

    fn least_room(&self) -> usize {
        SIP.min(self.limit / 4).max(1)
    }

    /// A holding reader that comes back takes over the place that was held for it.
    fn take_over(&mut self, cursor: u64) {
        let held = self.places.iter().position(|place| {
            matches!(place.owner, Owner::Nobody { .. }) && place.sent.saturating_sub(UNREAD as u64) <= cursor
        });
        if let Some(index) = held {
            self.places.swap_remove(index);
        }
    }
}

/// Sends runs from `cursor` on, and `last` when they reach the end. Returns where the cursor is now
/// and whether `last` is on its way.
fn send_runs(
    ring: &Ring,
    mut cursor: u64,
    last: Option<Vec<u8>>,
    outbox: &mut Outbox,
    socket: impl AsFd,
) -> Result<(Sent, u64, bool), Errno> {
    let mut runs: Vec<([u8; HEADER_BYTES], Run<'_>)> = Vec::new();
    let mut budget = FRAME;
    while budget > 0 && runs.len() < FRAMES_PER_SEND {
        let Some(run) = ring.run_at(cursor, budget) else { break };
        budget -= run.len();
        cursor += run.len() as u64;
        runs.push((Frame::header(run.stream.frame_kind(), run.len()), run));
    }
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(runs.len() * 3 + 2);
    for (header, run) in &runs {
        slices.push(IoSlice::new(header));
        slices.extend(run.pieces.iter().map(|piece| IoSlice::new(piece)));
    }
    let last = last.filter(|_| cursor == ring.end());
    let last_header = last.as_ref().map(|payload| Frame::header(FrameKind::Message, payload.len()));
    if let (Some(header), Some(payload)) = (&last_header, &last) {
        slices.extend([IoSlice::new(header), IoSlice::new(payload)]);
    }
    Ok((outbox.send(socket, &slices)?, cursor, last.is_some()))
}

fn encode(reply: &Reply) -> Vec<u8> {
    // Encoding into memory cannot fail.
    minicbor::to_vec(reply).unwrap_or_default()
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
