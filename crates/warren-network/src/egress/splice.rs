//! Bytes from one connection to another, both ways, each way ending on its own. A connection that
//! is silent holds no buffer.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use rustix::net::Shutdown;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

/// Read at a time. What the other side does not take at once is kept until it does, and no more is
/// read meanwhile.
const CHUNK: usize = 64 << 10;
/// A connection that was told something may take this long to hear it.
const FAREWELL: Duration = Duration::from_secs(1);

thread_local! {
    /// One for all connections of a thread: it is full only between a read and the write that
    /// follows.
    static CHUNK_OF_THREAD: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into_boxed_slice());
}

/// The result of one read from a connection.
enum Taken {
    Nothing,
    /// Passed on, but for this.
    Some(Vec<u8>),
    End,
}

/// Passes everything on until both sides have ended, or one breaks.
pub(crate) async fn splice(one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    let (there, back) = (pump(one, other), pump(other, one));
    tokio::try_join!(there, back).map(|((), ())| ())
}

/// Closes so that the other side knows at once that nothing more comes of it.
pub(crate) fn reset(stream: TcpStream) {
    // Where it cannot be set the connection is closed all the same.
    drop(stream.set_zero_linger());
    drop(stream);
}

/// Says a last thing and gives the other side time to read it: closing with bytes unread would take
/// it back.
pub(crate) async fn bid_farewell(mut stream: TcpStream, words: &[u8]) {
    let farewell = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        loop {
            stream.readable().await?;
            match take(&stream, None) {
                Ok(Taken::End) => return Ok(()),
                Ok(Taken::Nothing | Taken::Some(_)) => consume_budget().await,
                Err(error) => return Err(error),
            }
        }
    };
    let ended: Result<io::Result<()>, _> = tokio::time::timeout(FAREWELL, farewell).await;
    drop(ended);
}

async fn pump(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    loop {
        from.readable().await?;
        match take(from, Some(to))? {
            Taken::Nothing => {}
            Taken::Some(rest) => write_all(to, &rest).await?,
            Taken::End => {
                // Who is gone already needs not be told.
                rustix::net::shutdown(to, Shutdown::Write).unwrap_or_default();
                return Ok(());
            }
        }
        consume_budget().await;
    }
}

/// Reads once, and writes what it can.
fn take(from: &TcpStream, to: Option<&TcpStream>) -> io::Result<Taken> {
    CHUNK_OF_THREAD.with_borrow_mut(|chunk| {
        let length = match from.try_read(chunk) {
            Ok(0) => return Ok(Taken::End),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Taken::Nothing),
            Err(error) => return Err(error),
        };
        let written = match to.map(|to| to.try_write(&chunk[..length])) {
            Some(Ok(written)) => written,
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Some(Err(error)) => return Err(error),
            None => length,
        };
        let rest = &chunk[written..length];
        Ok(if rest.is_empty() { Taken::Nothing } else { Taken::Some(rest.to_vec()) })
    })
}

pub(crate) async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
