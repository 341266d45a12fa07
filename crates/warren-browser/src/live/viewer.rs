use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, watch};
use warren_engine::Visit;

use super::hub::{Dialog, Hub, Shown, ShownPage};
use super::input::Action;
use super::lease::{Held, Holder};
use crate::{Browser, BrowserError};

/// The journal's name for the time in which a person has the controls.
const CONTROL: &str = "browser_control";

/// Something that a viewer sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Frame {
        /// The journal's last entry that changed something by the browser; 0 if none did.
        entry: u64,
        jpeg: Bytes,
    },
    Page(ShownPage),
    Dialog(Option<Dialog>),
    Control(Holder),
}

/// Why an action was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The viewer does not have the controls.
    NoControl,
    /// The page does not keep up.
    Busy,
    /// No such thing can be done.
    Wrong(String),
}

/// Somebody who looks on.
pub struct Viewer {
    browser: Browser,
    hub: Arc<Hub>,
    number: u64,
    shown: watch::Receiver<Shown>,
    control: watch::Receiver<Option<Held>>,
    last: Last,
    waiting: VecDeque<Seen>,
    /// Exists while the viewer has the controls: an entry of the journal.
    journal: Option<Visit>,
    _place: OwnedSemaphorePermit,
}

/// The last that the viewer has been told.
#[derive(Default)]
struct Last {
    frame: u64,
    page: Option<ShownPage>,
    dialog: Option<Dialog>,
    holder: Option<Holder>,
}

impl Browser {
    /// Looks on.
    pub async fn watch(&self) -> Result<Viewer, BrowserError> {
        let hub = {
            let mut known = self.place.hub.lock().await;
            let hub = known.upgrade().unwrap_or_else(|| Arc::new(Hub::begin(self)));
            *known = Arc::downgrade(&hub);
            hub
        };
        let place = Arc::clone(&hub.places).try_acquire_owned();
        let place = place.map_err(|_| BrowserError::Crowded { sandbox: self.id() })?;
        let (mut shown, mut control) = (hub.shown.clone(), hub.lease.follow());
        // What is there already is news.
        shown.mark_changed();
        control.mark_changed();
        Ok(Viewer {
            browser: self.clone(),
            number: hub.number(),
            hub,
            shown,
            control,
            last: Last::default(),
            waiting: VecDeque::new(),
            journal: None,
            _place: place,
        })
    }
}

impl Viewer {
    /// Waits for something new. May be dropped at any time.
    pub async fn next(&mut self) -> Seen {
        loop {
            if let Some(seen) = self.waiting.pop_front() {
                return seen;
            }
            let until = self.hub.lease.until();
            let rested = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.shown.changed() => self.look(),
                _ = self.control.changed() => self.look_at_control(),
                () = rested => self.look_at_control(),
            }
        }
    }

    fn look(&mut self) {
        let shown = self.shown.borrow_and_update();
        if self.last.page.as_ref() != Some(&shown.page) {
            self.last.page = Some(shown.page.clone());
            self.waiting.push_back(Seen::Page(shown.page.clone()));
        }
        if self.last.dialog != shown.dialog {
            self.last.dialog.clone_from(&shown.dialog);
            self.waiting.push_back(Seen::Dialog(shown.dialog.clone()));
        }
        if let Some(frame) = shown.frame.as_ref().filter(|frame| frame.number != self.last.frame) {
            self.last.frame = frame.number;
            self.waiting.push_back(Seen::Frame { entry: frame.entry, jpeg: frame.jpeg.clone() });
        }
    }

    fn look_at_control(&mut self) {
        self.control.mark_unchanged();
        let holder = self.hub.lease.of(self.number);
        if holder != Holder::You {
            self.end_entry();
        }
        if self.last.holder != Some(holder) {
            self.last.holder = Some(holder);
            self.waiting.push_back(Seen::Control(holder));
        }
    }

    /// Takes the controls; false if somebody else has them.
    pub async fn take(&mut self) -> Result<bool, BrowserError> {
        if !self.hub.lease.take(self.number) {
            return Ok(false);
        }
        if self.journal.is_none() {
            let visit = self.browser.sandbox().visit().await?;
            visit.begin(CONTROL, "somebody at the controls").await;
            self.journal = Some(visit);
        }
        Ok(true)
    }

    pub fn release(&mut self) {
        self.hub.lease.release(self.number);
        self.end_entry();
    }

    /// Does something in the page.
    pub fn act(&mut self, action: Action) -> Result<(), Refusal> {
        action.commands().map_err(Refusal::Wrong)?;
        if !self.hub.lease.use_by(self.number) {
            return Err(Refusal::NoControl);
        }
        self.hub.actions.try_send(action).map_err(|_| Refusal::Busy)
    }

    fn end_entry(&mut self) {
        let Some(visit) = self.journal.take() else { return };
        let entry = visit.number();
        visit.done(None);
        if let Some(entry) = entry {
            self.browser.note_entry(entry);
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewer").field("number", &self.number).finish_non_exhaustive()
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}
