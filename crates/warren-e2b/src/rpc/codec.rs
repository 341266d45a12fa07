use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message that can be sent and received: it has both encodings.
pub trait Message: prost::Message + Default + Serialize + DeserializeOwned {}

impl<M: prost::Message + Default + Serialize + DeserializeOwned> Message for M {}

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Json,
    Binary,
}

/// A call with one message each way, or with streams of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    Stream,
}

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("the message is not a JSON object")]
    NoObject,
    #[error("the message cannot be read as JSON: {0}")]
    Json(#[source] serde_json::Error),
    #[error("the message cannot be read as protobuf: {0}")]
    Binary(#[source] prost::DecodeError),
}

impl Codec {
    /// Reads a content type. Parameters such as a charset are ignored.
    pub fn of(content_type: &str) -> Option<(Self, Form)> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        let known = [Self::Json, Self::Binary]
            .into_iter()
            .flat_map(|codec| [Form::Plain, Form::Stream].into_iter().map(move |form| (codec, form)));
        known.into_iter().find(|(codec, form)| is(codec.content_type(*form)))
    }

    /// The content type of requests and of answers.
    pub fn content_type(self, form: Form) -> &'static str {
        match (self, form) {
            (Self::Json, Form::Plain) => "application/json",
            (Self::Json, Form::Stream) => "application/connect+json",
            (Self::Binary, Form::Plain) => "application/proto",
            (Self::Binary, Form::Stream) => "application/connect+proto",
        }
    }

    /// Reads a message. Unknown fields are ignored.
    pub fn decode<M: Message>(self, bytes: Bytes) -> Result<M, DecodeError> {
        match self {
            // Records would be read from lists as well.
            Self::Json if bytes.trim_ascii_start().first() != Some(&b'{') => Err(DecodeError::NoObject),
            Self::Json => serde_json::from_slice(&bytes).map_err(DecodeError::Json),
            Self::Binary => M::decode(bytes).map_err(DecodeError::Binary),
        }
    }

    /// Writes a message behind what is there.
    pub fn encode<M: Message>(self, message: &M, into: &mut BytesMut) {
        let before = into.len();
        let written = match self {
            Self::Json => serde_json::to_writer(into.writer(), message).is_ok(),
            Self::Binary => message.encode(into).is_ok(),
        };
        // Neither can fail: memory takes everything, and no message has keys or numbers that JSON
        // does not know.
        if !written {
            into.truncate(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_told_apart() {
        assert_eq!(Codec::of("application/json"), Some((Codec::Json, Form::Plain)));
        assert_eq!(Codec::of("Application/JSON; charset=utf-8"), Some((Codec::Json, Form::Plain)));
        assert_eq!(Codec::of("application/connect+json"), Some((Codec::Json, Form::Stream)));
        assert_eq!(Codec::of("application/proto"), Some((Codec::Binary, Form::Plain)));
        assert_eq!(Codec::of("application/connect+proto"), Some((Codec::Binary, Form::Stream)));
        for other in ["", "text/plain", "application/grpc", "application/jsonx", "application/connect+jsonx"]
        {
            assert_eq!(Codec::of(other), None, "{other}");
        }
    }
}
