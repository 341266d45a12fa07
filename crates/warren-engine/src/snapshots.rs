//! Snapshots of sandboxes, and what they make possible: going back, forking, comparing, merging.
//!
//! A snapshot is a stack of layers on top of a template, and a record of it. What a sandbox stands
//! on is in its own record, so a snapshot can go without taking anything from it. A layer stays as
//! long as a record, a sandbox on the machine or work under way names it; the sweep removes the
//! rest.

mod collect;
mod compare;
mod end;
mod flush;
mod fork;
mod promote;
mod records;
mod rollback;
mod squash;
mod take;
mod thin;
mod transfer;

use std::collections::BTreeMap;
use std::path::PathBuf;

use warren_core::{
    Conflicts, LeaveOut, Merge, OnExpiry, SandboxId, SandboxName, SessionId, SessionRecord, SnapshotId, Space,
};

pub use self::transfer::ToldSize;

use crate::Access;

use crate::cell::{RolledBack, Taken};

/// The snapshots of the caller's owner.
#[derive(Debug, Clone)]
pub struct Snapshots {
    pub(crate) access: Access,
}

impl Access {
    pub fn snapshots(&self) -> Snapshots {
        Snapshots { access: self.clone() }
    }
}

/// A snapshot that somebody asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakeSnapshot {
    /// 1 to 128 printable characters, unique among the snapshots of the sandbox.
    pub name: Option<String>,
    /// Answer when it survives a power cut.
    pub durable: bool,
    pub session: Option<SessionId>,
    /// The processes too, which go on afterwards.
    pub memory: bool,
    /// With `memory`: also if callers are inside. Their connections break, what they run goes on.
    pub force: bool,
}

/// A turn that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDone {
    pub turn: u32,
    pub taken: Taken,
    /// The space that the sandbox alone takes; absent while it is being counted.
    pub space_used: Option<Space>,
}

/// A state: one that was captured, or that of a sandbox now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    Snapshot(SnapshotId),
    Sandbox(SandboxId),
}

/// A request for forks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkOrder {
    /// 1 to 100.
    pub count: u32,
    /// For a single one. The original's name stays the original's.
    pub name: Option<SandboxName>,
    /// The client's name for who uses them.
    pub client: String,
    /// Absent: what the original has.
    pub lifetime_s: Option<u64>,
    pub on_expiry: Option<OnExpiry>,
    /// On top of the original's.
    pub labels: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
}

/// A merge of a fork's changes into another sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromoteOrder {
    /// Absent: the sandbox that it is a fork of.
    pub into: Option<SandboxId>,
    /// Without it the merge is only described.
    pub apply: bool,
    pub conflicts: Conflicts,
    /// Only changes at or below this path are taken; `/` is everything.
    pub below: PathBuf,
    /// Also if work is going on in the other sandbox; it is ended.
    pub force: bool,
    /// Changes of the fork that are not taken; patterns are relative to `below`.
    pub leave_out: LeaveOut,
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promoted {
    pub into: SandboxId,
    pub merge: Merge,
    /// Present if it was applied.
    pub applied: Option<RolledBack>,
}

/// A session that was ended for good, and the state to go on from another time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSession {
    pub session: SessionRecord,
    pub taken: Taken,
}

/// The form in which a state is exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportOrder {
    /// The files below a directory, as a tar file.
    Tar { below: PathBuf },
    /// The changes since an earlier state, as a patch for git.
    Patch { since: Point, below: PathBuf, leave_out: LeaveOut },
    /// The snapshot with all that came before it, for another Warren.
    History,
}
