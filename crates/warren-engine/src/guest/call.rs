use std::time::Duration;

use bytes::Bytes;
use tokio::net::UnixStream;
use warren_wire::guest::{CallError, FrameKind, Reply, parse_reply};

use super::{Guest, Receiver, Sender, within};
use crate::EngineError;

/// One call to the agent, on a connection of its own. Dropping it ends the call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) guest: Guest,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

/// The next part of a call that streams.
#[derive(Debug)]
pub(crate) enum Piece {
    Reply(Reply),
    Data(Bytes),
    End,
}

impl Call {
    pub(super) fn new(guest: Guest, stream: UnixStream) -> Self {
        let (receiver, sender) = stream.into_split();
        Self { guest, sender: Sender::new(sender), receiver: Receiver::new(receiver) }
    }

    /// The next part, if it comes in time. Cancel safe.
    pub(crate) async fn next(&mut self, patience: Duration) -> Result<Piece, EngineError> {
        within(patience, self.next_at_leisure()).await
    }

    /// The next part, however long it takes. Cancel safe.
    pub(crate) async fn next_at_leisure(&mut self) -> Result<Piece, EngineError> {
        let received = self.receiver.next().await.and_then(|frame| frame.ok_or(CallError::Closed));
        let piece = received.and_then(|(kind, payload)| match kind {
            FrameKind::Message => parse_reply(&payload).map(Piece::Reply),
            FrameKind::Data => Ok(Piece::Data(payload)),
            FrameKind::End => Ok(Piece::End),
            FrameKind::Stdout | FrameKind::Stderr => {
                Err(CallError::Unexpected("a process's output where there is none"))
            }
        });
        match piece {
            Ok(piece) => Ok(piece),
            Err(error) => Err(self.guest.explain(error).await),
        }
    }

    /// Takes the answer that ends the call.
    pub(crate) async fn reply(&mut self, patience: Duration) -> Result<Reply, EngineError> {
        match self.next(patience).await? {
            Piece::Reply(reply) => Ok(reply),
            Piece::Data(_) | Piece::End => Err(self.guest.unexpected("data where a message was due")),
        }
    }
}
