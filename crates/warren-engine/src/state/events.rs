//! The events of late: those that wait for their numbers, and the newest that have them.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{Event, EventRecord, Owner, SandboxId, SessionId};

/// Events that are kept in memory once they have their numbers.
const KEPT: usize = 1024;
/// Events that wait for a catalog that cannot be written; beyond that the oldest are lost.
const MOST_UNWRITTEN: usize = 16_384;

/// The latest events.
#[derive(Debug)]
pub(crate) struct Events {
    recent: Mutex<Recent>,
    /// How many events there were since the engine started.
    pub(crate) emitted: watch::Sender<u64>,
    /// The number of the newest event. Only followers listen.
    pub(crate) newest: watch::Sender<u64>,
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

/// The events in memory after a number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
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
        self.recent.lock().put(EventRecord {
            number: 0,
            at_unix_ms,
            owner: owner.clone(),
            sandbox: of.0.cloned(),
            session: of.1.cloned(),
            event,
        });
        self.emitted.send_modify(|count| *count += 1);
    }

    /// True if every event has its number.
    pub(crate) fn is_settled(&self) -> bool {
        let recent = self.recent.lock();
        recent.unwritten.is_empty() && recent.in_writing == 0
    }

    /// Has the catalog number what is not numbered yet, and tells the followers. Blocks.
    pub(crate) fn write(&self, catalog: &dyn Catalog) -> Result<(), CatalogError> {
        let _writing = self.writing.lock();
        let events = self.recent.lock().take();
        if events.is_empty() {
            return Ok(());
        }
        let written = catalog.append_events(&events);
        let mut recent = self.recent.lock();
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

    pub(crate) fn since(&self, owner: &Owner, seen: u64) -> After {
        let recent = self.recent.lock();
        if seen < recent.from {
            return After::AskCatalog(recent.last);
        }
        let news = recent.ring.iter().filter(|event| event.number > seen && event.owner == *owner);
        After::Known(news.cloned().collect(), recent.last)
    }

    /// The number of the newest event.
    pub(crate) fn last(&self) -> u64 {
        self.recent.lock().last
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

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
