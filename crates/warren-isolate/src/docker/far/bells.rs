//! Telling the ends of sandboxes on another machine, and that the engine cannot be reached: who
//! watches a sandbox is told of both. One task reads the engine's events for all of them.
//!
//! ```text
//! away ──► the engine's time ──► what has ended by now ──► its events since then ──► away
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use warren_core::SandboxId;

use super::super::client::{Calls, Seen};
use super::super::shape;
use super::super::watch::{bell, ring};

/// How often an engine that is away is looked for.
const PAUSE: Duration = Duration::from_millis(500);
/// Callers of paused sandboxes who wait at the same time; others are told that it is busy.
const MOST_WAITING: usize = 64;

#[derive(Debug)]
pub(in super::super) struct Bells {
    hung: Mutex<HashMap<String, Vec<OwnedFd>>>,
    /// How often something of a sandbox was killed for its memory, as far as this process heard.
    kills: Mutex<HashMap<String, u64>>,
    /// Places for callers of sandboxes that are paused.
    pub(super) queue: Arc<Semaphore>,
    /// Events come in.
    hears: AtomicBool,
}

impl Default for Bells {
    fn default() -> Self {
        Self {
            hung: Mutex::default(),
            kills: Mutex::default(),
            queue: Arc::new(Semaphore::new(MOST_WAITING)),
            hears: AtomicBool::new(false),
        }
    }
}

impl Bells {
    pub(super) fn kills(&self, id: &SandboxId) -> u64 {
        self.kills.lock().get(id.as_str()).copied().unwrap_or(0)
    }

    /// Forgets a sandbox that is removed.
    pub(in super::super) fn forget(&self, id: &SandboxId) {
        self.kills.lock().remove(id.as_str());
        self.ring(id.as_str());
    }

    /// True if the engine was there a moment ago.
    pub(in super::super) fn hear(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    /// A descriptor that is readable once the sandbox has ended, or the engine is away.
    pub(in super::super) fn hang(&self, id: &str) -> io::Result<OwnedFd> {
        let bell = bell(0)?;
        let told = bell.try_clone()?;
        self.hung.lock().entry(id.to_owned()).or_default().push(bell);
        Ok(told)
    }

    pub(in super::super) fn ring(&self, id: &str) {
        self.hung.lock().remove(id).iter().flatten().for_each(ring);
    }

    fn ring_all(&self) {
        self.hung.lock().drain().for_each(|(_, bells)| bells.iter().for_each(ring));
    }

    fn ring_ended(&self, seen: &HashMap<String, Seen>) {
        let ended = |id: &str| !seen.get(id).is_some_and(|seen| seen.runs);
        self.hung.lock().retain(|id, bells| {
            let ended = ended(id);
            if ended {
                bells.iter().for_each(ring);
            }
            !ended
        });
    }

    /// Listens until nobody holds these bells any more.
    pub(in super::super) async fn listen(bells: Weak<Self>, calls: Calls, instance: String) {
        loop {
            Self::hear_out(&bells, &calls, &instance).await;
            let Some(bells) = bells.upgrade() else { return };
            bells.hears.store(false, Ordering::Relaxed);
            bells.ring_all();
            drop(bells);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Tells ends as long as the engine tells events.
    async fn hear_out(bells: &Weak<Self>, calls: &Calls, instance: &str) -> Option<Infallible> {
        let docker = calls.connected().await.ok()?;
        // What happens while we are about to listen is told again.
        let since = docker.info().await.ok()?.system_time?;
        let seen = calls.list(instance).await.ok()?;
        let heard: Arc<Self> = bells.upgrade()?;
        heard.ring_ended(&seen);
        heard.hears.store(true, Ordering::Relaxed);
        drop(heard);
        let mut events = calls.ends(&docker, instance, &since);
        while let Some(Ok(event)) = events.next().await {
            let told =
                event.actor.and_then(|actor| Some((actor.attributes?.remove(shape::SANDBOX)?, actor.id?)));
            let Some((id, container)) = told else { continue };
            if event.action.as_deref() == Some(shape::KILLED) {
                *bells.upgrade()?.kills.lock().entry(id).or_default() += 1;
            } else if !calls.runs(&docker, &container).await {
                // Else it tells of an earlier life than the one that is watched.
                bells.upgrade()?.ring(&id);
            }
        }
        None
    }
}
