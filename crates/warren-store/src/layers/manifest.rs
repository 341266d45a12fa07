//! `manifest.json`: what makes a directory a layer. It is written once, when all else is in place,
//! and is small enough to be checked whole on every first read: a power cut may have torn it, and a
//! newer Warren may have written it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use warren_core::{LayerError, LayerErrorKind, LayerId, SandboxId};

use super::failure::failed;
use crate::digest::Digest;

const FORMAT: u32 = 1;
const MAX_BYTES: u64 = 64 << 10;
/// More writable trees than any root has.
const MAX_TREES: usize = 64;
pub(super) const FILE_NAME: &str = "manifest.json";

/// The facts about a layer. The order of the fields is that of the file, and the checksum covers
/// all that precede it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: u32,
    pub(super) layer: LayerId,
    pub(super) sandbox: Option<SandboxId>,
    pub(super) created_unix_ms: u64,
    /// For which of a root's trees it has an `upper-<n>`, in order.
    pub(super) trees: Vec<u32>,
    /// Of the manifest without this field, as compact JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<Digest>,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManifestError {
    #[error("there is no manifest")]
    Absent,
    #[error("read the manifest")]
    Read(#[source] io::Error),
    #[error("the manifest is larger than any that was written")]
    TooLarge,
    #[error("the manifest is no JSON of the right form")]
    Malformed(#[source] serde_json::Error),
    #[error(
        "the manifest has format {format} and this version of Warren reads up to {FORMAT}: use a newer Warren"
    )]
    NewerFormat { format: u32 },
    #[error("the manifest does not have the checksum that it names")]
    Checksum,
    #[error("the manifest is that of {0}")]
    OtherLayer(LayerId),
    #[error("the manifest lists trees that no layer has")]
    Trees,
}

/// The field that every version of the file has, read first so that a newer one is refused by its
/// number and not by its fields.
#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

impl Manifest {
    pub(super) fn new(
        layer: LayerId,
        sandbox: Option<SandboxId>,
        created_unix_ms: u64,
        mut trees: Vec<u32>,
    ) -> Self {
        trees.sort_unstable();
        Self { format: FORMAT, layer, sandbox, created_unix_ms, trees, checksum: None }
    }

    pub(super) fn read(directory: BorrowedFd<'_>, layer: &LayerId) -> Result<Self, ManifestError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(directory, FILE_NAME, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Err(ManifestError::Absent),
            Err(error) => return Err(ManifestError::Read(error.into())),
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(ManifestError::Read)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(ManifestError::TooLarge);
        }
        Self::parse(&text, layer)
    }

    fn parse(text: &[u8], layer: &LayerId) -> Result<Self, ManifestError> {
        let version: Versioned = serde_json::from_slice(text).map_err(ManifestError::Malformed)?;
        if version.format > FORMAT {
            return Err(ManifestError::NewerFormat { format: version.format });
        }
        let mut manifest: Self = serde_json::from_slice(text).map_err(ManifestError::Malformed)?;
        let checksum = manifest.checksum.take().ok_or(ManifestError::Checksum)?;
        if manifest.digest().map_err(ManifestError::Malformed)? != checksum {
            return Err(ManifestError::Checksum);
        }
        if manifest.layer != *layer {
            return Err(ManifestError::OtherLayer(manifest.layer));
        }
        if manifest.trees.len() > MAX_TREES || !manifest.trees.is_sorted_by(|before, after| before < after) {
            return Err(ManifestError::Trees);
        }
        Ok(manifest)
    }

    /// Puts the manifest into the layer's directory: a reader sees all of it or none.
    pub(super) fn write(&self, directory: BorrowedFd<'_>) -> Result<(), LayerError> {
        let layer = &self.layer;
        let text = self
            .text()
            .map_err(|error| LayerError::caused(LayerErrorKind::Host, format!("describe {layer}"), error))?;
        replace(directory, FILE_NAME, &text).map_err(failed(format!("write the manifest of {layer}")))
    }

    fn text(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Self { checksum: Some(self.digest()?), ..self.clone() })
    }

    fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(&serde_json::to_vec(&Self { checksum: None, ..self.clone() })?))
    }
}

impl ManifestError {
    pub(super) fn of(self, layer: &LayerId) -> LayerError {
        let (kind, action) = match &self {
            Self::Absent => return LayerError::new(LayerErrorKind::NotFound, format!("there is no {layer}")),
            Self::Read(_) => (LayerErrorKind::Host, format!("read {layer}")),
            Self::NewerFormat { .. } => {
                (LayerErrorKind::Invalid, format!("{layer} was made by a newer Warren: use that one"))
            }
            _ => (LayerErrorKind::Damaged, format!("{layer} is damaged")),
        };
        LayerError::caused(kind, action, self)
    }
}

/// Writes a small file whole under another name, then gives it its own.
pub(super) fn replace(directory: BorrowedFd<'_>, name: &str, content: &[u8]) -> io::Result<()> {
    let unfinished = format!("{name}.new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &unfinished, flags, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(content)?;
    Ok(rustix::fs::renameat(directory, &unfinished, directory, name)?)
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
