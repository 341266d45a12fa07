//! Keeps what the networks tell of sandboxes.

use std::sync::{Arc, Weak};

use warren_core::{Event, NetworkEntry, NetworkObserver, NetworkPolicy, Owner, SandboxId};

use crate::Engine;
use crate::state::{Moment, State, is_open};

/// Text of a sandbox's own making is cut here.
const MOST_TEXT: usize = 253;

/// The engine as the networks know it. They outlive it.
pub(crate) struct Observer {
    shared: Weak<State>,
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

    /// A sandbox's life ended: waiting news of it are told, and its log is cut short.
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

    /// True if a policy leaves this for somebody to answer.
    pub(crate) fn still_asks(&self, policy: &NetworkPolicy, entry: &NetworkEntry) -> bool {
        let now_unix_ms = self.shared.parts.clock.unix_ms();
        is_open(policy, entry, &self.shared.settings.network.exceptions, now_unix_ms)
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
