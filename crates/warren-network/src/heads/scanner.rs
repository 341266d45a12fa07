/// A connection that begins with this speaks HTTP/2, of which nothing here is true.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The longest name that means anything here.
const LONGEST_NAME: usize = 17;

const VERSION: usize = 8;

/// The first byte that may not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of what came last: {wrong}")]
pub struct Flaw {
    /// Counted from the beginning of what was fed last. What stands before it may be passed on.
    pub at: usize,
    pub wrong: FlawKind,
}

/// A mistake in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FlawKind {
    #[error("a line must end with CR LF")]
    LineEnd,
    #[error("a control character")]
    Control,
    #[error("no HTTP/1 request line")]
    RequestLine,
    #[error("a header's line begins with a space")]
    Fold,
    #[error("a header's name")]
    Name,
    #[error("the header Host must be there once, and not empty")]
    Host,
    #[error("the header Content-Length must be one number, and there once")]
    Length,
    #[error("the header Transfer-Encoding must be `chunked`, there once, and of HTTP/1.1")]
    Encoding,
    #[error("Content-Length beside Transfer-Encoding")]
    Both,
    #[error("the size of a chunk")]
    Chunk,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Scanner {
    place: Place,
    message: Message,
    /// Set if other code checks the `Host` header, and reports mistakes in it.
    leaves_hosts: bool,
}

/// Where in a message the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// So many bytes of the connection were those of HTTP/2's beginning.
    Preface(usize),
    /// Before a request line, of which blank lines are no part.
    Start,
    StartLf,
    RequestLine,
    RequestLf,
    LineStart(Section),
    LastLf(Section),
    Name(Section),
    Value(Section),
    ValueLf(Section),
    Body(u64),
    ChunkFirst,
    ChunkSize(u64),
    ChunkLf(u64),
    ChunkData(u64),
    ChunkEnd,
    ChunkEndLf,
    /// Nothing here is HTTP/1 any more.
    Over,
}

/// Lines of headers stand in two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Head,
    Trailer,
}

/// The facts about the message so far.
#[derive(Debug, Clone, Copy, Default)]
struct Message {
    /// The last bytes of the request line.
    tail: [u8; VERSION],
    name: [u8; LONGEST_NAME],
    /// Of a longer name the length alone is right.
    name_length: usize,
    value: Value,
    hosts: usize,
    host_is_empty: bool,
    length: Option<u64>,
    chunked: bool,
}

/// The value that is being read, of which only some headers' matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Value {
    #[default]
    Any,
    Host {
        empty: bool,
    },
    Length {
        digits: Option<u64>,
        ended: bool,
    },
    Encoding {
        matched: usize,
        ended: bool,
    },
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// At the beginning of a connection.
    pub fn new() -> Self {
        Self { place: Place::Preface(0), message: Message::default(), leaves_hosts: false }
    }

    /// The same, for a connection of which somebody else judges the hosts.
    pub fn leaving_hosts() -> Self {
        Self { leaves_hosts: true, ..Self::new() }
    }

    /// Stops scanning: the rest of the connection is not HTTP/1.
    pub fn stop(&mut self) {
        self.place = Place::Over;
    }

    /// True if it has stopped scanning.
    pub fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// Reads on. After a flaw there is no use in it.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Flaw> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.place {
                Place::Over => return Ok(()),
                Place::Body(left) => {
                    let (step, left) = skip(rest, left);
                    self.place = if left == 0 { Place::Start } else { Place::Body(left) };
                    at += step;
                }
                Place::ChunkData(left) => {
                    let (step, left) = skip(rest, left);
                    self.place = if left == 0 { Place::ChunkEnd } else { Place::ChunkData(left) };
                    at += step;
                }
                _ => {
                    self.byte(rest[0]).map_err(|wrong| Flaw { at, wrong })?;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8) -> Result<(), FlawKind> {
        self.place = match (self.place, byte) {
            (Place::Preface(matched), _) => return self.preface(matched, byte),
            (Place::Start, b'\r') => Place::StartLf,
            (Place::StartLf, b'\n') => Place::Start,
            (Place::Start, b'\n') | (Place::RequestLine, b'\n') => return Err(FlawKind::LineEnd),
            (Place::Start, _) => {
                self.message = Message::default();
                self.message.line(byte)?;
                Place::RequestLine
            }
            (Place::RequestLine, b'\r') => {
                self.message.check_version()?;
                Place::RequestLf
            }
            (Place::RequestLine, _) => {
                self.message.line(byte)?;
                Place::RequestLine
            }
            (Place::RequestLf, b'\n') => Place::LineStart(Section::Head),
            (Place::LineStart(section), b'\r') => Place::LastLf(section),
            (Place::LineStart(_), b'\n') => return Err(FlawKind::LineEnd),
            (Place::LineStart(_), b' ' | b'\t') => return Err(FlawKind::Fold),
            (Place::LineStart(section), _) => {
                self.message.name_length = 0;
                self.message.name(byte)?;
                Place::Name(section)
            }
            (Place::LastLf(Section::Head), b'\n') => {
                if !self.leaves_hosts {
                    self.message.check_host()?;
                }
                self.message.body()?
            }
            (Place::LastLf(Section::Trailer), b'\n') => Place::Start,
            (Place::Name(section), b':') => {
                self.message.begin_value(section);
                Place::Value(section)
            }
            (Place::Name(section), _) => {
                self.message.name(byte)?;
                Place::Name(section)
            }
            (Place::Value(section), b'\r') => Place::ValueLf(section),
            (Place::Value(_), b'\n') => return Err(FlawKind::LineEnd),
            (Place::Value(section), _) => {
                self.message.value(byte)?;
                Place::Value(section)
            }
            (Place::ValueLf(section), b'\n') => {
                self.message.end_value()?;
                Place::LineStart(section)
            }
            (Place::ChunkFirst, _) => Place::ChunkSize(digit(byte)?),
            (Place::ChunkSize(size), b'\r') => Place::ChunkLf(size),
            (Place::ChunkSize(size), _) => {
                let more = size.checked_mul(16).ok_or(FlawKind::Chunk)?;
                Place::ChunkSize(more | digit(byte)?)
            }
            (Place::ChunkLf(0), b'\n') => Place::LineStart(Section::Trailer),
            (Place::ChunkLf(size), b'\n') => Place::ChunkData(size),
            (Place::ChunkEnd, b'\r') => Place::ChunkEndLf,
            (Place::ChunkEndLf, b'\n') => Place::ChunkFirst,
            (Place::Body(_) | Place::ChunkData(_) | Place::Over, _) => return Ok(()),
            (Place::ChunkEnd, _) => return Err(FlawKind::Chunk),
            (
                Place::StartLf
                | Place::RequestLf
                | Place::LastLf(_)
                | Place::ValueLf(_)
                | Place::ChunkLf(_)
                | Place::ChunkEndLf,
                _,
            ) => return Err(FlawKind::LineEnd),
        };
        Ok(())
    }

    /// Until a byte is another's, it may be either protocol. Then those before it are read as what
    /// they are.
    fn preface(&mut self, matched: usize, byte: u8) -> Result<(), FlawKind> {
        if PREFACE.get(matched) == Some(&byte) {
            let whole = matched + 1 == PREFACE.len();
            self.place = if whole { Place::Over } else { Place::Preface(matched + 1) };
            return Ok(());
        }
        self.place = Place::Start;
        PREFACE[..matched].iter().try_for_each(|byte| self.byte(*byte))?;
        self.byte(byte)
    }
}

fn skip(rest: &[u8], left: u64) -> (usize, u64) {
    let step = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
    (step, left - step as u64)
}

fn digit(byte: u8) -> Result<u64, FlawKind> {
    char::from(byte).to_digit(16).map(u64::from).ok_or(FlawKind::Chunk)
}

fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl Message {
    fn line(&mut self, byte: u8) -> Result<(), FlawKind> {
        if byte.is_ascii_control() {
            return Err(FlawKind::Control);
        }
        self.tail.rotate_left(1);
        self.tail[VERSION - 1] = byte;
        Ok(())
    }

    fn check_version(&self) -> Result<(), FlawKind> {
        match &self.tail {
            b"HTTP/1.1" | b"HTTP/1.0" => Ok(()),
            _ => Err(FlawKind::RequestLine),
        }
    }

    fn is_new(&self) -> bool {
        self.tail == *b"HTTP/1.1"
    }

    fn name(&mut self, byte: u8) -> Result<(), FlawKind> {
        if !is_token(byte) {
            return Err(FlawKind::Name);
        }
        if let Some(place) = self.name.get_mut(self.name_length) {
            *place = byte.to_ascii_lowercase();
        }
        self.name_length = self.name_length.saturating_add(1);
        Ok(())
    }

    fn begin_value(&mut self, section: Section) {
        let name = self.name.get(..self.name_length).filter(|_| section == Section::Head);
        self.value = match name {
            Some(b"host") => Value::Host { empty: true },
            Some(b"content-length") => Value::Length { digits: None, ended: false },
            Some(b"transfer-encoding") => Value::Encoding { matched: 0, ended: false },
            _ => Value::Any,
        };
    }

    fn value(&mut self, byte: u8) -> Result<(), FlawKind> {
        if is_control(byte) {
            return Err(FlawKind::Control);
        }
        let space = matches!(byte, b' ' | b'\t');
        match &mut self.value {
            Value::Any => {}
            Value::Host { empty } => *empty &= space,
            Value::Length { digits, ended } if space => *ended = digits.is_some(),
            Value::Length { digits, ended: false } => {
                let digit = char::from(byte).to_digit(10).map(u64::from);
                let more = digits.unwrap_or_default().checked_mul(10);
                let sum = more.zip(digit).and_then(|(more, digit)| more.checked_add(digit));
                *digits = Some(sum.ok_or(FlawKind::Length)?);
            }
            Value::Length { ended: true, .. } => return Err(FlawKind::Length),
            Value::Encoding { matched, ended } if space => *ended = *matched > 0,
            Value::Encoding { matched, ended: false }
                if b"chunked".get(*matched) == Some(&byte.to_ascii_lowercase()) =>
            {
                *matched += 1;
            }
            Value::Encoding { .. } => return Err(FlawKind::Encoding),
        }
        Ok(())
    }

    fn end_value(&mut self) -> Result<(), FlawKind> {
        match self.value {
            Value::Any => {}
            Value::Host { empty } => {
                self.hosts += 1;
                self.host_is_empty = empty;
            }
            Value::Length { digits, .. } => {
                let length = digits.ok_or(FlawKind::Length)?;
                if self.length.replace(length).is_some() {
                    return Err(FlawKind::Length);
                }
            }
            Value::Encoding { matched, .. } => {
                if matched != b"chunked".len() || self.chunked || !self.is_new() {
                    return Err(FlawKind::Encoding);
                }
                self.chunked = true;
            }
        }
        Ok(())
    }

    /// HTTP/1.0 knows no hosts; who names one all the same names one.
    fn check_host(&self) -> Result<(), FlawKind> {
        match self.hosts {
            0 if !self.is_new() => Ok(()),
            1 if !self.host_is_empty || !self.is_new() => Ok(()),
            _ => Err(FlawKind::Host),
        }
    }

    /// The place in the message after the head.
    fn body(&self) -> Result<Place, FlawKind> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(FlawKind::Both),
            (true, None) => Ok(Place::ChunkFirst),
            (false, Some(length)) if length > 0 => Ok(Place::Body(length)),
            (false, _) => Ok(Place::Start),
        }
    }
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
