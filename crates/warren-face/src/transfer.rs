//! Archives on their way: the engine reads and writes on threads of its own, and a client at the
//! other end sets the pace.

use std::fmt;
use std::future::Future;
use std::io::{self, Read, Write};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::io::{StreamReader, SyncIoBridge};
use tokio_util::task::AbortOnDropHandle;
use warren_engine::EngineError;

use crate::body::broken_body;
use crate::error::{ApiError, Code};

/// The size of one piece of an export's body.
const PIECE: usize = 64 << 10;

/// After so many bytes of an import the disk is looked at again.
const LOOK_EVERY: u64 = 16 << 20;

/// Pieces that wait for the client.
const WAITING: usize = 4;

/// A reader who takes nothing of an answer for this long loses its place, if others wait for it.
const PACE: Duration = Duration::from_secs(10);

/// A body for a reader on a thread of its own, at the pace at which it comes.
pub fn reader(body: Body) -> impl Read + Send + 'static {
    let pieces = body.into_data_stream().map_err(io::Error::other);
    SyncIoBridge::new(StreamReader::new(Box::pin(pieces)))
}

/// How long a writer waits for a client that takes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As long as the connection lasts.
    OfClient,
    /// Not for long: the work holds a place that others wait for.
    Brisk,
}

/// The body of an export. A failure before the first byte is an answer of its own; a later one
/// breaks the body off. Once the body is dropped, so is the work.
pub async fn export<F>(pace: Pace, write: impl FnOnce(Box<dyn Write + Send>) -> F) -> Result<Body, ApiError>
where
    F: Future<Output = Result<(), ApiError>> + Send + 'static,
{
    let (pieces, mut waiting) = mpsc::channel(WAITING);
    let rest = Arc::new(Mutex::new(Vec::new()));
    let writing =
        write(Box::new(Outgoing { rest: Arc::clone(&rest), pieces, pace, runtime: Handle::current() }));
    let writing = AbortOnDropHandle::new(tokio::spawn(writing));
    let Some(first) = waiting.recv().await else {
        writing.await.map_err(ApiError::internal)??;
        return Ok(Body::from(take(&rest)));
    };
    let flowing = stream::unfold(waiting, |mut waiting| async { Some((waiting.recv().await?, waiting)) });
    let last = stream::once(async move {
        match writing.await.map_err(ApiError::internal).flatten() {
            Ok(()) => Ok(Bytes::from(take(&rest))),
            Err(error) => {
                error.log();
                Err(io::Error::other("the export broke off"))
            }
        }
    });
    let body = stream::once(async { Ok(first) }).chain(flowing.map(Ok)).chain(last);
    Ok(Body::from_stream(body))
}

fn take(rest: &Mutex<Vec<u8>>) -> Vec<u8> {
    mem::take(&mut *rest.lock())
}

/// Where an export writes to. It waits for the client, and fails once that is gone.
struct Outgoing {
    /// Bytes that are not a whole piece yet. The last of them are fetched by the reader, once the
    /// export is complete.
    rest: Arc<Mutex<Vec<u8>>>,
    pieces: mpsc::Sender<Bytes>,
    pace: Pace,
    runtime: Handle,
}

impl Outgoing {
    fn send(&self, piece: Bytes) -> io::Result<()> {
        let sent = match self.pace {
            Pace::OfClient => self.pieces.blocking_send(piece),
            Pace::Brisk => self.runtime.block_on(async { timeout(PACE, self.pieces.send(piece)).await })?,
        };
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = self.rest.lock();
        rest.extend_from_slice(bytes);
        if rest.len() < PIECE {
            return Ok(bytes.len());
        }
        let piece = Bytes::from(mem::take(&mut *rest));
        drop(rest);
        self.send(piece)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The source of an import. It is cut at the length that a body may have, and where the disk has no
/// more room.
pub struct Incoming<R, C> {
    source: R,
    check: C,
    arrived: u64,
    most: u64,
    broke: Arc<Mutex<Option<ApiError>>>,
}

/// Why an import failed, if that was the body's fault.
#[derive(Debug)]
pub struct Outcome(Arc<Mutex<Option<ApiError>>>);

impl<R: Read, C: Fn() -> Result<(), EngineError>> Incoming<R, C> {
    /// `check` says whether there is room for more.
    pub fn new(source: R, most: u64, check: C) -> (Self, Outcome) {
        let broke = Arc::new(Mutex::new(None));
        let incoming = Self { source, check, arrived: 0, most, broke: Arc::clone(&broke) };
        (incoming, Outcome(broke))
    }

    fn broken(&self, error: ApiError) -> io::Error {
        *self.broke.lock() = Some(error);
        io::Error::other("the request's body cannot be used")
    }
}

impl<R: Read, C: Fn() -> Result<(), EngineError>> Read for Incoming<R, C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer).map_err(|error| self.broken(broken_body(&error)))?;
        let before = self.arrived;
        self.arrived += count as u64;
        if self.arrived > self.most {
            let detail = format!("an archive may have up to {} bytes", self.most);
            return Err(self.broken(ApiError::new(Code::PayloadTooLarge, detail)));
        }
        if before / LOOK_EVERY != self.arrived / LOOK_EVERY {
            (self.check)().map_err(|error| self.broken(error.into()))?;
        }
        Ok(count)
    }
}

impl Outcome {
    /// The body's own failure comes before the error that its reader made of it.
    pub fn blame(self, error: impl Into<ApiError>) -> ApiError {
        let broke = self.0.lock().take();
        broke.unwrap_or_else(|| error.into())
    }
}

impl<R, C> fmt::Debug for Incoming<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn exported(
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
    ) -> Result<Body, ApiError> {
        export(Pace::Brisk, |mut to| async move {
            let written =
                tokio::task::spawn_blocking(move || write(&mut *to)).await.map_err(ApiError::internal)?;
            written.map_err(ApiError::internal)
        })
        .await
    }

    #[tokio::test]
    async fn everything_that_was_written_arrives() {
        for size in [0, 1, PIECE - 1, PIECE, 3 * PIECE + 7, 40 * PIECE] {
            let body = exported(move |to| {
                for piece in vec![7; size].chunks(1000) {
                    to.write_all(piece)?;
                }
                Ok(())
            });
            assert_eq!(body.await.unwrap().collect().await.unwrap().to_bytes().len(), size);
        }
    }

    #[tokio::test]
    async fn a_failure_in_the_middle_breaks_the_body_off() {
        let body = exported(|to| {
            to.write_all(&[0; 2 * PIECE])?;
            Err(io::Error::other("the disk is gone"))
        });
        assert!(body.await.unwrap().collect().await.is_err());
        let error = exported(|_| Err(io::Error::other("the disk is gone"))).await.unwrap_err();
        assert_eq!(error.status().as_u16(), 500);
    }

    #[tokio::test]
    async fn an_export_stops_when_its_reader_goes() {
        let (ended, end) = tokio::sync::oneshot::channel();
        let body = exported(move |to| {
            let stopped = (0..1_000_000).find_map(|_| to.write_all(&[0; PIECE]).err());
            ended.send(stopped.map(|error| error.kind())).unwrap();
            Ok(())
        });
        drop(body.await.unwrap());
        assert_eq!(end.await.unwrap(), Some(io::ErrorKind::BrokenPipe));
    }

    #[test]
    fn a_body_that_is_too_long_is_to_blame() {
        let (mut incoming, outcome) = Incoming::new(&[0; 100][..], 99, || Ok(()));
        assert!(incoming.read_to_end(&mut Vec::new()).is_err());
        let error = outcome.blame(EngineError::ShuttingDown);
        assert_eq!(error.status().as_u16(), 413);
        let (mut incoming, outcome) = Incoming::new(&[0; 100][..], 100, || Ok(()));
        assert_eq!(incoming.read_to_end(&mut Vec::new()).unwrap(), 100);
        assert_eq!(outcome.blame(EngineError::ShuttingDown).problem().code, "shutting_down");
    }

    #[test]
    fn an_archive_ends_where_the_disk_does() {
        let full = || Err(EngineError::DiskLow { free_mib: 1, critical_mib: 2 });
        let (mut incoming, outcome) = Incoming::new(io::repeat(0), u64::MAX, full);
        let read = io::copy(&mut incoming, &mut io::sink());
        assert!(read.is_err() && incoming.arrived >= LOOK_EVERY && incoming.arrived < LOOK_EVERY + (1 << 20));
        assert_eq!(outcome.blame(EngineError::ShuttingDown).problem().code, "disk_low");
    }
}
