//! Documents that lead to an image's layers, wherever they lie.

use serde::Deserialize;

use super::{architecture, parse, platform};
use crate::digest::Digest;
use crate::import::error::{ImageError, ImportError};

/// A manifest, as errors name it.
pub(super) const MANIFEST: &str = "the image manifest";
const INDEX_TYPES: &[&str] =
    &["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const LAYER_ENDINGS: &[&str] = &[".tar", ".tar+gzip", ".tar+zstd", ".tar.gzip", ".tar.zstd"];
const MAX_NESTING: usize = 4;
const MAX_MANIFESTS: usize = 1024;
/// Other machines that an error names.
const MAX_TOLD: usize = 16;

/// Images for several machines.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    #[serde(default)]
    pub(super) manifests: Vec<Descriptor>,
}

/// One image.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) config: Descriptor,
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
}

/// Names a blob. Its `urls` are passed over: nothing is ever fetched from where an image says.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
    variant: Option<String>,
}

/// Gathers the manifests for this machine, and the names of the other machines that there are
/// some for. One without a platform counts: many tools leave it out when there is one image.
pub(super) fn collect(
    index: Index,
    blob: &mut dyn FnMut(&Descriptor) -> Result<Vec<u8>, ImportError>,
) -> Result<(Vec<Descriptor>, Vec<String>), ImportError> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    collect_within(index, blob, MAX_NESTING, &mut found, &mut others)?;
    Ok((found, others))
}

fn collect_within(
    index: Index,
    blob: &mut dyn FnMut(&Descriptor) -> Result<Vec<u8>, ImportError>,
    nesting: usize,
    found: &mut Vec<Descriptor>,
    others: &mut Vec<String>,
) -> Result<(), ImportError> {
    for descriptor in index.manifests {
        let ours = descriptor
            .platform
            .as_ref()
            .is_none_or(|platform| platform.os == "linux" && platform.architecture == architecture());
        if !ours {
            let platform = descriptor.platform.as_ref().map(Platform::name);
            others.extend(platform.filter(|name| others.len() < MAX_TOLD && !others.contains(name)));
            continue;
        }
        if found.iter().any(|other| other.digest == descriptor.digest) {
            continue;
        }
        if !INDEX_TYPES.contains(&descriptor.media_type.as_str()) {
            found.push(descriptor);
        } else if nesting == 0 || found.len() > MAX_MANIFESTS {
            return Err(ImageError::Nesting.into());
        } else {
            let inner = parse("an image index", &blob(&descriptor)?)?;
            collect_within(inner, blob, nesting - 1, found, others)?;
        }
    }
    Ok(())
}

impl Platform {
    fn name(&self) -> String {
        platform(Some(&self.os), Some(&self.architecture))
    }
}

impl Descriptor {
    /// It is for any machine of this kind, not only for newer ones.
    pub(super) fn is_plain(&self) -> bool {
        self.platform
            .as_ref()
            .is_none_or(|platform| platform.variant.as_deref().unwrap_or_default().is_empty())
    }
}

/// Refuses layers that are none.
pub(super) fn check_layer(descriptor: &Descriptor) -> Result<(), ImageError> {
    if LAYER_ENDINGS.iter().any(|ending| descriptor.media_type.ends_with(ending)) {
        return Ok(());
    }
    Err(ImageError::MediaType { media_type: descriptor.media_type.chars().take(200).collect() })
}

pub(super) fn check_size(part: &str, expected: u64, found: u64) -> Result<(), ImageError> {
    if expected == found {
        return Ok(());
    }
    Err(ImageError::SizeMismatch { part: part.to_owned(), expected, found })
}
