use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use warren_wire::guest::{CHUNK, CallError, Failure, FailureCode, FrameKind, Reply, Request, parse_reply};

use crate::EngineError;
use crate::cell::Door;
use crate::entry::Entry;
use crate::guest::{ANSWER, Call, Guest};

/// How long a connection may take. A service that listens and takes no callers is as good as
/// nobody.
const CONNECTING: Duration = Duration::from_secs(10);

/// A connection to a port inside a sandbox, as a plain byte stream. Each direction ends on its own.
/// It breaks off when the sandbox's life ends.
pub struct PortStream {
    way: Way,
    /// Keeps the sandbox busy while the connection exists, if it counts as work.
    _leave: Option<Arc<Entry>>,
}

/// How the bytes travel.
enum Way {
    /// Over a socket in the sandbox's own network.
    Direct { stream: TcpStream, end: BoxFuture<'static, Arc<str>> },
    /// Through the agent.
    Tunnel(Box<Tunnel>),
}

/// A connection that the agent made. At most one chunk is held in either direction.
#[derive(Debug)]
struct Tunnel {
    call: Call,
    unread: Bytes,
    reading: Direction,
    writing: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Open,
    Ended,
}

impl PortStream {
    /// Keeps the sandbox busy for as long as the connection exists.
    pub(super) fn held_by(self, leave: Arc<Entry>) -> Self {
        Self { _leave: Some(leave), ..self }
    }
}

impl fmt::Debug for PortStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match &self.way {
            Way::Direct { .. } => "direct",
            Way::Tunnel(_) => "tunnel",
        };
        f.debug_tuple("PortStream").field(&way).finish()
    }
}

impl Guest {
    pub(super) async fn connect(&self, port: u16) -> Result<PortStream, EngineError> {
        match self.begin(&Request::Connect { port }, ANSWER).await? {
            (Reply::Done, call) => {
                let (reading, writing) = (Direction::Open, Direction::Open);
                let tunnel = Tunnel { call, unread: Bytes::new(), reading, writing };
                Ok(PortStream { way: Way::Tunnel(Box::new(tunnel)), _leave: None })
            }
            _ => Err(self.unexpected("something other than a connection")),
        }
    }
}

impl Door {
    /// Connects to a port on the sandbox's loopback: over a socket in its network where the backend
    /// makes them, else through the agent. The caller must have an entry.
    pub(super) async fn reach(&self, port: u16) -> Result<PortStream, EngineError> {
        if let Some(detail) = self.life.ended() {
            return Err(self.ended(&detail));
        }
        let Some(socket) = self.socket(false).await? else {
            return Guest::unobserved(self.clone()).connect(port).await;
        };
        let first = connect(socket, (Ipv4Addr::LOCALHOST, port).into()).await;
        let stream = match first {
            Ok(stream) => stream,
            Err(first) => match self.socket(true).await {
                Ok(Some(socket)) => connect(socket, (Ipv6Addr::LOCALHOST, port).into())
                    .await
                    .map_err(|_| unreachable(port, &first))?,
                _ => return Err(unreachable(port, &first)),
            },
        };
        let life = Arc::clone(&self.life);
        let end = Box::pin(async move { life.until_end().await });
        Ok(PortStream { way: Way::Direct { stream, end }, _leave: None })
    }
}

/// Connects, with a limit that is far longer than a listening service needs.
async fn connect(socket: OwnedFd, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::from_std_stream(socket.into());
    let connecting = tokio::time::timeout(CONNECTING, socket.connect(address));
    let stream = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn unreachable(port: u16, error: &io::Error) -> EngineError {
    let code = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut => FailureCode::NotFound,
        _ => FailureCode::Io,
    };
    let message = format!("connect to port {port}: {error}");
    EngineError::Refused(Failure { errno: error.raw_os_error(), ..Failure::new(code, message) })
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.way {
            Way::Direct { stream, end } => {
                let read = Pin::new(stream).poll_read(context, buffer);
                if read.is_pending() && end.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
                read
            }
            Way::Tunnel(tunnel) => Pin::new(&mut **tunnel).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.way {
            Way::Direct { stream, .. } => Pin::new(stream).poll_write(context, bytes),
            Way::Tunnel(tunnel) => Pin::new(&mut **tunnel).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.way {
            Way::Direct { stream, .. } => Pin::new(stream).poll_write_vectored(context, slices),
            Way::Tunnel(tunnel) => {
                let first = slices.iter().find(|slice| !slice.is_empty());
                Pin::new(&mut **tunnel).poll_write(context, first.map_or(&[], |slice| slice))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        matches!(self.way, Way::Direct { .. })
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.way {
            Way::Direct { stream, .. } => Pin::new(stream).poll_flush(context),
            Way::Tunnel(tunnel) => Pin::new(&mut **tunnel).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.way {
            Way::Direct { stream, .. } => Pin::new(stream).poll_shutdown(context),
            Way::Tunnel(tunnel) => Pin::new(&mut **tunnel).poll_shutdown(context),
        }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A caller that waits for an answer may have forgotten to flush the question.
        if let Poll::Ready(Err(error)) = self.call.sender.poll_flush(context) {
            return Poll::Ready(Err(as_io(error)));
        }
        while self.unread.is_empty() && self.reading == Direction::Open {
            match ready!(self.call.receiver.poll_next(context)).map_err(as_io)? {
                Some((FrameKind::Data, bytes)) => self.unread = bytes,
                Some((FrameKind::End, _)) => self.reading = Direction::Ended,
                Some((FrameKind::Message, payload)) => {
                    let error = parse_reply(&payload).err();
                    let odd = CallError::Unexpected("a message where data was due");
                    return Poll::Ready(Err(as_io(error.unwrap_or(odd))));
                }
                Some(_) => return Poll::Ready(Err(as_io(CallError::Unexpected("a process's output")))),
                None => return Poll::Ready(Err(as_io(CallError::Closed))),
            }
        }
        let count = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..count]);
        self.unread.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.writing == Direction::Ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.call.sender.poll_flush(context)).map_err(as_io)?;
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // A copy, since a frame must be sent whole and the caller may not come back with the rest.
        let piece = Bytes::copy_from_slice(&bytes[..bytes.len().min(CHUNK)]);
        let count = piece.len();
        self.call.sender.begin(FrameKind::Data, piece);
        match self.call.sender.poll_flush(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(as_io(error))),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.call.sender.poll_flush(context).map_err(as_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.call.sender.poll_flush(context)).map_err(as_io)?;
        if self.writing == Direction::Open {
            self.writing = Direction::Ended;
            self.call.sender.begin(FrameKind::End, Bytes::new());
        }
        self.call.sender.poll_flush(context).map_err(as_io)
    }
}

fn as_io(error: CallError) -> io::Error {
    match error {
        CallError::Stream(error) => error,
        CallError::Closed => io::ErrorKind::ConnectionReset.into(),
        error => io::Error::other(error),
    }
}
