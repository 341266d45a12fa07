//! Events: written to the catalog in the background, which gives them their numbers, and then kept
//! for a while in memory.
//!
//! A follower has one number, that of the last event it has seen, and asks for what comes after it:
//! from memory where that goes back far enough, else from the catalog. So it neither misses one nor
//! sees one twice, and one that falls behind costs nothing. Nobody is told of an event before it
//! has its number: what was seen is in the catalog, also after this process was killed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::sync::watch;
use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{Event, EventRecord, Owner, SandboxId, SessionId};

use crate::blocking::blocking;
use crate::engine::closed;
use crate::error::sentence;
use crate::{Access, Engine, EngineError};

/// Events that are kept in memory once they have their numbers.
const KEPT: usize = 1024;
/// Events that wait for a catalog that cannot be written; beyond that the oldest are lost.
const MOST_UNWRITTEN: usize = 16_384;
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

/// What happened lately.
#[derive(Debug)]
pub(crate) struct Events {
    recent: Mutex<Recent>,
    /// How many events there were since the engine started.
    emitted: watch::Sender<u64>,
    /// The number of the newest event. Only followers listen.
    newest: watch::Sender<u64>,
    /// One writes at a time, so that events keep their order.
    writing: Mutex<()>,
}

#[derive(Debug)]
struct Recent {
    /// Events without a number, in their order.
    unwritten: VecDeque<EventRecord>,
    /// How many are being written right now, which are among neither these nor those.
    in_writing: usize,
    /// Every event of the catalog after `from`, up to `last`.
    ring: VecDeque<Arc<EventRecord>>,
    from: u64,
    last: u64,
}

/// What memory has after a number.
#[derive(Debug, PartialEq, Eq)]
enum After {
    /// These, and the number up to which they are all of the owner's.
    Known(Vec<Arc<EventRecord>>, u64),
    /// It does not go back that far, but the catalog goes on at least up to this number.
    AskCatalog(u64),
}

impl Events {
    /// The catalog's last number is this.
    pub(crate) fn after(last: u64) -> Self {
        let recent =
            Recent { unwritten: VecDeque::new(), in_writing: 0, ring: VecDeque::new(), from: last, last };
        Self {
            recent: Mutex::new(recent),
            emitted: watch::Sender::new(0),
            newest: watch::Sender::new(last),
            writing: Mutex::default(),
        }
    }

    pub(crate) fn emit(
        &self,
        at_unix_ms: u64,
        owner: &Owner,
        of: (Option<&SandboxId>, Option<&SessionId>),
        event: Event,
    ) {
        self.recent().put(EventRecord {
            number: 0,
            at_unix_ms,
            owner: owner.clone(),
            sandbox: of.0.cloned(),
            session: of.1.cloned(),
            event,
        });
        self.emitted.send_modify(|count| *count += 1);
    }

    /// Whether every event has its number.
    fn is_settled(&self) -> bool {
        let recent = self.recent();
        recent.unwritten.is_empty() && recent.in_writing == 0
    }

    /// Has the catalog number what is not numbered yet, and tells the followers. Blocks.
    fn write(&self, catalog: &dyn Catalog) -> Result<(), CatalogError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let events = self.recent().take();
        if events.is_empty() {
            return Ok(());
        }
        let written = catalog.append_events(&events);
        let mut recent = self.recent();
        recent.in_writing = 0;
        match written {
            Ok(numbers) => {
                for (number, event) in numbers.into_iter().zip(events) {
                    recent.keep(EventRecord { number, ..event });
                }
                let last = recent.last;
                drop(recent);
                self.newest.send_replace(last);
                Ok(())
            }
            Err(error) => {
                recent.put_back(events);
                Err(error)
            }
        }
    }

    fn since(&self, owner: &Owner, seen: u64) -> After {
        let recent = self.recent();
        if seen < recent.from {
            return After::AskCatalog(recent.last);
        }
        let news = recent.ring.iter().filter(|event| event.number > seen && event.owner == *owner);
        After::Known(news.cloned().collect(), recent.last)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn put(&mut self, event: EventRecord) {
        self.unwritten.push_back(event);
        while self.unwritten.len() > MOST_UNWRITTEN {
            self.unwritten.pop_front();
        }
    }

    fn take(&mut self) -> Vec<EventRecord> {
        let events = Vec::from(std::mem::take(&mut self.unwritten));
        self.in_writing = events.len();
        events
    }

    /// They could not be written.
    fn put_back(&mut self, events: Vec<EventRecord>) {
        for event in std::mem::replace(&mut self.unwritten, events.into()) {
            self.put(event);
        }
    }

    fn keep(&mut self, event: EventRecord) {
        // Another engine wrote in between: what is here no longer joins what is to come.
        if event.number != self.last + 1 {
            self.ring.clear();
            self.from = event.number.saturating_sub(1);
        }
        self.last = event.number;
        self.ring.push_back(Arc::new(event));
        while self.ring.len() > KEPT {
            self.from = self.ring.pop_front().map_or(self.from, |event| event.number);
        }
    }
}

/// What happened to the things of the caller's owner.
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
    /// The owner's events after a number, the oldest first: all that happened before the call,
    /// unless the catalog cannot be written.
    pub async fn list(&self, after: u64, limit: u32) -> Result<Vec<EventRecord>, EngineError> {
        let (engine, owner) = (&self.access.engine, self.access.owner().clone());
        engine.write_events().await;
        let limit = limit.max(1);
        match engine.shared.events.since(&owner, after) {
            After::Known(news, _) => {
                let most = usize::try_from(limit).unwrap_or(usize::MAX);
                Ok(news.iter().take(most).map(|event| event.as_ref().clone()).collect())
            }
            After::AskCatalog(_) => {
                Ok(engine.catalog(move |catalog| catalog.events(&owner, after, limit)).await?)
            }
        }
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
        self.shared.events.recent().last
    }

    /// Tells the followers of an owner's events, and the catalog.
    pub(crate) fn emit(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        session: Option<&SessionId>,
        event: Event,
    ) {
        self.shared.events.emit(self.shared.parts.clock.unix_ms(), owner, (sandbox, session), event);
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

/// One who reads an owner's events.
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
        match self.engine.catalog(move |catalog| catalog.events(&owner, seen, LOG_PAGE)).await {
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

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
