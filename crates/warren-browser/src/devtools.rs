//! Chromium's developer tools: a conversation with one page.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use warren_engine::{PortStream, Visit};

use crate::answer::media_type;
use crate::frames::MOST_FRAME;
use crate::http1::Bounds;
use crate::service::DEVTOOLS;
use crate::{Browser, BrowserError};

/// The largest message that is read: a frame is one of them.
const MOST_MESSAGE: usize = 1 << 20;
const MOST_LIST: usize = 1 << 20;
const ANSWER: Duration = Duration::from_secs(10);
/// For a picture that nobody waits for.
const PICTURE: Duration = Duration::from_secs(5);
/// How long the next thing waits for an action to be done.
const NUDGE: Duration = Duration::from_secs(1);
/// The page asks something, and does nothing until it is answered.
pub(crate) const DIALOG: &str = "Page.javascriptDialogOpening";
/// Events that wait while an answer is awaited; older ones are forgotten.
const MOST_WAITING: usize = 16;

/// A page, as the list of pages has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) title: String,
}

/// A conversation with a page.
pub(crate) struct DevTools {
    browser: Browser,
    socket: WebSocketStream<PortStream>,
    sent: u64,
    waiting: VecDeque<Event>,
}

/// Something that happened in the page.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) method: String,
    pub(crate) params: Value,
}

impl Browser {
    /// The page that is used: the tab that the last answer named, else the newest.
    pub(crate) async fn front_page(&self, visit: &Visit) -> Result<Page, BrowserError> {
        let request = Request::builder().method(Method::GET).uri("/json/list").body(Bytes::new());
        let request = request.map_err(|error| self.garbled(error))?;
        let bounds = Bounds { bytes: MOST_LIST, patience: ANSWER };
        let (_, body) = self.ask(visit, DEVTOOLS, request, bounds).await?;
        let listed: Vec<Value> = serde_json::from_slice(&body).map_err(|error| self.garbled(error))?;
        // The newest is the first.
        let mut pages: Vec<Page> = listed.iter().rev().filter_map(read_page).collect();
        let tab = self.place.tab.lock().filter(|tab| *tab < pages.len());
        match tab.or_else(|| pages.len().checked_sub(1)) {
            Some(tab) => Ok(pages.swap_remove(tab)),
            None => Err(self.garbled("there is no page")),
        }
    }

    pub(crate) async fn open_page(&self, visit: &Visit, page: &Page) -> Result<DevTools, BrowserError> {
        let stream = visit.connect_now(DEVTOOLS).await?;
        let url = format!("ws://localhost:{DEVTOOLS}/devtools/page/{}", page.id);
        let request = url.into_client_request().map_err(|error| self.garbled(error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MOST_MESSAGE))
            .max_frame_size(Some(MOST_MESSAGE));
        let opened = tokio_tungstenite::client_async_with_config(request, stream, Some(config));
        let opened = timeout(ANSWER, opened).await.map_err(|_| self.silent())?;
        let (socket, _) = opened.map_err(|error| self.garbled(error))?;
        Ok(DevTools { browser: self.clone(), socket, sent: 0, waiting: VecDeque::new() })
    }

    /// Takes a picture for an entry of the journal. Nobody waits for it, and one that cannot be
    /// taken is not missed.
    pub(crate) fn picture_later(&self, entry: u64) {
        let browser = self.clone();
        tokio::spawn(async move {
            let Ok(_turn) = timeout(PICTURE, browser.place.pictures.lock()).await else { return };
            match timeout(PICTURE, browser.picture()).await {
                Ok(Ok(jpeg)) => {
                    let now = browser.desk.clock.unix_ms();
                    browser.place.frames.lock().keep(entry, now, jpeg);
                }
                Ok(Err(error)) => tracing::debug!(sandbox.id = %browser.sandbox.id(), %error, "no picture"),
                Err(_) => tracing::debug!(sandbox.id = %browser.sandbox.id(), "a picture took too long"),
            }
        });
    }

    async fn picture(&self) -> Result<Bytes, BrowserError> {
        let visit = self.sandbox.visit().await?;
        let page = self.front_page(&visit).await?;
        let mut tools = self.open_page(&visit, &page).await?;
        let asked = json!({ "format": "jpeg", "quality": 60, "optimizeForSpeed": true });
        let taken = tools.command("Page.captureScreenshot", asked).await?;
        jpeg(&taken["data"]).ok_or_else(|| self.garbled("a picture that is none"))
    }

    pub(crate) fn silent(&self) -> BrowserError {
        BrowserError::Silent { sandbox: self.id() }
    }
}

impl DevTools {
    /// Asks for something, and waits for the answer.
    pub(crate) async fn command(&mut self, method: &str, params: Value) -> Result<Value, BrowserError> {
        let id = self.tell(method, params).await?;
        let answered = async {
            loop {
                let mut message = self.receive().await?;
                if message.get("id").and_then(Value::as_u64) != Some(id) {
                    self.keep(message);
                    continue;
                }
                if let Some(error) = message.get("error") {
                    let said = error.get("message").and_then(Value::as_str).unwrap_or_default();
                    return Err(self.browser.garbled(said.chars().take(200).collect::<String>()));
                }
                return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
            }
        };
        timeout(ANSWER, answered).await.unwrap_or_else(|_| Err(self.browser.silent()))
    }

    /// Asks for something that a page may answer late, as it does while it asks something itself:
    /// what comes next waits a little for it, so that it does not overtake it.
    pub(crate) async fn nudge(&mut self, method: &str, params: Value) -> Result<(), BrowserError> {
        let id = self.tell(method, params).await?;
        let answered = async {
            loop {
                let message = self.receive().await?;
                if message.get("id").and_then(Value::as_u64) == Some(id) {
                    return Ok(());
                }
                let asks = message.get("method").and_then(Value::as_str) == Some(DIALOG);
                self.keep(message);
                if asks {
                    return Ok(());
                }
            }
        };
        timeout(NUDGE, answered).await.unwrap_or(Ok(()))
    }

    /// Asks for something, and does not wait for the answer. Its number.
    pub(crate) async fn tell(&mut self, method: &str, params: Value) -> Result<u64, BrowserError> {
        self.sent += 1;
        let text = json!({ "id": self.sent, "method": method, "params": params }).to_string();
        let sent = timeout(ANSWER, self.socket.send(Message::text(text))).await;
        sent.map_err(|_| self.browser.silent())?.map_err(|error| self.browser.garbled(error))?;
        Ok(self.sent)
    }

    /// The next thing that happens. May be dropped at any time.
    pub(crate) async fn event(&mut self) -> Result<Event, BrowserError> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(event);
            }
            let message = self.receive().await?;
            self.keep(message);
        }
    }

    fn keep(&mut self, mut message: Value) {
        let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else { return };
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Event { method, params });
    }

    async fn receive(&mut self) -> Result<Value, BrowserError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    return serde_json::from_str(&text).map_err(|error| self.browser.garbled(error));
                }
                Some(Ok(Message::Close(_))) | None => return Err(self.browser.garbled("it hung up")),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(self.browser.garbled(error)),
            }
        }
    }
}

/// A page of the list. Its id becomes a part of an address.
fn read_page(listed: &Value) -> Option<Page> {
    let text = |name: &str, most: usize| {
        let text = listed.get(name).and_then(Value::as_str).unwrap_or_default();
        text.chars().filter(|char| !char.is_control()).take(most).collect::<String>()
    };
    let id = text("id", 64);
    let is_word = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_page = text("type", 16) == "page" && is_word;
    is_page.then(|| Page { id, url: text("url", 2048), title: text("title", 300) })
}

/// The bytes of a picture, if it is one.
pub(crate) fn jpeg(data: &Value) -> Option<Bytes> {
    let text = data.as_str().filter(|text| text.len() <= MOST_FRAME / 3 * 4 + 4)?;
    let bytes = STANDARD.decode(text).ok()?;
    (media_type(&bytes) == Some("image/jpeg")).then(|| Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_with_a_plain_id_are_spoken_to() {
        let listed =
            |kind: &str, id: &str| read_page(&json!({ "type": kind, "id": id, "url": "http://x/\u{7}" }));
        assert_eq!(listed("page", "81D1E5-a").map(|page| page.url), Some("http://x/".to_owned()));
        for (kind, id) in [("page", ""), ("page", "../../browser/x"), ("page", "a b"), ("iframe", "81D1E5")] {
            assert_eq!(listed(kind, id), None, "{kind} {id}");
        }
        assert_eq!(read_page(&json!(null)), None);
    }

    #[test]
    fn what_is_no_picture_is_none() {
        assert!(jpeg(&json!(STANDARD.encode([0xff, 0xd8, 0xff, 0xe0, 1]))).is_some());
        for none in
            [json!(null), json!(""), json!("!"), json!(STANDARD.encode("<html>")), json!("A".repeat(1 << 20))]
        {
            assert!(jpeg(&none).is_none());
        }
    }
}
