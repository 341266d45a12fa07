use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;

use super::{Codec, ErrorBody, Message};

/// Flags and length.
const HEADER: usize = 5;
const COMPRESSED: u8 = 0x01;
const END_OF_STREAM: u8 = 0x02;

/// One message of a stream, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// It says how the stream ended instead of carrying a message.
    pub end: bool,
    pub payload: Bytes,
}

/// Why a stream cannot be cut into envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("a message has {size} bytes, and no more than {most} may")]
    TooLarge { size: usize, most: usize },
    #[error("a message is compressed, and compression was not agreed on")]
    Compressed,
    #[error("a message has flags that nobody knows: {flags:#04x}")]
    Flags { flags: u8 },
    #[error("the stream broke off inside a message")]
    Truncated,
}

/// Cuts a stream into envelopes, however it arrives. Holds at most one message and what came with
/// it.
#[derive(Debug)]
pub struct Envelopes {
    arrived: BytesMut,
    most: usize,
}

impl Envelopes {
    /// For messages of at most so many bytes.
    pub fn new(most: usize) -> Self {
        Self { arrived: BytesMut::new(), most }
    }

    /// Takes what arrived. Every envelope should be taken out before more is put in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// The next one that is complete.
    pub fn next_envelope(&mut self) -> Result<Option<Envelope>, EnvelopeError> {
        let Some(header) = self.arrived.first_chunk::<HEADER>() else { return Ok(None) };
        let [flags, length @ ..] = *header;
        if flags & !(COMPRESSED | END_OF_STREAM) != 0 {
            return Err(EnvelopeError::Flags { flags });
        }
        if flags & COMPRESSED != 0 {
            return Err(EnvelopeError::Compressed);
        }
        let size = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if size > self.most {
            return Err(EnvelopeError::TooLarge { size, most: self.most });
        }
        if self.arrived.len() - HEADER < size {
            return Ok(None);
        }
        self.arrived.advance(HEADER);
        let payload = self.arrived.split_to(size).freeze();
        Ok(Some(Envelope { end: flags & END_OF_STREAM != 0, payload }))
    }

    /// Nothing more arrives: whether anything is missing.
    pub fn finish(&self) -> Result<(), EnvelopeError> {
        if self.arrived.is_empty() { Ok(()) } else { Err(EnvelopeError::Truncated) }
    }
}

/// Writes a message of a stream behind what is there.
pub fn write_envelope<M: Message>(codec: Codec, message: &M, into: &mut BytesMut) {
    enclose(0, into, |into| codec.encode(message, into));
}

/// Writes how a stream ended: well, if there is no error. It is JSON in either encoding.
pub fn write_end(error: Option<&ErrorBody>, into: &mut BytesMut) {
    #[derive(Serialize)]
    struct End<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorBody>,
    }
    enclose(END_OF_STREAM, into, |into| {
        // Memory takes everything.
        serde_json::to_writer(into.writer(), &End { error }).ok();
    });
}

fn enclose(flags: u8, into: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    into.put_u8(flags);
    let length_at = into.len();
    into.put_u32(0);
    let payload_at = into.len();
    write(into);
    // No message comes near four gigabytes: what is put into one is bounded far below.
    let size = u32::try_from(into.len() - payload_at).unwrap_or(u32::MAX);
    into[length_at..payload_at].copy_from_slice(&size.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::Code;
    use super::*;

    const MOST: usize = 100;

    fn cut(pieces: &[&[u8]]) -> Result<Vec<Envelope>, EnvelopeError> {
        let mut envelopes = Envelopes::new(MOST);
        let mut all = Vec::new();
        for piece in pieces {
            envelopes.push(piece);
            while let Some(envelope) = envelopes.next_envelope()? {
                all.push(envelope);
            }
        }
        envelopes.finish().map(|()| all)
    }

    #[test]
    fn a_stream_is_cut_wherever_it_was_torn() {
        let message = Envelope { end: false, payload: Bytes::from_static(b"{}") };
        let end = Envelope { end: true, payload: Bytes::new() };
        let whole = cut(&[b"\0\0\0\0\x02{}\x02\0\0\0\0"]);
        assert_eq!(whole, Ok(vec![message.clone(), end.clone()]));
        assert_eq!(cut(&[b"\0\0\0", b"\0\x02{", b"}\x02\0\0", b"\0\0"]), Ok(vec![message, end]));
        assert_eq!(cut(&[]), Ok(vec![]));
    }

    #[test]
    fn what_breaks_the_rules_is_refused_before_it_is_read() {
        assert_eq!(cut(&[b"\0\0\0\0\x65"]), Err(EnvelopeError::TooLarge { size: 101, most: MOST }));
        assert_eq!(
            cut(&[b"\0\xff\xff\xff\xff"]),
            Err(EnvelopeError::TooLarge { size: 0xffff_ffff, most: MOST })
        );
        assert_eq!(cut(&[b"\x01\0\0\0\0"]), Err(EnvelopeError::Compressed));
        assert_eq!(cut(&[b"\x82\0\0\0\0"]), Err(EnvelopeError::Flags { flags: 0x82 }));
        assert_eq!(cut(&[b"\0\0\0\0\x02{"]), Err(EnvelopeError::Truncated));
        assert_eq!(cut(&[b"\0"]), Err(EnvelopeError::Truncated));
    }

    #[test]
    fn an_end_says_how_it_went() {
        let mut bytes = BytesMut::new();
        write_end(None, &mut bytes);
        assert_eq!(&bytes[..], b"\x02\0\0\0\x02{}");
        bytes.clear();
        let error = ErrorBody { code: Code::NotFound, message: "gone".to_owned() };
        write_end(Some(&error), &mut bytes);
        assert_eq!(bytes[0], END_OF_STREAM);
        assert_eq!(&bytes[5..], br#"{"error":{"code":"not_found","message":"gone"}}"#);
        assert_eq!(usize::from(bytes[4]), bytes.len() - 5);
    }
}
