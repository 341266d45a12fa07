use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use tungstenite::Error as SocketError;
use warren_face::auth::Cut;
use warren_face::error::{ApiError, Code};
use warren_wire::api::{StreamError, StreamNotice};

/// Time for the last words, and for the client to say good-bye.
const FAREWELL: Duration = Duration::from_millis(1500);

/// A reason in a close frame may have 123 bytes.
const LONGEST_REASON: usize = 120;

/// Why a conversation ends.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The client has gone, or takes nothing.
    Left,
    /// The client did not answer pings.
    Silent,
    /// The process ended, which is told last.
    Exited(StreamNotice),
    /// The request cannot be done, or no longer.
    Failed(ApiError),
    /// The client does not keep to the protocol: the code to close with, and why.
    Violated(u16, String),
    /// The caller must go.
    Cut(Cut),
}

impl From<Cut> for Ending {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

impl Ending {
    /// A message that was whole, but not one of ours.
    pub(crate) fn misunderstood(detail: impl Into<String>) -> Self {
        Self::Failed(ApiError::new(Code::InvalidRequest, detail))
    }

    /// Messages could no longer be read.
    pub(crate) fn broken(error: axum::Error) -> Self {
        let inner = error.into_inner();
        match inner.downcast_ref::<SocketError>() {
            Some(SocketError::Capacity(_)) => {
                Self::Violated(close_code::SIZE, "the message is too large".into())
            }
            Some(SocketError::Utf8(_)) => Self::Violated(close_code::INVALID, "the text is not UTF-8".into()),
            Some(SocketError::Protocol(error)) => Self::Violated(close_code::PROTOCOL, error.to_string()),
            _ => Self::Left,
        }
    }

    /// As [`Self::broken`], before there is a process: the first message holds its command.
    pub(super) fn broken_at_first(error: axum::Error) -> Self {
        match Self::broken(error) {
            Self::Violated(close_code::SIZE, detail) => {
                Self::Failed(ApiError::new(Code::CommandTooLarge, detail))
            }
            ending => ending,
        }
    }

    /// Says the last words and closes. Then what the client has sent meanwhile is read and dropped:
    /// a connection that is closed with bytes unread takes back what was said.
    pub(crate) async fn say(self, mut socket: WebSocket) {
        let Some((notice, code, reason)) = self.last_words() else { return };
        let words = async {
            if let Some(notice) = notice {
                let text = serde_json::to_string(&notice).unwrap_or_default();
                socket.send(Message::Text(text.into())).await?;
            }
            let reason = shorten(&reason).into();
            socket.send(Message::Close(Some(CloseFrame { code, reason }))).await?;
            while let Some(Ok(_)) = socket.recv().await {}
            Ok::<_, axum::Error>(())
        };
        // A client that does not listen now is not waited for.
        if let Ok(Err(error)) = tokio::time::timeout(FAREWELL, words).await {
            tracing::debug!(%error, "the client left before the last words");
        }
    }

    fn last_words(self) -> Option<(Option<StreamNotice>, u16, String)> {
        match self {
            Self::Left => None,
            Self::Silent => Some((None, close_code::POLICY, "pings were not answered".into())),
            Self::Exited(notice) => Some((Some(notice), close_code::NORMAL, "the process ended".into())),
            Self::Failed(error) => {
                let of_server = error.status().is_server_error();
                let (notice, reason) = told(&error);
                Some((Some(notice), if of_server { close_code::ERROR } else { close_code::POLICY }, reason))
            }
            Self::Violated(code, reason) => Some((None, code, reason)),
            Self::Cut(Cut::Revoked) => Some((None, close_code::POLICY, "the key was revoked".into())),
            Self::Cut(Cut::Shutdown) => Some((None, close_code::AWAY, "the server is shutting down".into())),
        }
    }
}

fn told(error: &ApiError) -> (StreamNotice, String) {
    error.log();
    let problem = error.problem();
    (StreamNotice::Error(StreamError { code: problem.code.clone(), detail: problem.detail }), problem.code)
}

fn shorten(reason: &str) -> String {
    let end = (0..=LONGEST_REASON.min(reason.len())).rev().find(|at| reason.is_char_boundary(*at));
    reason[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_fits_a_close_frame() {
        let reason = shorten(&"ä".repeat(200));
        assert!(reason.len() <= 123 && reason.chars().all(|character| character == 'ä'));
        assert_eq!(shorten("short"), "short");
    }
}
