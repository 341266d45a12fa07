//! A client's lease on a sandbox, and what may be asked of it in which state.
//!
//! | state      | detach   | suspend   | resume   | think  | release  | expire  | terminate  |
//! |------------|----------|-----------|----------|--------|----------|---------|------------|
//! | active     | detached | suspended | =        | =      | released | expired | terminated |
//! | detached   | =        | suspended | active   | denied | released | expired | terminated |
//! | suspended  | denied   | =         | active   | denied | released | expired | terminated |
//! | expired    | denied   | denied    | active   | denied | released | =       | terminated |
//! | released   | denied   | denied    | denied   | denied | =        | =       | denied     |
//! | terminated | denied   | denied    | denied   | denied | =        | =       | =          |
//!
//! A state is what the session becomes; `=` is no error and leaves it as it is. To end what has
//! ended is never an error, but for one thing: a session that was given back no longer speaks for
//! the sandbox, which may be somebody else's by now, and so cannot take it along.
//! [`decide_session`] is this table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::SandboxId;
use crate::owner::Owner;
use crate::spec::SandboxKind;
use crate::unique::SessionId;
use crate::world::{Clock, Deadline};

/// A client's lease on a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub id: SessionId,
    pub owner: Owner,
    pub sandbox: SandboxId,
    /// The user of the session, as the client names it.
    pub client: String,
    pub kind: SandboxKind,
    pub state: SessionState,
    pub timeouts: Timeouts,
    pub labels: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub provision: Provision,
    pub limits: RunLimits,
    /// The class of customer whose limits these are.
    pub tier: Option<String>,
    pub totals: RunTotals,
    pub created_unix_ms: u64,
    pub last_activity_unix_ms: u64,
    /// When the session itself ends, for those with a limited duration.
    pub deadline: Option<Deadline>,
    /// When a detached session is over.
    pub detached_until: Option<Deadline>,
    /// Until then the client's model works, and the sandbox does not count as idle.
    pub thinking_until: Option<Deadline>,
}

impl SessionRecord {
    /// Puts the session into a state, with the deadlines that belong to it. What [`decide_session`]
    /// thinks of it is the caller's business.
    pub fn enter(&mut self, state: SessionState, clock: &dyn Clock) {
        self.state = state;
        self.last_activity_unix_ms = clock.unix_ms();
        self.thinking_until = None;
        self.detached_until = (state == SessionState::Detached)
            .then(|| Deadline::after(clock, self.timeouts.detached_s.saturating_mul(1000)));
    }
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// A client uses the sandbox.
    Active,
    /// The client went away and may come back.
    Detached,
    /// The sandbox is frozen until somebody resumes the session.
    Suspended,
    /// A time limit ended it. It can be resumed if the sandbox's files were kept.
    Expired,
    /// Given back by its client.
    Released,
    /// Ended for good, with its sandbox.
    Terminated,
}

impl SessionState {
    /// True while the session holds its sandbox.
    pub fn is_open(self) -> bool {
        match self {
            Self::Active | Self::Detached | Self::Suspended => true,
            Self::Expired | Self::Released | Self::Terminated => false,
        }
    }
}

/// A request to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionRequest {
    /// The client goes away and may come back.
    Detach,
    /// Let the sandbox rest until somebody resumes the session.
    Suspend,
    Resume,
    /// The client's model works: the sandbox is in use, though it does nothing.
    Think,
    /// The client has no more use for it.
    Release,
    /// Its time is over.
    Expire,
    /// End it together with its sandbox.
    Terminate,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionVerdict {
    Enter(SessionState),
    /// Nothing is to be changed, and it is no error.
    AlreadySo,
    /// Why not, and what to do instead.
    Denied(&'static str),
}

impl SessionState {
    pub const ALL: [Self; 6] =
        [Self::Active, Self::Detached, Self::Suspended, Self::Expired, Self::Released, Self::Terminated];
}

impl SessionRequest {
    pub const ALL: [Self; 7] = [
        Self::Detach,
        Self::Suspend,
        Self::Resume,
        Self::Think,
        Self::Release,
        Self::Expire,
        Self::Terminate,
    ];
}

/// Decides a request. See the module's documentation.
pub fn decide_session(state: SessionState, request: SessionRequest) -> SessionVerdict {
    match state {
        SessionState::Active => while_active(request),
        SessionState::Detached => while_detached(request),
        SessionState::Suspended => while_suspended(request),
        SessionState::Expired => while_expired(request),
        SessionState::Released => while_released(request),
        SessionState::Terminated => while_terminated(request),
    }
}

fn while_active(request: SessionRequest) -> SessionVerdict {
    match request {
        SessionRequest::Detach => SessionVerdict::Enter(SessionState::Detached),
        SessionRequest::Suspend => SessionVerdict::Enter(SessionState::Suspended),
        SessionRequest::Resume | SessionRequest::Think => SessionVerdict::AlreadySo,
        SessionRequest::Release => SessionVerdict::Enter(SessionState::Released),
        SessionRequest::Expire => SessionVerdict::Enter(SessionState::Expired),
        SessionRequest::Terminate => SessionVerdict::Enter(SessionState::Terminated),
    }
}

fn while_detached(request: SessionRequest) -> SessionVerdict {
    match request {
        SessionRequest::Detach => SessionVerdict::AlreadySo,
        SessionRequest::Suspend => SessionVerdict::Enter(SessionState::Suspended),
        SessionRequest::Resume => SessionVerdict::Enter(SessionState::Active),
        SessionRequest::Think => SessionVerdict::Denied("resume it before its client thinks on"),
        SessionRequest::Release => SessionVerdict::Enter(SessionState::Released),
        SessionRequest::Expire => SessionVerdict::Enter(SessionState::Expired),
        SessionRequest::Terminate => SessionVerdict::Enter(SessionState::Terminated),
    }
}

fn while_suspended(request: SessionRequest) -> SessionVerdict {
    match request {
        SessionRequest::Suspend => SessionVerdict::AlreadySo,
        SessionRequest::Resume => SessionVerdict::Enter(SessionState::Active),
        SessionRequest::Detach => SessionVerdict::Denied("it needs no client until it is resumed"),
        SessionRequest::Think => SessionVerdict::Denied("resume it before its client thinks on"),
        SessionRequest::Release => SessionVerdict::Enter(SessionState::Released),
        SessionRequest::Expire => SessionVerdict::Enter(SessionState::Expired),
        SessionRequest::Terminate => SessionVerdict::Enter(SessionState::Terminated),
    }
}

fn while_expired(request: SessionRequest) -> SessionVerdict {
    match request {
        SessionRequest::Resume => SessionVerdict::Enter(SessionState::Active),
        SessionRequest::Expire => SessionVerdict::AlreadySo,
        SessionRequest::Release => SessionVerdict::Enter(SessionState::Released),
        SessionRequest::Terminate => SessionVerdict::Enter(SessionState::Terminated),
        SessionRequest::Detach | SessionRequest::Suspend | SessionRequest::Think => {
            SessionVerdict::Denied("its time is over: resume it, or acquire another")
        }
    }
}

fn while_released(request: SessionRequest) -> SessionVerdict {
    match request {
        SessionRequest::Release | SessionRequest::Expire => SessionVerdict::AlreadySo,
        SessionRequest::Terminate => {
            SessionVerdict::Denied("it was given back: end the sandbox itself, if it is still wanted gone")
        }
        SessionRequest::Detach | SessionRequest::Suspend | SessionRequest::Resume | SessionRequest::Think => {
            SessionVerdict::Denied("it was given back: acquire another")
        }
    }
}

fn while_terminated(request: SessionRequest) -> SessionVerdict {
    match request {
        SessionRequest::Release | SessionRequest::Expire | SessionRequest::Terminate => {
            SessionVerdict::AlreadySo
        }
        SessionRequest::Detach | SessionRequest::Suspend | SessionRequest::Resume | SessionRequest::Think => {
            SessionVerdict::Denied("it ended for good with its sandbox: acquire another")
        }
    }
}

/// How long a sandbox may be in each state before the next milder one follows, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// An idle sandbox is frozen after this long.
    pub active_s: u64,
    /// A session without its client expires after this long.
    pub detached_s: u64,
    /// A frozen sandbox is stopped after this long; its files stay.
    pub suspended_s: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { active_s: 300, detached_s: 3600, suspended_s: 86_400 }
    }
}

/// The limits of a session's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    pub runs: u32,
    /// Longest duration of one run.
    pub run_s: u64,
    pub tokens: u64,
    /// How long the session may last.
    pub duration_s: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { runs: 10, run_s: 300, tokens: 50_000, duration_s: 900 }
    }
}

/// The exact sums over a session's runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTotals {
    pub runs: u32,
    pub tokens: u64,
    pub duration_ms: u64,
}

/// How far the making of what the session needs has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Provision {
    Pending,
    Ready {
        /// Where the sandbox's service answers.
        url: Option<String>,
        /// The caller's own name for the work that made it.
        job: Option<String>,
    },
    Failed {
        reason: String,
    },
}

impl Provision {
    /// Where this may go from here: `Some` is what it becomes, `None` leaves it as it is. What
    /// failed stays failed, with its first reason; what is ready may say another address, or fail
    /// later.
    pub fn decide(&self, next: Self) -> Result<Option<Self>, &'static str> {
        match (self, next) {
            (Self::Pending, next @ (Self::Ready { .. } | Self::Failed { .. }))
            | (Self::Ready { .. }, next @ (Self::Ready { .. } | Self::Failed { .. })) => Ok(Some(next)),
            (Self::Failed { .. }, Self::Failed { .. }) | (Self::Pending, Self::Pending) => Ok(None),
            (Self::Failed { .. }, Self::Ready { .. }) => Err("its provisioning failed: acquire another"),
            (Self::Ready { .. } | Self::Failed { .. }, Self::Pending) => Err("its provisioning is over"),
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
