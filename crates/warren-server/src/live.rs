//! A sandbox's browser at the other end of a WebSocket: frames one way, actions the other.
//!
//! A key that may read may look on. Actions need the scope to use, and the controls. A browser that
//! is not there is started for callers who may use it, and waited for by the others.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, timeout};
use warren_browser::Browser;
use warren_browser::live::{Refusal, Seen, Viewer};
use warren_core::Scope;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_wire::api::{BrowserAction, BrowserNotice, BrowserRefused};

use crate::convert;
use crate::stream::{Ending, MOST_SILENCE, MOST_STALL, PING_EVERY};

/// Bytes of one message of a client.
pub(crate) const MOST_MESSAGE: usize = 32 << 10;

/// How often it is seen to that the browser is there.
const START_EVERY: Duration = Duration::from_secs(2);

/// One client and the browser it looks at.
#[derive(Debug)]
pub(crate) struct LiveView {
    pub(crate) caller: Caller,
    pub(crate) browser: Browser,
}

impl LiveView {
    /// Goes on until somebody ends it.
    pub(crate) async fn hold(self, mut socket: WebSocket) {
        let ending = tokio::select! {
            biased;
            cut = self.caller.until_cut() => Ending::from(cut),
            ending = self.talk(&mut socket) => ending,
            ending = self.keep_going() => ending,
        };
        ending.say(socket).await;
    }

    /// Starts the browser whenever it is not there.
    async fn keep_going(&self) -> Ending {
        let may = self.caller.require(Scope::Use).is_ok();
        let mut looks = interval(START_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if may && let Err(error) = self.browser.ensure().await {
                let error = ApiError::from(error);
                // Nothing mends a sandbox without a browser.
                if error.code() == Code::Unsupported {
                    return Ending::Failed(error);
                }
            }
        }
    }

    async fn talk(&self, socket: &mut WebSocket) -> Ending {
        let mut viewer = match self.browser.watch().await {
            Ok(viewer) => viewer,
            Err(error) => return Ending::Failed(error.into()),
        };
        let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        let mut heard = Instant::now();
        loop {
            let message = tokio::select! {
                seen = viewer.next() => shown(seen),
                message = socket.recv() => {
                    heard = Instant::now();
                    match self.hear(message, &mut viewer).await {
                        Ok(Some(notice)) => text(&notice),
                        Ok(None) => continue,
                        Err(ending) => return ending,
                    }
                }
                _ = pings.tick() => {
                    if heard.elapsed() > MOST_SILENCE {
                        return Ending::Silent;
                    }
                    Message::Ping(Bytes::new())
                }
            };
            match timeout(MOST_STALL, socket.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Ending::Left,
            }
        }
    }

    /// Does what a message asks. The answer says why it was not done.
    async fn hear(
        &self,
        message: Option<Result<Message, axum::Error>>,
        viewer: &mut Viewer,
    ) -> Result<Option<BrowserNotice>, Ending> {
        let asked = match message {
            Some(Ok(Message::Text(asked))) => asked,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(None),
            Some(Ok(Message::Binary(_))) => return Err(Ending::misunderstood("messages are text")),
            Some(Ok(Message::Close(_))) | None => return Err(Ending::Left),
            Some(Err(error)) => return Err(Ending::broken(error)),
        };
        let action = serde_json::from_str(&asked)
            .map_err(|error| Ending::misunderstood(format!("a message cannot be used: {error}")))?;
        self.act(action, viewer).await
    }

    async fn act(&self, action: BrowserAction, viewer: &mut Viewer) -> Result<Option<BrowserNotice>, Ending> {
        if let Err(error) = self.caller.require(Scope::Use) {
            return Ok(Some(refused(error.problem().detail)));
        }
        let action = match convert::browser_action(action) {
            convert::Control::Take => {
                let taken = viewer.take().await.map_err(|error| Ending::Failed(error.into()))?;
                return Ok((!taken).then(|| refused("somebody else has the controls")));
            }
            convert::Control::Release => {
                viewer.release();
                return Ok(None);
            }
            convert::Control::Act(action) => action,
        };
        Ok(match viewer.act(action) {
            Ok(()) => None,
            Err(Refusal::NoControl) => Some(refused("`take` the controls first")),
            Err(Refusal::Busy) => Some(refused("the page does not keep up: wait a little")),
            Err(Refusal::Wrong(reason)) => Some(refused(reason)),
        })
    }
}

fn refused(reason: impl Into<String>) -> BrowserNotice {
    BrowserNotice::Refused(BrowserRefused { reason: reason.into() })
}

fn shown(seen: Seen) -> Message {
    match convert::browser_seen(seen) {
        Ok(notice) => text(&notice),
        Err((entry, jpeg)) => {
            let mut message = BytesMut::with_capacity(8 + jpeg.len());
            message.put_u64(entry);
            message.extend_from_slice(&jpeg);
            Message::Binary(message.freeze())
        }
    }
}

fn text(notice: &BrowserNotice) -> Message {
    Message::Text(serde_json::to_string(notice).unwrap_or_default().into())
}
