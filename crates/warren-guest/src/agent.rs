//! The agent's loop: one thread, one epoll set, and the tables of connections and processes.
//!
//! A turn of the loop takes a batch of events, does what each allows without waiting, reaps
//! children, and then tells followers what has changed, so that a short process's output and exit
//! leave in one message. A connection being worked on is taken out of its table and put back unless
//! its call is over; file calls, which block, are the only ones that leave the thread.

mod calls;
mod elevate;
mod follow;
mod input;
mod let_go;
mod machine;
mod reap;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use warren_wire::guest::{AgentConfig, FailureCode, FileCall};

use self::elevate::Elevations;
use crate::connection::{Connection, Phase};
use crate::failure::refuse;
use crate::machine::Machine;
use crate::outbox::Sent;
use crate::outside::Outside;
use crate::poll::{Poller, Token, Watched};
use crate::processes::Processes;
use crate::ring::Stream;
use crate::spawn::Spawner;
use crate::sys;
use crate::timers::{Timer, Timers};

/// Connections at once, those of file calls included.
const MAX_CONNECTIONS: usize = 1024;
/// A connection that has not sent its request by then is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long accepting rests when descriptors have run out.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// The most bytes read at a time, in one turn.
const SCRATCH: usize = 64 * 1024;

/// Serves calls until the lifeline breaks or the machine outside says that it is over; outside a
/// sandbox anybody may.
pub(crate) fn serve(doors: Doors, config: AgentConfig, machine: Option<Machine>) -> Result<(), Errno> {
    let mut agent = Agent::create(doors, config)?;
    agent.machine = machine;
    agent.run()
}

/// The descriptors by which the world reaches an agent.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) listener: OwnedFd,
    /// Where the listener is, if this process made it.
    pub(crate) socket: Option<PathBuf>,
    /// When it breaks, the agent ends.
    pub(crate) lifeline: Option<OwnedFd>,
    /// Where `sudo` inside knocks.
    pub(crate) sudo: Option<OwnedFd>,
    /// Absent where nothing is left to ask for.
    pub(crate) outside: Option<Arc<Outside>>,
}

struct Agent {
    config: Arc<AgentConfig>,
    poller: Poller,
    /// Absent while nothing of the host is held, see `let_go`.
    listener: Option<Watched>,
    socket: Option<PathBuf>,
    signals: Watched,
    /// Watched for its end only.
    _lifeline: Option<Watched>,
    timers: Timers,
    connections: BTreeMap<u64, Connection>,
    last_connection: u64,
    processes: Processes,
    /// Processes whose followers have something to learn at the end of this turn.
    changed: BTreeSet<u64>,
    /// Pipes that descendants of ended processes still hold: read and dropped, so that nobody is
    /// killed for writing to them.
    leftovers: BTreeMap<u64, Watched>,
    last_leftover: u64,
    /// Set while a timer runs to forget finished processes.
    sweeping: bool,
    spawner: Spawner,
    /// Present in a sandbox whose `/proc` is to tell of itself.
    machine: Option<Machine>,
    file_calls: Arc<AtomicUsize>,
    elevations: Elevations,
    scratch: Vec<u8>,
    began: Instant,
    is_init: bool,
    /// Set once the machine outside goes down and processes were asked to end.
    leaving: bool,
}

/// Tells the loop to go on or to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loop {
    On,
    Stop,
}

impl Agent {
    fn create(doors: Doors, config: AgentConfig) -> Result<Self, Errno> {
        let is_init = rustix::process::getpid().is_init();
        sys::take_signals()?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let reported = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT];
        let poller = Poller::create()?;
        let arm = |fd: OwnedFd, token, flags| {
            rustix::io::ioctl_fionbio(&fd, true)?;
            let mut watched = Watched::new(fd, token);
            watched.watch(&poller, flags).map(|()| watched)
        };
        Ok(Self {
            listener: Some(arm(doors.listener, Token::Listener, EventFlags::IN)?),
            socket: doors.socket,
            signals: arm(sys::signal_descriptor(&reported)?, Token::Signals, EventFlags::IN)?,
            _lifeline: doors.lifeline.map(|fd| arm(fd, Token::Lifeline, EventFlags::RDHUP)).transpose()?,
            elevations: Elevations::new(doors.sudo, &poller)?,
            config: Arc::new(config),
            poller,
            timers: Timers::default(),
            connections: BTreeMap::new(),
            last_connection: 0,
            processes: Processes::default(),
            changed: BTreeSet::new(),
            leftovers: BTreeMap::new(),
            last_leftover: 0,
            sweeping: false,
            spawner: Spawner::new(doors.outside),
            machine: None,
            file_calls: Arc::default(),
            scratch: Vec::new(),
            began: Instant::now(),
            is_init,
            leaving: false,
        })
    }

    fn run(mut self) -> Result<(), Errno> {
        while self.turn()? == Loop::On {}
        if !self.is_init {
            for (pid, _) in self.processes.running() {
                sys::kill(pid, sys::Aim::Group, libc::SIGKILL).ok();
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<Loop, Errno> {
        let (mut children_ended, mut knock) = (false, false);
        for (token, flags) in self.poller.wait(self.timers.wait(Instant::now()))? {
            match token {
                Token::Listener => knock = true,
                Token::Signals if self.take_signals() == Loop::Stop => return Ok(Loop::Stop),
                Token::Signals => children_ended = true,
                Token::Lifeline => return Ok(Loop::Stop),
                Token::Connection(id) => self.drive(id, |agent, connection| agent.receive(connection, flags)),
                Token::Upstream(id) => self.drive(id, |_, _| {}),
                Token::Stdin(id) => self.feed_next(id),
                Token::Stdout(id) => self.read_output(id, Stream::Stdout, flags),
                Token::Stderr(id) => self.read_output(id, Stream::Stderr, flags),
                Token::Leftover(id) => self.read_leftover(id),
                Token::ElevationListener => self.accept_elevation(),
                Token::Elevation(id) => self.serve_elevation(id),
            }
        }
        // After those who are in: what one has sent before it left arrives before what the next one
        // brings.
        if knock {
            self.accept();
        }
        if children_ended && self.reap() == Loop::Stop {
            return Ok(Loop::Stop);
        }
        let course = self.fire_timers();
        self.tell_followers();
        Ok(course)
    }

    fn accept(&mut self) {
        let Some(listener) = &mut self.listener else { return };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let mut arrived = Vec::new();
        // A few at a time, so that a crowd at the door does not starve those inside. All are let in
        // before the first is served: one who comes because of what it was answered has sent more
        // than is known here yet.
        while arrived.len() < 16 {
            match rustix::net::accept_with(&*listener, flags) {
                Ok(socket) => arrived.push(socket),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    listener.unwatch(&self.poller);
                    self.timers.set(Instant::now() + ACCEPT_REST, Timer::Accept);
                    break;
                }
            }
        }
        for socket in arrived {
            self.admit(socket);
        }
    }

    fn admit(&mut self, socket: OwnedFd) {
        let until = Instant::now() + PATIENCE;
        self.last_connection += 1;
        let mut connection = Connection::new(self.last_connection, socket, until);
        if self.connection_count() >= MAX_CONNECTIONS {
            connection.fail(refuse(FailureCode::Exhausted, "the agent serves too many connections already"));
            // One try: a peer that opens that many connections need not be waited for.
            connection.outbox.flush(&connection.socket).ok();
            return;
        }
        let id = connection.id;
        self.timers.set(until, Timer::Silence { connection: id });
        self.connections.insert(id, connection);
        self.drive(id, |agent, connection| agent.receive(connection, EventFlags::IN));
    }

    fn connection_count(&self) -> usize {
        self.connections.len() + self.file_calls.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Lets something happen to a connection, then lets its call make what progress it can.
    fn drive(&mut self, id: u64, happen: impl FnOnce(&mut Self, &mut Connection)) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        happen(self, &mut connection);
        let Some(mut connection) = self.progress(connection) else { return };
        if connection.rearm(&self.poller).is_ok() {
            self.connections.insert(id, connection);
        } else {
            self.forget_connection(&connection);
        }
    }

    fn receive(&mut self, connection: &mut Connection, flags: EventFlags) {
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            connection.peer.note_gone();
        }
        let takes_input = match &connection.phase {
            Phase::Asking { .. } | Phase::Following { .. } | Phase::Feeding { .. } => true,
            Phase::Tunnelling(tunnel) => tunnel.takes_more(),
            Phase::Answering | Phase::LettingGo | Phase::Waiting { .. } | Phase::Listing { .. } => false,
        };
        let full = connection.parked || connection.cargo.is_some();
        let told = flags.intersects(EventFlags::IN | EventFlags::HUP);
        if takes_input && !full && told && connection.peer.may_send() {
            connection.receive(self.scratch());
        }
    }

    /// One buffer for all reading, made when first needed.
    fn scratch(&mut self) -> &mut [u8] {
        self.scratch.resize(SCRATCH, 0);
        &mut self.scratch
    }

    /// Takes back what a closing connection had in other tables.
    fn forget_connection(&mut self, connection: &Connection) {
        let now = Instant::now();
        match &connection.phase {
            Phase::Asking { until } => {
                self.timers.cancel(*until, Timer::Silence { connection: connection.id })
            }
            Phase::Following { process } | Phase::Feeding { process, .. } | Phase::Waiting { process } => {
                if let Some(process) = self.processes.get_mut(*process) {
                    process.stdin_queue.retain(|waiter| *waiter != connection.id);
                }
                self.detach(*process, connection.id, now);
            }
            Phase::Tunnelling(tunnel) => {
                if let Some(until) = tunnel.deadline() {
                    self.timers.cancel(until, Timer::Silence { connection: connection.id });
                }
            }
            Phase::Answering | Phase::LettingGo | Phase::Listing { .. } => {}
        }
    }

    fn fire_timers(&mut self) -> Loop {
        let now = Instant::now();
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::Silence { connection } => self.lose_patience(connection),
                Timer::Timeout { process } => self.time_out(process, now),
                Timer::Grace { process } => {
                    self.processes.with(process, |process| process.expire(now));
                    self.changed.insert(process);
                }
                Timer::Sweep => self.sweep(now),
                Timer::Machine => self.renew_machine(now),
                Timer::Leave => return Loop::Stop,
                Timer::Door => self.open_door(),
                Timer::Elevation { session } => self.drop_silent_elevation(session),
                Timer::Accept => {
                    let listener = self.listener.as_mut();
                    let listening = listener.map_or(Ok(()), |door| door.watch(&self.poller, EventFlags::IN));
                    if listening.and_then(|()| self.elevations.listen(&self.poller)).is_err() {
                        self.timers.set(now + ACCEPT_REST, Timer::Accept);
                    }
                }
            }
        }
        Loop::On
    }

    /// Forgets finished processes, and comes back for those that are not due yet.
    fn sweep(&mut self, now: Instant) {
        let next = self.processes.sweep(now, 0);
        self.sweeping = next.is_some();
        if let Some(next) = next {
            self.timers.set(next, Timer::Sweep);
        }
    }

    /// Moves a call forward as far as it goes without waiting. `None` when the connection is no
    /// longer ours.
    fn progress(&mut self, mut connection: Connection) -> Option<Connection> {
        loop {
            match self.step(&mut connection) {
                Step::Again => {}
                Step::Rest => return Some(connection),
                Step::Close => {
                    self.forget_connection(&connection);
                    return None;
                }
                Step::HandOver(call) => {
                    self.hand_over(connection, call);
                    return None;
                }
            }
        }
    }

    fn step(&mut self, connection: &mut Connection) -> Step {
        match &connection.phase {
            &Phase::Asking { until } => self.begin(connection, until),
            Phase::Answering => finish_answer(connection),
            Phase::LettingGo => self.let_go(connection),
            &Phase::Following { process } => self.follow(connection, process),
            &Phase::Feeding { process, at_end } => self.feed(connection, process, at_end),
            &Phase::Waiting { process } => self.await_exit(connection, process),
            &Phase::Listing { next } => self.list_on(connection, next),
            Phase::Tunnelling(_) => self.tunnel_on(connection),
        }
    }
}

/// The next step of a call.
#[derive(Debug)]
enum Step {
    /// It has entered another phase and may go on at once.
    Again,
    /// It waits for an event.
    Rest,
    Close,
    /// It goes on in a thread of its own.
    HandOver(FileCall),
}

/// Sends the rest of the last answer.
fn finish_answer(connection: &mut Connection) -> Step {
    match connection.outbox.flush(&connection.socket) {
        Ok(Sent::Part) if !connection.peer.is_gone() => Step::Rest,
        _ => Step::Close,
    }
}
