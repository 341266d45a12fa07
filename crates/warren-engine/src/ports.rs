//! Ports block, and the engine runs on an async runtime: every call to one goes through here, onto
//! a thread that may wait, or on this one while another serves its tasks. A [`Backend`] has turns
//! and a bound on starts and waiting threads of its own, so that one that is slow or hangs delays
//! no other.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{getpid, getpriority_process, setpriority_process};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use warren_core::{Isolation, Layered, Need, Owner};

use crate::EngineError;
use crate::bounds::heavy::BackendTurns;
use crate::bounds::{HeavyWorkLimits, Presence};

/// Threads that all backends together may hold, about half of those that may wait: the rest is for
/// the catalog and for files.
const THREADS: usize = 256;
/// The fewest that one backend has, however many backends there are.
const FEWEST: usize = 16;

/// A backend as the engine holds it.
pub(crate) struct Backend {
    pub(crate) port: Arc<dyn Isolation>,
    pub(crate) turns: BackendTurns,
    threads: Arc<Semaphore>,
    /// Why it cannot be asked, while that is so.
    away: Mutex<Option<String>>,
}

impl Backend {
    /// One of `count` backends.
    pub(crate) fn new(
        port: Arc<dyn Isolation>,
        count: usize,
        limits: &HeavyWorkLimits,
        presence: &Arc<Presence>,
    ) -> Arc<Self> {
        let threads = Arc::new(Semaphore::new((THREADS / count.max(1)).max(FEWEST)));
        Arc::new(Self { port, turns: BackendTurns::new(limits, presence), threads, away: Mutex::default() })
    }

    /// Why it cannot be asked; `None` while it can.
    pub(crate) fn away(&self) -> Option<String> {
        self.away.lock().clone()
    }

    /// Notes that it cannot be asked, or that it can again.
    pub(crate) fn set_away(&self, why: Option<String>) {
        let before = std::mem::replace(&mut *self.away.lock(), why.clone());
        match (before, why) {
            (None, Some(why)) => {
                tracing::error!(backend = self.name(), why, "a backend is away: its sandboxes are kept")
            }
            (Some(_), None) => tracing::info!(backend = self.name(), "a backend answers again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.port.name()
    }

    /// Does quick work with the backend, mostly on this very thread, so that a deadline around it
    /// would not be noticed: see [`Backend::answer`].
    pub(crate) async fn ask<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        // It is never closed.
        let _thread = self.threads.acquire().await.ok();
        promptly(work).await
    }

    /// Does work that takes the processor for long or makes processes, on a thread of its own. It
    /// runs at the priority of the program, even if threads that serve requests are above that.
    pub(crate) async fn work<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        let thread = Arc::clone(&self.threads).acquire_owned().await.ok();
        let held = move || {
            // Until it is done, even if nobody waits for it any more.
            let _thread = thread;
            lowered(work)
        };
        blocking(held).await
    }

    /// The answer of work on a thread of its own; `None` if it does not come in this time.
    pub(crate) async fn answer<R: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        timeout(within, self.work(work)).await.ok()
    }

    /// Makes or removes a sandbox, when it is its owner's turn.
    pub(crate) async fn change<R: Send + 'static>(
        &self,
        owner: &Owner,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        let _turn = self.turns.to_change(owner).await;
        self.ask(move || lowered(work)).await
    }

    /// Refuses what it cannot do.
    pub(crate) fn require(&self, need: Need) -> Result<(), EngineError> {
        match self.port.capabilities().refuse(&[need]) {
            Some(refusal) => {
                let reasons = vec![(self.name().to_owned(), refusal.to_string())];
                Err(EngineError::NothingFits { asked: None, reasons })
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

/// Runs work that blocks on a thread of its own.
pub(crate) async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime is shutting down, and the caller ends with it.
        Err(_) => std::future::pending().await,
    }
}

/// Runs short work that blocks, without handing it to another thread: whoever waits for it is
/// answered sooner. Meanwhile another thread serves what this one would have served.
pub(crate) async fn promptly<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => blocking(work).await,
    }
}

/// Does work to its end, even if the caller no longer waits for it.
pub(crate) async fn finished<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime is shutting down here, too.
        Err(_) => std::future::pending().await,
    }
}

/// Does work at the priority of the program.
fn lowered<R>(work: impl FnOnce() -> R) -> R {
    let _lowered = Lowered::priority();
    work()
}

/// The higher priority that a thread had. It gets it back when this is dropped.
struct Lowered(Option<i32>);

impl Lowered {
    fn priority() -> Self {
        let program = getpriority_process(Some(getpid())).unwrap_or(0);
        let before = getpriority_process(None).ok().filter(|before| *before < program);
        Self(before.filter(|_| setpriority_process(None, program).is_ok()))
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ignored = setpriority_process(None, before);
        }
    }
}
