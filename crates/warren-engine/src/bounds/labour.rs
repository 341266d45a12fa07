//! Heavy work: whatever reads through files, compares or packs them on the host in somebody's name.
//!
//! There are only so many places for it. Who finds none waits in a short line of their owner, and
//! beyond that is refused at once, before anything is read or held in memory. No owner can have
//! every place, so that another always finds one. A place comes with a thread of its own, below all
//! others in priority: neither those that serve requests nor those that wait for the catalog and
//! the backends do heavy work. Whoever goes away takes the work along: it is told to stop, and the
//! place is free once it has.

mod crew;
mod hoard;
mod thread;

use std::sync::Arc;
use std::time::Duration;

use warren_core::Owner;

pub use self::crew::Place;
use self::crew::{Crew, Rules};
use self::hoard::Hoard;
pub use self::hoard::Room;
use super::presence::Presence;
use crate::EngineError;
use crate::trade::Trade;

/// How much heavy work there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabourLimits {
    /// Comparing, searching and joining, of all owners together.
    pub reading: Share,
    /// Archives on their way.
    pub carrying: Share,
    /// Lists and searches whose answers are put together in memory.
    pub telling: Share,
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

/// Joining layers is never urgent, but one owner's must not wait for another's.
const TENDING: Share = Share { all: 2, each_owner: 1 };
/// A part of the threads that wait for files.
const CAPTURING: Share = Share { all: 32, each_owner: 8 };

impl Default for LabourLimits {
    fn default() -> Self {
        Self {
            reading: Share::half_of(processors().max(2)),
            carrying: Share { all: 16, each_owner: 4 },
            telling: Share { all: 16, each_owner: 4 },
            waiting: 16,
            patience: Duration::from_secs(10),
            longest: Duration::from_secs(300),
        }
    }
}

/// Sandboxes that are made or removed at the same time; more would only take turns on the machine's
/// processors. With others at work, an owner has half of the processors for it.
fn changing() -> Share {
    Share { all: processors().max(8), each_owner: (processors() / 2).max(1) }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Every place there is.
#[derive(Debug)]
pub(crate) struct Labour {
    reading: Crew,
    carrying: Crew,
    telling: Crew,
    tending: Crew,
    hoard: Hoard,
}

impl Labour {
    pub(crate) fn new(limits: &LabourLimits) -> Self {
        let rules = limits.rules();
        Self {
            reading: Crew::new(Rules { longest: Some(limits.longest), ..rules }),
            carrying: Crew::new(Rules { share: limits.carrying, ..rules }),
            telling: Crew::new(Rules { share: limits.telling, ..rules }),
            // There is at most one for each sandbox.
            tending: Crew::new(patient(TENDING)),
            hoard: Hoard::default(),
        }
    }

    /// A place for this kind of work, in an owner's name.
    pub(crate) async fn place_for(&self, owner: &Owner, trade: Trade) -> Result<Place, EngineError> {
        let crew = self.crew(trade);
        crew.place(owner).await.ok_or_else(|| refused(trade, crew.share()))
    }

    /// Room in memory for so many bytes; `None`: so little needs none.
    pub(crate) fn room_for(&self, owner: &Owner, bytes: usize) -> Result<Option<Room>, EngineError> {
        self.hoard.room(owner, bytes)
    }

    fn crew(&self, trade: Trade) -> &Crew {
        match trade {
            Trade::Reading => &self.reading,
            Trade::Carrying => &self.carrying,
            Trade::Telling => &self.telling,
            Trade::Tending => &self.tending,
        }
    }
}

impl LabourLimits {
    /// Those who wait are refused after a while.
    fn rules(&self) -> Rules {
        Rules { share: self.reading, waiting: self.waiting, patience: Some(self.patience), longest: None }
    }
}

/// Nobody is refused, however many wait.
fn patient(share: Share) -> Rules {
    Rules { share, waiting: usize::MAX, patience: None, longest: None }
}

/// The places for what one backend does: however long its calls take, others have theirs.
#[derive(Debug)]
pub(crate) struct BackendLabour {
    /// Making and removing sandboxes: not work of ours but of the kernel's, which does much of it
    /// for one after the other.
    changing: Crew,
    /// Taking snapshots: copies of files in the worst case.
    capturing: Crew,
    /// Counting what a sandbox holds.
    counting: Crew,
}

impl BackendLabour {
    pub(crate) fn new(limits: &LabourLimits, presence: &Arc<Presence>) -> Self {
        Self {
            changing: Crew::lent(patient(changing()), Arc::clone(presence)),
            capturing: Crew::new(patient(CAPTURING)),
            counting: Crew::new(Rules { share: limits.telling, ..limits.rules() }),
        }
    }

    pub(crate) async fn to_change(&self, owner: &Owner) -> Option<Place> {
        self.changing.place(owner).await
    }

    pub(crate) async fn to_capture(&self, owner: &Owner) -> Option<Place> {
        self.capturing.place(owner).await
    }

    pub(crate) async fn to_count(&self, owner: &Owner) -> Result<Place, EngineError> {
        self.counting.place(owner).await.ok_or_else(|| refused(Trade::Telling, self.counting.share()))
    }
}

fn refused(trade: Trade, share: Share) -> EngineError {
    EngineError::MaxHeavyWork { trade, each_owner: share.each_owner, all: share.all }
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
