//! The last that a sandbox did on the network.

use std::collections::VecDeque;

use futures_util::{Stream, stream};
use tokio::sync::watch;
use warren_core::{NetworkEntry, SandboxId};

use super::NetworkSighting;
use crate::engine::closed;
use crate::{Engine, EngineError, SandboxNetwork};

/// Entries that are kept of a sandbox that runs.
const KEPT: usize = 256;
/// Entries that are kept of one that does not.
const KEPT_AT_REST: usize = 32;

/// Entries of a sandbox's log as they come. Ends when the engine does, or the sandbox is gone for good; a reader that falls far
/// behind misses some, which it sees by their numbers.
pub type NetworkStream = std::pin::Pin<Box<dyn Stream<Item = NetworkSighting> + Send>>;

#[derive(Debug)]
pub(super) struct Log {
    ring: VecDeque<NetworkSighting>,
    /// The number of the newest entry.
    newest: watch::Sender<u64>,
}

impl Log {
    /// Numbers are above those of every earlier start: nobody writes a thousand entries in a millisecond.
    pub(super) fn since(started_unix_ms: u64) -> Self {
        Self { ring: VecDeque::new(), newest: watch::Sender::new(started_unix_ms.saturating_mul(1000)) }
    }

    pub(super) fn push(&mut self, entry: NetworkEntry, at_unix_ms: u64) {
        let number = self.last() + 1;
        if self.ring.len() >= KEPT {
            self.ring.pop_front();
        }
        self.ring.push_back(NetworkSighting { number, at_unix_ms, entry });
        self.newest.send_replace(number);
    }

    pub(super) fn shrink(&mut self) {
        self.ring.drain(..self.ring.len().saturating_sub(KEPT_AT_REST));
        self.ring.shrink_to_fit();
    }

    fn last(&self) -> u64 {
        *self.newest.borrow()
    }

    fn after(&self, number: u64, most: usize) -> Vec<NetworkSighting> {
        self.ring.iter().filter(|sighting| sighting.number > number).take(most).cloned().collect()
    }
}

impl SandboxNetwork {
    /// What a sandbox did and tried after an entry of this number, the oldest first.
    pub async fn log(&self, after: u64, limit: u32) -> Result<Vec<NetworkSighting>, EngineError> {
        self.sandbox.record().await?;
        let most = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        Ok(self
            .sandbox
            .engine
            .shared
            .sightings
            .of(&self.sandbox.id, |known| known.log.after(after, most))
            .unwrap_or_default())
    }

    /// The same, then every new entry. Without a number, new ones only.
    pub async fn follow_log(&self, after: Option<u64>) -> Result<NetworkStream, EngineError> {
        let cell = self.sandbox.engine.wake(self.sandbox.owner(), &self.sandbox.id).await?;
        let subscribe = |known: &mut super::sightings::Known| {
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

/// One who reads a sandbox's log.
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

#[cfg(test)]
mod tests {
    use warren_core::NetworkVerdict;
    use warren_core::network::Protocol;

    use super::*;

    #[test]
    fn the_last_entries_are_kept_and_numbers_go_on_over_starts() {
        let entry = NetworkEntry {
            verdict: NetworkVerdict::Allowed,
            protocol: Protocol::Tcp,
            host: None,
            address: None,
            port: 80,
            rule: String::new(),
            process: None,
            count: 1,
        };
        let mut log = Log::since(1000);
        for _ in 0..KEPT + 10 {
            log.push(entry.clone(), 1001);
        }
        let all = log.after(0, usize::MAX);
        assert_eq!((all.len(), all[0].number), (KEPT, 1_000_011));
        assert_eq!(log.after(all[KEPT - 2].number, 10).len(), 1);
        log.shrink();
        assert_eq!(log.after(0, usize::MAX).len(), KEPT_AT_REST);
        assert!(Log::since(1002).last() > log.last());
    }
}
