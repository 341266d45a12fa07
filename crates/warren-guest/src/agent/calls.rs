use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use warren_wire::guest::{
    CHUNK, Failure, FailureCode, FileCall, FrameKind, GENERATION, GuestUsage, Pong, ProcessSelector, Reply,
    Request, SignalCall, TerminalSize,
};

use super::{Agent, PATIENCE, Step};
use crate::connection::tunnel::{self, Tunnel};
use crate::connection::{AtEnd, Connection, Fate, Phase};
use crate::failure::{kernel, refuse};
use crate::outbox::Sent;
use crate::process::millis;
use crate::timers::Timer;
use crate::{files, spawn, sys, usage};

/// File calls at once: each has a thread.
const MAX_FILE_CALLS: usize = 64;
const FILE_CALL_STACK: usize = 256 * 1024;

impl Agent {
    /// Takes the request, once it is complete, and enters the phase it asks for.
    pub(super) fn begin(&mut self, connection: &mut Connection, until: Instant) -> Step {
        let frame = match connection.decoder.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) if connection.peer.may_send() => return Step::Rest,
            Ok(None) => return Step::Close,
            Err(error) => {
                self.timers.cancel(until, Timer::Silence { connection: connection.id });
                connection.fail(refuse(FailureCode::Invalid, format!("read the request: {error}")));
                return Step::Again;
            }
        };
        self.timers.cancel(until, Timer::Silence { connection: connection.id });
        let request = match frame.kind {
            FrameKind::Message => minicbor::decode(&frame.payload).map_err(|error| undecodable(&error)),
            _ => Err(refuse(FailureCode::Invalid, "read the request: the first frame is not a message")),
        };
        match request.and_then(|request| self.open(connection, request)) {
            Ok(step) => step,
            Err(failure) => {
                connection.fail(failure);
                Step::Again
            }
        }
    }

    fn open(&mut self, connection: &mut Connection, request: Request) -> Result<Step, Failure> {
        match request {
            Request::Ping => connection.answer(&Reply::Pong(self.pong())),
            Request::Usage => connection.answer(&Reply::Usage(self.usage())),
            Request::Start(start) => self.start(connection, start)?,
            Request::Attach(attach) => self.attach(connection, &attach)?,
            Request::Input { process, keep_open } => self.open_input(connection, &process, keep_open)?,
            Request::Signal(call) => self.signal(&call).map(|()| connection.answer(&Reply::Done))?,
            Request::Resize { process, size } => {
                self.resize(&process, size).map(|()| connection.answer(&Reply::Done))?;
            }
            Request::Wait { process } => {
                let process = self.processes.find(&process)?;
                self.processes.with(process, |process| process.waiters.push(connection.id));
                connection.phase = Phase::Waiting { process };
            }
            Request::List => connection.phase = Phase::Listing { next: 0 },
            Request::Connect { port } => {
                let until = Instant::now() + PATIENCE;
                connection.phase = Phase::Tunnelling(Tunnel::dial(connection.id, port, until)?);
                self.timers.set(until, Timer::Silence { connection: connection.id });
            }
            Request::File(call) => return Ok(Step::HandOver(call)),
            Request::LetGo => self.begin_to_let_go(connection)?,
        }
        Ok(Step::Again)
    }

    fn pong(&self) -> Pong {
        Pong {
            generation: GENERATION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: millis(self.began.elapsed()),
        }
    }

    fn usage(&self) -> GuestUsage {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        GuestUsage {
            running: count(self.processes.running().count()),
            // The one that asks is being worked on and therefore not in the table.
            connections: count(self.connection_count().saturating_add(1)),
            ring_bytes: self.processes.ring_bytes(),
            uptime_ms: millis(self.began.elapsed()),
            ..usage::measure()
        }
    }

    fn open_input(
        &mut self,
        connection: &mut Connection,
        selector: &ProcessSelector,
        keep_open: bool,
    ) -> Result<(), Failure> {
        let process = self.processes.find_running(selector)?;
        if process.stdin.is_none() {
            let message = format!("the standard input of process {} is closed", process.id);
            return Err(refuse(FailureCode::Ended, message));
        }
        let at_end = if keep_open { AtEnd::KeepOpen } else { AtEnd::Close };
        connection.phase = Phase::Feeding { process: process.id, at_end };
        Ok(())
    }

    fn signal(&mut self, call: &SignalCall) -> Result<(), Failure> {
        let id = self.processes.find_running(&call.process)?.id;
        let aim = if call.group { sys::Aim::Group } else { sys::Aim::Process };
        self.send_signal(id, aim, call.signal)
            .map_err(|errno| kernel(format!("send signal {} to process {id}", call.signal), errno))
    }

    fn resize(&mut self, selector: &ProcessSelector, size: TerminalSize) -> Result<(), Failure> {
        let process = self.processes.find_running(selector)?;
        match &process.stdout {
            Some(terminal) if process.terminal => spawn::resize(terminal, size)
                .map_err(|errno| kernel(format!("resize the terminal of process {}", process.id), errno)),
            _ => {
                let message = format!("process {} has no terminal", process.id);
                Err(refuse(FailureCode::WrongKind, message))
            }
        }
    }

    pub(super) fn await_exit(&mut self, connection: &mut Connection, process: u64) -> Step {
        match self.processes.get(process).and_then(|process| process.exit) {
            Some(exit) => {
                self.processes.with(process, |each| each.waiters.retain(|waiter| *waiter != connection.id));
                connection.answer(&Reply::Exited(exit));
                Step::Again
            }
            None if connection.peer.is_gone() => Step::Close,
            None => Step::Rest,
        }
    }

    /// Sends rows in pieces of about a chunk, the next one when the last has gone out.
    pub(super) fn list_on(&mut self, connection: &mut Connection, mut next: u64) -> Step {
        loop {
            match connection.outbox.flush(&connection.socket) {
                Ok(Sent::All) => {}
                Ok(Sent::Part) => {
                    connection.phase = Phase::Listing { next };
                    return Step::Rest;
                }
                Err(_) => return Step::Close,
            }
            let now = Instant::now();
            let (mut rows, mut bytes) = (Vec::new(), 0);
            for process in self.processes.from(next) {
                // One row always fits a frame, since a start is bounded to half of one.
                let weight = process.weight() - process.ring.allocated();
                if !rows.is_empty() && bytes + weight > CHUNK {
                    break;
                }
                bytes += weight;
                rows.push(process.info(now));
                next = process.id + 1;
            }
            if rows.is_empty() {
                connection.outbox.push_frame(FrameKind::End, &[]);
                connection.phase = Phase::Answering;
                return Step::Again;
            }
            connection.outbox.push_reply(&Reply::Processes(rows));
        }
    }

    pub(super) fn tunnel_on(&mut self, connection: &mut Connection) -> Step {
        let connecting = tunnel_deadline(connection);
        self.scratch();
        let fate = tunnel::advance(connection, &self.poller, &mut self.scratch);
        if let Some(until) = connecting
            && (fate.is_err() || tunnel_deadline(connection).is_none())
        {
            self.timers.cancel(until, Timer::Silence { connection: connection.id });
        }
        match fate {
            Ok(Fate::Keep) => Step::Rest,
            Ok(Fate::Close) => Step::Close,
            Err(failure) => {
                connection.fail(failure);
                Step::Again
            }
        }
    }

    /// A connection has waited long enough for its request, or for its port.
    pub(super) fn lose_patience(&mut self, id: u64) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        let failure = match &connection.phase {
            Phase::Tunnelling(tunnel) => tunnel.too_slow(),
            _ => refuse(FailureCode::Invalid, "no complete request arrived in time"),
        };
        connection.fail(failure);
        // One try: a peer this slow is not waited for again.
        connection.outbox.flush(&connection.socket).ok();
    }

    /// Gives a file call a thread, and the connection with it.
    pub(super) fn hand_over(&mut self, mut connection: Connection, call: FileCall) {
        let running = self.file_calls.load(Ordering::Relaxed);
        if running >= MAX_FILE_CALLS {
            connection.fail(refuse(FailureCode::Exhausted, "the agent serves too many file calls already"));
            // One try: the answer is small and the socket as good as empty.
            connection.outbox.flush(&connection.socket).ok();
            return;
        }
        let permit = Permit::take(&self.file_calls);
        let (config, outside) = (Arc::clone(&self.config), self.spawner.outside());
        let stream = UnixStream::from(connection.socket.into_fd(&self.poller));
        let decoder = connection.decoder;
        let work = move || {
            let _permit = permit;
            if stream.set_nonblocking(false).is_ok() {
                files::serve(call, stream, decoder, &config, outside.as_deref());
            }
        };
        // Without a thread the connection closes, which is all that can be said without one.
        std::thread::Builder::new().stack_size(FILE_CALL_STACK).spawn(work).ok();
    }
}

/// When to give up on connecting to a port, while that is what the call does.
fn tunnel_deadline(connection: &Connection) -> Option<Instant> {
    match &connection.phase {
        Phase::Tunnelling(tunnel) => tunnel.deadline(),
        _ => None,
    }
}

/// A file call's share of the limit, given back when its thread ends.
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn take(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn undecodable(error: &minicbor::decode::Error) -> Failure {
    if error.is_unknown_variant() {
        return refuse(FailureCode::Unsupported, format!("this agent does not know the request: {error}"));
    }
    refuse(FailureCode::Invalid, format!("the request cannot be decoded: {error}"))
}
