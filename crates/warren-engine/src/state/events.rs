//! The events of late, numbered as they happen.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use warren_core::{Event, EventRecord, Owner, SandboxId, SessionId};

/// Events that are kept in memory once they are in the log.
const KEPT: usize = 1024;
/// Events that wait for a log that cannot be written; beyond that the oldest are lost. Numbers go on this far above the
/// log's last one after a start, so none is ever given twice.
const MOST_UNWRITTEN: usize = 16_384;
/// What happened lately.
#[derive(Debug)]
pub(crate) struct Events {
    recent: Mutex<Recent>,
    /// The number of the newest event.
    pub(crate) newest: watch::Sender<u64>,
    /// One writes at a time, so that nothing is written twice.
    pub(crate) writing: tokio::sync::Mutex<()>,
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
pub(crate) enum After {
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

    pub(crate) fn unwritten(&self) -> Vec<EventRecord> {
        let recent = self.recent();
        let written = recent.written;
        recent
            .ring
            .iter()
            .filter(|event| event.number > written)
            .map(|event| event.as_ref().clone())
            .collect()
    }

    /// All up to this number are in the log.
    pub(crate) fn written(&self) -> u64 {
        self.recent().written
    }

    pub(crate) fn mark_written(&self, number: u64) {
        let mut recent = self.recent();
        recent.written = recent.written.max(number);
        recent.trim();
    }

    pub(crate) fn after(&self, owner: &Owner, seen: u64) -> After {
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
