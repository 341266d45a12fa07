use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::{checked_text, shorten};

/// The text is not an id of the kind that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what} id: expected `{prefix}` and a lower-case uuid")]
pub struct UniqueIdError {
    what: &'static str,
    prefix: &'static str,
    text: String,
}

macro_rules! unique_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Makes the id of 128 bits that the caller drew at random.
            pub fn from_random(bits: [u8; 16]) -> Self {
                Self(format!("{}{}", $prefix, uuid(bits)))
            }
        }

        impl FromStr for $name {
            type Err = UniqueIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text.strip_prefix($prefix) {
                    Some(rest) if is_uuid(rest) => Ok(Self(text.to_owned())),
                    _ => Err(UniqueIdError { what: $what, prefix: $prefix, text: shorten(text) }),
                }
            }
        }

        checked_text!($name);
    };
}

unique_id!(
    /// Names one session: `sess-` and a uuid.
    SessionId, "session", "sess-"
);
unique_id!(
    /// Names one recorded run: `run-` and a uuid.
    RunId, "run", "run-"
);
unique_id!(
    /// Names one API key, without telling it: `key-` and a uuid.
    KeyId, "key", "key-"
);
unique_id!(
    /// Names one snapshot: `snap-` and a uuid.
    SnapshotId, "snapshot", "snap-"
);
unique_id!(
    /// Names one layer: `layer-` and a uuid.
    LayerId, "layer", "layer-"
);
unique_id!(
    /// Names one build of an image: a uuid.
    BuildId, "build", ""
);

/// A version 4 uuid in lower case.
fn uuid(mut bits: [u8; 16]) -> String {
    bits[6] = bits[6] & 0x0f | 0x40;
    bits[8] = bits[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bits.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}

fn is_uuid(text: &str) -> bool {
    let dash = |index| matches!(index, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match byte {
            b'-' => dash(index),
            b'0'..=b'9' | b'a'..=b'f' => !dash(index),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_round_trips_and_is_of_version_four() {
        let id = SessionId::from_random([255; 16]);
        assert_eq!(id.as_str(), "sess-ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.as_str().parse(), Ok(id));
    }

    #[test]
    fn ids_of_another_kind_and_shape_are_refused() {
        for text in [
            "",
            "sess-",
            "run-ffffffff-ffff-4fff-bfff-ffffffffffff",
            "sess-FFFFFFFF-ffff-4fff-bfff-ffffffffffff",
        ] {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
        let text = "run-x".parse::<RunId>().unwrap_err().to_string();
        assert_eq!(text, "`run-x` is not a run id: expected `run-` and a lower-case uuid");
    }
}
