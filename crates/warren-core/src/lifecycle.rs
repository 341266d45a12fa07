//! What may be asked of a sandbox in which state.
//!
//! ```text
//!            ┌────────► Failed ◄──────────────┐
//!            │             ▲                  │
//! Creating ──┴─► Syncing ──┴─► Ready ⇄ Paused ┤
//!     │              │           │       │    │
//!     └──────────────┴───────────┴───────┴─► Stopping ─► Stopped
//! ```
//!
//! A sandbox is created, perhaps syncs to a branch, and is ready. A ready one is paused and resumed any number of
//! times. Stop may be asked for in every state and is final: a stop that has begun denies all else. `Stopped` and
//! `Failed` end a life. They are left for `Creating` by a resume alone, and only if the files were kept.
//!
//! [`decide`] is pure: the sandbox's one driver asks it, then acts, and is the only writer of the status. Every
//! forbidden pair is written out with its reason.

use serde::{Deserialize, Serialize};

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Creating,
    Syncing,
    Ready,
    Paused,
    Stopping,
    Stopped,
    Failed,
}

/// What the sandbox is doing besides being in its state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Activity {
    /// Tool calls that have not ended.
    pub tools_in_flight: u32,
    pub snapshotting: bool,
    pub rolling_back: bool,
    /// Its life is over, but its files are there and another life can begin with them.
    pub files_kept: bool,
}

/// What a client or the driver itself asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The sandbox's agent answers, but its files are still being brought up to date.
    BeginSync,
    /// All is in place.
    BecomeReady,
    /// Run a program or a tool.
    Execute,
    ReadFiles,
    WriteFiles,
    Pause,
    Resume,
    Snapshot,
    Rollback,
    Fork,
    Stop,
    /// The processes are gone and everything is given back.
    BecomeStopped,
    /// Something that cannot be mended happened.
    Fail,
}

/// What the driver does next when it may proceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Do it, in the same state.
    Serve,
    /// Keep it, in order, until the sync is over.
    WaitForSync,
    Enter(Status),
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Proceed(Step),
    /// What was asked for is already the case; nothing is to be done and it is no error.
    AlreadySo,
    Denied(DenyReason),
}

/// Why a request is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum DenyReason {
    #[error("the sandbox is still being created")]
    StillCreating,
    #[error("the sandbox is still syncing")]
    StillSyncing,
    #[error("the sandbox is paused: resume it first")]
    Paused,
    #[error("the sandbox is not paused")]
    NotPaused,
    #[error("the sandbox is being destroyed")]
    Stopping,
    #[error("the sandbox has stopped")]
    Stopped,
    #[error("the sandbox has failed")]
    Failed,
    #[error("tools are in flight: wait for them or cancel them first")]
    ToolsInFlight,
    #[error("a snapshot is being taken")]
    SnapshotInProgress,
    #[error("a rollback is in progress")]
    RollbackInProgress,
    #[error("the sandbox cannot go back to an earlier state of its life")]
    OutOfOrder,
}

impl Status {
    pub const ALL: [Self; 7] = [
        Self::Creating,
        Self::Syncing,
        Self::Ready,
        Self::Paused,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
    ];

    /// No request changes a terminal state, but for a resume where files were kept.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Stopped | Self::Failed => true,
            Self::Creating | Self::Syncing | Self::Ready | Self::Paused | Self::Stopping => false,
        }
    }
}

impl Request {
    pub const ALL: [Self; 13] = [
        Self::BeginSync,
        Self::BecomeReady,
        Self::Execute,
        Self::ReadFiles,
        Self::WriteFiles,
        Self::Pause,
        Self::Resume,
        Self::Snapshot,
        Self::Rollback,
        Self::Fork,
        Self::Stop,
        Self::BecomeStopped,
        Self::Fail,
    ];
}

/// Decides a request. See the module's documentation.
pub fn decide(status: Status, activity: Activity, request: Request) -> Verdict {
    match status {
        Status::Creating => while_creating(request),
        Status::Syncing => while_syncing(request),
        Status::Ready => while_ready(activity, request),
        Status::Paused => while_paused(request),
        Status::Stopping => while_stopping(request),
        Status::Stopped => at_the_end(activity, request, DenyReason::Stopped),
        Status::Failed => at_the_end(activity, request, DenyReason::Failed),
    }
}

fn while_creating(request: Request) -> Verdict {
    match request {
        Request::BeginSync => enter(Status::Syncing),
        Request::BecomeReady => enter(Status::Ready),
        Request::Stop => enter(Status::Stopping),
        Request::Fail => enter(Status::Failed),
        Request::Execute
        | Request::ReadFiles
        | Request::WriteFiles
        | Request::Pause
        | Request::Resume
        | Request::Snapshot
        | Request::Rollback
        | Request::Fork => Verdict::Denied(DenyReason::StillCreating),
        Request::BecomeStopped => Verdict::Denied(DenyReason::OutOfOrder),
    }
}

fn while_syncing(request: Request) -> Verdict {
    match request {
        Request::BeginSync => Verdict::AlreadySo,
        Request::BecomeReady => enter(Status::Ready),
        Request::ReadFiles => Verdict::Proceed(Step::Serve),
        Request::Execute | Request::WriteFiles => Verdict::Proceed(Step::WaitForSync),
        Request::Stop => enter(Status::Stopping),
        Request::Fail => enter(Status::Failed),
        Request::Pause | Request::Snapshot | Request::Rollback | Request::Fork => {
            Verdict::Denied(DenyReason::StillSyncing)
        }
        Request::Resume => Verdict::Denied(DenyReason::NotPaused),
        Request::BecomeStopped => Verdict::Denied(DenyReason::OutOfOrder),
    }
}

fn while_ready(activity: Activity, request: Request) -> Verdict {
    match request {
        Request::Stop => enter(Status::Stopping),
        Request::Fail => enter(Status::Failed),
        Request::BecomeReady => Verdict::AlreadySo,
        Request::BeginSync | Request::BecomeStopped => Verdict::Denied(DenyReason::OutOfOrder),
        Request::Resume => Verdict::AlreadySo,
        Request::Execute | Request::ReadFiles | Request::WriteFiles => unless_rolling_back(activity),
        Request::Pause if activity.rolling_back => Verdict::Denied(DenyReason::RollbackInProgress),
        Request::Pause if activity.snapshotting => Verdict::Denied(DenyReason::SnapshotInProgress),
        Request::Pause => enter(Status::Paused),
        Request::Snapshot | Request::Fork => one_at_a_time(activity),
        Request::Rollback if activity.tools_in_flight > 0 => Verdict::Denied(DenyReason::ToolsInFlight),
        Request::Rollback => one_at_a_time(activity),
    }
}

fn while_paused(request: Request) -> Verdict {
    match request {
        Request::Pause => Verdict::AlreadySo,
        Request::Resume => enter(Status::Ready),
        Request::Snapshot | Request::Fork => Verdict::Proceed(Step::Serve),
        Request::Stop => enter(Status::Stopping),
        Request::Fail => enter(Status::Failed),
        Request::Execute | Request::ReadFiles | Request::WriteFiles | Request::Rollback => {
            Verdict::Denied(DenyReason::Paused)
        }
        Request::BeginSync | Request::BecomeReady | Request::BecomeStopped => {
            Verdict::Denied(DenyReason::OutOfOrder)
        }
    }
}

fn while_stopping(request: Request) -> Verdict {
    match request {
        Request::Stop => Verdict::AlreadySo,
        Request::BecomeStopped => enter(Status::Stopped),
        Request::Fail => enter(Status::Failed),
        Request::BeginSync
        | Request::BecomeReady
        | Request::Execute
        | Request::ReadFiles
        | Request::WriteFiles
        | Request::Pause
        | Request::Resume
        | Request::Snapshot
        | Request::Rollback
        | Request::Fork => Verdict::Denied(DenyReason::Stopping),
    }
}

/// A terminal state: stop has what it wants, all else is denied.
fn at_the_end(activity: Activity, request: Request, reason: DenyReason) -> Verdict {
    match request {
        Request::Resume if activity.files_kept => enter(Status::Creating),
        // No process is in the way: what is kept can be captured, exchanged and shared.
        Request::Snapshot | Request::Rollback | Request::Fork if activity.files_kept => {
            one_at_a_time(activity)
        }
        Request::Stop | Request::BecomeStopped | Request::Fail => Verdict::AlreadySo,
        Request::BeginSync
        | Request::BecomeReady
        | Request::Execute
        | Request::ReadFiles
        | Request::WriteFiles
        | Request::Pause
        | Request::Resume
        | Request::Snapshot
        | Request::Rollback
        | Request::Fork => Verdict::Denied(reason),
    }
}

fn unless_rolling_back(activity: Activity) -> Verdict {
    if activity.rolling_back {
        return Verdict::Denied(DenyReason::RollbackInProgress);
    }
    Verdict::Proceed(Step::Serve)
}

fn one_at_a_time(activity: Activity) -> Verdict {
    match (activity.rolling_back, activity.snapshotting) {
        (true, _) => Verdict::Denied(DenyReason::RollbackInProgress),
        (false, true) => Verdict::Denied(DenyReason::SnapshotInProgress),
        (false, false) => Verdict::Proceed(Step::Serve),
    }
}

fn enter(status: Status) -> Verdict {
    Verdict::Proceed(Step::Enter(status))
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
