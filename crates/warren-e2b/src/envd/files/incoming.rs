//! The bytes of an upload as they arrive.

use std::io::{self, Write as _};
use std::mem;
use std::pin::Pin;

use axum::body::Body;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use warren_face::body::broken_body;

use crate::envd::refusal::Refusal;

/// Bytes that are unpacked at once. They may become a thousand times as many.
const MOUTHFUL: usize = 4096;

/// Pieces of a body, or why there are no more.
pub(super) type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// Why an upload cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the request's body broke off")]
    Broken(#[source] axum::Error),
    #[error("the body is not gzip, or not all of it")]
    Packing(#[source] io::Error),
    #[error("an upload may have up to {0} bytes")]
    TooLong(u64),
    #[error("what stands before a part of the body is longer than {0} bytes")]
    LongHead(usize),
    #[error("the body is not a form as browsers write them: {0}")]
    Form(multer::Error),
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Broken(cause) => broken_body(&cause).into(),
            BodyError::TooLong(_) => Self::new(http::StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
            BodyError::Packing(_) | BodyError::LongHead(_) | BodyError::Form(_) => {
                Self::bad_request(error.to_string())
            }
        }
    }
}

/// True if the body is packed.
pub(super) fn is_packed(headers: &HeaderMap) -> Result<bool, Refusal> {
    let value = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    match value.map(|value| value.trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "identity") => Ok(false),
        Some("gzip") => Ok(true),
        Some(_) => Err(Refusal::bad_request("the content encoding is neither `gzip` nor `identity`")),
    }
}

/// The bytes that are meant, up to so many.
pub(super) fn pieces(body: Body, is_packed: bool, most: u64) -> Pieces {
    let pieces = body.into_data_stream().map_err(BodyError::Broken).boxed();
    let pieces = if is_packed { unpacked(pieces) } else { pieces };
    let mut left = most;
    let counted = pieces.map(move |piece| {
        let piece = piece?;
        left = left.checked_sub(piece.len() as u64).ok_or(BodyError::TooLong(most))?;
        Ok(piece)
    });
    counted.boxed()
}

fn unpacked(pieces: Pieces) -> Pieces {
    let begun = (pieces, Bytes::new(), Some(MultiGzDecoder::new(Vec::new())));
    let unpacked = stream::try_unfold(begun, |(mut pieces, mut rest, decoder)| async move {
        let Some(mut decoder) = decoder else { return Ok(None) };
        loop {
            if rest.is_empty() {
                let Some(more) = pieces.try_next().await? else {
                    decoder.try_finish().map_err(BodyError::Packing)?;
                    let last = Bytes::from(mem::take(decoder.get_mut()));
                    return Ok(Some((last, (pieces, rest, None))));
                };
                rest = more;
            }
            let mouthful = rest.split_to(rest.len().min(MOUTHFUL));
            decoder.write_all(&mouthful).map_err(BodyError::Packing)?;
            let done = mem::take(decoder.get_mut());
            if !done.is_empty() {
                return Ok(Some((Bytes::from(done), (pieces, rest, Some(decoder)))));
            }
        }
    });
    unpacked.boxed()
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    async fn read(body: &[u8], most: u64) -> Result<Vec<u8>, BodyError> {
        let cut = body.chunks(1000).map(|piece| Ok::<_, io::Error>(Bytes::copy_from_slice(piece)));
        let cut: Vec<_> = cut.collect();
        let pieces = pieces(Body::from_stream(stream::iter(cut)), true, most);
        pieces
            .try_fold(Vec::new(), async |mut all, piece| {
                all.extend_from_slice(&piece);
                Ok(all)
            })
            .await
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn what_was_packed_is_unpacked() {
        let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(read(&packed(&bytes), u64::MAX).await.unwrap(), bytes);
        assert_eq!(read(&packed(b""), u64::MAX).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn what_is_cut_or_no_gzip_is_refused() {
        let whole = packed(&[7; 100_000]);
        for wrong in [&whole[..whole.len() - 9], b"plain text", b""] {
            assert!(matches!(read(wrong, u64::MAX).await, Err(BodyError::Packing(_))));
        }
    }

    #[tokio::test]
    async fn what_becomes_too_long_is_refused_on_the_way() {
        let bomb = packed(&vec![0; 10_000_000]);
        assert!(bomb.len() < 100_000);
        assert!(matches!(read(&bomb, 1_000_000).await, Err(BodyError::TooLong(1_000_000))));
    }
}
