use warren_core::{OnExpiry, PausedBy, SessionRequest, SessionState, SessionVerdict, decide_session};

use super::Op;
use crate::support::{ACTIVE_S, DETACHED_S, SUSPENDED_S};

/// Most sandboxes that live at once.
pub(super) const MOST: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Denied,
    SessionDenied,
    Ended,
    TooMany,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Ready,
    Paused(PausedBy),
    Stopped,
    Gone,
}

#[derive(Debug, Clone)]
pub(super) struct Sandbox {
    pub(super) place: Place,
    pub(super) written: bool,
    paused_s: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) state: SessionState,
    sandbox: usize,
    detached_s: u64,
}

/// The expected state.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) sandboxes: Vec<Sandbox>,
    pub(super) sessions: Vec<Session>,
    now_s: u64,
}

impl Model {
    pub(super) fn perform(&mut self, op: Op) -> Answer {
        let sandbox = |index: usize| index % self.sandboxes.len().max(1);
        let session = |index: usize| index % self.sessions.len().max(1);
        match op {
            Op::Acquire if self.is_full() => Answer::TooMany,
            Op::Acquire => {
                self.sandboxes.push(Sandbox { place: Place::Ready, written: false, paused_s: 0 });
                self.join(self.sandboxes.len() - 1)
            }
            Op::Attach(index) => match (sandbox(index), self.sandboxes[sandbox(index)].place) {
                (_, Place::Gone) => Answer::Ended,
                (index, _) => match self.run(index) {
                    Answer::Done => self.join(index),
                    other => other,
                },
            },
            Op::Pause(index) => self.pause(sandbox(index)),
            Op::Resume(index) => self.resume(sandbox(index)),
            Op::Stop(index, keep) => self.stop(sandbox(index), keep),
            Op::Expire(index, end) => self.expire(sandbox(index), end),
            Op::Exec(index) => self.work(sandbox(index)),
            Op::Die(index) => {
                let index = sandbox(index);
                if self.is_live(index) { self.stop(index, true) } else { Answer::Done }
            }
            Op::Detach(index) => {
                let now_s = self.now_s;
                self.step(session(index), SessionRequest::Detach, |session| session.detached_s = now_s)
            }
            Op::Suspend(index) => self.suspend(session(index)),
            Op::ResumeSession(index) => self.resume_session(session(index)),
            Op::Release(index, keep) => self.release(session(index), keep),
            Op::Terminate(index) => self.terminate(session(index)),
            Op::SetNetwork(index, _) | Op::Grant(index, _) => match self.sandboxes[sandbox(index)].place {
                Place::Gone => Answer::Denied,
                Place::Ready | Place::Paused(_) | Place::Stopped => Answer::Done,
            },
            Op::Wait(longer) => self.wait(ACTIVE_S + 2 + longer),
            Op::Restart => Answer::Done,
            Op::Reboot => self.reboot(),
        }
    }

    fn is_live(&self, index: usize) -> bool {
        matches!(self.sandboxes[index].place, Place::Ready | Place::Paused(_))
    }

    fn is_full(&self) -> bool {
        (0..self.sandboxes.len()).filter(|index| self.is_live(*index)).count() >= MOST
    }

    fn join(&mut self, sandbox: usize) -> Answer {
        self.sessions.push(Session { state: SessionState::Active, sandbox, detached_s: 0 });
        Answer::Done
    }

    fn run(&mut self, index: usize) -> Answer {
        match self.sandboxes[index].place {
            Place::Gone => return Answer::Denied,
            Place::Stopped if self.is_full() => return Answer::TooMany,
            Place::Ready | Place::Paused(_) | Place::Stopped => {}
        }
        self.sandboxes[index].place = Place::Ready;
        Answer::Done
    }

    /// The session that held it last goes on with it.
    fn resume(&mut self, index: usize) -> Answer {
        let answer = self.run(index);
        let mut sessions = self.sessions.iter_mut().filter(|session| session.sandbox == index);
        let held = sessions.any(|session| session.state.is_open());
        if answer == Answer::Done && !held {
            let mut sessions = self.sessions.iter_mut().filter(|session| session.sandbox == index).rev();
            if let Some(last) = sessions.find(|session| session.state == SessionState::Expired) {
                last.state = SessionState::Active;
            }
        }
        answer
    }

    fn pause(&mut self, index: usize) -> Answer {
        match self.sandboxes[index].place {
            Place::Stopped | Place::Gone => return Answer::Denied,
            Place::Paused(PausedBy::Request) => return Answer::Done,
            Place::Ready | Place::Paused(PausedBy::Idleness) => {}
        }
        self.sandboxes[index].place = Place::Paused(PausedBy::Request);
        self.sandboxes[index].paused_s = self.now_s;
        Answer::Done
    }

    /// While somebody has it paused, its time stands still.
    fn expire(&mut self, index: usize, end: OnExpiry) -> Answer {
        match (self.sandboxes[index].place, end) {
            (Place::Gone, _) => Answer::Denied,
            (Place::Paused(PausedBy::Request) | Place::Stopped, _) => Answer::Done,
            (Place::Ready | Place::Paused(PausedBy::Idleness), OnExpiry::Pause) => self.pause(index),
            (Place::Ready | Place::Paused(PausedBy::Idleness), end) => {
                self.stop(index, end == OnExpiry::Keep)
            }
        }
    }

    fn work(&mut self, index: usize) -> Answer {
        match self.sandboxes[index].place {
            Place::Ready | Place::Paused(PausedBy::Idleness) => {
                self.sandboxes[index].place = Place::Ready;
                self.sandboxes[index].written = true;
                Answer::Done
            }
            Place::Paused(PausedBy::Request) | Place::Stopped | Place::Gone => Answer::Denied,
        }
    }

    fn stop(&mut self, index: usize, keep: bool) -> Answer {
        let sandbox = &mut self.sandboxes[index];
        let stays = sandbox.place == Place::Gone || sandbox.place == Place::Stopped && keep;
        if stays {
            return Answer::Done;
        }
        sandbox.place = if keep { Place::Stopped } else { Place::Gone };
        sandbox.written &= keep;
        for session in self.sessions.iter_mut().filter(|session| session.sandbox == index) {
            if !keep && session.state == SessionState::Expired {
                session.state = SessionState::Terminated;
            }
            if session.state.is_open() {
                session.state = if keep { SessionState::Expired } else { SessionState::Terminated };
            }
        }
        Answer::Done
    }

    fn step(&mut self, index: usize, request: SessionRequest, also: impl FnOnce(&mut Session)) -> Answer {
        let session = &mut self.sessions[index];
        match decide_session(session.state, request) {
            SessionVerdict::Denied(_) => return Answer::SessionDenied,
            SessionVerdict::AlreadySo => {}
            SessionVerdict::Enter(state) => {
                session.state = state;
                also(session);
            }
        }
        Answer::Done
    }

    fn is_denied(&self, index: usize, request: SessionRequest) -> bool {
        matches!(decide_session(self.sessions[index].state, request), SessionVerdict::Denied(_))
    }

    fn suspend(&mut self, index: usize) -> Answer {
        let sandbox = self.sessions[index].sandbox;
        let used = self.sessions.iter().enumerate().any(|(other, session)| {
            other != index && session.sandbox == sandbox && session.state == SessionState::Active
        });
        if self.is_denied(index, SessionRequest::Suspend) || used {
            return Answer::SessionDenied;
        }
        match self.pause(sandbox) {
            Answer::Done => self.step(index, SessionRequest::Suspend, |_| {}),
            other => other,
        }
    }

    fn resume_session(&mut self, index: usize) -> Answer {
        if self.is_denied(index, SessionRequest::Resume) {
            return Answer::SessionDenied;
        }
        match self.run(self.sessions[index].sandbox) {
            Answer::Done => self.step(index, SessionRequest::Resume, |_| {}),
            other => other,
        }
    }

    fn release(&mut self, index: usize, keep: bool) -> Answer {
        let (before, sandbox) = (self.sessions[index].state, self.sessions[index].sandbox);
        let answer = self.step(index, SessionRequest::Release, |_| {});
        let held = self.sessions.iter().any(|session| session.sandbox == sandbox && session.state.is_open());
        if self.sessions[index].state != before && !held {
            self.stop(sandbox, keep);
        }
        answer
    }

    fn terminate(&mut self, index: usize) -> Answer {
        if self.is_denied(index, SessionRequest::Terminate) {
            return Answer::SessionDenied;
        }
        if self.sessions[index].state != SessionState::Terminated {
            self.stop(self.sessions[index].sandbox, false);
            self.sessions[index].state = SessionState::Terminated;
        }
        Answer::Done
    }

    fn wait(&mut self, seconds: u64) -> Answer {
        self.now_s += seconds;
        for index in 0..self.sandboxes.len() {
            let due_s = self.sandboxes[index].paused_s + SUSPENDED_S;
            match self.sandboxes[index].place {
                Place::Paused(_) if due_s <= self.now_s => drop(self.stop(index, true)),
                Place::Ready => {
                    self.sandboxes[index].place = Place::Paused(PausedBy::Idleness);
                    self.sandboxes[index].paused_s = self.now_s;
                }
                Place::Paused(_) | Place::Stopped | Place::Gone => {}
            }
        }
        for index in 0..self.sessions.len() {
            let session = &mut self.sessions[index];
            let over = session.detached_s + DETACHED_S <= self.now_s;
            if session.state == SessionState::Detached && over {
                session.state = SessionState::Expired;
                let sandbox = session.sandbox;
                if !self.sessions.iter().any(|other| other.sandbox == sandbox && other.state.is_open()) {
                    self.stop(sandbox, true);
                }
            }
        }
        Answer::Done
    }

    fn reboot(&mut self) -> Answer {
        self.now_s += 1;
        for index in 0..self.sandboxes.len() {
            if self.is_live(index) {
                self.stop(index, true);
            }
        }
        Answer::Done
    }
}
