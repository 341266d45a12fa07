//! Requests over HTTP/1, on their way through the egress proxy to a server that may read them
//! differently.
//!
//! An input is a byte that says how the stream is torn, and what a client sends. It is read by
//! hyper as the proxy has it, judged and passed on by our own code, and what would reach the server
//! is read by a strict reader of its own: each request that went in is one request there, for the
//! very host that was judged, with nothing behind it.

#![no_main]

#[path = "heads/scanned.rs"]
mod scanned;

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use libfuzzer_sys::fuzz_target;
use warren_core::network::Host;
use warren_network::fuzzing::{Sniffed, addressee, pass_on, peek, sniff};

const MOST_HEAD: usize = 64 << 10;
const ANSWER: &[u8] = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";

fuzz_target!(|data: &[u8]| {
    let [tear, data @ ..] = data else { return };
    scanned::scanned(data, usize::from(*tear) + 1);
    heard(data);
    served(data, usize::from(*tear) + 1);
});

/// Bytes that any server may read as a request are never taken for something else, and the request
/// is known by its host.
fn heard(data: &[u8]) {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(_)) = request.parse(data) else { return };
    let said = sniff(data);
    assert!(matches!(said, Sniffed::Http1 | Sniffed::Http2), "{said:?}");
    let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let first = hosts.next().and_then(|header| str::from_utf8(header.value).ok());
    if said == Sniffed::Http1 {
        assert_eq!(peek(data), first.and_then(host_of));
    }
}

/// `host` or `host:port`, as [`addressee`] has it.
fn host_of(text: &str) -> Option<Host> {
    let parts =
        Request::builder().version(Version::HTTP_11).header("host", text).body(()).ok()?.into_parts().0;
    addressee(&parts)?.0
}

/// Serves a client to its end.
fn served(data: &[u8], tear: usize) {
    let client = Client { unread: data, tear, written: 0 };
    let service = service_fn(|request| async move { Ok::<_, Infallible>(forwarded(request).await) });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.max_buf_size(MOST_HEAD).preserve_header_case(true).auto_date_header(false);
    run(builder.serve_connection(client, service));
}

/// Judges a request and sends it on.
async fn forwarded(request: Request<Incoming>) -> Response<Empty<Bytes>> {
    let mut refused = Response::new(Empty::new());
    *refused.status_mut() = StatusCode::FORBIDDEN;
    let (mut parts, body) = request.into_parts();
    let Some((judged, port)) = addressee(&parts) else { return refused };
    let was_named = parts.version != Version::HTTP_10 || judged.is_some();
    pass_on(&mut parts.headers);
    parts.version = Version::HTTP_11;
    let sent = Rc::new(RefCell::new(Vec::new()));
    let server = Server { sent: Rc::clone(&sent), answered: 0, is_chunked: false, reader: None };
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(MOST_HEAD).preserve_header_case(true);
    let Ok((mut sender, connection)) = builder.handshake(server).await else { return refused };
    let (mut connection, mut sending) =
        (Box::pin(connection), Box::pin(sender.send_request(Request::from_parts(parts, body))));
    std::future::poll_fn(|context| {
        let is_over = connection.as_mut().poll(context).is_ready();
        match sending.as_mut().poll(context) {
            Poll::Pending if !is_over => Poll::Pending,
            _ => Poll::Ready(()),
        }
    })
    .await;
    let sent = sent.borrow();
    if let Some(arrived) = Arrived::read(&sent) {
        assert!(arrived.rest == 0, "{} bytes follow the request", arrived.rest);
        if was_named {
            assert_eq!((arrived.host, arrived.port), (judged, port), "{}", sent.escape_ascii());
        }
    }
    refused
}

/// A request as a strict server reads it.
struct Arrived {
    host: Option<Host>,
    port: Option<u16>,
    is_whole: bool,
    is_chunked: bool,
    /// Bytes behind its end.
    rest: usize,
}

impl Arrived {
    /// None while the head is not there.
    fn read(sent: &[u8]) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; 256];
        let mut request = httparse::Request::new(&mut headers);
        let head = match request.parse(sent).expect("what goes out can be read") {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial => return None,
        };
        assert!(!sent[..head].windows(2).any(|pair| pair[1] == b'\n' && pair[0] != b'\r'), "a bare LF");
        let values = |wanted: &str| {
            let own = request.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(wanted));
            own.map(|header| header.value).collect::<Vec<_>>()
        };
        let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
        assert!(lengths.len() + codings.len() <= 1, "two ways to find the end");
        let body = &sent[head..];
        let end = match (lengths.first(), codings.first()) {
            (Some(length), _) => Some(decimal(length).expect("a length is a number")),
            (_, Some(coding)) => {
                assert!(coding.eq_ignore_ascii_case(b"chunked"), "{}", coding.escape_ascii());
                chunked(body)
            }
            (None, None) => Some(0),
        };
        let hosts = values("host");
        assert!(hosts.len() <= 1, "{} hosts", hosts.len());
        let mut builder =
            Request::builder().version(Version::HTTP_11).method(request.method?).uri(request.path?);
        for host in hosts {
            builder = builder.header("host", host);
        }
        let named = builder.body(()).ok().and_then(|request| addressee(&request.into_parts().0));
        let (host, port) = named.unwrap_or_default();
        let is_whole = end.is_some_and(|end| end <= body.len());
        let is_chunked = !codings.is_empty();
        Some(Self {
            host,
            port,
            is_whole,
            is_chunked,
            rest: body.len().saturating_sub(end.unwrap_or(body.len())),
        })
    }
}

fn decimal(digits: &[u8]) -> Option<usize> {
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok()?.parse().ok().filter(|_| is_plain)
}

/// Where a body of chunks ends; none while it has not.
fn chunked(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = body[at..].windows(2).position(|pair| pair == b"\r\n")?;
        let digits = str::from_utf8(&body[at..at + line]).expect("a size is text");
        let size = usize::from_str_radix(digits, 16).expect("a size and nothing else");
        at += line + 2;
        if size == 0 {
            let end = body[at..].windows(2).position(|pair| pair == b"\r\n")?;
            return (end == 0).then_some(at + 2).or_else(|| {
                let trailers = body[at..].windows(4).position(|end| end == b"\r\n\r\n")?;
                Some(at + trailers + 4)
            });
        }
        let end = at.checked_add(size)?;
        let mark = body.get(end..end + 2)?;
        assert_eq!(mark, b"\r\n", "a chunk ends where it says");
        at = end + 2;
    }
}

/// The bytes of the client, piece by piece. Answers are thrown away.
struct Client<'a> {
    unread: &'a [u8],
    tear: usize,
    written: usize,
}

impl Read for Client<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.tear.min(self.unread.len()).min(buffer.remaining());
        let (now, later) = self.unread.split_at(length);
        buffer.put_slice(now);
        self.unread = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for Client<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written += bytes.len();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Keeps what it is sent, and answers once that is a whole request.
struct Server {
    sent: Rc<RefCell<Vec<u8>>>,
    answered: usize,
    is_chunked: bool,
    reader: Option<Waker>,
}

impl Server {
    /// True if the whole request is here. Chunks are read again only when their end may have come:
    /// a body in pieces of one byte would otherwise be read as often as it has bytes.
    fn has_whole(&mut self) -> bool {
        let sent = self.sent.borrow();
        if self.is_chunked && !sent.ends_with(b"\r\n\r\n") {
            return false;
        }
        let arrived = Arrived::read(&sent);
        self.is_chunked = arrived.as_ref().is_some_and(|arrived| arrived.is_chunked);
        arrived.is_some_and(|arrived| arrived.is_whole)
    }
}

impl Read for Server {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.has_whole() {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let rest = &ANSWER[self.answered..];
        let length = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..length]);
        self.answered += length;
        Poll::Ready(Ok(()))
    }
}

impl Write for Server {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.sent.borrow_mut().extend_from_slice(bytes);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Set when there is something to do.
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs to the end. Everything is at hand, so whoever waits for nothing has misread a length.
fn run(future: impl Future) {
    let bell = Arc::new(Bell(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = Box::pin(future);
    while bell.0.swap(false, Ordering::Relaxed) {
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
    }
    panic!("a request neither ends nor goes on");
}
