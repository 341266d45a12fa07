//! The description in an exported history.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use warren_core::{LayerError, LayerId, MOST_LAYERS, SnapshotId, TemplateName};

use super::failure::invalid;
use crate::digest::Digest;

/// The newest format that is read. One that says which content its template has is 2, so that an
/// older Warren refuses it by its number.
const FORMAT: u32 = 2;
const FORMAT_WITHOUT_DIGEST: u32 = 1;
pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const CHECKSUMS: &str = "checksums.json";
pub(super) const MOST_BYTES: u64 = 32 << 20;
const MOST_SNAPSHOTS: usize = 10_000;
const MOST_DISTINCT_LAYERS: usize = 10_000;
const MOST_NAME: usize = 256;

/// The first member of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) format: u32,
    pub(super) template: TemplateName,
    /// The content of that template. Present of images,
    /// whose content has one name everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) template_digest: Option<Digest>,
    /// Each is a member of the archive.
    pub(super) layers: Vec<LayerEntry>,
    /// Parents before their children.
    pub(super) snapshots: Vec<SnapshotEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayerEntry {
    pub(super) id: LayerId,
    pub(super) created_unix_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotEntry {
    pub(super) id: SnapshotId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<SnapshotId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) created_unix_ms: u64,
    /// Positions in the list of layers, the topmost first.
    pub(super) stack: Vec<usize>,
}

/// The last member of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checksums {
    /// By the name of the member.
    pub(super) sha256: BTreeMap<String, Digest>,
}

/// The field that every version of the manifest has.
#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

impl Manifest {
    /// The format that it has to have.
    pub(super) fn format(template_digest: Option<&Digest>) -> u32 {
        if template_digest.is_some() { FORMAT } else { FORMAT_WITHOUT_DIGEST }
    }

    pub(super) fn parse(text: &[u8]) -> Result<Self, LayerError> {
        let malformed = |error| {
            LayerError::caused(
                warren_core::LayerErrorKind::Invalid,
                format!("`{MANIFEST}` of the archive is malformed"),
                error,
            )
        };
        let version: Versioned = serde_json::from_slice(text).map_err(malformed)?;
        if version.format > FORMAT {
            return Err(invalid(format!(
                "the archive has format {} and this version of Warren reads up to {FORMAT}: use a newer Warren",
                version.format
            )));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(malformed)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks that it makes sense: nothing twice, nothing missing, parents first and thus no
    /// circles.
    pub(super) fn check(&self) -> Result<(), LayerError> {
        if self.snapshots.is_empty() {
            return Err(invalid("the history has no snapshots"));
        }
        if self.snapshots.len() > MOST_SNAPSHOTS || self.layers.len() > MOST_DISTINCT_LAYERS {
            return Err(invalid(format!(
                "the history has more than {MOST_SNAPSHOTS} snapshots or {MOST_DISTINCT_LAYERS} layers"
            )));
        }
        let mut layers = HashSet::new();
        if let Some(twice) = self.layers.iter().find(|layer| !layers.insert(&layer.id)) {
            return Err(invalid(format!("the history has {} twice", twice.id)));
        }
        let mut known = HashSet::new();
        for snapshot in &self.snapshots {
            snapshot.check(self.layers.len(), &known)?;
            if !known.insert(&snapshot.id) {
                return Err(invalid(format!("the history has {} twice", snapshot.id)));
            }
        }
        Ok(())
    }
}

impl SnapshotEntry {
    fn check(&self, layers: usize, known: &HashSet<&SnapshotId>) -> Result<(), LayerError> {
        let id = &self.id;
        if self.stack.len() > MOST_LAYERS {
            return Err(invalid(format!("{id} has more than {MOST_LAYERS} layers")));
        }
        let mut distinct = HashSet::new();
        if !self.stack.iter().all(|layer| *layer < layers && distinct.insert(*layer)) {
            return Err(invalid(format!("{id} has a layer twice, or one that the history has not")));
        }
        if self.parent.as_ref().is_some_and(|parent| !known.contains(parent)) {
            return Err(invalid(format!("the parent of {id} does not come before it")));
        }
        let bad = |name: &String| name.len() > MOST_NAME || name.contains(char::is_control);
        if self.name.as_ref().is_some_and(bad) {
            return Err(invalid(format!("the name of {id} is too long or holds control characters")));
        }
        Ok(())
    }
}

/// The name of a layer's member.
pub(super) fn member(layer: &LayerId) -> String {
    format!("layers/{layer}.tar")
}
