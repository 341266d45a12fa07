use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

thread_local! {
    /// Where bytes are on their way from one side to the other. Those that cannot be written at
    /// once are kept apart, so that a connection on which nothing happens needs no room.
    static DESK: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into_boxed_slice());
}

/// The fate of a connection when its client has said all it will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lingering {
    /// The other side may go on for as long as it likes.
    Forever,
    /// The other side has a while to end too.
    Briefly,
}

const BRIEFLY: Duration = Duration::from_secs(60);

/// Carries bytes both ways until both have ended, one breaks, or `cut` says so. Each way ends on
/// its own.
pub(crate) async fn carry<C, S>(
    mut client: C,
    mut service: S,
    lingering: Lingering,
    cut: impl Future<Output = ()>,
) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Direction::default(), Direction::default());
    let mut late: Option<Pin<Box<Sleep>>> = None;
    let mut cut = pin!(cut);
    poll_fn(|context| {
        let went = there.poll(context, Pin::new(&mut client), Pin::new(&mut service))?;
        let came = back.poll(context, Pin::new(&mut service), Pin::new(&mut client))?;
        if went.is_ready() && came.is_ready() || cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if went.is_ready() && lingering == Lingering::Briefly {
            let late = late.get_or_insert_with(|| Box::pin(tokio::time::sleep(BRIEFLY)));
            return late.as_mut().poll(context).map(Ok);
        }
        Poll::Pending
    })
    .await
}

/// One direction.
#[derive(Debug, Default)]
struct Direction {
    /// Read and not written yet.
    left: Vec<u8>,
    written: usize,
    stage: Stage,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    Ending,
    Ended,
}

impl Direction {
    fn poll<R: AsyncRead, W: AsyncWrite>(
        &mut self,
        context: &mut Context<'_>,
        mut from: Pin<&mut R>,
        mut to: Pin<&mut W>,
    ) -> Result<Poll<()>, io::Error> {
        loop {
            let step = match self.stage {
                _ if self.written < self.left.len() => self.poll_left(context, to.as_mut()),
                Stage::Open => self.poll_piece(context, from.as_mut(), to.as_mut()),
                Stage::Ending => to.as_mut().poll_shutdown(context).map_ok(|()| self.stage = Stage::Ended),
                Stage::Ended => return Ok(Poll::Ready(())),
            };
            match step {
                Poll::Ready(step) => step?,
                Poll::Pending => {
                    // What was written may wait in a buffer for more.
                    if let Poll::Ready(flushed) = to.as_mut().poll_flush(context) {
                        flushed?;
                    }
                    return Ok(Poll::Pending);
                }
            }
        }
    }

    /// Writes what an earlier piece left.
    fn poll_left<W: AsyncWrite>(
        &mut self,
        context: &mut Context<'_>,
        to: Pin<&mut W>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(to.poll_write(context, &self.left[self.written..]))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.written += count;
        if self.written == self.left.len() {
            (self.left, self.written) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads a piece, and writes of it what can be.
    fn poll_piece<R: AsyncRead, W: AsyncWrite>(
        &mut self,
        context: &mut Context<'_>,
        from: Pin<&mut R>,
        to: Pin<&mut W>,
    ) -> Poll<io::Result<()>> {
        DESK.with_borrow_mut(|desk| {
            let mut piece = ReadBuf::new(desk);
            ready!(from.poll_read(context, &mut piece))?;
            let bytes = piece.filled();
            if bytes.is_empty() {
                self.stage = Stage::Ending;
                return Poll::Ready(Ok(()));
            }
            let count = match to.poll_write(context, bytes) {
                Poll::Ready(count) => count?,
                Poll::Pending => 0,
            };
            self.left = bytes[count..].to_vec();
            Poll::Ready(Ok(()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn each_way_ends_on_its_own_and_nothing_is_lost() {
        let ((mut near, client), (service, mut far)) = (duplex(100), duplex(1000));
        let carried = tokio::spawn(carry(client, service, Lingering::Forever, pending()));
        let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            near.write_all(&sent).await.unwrap();
            near.shutdown().await.unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            answer
        });
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        far.write_all(b"after the end").await.unwrap();
        drop(far);
        assert_eq!((received == expected, sending.await.unwrap().as_str()), (true, "after the end"));
        carried.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_left_is_not_waited_for_forever() {
        let ((near, client), (service, _far)) = (duplex(100), duplex(100));
        drop(near);
        carry(client, service, Lingering::Briefly, pending()).await.unwrap();
        let ((_near, client), (service, _far)) = (duplex(100), duplex(100));
        let cut = tokio::time::sleep(Duration::from_secs(5));
        carry(client, service, Lingering::Forever, cut).await.unwrap();
    }
}
