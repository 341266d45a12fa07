//! The states of a sandbox, and the requests that each of them allows.
//!
//! ```text
//! Creating ──► Ready ⇄ Paused
//!   │  │         │        │
//!   │  └─────────┴────────┴──► Stopping ──► Stopped
//!   └──► Failed
//!
//! Stopped  ──► Creating   a resume, if the files were kept
//! Creating ──► Stopped    such a resume failed, and the files are still there
//! Ready    ──► Stopped    a rollback or a move could not start it again
//! ```
//!
//! A sandbox is created and is then ready. It is paused and resumed any number of times. A stop is
//! allowed in every state and is final: once it has begun, everything else is denied. A sandbox
//! whose first start fails has failed, and nothing is left of it.
//!
//! [`decide`] is pure. The driver of a sandbox asks it, acts, and is the only writer of the status.
//! Every forbidden pair is written out with its reason.

use serde::{Deserialize, Serialize};

/// The state of a sandbox. See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Creating,
    Ready,
    Paused,
    Stopping,
    Stopped,
    Failed,
}

/// Circumstances that a decision depends on, besides the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Activity {
    /// Tool calls that have not ended.
    pub tools_in_flight: u32,
    pub busy: Option<Busy>,
    /// A life of the sandbox is over, and its files are kept for the next one.
    pub files_kept: bool,
}

/// Work that concerns the sandbox as a whole. There is one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Busy {
    /// Its files are being copied.
    Snapshot,
    /// It goes back to an earlier state, or waits for its turn to do so.
    Rollback,
    /// It is moved behind another wall, or waits for its turn to be.
    Move,
}

/// Something that a client or the driver itself asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run a program or a tool.
    Execute,
    ReadFiles,
    WriteFiles,
    Pause,
    Resume,
    Snapshot,
    /// Go back to an earlier state, or behind another wall.
    Rollback,
    Stop,
    /// Its processes run and its agent answers.
    BecomeReady,
    /// Its processes are gone.
    BecomeStopped,
    /// Its first start did not succeed, and nothing of it is left.
    Fail,
}

/// The next step of a driver that may proceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Do it, in the same state.
    Serve,
    Enter(Status),
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Proceed(Step),
    /// The sandbox is in that state already: there is nothing to do, and it is no error.
    AlreadySo,
    Denied(DenyReason),
}

/// Why a request is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum DenyReason {
    #[error("the sandbox is still being created")]
    StillCreating,
    #[error("the sandbox is paused: resume it first")]
    Paused,
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
    #[error("it is being moved behind another wall")]
    MoveInProgress,
    #[error("the sandbox cannot go back to an earlier state of its life")]
    OutOfOrder,
}

impl Status {
    pub const ALL: [Self; 6] =
        [Self::Creating, Self::Ready, Self::Paused, Self::Stopping, Self::Stopped, Self::Failed];

    /// No request changes a terminal state, except a resume where files were kept.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Stopped | Self::Failed => true,
            Self::Creating | Self::Ready | Self::Paused | Self::Stopping => false,
        }
    }
}

impl Request {
    pub const ALL: [Self; 11] = [
        Self::Execute,
        Self::ReadFiles,
        Self::WriteFiles,
        Self::Pause,
        Self::Resume,
        Self::Snapshot,
        Self::Rollback,
        Self::Stop,
        Self::BecomeReady,
        Self::BecomeStopped,
        Self::Fail,
    ];
}

/// Decides a request. See the module's documentation.
pub fn decide(status: Status, activity: Activity, request: Request) -> Verdict {
    match status {
        Status::Creating => while_creating(activity, request),
        Status::Ready => while_ready(activity, request),
        Status::Paused => while_paused(request),
        Status::Stopping => while_stopping(request),
        Status::Stopped => at_the_end(activity, request, DenyReason::Stopped),
        Status::Failed => at_the_end(activity, request, DenyReason::Failed),
    }
}

fn while_creating(activity: Activity, request: Request) -> Verdict {
    match request {
        Request::BecomeReady => enter(Status::Ready),
        Request::Stop => enter(Status::Stopping),
        // A start that fails leaves the files that it began with, or nothing.
        Request::BecomeStopped if activity.files_kept => enter(Status::Stopped),
        Request::Fail if !activity.files_kept => enter(Status::Failed),
        Request::BecomeStopped | Request::Fail => Verdict::Denied(DenyReason::OutOfOrder),
        Request::Execute
        | Request::ReadFiles
        | Request::WriteFiles
        | Request::Pause
        | Request::Resume
        | Request::Snapshot
        | Request::Rollback => Verdict::Denied(DenyReason::StillCreating),
    }
}

fn while_ready(activity: Activity, request: Request) -> Verdict {
    match request {
        Request::Stop => enter(Status::Stopping),
        Request::BecomeReady | Request::Resume => Verdict::AlreadySo,
        // A rollback or a move has ended the processes itself, and could not start them again.
        Request::BecomeStopped if matches!(activity.busy, Some(Busy::Rollback | Busy::Move)) => {
            enter(Status::Stopped)
        }
        Request::BecomeStopped | Request::Fail => Verdict::Denied(DenyReason::OutOfOrder),
        Request::Execute | Request::ReadFiles | Request::WriteFiles => match activity.busy {
            Some(Busy::Rollback) => Verdict::Denied(DenyReason::RollbackInProgress),
            Some(Busy::Move) => Verdict::Denied(DenyReason::MoveInProgress),
            Some(Busy::Snapshot) | None => Verdict::Proceed(Step::Serve),
        },
        Request::Pause => unless_busy(activity, Step::Enter(Status::Paused)),
        Request::Snapshot => unless_busy(activity, Step::Serve),
        Request::Rollback if activity.tools_in_flight > 0 => Verdict::Denied(DenyReason::ToolsInFlight),
        Request::Rollback => unless_busy(activity, Step::Serve),
    }
}

fn while_paused(request: Request) -> Verdict {
    match request {
        Request::Pause => Verdict::AlreadySo,
        Request::Resume => enter(Status::Ready),
        Request::Snapshot => Verdict::Proceed(Step::Serve),
        Request::Stop => enter(Status::Stopping),
        Request::Execute | Request::ReadFiles | Request::WriteFiles | Request::Rollback => {
            Verdict::Denied(DenyReason::Paused)
        }
        Request::BecomeReady | Request::BecomeStopped | Request::Fail => {
            Verdict::Denied(DenyReason::OutOfOrder)
        }
    }
}

fn while_stopping(request: Request) -> Verdict {
    match request {
        Request::Stop => Verdict::AlreadySo,
        Request::BecomeStopped => enter(Status::Stopped),
        Request::Execute
        | Request::ReadFiles
        | Request::WriteFiles
        | Request::Pause
        | Request::Resume
        | Request::Snapshot
        | Request::Rollback
        | Request::BecomeReady
        | Request::Fail => Verdict::Denied(DenyReason::Stopping),
    }
}

/// A terminal state: a stop has nothing left to do, and almost everything else is denied.
fn at_the_end(activity: Activity, request: Request, reason: DenyReason) -> Verdict {
    match request {
        Request::Resume if activity.files_kept => enter(Status::Creating),
        // No process is in the way: kept files can be captured, exchanged and shared.
        Request::Snapshot | Request::Rollback if activity.files_kept => unless_busy(activity, Step::Serve),
        Request::Stop | Request::BecomeStopped | Request::Fail => Verdict::AlreadySo,
        Request::Execute
        | Request::ReadFiles
        | Request::WriteFiles
        | Request::Pause
        | Request::Resume
        | Request::Snapshot
        | Request::Rollback
        | Request::BecomeReady => Verdict::Denied(reason),
    }
}

fn unless_busy(activity: Activity, step: Step) -> Verdict {
    match activity.busy {
        Some(Busy::Rollback) => Verdict::Denied(DenyReason::RollbackInProgress),
        Some(Busy::Move) => Verdict::Denied(DenyReason::MoveInProgress),
        Some(Busy::Snapshot) => Verdict::Denied(DenyReason::SnapshotInProgress),
        None => Verdict::Proceed(step),
    }
}

fn enter(status: Status) -> Verdict {
    Verdict::Proceed(Step::Enter(status))
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
