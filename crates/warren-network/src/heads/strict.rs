use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::scanner::Scanner;

/// A byte that stands nowhere in a message's head, nor between the pieces of its body.
const STOP: u8 = 0;

/// Comes after it: a parser may wait for the end of a head before it looks.
const END: &[u8] = b"\r\n\r\n";

/// Says that a connection has become something else, from a place where that is known. A clone is
/// the same.
#[derive(Debug, Clone, Default)]
pub struct Switch(Arc<AtomicBool>);

impl Switch {
    /// To be called before the client hears of it.
    pub fn throw(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_thrown(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A connection whose requests are read strictly before anybody else reads them.
#[derive(Debug)]
pub struct Strict<S> {
    stream: S,
    scanner: Scanner,
    switch: Switch,
    /// A flaw was found: there is nothing more to read than this.
    last: Option<&'static [u8]>,
}

impl<S> Strict<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, scanner: Scanner::new(), switch: Switch::default(), last: None }
    }

    /// The same, where somebody else judges the hosts.
    pub fn leaving_hosts(stream: S) -> Self {
        Self { scanner: Scanner::leaving_hosts(), ..Self::new(stream) }
    }

    pub fn switch(&self) -> Switch {
        self.switch.clone()
    }

    pub fn into_inner(self) -> S {
        self.stream
    }

    fn check(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
        if self.scanner.is_over() {
            return;
        }
        if self.switch.is_thrown() {
            return self.scanner.stop();
        }
        let Err(flaw) = self.scanner.feed(&buffer.filled()[before..]) else { return };
        tracing::debug!(%flaw, "a request is refused");
        let at = before + flaw.at;
        buffer.filled_mut()[at] = STOP;
        buffer.set_filled(at + 1);
        self.last = Some(END);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(last) = &mut self.last {
            let (now, later) = last.split_at(last.len().min(buffer.remaining()));
            buffer.put_slice(now);
            *last = later;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.check(buffer, before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn what_is_right_passes_and_what_follows_a_flaw_never_does() {
        let (mut client, server) = duplex(1 << 10);
        let mut strict = Strict::new(server);
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n").await.unwrap();
        let mut read = Vec::new();
        strict.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"GET / HTTP/1.1\r\nHost: x\0\r\n\r\n");
    }

    #[tokio::test]
    async fn a_connection_that_has_become_something_else_is_left_alone() {
        let (mut client, server) = duplex(1 << 10);
        let mut strict = Strict::new(server);
        let head = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: y\r\n\r\n";
        client.write_all(head).await.unwrap();
        let mut read = vec![0; head.len()];
        strict.read_exact(&mut read).await.unwrap();
        strict.switch().throw();
        client.write_all(b"\0\n\r\x81").await.unwrap();
        let mut read = [0; 4];
        strict.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"\0\n\r\x81");
    }
}
