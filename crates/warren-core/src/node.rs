use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::{checked_text, is_lower_hex, shorten};
use crate::unique::KeyId;
use crate::world::Deadline;

/// Names one node: a data directory with the sandboxes, snapshots and layers in it. 32 hexadecimal
/// digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId(String);

/// The text is not a node's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a node id: expected 32 digits of 0-9 and a-f")]
pub struct NodeIdError(String);

impl NodeId {
    /// Makes the id of 128 bits that the caller drew at random.
    pub fn from_random(bits: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(bits)))
    }
}

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_lower_hex(text, 32) { Ok(Self(text.to_owned())) } else { Err(NodeIdError(shorten(text))) }
    }
}

checked_text!(NodeId);

/// The catalog's record of a node. Written only by the node itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRecord {
    /// The readings of both clocks at the first start since the machine was switched on.
    pub clock_anchor: Option<Deadline>,
    /// The boot during which snapshots were last looked through for those that a power cut may have
    /// damaged.
    pub snapshots_boot: Option<String>,
    /// The key of commands on the node's own machine.
    pub local_key: Option<KeyId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = NodeId::from_random(255_u128.to_be_bytes());
        assert_eq!(id.as_str(), "000000000000000000000000000000ff");
        assert_eq!(id.as_str().parse(), Ok(id));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "ff", "000000000000000000000000000000FF", "000000000000000000000000000000fg"] {
            assert!(text.parse::<NodeId>().is_err(), "{text}");
        }
    }
}
