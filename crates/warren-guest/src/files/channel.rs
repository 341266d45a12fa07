//! The connection of one call, used with blocking calls: a host that does not read holds the
//! thread, and that is the back-pressure.

use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use warren_wire::guest::{CHUNK, Frame, FrameDecoder, FrameKind, HEADER_BYTES, Reply};

use super::failure::{Stop, invalid};

pub(super) struct Channel {
    stream: UnixStream,
    decoder: FrameDecoder,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Channel {
    /// `decoder` may already hold bytes that follow the request.
    pub(super) fn new(stream: UnixStream, decoder: FrameDecoder) -> Result<Self, Stop> {
        stream.set_nonblocking(false).map_err(|_| Stop::Gone)?;
        Ok(Self { stream, decoder, outgoing: Vec::new(), incoming: Vec::new() })
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn reply(&mut self, reply: &Reply) -> Result<(), Stop> {
        let mut message = std::mem::take(&mut self.outgoing);
        message.clear();
        message.resize(HEADER_BYTES, 0);
        if minicbor::encode(reply, &mut message).is_err() {
            return Err(invalid("encode the answer: it has no encoding").into());
        }
        let sent = self.send(FrameKind::Message, &mut message);
        self.outgoing = message;
        sent
    }

    pub(super) fn end(&mut self) -> Result<(), Stop> {
        self.send(FrameKind::End, &mut [0; HEADER_BYTES])
    }

    /// Sends a frame whose payload stands in `frame` behind room for the header.
    pub(super) fn send(&mut self, kind: FrameKind, frame: &mut [u8]) -> Result<(), Stop> {
        let header = Frame::header(kind, frame.len() - HEADER_BYTES);
        frame[..HEADER_BYTES].copy_from_slice(&header);
        let mut rest = &*frame;
        while !rest.is_empty() {
            match rustix::net::send(&self.stream, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(_) => return Err(Stop::Gone),
            }
        }
        Ok(())
    }

    /// The host's next frame.
    pub(super) fn receive(&mut self) -> Result<Frame, Stop> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(|error| invalid(error.to_string()))? {
                return Ok(frame);
            }
            self.incoming.resize(CHUNK, 0);
            let wanted = self.decoder.wanted().min(CHUNK);
            match rustix::net::recv(&self.stream, &mut self.incoming[..wanted], RecvFlags::empty()) {
                Ok((0, _)) => return Err(Stop::Gone),
                Ok((count, _)) => self.decoder.push(&self.incoming[..count]),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Stop::Gone),
            }
        }
    }

    /// The host's next frame if all of it is here; `None` if there is more to wait for.
    pub(super) fn receive_ready(&mut self) -> Result<Option<Frame>, Stop> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(|error| invalid(error.to_string()))? {
                return Ok(Some(frame));
            }
            self.incoming.resize(CHUNK, 0);
            let wanted = self.decoder.wanted().min(CHUNK);
            match rustix::net::recv(&self.stream, &mut self.incoming[..wanted], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Stop::Gone),
                Ok((count, _)) => self.decoder.push(&self.incoming[..count]),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Stop::Gone),
            }
        }
    }

    /// Reads on until the host has sent all of its data. A socket closed with bytes unread would
    /// make the host's next write fail before it has read why.
    pub(super) fn drain(&mut self) {
        while self.receive().is_ok_and(|frame| frame.kind == FrameKind::Data) {}
    }

    /// Stops a call whose host is no longer there, without waiting.
    pub(super) fn check(&self) -> Result<(), Stop> {
        let mut polled = [PollFd::new(&self.stream, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match rustix::event::poll(&mut polled, Some(&now)) {
            Ok(0) | Err(_) => Ok(()),
            Ok(_) => Err(Stop::Gone),
        }
    }
}
