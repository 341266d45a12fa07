//! Reports of connections and questions: the first of its kind at once, and all like it within a
//! second as one, with their count.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use warren_core::SandboxId;
use warren_core::network::{NetworkEntry, NetworkVerdict, Protocol};

use crate::book::{Book, Guest};
use crate::process::Finder;

/// How long those that are alike are gathered.
const WINDOW: Duration = Duration::from_secs(1);
/// How often windows are looked through.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// Different ones of one sandbox and protocol within a window. What goes beyond is told as one.
const MOST_KINDS: usize = 128;
/// How many programs are looked for at the same time; for the others nobody looks.
const MOST_SEARCHES: usize = 4;

/// A report waits no longer than this for the program's name.
const PATIENCE: Duration = Duration::from_millis(250);

/// An event on a connection, or a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Incident {
    pub(crate) verdict: NetworkVerdict,
    pub(crate) protocol: Protocol,
    pub(crate) host: Option<String>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) rule: String,
}

/// Gathers and tells.
pub(crate) struct Reporter {
    book: Arc<Book>,
    windows: Mutex<HashMap<SandboxId, Windows>>,
    finder: Arc<Finder>,
    searches: Arc<Semaphore>,
}

struct Windows {
    guest: Arc<Guest>,
    open: HashMap<Incident, Window>,
}

struct Window {
    since: Instant,
    /// Not told yet.
    more: u32,
    process: Option<String>,
}

impl Reporter {
    pub(crate) fn new(book: Arc<Book>) -> Self {
        Self {
            book,
            windows: Mutex::default(),
            finder: Arc::default(),
            searches: Arc::new(Semaphore::new(MOST_SEARCHES)),
        }
    }

    /// Tells it, or counts it. Where a program is looked for, the answer says when that is over,
    /// for as long as the caller likes to keep the connection open meanwhile.
    pub(crate) fn saw(
        self: &Arc<Self>,
        guest: &Arc<Guest>,
        incident: Incident,
        client: SocketAddr,
    ) -> Option<JoinHandle<()>> {
        if !self.is_first(guest, &incident) {
            return None;
        }
        let Ok(leave) = Arc::clone(&self.searches).try_acquire_owned() else {
            self.tell(guest, incident, None, 1);
            return None;
        };
        let (reporter, guest, finder) = (Arc::clone(self), Arc::clone(guest), Arc::clone(&self.finder));
        Some(tokio::spawn(async move {
            let search = tokio::task::spawn_blocking(move || {
                let found = finder.behind(client);
                drop(leave);
                found
            });
            let process = timeout(PATIENCE, search).await.ok().and_then(Result::ok).flatten();
            reporter.remember(&guest, &incident, process.as_deref());
            reporter.tell(&guest, incident, process, 1);
        }))
    }

    /// As [`Self::saw`], where nobody looks for the program.
    pub(crate) fn note(&self, guest: &Arc<Guest>, incident: Incident) {
        if self.is_first(guest, &incident) {
            self.tell(guest, incident, None, 1);
        }
    }

    /// Tells what has been gathered for long enough.
    pub(crate) fn tick(&self, now: Instant) {
        for (guest, incident, window) in self.finished(now) {
            self.tell(&guest, incident, window.process, window.more);
        }
    }

    /// True if nothing like it was reported just now. If so, those that follow are counted.
    fn is_first(&self, guest: &Arc<Guest>, incident: &Incident) -> bool {
        let mut windows = self.windows.lock();
        let own = windows
            .entry(guest.id.clone())
            .or_insert_with(|| Windows { guest: Arc::clone(guest), open: HashMap::new() });
        if let Some(window) = own.open.get_mut(incident) {
            window.more = window.more.saturating_add(1);
            return false;
        }
        let opened = Window { since: Instant::now(), more: 0, process: None };
        let alike = own.open.keys().filter(|other| other.protocol == incident.protocol);
        if alike.count() < MOST_KINDS {
            own.open.insert(incident.clone(), opened);
            return true;
        }
        let window = own.open.entry(incident.as_one_of_many()).or_insert(opened);
        window.more = window.more.saturating_add(1);
        false
    }

    fn remember(&self, guest: &Guest, incident: &Incident, process: Option<&str>) {
        let mut windows = self.windows.lock();
        let window = windows.get_mut(&guest.id).and_then(|own| own.open.get_mut(incident));
        if let Some(window) = window {
            window.process = process.map(str::to_owned);
        }
    }

    fn finished(&self, now: Instant) -> Vec<(Arc<Guest>, Incident, Window)> {
        let mut finished = Vec::new();
        let mut windows = self.windows.lock();
        windows.retain(|_, own| {
            for (incident, window) in &mut own.open {
                if now.duration_since(window.since) >= WINDOW && window.more > 0 {
                    let told = Window { process: window.process.clone(), ..*window };
                    (window.since, window.more) = (now, 0);
                    finished.push((Arc::clone(&own.guest), incident.clone(), told));
                }
            }
            own.open.retain(|_, window| now.duration_since(window.since) < WINDOW);
            !own.open.is_empty()
        });
        finished
    }

    fn tell(&self, guest: &Guest, incident: Incident, process: Option<String>, count: u32) {
        let Incident { verdict, protocol, host, address, port, rule } = incident;
        let entry = NetworkEntry { verdict, protocol, host, address, port, rule, process, count };
        self.book.report(guest, entry);
    }
}

impl Incident {
    /// A shorter form, for when there are too many to tell apart.
    fn as_one_of_many(&self) -> Self {
        let what = if self.protocol == Protocol::Dns { "questions" } else { "connections" };
        let rule = format!("many different {what} at once");
        Self { verdict: self.verdict, protocol: self.protocol, host: None, address: None, port: 0, rule }
    }
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
