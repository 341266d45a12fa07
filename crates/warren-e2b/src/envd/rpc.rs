//! Calls and streams as clients make them: takes requests apart, and puts answers together. It
//! knows nothing of what is called.
//!
//! A plain call has one message each way, and fails with a status. A stream is always answered with
//! 200 and says at its end how it went; it is pulled by the connection, so that a slow reader makes
//! its source wait and nothing piles up. When a sandbox ends under a stream, the connection is
//! broken off: of all that could be said, only that is understood by every client.

mod body;
mod error;
mod incoming;

use std::future::Future;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use bytes::BytesMut;
use futures_util::Stream;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::Instant;

use super::Visitor;
use super::refusal::Refusal;
use crate::rpc::{Code, Codec, Form, Message, write_end, write_envelope};
use crate::{filesystem, process};
use body::StreamBody;

pub(crate) use error::RpcError;
pub(crate) use incoming::Incoming;

/// Bytes of one message.
const MOST_MESSAGE: usize = 16 << 20;

/// How often a stream says that it lives where its client does not say how often.
const USUAL_PULSE: Duration = Duration::from_secs(90);

/// Longer ones have no effect, and would overflow the clock.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

const TIMEOUT: HeaderName = HeaderName::from_static("connect-timeout-ms");
const VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");
const STREAM_ENCODING: HeaderName = HeaderName::from_static("connect-content-encoding");
const PULSE: HeaderName = HeaderName::from_static("keepalive-ping-interval");

/// The message that keeps an idle stream open.
pub(crate) trait Idle {
    fn idle() -> Self;
}

impl Idle for process::StartResponse {
    fn idle() -> Self {
        let event = Some(process::Event::Keepalive(process::KeepAlive {}));
        Self { event: Some(process::ProcessEvent { event }) }
    }
}

impl Idle for filesystem::WatchDirResponse {
    fn idle() -> Self {
        Self { event: Some(filesystem::WatchEvent::Keepalive(filesystem::KeepAlive {})) }
    }
}

/// The terms of a call, from the request's head.
struct Terms {
    codec: Codec,
    timeout: Option<Duration>,
}

impl Terms {
    fn of(headers: &HeaderMap, form: Form) -> Result<Self, Box<Response>> {
        let content_type = text(headers, &CONTENT_TYPE).unwrap_or_default();
        let Some((codec, _)) = Codec::of(content_type).filter(|(_, known)| *known == form) else {
            return Err(Box::new(unsupported(form)));
        };
        let terms = Self { codec, timeout: timeout_of(headers) };
        match terms.complaint(headers, form) {
            None => Ok(terms),
            Some(error) => Err(Box::new(terms.refused(form, error))),
        }
    }

    fn complaint(&self, headers: &HeaderMap, form: Form) -> Option<RpcError> {
        let encoding = match form {
            Form::Plain => &CONTENT_ENCODING,
            Form::Stream => &STREAM_ENCODING,
        };
        if text(headers, encoding).is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
            return Some(RpcError::new(
                Code::Unimplemented,
                "compressed messages are not understood: send them as they are",
            ));
        }
        if text(headers, &VERSION).is_some_and(|version| version != "1") {
            return Some(RpcError::new(
                Code::InvalidArgument,
                "Connect-Protocol-Version: only version 1 is spoken",
            ));
        }
        if headers.contains_key(&TIMEOUT) && milliseconds(headers).is_none() {
            return Some(RpcError::new(
                Code::InvalidArgument,
                "Connect-Timeout-Ms: a whole number of milliseconds is expected",
            ));
        }
        None
    }

    fn refused(&self, form: Form, error: RpcError) -> Response {
        match form {
            Form::Plain => error.plain_answer(),
            Form::Stream => self.ended(error),
        }
    }

    /// A stream that ends before it began.
    fn ended(&self, error: RpcError) -> Response {
        let mut bytes = BytesMut::new();
        write_end(Some(&error.into_body()), &mut bytes);
        self.answer(Form::Stream, Body::from(bytes.freeze()))
    }

    fn answer(&self, form: Form, body: Body) -> Response {
        let content_type = HeaderValue::from_static(self.codec.content_type(form));
        ([(CONTENT_TYPE, content_type)], body).into_response()
    }
}

/// One message each way.
pub(crate) async fn unary<Q, A, F>(
    visitor: &Visitor,
    request: Request,
    serve: impl FnOnce(Q) -> F,
) -> Response
where
    Q: Message,
    A: Message,
    F: Future<Output = Result<A, RpcError>>,
{
    let terms = match Terms::of(request.headers(), Form::Plain) {
        Ok(terms) => terms,
        Err(response) => return *response,
    };
    let http = &visitor.state.config.http;
    let patience = terms.timeout.map_or(http.request_timeout, |timeout| timeout.min(http.request_timeout));
    let served = async {
        let bytes = incoming::whole(request.into_body(), http.read_timeout).await?;
        serve(terms.codec.decode(bytes)?).await
    };
    let outcome = tokio::time::timeout(patience, served).await.unwrap_or_else(|_| Err(RpcError::late()));
    match outcome {
        Ok(message) => {
            let mut bytes = BytesMut::new();
            terms.codec.encode(&message, &mut bytes);
            terms.answer(Form::Plain, Body::from(bytes.freeze()))
        }
        Err(RpcError::Gone) => Refusal::NoSandbox.told(visitor.sandbox.id()),
        Err(error) => error.plain_answer(),
    }
}

/// One message there, and a row of them back. It lasts as long as its client says.
pub(crate) async fn server_stream<Q, A, F, S>(
    visitor: &Visitor,
    request: Request,
    begin: impl FnOnce(Q) -> F,
) -> Response
where
    Q: Message,
    A: Message + Idle + 'static,
    F: Future<Output = Result<S, RpcError>>,
    S: Stream<Item = Result<A, RpcError>> + Send + 'static,
{
    server_stream_until(visitor, request, Duration::ZERO, begin).await
}

/// As [`server_stream`], where the source ends by itself in its client's time, and is given so much
/// more for it.
pub(crate) async fn server_stream_until<Q, A, F, S>(
    visitor: &Visitor,
    request: Request,
    grace: Duration,
    begin: impl FnOnce(Q) -> F,
) -> Response
where
    Q: Message,
    A: Message + Idle + 'static,
    F: Future<Output = Result<S, RpcError>>,
    S: Stream<Item = Result<A, RpcError>> + Send + 'static,
{
    let terms = match Terms::of(request.headers(), Form::Stream) {
        Ok(terms) => terms,
        Err(response) => return *response,
    };
    let deadline = terms.timeout.map(|timeout| Instant::now() + timeout + grace);
    let pulse = pulse_of(request.headers());
    let begun = async {
        let mut incoming =
            Incoming::new(terms.codec, request.into_body(), visitor.state.config.http.read_timeout);
        begin(incoming.only().await?).await
    };
    match begun.await {
        Ok(messages) => {
            let body = StreamBody::new(terms.codec, messages, pulse, deadline, &visitor.state.shutdown);
            terms.answer(Form::Stream, Body::new(body))
        }
        Err(RpcError::Gone) => Refusal::NoSandbox.told(visitor.sandbox.id()),
        Err(error) => terms.ended(error),
    }
}

/// A row of messages there, and one back.
pub(crate) async fn client_stream<Q, A, F>(
    visitor: &Visitor,
    request: Request,
    serve: impl FnOnce(Incoming<Q>) -> F,
) -> Response
where
    Q: Message,
    A: Message,
    F: Future<Output = Result<A, RpcError>>,
{
    let terms = match Terms::of(request.headers(), Form::Stream) {
        Ok(terms) => terms,
        Err(response) => return *response,
    };
    let incoming = Incoming::new(terms.codec, request.into_body(), incoming::LONGEST_SILENCE);
    let served = tokio::time::timeout(terms.timeout.unwrap_or(LONGEST_TIMEOUT), serve(incoming));
    let outcome = tokio::select! {
        biased;
        () = visitor.state.shutdown.cancelled() => Err(RpcError::shutting_down()),
        outcome = served => outcome.unwrap_or_else(|_| Err(RpcError::late())),
    };
    match outcome {
        Ok(message) => {
            let mut bytes = BytesMut::new();
            write_envelope(terms.codec, &message, &mut bytes);
            write_end(None, &mut bytes);
            terms.answer(Form::Stream, Body::from(bytes.freeze()))
        }
        Err(RpcError::Gone) => Refusal::NoSandbox.told(visitor.sandbox.id()),
        Err(error) => terms.ended(error),
    }
}

/// How long a call may take, if its client says so. 0 says nothing.
pub(crate) fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let milliseconds = milliseconds(headers).filter(|milliseconds| *milliseconds > 0)?;
    Some(Duration::from_millis(milliseconds).min(LONGEST_TIMEOUT))
}

fn milliseconds(headers: &HeaderMap) -> Option<u64> {
    text(headers, &TIMEOUT)?.parse().ok()
}

fn pulse_of(headers: &HeaderMap) -> Duration {
    let seconds = text(headers, &PULSE).and_then(|text| text.parse().ok()).filter(|seconds| *seconds > 0);
    seconds.map_or(USUAL_PULSE, |seconds| Duration::from_secs(seconds).min(LONGEST_TIMEOUT))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Says which content types would have been understood.
fn unsupported(form: Form) -> Response {
    let known = [Codec::Json, Codec::Binary].map(|codec| codec.content_type(form)).join(", ");
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, [("accept-post", known)]).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(value))])
    }

    #[test]
    fn a_timeout_of_nothing_is_none() {
        assert_eq!(timeout_of(&HeaderMap::new()), None);
        assert_eq!(timeout_of(&headers(&TIMEOUT, "0")), None);
        assert_eq!(timeout_of(&headers(&TIMEOUT, "1500")), Some(Duration::from_millis(1500)));
        assert_eq!(timeout_of(&headers(&TIMEOUT, "18446744073709551615")), Some(LONGEST_TIMEOUT));
    }

    #[test]
    fn a_pulse_that_makes_no_sense_is_the_usual_one() {
        for text in ["", "x", "0", "-1", "1.5"] {
            assert_eq!(pulse_of(&headers(&PULSE, text)), USUAL_PULSE, "{text}");
        }
        assert_eq!(pulse_of(&headers(&PULSE, "50")), Duration::from_secs(50));
        assert_eq!(pulse_of(&headers(&PULSE, "18446744073709551615")), LONGEST_TIMEOUT);
    }

    #[test]
    fn calls_on_other_terms_are_refused() {
        let status = |extra: HeaderMap, form| {
            let mut all = headers(&CONTENT_TYPE, Codec::Json.content_type(form));
            all.extend(extra);
            Terms::of(&all, form).err().map(|response| response.status().as_u16())
        };
        assert_eq!(status(HeaderMap::new(), Form::Plain), None);
        assert_eq!(status(headers(&CONTENT_ENCODING, "identity"), Form::Plain), None);
        assert_eq!(status(headers(&CONTENT_ENCODING, "gzip"), Form::Plain), Some(501));
        assert_eq!(status(headers(&VERSION, "1"), Form::Plain), None);
        assert_eq!(status(headers(&VERSION, "2"), Form::Plain), Some(400));
        assert_eq!(status(headers(&TIMEOUT, "soon"), Form::Plain), Some(400));
        assert_eq!(status(headers(&TIMEOUT, "soon"), Form::Stream), Some(200));
        let plain = headers(&CONTENT_TYPE, "application/json");
        assert_eq!(
            Terms::of(&plain, Form::Stream).err().map(|response| response.status().as_u16()),
            Some(415)
        );
        assert!(Terms::of(&HeaderMap::new(), Form::Plain).is_err());
    }
}
