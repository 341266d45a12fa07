//! What the networks tell of sandboxes, kept for those who ask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use warren_core::{
    Clock, Event, NetworkEntry, NetworkObserver, NetworkPolicy, NetworkVerdict, Owner, SandboxId,
};

use super::asks::Asks;
use super::log::Log;
use super::news::News;
use super::reached::Reached;
use crate::Engine;
use crate::cell::Cell;
use crate::engine::Shared;

/// Text of a sandbox's own making is cut here.
const MOST_TEXT: usize = 253;

/// What is known of all sandboxes. Only of those that exist, and of each only so much.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    known: Mutex<HashMap<SandboxId, Known>>,
    /// One writes at a time what was reached.
    pub(super) writing: tokio::sync::Mutex<()>,
}

/// What is known of one sandbox.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) log: Log,
    pub(super) asks: Asks,
    pub(super) reached: Reached,
    news: News,
}

/// What time it is, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) boot_ms: u64,
    pub(super) unix_ms: u64,
}

/// The engine as the networks know it. They outlive it.
pub(crate) struct Observer {
    shared: Weak<Shared>,
}

impl Moment {
    pub(super) fn now(clock: &dyn Clock) -> Self {
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
    fn note(&mut self, entry: NetworkEntry, now: Moment) -> Vec<Event> {
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
    /// What is known of a sandbox, once something is.
    pub(super) fn of<R>(&self, id: &SandboxId, look: impl FnOnce(&mut Known) -> R) -> Option<R> {
        self.known().get_mut(id).map(look)
    }

    /// As [`Sightings::of`], of a sandbox that has a driver: what is known of it begins here.
    pub(super) fn of_cell<R>(
        &self,
        cell: &Cell,
        started_unix_ms: u64,
        look: impl FnOnce(&mut Known) -> R,
    ) -> Option<R> {
        let mut known = self.known();
        // Looked at with all of it in hand: nothing comes back of what was forgotten.
        let record = cell.record();
        if !record.is_live() && !record.files_kept() {
            return None;
        }
        Some(look(known.entry(cell.id.clone()).or_insert_with(|| Known::since(started_unix_ms))))
    }

    /// Goes through all of them.
    pub(super) fn each(&self, mut look: impl FnMut(&SandboxId, &mut Known)) {
        self.known().iter_mut().for_each(|(id, known)| look(id, known));
    }

    /// It is gone for good.
    pub(crate) fn forget(&self, id: &SandboxId) {
        self.known().remove(id);
    }

    /// Drops the asks that a policy has an answer to.
    pub(crate) fn judge_asks(&self, id: &SandboxId, judge: impl Fn(&NetworkEntry) -> bool) {
        self.of(id, |known| known.asks.retain(judge));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SandboxId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Has the networks tell what sandboxes do.
    pub(crate) fn observe_networks(&self) {
        let observer = Observer { shared: Arc::downgrade(&self.shared) };
        self.shared.parts.networks.observe(Arc::new(observer));
    }

    /// Tells what was held back, if it is time for that.
    pub(crate) fn tell_of_networks(&self, all: bool) {
        let now = Moment::now(self.shared.parts.clock.as_ref());
        let mut tell = Vec::new();
        self.shared.sightings.each(|id, known| {
            known.asks.expire(now);
            let entries = if all { known.news.all(now.boot_ms) } else { known.news.due(now.boot_ms) };
            tell.extend(entries.into_iter().map(|entry| (id.clone(), entry)));
        });
        for (id, entry) in tell {
            if let Some(cell) = self.shared.registry.get(&id) {
                self.emit(&cell.owner, Some(&id), None, Event::NetworkDenied { entry });
            }
        }
    }

    /// A sandbox can do nothing for now: what waited to be told of it is told, and what is kept of it takes little room.
    pub(crate) fn sightings_end(&self, owner: &Owner, id: &SandboxId) {
        let now = Moment::now(self.shared.parts.clock.as_ref());
        let last = self.shared.sightings.of(id, |known| {
            known.log.shrink();
            known.asks.clear();
            known.news.all(now.boot_ms)
        });
        for entry in last.into_iter().flatten() {
            self.emit(owner, Some(id), None, Event::NetworkDenied { entry });
        }
    }

    /// Whether a policy leaves it to somebody to answer this.
    pub(crate) fn still_asks(&self, policy: &NetworkPolicy, entry: &NetworkEntry) -> bool {
        let now_unix_ms = self.shared.parts.clock.unix_ms();
        super::asks::is_open(policy, entry, &self.shared.settings.network.exceptions, now_unix_ms)
    }
}

impl NetworkObserver for Observer {
    fn saw(&self, id: &SandboxId, entry: NetworkEntry) {
        let Some(shared) = self.shared.upgrade() else { return };
        let Some(cell) = shared.registry.get(id) else { return };
        let now = Moment::now(shared.parts.clock.as_ref());
        let (entry, started) = (bounded(entry), shared.started_unix_ms);
        let events = shared.sightings.of_cell(&cell, started, |known| known.note(entry, now));
        for event in events.into_iter().flatten() {
            shared.events.emit(now.unix_ms, &cell.owner, (Some(id), None), event);
        }
    }
}

fn bounded(mut entry: NetworkEntry) -> NetworkEntry {
    let cut = |text: &mut String| {
        if text.len() > MOST_TEXT {
            *text = text.chars().take(MOST_TEXT).collect();
        }
    };
    cut(&mut entry.rule);
    entry.host.iter_mut().for_each(cut);
    entry.process.iter_mut().for_each(cut);
    entry
}
