//! Container images in an archive: the OCI image layout, and what `docker save` writes.
//!
//! Of an image's configuration only what a process starts with is taken. Labels, annotations and
//! everything else that an image says of itself change nothing: they come from the maker of the
//! image.

mod config;
mod docker;
mod members;
mod oci;

use serde::de::DeserializeOwned;

use super::Content;
use super::archive::EndMark;
use super::error::{ImageError, ImportError};
use super::extract::{Extractor, Whiteouts};
use super::limits::{LimitExceeded, Meter};
use super::stream::{Section, Tallied};
use crate::digest::Digest;
use crate::manifest::{SourceKind, TemplateConfig};

use members::Members;

const HEX: usize = 64;

/// An image whose documents were read and whose layers were found.
#[derive(Debug)]
pub(super) struct Image {
    kind: SourceKind,
    digest: Digest,
    config: TemplateConfig,
    layers: Vec<Layer>,
}

/// One layer, lowest first.
#[derive(Debug)]
struct Layer {
    name: String,
    content: Section,
    /// Unknown only for old `docker save` archives with compressed layers.
    digest: Option<Digest>,
}

/// True if an archive whose first entry has this name may be an image: its root directory holds
/// nothing but these.
pub(super) fn starts_with(name: &[u8]) -> bool {
    let first = name.split(|byte| *byte == b'/').next().unwrap_or_default();
    let stem = first.split(|byte| *byte == b'.').next().unwrap_or_default();
    let known: [&[u8]; 5] = [b"blobs", b"index.json", b"manifest.json", b"oci-layout", b"repositories"];
    known.contains(&first) || (stem.len() == HEX && stem.iter().all(u8::is_ascii_hexdigit))
}

/// Reads the image in an archive; none where there is no image in it.
pub(super) fn open(archive: &Section, meter: &Meter<'_>) -> Result<Option<Image>, ImportError> {
    let members = Members::read(archive, meter)?;
    let image = if members.has("oci-layout") && members.has("index.json") {
        oci::open(&members, meter)?
    } else if members.has("manifest.json") {
        docker::open(&members, meter)?
    } else {
        return Ok(None);
    };
    Ok(Some(image))
}

impl Image {
    /// Applies the layers in order, each checked against its digest.
    pub(super) fn apply(self, extractor: &mut Extractor<'_, '_>) -> Result<Content, ImportError> {
        extractor.meter.expect(self.layers.iter().map(|layer| layer.content.length()).sum());
        for layer in self.layers {
            let content = layer.content.clone();
            let found = match extractor.archive(content, Whiteouts::Applied, EndMark::Optional) {
                Ok(found) => found,
                Err(error) => return Err(layer.explain(error, extractor)),
            };
            check_digest(&layer.name, layer.digest.as_ref(), &found)?;
        }
        Ok(Content { kind: self.kind, digest: self.digest, config: self.config })
    }
}

impl Layer {
    /// A layer that cannot be read is most often one that was damaged on its way here: then that is
    /// the error to tell.
    fn explain(self, error: ImportError, extractor: &Extractor<'_, '_>) -> ImportError {
        if !matches!(error, ImportError::Archive(_) | ImportError::Read(_)) {
            return error;
        }
        match Tallied::new(self.content, extractor.meter).finish() {
            Ok(found) => {
                check_digest(&self.name, self.digest.as_ref(), &found).map_or_else(Into::into, |()| error)
            }
            Err(_) => error,
        }
    }
}

fn check_layers(layers: usize, meter: &Meter<'_>) -> Result<(), ImportError> {
    let limit = meter.limits.layers;
    match layers {
        0 => Err(ImageError::NoLayers.into()),
        layers if layers > limit => Err(LimitExceeded::Layers { layers, limit }.into()),
        _ => Ok(()),
    }
}

fn check_digest(part: &str, expected: Option<&Digest>, found: &Digest) -> Result<(), ImageError> {
    match expected {
        Some(expected) if expected != found => Err(ImageError::DigestMismatch {
            part: part.to_owned(),
            expected: expected.clone(),
            found: found.clone(),
        }),
        _ => Ok(()),
    }
}

fn parse<T: DeserializeOwned>(part: &str, text: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(text).map_err(|source| ImageError::Malformed { part: part.to_owned(), source })
}

/// This machine's architecture, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
