use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, Semaphore};
use warren_core::{Caller, SandboxId};
use warren_engine::{LifeMark, Sandbox};
use warren_face::Desk;

use crate::frames::Frames;
use crate::live::Hub;

/// Calls of one browser at once.
const MOST_CALLS: usize = 4;

/// All that is remembered of browsers, by their sandboxes. A clone is the same. Nothing of it is
/// needed after a restart: sessions with the programs inside are begun anew, and older frames are
/// forgotten.
#[derive(Clone)]
pub struct Browsers {
    pub(crate) desk: Desk,
    places: Arc<Mutex<HashMap<SandboxId, Arc<Place>>>>,
}

/// All that is remembered of one browser.
#[derive(Default)]
pub(crate) struct Place {
    /// One start at a time.
    pub(crate) starts: Turn<()>,
    /// The session with the server of tools, and the life of the sandbox that it belongs to.
    pub(crate) session: Mutex<Option<(LifeMark, String)>>,
    /// Calls of the server of tools that are under way.
    pub(crate) under_way: UnderWay,
    /// Numbers calls of the server of tools.
    pub(crate) calls: AtomicU64,
    /// The tab in use, counted from the oldest.
    pub(crate) tab: Mutex<Option<usize>>,
    /// The journal's last entry that changed something by the browser.
    pub(crate) entry: AtomicU64,
    pub(crate) frames: Mutex<Frames>,
    /// One picture at a time.
    pub(crate) pictures: Turn<()>,
    pub(crate) hub: Turn<Weak<Hub>>,
}

/// Calls wait for each other: a browser does one thing at a time, and answers take memory here.
pub(crate) struct UnderWay(pub(crate) Semaphore);

impl Default for UnderWay {
    fn default() -> Self {
        Self(Semaphore::new(MOST_CALLS))
    }
}

/// The browser of one sandbox, for one caller.
#[derive(Clone)]
pub struct Browser {
    pub(crate) desk: Desk,
    pub(crate) sandbox: Sandbox,
    pub(crate) place: Arc<Place>,
}

impl Browsers {
    pub fn new(desk: Desk) -> Self {
        Self { desk, places: Arc::default() }
    }

    /// The browser of a sandbox that its caller may use.
    pub fn of(&self, sandbox: Sandbox) -> Browser {
        let mut places = self.places.lock();
        let place = match places.get(sandbox.id()) {
            Some(place) => Arc::clone(place),
            None => {
                places.retain(|id, _| self.desk.engine.live(id).is_some());
                Arc::clone(places.entry(sandbox.id().clone()).or_default())
            }
        };
        Browser { desk: self.desk.clone(), sandbox, place }
    }

    /// As [`Browsers::of`], for a sandbox of the caller's by its id.
    pub fn of_caller(&self, caller: &Caller, id: &SandboxId) -> Browser {
        self.of(self.desk.engine.as_(caller).sandbox(id))
    }
}

impl Browser {
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    pub(crate) fn id(&self) -> SandboxId {
        self.sandbox.id().clone()
    }

    /// The journal's last entry that changed something by the browser; 0 if nobody knows of one.
    pub(crate) fn last_entry(&self) -> u64 {
        self.place.entry.load(Ordering::Relaxed)
    }

    /// An entry of the journal by the browser is over.
    pub(crate) fn note_entry(&self, entry: u64) {
        self.place.entry.store(entry, Ordering::Relaxed);
        self.picture_later(entry);
    }
}

impl fmt::Debug for Browsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browsers").finish_non_exhaustive()
    }
}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browser").field("sandbox", self.sandbox.id()).finish_non_exhaustive()
    }
}
