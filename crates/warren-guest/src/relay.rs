//! The relay: carries what comes in on standard input to the agent's socket, and what the agent
//! says to standard output, for a host that cannot reach the socket itself. It ends with what the
//! agent says.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use rustix::net::{Shutdown, shutdown};

/// How long the agent may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);
const MOST_HELD: usize = 64 << 10;

/// One way: what was taken at its beginning and not given at its end yet.
struct Way<'ends> {
    from: BorrowedFd<'ends>,
    to: BorrowedFd<'ends>,
    held: Vec<u8>,
    given: usize,
    ended: bool,
}

/// Carries until the agent has said everything.
pub(crate) fn carry(socket: &Path) -> Result<(), String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let agent = dial(socket).map_err(failed("dial the agent"))?;
    let (input, output) = (io::stdin(), io::stdout());
    for end in [input.as_fd(), output.as_fd(), agent.as_fd()] {
        ioctl_fionbio(end, true).map_err(io::Error::from).map_err(failed("take what was given"))?;
    }
    let mut up = Way::new(input.as_fd(), agent.as_fd());
    let mut down = Way::new(agent.as_fd(), output.as_fd());
    while !down.ended {
        let told = up.ended;
        wait(&[&up, &down]).map_err(io::Error::from).map_err(failed("wait"))?;
        // Who does not read any more is not told any more either.
        if up.step().is_err() {
            up.ended = true;
        }
        if up.ended && !told {
            // The agent has ended, if it cannot be told this.
            let _ = shutdown(&agent, Shutdown::Write);
        }
        down.step().map_err(io::Error::from).map_err(failed("say what the agent says"))?;
    }
    Ok(())
}

impl<'ends> Way<'ends> {
    fn new(from: BorrowedFd<'ends>, to: BorrowedFd<'ends>) -> Self {
        Self { from, to, held: vec![0; MOST_HELD], given: MOST_HELD, ended: false }
    }

    /// The end that it waits for, unless it has ended.
    fn wants(&self) -> Option<PollFd<'_>> {
        let (end, flags) = if self.given < self.held.len() {
            (&self.to, PollFlags::OUT)
        } else {
            (&self.from, PollFlags::IN)
        };
        (!self.ended).then(|| PollFd::new(end, flags))
    }

    /// Takes or gives as much as it can without waiting.
    fn step(&mut self) -> Result<(), Errno> {
        if self.ended {
            return Ok(());
        }
        if self.given == self.held.len() {
            self.held.resize(MOST_HELD, 0);
            let taken = match read(self.from, self.held.as_mut_slice()) {
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.given = self.held.len();
                    return Ok(());
                }
                taken => taken?,
            };
            self.held.truncate(taken);
            (self.given, self.ended) = (0, taken == 0);
        }
        match write(self.to, self.held.get(self.given..).unwrap_or_default()) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            given => self.given += given?,
        }
        Ok(())
    }
}

fn wait(ways: &[&Way<'_>]) -> Result<(), Errno> {
    let mut polled: Vec<PollFd<'_>> = ways.iter().filter_map(|way| way.wants()).collect();
    match poll(&mut polled, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn dial(socket: &Path) -> io::Result<UnixStream> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(socket) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(PAUSE);
            }
            connected => return connected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_gives_what_it_took_and_ends_with_its_beginning() {
        let (mut near, from) = UnixStream::pair().unwrap();
        let (to, mut far) = UnixStream::pair().unwrap();
        for end in [&from, &to] {
            end.set_nonblocking(true).unwrap();
        }
        let much = vec![7; 5 * MOST_HELD];
        let sent = much.clone();
        let writer = std::thread::spawn(move || io::Write::write_all(&mut near, &sent));
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            io::Read::read_to_end(&mut far, &mut got).map(|_| got)
        });
        let mut way = Way::new(from.as_fd(), to.as_fd());
        while !way.ended {
            wait(&[&way]).unwrap();
            way.step().unwrap();
        }
        writer.join().unwrap().unwrap();
        drop(to);
        assert!(reader.join().unwrap().unwrap() == much);
    }
}
