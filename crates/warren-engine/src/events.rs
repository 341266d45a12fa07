//! Events: numbered as they happen, kept for a while in memory, and written to the log in the background.
//!
//! A follower has one number, that of the last event it has seen, and asks for what comes after it: from memory where that
//! goes back far enough, else from the log. So it neither misses one nor sees one twice, and one that falls behind costs nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::sync::watch;
use warren_core::{Event, EventRecord, Owner};

use crate::engine::closed;
use crate::error::sentence;
use crate::state::After;
use crate::{Access, Engine, EngineError};

/// How long an event may wait for others to be written with it.
const WRITE_PAUSE: Duration = Duration::from_millis(100);
/// After this long a log that could not be written is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const LOG_PAGE: u32 = 500;

/// Events as they happen. Ends when the engine does; a reader that falls behind goes on from the log and misses nothing
/// that the log still has.
pub type EventStream = std::pin::Pin<Box<dyn Stream<Item = EventRecord> + Send>>;

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
    /// The owner's events after a number, the oldest first.
    pub async fn list(&self, after: u64, limit: u32) -> Result<Vec<EventRecord>, EngineError> {
        let limit = limit.max(1);
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let news = match self.access.engine.shared.events.after(self.access.owner(), after) {
            After::Known(news, _) => news,
            After::AskLog(_) => {
                let whose = self.access.owner().clone();
                let found =
                    self.access.engine.catalog(move |catalog| catalog.events(&whose, after, limit)).await?;
                let seen = found.last().map_or(after, |event| event.number);
                if found.len() >= most {
                    return Ok(found);
                }
                let rest = match self.access.engine.shared.events.after(self.access.owner(), seen) {
                    After::Known(rest, _) => rest,
                    After::AskLog(_) => Vec::new(),
                };
                return Ok(found
                    .into_iter()
                    .chain(rest.iter().map(|event| event.as_ref().clone()))
                    .take(most)
                    .collect());
            }
        };
        Ok(news.iter().take(most).map(|event| event.as_ref().clone()).collect())
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
}

impl EventLog {
    /// Adds an event that is about the owner, and about no sandbox.
    pub fn add(&self, event: Event) {
        self.access.engine.emit(self.access.owner(), None, None, event);
    }
}

impl Engine {
    /// The number of the newest event.
    pub fn last_event(&self) -> u64 {
        self.shared.events.last()
    }

    /// Writes down what is not in the log yet. Says whether that is done.
    pub(crate) async fn write_events(&self) -> bool {
        let _writing = self.shared.events.writing.lock().await;
        let unwritten = self.shared.events.unwritten();
        let Some(last) = unwritten.last().map(|event| event.number) else { return true };
        match self.catalog(move |catalog| catalog.append_events(&unwritten)).await {
            Ok(()) => {
                self.shared.events.mark_written(last);
                true
            }
            Err(error) => {
                self.fault();
                tracing::error!(error = sentence(&error), "cannot write events to the log");
                false
            }
        }
    }

    /// Writes events until the engine ends.
    pub(crate) async fn keep_writing_events(self) {
        let mut newest = self.shared.events.newest.subscribe();
        let mut closing = self.shared.closing.subscribe();
        let mut pause = WRITE_PAUSE;
        loop {
            let written = self.shared.events.written();
            tokio::select! {
                () = closed(&mut closing) => return,
                () = newer(&mut newest, written) => {}
            }
            tokio::time::sleep(pause).await;
            pause = if self.write_events().await { WRITE_PAUSE } else { RETRY_PAUSE };
        }
    }
}

/// Waits for an event after this number.
async fn newer(newest: &mut watch::Receiver<u64>, number: u64) {
    // The sender lives as long as the engine.
    drop(newest.wait_for(|newest| *newest > number).await);
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
            match self.engine.shared.events.after(&self.owner, self.seen) {
                After::Known(news, up_to) if news.is_empty() => {
                    self.seen = self.seen.max(up_to);
                    self.wait().await?;
                }
                After::Known(news, _) => self.ready.extend(news),
                After::AskLog(up_to) => self.read_log(up_to).await?,
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

    async fn read_log(&mut self, up_to: u64) -> Option<()> {
        let (owner, seen) = (self.owner.clone(), self.seen);
        match self.engine.catalog(move |catalog| catalog.events(&owner, seen, LOG_PAGE)).await {
            Ok(found) if found.is_empty() => self.seen = self.seen.max(up_to),
            Ok(found) => self.ready.extend(found.into_iter().map(Arc::new)),
            Err(error) => {
                tracing::error!(error = sentence(&error), "cannot read events from the log");
                return None;
            }
        }
        Some(())
    }
}
