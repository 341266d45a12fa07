//! Events: written to the catalog in the background, which gives them their numbers, and then kept
//! for a while in memory.
//!
//! A follower has one number, that of the last event it has seen, and asks for what comes after it:
//! from memory where that goes back far enough, else from the catalog. So it neither misses one nor
//! sees one twice, and one that falls behind costs nothing. Nobody is told of an event before it
//! has its number: what was seen is in the catalog, also after this process was killed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::sync::watch;
use warren_core::catalog::{Catalog, EventFilter};
use warren_core::{Event, EventRecord, Owner};

use crate::engine::closed;
use crate::error::sentence;
use crate::ports::blocking;
use crate::state::After;
use crate::{Access, Engine, EngineError};

/// How long an event may wait for others to be written with it, while somebody follows.
const FOLLOWED_PAUSE: Duration = Duration::from_millis(5);
/// And while nobody does.
const WRITE_PAUSE: Duration = Duration::from_millis(100);
/// After this long a catalog that could not be written is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const LOG_PAGE: u32 = 500;

/// Events as they happen. Ends when the engine does; a reader that falls behind goes on from the
/// catalog and misses nothing that it still has.
pub type EventStream = std::pin::Pin<Box<dyn Stream<Item = EventRecord> + Send>>;

/// The events of the caller's owner.
#[derive(Debug, Clone)]
pub struct EventLog {
    pub(crate) access: Access,
}

impl Access {
    pub fn events(&self) -> EventLog {
        EventLog { access: self.clone() }
    }
}

impl EventLog {
    /// The owner's events after a number that a filter lets through, the oldest first: all that
    /// happened before the call, unless the catalog cannot be written. With them the number to go
    /// on after: that of the last one, or of the newest of all when there are no more of them.
    pub async fn find(
        &self,
        filter: EventFilter,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<EventRecord>, u64), EngineError> {
        let (engine, owner) = (&self.access.engine, self.access.owner().clone());
        engine.write_events().await;
        let limit = limit.max(1);
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let (found, up_to) = match engine.shared.events.since(&owner, after) {
            After::Known(news, up_to) => {
                let wanted = news.iter().filter(|event| filter.includes(event));
                (wanted.take(most).map(|event| event.as_ref().clone()).collect(), up_to)
            }
            After::AskCatalog(up_to) => {
                let found = move |catalog: &dyn Catalog| catalog.events(&owner, &filter, after, limit);
                (engine.catalog(found).await?, up_to)
            }
        };
        let last = found.last().map(|event: &EventRecord| event.number);
        let seen = last.filter(|_| found.len() >= most).unwrap_or_else(|| up_to.max(last.unwrap_or(after)));
        Ok((found, seen.max(after)))
    }

    /// The owner's events after a number, then every new one.
    pub async fn follow(&self, after: u64) -> Result<EventStream, EngineError> {
        let follower = Follower {
            engine: self.access.engine.inner(),
            owner: self.access.owner().clone(),
            seen: after,
            ready: VecDeque::new(),
            newest: self.access.engine.shared.events.newest.subscribe(),
            closing: self.access.engine.shared.closing.subscribe(),
        };
        Ok(Box::pin(stream::unfold(follower, |mut follower| async {
            let event = follower.next().await?;
            Some((event, follower))
        })))
    }

    /// Adds an event that is about the owner, and about no sandbox.
    pub fn add(&self, event: Event) {
        self.access.engine.emit(self.access.owner(), None, None, event);
    }
}

impl Engine {
    /// The number of the newest event of all that happened before the call.
    pub async fn last_event(&self) -> u64 {
        self.write_events().await;
        self.shared.events.last()
    }

    /// Has every event that there was numbered. Says whether that is done.
    pub(crate) async fn write_events(&self) -> bool {
        if self.shared.events.is_settled() {
            return true;
        }
        let engine = self.inner();
        // What has begun is ended, also when the caller goes away.
        let written = blocking(move || engine.shared.events.write(engine.shared.parts.catalog.as_ref()));
        match written.await {
            Ok(()) => true,
            Err(error) => {
                self.fault();
                tracing::error!(error = sentence(&error), "cannot write events to the catalog");
                false
            }
        }
    }

    /// Writes events until the engine ends.
    pub(crate) async fn keep_writing_events(self) {
        let mut emitted = self.shared.events.emitted.subscribe();
        let mut closing = self.shared.closing.subscribe();
        let mut failed = false;
        loop {
            if self.shared.events.is_settled() {
                tokio::select! {
                    () = closed(&mut closing) => return,
                    changed = emitted.changed() => drop(changed),
                }
            }
            let pause = match self.shared.events.newest.receiver_count() {
                _ if failed => RETRY_PAUSE,
                0 => WRITE_PAUSE,
                _ => FOLLOWED_PAUSE,
            };
            tokio::select! {
                () = closed(&mut closing) => return,
                () = tokio::time::sleep(pause) => {}
            }
            failed = !self.write_events().await;
        }
    }
}

/// A reader of an owner's events.
struct Follower {
    engine: Engine,
    owner: Owner,
    seen: u64,
    ready: VecDeque<Arc<EventRecord>>,
    newest: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
}

impl Follower {
    async fn next(&mut self) -> Option<EventRecord> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.seen = self.seen.max(event.number);
                return Some(Arc::unwrap_or_clone(event));
            }
            self.newest.mark_unchanged();
            match self.engine.shared.events.since(&self.owner, self.seen) {
                After::Known(news, up_to) if news.is_empty() => {
                    self.seen = self.seen.max(up_to);
                    self.wait().await?;
                }
                After::Known(news, _) => self.ready.extend(news),
                After::AskCatalog(up_to) => self.read_catalog(up_to).await?,
            }
        }
    }

    /// Waits for a new event; `None` when there will be none.
    async fn wait(&mut self) -> Option<()> {
        tokio::select! {
            changed = self.newest.changed() => changed.ok(),
            () = closed(&mut self.closing) => None,
        }
    }

    async fn read_catalog(&mut self, up_to: u64) -> Option<()> {
        let (owner, seen) = (self.owner.clone(), self.seen);
        match self
            .engine
            .catalog(move |catalog| catalog.events(&owner, &EventFilter::default(), seen, LOG_PAGE))
            .await
        {
            Ok(found) if found.is_empty() => self.seen = self.seen.max(up_to),
            Ok(found) => self.ready.extend(found.into_iter().map(Arc::new)),
            Err(error) => {
                tracing::error!(error = sentence(&error), "cannot read events from the catalog");
                return None;
            }
        }
        Some(())
    }
}
