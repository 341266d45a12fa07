//! The last that a sandbox did on the network.

use std::collections::VecDeque;

use futures_util::{Stream, stream};
use tokio::sync::watch;
use warren_core::SandboxId;

use crate::engine::closed;
use crate::state::{KEPT, Known, NetworkSighting};
use crate::{Engine, EngineError, SandboxNetwork};

/// Entries of a sandbox's log as they come. Ends when the engine does, or the sandbox is gone for
/// good; a reader that falls far behind misses some, which it sees by their numbers.
pub type NetworkStream = std::pin::Pin<Box<dyn Stream<Item = NetworkSighting> + Send>>;

impl SandboxNetwork {
    /// The connections of a sandbox after the entry of this number, refused ones too, the oldest
    /// first.
    pub async fn log(&self, after: u64, limit: u32) -> Result<Vec<NetworkSighting>, EngineError> {
        self.sandbox.record().await?;
        let most = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        Ok(self.known(|known| known.log.after(after, most)).unwrap_or_default())
    }

    /// The same, then every new entry. Without a number, new ones only.
    pub async fn follow_log(&self, after: Option<u64>) -> Result<NetworkStream, EngineError> {
        let cell = self.sandbox.engine.wake(self.sandbox.owner(), &self.sandbox.id).await?;
        let subscribe = |known: &mut Known| {
            let newest = known.log.newest.subscribe();
            (after.unwrap_or_else(|| known.log.last()), newest)
        };
        let begun = self.sandbox.engine.shared.sightings.of_cell(
            &cell,
            self.sandbox.engine.shared.started_unix_ms,
            subscribe,
        );
        let (seen, newest) = begun.ok_or_else(|| EngineError::sandbox_not_found(&self.sandbox.id))?;
        let follower = Follower {
            engine: self.sandbox.engine.inner(),
            id: self.sandbox.id.clone(),
            seen,
            ready: VecDeque::new(),
            newest,
            closing: self.sandbox.engine.shared.closing.subscribe(),
        };
        Ok(Box::pin(stream::unfold(follower, |mut follower| async {
            let sighting = follower.next().await?;
            Some((sighting, follower))
        })))
    }
}

/// A reader of a sandbox's log.
struct Follower {
    engine: Engine,
    id: SandboxId,
    seen: u64,
    ready: VecDeque<NetworkSighting>,
    newest: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
}

impl Follower {
    async fn next(&mut self) -> Option<NetworkSighting> {
        loop {
            if let Some(sighting) = self.ready.pop_front() {
                self.seen = sighting.number;
                return Some(sighting);
            }
            self.newest.mark_unchanged();
            let seen = self.seen;
            let news = self.engine.shared.sightings.of(&self.id, |known| known.log.after(seen, KEPT))?;
            if news.is_empty() {
                tokio::select! {
                    changed = self.newest.changed() => changed.ok()?,
                    () = closed(&mut self.closing) => return None,
                }
            }
            self.ready.extend(news);
        }
    }
}
