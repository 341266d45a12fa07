use std::io::{self, Write as _};
use std::mem;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{TryStreamExt as _, stream};
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, RANGE, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use warren_engine::FileReader;
use warren_face::files::{Outgoing, Wanted};
use warren_face::time;
use warren_wire::guest::{ByteString, FileEntry, FileOperation};

use super::begin;
use super::coding::Coding;
use crate::envd::Visitor;
use crate::envd::path::name_of;
use crate::envd::refusal::Refusal;

/// Characters that a file's name in a header has as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Sends a file, or the part of it that is asked for, at the pace at which it is taken.
pub(in crate::envd) async fn download(mut visitor: Visitor, head: Parts) -> Result<Response, Refusal> {
    let named = begin(&mut visitor, &head.uri)?;
    let path = visitor.place(named);
    let headers = &head.headers;
    let (wanted, coding) = match Wanted::of(headers) {
        Wanted::Last(count) => (last(&visitor, path.clone(), count).await?, Coding::Identity),
        wanted => (wanted, coding(headers)?),
    };
    let (offset, length) = match wanted {
        Wanted::From(first, last) => (first, last.map(|last| last - first + 1)),
        Wanted::All | Wanted::Last(_) => (0, None),
    };
    let call = visitor.call(FileOperation::Read { path, offset, length });
    let reader = visitor.sandbox.files().read(call).await;
    let reader = reader.map_err(|error| visitor.refusal(error))?;
    if is_known(headers, &reader.entry) {
        return Ok((StatusCode::NOT_MODIFIED, file_headers(&reader.entry)).into_response());
    }
    send(reader, wanted, coding).await
}

async fn send(reader: FileReader, wanted: Wanted, coding: Coding) -> Result<Response, Refusal> {
    let (size, head) = (reader.entry.size, file_headers(&reader.entry));
    let Some((first, promised)) = wanted.within(size) else { return Ok(outside(size)) };
    let outgoing = Outgoing::open(reader).await?;
    // Files of the kernel's have no size, however much is in them.
    let sized = size > 0 || outgoing.is_complete();
    let length = if sized { outgoing.length(promised) } else { u64::MAX };
    let body = outgoing.into_body(length);
    if coding == Coding::Gzip {
        return Ok(([(CONTENT_ENCODING, "gzip")], head, packed(body)).into_response());
    }
    if !sized {
        return Ok((head, body).into_response());
    }
    let told = [(CONTENT_LENGTH, length.to_string())];
    if wanted == Wanted::All {
        return Ok((told, head, body).into_response());
    }
    let range = format!("bytes {first}-{}/{size}", (first + length).saturating_sub(1));
    Ok((StatusCode::PARTIAL_CONTENT, [(CONTENT_RANGE, range)], told, head, body).into_response())
}

/// The end of a file is found by its size.
async fn last(visitor: &Visitor, path: ByteString, count: u64) -> Result<Wanted, Refusal> {
    let entry = visitor.stat(path, true).await.map_err(|error| visitor.refusal(error))?;
    let range = Wanted::Last(count).within(entry.size);
    Ok(range.map_or(Wanted::Last(count), |(first, length)| Wanted::From(first, Some(first + length - 1))))
}

/// Parts of a file, and files that a client may have, are told by their plain bytes.
fn coding(headers: &HeaderMap) -> Result<Coding, Refusal> {
    let plain = [RANGE, IF_MODIFIED_SINCE, IF_NONE_MATCH];
    if plain.iter().any(|name| headers.contains_key(name)) {
        return Ok(Coding::Identity);
    }
    Coding::wanted(headers).ok_or_else(|| {
        Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "files are sent as they are, or with gzip: accept one of them",
        )
    })
}

/// True if the client has the file as it is now.
fn is_known(headers: &HeaderMap, entry: &FileEntry) -> bool {
    let since = headers.get(IF_MODIFIED_SINCE).filter(|_| !headers.contains_key(IF_NONE_MATCH));
    since.is_some_and(|since| since.as_bytes() == modified(entry).as_bytes())
}

fn modified(entry: &FileEntry) -> String {
    time::http_date(u64::try_from(entry.modified_ns / 1_000_000).unwrap_or(0))
}

fn outside(size: u64) -> Response {
    let head = [(CONTENT_RANGE, format!("bytes */{size}"))];
    (StatusCode::RANGE_NOT_SATISFIABLE, head, format!("the file has {size} bytes")).into_response()
}

fn file_headers(entry: &FileEntry) -> HeaderMap {
    let text = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    let path = entry.path.to_text();
    let name = utf8_percent_encode(name_of(&path), PLAIN);
    HeaderMap::from_iter([
        // What a sandbox wrote is never a page of ours.
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CONTENT_DISPOSITION, text(&format!("inline; filename*=UTF-8''{name}"))),
        (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (LAST_MODIFIED, text(&modified(entry))),
        (VARY, HeaderValue::from_static("Accept-Encoding")),
    ])
}

/// The same bytes, packed as they pass. There is never an empty piece, which some clients count as
/// an attack.
fn packed(body: Body) -> Body {
    let begun = (body.into_data_stream(), Some(GzEncoder::new(Vec::new(), Compression::fast())));
    Body::from_stream(stream::try_unfold(begun, |(mut pieces, encoder)| async move {
        let Some(mut encoder) = encoder else { return Ok(None) };
        while let Some(piece) = pieces.try_next().await.map_err(io::Error::other)? {
            encoder.write_all(&piece)?;
            let done = mem::take(encoder.get_mut());
            if !done.is_empty() {
                return Ok(Some((Bytes::from(done), (pieces, Some(encoder)))));
            }
        }
        Ok::<_, io::Error>(Some((Bytes::from(encoder.finish()?), (pieces, None))))
    }))
}
