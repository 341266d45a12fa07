//! Events: numbered as they happen, kept for a while in memory, and written to the log in the background.
//!
//! A follower has one number, that of the last event it has seen, and asks for what comes after it: from memory where that
//! goes back far enough, else from the log. So it neither misses one nor sees one twice, and one that falls behind costs nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::sync::watch;
use warren_core::{Event, EventRecord, Owner, SandboxId, SessionId};

use crate::engine::closed;
use crate::error::sentence;
use crate::{Access, Engine, EngineError};

/// Events that are kept in memory once they are in the log.
const KEPT: usize = 1024;
/// Events that wait for a log that cannot be written; beyond that the oldest are lost. Numbers go on this far above the
/// log's last one after a start, so none is ever given twice.
const MOST_UNWRITTEN: usize = 16_384;
/// How long an event may wait for others to be written with it.
const WRITE_PAUSE: Duration = Duration::from_millis(100);
/// After this long a log that could not be written is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const LOG_PAGE: u32 = 500;

/// Events as they happen. Ends when the engine does; a reader that falls behind goes on from the log and misses nothing
/// that the log still has.
pub type EventStream = std::pin::Pin<Box<dyn Stream<Item = EventRecord> + Send>>;

/// What happened lately.
#[derive(Debug)]
pub(crate) struct Events {
    recent: Mutex<Recent>,
    /// The number of the newest event.
    newest: watch::Sender<u64>,
    /// One writes at a time, so that nothing is written twice.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Recent {
    ring: VecDeque<Arc<EventRecord>>,
    last: u64,
    /// All up to this number are in the log.
    written: u64,
}

/// What memory has after a number.
#[derive(Debug, PartialEq, Eq)]
enum After {
    /// These, and the number up to which they are all of the owner's.
    Known(Vec<Arc<EventRecord>>, u64),
    /// It does not go back that far, but the log goes on up to this number.
    AskLog(u64),
}

impl Events {
    /// Numbers go on after those of the log.
    pub(crate) fn after_log(last: u64) -> Self {
        let last = if last == 0 { 0 } else { last + MOST_UNWRITTEN as u64 };
        let recent = Recent { ring: VecDeque::new(), last, written: last };
        Self {
            recent: Mutex::new(recent),
            newest: watch::Sender::new(last),
            writing: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn emit(
        &self,
        at_unix_ms: u64,
        owner: &Owner,
        of: (Option<&SandboxId>, Option<&SessionId>),
        event: Event,
    ) {
        let mut recent = self.recent();
        recent.last += 1;
        let number = recent.last;
        recent.ring.push_back(Arc::new(EventRecord {
            number,
            at_unix_ms,
            owner: owner.clone(),
            sandbox: of.0.cloned(),
            session: of.1.cloned(),
            event,
        }));
        recent.trim();
        drop(recent);
        self.newest.send_replace(number);
    }

    pub(crate) fn last(&self) -> u64 {
        self.recent().last
    }

    fn unwritten(&self) -> Vec<EventRecord> {
        let recent = self.recent();
        let written = recent.written;
        recent
            .ring
            .iter()
            .filter(|event| event.number > written)
            .map(|event| event.as_ref().clone())
            .collect()
    }

    fn mark_written(&self, number: u64) {
        let mut recent = self.recent();
        recent.written = recent.written.max(number);
        recent.trim();
    }

    fn after(&self, owner: &Owner, seen: u64) -> After {
        let recent = self.recent();
        let first = recent.ring.front().map_or(recent.last + 1, |event| event.number);
        if seen.saturating_add(1) < first && seen < recent.written {
            return After::AskLog(recent.written);
        }
        let news = recent
            .ring
            .iter()
            .filter(|event| event.number > seen && event.owner == *owner)
            .cloned()
            .collect();
        After::Known(news, recent.last)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn trim(&mut self) {
        while self.ring.len() > MOST_UNWRITTEN
            || self.ring.len() > KEPT && self.ring.front().is_some_and(|event| event.number <= self.written)
        {
            self.ring.pop_front();
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

    /// Tells the followers of an owner's events, and the log.
    pub(crate) fn emit(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        session: Option<&SessionId>,
        event: Event,
    ) {
        self.shared.events.emit(self.shared.parts.clock.unix_ms(), owner, (sandbox, session), event);
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
            let written = self.shared.events.recent().written;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        name.parse().unwrap()
    }

    fn emit(events: &Events, name: &str) {
        events.emit(0, &owner(name), (None, None), Event::SandboxAdopted);
    }

    fn numbers(after: After) -> Vec<u64> {
        match after {
            After::Known(news, _) => news.iter().map(|event| event.number).collect(),
            After::AskLog(_) => panic!("memory should know"),
        }
    }

    #[test]
    fn each_owner_sees_its_own_events_in_order() {
        let events = Events::after_log(0);
        for name in ["a", "b", "a"] {
            emit(&events, name);
        }
        assert_eq!(numbers(events.after(&owner("a"), 0)), [1, 3]);
        assert_eq!(numbers(events.after(&owner("a"), 1)), [3]);
        assert_eq!(numbers(events.after(&owner("b"), 2)), [] as [u64; 0]);
    }

    #[test]
    fn events_that_are_not_written_stay_in_memory() {
        let events = Events::after_log(0);
        for _ in 0..KEPT + 10 {
            emit(&events, "a");
        }
        assert_eq!(numbers(events.after(&owner("a"), 0)).len(), KEPT + 10);
        events.mark_written((KEPT + 10) as u64);
        assert_eq!(events.after(&owner("a"), 0), After::AskLog((KEPT + 10) as u64));
        assert_eq!(numbers(events.after(&owner("a"), 10)).len(), KEPT);
        assert!(events.unwritten().is_empty());
    }

    #[test]
    fn a_log_that_cannot_be_written_does_not_fill_the_memory() {
        let events = Events::after_log(0);
        for _ in 0..MOST_UNWRITTEN + 100 {
            emit(&events, "a");
        }
        assert_eq!(events.unwritten().len(), MOST_UNWRITTEN);
    }

    #[test]
    fn numbers_after_a_start_are_above_all_that_were_ever_given() {
        let events = Events::after_log(7);
        emit(&events, "a");
        assert!(events.last() > 7 + MOST_UNWRITTEN as u64);
        assert_eq!(Events::after_log(0).last(), 0);
    }

    #[test]
    fn a_follower_of_an_earlier_start_is_sent_to_the_log() {
        let events = Events::after_log(7);
        let written = 7 + MOST_UNWRITTEN as u64;
        assert_eq!(events.after(&owner("a"), 3), After::AskLog(written));
        emit(&events, "a");
        assert_eq!(numbers(events.after(&owner("a"), written)), [written + 1]);
    }
}
