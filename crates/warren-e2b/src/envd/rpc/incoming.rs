use std::marker::PhantomData;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::{MOST_MESSAGE, RpcError};
use crate::rpc::{Code, Codec, Envelopes, Message};

/// How long a client that streams may say nothing. Clients send something now and then to show that
/// they live.
pub(super) const LONGEST_SILENCE: Duration = Duration::from_secs(600);

/// The messages of a request, read as they arrive.
pub(crate) struct Incoming<Q> {
    codec: Codec,
    body: Body,
    envelopes: Envelopes,
    patience: Duration,
    messages: PhantomData<fn() -> Q>,
}

impl<Q: Message> Incoming<Q> {
    /// `patience` is how long nothing may arrive.
    pub(super) fn new(codec: Codec, body: Body, patience: Duration) -> Self {
        Self { codec, body, envelopes: Envelopes::new(MOST_MESSAGE), patience, messages: PhantomData }
    }

    /// The next message; none after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Q>, RpcError> {
        loop {
            if let Some(envelope) = self.envelopes.next_envelope()? {
                if envelope.end {
                    return Err(RpcError::invalid(
                        "a request has no end-of-stream message: its end is enough",
                    ));
                }
                return Ok(Some(self.codec.decode(envelope.payload)?));
            }
            let Some(bytes) = self.more().await? else {
                self.envelopes.finish()?;
                return Ok(None);
            };
            self.envelopes.push(&bytes);
        }
    }

    /// The message of a request that has one.
    pub(super) async fn only(&mut self) -> Result<Q, RpcError> {
        let first = self.next().await?;
        let first = first.ok_or_else(|| RpcError::invalid("the request has no message"))?;
        match self.next().await? {
            None => Ok(first),
            Some(_) => Err(RpcError::invalid("the request has more than one message")),
        }
    }

    async fn more(&mut self) -> Result<Option<Bytes>, RpcError> {
        loop {
            let frame = tokio::time::timeout(self.patience, self.body.frame()).await;
            match frame.map_err(|_| too_slow())? {
                None => return Ok(None),
                Some(Err(_)) => return Err(broken_off()),
                Some(Ok(frame)) => {
                    // Trailers say nothing here.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// The one message of a plain call.
pub(super) async fn whole(body: Body, patience: Duration) -> Result<Bytes, RpcError> {
    let collected = tokio::time::timeout(patience, Limited::new(body, MOST_MESSAGE).collect()).await;
    match collected.map_err(|_| too_slow())? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("a message may have up to {MOST_MESSAGE} bytes");
            Err(RpcError::new(Code::ResourceExhausted, message))
        }
        Err(_) => Err(broken_off()),
    }
}

fn too_slow() -> RpcError {
    RpcError::new(Code::DeadlineExceeded, "the request came too slowly")
}

fn broken_off() -> RpcError {
    RpcError::new(Code::Canceled, "the request broke off")
}

#[cfg(test)]
mod tests {
    use crate::process::ListRequest;

    use super::*;

    async fn messages(bytes: &'static [u8]) -> Result<usize, Code> {
        let mut incoming = Incoming::<ListRequest>::new(Codec::Json, Body::from(bytes), LONGEST_SILENCE);
        let mut count = 0;
        loop {
            match incoming.next().await {
                Ok(Some(_)) => count += 1,
                Ok(None) => return Ok(count),
                Err(error) => return Err(error.into_body().code),
            }
        }
    }

    #[tokio::test]
    async fn requests_are_read_to_their_end_or_refused() {
        assert_eq!(messages(b"").await, Ok(0));
        assert_eq!(messages(b"\0\0\0\0\x02{}\0\0\0\0\x02{}").await, Ok(2));
        assert_eq!(messages(b"\0\0\0\0\x02{").await, Err(Code::InvalidArgument));
        assert_eq!(messages(b"\0\0\0\0\x02{]").await, Err(Code::InvalidArgument));
        assert_eq!(messages(b"\0\0\0\0\0").await, Err(Code::InvalidArgument));
        assert_eq!(messages(b"\x01\0\0\0\x02{}").await, Err(Code::Unimplemented));
        assert_eq!(messages(b"\x02\0\0\0\x02{}").await, Err(Code::InvalidArgument));
        assert_eq!(messages(b"\0\xff\0\0\0").await, Err(Code::ResourceExhausted));
    }

    #[tokio::test]
    async fn a_plain_message_has_a_most() {
        let body = Body::from(vec![b' '; MOST_MESSAGE + 1]);
        let error = whole(body, LONGEST_SILENCE).await.unwrap_err();
        assert_eq!(error.into_body().code, Code::ResourceExhausted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_is_not_waited_for() {
        let silent = || Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let error = whole(silent(), Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.into_body().code, Code::DeadlineExceeded);
        let mut incoming = Incoming::<ListRequest>::new(Codec::Json, silent(), Duration::from_secs(1));
        assert_eq!(incoming.next().await.unwrap_err().into_body().code, Code::DeadlineExceeded);
    }
}
