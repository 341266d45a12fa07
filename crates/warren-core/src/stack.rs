use serde::{Deserialize, Serialize};

use crate::unique::LayerId;

/// The layers of a state, the topmost first. Empty: the template as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stack(pub Vec<LayerId>);

impl Stack {
    /// The same with one more layer on top.
    #[must_use]
    pub fn with(&self, layer: LayerId) -> Self {
        let mut layers = Vec::with_capacity(self.0.len() + 1);
        layers.push(layer);
        layers.extend_from_slice(&self.0);
        Self(layers)
    }

    pub fn depth(&self) -> usize {
        self.0.len()
    }
}

/// Room on a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub bytes: u64,
    pub inodes: u64,
}
