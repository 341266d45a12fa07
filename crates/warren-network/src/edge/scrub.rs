//! Blotting secrets out of what comes back. The length stays, so nothing else about an answer
//! changes.
//!
//! This is for servers that repeat what they were sent, in an error or an echo. It finds a value as
//! it was sent; not one that the server has compressed, encoded or taken apart. A secret is safe
//! with the hosts it is for, or with nobody.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::inject::Injections;

/// Shorter ones would be found everywhere.
const LEAST: usize = 8;
/// How much of a secret's beginning is shown when nothing follows, and after what time.
const MOST_SHOWN: usize = 3;
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

pub(super) fn is_long_enough(value: &[u8]) -> bool {
    value.len() >= LEAST
}

/// Puts stars over every place where the secret stands; says whether there was one.
pub(super) fn blot(bytes: &mut [u8], secret: &[u8]) -> bool {
    let mut found = false;
    let mut from = 0;
    while let Some(at) = position(&bytes[from..], secret) {
        bytes[from + at..from + at + secret.len()].fill(b'*');
        from += at + secret.len();
        found = true;
    }
    found
}

fn position(bytes: &[u8], secret: &[u8]) -> Option<usize> {
    let first = *secret.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(secret) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Blots secrets out of bytes that come in pieces. What may be the beginning of one is held back
/// until more is there.
#[derive(Clone)]
pub(super) struct Scrubber {
    secrets: Vec<Bytes>,
    held: BytesMut,
    /// How many of the first bytes held have gone on all the same.
    shown: usize,
}

impl Scrubber {
    pub(super) fn new(injections: &Injections) -> Self {
        let secrets = injections.blotted().map(Bytes::copy_from_slice).collect();
        Self { secrets, held: BytesMut::new(), shown: 0 }
    }

    /// Takes the next piece, and returns the part that may go on.
    pub(super) fn feed(&mut self, piece: Bytes) -> Bytes {
        if self.secrets.is_empty() {
            return piece;
        }
        self.held.extend_from_slice(&piece);
        for secret in &self.secrets {
            blot(&mut self.held, secret);
        }
        let keep = self.secrets.iter().map(|secret| beginning(&self.held, secret)).max().unwrap_or(0);
        let mut going = self.held.split_to(self.held.len() - keep);
        let shown = self.shown.min(going.len());
        self.shown -= shown;
        going.split_off(shown).freeze()
    }

    /// True if something is held back that may be shown when nothing follows for a while: a message
    /// that ends as a secret begins must not wait for the next one. A server that sends one letter
    /// at a time shows only so much of a secret.
    pub(super) fn may_show(&self) -> bool {
        self.shown < self.held.len() && self.held.len() <= MOST_SHOWN
    }

    pub(super) fn show(&mut self) -> Bytes {
        let going = Bytes::copy_from_slice(&self.held[self.shown..]);
        self.shown = self.held.len();
        going
    }

    /// The rest at the end, which was held back and is no secret.
    pub(super) fn rest(&mut self) -> Bytes {
        let shown = std::mem::take(&mut self.shown);
        self.held.split().split_off(shown).freeze()
    }
}

/// How many of the last bytes are the beginning of the secret.
fn beginning(bytes: &[u8], secret: &[u8]) -> usize {
    let most = bytes.len().min(secret.len() - 1);
    (1..=most).rev().find(|count| bytes.ends_with(&secret[..*count])).unwrap_or(0)
}

/// An answer's body with secrets blotted out.
pub(super) struct Scrubbed<B> {
    body: B,
    injections: Injections,
    scrubber: Scrubber,
    /// The frame that follows once nothing is held back.
    last: Option<Frame<Bytes>>,
    ended: bool,
    /// Runs while something is held back that may be shown.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<B> Scrubbed<B> {
    pub(super) fn new(body: B, injections: Injections) -> Self {
        let scrubber = Scrubber::new(&injections);
        Self { body, injections, scrubber, last: None, ended: false, pause: None }
    }
}

impl<B: Body<Data = Bytes>> Scrubbed<B> {
    /// Nothing follows for now.
    fn poll_show(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.scrubber.may_show() {
            return Poll::Pending;
        }
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(pause.as_mut().poll(context));
        self.pause = None;
        Poll::Ready(Some(Ok(Frame::data(self.scrubber.show()))))
    }

    /// Bytes that were read and not handed on.
    fn waiting(&self) -> u64 {
        (self.scrubber.held.len() - self.scrubber.shown) as u64
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Scrubbed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        loop {
            if let Some(last) = this.last.take() {
                return Poll::Ready(Some(Ok(last)));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
                return this.poll_show(context);
            };
            this.pause = None;
            let frame = frame.transpose()?;
            let going = match frame.map(Frame::into_data) {
                Some(Ok(data)) => this.scrubber.feed(data),
                // Trailers come last, after what was held back.
                Some(Err(frame)) => {
                    if let Ok(mut trailers) = frame.into_trailers() {
                        this.injections.scrub(&mut trailers);
                        this.last = Some(Frame::trailers(trailers));
                    }
                    this.scrubber.rest()
                }
                None => {
                    this.ended = true;
                    this.scrubber.rest()
                }
            };
            if !going.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(going))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.waiting() == 0 && self.last.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, held) = (self.body.size_hint(), self.waiting());
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(held));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint
    }
}

#[cfg(test)]
#[path = "scrub_tests.rs"]
mod tests;
