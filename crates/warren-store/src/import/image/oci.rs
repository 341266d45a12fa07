use serde::Deserialize;

use super::config::ImageConfig;
use super::members::Members;
use super::{Image, Layer, architecture, check_digest, check_layers, parse};
use crate::digest::Digest;
use crate::import::error::{ImageError, ImportError};
use crate::import::limits::Meter;
use crate::manifest::SourceKind;

const INDEX_TYPES: &[&str] =
    &["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const LAYER_ENDINGS: &[&str] = &[".tar", ".tar+gzip", ".tar+zstd", ".tar.gzip", ".tar.zstd"];
const MAX_NESTING: usize = 4;
const MAX_MANIFESTS: usize = 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    config: Descriptor,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

/// Names a blob. Its `urls` are passed over: nothing is ever fetched for an archive.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: Digest,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

pub(super) fn open(members: &Members, meter: &Meter<'_>) -> Result<Image, ImportError> {
    let index: Index = parse("index.json", &members.document("index.json", meter)?)?;
    let mut found = Vec::new();
    collect(index, members, meter, MAX_NESTING, &mut found)?;
    let manifest_descriptor = match found.as_slice() {
        [] => return Err(ImageError::Platform { architecture: architecture() }.into()),
        [only] => only,
        several => return Err(ImageError::Ambiguous { images: several.len() }.into()),
    };
    let manifest: Manifest = parse("the image manifest", &blob(manifest_descriptor, members, meter)?)?;
    check_layers(manifest.layers.len(), meter)?;
    let config = ImageConfig::read("the image configuration", &blob(&manifest.config, members, meter)?)?;
    let layers = manifest.layers.iter().map(|layer| find_layer(layer, members)).collect::<Result<_, _>>()?;
    Ok(Image {
        kind: SourceKind::OciImage,
        digest: manifest_descriptor.digest.clone(),
        config: config.into_template()?,
        layers,
    })
}

/// Gathers the manifests for this machine. One without a platform counts: many tools leave it out
/// when there is one image.
fn collect(
    index: Index,
    members: &Members,
    meter: &Meter<'_>,
    nesting: usize,
    found: &mut Vec<Descriptor>,
) -> Result<(), ImportError> {
    for descriptor in index.manifests {
        let ours = descriptor
            .platform
            .as_ref()
            .is_none_or(|platform| platform.os == "linux" && platform.architecture == architecture());
        if !ours || found.iter().any(|other| other.digest == descriptor.digest) {
            continue;
        }
        if !INDEX_TYPES.contains(&descriptor.media_type.as_str()) {
            found.push(descriptor);
        } else if nesting == 0 || found.len() > MAX_MANIFESTS {
            return Err(ImageError::Nesting.into());
        } else {
            let inner = parse("an image index", &blob(&descriptor, members, meter)?)?;
            collect(inner, members, meter, nesting - 1, found)?;
        }
    }
    Ok(())
}

/// Reads a document by its digest, and checks that it is the one.
fn blob(descriptor: &Descriptor, members: &Members, meter: &Meter<'_>) -> Result<Vec<u8>, ImportError> {
    let name = blob_name(&descriptor.digest);
    let text = members.document(&name, meter)?;
    check_size(&name, descriptor.size, text.len() as u64)?;
    check_digest(&name, Some(&descriptor.digest), &Digest::of(&text))?;
    Ok(text)
}

fn find_layer(descriptor: &Descriptor, members: &Members) -> Result<Layer, ImageError> {
    if !LAYER_ENDINGS.iter().any(|ending| descriptor.media_type.ends_with(ending)) {
        let media_type = descriptor.media_type.chars().take(200).collect();
        return Err(ImageError::MediaType { media_type });
    }
    let name = blob_name(&descriptor.digest);
    let content = members.get(&name)?;
    check_size(&name, descriptor.size, content.length())?;
    Ok(Layer { name, content, digest: Some(descriptor.digest.clone()) })
}

fn check_size(part: &str, expected: u64, found: u64) -> Result<(), ImageError> {
    if expected == found {
        return Ok(());
    }
    Err(ImageError::SizeMismatch { part: part.to_owned(), expected, found })
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}
