//! Letters to a driver, and its answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use warren_core::{
    JournalEntry, LayerId, OnExpiry, Pulse, Request, SandboxId, SandboxName, SandboxRecord, SessionId,
    SnapshotId, SnapshotReason, SnapshotRecord, WallChoice,
};

use super::network::NetworkChange;
use super::{Cell, Exclusive};
use crate::EngineError;
use crate::certificate::Ending;
use crate::ports::Backend;

/// A letter to a driver. The answer is dropped when the driver left before reading it, and the
/// caller asks the next one.
#[derive(Debug)]
pub(crate) enum Mail {
    Do(Task, Reply<Arc<SandboxRecord>>),
    Capture(Box<CaptureOrder>, Reply<Capture>),
    Suspend(Box<SuspendOrder>, Reply<Capture>),
    RollBack(Box<RollbackOrder>, Reply<Box<RolledBack>>),
    Move(Box<MoveOrder>, Reply<Box<Moved>>),
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, EngineError>>;

/// A request to a driver.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    Pause,
    Resume,
    /// Somebody wants to work in a sandbox that paused for want of it.
    Thaw,
    Stop(Ending),
    /// Its time is over, whatever the record says.
    Expire,
    Patch(Patch),
    Network {
        change: NetworkChange,
        by: String,
    },
    /// Time has passed: see what is due.
    Look(Option<Pulse>),
    /// A snapshot is about to go; this is where its children go on.
    Forget {
        snapshot: SnapshotId,
        parent: Option<SnapshotId>,
    },
    /// One layer is equal to these on top of one another.
    Restack {
        run: Arc<[LayerId]>,
        into: LayerId,
    },
}

/// Changes to an existing sandbox. `None` leaves a value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// `Some(None)` takes the name away.
    pub name: Option<Option<SandboxName>>,
    pub labels: Option<BTreeMap<String, String>>,
    pub metadata: Option<BTreeMap<String, String>>,
    /// Time to live, counted from now.
    pub ttl_s: Option<u64>,
    /// Time to live, counted from now, unless it has more anyway.
    pub least_ttl_s: Option<u64>,
    pub on_expiry: Option<OnExpiry>,
    /// Notes of a face of the service. Replaced as a whole.
    pub annotations: Option<BTreeMap<String, String>>,
}

/// An order to capture a sandbox's state.
#[derive(Debug, Clone)]
pub(crate) struct CaptureOrder {
    pub(crate) reason: SnapshotReason,
    pub(crate) name: Option<String>,
    pub(crate) session: Option<SessionId>,
    /// It ends a turn.
    pub(crate) turn: bool,
    /// Answer when it survives a power cut.
    pub(crate) durable: bool,
    pub(crate) need: Need,
    pub(crate) copying: Copying,
    /// The operations that led to the state, if that is known better than by looking which have
    /// ended.
    pub(crate) operations: Option<Vec<JournalEntry>>,
    pub(crate) processes: Processes,
}

/// The processes that a snapshot has beside files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Processes {
    Left,
    /// All of them. `force`: also if callers are inside.
    Wanted {
        force: bool,
    },
    /// They are in this layer, and nowhere else.
    Are(LayerId),
}

/// An order to capture a sandbox's processes with its files, with the sandbox to itself.
#[derive(Debug)]
pub(crate) struct SuspendOrder {
    pub(crate) capture: CaptureOrder,
    /// Also if callers are inside: their connections break.
    pub(crate) force: bool,
    pub(crate) exclusive: Exclusive,
}

/// How much a copy may cost when a sandbox cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copying {
    /// As long as it costs little.
    Bounded,
    /// As [`Copying::Bounded`], but more may be copied while the sandbox goes on: nobody waits for
    /// it.
    CatchUp,
    WhateverItCosts,
}

/// When a snapshot is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Always,
    /// If the files differ from those of the head.
    IfChanged,
    /// As [`Need::IfChanged`], and only if something was done since that may have changed them.
    IfMarked,
}

/// The result of a [`CaptureOrder`].
#[derive(Debug, Clone)]
pub(crate) enum Capture {
    Taken(Box<Taken>),
    /// The state is that of the head, or the one that the sandbox began with.
    Same(SnapshotId),
    /// It would have cost more than allowed, for this reason.
    NotKept(String),
}

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub snapshot: SnapshotRecord,
    /// How long the sandbox stood still.
    pub frozen: Duration,
    pub took: Duration,
}

/// Where a sandbox is to go.
#[derive(Debug, Clone)]
pub(crate) enum Goal {
    To(SnapshotId),
    /// Before this many of the last operations.
    Undo(u32),
    /// After this many of those that were undone.
    Redo(u32),
}

/// A rollback, with the sandbox to itself.
#[derive(Debug)]
pub(crate) struct RollbackOrder {
    pub(crate) goal: Goal,
    /// Also if callers are inside, and if more is taken back than was asked for.
    pub(crate) force: bool,
    pub(crate) exclusive: Exclusive,
}

/// A move behind another wall, with the sandbox to itself.
#[derive(Debug)]
pub(crate) struct MoveOrder {
    pub(crate) to: Arc<Backend>,
    /// As it was asked for.
    pub(crate) wall: WallChoice,
    /// The name of who asked.
    pub(crate) by: String,
    /// Also if callers are inside.
    pub(crate) force: bool,
    pub(crate) exclusive: Exclusive,
}

/// The result of a move behind another wall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub sandbox: SandboxRecord,
    /// The backends that it left and that it has now; the same if it had that one already.
    pub from: String,
    pub to: String,
    /// The processes that ended with it.
    pub ended: Vec<EndedProcess>,
    pub took: Duration,
}

/// The result of a rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    pub sandbox: SandboxRecord,
    pub to: SnapshotRecord,
    /// The state that it replaced.
    pub safety: SnapshotRecord,
    /// The processes that ended with that state.
    pub ended: Vec<EndedProcess>,
    /// The snapshot's own go on, or will when it is resumed.
    pub memory: bool,
    /// How to come back to what it replaced; absent if neither an undo nor a redo leads there.
    pub back: Option<WayBack>,
    /// Its number in the journal, once it is written down.
    pub entry: Option<u64>,
    pub took: Duration,
}

/// A command that ended with the state it ran in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedProcess {
    pub id: u64,
    pub command: String,
}

/// So many steps lead back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayBack {
    Undo(u32),
    Redo(u32),
}

impl Task {
    /// The lifecycle request that it makes, if that may have to wait for a copy or a rollback.
    pub(crate) fn request(&self) -> Option<Request> {
        match self {
            Self::Pause => Some(Request::Pause),
            Self::Resume
            | Self::Thaw
            | Self::Stop(_)
            | Self::Expire
            | Self::Patch(_)
            | Self::Network { .. }
            | Self::Look(_)
            | Self::Forget { .. }
            | Self::Restack { .. } => None,
        }
    }
}

impl Cell {
    /// Asks the driver; `None` when it has left.
    pub(crate) async fn ask(&self, task: Task) -> Option<Result<Arc<SandboxRecord>, EngineError>> {
        self.send(|reply| Mail::Do(task, reply)).await
    }

    /// Sends a letter and waits for the answer; `None` when the driver has left.
    pub(crate) async fn send<T>(
        &self,
        letter: impl FnOnce(Reply<T>) -> Mail,
    ) -> Option<Result<T, EngineError>> {
        let (reply, answer) = oneshot::channel();
        self.mail.send(letter(reply)).await.ok()?;
        answer.await.ok()
    }

    /// An error while it is being copied or goes back to an earlier state, and the request has to
    /// wait for that.
    pub(crate) fn check_unoccupied(&self, request: Request) -> Result<(), EngineError> {
        match self.occupied(request) {
            Some(reason) => Err(EngineError::Denied { id: self.id.clone(), status: self.status(), reason }),
            None => Ok(()),
        }
    }
}

impl CaptureOrder {
    pub(crate) fn asked(reason: SnapshotReason) -> Self {
        Self {
            reason,
            name: None,
            session: None,
            turn: false,
            durable: false,
            need: Need::Always,
            copying: Copying::WhateverItCosts,
            operations: None,
            processes: Processes::Left,
        }
    }

    /// Nobody asked for it: it must cost little.
    pub(crate) fn automatic() -> Self {
        Self { need: Need::IfMarked, copying: Copying::Bounded, ..Self::asked(SnapshotReason::Command) }
    }

    /// As [`CaptureOrder::automatic`], after one that cost too much: the next ones then copy only
    /// what changes from now on.
    pub(crate) fn catch_up() -> Self {
        Self { copying: Copying::CatchUp, ..Self::automatic() }
    }
}

/// The snapshot that a sandbox's state comes from. What it began with has an id before it is
/// written down.
pub(crate) fn head_or_start(record: &SandboxRecord) -> SnapshotId {
    record.history.head.clone().unwrap_or_else(|| start_of(&record.id))
}

/// The id of the snapshot that a sandbox's history begins with.
pub(crate) fn start_of(id: &SandboxId) -> SnapshotId {
    // Two rounds of FNV-1a over the id's 128 random bits, which are spread over its characters.
    let round = |seed: u64| {
        id.as_str().bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let (high, low) = (round(0xcbf2_9ce4_8422_2325), round(0x8422_2325_cbf2_9ce4));
    SnapshotId::from_random(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sandbox_has_a_beginning_of_its_own() {
        let ids = (0..=255u8).map(|number| start_of(&SandboxId::from_random([number; 16])));
        assert_eq!(ids.collect::<std::collections::HashSet<_>>().len(), 256);
        let id = SandboxId::from_random([7; 16]);
        assert_eq!(start_of(&id), start_of(&id));
    }
}
