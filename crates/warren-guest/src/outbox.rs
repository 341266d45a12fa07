use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use warren_wire::guest::{Frame, FrameKind, Reply};

/// The result of sending: all of it, or a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    All,
    /// The socket is full; the rest is kept.
    Part,
}

/// The unsent part of a connection's messages. Holds the rest of a frame once its beginning is out,
/// so that a frame is always finished as it was begun.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    taken: usize,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    pub(crate) fn push_reply(&mut self, reply: &Reply) {
        // Encoding into memory cannot fail, and every reply is bounded where it is made.
        if let Ok(payload) = minicbor::to_vec(reply) {
            self.push_frame(FrameKind::Message, &payload);
        }
    }

    pub(crate) fn push_frame(&mut self, kind: FrameKind, payload: &[u8]) {
        self.bytes.extend_from_slice(&Frame::header(kind, payload.len()));
        self.bytes.extend_from_slice(payload);
    }

    /// Sends what is kept.
    pub(crate) fn flush(&mut self, socket: impl AsFd) -> Result<Sent, Errno> {
        self.send(socket, &[])
    }

    /// Sends what is kept and then `pieces`, in one call and without copying them; copies only what
    /// did not go out.
    pub(crate) fn send(&mut self, socket: impl AsFd, pieces: &[IoSlice<'_>]) -> Result<Sent, Errno> {
        let kept = IoSlice::new(&self.bytes[self.taken..]);
        let slices: Vec<IoSlice<'_>> =
            [kept].into_iter().chain(pieces.iter().copied()).filter(|slice| !slice.is_empty()).collect();
        if slices.is_empty() {
            return Ok(Sent::All);
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = loop {
            match rustix::net::sendmsg(&socket, &slices, &mut SendAncillaryBuffer::default(), flags) {
                Ok(sent) => break sent,
                Err(Errno::AGAIN) => break 0,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        };
        drop(slices);
        self.settle(sent, pieces);
        Ok(if self.is_empty() { Sent::All } else { Sent::Part })
    }

    fn settle(&mut self, sent: usize, pieces: &[IoSlice<'_>]) {
        let own = sent.min(self.bytes.len() - self.taken);
        let mut beyond = sent - own;
        self.taken += own;
        if self.is_empty() {
            // A large rest was the exception: its memory goes back.
            self.bytes = Vec::new();
            self.taken = 0;
        }
        for piece in pieces {
            let skip = beyond.min(piece.len());
            self.bytes.extend_from_slice(&piece[skip..]);
            beyond -= skip;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_the_socket_does_not_take_is_sent_later_in_order() {
        let (sender, mut receiver) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        let (mut expected, mut seen) = (Vec::new(), Vec::new());
        for round in 0..100u8 {
            let piece = vec![round; 20_000];
            outbox.push_frame(FrameKind::Data, &[round]);
            expected.extend_from_slice(&Frame::header(FrameKind::Data, 1));
            expected.push(round);
            let slices = [IoSlice::new(&piece), IoSlice::new(b"-"), IoSlice::new(b"")];
            if outbox.send(&sender, &slices).unwrap() == Sent::Part {
                let mut chunk = vec![0; 150_000];
                let count = receiver.read(&mut chunk).unwrap();
                seen.extend_from_slice(&chunk[..count]);
            }
            expected.extend_from_slice(&piece);
            expected.push(b'-');
        }
        receiver.set_nonblocking(true).unwrap();
        while outbox.flush(&sender).unwrap() == Sent::Part {
            receiver.read_to_end(&mut seen).unwrap_err();
        }
        drop(sender);
        receiver.read_to_end(&mut seen).unwrap();
        assert_eq!(seen.len(), expected.len());
        assert!(seen == expected);
    }
}
