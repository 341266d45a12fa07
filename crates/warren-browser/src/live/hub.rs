use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::task::AbortOnDropHandle;
use warren_engine::Visit;

use super::input::Action;
use super::lease::Lease;
use crate::devtools::{DIALOG, DevTools, Event, Page, jpeg};
use crate::{Browser, BrowserError};

/// Viewers of one browser.
pub(super) const MOST_VIEWERS: usize = 16;
/// Actions that wait for the page.
const WAITING: usize = 32;
/// How often it is asked which page is in front.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long to wait after a conversation that broke off.
const REST: Duration = Duration::from_millis(300);
const MOST_MESSAGE: usize = 1000;

/// A command of the developer tools, with its parameters.
pub(super) type Told = (&'static str, Value);

/// Speaks to the page for all viewers of one browser.
pub struct Hub {
    pub(super) shown: watch::Receiver<Shown>,
    pub(super) actions: mpsc::Sender<Action>,
    pub(super) lease: Lease,
    pub(super) places: Arc<Semaphore>,
    viewers: AtomicU64,
    _work: AbortOnDropHandle<()>,
}

/// The state that viewers see.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    pub(super) page: ShownPage,
    pub(super) dialog: Option<Dialog>,
    pub(super) frame: Option<ShownFrame>,
}

#[derive(Debug, Clone)]
pub(super) struct ShownFrame {
    pub(super) number: u64,
    pub(super) entry: u64,
    pub(super) jpeg: Bytes,
}

/// The page in front.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownPage {
    pub url: String,
    pub title: String,
    pub state: PageState,
}

/// How the page is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PageState {
    /// Nothing of it was seen yet.
    #[default]
    Waiting,
    Live,
    Crashed,
    /// The browser does not answer, and why.
    Away(String),
}

/// A question of the page, which waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialog {
    pub kind: String,
    pub message: String,
}

impl Hub {
    pub(super) fn begin(browser: &Browser) -> Self {
        let (shown, seen) = watch::channel(Shown::default());
        let (actions, asked) = mpsc::channel(WAITING);
        let work = Work { browser: browser.clone(), shown, frames: 0 };
        Self {
            shown: seen,
            actions,
            lease: Lease::new(),
            places: Arc::new(Semaphore::new(MOST_VIEWERS)),
            viewers: AtomicU64::new(0),
            _work: AbortOnDropHandle::new(tokio::spawn(work.go_on(asked))),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.viewers.fetch_add(1, Ordering::Relaxed)
    }
}

struct Work {
    browser: Browser,
    shown: watch::Sender<Shown>,
    frames: u64,
}

/// Why a conversation with a page is over.
enum Over {
    /// Another page is in front.
    Page,
}

impl Work {
    async fn go_on(mut self, mut asked: mpsc::Receiver<Action>) {
        loop {
            match self.converse(&mut asked).await {
                Ok(Over::Page) => {}
                Err(error) => {
                    let why = match &error {
                        BrowserError::Engine(error) => warren_core::error_chain(error),
                        error => error.to_string(),
                    };
                    self.shown.send_modify(|shown| {
                        shown.page.state = PageState::Away(why);
                        shown.dialog = None;
                    });
                    sleep(REST).await;
                }
            }
        }
    }

    async fn converse(&mut self, asked: &mut mpsc::Receiver<Action>) -> Result<Over, BrowserError> {
        self.browser.ensure().await?;
        let visit = self.browser.sandbox().visit().await?;
        let page = self.browser.front_page(&visit).await?;
        let mut tools = self.browser.open_page(&visit, &page).await?;
        for domain in ["Page.enable", "Inspector.enable"] {
            tools.tell(domain, json!({})).await?;
        }
        // Keys are for a page that has the focus, as it has before a person.
        tools.tell("Emulation.setFocusEmulationEnabled", json!({ "enabled": true })).await?;
        let cast = json!({ "format": "jpeg", "quality": 60, "maxWidth": 1280, "maxHeight": 720 });
        tools.tell("Page.startScreencast", cast).await?;
        self.show_page(&page, true);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = tools.event() => {
                    if self.see(event?, &mut tools).await? {
                        return Ok(Over::Page);
                    }
                }
                action = asked.recv() => if let Some(action) = action {
                    act(&action, &mut tools).await?;
                },
                _ = looks.tick() => {
                    if self.has_changed(&visit, &page).await? {
                        return Ok(Over::Page);
                    }
                }
            }
        }
    }

    /// True if another page is in front than this one, whose address and title are shown anew.
    async fn has_changed(&self, visit: &Visit, page: &Page) -> Result<bool, BrowserError> {
        let now = self.browser.front_page(visit).await?;
        if now.id != page.id {
            return Ok(true);
        }
        self.show_page(&now, false);
        Ok(false)
    }

    fn show_page(&self, page: &Page, begins: bool) {
        self.shown.send_if_modified(|shown| {
            let state = if begins { PageState::Live } else { shown.page.state.clone() };
            let now = ShownPage { url: page.url.clone(), title: page.title.clone(), state };
            let differs = shown.page != now;
            shown.page = now;
            differs
        });
    }

    /// Takes note of an event. True if the conversation has to begin anew.
    async fn see(&mut self, event: Event, tools: &mut DevTools) -> Result<bool, BrowserError> {
        match event.method.as_str() {
            "Page.screencastFrame" => self.frame(&event.params, tools).await?,
            DIALOG => {
                let word = |name: &str| {
                    let text = event.params[name].as_str().unwrap_or_default();
                    text.chars().filter(|char| !char.is_control()).take(MOST_MESSAGE).collect()
                };
                let dialog = Dialog { kind: word("type"), message: word("message") };
                self.shown.send_modify(|shown| shown.dialog = Some(dialog));
            }
            "Page.javascriptDialogClosed" => self.shown.send_modify(|shown| shown.dialog = None),
            "Inspector.targetCrashed" => {
                self.shown.send_modify(|shown| shown.page.state = PageState::Crashed);
            }
            "Inspector.targetReloadedAfterCrash" => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    async fn frame(&mut self, params: &Value, tools: &mut DevTools) -> Result<(), BrowserError> {
        tools.tell("Page.screencastFrameAck", json!({ "sessionId": params["sessionId"] })).await?;
        let Some(jpeg) = jpeg(&params["data"]) else { return Ok(()) };
        self.frames += 1;
        let frame = ShownFrame { number: self.frames, entry: self.browser.last_entry(), jpeg };
        self.shown.send_modify(|shown| shown.frame = Some(frame));
        Ok(())
    }
}

/// Does not wait long for answers: a click may open a dialog, and is answered when that is closed.
async fn act(action: &Action, tools: &mut DevTools) -> Result<(), BrowserError> {
    if *action == Action::Back {
        let history = tools.command("Page.getNavigationHistory", json!({})).await?;
        let at = history["currentIndex"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
        let entry = at.checked_sub(1).and_then(|at| history["entries"].get(at)?["id"].as_u64());
        if let Some(entry) = entry {
            tools.tell("Page.navigateToHistoryEntry", json!({ "entryId": entry })).await?;
        }
        return Ok(());
    }
    // Viewers were told if it cannot be done.
    for (method, params) in action.commands().unwrap_or_default() {
        tools.nudge(method, params).await?;
    }
    Ok(())
}
