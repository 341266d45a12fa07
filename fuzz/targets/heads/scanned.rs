//! The strict reader that stands before hyper: how a stream is torn changes nothing, and whatever
//! it lets through is cut into the same requests, with the same bodies, by hyper and by the
//! plainest reader there is.

use std::cell::RefCell;
use std::convert::Infallible;

use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use warren_network::heads::Scanner;

use super::{Client, MOST_HEAD, decimal, run};

/// One request: its method, its target and its body, if all of that is there.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    method: String,
    target: String,
    body: Option<Vec<u8>>,
}

pub(super) fn scanned(data: &[u8], tear: usize) {
    let Some(length) = passed(data, data.len().max(1)) else { return };
    assert_eq!(passed(data, tear), Some(length), "torn into pieces of {tear}");
    let passed = &data[..length];
    let plain = read_plainly(passed);
    for (index, theirs) in read_by_hyper(passed, tear).into_iter().enumerate() {
        let Some(ours) = plain.get(index) else { panic!("hyper alone reads {theirs:?}") };
        assert_eq!((&ours.method, &ours.target), (&theirs.method, &theirs.target));
        // What it gives up in the middle goes nowhere.
        assert!(theirs.body.is_none() || theirs.body == ours.body, "{ours:?} and {theirs:?}");
    }
}

/// How much is let through; none where it is not HTTP/1.
fn passed(data: &[u8], tear: usize) -> Option<usize> {
    let (mut scanner, mut length) = (Scanner::new(), 0);
    for piece in data.chunks(tear) {
        match scanner.feed(piece) {
            Ok(()) => length += piece.len(),
            Err(flaw) => return Some(length + flaw.at),
        }
        if scanner.is_over() {
            return None;
        }
    }
    Some(length)
}

fn read_by_hyper(data: &[u8], tear: usize) -> Vec<Message> {
    let read = RefCell::new(Vec::new());
    let service = service_fn(async |request: Request<Incoming>| {
        let (parts, body) = request.into_parts();
        let index = read.borrow().len();
        let (method, target) = (parts.method.to_string(), parts.uri.to_string());
        read.borrow_mut().push(Message { method, target, body: None });
        let body = body.collect().await.ok().map(|body| body.to_bytes().to_vec());
        read.borrow_mut()[index].body = body;
        let mut refused = Response::new(Empty::<bytes::Bytes>::new());
        *refused.status_mut() = StatusCode::FORBIDDEN;
        Ok::<_, Infallible>(refused)
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.max_buf_size(MOST_HEAD);
    run(builder.serve_connection(Client { unread: data, tear, written: 0 }, service));
    read.into_inner()
}

fn read_plainly(data: &[u8]) -> Vec<Message> {
    let (mut messages, mut rest) = (Vec::new(), data);
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(head)) = request.parse(rest) else { return messages };
        rest = &rest[head..];
        let value = |wanted: &str| {
            let mut own = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(wanted));
            let first = own.next().map(|header| header.value);
            assert!(own.next().is_none(), "{wanted} twice");
            first
        };
        let (length, coding) = (value("content-length"), value("transfer-encoding"));
        let body = match (length, coding) {
            (Some(_), Some(_)) => panic!("a length beside chunks"),
            (Some(length), None) => decimal(length.trim_ascii())
                .and_then(|length| rest.split_at_checked(length))
                .map(|(body, after)| (body.to_vec(), after)),
            (None, Some(_)) => unchunked(rest),
            (None, None) => Some((Vec::new(), rest)),
        };
        // The library writes some targets in another way than they came.
        let target = request
            .path
            .unwrap_or_default()
            .parse::<Uri>()
            .map(|target| target.to_string())
            .unwrap_or_default();
        let method = request.method.unwrap_or_default().to_owned();
        let Some((body, after)) = body else {
            messages.push(Message { method, target, body: None });
            return messages;
        };
        messages.push(Message { method, target, body: Some(body) });
        rest = after;
    }
}

fn unchunked(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let size = usize::from_str_radix(str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            break;
        }
        let (chunk, after) = rest.split_at_checked(size)?;
        body.extend_from_slice(chunk);
        rest = after.strip_prefix(b"\r\n")?;
    }
    loop {
        let line = rest.windows(2).position(|pair| pair == b"\r\n")?;
        rest = &rest[line + 2..];
        if line == 0 {
            return Some((body, rest));
        }
    }
}
