//! Sightings of what sandboxes do on the network.

mod asks;
mod log;
mod news;
mod reached;

use std::collections::HashMap;

use parking_lot::Mutex;
use warren_core::{Clock, Event, NetworkEntry, NetworkRule, NetworkVerdict, SandboxId};

use self::asks::Asks;
use self::log::Log;
use self::news::News;
use self::reached::Reached;
use crate::cell::Cell;

pub(crate) use self::asks::is_open;
pub(crate) use self::log::KEPT;
pub(crate) use self::reached::MOST as MOST_REACHED;

/// Something that a sandbox did or tried, as its log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSighting {
    /// Grows by one with every entry of the sandbox, and leaps at a start of the engine.
    pub number: u64,
    pub at_unix_ms: u64,
    pub entry: NetworkEntry,
}

/// Something that a sandbox waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAsk {
    /// The number to answer it by.
    pub number: u64,
    pub asked_unix_ms: u64,
    /// When it is forgotten unless it is asked again. The connection gives up before that.
    pub expires_unix_ms: u64,
    /// The rule that an answer allows or denies.
    pub rule: NetworkRule,
    /// The connection that was tried, and how often.
    pub entry: NetworkEntry,
}

/// The sightings of all sandboxes that exist, a limited number of each.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    known: Mutex<HashMap<SandboxId, Known>>,
    /// One writes at a time what was reached.
    pub(crate) writing: tokio::sync::Mutex<()>,
}

/// The sightings of one sandbox.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) log: Log,
    pub(crate) asks: Asks,
    pub(crate) reached: Reached,
    pub(crate) news: News,
}

/// The time on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) boot_ms: u64,
    pub(crate) unix_ms: u64,
}

impl Moment {
    pub(crate) fn now(clock: &dyn Clock) -> Self {
        Self { boot_ms: clock.boot_ms(), unix_ms: clock.unix_ms() }
    }
}

impl Known {
    fn since(started_unix_ms: u64) -> Self {
        Self {
            log: Log::since(started_unix_ms),
            asks: Asks::since(started_unix_ms),
            reached: Reached::default(),
            news: News::default(),
        }
    }

    /// Takes in an entry. Answers what is to be told.
    pub(crate) fn note(&mut self, entry: NetworkEntry, now: Moment) -> Vec<Event> {
        self.log.push(entry.clone(), now.unix_ms);
        match entry.verdict {
            NetworkVerdict::Allowed => {
                self.reached.note(&entry);
                Vec::new()
            }
            NetworkVerdict::Denied => {
                let tell = self.news.hear(entry, now.boot_ms);
                tell.into_iter().map(|entry| Event::NetworkDenied { entry }).collect()
            }
            NetworkVerdict::Asked if self.asks.note(&entry, now) => vec![Event::NetworkAsked { entry }],
            NetworkVerdict::Asked => Vec::new(),
        }
    }
}

impl Sightings {
    /// Looks at the sightings of a sandbox, if there are any.
    pub(crate) fn of<R>(&self, id: &SandboxId, look: impl FnOnce(&mut Known) -> R) -> Option<R> {
        self.known.lock().get_mut(id).map(look)
    }

    /// As [`Sightings::of`], of a sandbox that has a driver: what is known of it begins here.
    pub(crate) fn of_cell<R>(
        &self,
        cell: &Cell,
        started_unix_ms: u64,
        look: impl FnOnce(&mut Known) -> R,
    ) -> Option<R> {
        let mut known = self.known.lock();
        // Looked at with all of it in hand: nothing comes back of what was forgotten.
        let record = cell.record();
        if !record.is_live() && !record.files_kept() {
            return None;
        }
        Some(look(known.entry(cell.id.clone()).or_insert_with(|| Known::since(started_unix_ms))))
    }

    /// Goes through all of them.
    pub(crate) fn each(&self, mut look: impl FnMut(&SandboxId, &mut Known)) {
        self.known.lock().iter_mut().for_each(|(id, known)| look(id, known));
    }

    /// It is gone for good.
    pub(crate) fn forget(&self, id: &SandboxId) {
        self.known.lock().remove(id);
    }

    /// Drops the asks that a policy has an answer to.
    pub(crate) fn judge_asks(&self, id: &SandboxId, judge: impl Fn(&NetworkEntry) -> bool) {
        self.of(id, |known| known.asks.retain(judge));
    }
}
