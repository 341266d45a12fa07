//! A frame is a five-byte header (payload length, little endian, then the kind) and the payload.
//! The decoder is sans-I/O and holds at most one frame, so a hostile peer cannot make it grow.

/// Length of a frame's header.
pub const HEADER_BYTES: usize = 5;

/// The largest payload either side accepts.
pub const MAX_PAYLOAD: usize = 1024 * 1024;

/// The kind of a frame's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A CBOR message: a [`super::Request`] or [`super::Control`] to the agent, a [`super::Reply`]
    /// from it.
    Message = 0,
    /// Raw bytes of the call: stdin, a file's content, a connection's bytes.
    Data = 1,
    /// Bytes that a process wrote to its standard output (or to its terminal).
    Stdout = 2,
    /// Bytes that a process wrote to its standard error.
    Stderr = 3,
    /// No more [`FrameKind::Data`] in this direction.
    End = 4,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Message, Self::Data, Self::Stdout, Self::Stderr, Self::End]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// One decoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The header that announces `length` bytes of payload. Callers keep `length` within
    /// [`MAX_PAYLOAD`].
    pub fn header(kind: FrameKind, length: usize) -> [u8; HEADER_BYTES] {
        debug_assert!(length <= MAX_PAYLOAD, "a frame's payload is bounded");
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        [length[0], length[1], length[2], length[3], kind as u8]
    }

    /// The head of a stream's next frame: the kind and the length of its payload. `None` when more
    /// bytes are needed. A payload that is too long is refused as soon as its length is known.
    pub fn announced(bytes: &[u8]) -> Result<Option<(FrameKind, usize)>, FrameError> {
        let Some(length) = length_of(bytes) else { return Ok(None) };
        if length as usize > MAX_PAYLOAD {
            return Err(FrameError::TooLong(length));
        }
        let Some(&kind) = bytes.get(HEADER_BYTES - 1) else { return Ok(None) };
        let kind = FrameKind::from_byte(kind).ok_or(FrameError::UnknownKind(kind))?;
        Ok(Some((kind, length as usize)))
    }
}

/// Why a byte stream is not a valid sequence of frames. The connection cannot be used any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("frame announces {0} bytes, more than the {MAX_PAYLOAD} allowed")]
    TooLong(u32),
    #[error("frame kind {0} is unknown")]
    UnknownKind(u8),
}

/// Cuts a byte stream into frames. Feed it with [`FrameDecoder::push`], then take what is complete.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    taken: usize,
}

impl FrameDecoder {
    /// Appends bytes read from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that may still be pushed before the frame in progress is complete; at least one. A
    /// caller that reads no more than this between two calls keeps the decoder within one frame.
    pub fn wanted(&self) -> usize {
        let pending = &self.buffer[self.taken..];
        match length_of(pending) {
            Some(length) => (HEADER_BYTES + length as usize).saturating_sub(pending.len()).max(1),
            None => HEADER_BYTES - pending.len(),
        }
    }

    /// True if the stream stands between two frames.
    pub fn is_empty(&self) -> bool {
        self.taken == self.buffer.len()
    }

    /// The next complete frame, `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let pending = &self.buffer[self.taken..];
        let Some((kind, length)) = Frame::announced(pending)? else { return Ok(None) };
        let end = HEADER_BYTES + length;
        let Some(payload) = pending.get(HEADER_BYTES..end) else { return Ok(None) };
        let frame = Frame { kind, payload: payload.to_vec() };
        self.taken += end;
        Ok(Some(frame))
    }
}

fn length_of(pending: &[u8]) -> Option<u32> {
    pending.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend_from_slice(&Frame::header(frame.kind, frame.payload.len()));
            bytes.extend_from_slice(&frame.payload);
        }
        bytes
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        (0u8..5, proptest::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(kind, payload)| Frame { kind: FrameKind::from_byte(kind).unwrap(), payload })
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(frames in proptest::collection::vec(any_frame(), 0..20), cut in 1usize..64) {
            let mut decoder = FrameDecoder::default();
            let mut seen = Vec::new();
            for piece in encode(&frames).chunks(cut) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    seen.push(frame);
                }
            }
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn noise_never_panics_nor_grows(noise in proptest::collection::vec(any::<u8>(), 0..4096)) {
            let mut decoder = FrameDecoder::default();
            let mut rest = noise.as_slice();
            while !rest.is_empty() {
                let take = decoder.wanted().min(rest.len());
                decoder.push(&rest[..take]);
                rest = &rest[take..];
                prop_assert!(decoder.buffer.len() <= HEADER_BYTES + MAX_PAYLOAD);
                if decoder.next_frame().is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_its_payload_arrives() {
        let mut decoder = FrameDecoder::default();
        decoder.push(&u32::MAX.to_le_bytes());
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong(u32::MAX)));
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let mut decoder = FrameDecoder::default();
        decoder.push(&[0, 0, 0, 0, 9]);
        assert_eq!(decoder.next_frame(), Err(FrameError::UnknownKind(9)));
    }
}
