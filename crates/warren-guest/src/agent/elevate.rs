//! Programs that `sudo` inside the sandbox asks for. A session is one run of it: it asks once, with
//! its own input and output attached, passes signals on, and is told how the program ended. One
//! that hangs up takes its program along.
//!
//! The kernel names the caller, who has to be root or a member of the sandbox's group `sudo`. A
//! program that is started this way has no more rights than any other that the agent starts as that
//! user.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, UCred, sockopt,
};
use rustix::process::WaitStatus;
use warren_wire::guest::{
    ByteString, Control, Elevate, Exit, ExitCause, Failure, FailureCode, Frame, FrameDecoder, FrameKind,
    HEADER_BYTES, Reply, Runs, Start,
};

use super::{ACCEPT_REST, Agent, PATIENCE, SCRATCH};
use crate::failure::refuse;
use crate::identity::{self, Identity};
use crate::poll::{Poller, Token, Watched};
use crate::process::millis;
use crate::sys;
use crate::timers::Timer;

/// Sessions at once; who comes beyond finds the door closed.
const MAX_SESSIONS: usize = 256;

/// Standard input, output and error.
const LENT: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Elevations {
    /// Absent outside a sandbox.
    listener: Option<Watched>,
    sessions: BTreeMap<u64, Session>,
    last: u64,
}

#[derive(Debug)]
struct Session {
    socket: Watched,
    decoder: FrameDecoder,
    lent: Vec<OwnedFd>,
    state: State,
}

#[derive(Debug)]
enum State {
    Asking { until: Instant },
    Running { pid: i32, began: Instant },
}

/// The next step of a session.
#[derive(Debug, PartialEq, Eq)]
enum SessionState {
    On,
    /// With a refusal to tell, if it is to have one.
    Over(Option<Failure>),
}

impl Elevations {
    pub(super) fn new(listener: Option<OwnedFd>, poller: &Poller) -> Result<Self, Errno> {
        let listener = listener.map(|fd| {
            rustix::io::ioctl_fionbio(&fd, true)?;
            let mut watched = Watched::new(fd, Token::ElevationListener);
            watched.watch(poller, EventFlags::IN).map(|()| watched)
        });
        Ok(Self { listener: listener.transpose()?, ..Self::default() })
    }

    /// Listens again after a rest.
    pub(super) fn listen(&mut self, poller: &Poller) -> Result<(), Errno> {
        self.listener.as_mut().map_or(Ok(()), |listener| listener.watch(poller, EventFlags::IN))
    }
}

impl Agent {
    pub(super) fn accept_elevation(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Some(listener) = &mut self.elevations.listener else { return };
        let socket = match rustix::net::accept_with(&*listener, flags) {
            Ok(socket) => socket,
            Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => return,
            Err(_) => {
                listener.unwatch(&self.poller);
                return self.timers.set(Instant::now() + ACCEPT_REST, Timer::Accept);
            }
        };
        if self.elevations.sessions.len() >= MAX_SESSIONS {
            return;
        }
        self.elevations.last += 1;
        let id = self.elevations.last;
        let mut socket = Watched::new(socket, Token::Elevation(id));
        if socket.watch(&self.poller, EventFlags::IN).is_ok() {
            let until = Instant::now() + PATIENCE;
            self.timers.set(until, Timer::Elevation { session: id });
            let (decoder, lent, state) = (FrameDecoder::default(), Vec::new(), State::Asking { until });
            self.elevations.sessions.insert(id, Session { socket, decoder, lent, state });
        }
    }

    /// Takes what a session has sent.
    pub(super) fn serve_elevation(&mut self, id: u64) {
        let Some(mut session) = self.elevations.sessions.remove(&id) else { return };
        match self.progress_elevation(id, &mut session) {
            SessionState::On => {
                self.elevations.sessions.insert(id, session);
            }
            SessionState::Over(refusal) => {
                if let State::Asking { until } = session.state {
                    self.timers.cancel(until, Timer::Elevation { session: id });
                }
                if let Some(failure) = refusal {
                    session.tell(&Reply::Failed(failure));
                }
            }
        }
    }

    fn progress_elevation(&mut self, id: u64, session: &mut Session) -> SessionState {
        match session.receive(self.scratch()) {
            Ok(0) | Err(_) => {
                // The pid is its own until it is reaped, and then no session has it any more.
                if let State::Running { pid, .. } = session.state {
                    sys::kill(pid, sys::Aim::Group, libc::SIGKILL).ok();
                }
                return SessionState::Over(None);
            }
            Ok(_) => {}
        }
        loop {
            let frame = match session.decoder.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return SessionState::On,
                Err(error) => {
                    let failure = refuse(FailureCode::Invalid, format!("read the request: {error}"));
                    return SessionState::Over(Some(failure));
                }
            };
            match session.state {
                State::Asking { until } => {
                    let pid = match self.elevate(session, &frame.payload) {
                        Ok(pid) => pid,
                        Err(failure) => return SessionState::Over(Some(failure)),
                    };
                    self.timers.cancel(until, Timer::Elevation { session: id });
                    session.state = State::Running { pid, began: Instant::now() };
                }
                State::Running { pid, .. } => {
                    if let Ok(Control::Signal { signal }) = minicbor::decode(&frame.payload) {
                        sys::kill(pid, sys::Aim::Group, signal).ok();
                    }
                }
            }
        }
    }

    fn elevate(&mut self, session: &mut Session, payload: &[u8]) -> Result<i32, Failure> {
        let request: Elevate = minicbor::decode(payload).map_err(|error| {
            refuse(FailureCode::Invalid, format!("the request cannot be decoded: {error}"))
        })?;
        let peer = sockopt::socket_peercred(&session.socket)
            .map_err(|errno| crate::failure::kernel("ask who is there", errno))?;
        let caller = identity::of(peer.uid.as_raw());
        if !identity::may_act_as_others(&caller) {
            let name = caller.name.unwrap_or_else(|| peer.uid.as_raw().to_string());
            let message = format!("{name} is not in the group `sudo`");
            return Err(refuse(FailureCode::PermissionDenied, message));
        }
        let lent: [OwnedFd; LENT] = std::mem::take(&mut session.lent).try_into().map_err(|_| {
            refuse(FailureCode::Invalid, "standard input, output and error have to come with the request")
        })?;
        let user = request.user.clone().unwrap_or_else(|| "0".into());
        let identity = identity::resolve(Some(&user), &self.config)?;
        let start = to_start(request, user, &identity, &caller, peer);
        self.freshen_machine();
        let pid = self.spawner.start_on(&start, &self.config, lent.each_ref().map(AsFd::as_fd))?;
        self.keep_machine_fresh();
        Ok(pid)
    }

    /// Tells a session that its program has ended, if the pid is one of theirs.
    pub(super) fn end_elevation(&mut self, ended: i32, status: WaitStatus) {
        let sessions = &self.elevations.sessions;
        let found = sessions.iter().find_map(|(id, session)| match session.state {
            State::Running { pid, began } if pid == ended => Some((*id, began)),
            _ => None,
        });
        let Some((id, began)) = found else { return };
        let Some(session) = self.elevations.sessions.remove(&id) else { return };
        let (code, cause) = match status.terminating_signal() {
            Some(signal) => (128 + signal, ExitCause::Signalled { signal }),
            None => (status.exit_status().unwrap_or(0), ExitCause::Exited),
        };
        let duration_ms = millis(began.elapsed().min(Duration::from_secs(u64::MAX / 1000)));
        session.tell(&Reply::Exited(Exit { code, cause, duration_ms, output_bytes: 0 }));
    }

    /// A session has not asked in time.
    pub(super) fn drop_silent_elevation(&mut self, session: u64) {
        self.elevations.sessions.remove(&session);
    }
}

impl Session {
    /// Reads once, no more than the frame in progress wants, and keeps what is lent with it.
    fn receive(&mut self, scratch: &mut [u8]) -> Result<usize, Errno> {
        let wanted = self.decoder.wanted().min(SCRATCH);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LENT))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [IoSliceMut::new(&mut scratch[..wanted])];
        let received =
            match rustix::net::recvmsg(&self.socket, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => received.bytes,
                // Nothing came after all; `wanted` is never zero, so neither is this an end.
                Err(Errno::AGAIN | Errno::INTR) => return Ok(usize::MAX),
                Err(errno) => return Err(errno),
            };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                let room = LENT.saturating_sub(self.lent.len());
                self.lent.extend(descriptors.take(room));
            }
        }
        self.decoder.push(&scratch[..received]);
        Ok(received)
    }

    /// One try: the answer is small, and a peer that does not read it is not waited for.
    fn tell(&self, reply: &Reply) {
        // Encoding into memory cannot fail.
        let payload = minicbor::to_vec(reply).unwrap_or_default();
        let mut message = Vec::with_capacity(HEADER_BYTES + payload.len());
        message.extend_from_slice(&Frame::header(FrameKind::Message, payload.len()));
        message.extend_from_slice(&payload);
        rustix::net::send(&self.socket, &message, SendFlags::NOSIGNAL).ok();
    }
}

fn to_start(
    request: Elevate,
    user: ByteString,
    identity: &Identity,
    caller: &Identity,
    peer: UCred,
) -> Start {
    let text = |key: &str, value: &[u8]| ByteString::from([key.as_bytes(), b"=", value].concat());
    let path = |key: &str, path: &std::path::Path| text(key, path.as_os_str().as_encoded_bytes());
    let id = identity.uid.to_string();
    let name = identity.name.as_deref().unwrap_or(&id);
    let caller_id = peer.uid.as_raw().to_string();
    let command = request.argv.iter().map(ByteString::as_bytes).collect::<Vec<_>>().join(&b' ');
    let mut env = vec![
        path("HOME", &identity.home),
        path("SHELL", &identity.shell),
        text("USER", name.as_bytes()),
        text("LOGNAME", name.as_bytes()),
        text("SUDO_USER", caller.name.as_deref().unwrap_or(&caller_id).as_bytes()),
        text("SUDO_UID", caller_id.as_bytes()),
        text("SUDO_GID", peer.gid.as_raw().to_string().as_bytes()),
        text("SUDO_COMMAND", &command),
    ];
    env.extend(request.env);
    let shell = ByteString::from(&identity.shell);
    let (argv, cwd) = match request.runs {
        Runs::Program => (request.argv, request.cwd),
        Runs::Shell => (shell_words(vec![shell], &request.argv), request.cwd),
        Runs::LoginShell => {
            (shell_words(vec![shell, "-l".into()], &request.argv), ByteString::from(&identity.home))
        }
    };
    Start { argv, env, cwd: Some(cwd), user: Some(user), ..Start::default() }
}

/// A shell that runs these words as one command, if there are any.
fn shell_words(mut shell: Vec<ByteString>, words: &[ByteString]) -> Vec<ByteString> {
    if !words.is_empty() {
        let escaped: Vec<Vec<u8>> = words.iter().map(|word| escape(word.as_bytes())).collect();
        shell.extend(["-c".into(), escaped.join(&b' ').into()]);
    }
    shell
}

/// Means itself to a shell. Variables are left for it to fill in.
fn escape(word: &[u8]) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$') || byte >= 0x80;
    word.iter()
        .flat_map(|byte| [(!plain(*byte)).then_some(b'\\'), Some(*byte)].into_iter().flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell_mean_themselves() {
        let words: Vec<ByteString> = ["echo", "a b", "$HOME", "x;y'z"].map(Into::into).to_vec();
        let argv = shell_words(vec!["sh".into()], &words);
        assert_eq!(argv, ["sh", "-c", r"echo a\ b $HOME x\;y\'z"].map(ByteString::from));
        assert_eq!(shell_words(vec!["sh".into()], &[]), ["sh".into()]);
    }
}
