use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::termios::SpecialCodeIndex;
use warren_wire::guest::{Control, FailureCode, Frame, FrameKind, Reply};

use super::{Agent, Step};
use crate::connection::{AtEnd, Cargo, Connection, Phase};
use crate::failure::refuse;
use crate::process::Process;
use crate::{spawn, sys};

/// The result of writing to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    All,
    /// Another connection's turn, or the pipe is full.
    Later,
    /// The process reads no more.
    Closed,
}

impl Agent {
    /// Handles what a follower sends: its process's input, and control messages.
    pub(super) fn take_input(&mut self, connection: &mut Connection, process: u64) {
        loop {
            if self.write_cargo(connection, process) == Written::Later {
                return;
            }
            match self.next_input(connection) {
                Some(Frame { kind: FrameKind::Data, payload }) => {
                    connection.cargo = Some(Cargo::new(payload))
                }
                Some(Frame { kind: FrameKind::End, .. }) => self.end_input(connection, process),
                Some(Frame { kind: FrameKind::Message, payload }) => self.control(process, &payload),
                // Output travels the other way only.
                Some(Frame { kind: FrameKind::Stdout | FrameKind::Stderr, .. }) => {}
                None => return,
            }
        }
    }

    /// Writes a call's data to a process's input.
    pub(super) fn feed(&mut self, connection: &mut Connection, process: u64, at_end: AtEnd) -> Step {
        loop {
            match self.write_cargo(connection, process) {
                Written::All => {}
                Written::Later => return Step::Rest,
                Written::Closed => {
                    let message = format!("process {process} reads its standard input no more");
                    connection.fail(refuse(FailureCode::Ended, message));
                    return Step::Again;
                }
            }
            match self.next_input(connection) {
                Some(Frame { kind: FrameKind::Data, payload }) => {
                    connection.cargo = Some(Cargo::new(payload))
                }
                Some(Frame { kind: FrameKind::End, .. }) if at_end == AtEnd::Close => {
                    self.end_input(connection, process);
                    if connection.cargo.is_none() {
                        connection.answer(&Reply::Done);
                        return Step::Again;
                    }
                    connection.phase = Phase::Feeding { process, at_end: AtEnd::KeepOpen };
                    return Step::Again;
                }
                Some(Frame { kind: FrameKind::End, .. }) => {
                    connection.answer(&Reply::Done);
                    return Step::Again;
                }
                Some(_) => {}
                None if connection.peer.may_send() => return Step::Rest,
                None if at_end == AtEnd::KeepOpen && !connection.peer.is_gone() => {
                    connection.answer(&Reply::Done);
                    return Step::Again;
                }
                None => return Step::Close,
            }
        }
    }

    /// The input of a process takes more: lets the first in the queue go on.
    pub(super) fn feed_next(&mut self, id: u64) {
        let Some(process) = self.processes.get_mut(id) else { return };
        match process.stdin_queue.front().copied() {
            Some(connection) => self.drive(connection, |_, connection| connection.parked = false),
            None => {
                if let Some(stdin) = &mut process.stdin {
                    stdin.unwatch(&self.poller);
                }
            }
        }
    }

    /// Lets everybody in the queue find out that the input is closed.
    pub(super) fn dismiss_writers(&mut self, id: u64) {
        let Some(process) = self.processes.get_mut(id) else { return };
        for connection in std::mem::take(&mut process.stdin_queue) {
            self.drive(connection, |_, connection| connection.parked = false);
        }
    }

    /// The next frame. Once the peer is gone no event announces its bytes any more, so they are
    /// fetched.
    fn next_input(&mut self, connection: &mut Connection) -> Option<Frame> {
        loop {
            if let Some(frame) = connection.next_frame() {
                return Some(frame);
            }
            if !(connection.peer.is_gone() && connection.peer.may_send()) {
                return None;
            }
            connection.receive(self.scratch());
        }
    }

    fn write_cargo(&mut self, connection: &mut Connection, process: u64) -> Written {
        let Some(cargo) = &mut connection.cargo else { return Written::All };
        let written = match self.processes.get_mut(process) {
            Some(process) => write(process, connection.id, cargo),
            None => Written::Closed,
        };
        connection.parked = written == Written::Later;
        if written != Written::Later {
            connection.cargo = None;
        }
        let Some(process) = self.processes.get_mut(process) else { return written };
        if written == Written::Later && !process.stdin_queue.contains(&connection.id) {
            process.stdin_queue.push_back(connection.id);
        } else if written != Written::Later && !connection.peer.is_gone() {
            // A writer that is gone keeps its turn until all it had sent is in.
            process.stdin_queue.retain(|waiter| *waiter != connection.id);
        }
        if let Some(stdin) = &mut process.stdin {
            if process.stdin_queue.is_empty() {
                stdin.unwatch(&self.poller);
            } else if stdin.watch(&self.poller, EventFlags::OUT).is_err() {
                process.stdin = None;
            }
        }
        if written == Written::Closed {
            let id = process.id;
            process.stdin = None;
            self.dismiss_writers(id);
        }
        written
    }

    /// Closes a pipe; a terminal has no end but the character that means it.
    fn end_input(&mut self, connection: &mut Connection, process: u64) {
        let Some(process) = self.processes.get_mut(process) else { return };
        let Some(stdin) = &process.stdin else { return };
        if process.terminal {
            let codes = rustix::termios::tcgetattr(stdin).map(|mode| mode.special_codes);
            let code = codes.map_or(4, |codes| codes[SpecialCodeIndex::VEOF]);
            connection.cargo = Some(Cargo::new(vec![code]));
            return;
        }
        let id = process.id;
        process.stdin = None;
        self.dismiss_writers(id);
    }

    /// Carries out a follower's message. One that cannot be understood or done is ignored: a
    /// follower gets no answers but the process's output.
    fn control(&mut self, process: u64, payload: &[u8]) {
        let Some(process) = self.processes.get_mut(process).filter(|process| process.exit.is_none()) else {
            return;
        };
        match minicbor::decode(payload) {
            Ok(Control::Resize(size)) => {
                if let Some(terminal) = process.stdout.as_ref().filter(|_| process.terminal) {
                    spawn::resize(terminal, size).ok();
                }
            }
            Ok(Control::Signal { signal }) => {
                let id = process.id;
                self.send_signal(id, sys::Aim::Group, signal).ok();
            }
            Err(_) => {}
        }
    }
}

/// Writes as much as the pipe takes, if it is this connection's turn.
fn write(process: &Process, connection: u64, cargo: &mut Cargo) -> Written {
    let Some(stdin) = &process.stdin else { return Written::Closed };
    if process.stdin_queue.front().is_some_and(|first| *first != connection) {
        return Written::Later;
    }
    while !cargo.rest().is_empty() {
        match rustix::io::write(stdin, cargo.rest()) {
            Ok(count) => cargo.advance(count),
            Err(Errno::AGAIN) => return Written::Later,
            Err(Errno::INTR) => {}
            Err(_) => return Written::Closed,
        }
    }
    Written::All
}
