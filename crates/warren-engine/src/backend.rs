//! A backend as the engine holds it: with threads, turns and a bound on starts of its own, so that
//! one that is slow or hangs keeps nobody from the others.

mod dial;

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;
use warren_core::{Isolation, Layered, Need};

use crate::EngineError;
use crate::blocking::{behind, blocking};
use crate::bounds::labour::BackendLabour;
use crate::bounds::{LabourLimits, Presence};

pub(crate) use self::dial::{PATIENCE, dial};

/// Threads that all backends together may hold, about half of those that may wait: the rest is the
/// catalog's and the files'.
const THREADS: usize = 256;
/// The fewest that one backend has, however many there are.
const FEWEST: usize = 16;

pub(crate) struct Backend {
    pub(crate) port: Arc<dyn Isolation>,
    pub(crate) labour: BackendLabour,
    threads: Semaphore,
}

impl Backend {
    /// One of `count` backends.
    pub(crate) fn new(
        port: Arc<dyn Isolation>,
        count: usize,
        limits: &LabourLimits,
        presence: &Arc<Presence>,
    ) -> Arc<Self> {
        let threads = Semaphore::new((THREADS / count.max(1)).max(FEWEST));
        Arc::new(Self { port, labour: BackendLabour::new(limits, presence), threads })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.port.name()
    }

    /// Does quick work with the backend on one of its threads: whoever serves requests does not
    /// wait for it.
    pub(crate) async fn ask<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        // It is never closed.
        let _thread = self.threads.acquire().await.ok();
        blocking(work).await
    }

    /// The same for work that takes the processor for long, or makes processes.
    pub(crate) async fn work<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        let _thread = self.threads.acquire().await.ok();
        behind(work).await
    }

    /// Refuses what it cannot do.
    pub(crate) fn require(&self, need: Need) -> Result<(), EngineError> {
        match self.port.capabilities().refuse(&[need]) {
            Some(refusal) => {
                Err(EngineError::NothingFits(vec![(self.name().to_owned(), refusal.to_string())]))
            }
            None => Ok(()),
        }
    }

    /// The half of the port that snapshots need, or the capability that is missing.
    pub(crate) fn layered(&self) -> Result<&dyn Layered, EngineError> {
        self.port.layered().ok_or_else(|| {
            let missing = "it cannot capture what a sandbox wrote (capability `snapshots`)".to_owned();
            let refusal = self.port.capabilities().refuse(&[Need::Snapshots]);
            let why = refusal.map_or(missing, |refusal| refusal.to_string());
            EngineError::SnapshotsUnavailable(format!("the backend `{}`: {why}", self.name()))
        })
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("name", &self.name()).finish_non_exhaustive()
    }
}
