use std::time::Instant;

use rustix::event::epoll::EventFlags;

use super::{Agent, Step};
use crate::connection::{AtEnd, Connection, Phase};
use crate::process::{Filled, Pumped};
use crate::ring::Stream;
use crate::timers::Timer;

impl Agent {
    /// Moves input and output of a follower.
    pub(super) fn follow(&mut self, connection: &mut Connection, process: u64) -> Step {
        self.take_input(connection, process);
        if connection.peer.is_gone() {
            return self.outlive(connection, process);
        }
        let (id, socket, outbox) = (connection.id, &connection.socket, &mut connection.outbox);
        let pumped = self.processes.get_mut(process).map(|process| process.pump(id, outbox, socket));
        if let Some(process) = self.processes.get_mut(process) {
            process.rearm(&self.poller);
        }
        match pumped {
            Some(Ok(Pumped::UpToDate | Pumped::Blocked)) => Step::Rest,
            Some(Ok(Pumped::Over)) | None => {
                self.detach(process, connection.id, Instant::now());
                connection.phase = Phase::Answering;
                Step::Again
            }
            Some(Err(_)) => {
                connection.peer.note_gone();
                self.outlive(connection, process)
            }
        }
    }

    /// The reader is gone: its place is held, and the input it had sent still arrives.
    fn outlive(&mut self, connection: &mut Connection, process: u64) -> Step {
        self.detach(process, connection.id, Instant::now());
        connection.phase = Phase::Feeding { process, at_end: AtEnd::KeepOpen };
        Step::Again
    }

    /// Ends what a connection had to do with a process.
    pub(super) fn detach(&mut self, process: u64, connection: u64, now: Instant) {
        match self.processes.with(process, |process| process.detach(connection, now)) {
            Some(Some(until)) => self.timers.set(until, Timer::Grace { process }),
            Some(None) => {
                self.changed.insert(process);
            }
            None => {}
        }
    }

    pub(super) fn read_output(&mut self, id: u64, stream: Stream, flags: EventFlags) {
        self.processes.set_limit(id, Instant::now());
        let known = self.processes.with(id, |process| {
            if flags & (EventFlags::IN | EventFlags::HUP) == EventFlags::HUP && !process.terminal {
                // Nobody writes any more and nothing is left: no need to make a ring to find that
                // out.
                process.close(stream);
                return;
            }
            let mut filled = process.fill(stream);
            // Nobody writes any more, so what is left is read now instead of in many turns.
            while filled == Filled::Some && flags.contains(EventFlags::HUP) {
                filled = process.fill(stream);
            }
            process.rearm(&self.poller);
        });
        if known.is_some() {
            self.changed.insert(id);
            self.complete(id);
        }
    }

    /// Brings every follower of a changed process up to date, once per turn.
    pub(super) fn tell_followers(&mut self) {
        while let Some(id) = self.changed.pop_first() {
            let audience = self.processes.get(id).map(|process| process.audience()).unwrap_or_default();
            for connection in audience {
                self.drive(connection, |_, _| {});
            }
            if let Some(process) = self.processes.get_mut(id) {
                process.rearm(&self.poller);
            }
        }
    }
}
