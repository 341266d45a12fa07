//! Heavy work: reading through files, comparing or packing them on the host for an owner.
//!
//! The number of places for it is limited. A request that finds none waits in a short queue of its
//! owner; beyond that it is refused at once, before anything is read or held in memory. No owner
//! can have every place. A place comes with its own thread of the lowest priority: threads that
//! serve requests or wait for the catalog and the backends do no heavy work. When a caller leaves,
//! its work is told to stop, and the place is free once it has.

mod kept_output;
mod places;
mod thread;

use std::sync::Arc;
use std::time::Duration;

use warren_core::Owner;

use self::kept_output::KeptOutput;
pub use self::kept_output::Room;
pub use self::places::Place;
use self::places::{Places, Rules};
use super::presence::Presence;
use crate::EngineError;
use crate::work_kind::WorkKind;

/// Limits on heavy work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeavyWorkLimits {
    /// Comparing, searching and joining, of all owners together.
    pub comparisons: Share,
    /// Archives on their way.
    pub transfers: Share,
    /// Lists and searches whose answers are put together in memory.
    pub listings: Share,
    /// How many requests of one owner may wait for a place, of each kind.
    pub waiting: usize,
    /// How long each may wait.
    pub patience: Duration,
    /// How long comparing, searching and joining may take.
    pub longest: Duration,
}

/// How many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub all: usize,
    pub each_owner: usize,
}

impl Share {
    /// Half of the places for one owner, so that another finds one.
    pub fn half_of(all: usize) -> Self {
        Self { all, each_owner: (all / 2).max(1) }
    }
}

/// Joining layers is not urgent, but one owner's must not wait for another's.
const UPKEEP: Share = Share { all: 2, each_owner: 1 };
/// A part of the threads that wait for files.
const CAPTURING: Share = Share { all: 32, each_owner: 8 };

impl Default for HeavyWorkLimits {
    fn default() -> Self {
        Self {
            comparisons: Share::half_of(processors().max(2)),
            transfers: Share { all: 16, each_owner: 4 },
            listings: Share { all: 16, each_owner: 4 },
            waiting: 16,
            patience: Duration::from_secs(10),
            longest: Duration::from_secs(300),
        }
    }
}

/// Sandboxes that are made or removed at the same time: more would only share the processors. While
/// other owners are at work, one owner has half of the processors for it.
fn changing() -> Share {
    Share { all: processors().max(8), each_owner: (processors() / 2).max(1) }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// All places for heavy work, and the memory for kept output.
#[derive(Debug)]
pub(crate) struct HeavyWork {
    comparisons: Places,
    transfers: Places,
    listings: Places,
    upkeep: Places,
    kept_output: KeptOutput,
}

impl HeavyWork {
    pub(crate) fn new(limits: &HeavyWorkLimits) -> Self {
        let rules = limits.rules();
        Self {
            comparisons: Places::new(Rules { longest: Some(limits.longest), ..rules }),
            transfers: Places::new(Rules { share: limits.transfers, ..rules }),
            listings: Places::new(Rules { share: limits.listings, ..rules }),
            // There is at most one for each sandbox.
            upkeep: Places::new(patient(UPKEEP)),
            kept_output: KeptOutput::default(),
        }
    }

    /// A place for this kind of work, in an owner's name.
    pub(crate) async fn place_for(&self, owner: &Owner, kind: WorkKind) -> Result<Place, EngineError> {
        let places = self.places(kind);
        places.place(owner).await.ok_or_else(|| refused(kind, places.share()))
    }

    /// Room in memory for so many bytes; `None`: so little needs none.
    pub(crate) fn room_for(&self, owner: &Owner, bytes: usize) -> Result<Option<Room>, EngineError> {
        self.kept_output.room(owner, bytes)
    }

    fn places(&self, kind: WorkKind) -> &Places {
        match kind {
            WorkKind::Comparison => &self.comparisons,
            WorkKind::Transfer => &self.transfers,
            WorkKind::Listing => &self.listings,
            WorkKind::Upkeep => &self.upkeep,
        }
    }
}

impl HeavyWorkLimits {
    /// Requests that wait are refused after a while.
    fn rules(&self) -> Rules {
        Rules { share: self.comparisons, waiting: self.waiting, patience: Some(self.patience), longest: None }
    }
}

/// Rules under which nobody is refused, however many wait.
fn patient(share: Share) -> Rules {
    Rules { share, waiting: usize::MAX, patience: None, longest: None }
}

/// The places for work with one backend, so that a slow backend delays no other.
#[derive(Debug)]
pub(crate) struct BackendTurns {
    /// Making and removing sandboxes: not work of ours but of the kernel's, which does much of it
    /// for one after the other.
    changing: Places,
    /// Taking snapshots: copies of files in the worst case.
    capturing: Places,
    /// Counting what a sandbox holds.
    counting: Places,
}

impl BackendTurns {
    pub(crate) fn new(limits: &HeavyWorkLimits, presence: &Arc<Presence>) -> Self {
        Self {
            changing: Places::lent(patient(changing()), Arc::clone(presence)),
            capturing: Places::new(patient(CAPTURING)),
            counting: Places::new(Rules { share: limits.listings, ..limits.rules() }),
        }
    }

    pub(crate) async fn to_change(&self, owner: &Owner) -> Option<Place> {
        self.changing.place(owner).await
    }

    pub(crate) async fn to_capture(&self, owner: &Owner) -> Option<Place> {
        self.capturing.place(owner).await
    }

    pub(crate) async fn to_count(&self, owner: &Owner) -> Result<Place, EngineError> {
        self.counting.place(owner).await.ok_or_else(|| refused(WorkKind::Listing, self.counting.share()))
    }
}

fn refused(kind: WorkKind, share: Share) -> EngineError {
    EngineError::MaxHeavyWork { kind, each_owner: share.each_owner, all: share.all }
}

/// Does heavy work at a place.
pub(crate) async fn at<R: Send + 'static>(
    place: Place,
    work: impl FnOnce() -> Result<R, EngineError> + Send + 'static,
) -> Result<R, EngineError> {
    place.work(work).await.map_err(EngineError::NoThread)?
}

#[cfg(test)]
mod tests;
