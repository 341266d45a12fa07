use std::time::{Duration, Instant};

use rustix::net::sockopt;
use warren_wire::guest::{Attach, Failure, Reader, Start};

use super::Agent;
use crate::connection::{Connection, Phase};
use crate::poll::{Token, Watched};
use crate::process::{CAPACITY, Process, SEND_BUFFER};
use crate::ring::Ring;
use crate::spawn::Child;
use crate::timers::Timer;

/// Longer timeouts than this are as good as none, and would overflow the clock.
const LONGEST_TIMEOUT_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

impl Agent {
    pub(super) fn start(&mut self, connection: &mut Connection, start: Start) -> Result<(), Failure> {
        self.processes.admit(Instant::now())?;
        self.freshen_machine();
        let child = self.spawner.start(&start, &self.config)?;
        self.keep_machine_fresh();
        let follow = start.follow;
        let mut process = self.adopt(child, start);
        process.rearm(&self.poller);
        if let Some(at) = process.deadline {
            self.timers.set(at, Timer::Timeout { process: process.id });
        }
        let id = process.id;
        match follow {
            Some(reader) => enter(connection, &mut process, reader, 0),
            None => connection.answer(&process.started(0)),
        }
        self.processes.insert(process);
        // The first bytes have often been written by now.
        self.changed.insert(id);
        Ok(())
    }

    pub(super) fn attach(&mut self, connection: &mut Connection, attach: &Attach) -> Result<(), Failure> {
        let id = self.processes.find(&attach.process)?;
        if let Some(process) = self.processes.get_mut(id) {
            enter(connection, process, attach.reader, attach.from);
        }
        self.changed.insert(id);
        Ok(())
    }

    fn adopt(&mut self, child: Child, start: Start) -> Process {
        let id = self.processes.next_id();
        let now = Instant::now();
        Process {
            id,
            pid: child.pid,
            argv: start.argv,
            env: start.env,
            cwd: (&child.cwd).into(),
            tag: start.tag,
            terminal: start.terminal.is_some(),
            started: now,
            deadline: start.timeout_ms.map(|ms| now + Duration::from_millis(ms.min(LONGEST_TIMEOUT_MS))),
            timed_out: false,
            stdin: child.stdin.map(|fd| Watched::new(fd, Token::Stdin(id))),
            stdin_queue: std::collections::VecDeque::new(),
            stdout: Some(Watched::new(child.stdout, Token::Stdout(id))),
            stderr: child.stderr.map(|fd| Watched::new(fd, Token::Stderr(id))),
            ring: Ring::default(),
            limit: CAPACITY,
            places: Vec::new(),
            waiters: Vec::new(),
            // A terminal is hung up when its first process ends. Not every kernel tells the other
            // side of it: gVisor's does not.
            until_closed: start.until_closed == Some(true) && start.terminal.is_none(),
            ended: None,
            exit: None,
        }
    }
}

/// Makes a connection a follower.
fn enter(connection: &mut Connection, process: &mut Process, reader: Reader, from: u64) {
    if reader == Reader::Holds {
        // What the kernel may swallow with a broken connection has to be known; see the process
        // module.
        sockopt::set_socket_send_buffer_size(&connection.socket, SEND_BUFFER).ok();
    }
    let position = process.attach(connection.id, reader, from);
    connection.outbox.push_reply(&process.started(position));
    connection.phase = Phase::Following { process: process.id };
}
