//! Container images in an archive: the OCI image layout, and what `docker save` writes.
//!
//! Of an image's configuration only what a process starts with is taken. Labels, annotations and
//! everything else that an image says of itself change nothing: they come from the maker of the
//! image.

mod config;
mod docker;
mod manifest;
mod members;
mod oci;
mod registry;

use std::io::{self, Read};

use serde::de::DeserializeOwned;

use super::Content;
use super::archive::EndMark;
use super::error::{ImageError, ImportError};
use super::extract::{Extractor, Whiteouts};
use super::limits::{LimitExceeded, Meter};
use super::pull::Arriving;
use super::stream::{Section, Tallied};
use crate::digest::Digest;
use crate::manifest::{SourceKind, TemplateConfig};

use members::Members;

pub(super) use registry::{Found, of_registry};

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
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) content: LayerBytes,
    /// Unknown only for old `docker save` archives with compressed layers.
    pub(super) digest: Option<Digest>,
}

/// The bytes of a layer, as they were packed.
#[derive(Debug, Clone)]
pub(super) enum LayerBytes {
    Here(Section),
    Arriving(Arriving),
}

impl LayerBytes {
    fn length(&self) -> u64 {
        match self {
            Self::Here(section) => section.length(),
            Self::Arriving(arriving) => arriving.length(),
        }
    }
}

impl Read for LayerBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Here(section) => section.read(buffer),
            Self::Arriving(arriving) => arriving.read(buffer),
        }
    }
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
    /// An image whose layers were found.
    pub(super) fn of(found: &Found, layers: Vec<Layer>) -> Self {
        let (digest, config) = (found.digest.clone(), found.config.clone());
        Self { kind: SourceKind::OciImage, digest, config, layers }
    }

    /// Applies the layers in order, each checked against its digest.
    pub(super) fn apply(self, extractor: &mut Extractor<'_, '_>) -> Result<Content, ImportError> {
        self.apply_each(extractor, |_, outcome| outcome)
    }

    /// As [`apply`](Self::apply), and `each` says what becomes of a layer that was applied and
    /// checked, or could not be.
    pub(super) fn apply_each(
        self,
        extractor: &mut Extractor<'_, '_>,
        mut each: impl FnMut(&Layer, Result<(), ImportError>) -> Result<(), ImportError>,
    ) -> Result<Content, ImportError> {
        extractor.meter.expect(self.layers.iter().map(|layer| layer.content.length()).sum());
        for layer in &self.layers {
            let outcome = layer.apply(extractor);
            each(layer, outcome)?;
        }
        Ok(Content { kind: self.kind, digest: self.digest, config: self.config })
    }
}

impl Layer {
    fn apply(&self, extractor: &mut Extractor<'_, '_>) -> Result<(), ImportError> {
        let content = self.content.clone();
        let found = match extractor.archive(content, Whiteouts::Applied, EndMark::Optional) {
            Ok(found) => found,
            Err(error) => return Err(self.explain(error, extractor)),
        };
        Ok(check_digest(&self.name, self.digest.as_ref(), &found)?)
    }

    /// A layer that cannot be read is most often one that was damaged on its way here: then that is
    /// the error to tell.
    fn explain(&self, error: ImportError, extractor: &Extractor<'_, '_>) -> ImportError {
        if !matches!(error, ImportError::Archive(_) | ImportError::Read(_)) {
            return error;
        }
        match Tallied::new(self.content.clone(), extractor.meter).finish() {
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

/// A platform as people write it. What an image says of itself may be anything.
fn platform(os: Option<&str>, architecture: Option<&str>) -> String {
    let word = |text: Option<&str>| {
        text.unwrap_or("unknown").chars().take(40).flat_map(char::escape_default).collect::<String>()
    };
    format!("{}/{}", word(os), word(architecture))
}

/// This machine's architecture, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
