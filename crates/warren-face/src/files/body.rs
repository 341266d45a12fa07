use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use warren_engine::{EngineError, FileReader};

/// The bytes that are read before the answer's head is written. Files of the kernel lie about their
/// size, and a file that fits has the size that was read.
const PEEK: usize = 64 * 1024;

/// A file's bytes on their way out.
#[derive(Debug)]
pub struct Outgoing {
    peeked: Vec<Bytes>,
    peeked_bytes: u64,
    /// Where the rest comes from, if there is more.
    rest: Option<FileReader>,
}

impl Outgoing {
    /// Begins to read.
    pub async fn open(mut reader: FileReader) -> Result<Self, EngineError> {
        let (mut peeked, mut peeked_bytes) = (Vec::new(), 0);
        while peeked_bytes < PEEK {
            let Some(bytes) = reader.next().await? else {
                return Ok(Self { peeked, peeked_bytes: peeked_bytes as u64, rest: None });
            };
            peeked_bytes += bytes.len();
            peeked.push(bytes);
        }
        Ok(Self { peeked, peeked_bytes: peeked_bytes as u64, rest: Some(reader) })
    }

    /// True if all of it has been read already.
    pub fn is_complete(&self) -> bool {
        self.rest.is_none()
    }

    /// How many bytes there are, given how many the file's size promised.
    pub fn length(&self, promised: u64) -> u64 {
        match self.rest {
            Some(_) => promised.max(self.peeked_bytes),
            None => self.peeked_bytes,
        }
    }

    /// A body of exactly this many bytes. A file that shrinks meanwhile breaks it off; what one
    /// grows by is left out.
    pub fn into_body(self, length: u64) -> Body {
        let rest = stream::unfold(self.rest, |reader| async {
            let mut reader = reader?;
            match reader.next().await {
                Ok(bytes) => bytes.map(|bytes| (Ok(bytes), Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        });
        let bytes = stream::iter(self.peeked.into_iter().map(Ok)).chain(rest);
        Body::from_stream(bytes.scan(length, |left, bytes| std::future::ready(cut(left, bytes))))
    }
}

/// Takes from what is left; `None` once nothing is.
fn cut(left: &mut u64, bytes: Result<Bytes, EngineError>) -> Option<Result<Bytes, EngineError>> {
    if *left == 0 {
        return None;
    }
    Some(bytes.map(|mut bytes| {
        bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= bytes.len() as u64;
        bytes
    }))
}
