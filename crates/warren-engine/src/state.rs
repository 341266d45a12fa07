//! The engine's memory: its ports and settings, the sandboxes that have a driver, and what it
//! remembers beside the catalog. All of the last can be lost.

mod builds;
mod counts;
mod events;
mod figures;
mod journal;
mod keyed;
mod layers;
mod leases;
mod pools;
mod registry;
mod sightings;
mod thinking;
mod woken;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio::sync::watch;
use warren_core::catalog::Catalog;
use warren_core::{
    BuildFiles, Clock, Deadline, Isolation, LayerStore, Networks, Random, SandboxId, Templates,
};

use crate::bounds::heavy::HeavyWork;
use crate::bounds::{InFlight, Presence, Seats};
use crate::ports::Backend;
use crate::settings::Settings;
use crate::step::EngineStep;

pub(crate) use self::builds::Builds;
pub use self::builds::{BuildLog, LogLevel, LogLine, WantedLines};
pub(crate) use self::events::{After, Events};
pub(crate) use self::figures::Figures;
pub(crate) use self::journal::{Job, Journal, Unwatched, lost};
pub(crate) use self::keyed::{Held, Keyed};
pub(crate) use self::layers::{Keep, Pin, all_pages, all_snapshots, restacked, stands_on};
pub(crate) use self::leases::Leases;
pub(crate) use self::pools::{Claim, Pools, Spare};
pub(crate) use self::registry::Registry;
pub(crate) use self::sightings::{KEPT, Known, MOST_REACHED, Moment, Sightings, is_open};
pub use self::sightings::{NetworkAsk, NetworkSighting};
pub(crate) use self::woken::Woken;

/// A backend, and the checks that failed.
pub(crate) type Probe = (String, Vec<String>);

/// See the module's documentation.
pub(crate) struct State {
    pub(crate) parts: Parts,
    /// The backends of the parts, in the same order.
    pub(crate) backends: Vec<Arc<Backend>>,
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    pub(crate) seats: Seats,
    pub(crate) presence: Arc<Presence>,
    pub(crate) events: Events,
    pub(crate) figures: Figures,
    /// The last probe of each backend, and its time.
    pub(crate) probes: Mutex<Option<(u64, Vec<Probe>)>>,
    pub(crate) leases: Leases,
    pub(crate) pools: Pools,
    /// Tool calls with an id that are going on.
    pub(crate) calls: Keyed<(SandboxId, String)>,
    pub(crate) in_flight: Arc<InFlight>,
    /// Calls that bring traffic to ports.
    pub(crate) visits: Arc<InFlight>,
    pub(crate) woken: Woken,
    pub(crate) journal: Journal,
    pub(crate) heavy_work: HeavyWork,
    /// Builds of images that go on in this process.
    pub(crate) builds: Builds,
    pub(crate) keep: Keep,
    pub(crate) sightings: Sightings,
    pub(crate) started_ms: u64,
    pub(crate) started_unix_ms: u64,
    /// The time on both clocks when the machine was switched on.
    pub(crate) anchor: Deadline,
    /// Tasks end when this says so.
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) reconciled: watch::Sender<bool>,
    pub(crate) mode: Mutex<Mode>,
    /// No new work is taken on.
    pub(crate) refusing: AtomicBool,
}

/// The ports that the engine uses.
pub struct Parts {
    /// By preference; the first that can serve a request does. Never empty.
    pub backends: Vec<Arc<dyn Isolation>>,
    /// Backends that are switched on and could not be opened.
    pub absent: Vec<AbsentBackend>,
    pub catalog: Arc<dyn Catalog>,
    pub templates: Arc<dyn Templates>,
    pub layers: Arc<dyn LayerStore>,
    /// Archives for builds of images.
    pub build_files: Arc<dyn BuildFiles>,
    /// Links sandboxes to the world.
    pub networks: Arc<dyn Networks>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Called after each step of a change that has several, so that tests can end the process
    /// there.
    pub passed: Arc<dyn Fn(EngineStep) + Send + Sync>,
}

/// A backend that is switched on and could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentBackend {
    pub name: String,
    pub why: String,
}

/// The engine's mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Normal,
    /// Most records looked dead at the start, which is more likely a wrong mount or an old backup
    /// than the truth. Nothing is removed and nothing is made until somebody has looked.
    ReadOnly {
        reason: String,
    },
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("node", self.parts.catalog.node())
            .field("sandboxes", &self.seats.count())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backends: Vec<_> = self.backends.iter().map(|backend| backend.name()).collect();
        f.debug_struct("Parts").field("backends", &backends).finish_non_exhaustive()
    }
}
