//! The documents of an image at a registry. Layers are left to whoever wants them.

use std::io::Read as _;

use serde::Deserialize;
use warren_core::{ImageSource, RegistryError, RegistryErrorKind};

use super::config::ImageConfig;
use super::manifest::{Descriptor, Index, MANIFEST, Manifest, check_layer, check_size, collect};
use super::{architecture, check_digest, check_layers, parse};
use crate::digest::Digest;
use crate::import::error::{ImageError, ImportError};
use crate::import::limits::Meter;
use crate::manifest::TemplateConfig;

const CONFIG: &str = "the image configuration";

/// An image, by its documents.
#[derive(Debug)]
pub(in crate::import) struct Found {
    /// Of its manifest.
    pub(in crate::import) digest: Digest,
    pub(in crate::import) config: TemplateConfig,
    /// Lowest first.
    pub(in crate::import) layers: Vec<WantedLayer>,
}

/// A layer that may not be there yet.
#[derive(Debug)]
pub(in crate::import) struct WantedLayer {
    pub(in crate::import) digest: Digest,
    pub(in crate::import) size: u64,
}

/// The fields by which the two kinds of documents are told apart, whatever either says that it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    schema_version: Option<u64>,
    manifests: Option<Vec<serde::de::IgnoredAny>>,
}

/// Reads the documents of the image for this machine.
pub(in crate::import) fn of_registry(
    source: &dyn ImageSource,
    meter: &Meter<'_>,
) -> Result<Found, ImportError> {
    let text = source.manifest(None).map_err(ImportError::Registry)?;
    let digest = Digest::of(&text);
    if let Some(named) = source.address().digest() {
        let named: Digest = named.parse().map_err(|_| ImageError::NoLayers)?;
        check_digest(MANIFEST, Some(&named), &digest)?;
    }
    let shape: Shape = parse(MANIFEST, &text)?;
    let (digest, text) = match shape {
        Shape { schema_version: Some(1), .. } => return Err(ImageError::Schema1.into()),
        Shape { manifests: Some(_), .. } => chosen(source, parse("the image index", &text)?)?,
        _ => (digest, text),
    };
    let manifest: Manifest = parse(MANIFEST, &text)?;
    check_layers(manifest.layers.len(), meter)?;
    manifest.layers.iter().try_for_each(check_layer)?;
    let config = ImageConfig::read(CONFIG, &document(source, &manifest.config, meter.limits.header_bytes)?)?;
    let layers = manifest.layers.into_iter();
    let layers = layers.map(|layer| WantedLayer { digest: layer.digest, size: layer.size }).collect();
    Ok(Found { digest, config: config.into_template()?, layers })
}

/// The manifest of an index that is for this machine. Where several are, that for all machines of
/// its kind.
fn chosen(source: &dyn ImageSource, index: Index) -> Result<(Digest, Vec<u8>), ImportError> {
    let (found, others) = collect(index, &mut |descriptor| manifest(source, descriptor))?;
    let best = found.iter().find(|descriptor| descriptor.is_plain()).or_else(|| found.first());
    let best = best.ok_or_else(|| ImageError::Platform { architecture: architecture(), found: others })?;
    Ok((best.digest.clone(), manifest(source, best)?))
}

fn manifest(source: &dyn ImageSource, descriptor: &Descriptor) -> Result<Vec<u8>, ImportError> {
    let text = source.manifest(Some(descriptor.digest.as_str())).map_err(ImportError::Registry)?;
    check_digest(MANIFEST, Some(&descriptor.digest), &Digest::of(&text))?;
    Ok(text)
}

/// Reads a blob whole.
fn document(source: &dyn ImageSource, descriptor: &Descriptor, limit: u64) -> Result<Vec<u8>, ImportError> {
    if descriptor.size > limit {
        return Err(ImageError::TooLarge { part: CONFIG.to_owned(), limit }.into());
    }
    let reader = source.blob(descriptor.digest.as_str(), 0).map_err(ImportError::Registry)?;
    let mut text = Vec::new();
    reader.take(descriptor.size + 1).read_to_end(&mut text).map_err(|error| {
        let action = format!("read {CONFIG} of {}", source.address());
        ImportError::Registry(RegistryError::caused(RegistryErrorKind::Unreachable, action, error))
    })?;
    check_size(CONFIG, descriptor.size, text.len() as u64)?;
    check_digest(CONFIG, Some(&descriptor.digest), &Digest::of(&text))?;
    Ok(text)
}
