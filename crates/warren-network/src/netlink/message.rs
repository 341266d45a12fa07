//! Messages and their attributes: made, and taken apart again without trust in any length.

use std::net::IpAddr;

/// The header of every message: length, kind, flags, number, sender.
pub(super) const HEADER: usize = 16;
/// The header of every attribute: length and kind.
const ATTRIBUTE: usize = 4;
/// The two highest bits of an attribute's kind are flags.
const KIND: u16 = 0x3fff;
const NESTED: u16 = 0x8000;

/// A message to the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of this kind, `NLM_F_REQUEST` and these flags set, followed by the family's own
    /// header.
    pub(crate) fn new(kind: u16, flags: libc::c_int, header: &[u8]) -> Self {
        let flags = u16::try_from(libc::NLM_F_REQUEST | flags).unwrap_or(u16::MAX);
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        let mut request = Self { bytes };
        request.header(header);
        request
    }

    /// Bytes as they are, filled up to a multiple of four: a family's header, also inside a nest.
    pub(crate) fn header(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.fill();
        self
    }

    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(ATTRIBUTE + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.header(value)
    }

    /// Text with its closing zero.
    pub(crate) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    pub(crate) fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.bytes(kind, &[value])
    }

    pub(crate) fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn u64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn be16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(crate) fn be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(crate) fn be64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(crate) fn address(&mut self, kind: u16, value: IpAddr) -> &mut Self {
        match value {
            IpAddr::V4(address) => self.bytes(kind, &address.octets()),
            IpAddr::V6(address) => self.bytes(kind, &address.octets()),
        }
    }

    /// An attribute made of attributes.
    pub(crate) fn nest(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes(kind | NESTED, &[]);
        inside(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// How long it is so far. A nest longer than 65 535 bytes cannot be written down: whoever fills
    /// one counts.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// All but its length and number, which it has when it is sent.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The whole message, with its length, its number and more flags.
    pub(super) fn finish(mut self, number: u32, flags: libc::c_int) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let own = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]);
        let flags = own | u16::try_from(flags).unwrap_or(0);
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&number.to_ne_bytes());
        self.bytes
    }

    fn fill(&mut self) {
        let length = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(length, 0);
    }
}

/// A message of the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) number: u32,
    /// All after the message's own header: the family's, then attributes.
    pub(crate) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes after a family header of this size.
    pub(crate) fn attributes(&self, header: usize) -> Attributes<'a> {
        Attributes { rest: self.body.get(header..).unwrap_or_default() }
    }
}

/// The messages in what was received.
#[derive(Debug)]
pub(super) struct Messages<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = usize::try_from(u32::from_ne_bytes(self.rest.get(..4)?.try_into().ok()?)).ok()?;
        let whole = self.rest.get(..length).filter(|whole| whole.len() >= HEADER)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([whole[4], whole[5]]),
            flags: u16::from_ne_bytes([whole[6], whole[7]]),
            number: u32::from_ne_bytes([whole[8], whole[9], whole[10], whole[11]]),
            body: &whole[HEADER..],
        })
    }
}

/// Attributes: kind and value of each. What is cut short ends the list.
#[derive(Debug, Clone)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let length = usize::from(u16::from_ne_bytes(self.rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(self.rest.get(2..4)?.try_into().ok()?);
        let value = self.rest.get(ATTRIBUTE..length)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & KIND, value))
    }
}

/// The first attribute of a kind.
pub(crate) fn attribute<'a>(attributes: &Attributes<'a>, kind: u16) -> Option<&'a [u8]> {
    attributes.clone().find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// A value that is text, without its closing zero. `None` if it is no UTF-8.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_again() {
        let mut request = Request::new(24, libc::NLM_F_CREATE, &[7; 5]);
        request.text(3, "eth0").u32(4, 1500).nest(18, |inside| {
            inside.u8(1, 9).be16(2, 0x0102);
        });
        let bytes = request.finish(42, libc::NLM_F_ACK);
        let message = Messages { rest: &bytes }.next().unwrap();
        assert_eq!((message.kind, message.number), (24, 42));
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_CREATE | libc::NLM_F_ACK;
        assert_eq!(i32::from(message.flags), flags);
        let attributes = message.attributes(8);
        assert_eq!(attribute(&attributes, 3).and_then(text), Some("eth0"));
        assert_eq!(attribute(&attributes, 4), Some(&1500_u32.to_ne_bytes()[..]));
        let inside = Attributes::of(attribute(&attributes, 18).unwrap());
        assert_eq!(inside.collect::<Vec<_>>(), [(1, &[9][..]), (2, &[1, 2][..])]);
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn what_is_cut_short_ends_quietly() {
        let mut request = Request::new(1, 0, &[]);
        request.text(3, "a name").u32(4, 7);
        let bytes = request.finish(1, 0);
        for length in 0..bytes.len() {
            assert!(Messages { rest: &bytes[..length] }.next().is_none());
            let cut = bytes.get(HEADER..length).unwrap_or_default();
            assert!(Attributes::of(cut).count() < 2);
        }
        assert_eq!(Attributes::of(&[2, 0, 1, 0, 9, 9]).next(), None, "shorter than its own header");
        assert_eq!(Messages { rest: &[4, 0, 0, 0, 0, 0, 0, 0] }.count(), 0);
    }
}
